"""The law of S + sqrt(Delta) Z, Z a GOE matrix of unit variance: free convolution with a semicircle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError, NumericsError
from aimtheory.scalars import Scalar
from aimtheory.spectra.band_quadrature import BandQuadrature, BoundaryValues, NoisySpectrum
from aimtheory.spectra.cumulants import moments_from_free_cumulants
from aimtheory.spectra.law import FloatArray, Interval, SpectralLaw, check_count, positive_scalar, to_float
from aimtheory.spectra.semicircle import GOE


@dataclass(frozen=True)
class SemicircleConvolution(SpectralLaw):
    """Law of ``S + sqrt(Delta) Z``, ``Delta = variance`` > 0: ``mu_S boxplus semicircle(Delta)``.

    Wishart in closed form, GOE in closed form, every other law by subordination. No branch of an algebraic equation is
    ever chosen, so the density is >= 0 and integrates to 1 within 1e-12. For a Wishart law the Stieltjes transform
    solves ``c t Delta g^3 - (c t z + Delta) g^2 + (z + t (c - 1)) g - 1 = 0`` and decays at infinity ([B]).

    >>> from aimtheory.spectra import Wishart
    >>> law = SemicircleConvolution(Wishart(1), 1)
    >>> law.moments(2)
    (Fraction(1, 1), Fraction(3, 1))
    >>> round(float(law.density(1.0)), 6)
    0.237097
    """

    law: SpectralLaw
    variance: Scalar

    def __post_init__(self) -> None:
        if not isinstance(self.law, SpectralLaw):
            raise InputError(f"law = {self.law!r} is not a SpectralLaw; give for instance Wishart(width=1)")
        object.__setattr__(self, "variance", positive_scalar(self.variance, "variance"))

    @cached_property
    def _spectrum(self) -> NoisySpectrum:
        return self.law.noisy_spectrum(to_float(self.variance, "variance"))

    def free_cumulants(self, count: int) -> tuple[Scalar, ...]:
        """Those of S with Delta added to kappa_2; exact when both are."""
        cumulants = list(self.law.free_cumulants(check_count(count)))
        if count >= 2:
            cumulants[1] = cumulants[1] + self.variance
        return tuple(cumulants)

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """Through the free cumulants."""
        return moments_from_free_cumulants(self.free_cumulants(count))

    @property
    def support(self) -> tuple[Interval, ...]:
        """The bands, ascending."""
        return self._spectrum.bands

    @property
    def quadrature(self) -> BandQuadrature:
        """A spectrally accurate rule over the bands, with density, denoiser and potential at its nodes."""
        return self._spectrum.quadrature

    def _boundary(self, points: ArrayLike) -> BoundaryValues:
        x = np.asarray(points, dtype=np.float64)
        if not np.all(np.isfinite(x)):
            raise InputError("a point at which the spectrum was asked for is NaN or infinite")
        return self._spectrum.boundary(x)

    def density(self, points: ArrayLike) -> FloatArray:
        """f(x), same shape as ``points``; exactly 0 off the bands."""
        return np.maximum(-self._boundary(points).stieltjes.imag / math.pi, 0.0)

    def hilbert_transform(self, points: ArrayLike) -> FloatArray:
        """``h(x) = PV int f(y) / (x - y) dy = Re g(x + i0)`` (pi times the usual Hilbert transform)."""
        return np.asarray(self._boundary(points).stieltjes.real)

    def potential(self, points: ArrayLike) -> FloatArray:
        """``U(x) = int log|x - y| f(y) dy``; its derivative is h(x)."""
        return self._boundary(points).potential

    def denoise(self, points: ArrayLike) -> FloatArray:
        """``D(x) = x - 2 Delta h(x)``: the Bayes-optimal eigenvalue of S given x of S + sqrt(Delta) Z."""
        return self._boundary(points).denoised

    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``g(z)``: g_S(w) with w the solution of ``w + Delta g_S(w) = z`` in the half plane of z; boundary value
        g(x + i0) at real z. Followed from large Im z by Newton, each step checked; ``NumericsError`` if it fails.
        """
        z = np.asarray(points, dtype=np.complex128)
        flat = z.ravel()
        result = np.empty(flat.shape, dtype=np.complex128)
        real = flat.imag == 0
        if np.any(real):
            result[real] = self._boundary(flat[real].real).stieltjes
        if np.any(~real):
            upper = np.where(flat.imag < 0, np.conj(flat), flat)[~real]
            g = self.law.stieltjes(self._subordinate(upper))
            result[~real] = np.where(flat[~real].imag < 0, np.conj(g), g)
        return result.reshape(z.shape)

    def _subordinate(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        noise = to_float(self.variance, "variance")
        w = z.copy()
        # The map w -> z - Delta g_S(w) takes {Im w >= Im z} into itself and contracts it; Aitken's step speeds it up.
        for _ in range(10000):
            one = z - noise * self.law.stieltjes(w)
            two = z - noise * self.law.stieltjes(one)
            bend = two - 2 * one + w
            moved = np.abs(two - w) > 1e-15 * np.abs(w)
            if not np.any(moved):
                return w
            fast = w - np.divide((one - w) ** 2, bend, out=np.zeros_like(w), where=bend != 0)
            better = (fast.imag >= z.imag) & (bend != 0) & (np.abs(fast - two) < np.abs(two - w))
            w = np.where(moved, np.where(better, fast, two), w)
        residual = np.abs(w + noise * self.law.stieltjes(w) - z)
        if np.any(residual > 1e-10 * (1 + np.abs(z))):
            raise NumericsError(f"the subordination equation stalled at residual {residual.max():.2g}; raise Im z")
        return w

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """``S + sqrt(Delta) Z`` with S and Z sampled independently, S first."""
        return self.law.sample(dim, rng) + GOE(self.variance).sample(dim, rng)


__all__ = ["SemicircleConvolution"]
