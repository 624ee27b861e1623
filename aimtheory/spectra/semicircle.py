"""The Gaussian orthogonal ensemble and its semicircle law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.scalars import Scalar
from aimtheory.spectra.cumulants import exact_sqrt, moments_from_free_cumulants
from aimtheory.spectra.law import (
    FloatArray,
    Interval,
    JacobiCoefficients,
    SpectralLaw,
    check_count,
    check_dimension,
    positive_scalar,
    to_float,
)
from aimtheory.spectra.semicircle_spectrum import SemicircleSpectrum


@dataclass(frozen=True)
class GOE(SpectralLaw):
    """Gaussian orthogonal ensemble with ``tr S^2 = s``: off-diagonal variance s/d, diagonal 2s/d; the semicircle.

    Only ``kappa_2 = s``; Jacobi ``a_n = 0, b_n = sqrt(s)``; support ``[-2 sqrt s, 2 sqrt s]``. Source: Wigner.

    >>> GOE(variance=1).moments(6)
    (Fraction(0, 1), Fraction(1, 1), Fraction(0, 1), Fraction(2, 1), Fraction(0, 1), Fraction(5, 1))
    """

    law_name: ClassVar[str] = "goe"

    variance: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive_scalar(self.variance, "variance"))

    def free_cumulants(self, count: int) -> tuple[Scalar, ...]:
        """``kappa_2 = s``, all others 0."""
        return tuple(self.variance if n == 2 else Fraction(0) for n in range(1, check_count(count) + 1))

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``m_{2k} = C_k s^k`` with the Catalan numbers, odd moments 0."""
        return moments_from_free_cumulants(self.free_cumulants(count))

    def jacobi(self, count: int) -> JacobiCoefficients:
        """``a_n = 0, b_n = sqrt(s)``."""
        count = check_count(count)
        return JacobiCoefficients((Fraction(0),) * count, (exact_sqrt(self.variance),) * count)

    @property
    def support(self) -> tuple[Interval, ...]:
        """``[-2 sqrt s, 2 sqrt s]``."""
        radius = 2 * math.sqrt(to_float(self.variance, "variance"))
        return ((-radius, radius),)

    def density(self, points: ArrayLike) -> FloatArray:
        """``sqrt(4s - x^2) / (2 pi s)``."""
        x = np.asarray(points, dtype=np.float64)
        variance = to_float(self.variance, "variance")
        return np.sqrt(np.maximum(4 * variance - x**2, 0.0)) / (2 * math.pi * variance)

    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``g = (z - sqrt(z^2 - 4s)) / 2s`` on the branch that vanishes at infinity."""
        z = np.asarray(points, dtype=np.complex128)
        radius = self.support[0][1]
        return 2.0 / (z + np.sqrt(z - radius) * np.sqrt(z + radius))

    def noisy_spectrum(self, noise: float) -> SemicircleSpectrum:
        """A semicircle of variance ``s + noise``."""
        return SemicircleSpectrum(to_float(self.variance, "variance"), noise)

    def noisy_mmse(self, precision: FloatArray) -> FloatArray:
        """``s/(1 + s qhat)``."""
        variance = to_float(self.variance, "variance")
        return variance / (1 + variance * precision)

    def noisy_information(self, precision: FloatArray) -> FloatArray:
        """``log(1 + s qhat)/4``."""
        return np.asarray(0.25 * np.log1p(to_float(self.variance, "variance") * precision))

    @property
    def has_fast_denoiser(self) -> bool:
        """True."""
        return True

    @property
    def is_gaussian(self) -> bool:
        """True."""
        return True

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """``(X + X^T) sqrt(s / 2d)`` with X standard Gaussian; E tr S^2 = s (1 + 1/d)."""
        entries = rng.standard_normal((check_dimension(dim), dim))
        return (entries + entries.T) * math.sqrt(to_float(self.variance, "variance") / (2 * dim))


__all__ = ["GOE"]
