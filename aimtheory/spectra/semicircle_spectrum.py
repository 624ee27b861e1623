"""The spectrum of a GOE matrix seen through Gaussian noise: again a semicircle."""

from __future__ import annotations

import math

import numpy as np

from aimtheory.spectra.band_quadrature import BandQuadrature, BoundaryValues
from aimtheory.spectra.law import FloatArray, Interval


class SemicircleSpectrum:
    """GOE of variance s plus noise Delta: a semicircle of variance s + Delta."""

    def __init__(self, variance: float, noise: float) -> None:
        self.variance, self.noise = variance, noise
        self.total = variance + noise

    @property
    def bands(self) -> tuple[Interval, ...]:
        """``[-2 sqrt(s + Delta), 2 sqrt(s + Delta)]``."""
        radius = 2 * math.sqrt(self.total)
        return ((-radius, radius),)

    @property
    def quadrature(self) -> BandQuadrature:
        """Gauss-Chebyshev of the second kind, 64 nodes."""
        count = 64
        theta = np.pi * np.arange(count, 0, -1) / (count + 1)
        x = 2 * math.sqrt(self.total) * np.cos(theta)
        density = np.sin(theta) / (math.pi * math.sqrt(self.total))
        return BandQuadrature(
            points=x,
            weights=2 * math.sqrt(self.total) * np.sin(theta) * np.pi / (count + 1),
            density=density,
            denoised=self.variance / self.total * x,
            posterior_variance=np.full(count, self.variance * self.noise / self.total),
            potential=x**2 / (4 * self.total) + 0.5 * math.log(self.total) - 0.5,
        )

    def boundary(self, points: FloatArray) -> BoundaryValues:
        """``g = (x - sqrt(x^2 - 4v)) / 2v`` with v = s + Delta."""
        x = np.asarray(points, dtype=np.float64)
        v = self.total
        square = x**2 - 4 * v
        outside = np.sqrt(np.maximum(square, 0.0))
        real = np.where(square > 0, np.sign(x) * 2 / (np.abs(x) + outside), x / (2 * v))
        g = real - 1j * np.sqrt(np.maximum(-square, 0.0)) / (2 * v)
        potential = np.where(
            square > 0, 0.5 * v * real**2 - np.log(np.abs(real)), x**2 / (4 * v) + 0.5 * math.log(v) - 0.5
        )
        return BoundaryValues(g, x - 2 * self.noise * real, potential)


__all__ = ["SemicircleSpectrum"]
