"""Quadrature over the support of a noisy spectrum, carrying what denoising needs at every node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aimtheory.spectra.law import FloatArray, Interval


@dataclass(frozen=True, eq=False)
class BandQuadrature:
    """Nodes on the bands of mu = law(S) boxplus semicircle(Delta); the last axis runs over nodes, others over noise.

    ``sum(weights * density * h(points))`` is the integral of h against mu. ``denoised`` is the posterior mean
    ``E[t | x]`` of an eigenvalue of S, ``posterior_variance`` its variance under the overlap kernel
    ``Delta mu_S(dt) / |w - t|^2``, and ``potential`` is ``U(x) = int log|x - y| f(y) dy``.
    """

    points: FloatArray
    weights: FloatArray
    density: FloatArray
    denoised: FloatArray
    posterior_variance: FloatArray
    potential: FloatArray

    def row(self, index: int | NDArray[np.bool_]) -> BandQuadrature:
        """The rule of one noise level (an integer) or of several (a mask)."""
        return BandQuadrature(**{name: getattr(self, name)[index] for name in _FIELDS})

    def scaled(self, factor: float) -> BandQuadrature:
        """The rule of the matrix times ``factor`` > 0."""
        return BandQuadrature(
            points=self.points * factor,
            weights=self.weights * factor,
            density=self.density / factor,
            denoised=self.denoised * factor,
            posterior_variance=self.posterior_variance * factor**2,
            potential=self.potential + math.log(factor),
        )

    def integrate(self, values: FloatArray) -> FloatArray:
        """``int values(x) mu(dx)``: sum over the last axis of weights * density * values."""
        return np.asarray(np.sum(self.weights * self.density * values, axis=-1))

    @property
    def mass(self) -> FloatArray:
        """``int f``, 1 up to the error of the quadrature."""
        return self.integrate(np.ones_like(self.points))

    @property
    def cubic_density(self) -> FloatArray:
        """``int f^3 dx``."""
        return self.integrate(self.density**2)

    @property
    def log_energy(self) -> FloatArray:
        """``int int log|x - y| f(x) f(y) dx dy``."""
        return self.integrate(self.potential)

    @property
    def mmse(self) -> FloatArray:
        """``E Var(t | x)``, a sum of positive terms; equals ``Delta - (4 pi^2/3) Delta^2 int f^3``."""
        return self.integrate(self.posterior_variance)


_FIELDS = ("points", "weights", "density", "denoised", "posterior_variance", "potential")


@dataclass(frozen=True, eq=False)
class BoundaryValues:
    """What the noisy spectrum is at real points x: ``stieltjes = g(x + i0) = h - i pi f``, D and U."""

    stieltjes: NDArray[np.complex128]
    denoised: FloatArray
    potential: FloatArray

    def scaled(self, factor: float) -> BoundaryValues:
        """The values for the matrix times ``factor`` > 0."""
        return BoundaryValues(self.stieltjes / factor, self.denoised * factor, self.potential + math.log(factor))


class NoisySpectrum(Protocol):
    """Numerics of one law plus semicircular noise of one variance."""

    @property
    def bands(self) -> tuple[Interval, ...]:
        """The intervals of the support, ascending."""

    @property
    def quadrature(self) -> BandQuadrature:
        """A rule over the bands, 1-d arrays."""

    def boundary(self, points: FloatArray) -> BoundaryValues:
        """Boundary values at real points."""


@lru_cache(maxsize=64)
def gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, 1), read-only."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = 0.5 * (nodes + 1), 0.5 * weights
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


HALF_PI = 0.5 * math.pi

__all__ = ["BandQuadrature", "BoundaryValues", "NoisySpectrum"]
