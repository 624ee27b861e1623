"""Bayes-optimal denoising of a rectangular matrix: R = S + sqrt(Delta) Z, Z a d x delta d matrix of entries N(0, 1/d).

With m(x), P(x) of R as in ``rectangular_law``, ``m = 1 + Delta P + R_S(P)`` and ``x P = m (m + delta - 1)``, so that x
is a rational function of P and the density of x = y^2, y the singular values of R, is ``-Im m/(pi x)``. Per d:

    denoiser   y -> y Im R_S(P)/Im m = y - (Delta/y) (delta - 1 + 2 Re m)        (singular vectors are kept)
    MMSE       = Delta delta - int (y - xi(y))^2 rho(y) dy                        (lim E ||S - E[S|R]||_F^2 / d)
    I          = (delta - 1) int log y rho + (1/2) int int log|y^2 - t^2| rho rho + (delta/2) log(1/Delta) - E_1
                                                                                  (lim I(S; R)/d^2)
    dI/d(1/Delta) = MMSE/2,     E_1 the first two terms of Z itself.

Source: ours, after Bun, Allez, Bouchaud and Potters (2016); denoiser as in Troiani et al. (2022). Derivation 18.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import polynomial as poly
from numpy.typing import ArrayLike, NDArray

from aimtheory.arrays import real_array
from aimtheory.errors import InputError, NumericsError
from aimtheory.frozen import Uncached
from aimtheory.spectra.law import FloatArray, Interval, to_float
from aimtheory.spectra.rectangular_law import RectangularLaw

ComplexArray = NDArray[np.complex128]

_RULES = (
    *((count, False, 3e-13) for count in (48, 96, 192, 384)),
    *((count, True, 1e-11) for count in (400, 800)),
    *((count, False, 1e-9) for count in (1536, 6144)),
)
"""Nodes a band, whether double exponential, and the error of mass and second moment that is small enough by then."""

_TRUSTED = 1e-6


@dataclass(frozen=True)
class NoisySingularValues(Uncached):
    """Singular values of S + sqrt(Delta) Z: bands, density, denoiser, MMSE and information; ``noise`` = Delta > 0.

    >>> from aimtheory.spectra import RectangularGinibre
    >>> spectrum = NoisySingularValues(RectangularGinibre(aspect=2, variance=1), noise=0.5)
    >>> round(spectrum.mmse, 12)                            # delta s Delta/(s + Delta)
    0.666666666667
    """

    law: RectangularLaw
    noise: float

    def __post_init__(self) -> None:
        if not isinstance(self.law, RectangularLaw):
            raise InputError(
                f"law = {self.law!r} must be a RectangularLaw, e.g. RectangularFactors(width='1/2', aspect=2)"
            )
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise InputError(f"noise = {self.noise!r} must be finite and > 0 (the variance Delta)")

    @cached_property
    def _constants(self) -> tuple[float, float, float, float, float]:
        """``(delta, Delta, s, rho, t)`` of R, or of its transpose if delta < 1, in units of its entries' variance."""
        delta, noise = to_float(self.law.aspect, "aspect"), self.noise
        s, rho, t = self.law.coefficients
        if delta < 1:
            delta, noise, s, rho, t = 1 / delta, noise * delta, s * delta, rho / delta, t * delta**2
        total = noise + s + rho * t
        return delta, noise / total, s / total, rho, t / total

    @property
    def _noisy(self) -> bool:
        """True where the pole 1/t lies far beyond the roots that matter, which are at most of order sqrt(delta)."""
        return self._constants[-1] * math.sqrt(self._constants[0]) < 0.05

    @property
    def _rows(self) -> float:
        """The smaller dimension by d."""
        return min(1.0, to_float(self.law.aspect, "aspect"))

    @cached_property
    def _unit(self) -> float:
        """The variance of an entry of R times the smaller dimension: y^2 in the units of ``_constants``."""
        second = to_float(self.law.second_moment, "second moment")
        return (second / to_float(self.law.aspect, "aspect") + self.noise) * self._rows

    @cached_property
    def _rational(self) -> tuple[FloatArray, FloatArray]:
        """Numerator and denominator of x(P), coefficients ascending."""
        delta, noise, s, rho, t = self._constants
        line = np.array([1.0, -t])
        m = poly.polyadd(poly.polymul([1.0, noise + s], line), [0.0, rho * t])
        top = np.asarray(poly.polymul(m, poly.polyadd(m, (delta - 1) * line)), dtype=np.float64)
        return top, np.asarray(poly.polymul([0.0, 1.0], poly.polymul(line, line)), dtype=np.float64)

    @cached_property
    def _bands_and_turns(self) -> tuple[tuple[Interval, ...], tuple[float, ...]]:
        """The bands, and where within them a turning point is near the axis: two bands that have just merged."""
        top = self._rational[0]
        t = self._constants[-1]
        # x'(P) = 0 times P^2 (1 - t P)^3, so that the pole is no root.
        turning = poly.polysub(poly.polymul(poly.polyder(top), [0.0, 1.0, -t]), poly.polymul(top, [1.0, -3 * t]))
        roots = _roots_of_many(np.asarray(turning[None], dtype=np.float64), self._noisy)[0]
        real = roots.real[np.abs(roots.imag) <= 1e-7 * np.abs(roots)]
        if self._noisy:
            # One band, whose outer edge lies long before the pole.
            real = real[t * real < 0.3]
        delta, noise, own, rho, _ = self._constants
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(3):
                # Newton on x'(P) = 0, not expanded: (2m + delta - 1) m' P = m (m + delta - 1).
                pole = 1 - t * real
                m, rise = 1 + (noise + own) * real + rho * t * real / pole, noise + own + rho * t / pole**2
                bend = 2 * rho * t**2 / pole**3
                step = (rise * (2 * m + delta - 1) * real - m * (m + delta - 1)) / real
                step /= bend * (2 * m + delta - 1) + 2 * rise**2
                real = np.where(np.abs(step) < 0.1 * np.abs(real), real - step, real)
            m = 1 + (noise + own) * real + rho * t * real / (1 - t * real)
            # A square matrix has the turning point m = 0 at x = 0, which is no edge of its own.
            values = np.where((delta == 1) & (np.abs(m) < 1e-6), 0.0, m * (m + delta - 1) / real)
        bent = roots[np.abs(roots.imag) > 1e-7 * np.abs(roots)]
        m_bent = 1 + (noise + own) * bent + rho * t * bent / (1 - t * bent)
        turns = m_bent * (m_bent + delta - 1) / bent
        edges = np.unique(values[np.isfinite(values) & (values > 0)])
        if self._constants[0] == 1:
            edges = np.append(0.0, edges)
        found: list[Interval] = []
        for low, high in itertools.pairwise(edges):
            if high - low <= 1e-12 * high or not self._complex(np.array([0.5 * (low + high)]))[1][0]:
                continue
            if found and found[-1][1] == low:
                low = found.pop()[0]
            found.append((float(low), float(high)))
        if not found:
            raise NumericsError(f"no band of singular values was found for {self.law!r} at noise {self.noise:.6g}")
        near = turns[np.abs(turns.imag) < 0.3 * turns.real].real
        return tuple(found), tuple(sorted({float(value) for value in near}))

    @property
    def _bands(self) -> tuple[Interval, ...]:
        return self._bands_and_turns[0]

    def _complex(self, x: FloatArray) -> tuple[ComplexArray, NDArray[np.bool_]]:
        """P(x + i0) in the lower half plane, and whether x lies in a band: the quartic has one complex pair there."""
        top, bottom = self._rational
        degree = len(top) - 1
        coefficients = np.zeros((len(x), degree + 1))
        coefficients[:, : len(bottom)] += x[:, None] * bottom
        coefficients -= top
        roots = _roots_of_many(coefficients, self._noisy)
        size = np.abs(roots)
        # Roots at the pole are lost in rounding there.
        near = size * self._constants[-1] < 0.3 if self._noisy else np.ones(size.shape, dtype=bool)
        place = np.argmin(np.where(near, roots.imag / np.maximum(size, 1e-300), 1.0), axis=1)
        p = roots[np.arange(len(x)), place]
        delta, noise, own, rho, t = self._constants
        for _ in range(4):
            # Newton on m (m + delta - 1) = x P, not expanded.
            pole = 1 - t * p
            m = 1 + (noise + own) * p + rho * t * p / pole
            slope = (2 * m + delta - 1) * (noise + own + rho * t / pole**2) - x
            step = (m * (m + delta - 1) - x * p) / np.where(slope != 0, slope, 1.0)
            p = np.where(np.abs(step) < 0.1 * np.abs(p.imag), p - step, p)
        return p, -p.imag > 1e-10 * np.abs(p)

    def _values(self, p: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """m, and the ratio Im R_S / Im m of denoised to noisy singular values."""
        _, noise, s, rho, t = self._constants
        m = 1 + (noise + s) * p + rho * t * p / (1 - t * p)
        # Im [t P/(1 - t P)] = t Im P/|1 - t P|^2: both ratios without cancellation.
        own = s + rho * t / np.abs(1 - t * p) ** 2
        return m, own / (own + noise)

    @cached_property
    def _rule(self) -> tuple[FloatArray, FloatArray, ComplexArray, FloatArray, float]:
        """x, the weights f(x) dx, m, denoising ratios and the error of mass and second moment."""
        delta = self._constants[0]
        best: tuple[FloatArray, FloatArray, ComplexArray, FloatArray, float] | None = None
        for count, rough, enough in _RULES:
            pieces = self._rough_rules(count) if rough else [self._band_rule(band, count) for band in self._bands]
            x, weight, m, ratio = (np.concatenate([piece[k] for piece in pieces]) for k in range(4))
            error = abs(float(weight.sum()) - 1) + abs(float((weight * x).sum()) / delta - 1)
            if best is None or error < best[-1]:
                best = x, weight, m, ratio, error
            if best[-1] <= enough:
                break
        assert best is not None
        if best[-1] > _TRUSTED:
            raise NumericsError(
                f"the singular values of {self.law!r} with noise {self.noise:.6g} are not resolved: their mass is "
                f"off by {best[-1]:.2g}"
            )
        return best

    def _band_rule(self, band: Interval, count: int) -> tuple[FloatArray, FloatArray, ComplexArray, FloatArray]:
        low, high = band
        angle = (np.arange(count) + 0.5) / count
        if low == 0:
            phi = 0.5 * math.pi * angle
            x = high * np.sin(phi) ** 2
            jacobian = high * np.sin(2 * phi) * (0.5 * math.pi / count)
        else:
            # In log x a lower edge near 0 is no near singularity.
            half = 0.5 * math.log(high / low)
            x = math.sqrt(low * high) * np.exp(-half * np.cos(math.pi * angle))
            jacobian = x * half * np.sin(math.pi * angle) * (math.pi / count)
        p, _ = self._complex(x)
        m, ratio = self._values(p)
        return x, np.maximum(-m.imag, 0.0) / (math.pi * x) * jacobian, m, ratio

    def _rough_rules(self, count: int) -> list[tuple[FloatArray, FloatArray, ComplexArray, FloatArray]]:
        """Double exponential rules between edges and turning points: for bands that touch, or a hard edge at 0."""
        s = np.linspace(-4.0, 4.0, count)
        stretched = 0.5 * math.pi * np.sinh(s)
        u = 1 / (1 + np.exp(-2 * stretched))
        share = 0.25 * math.pi * np.cosh(s) / np.cosh(stretched) ** 2 * (s[1] - s[0])
        rules = []
        for low, high in self._bands:
            inner = [turn for turn in self._bands_and_turns[1] if low < turn < high]
            for left, right in itertools.pairwise([low, *inner, high]):
                # From the nearer end, so that no distance to it is lost in rounding.
                x = np.where(s < 0, left + (right - left) * u, right - (right - left) * u[::-1])
                p, _ = self._complex(np.maximum(x, 1e-300))
                m, ratio = self._values(p)
                weight = np.maximum(-m.imag, 0.0) / math.pi * (right - left) * share / np.maximum(x, 1e-300)
                rules.append((x, weight, m, ratio))
        return rules

    @property
    def bands(self) -> tuple[Interval, ...]:
        """Intervals of the positive singular values y of R, ascending."""
        return tuple((math.sqrt(low * self._unit), math.sqrt(high * self._unit)) for low, high in self._bands)

    @property
    def error(self) -> float:
        """Relative error of the rule: that of the total mass and of the second moment, which are known."""
        return self._rule[-1]

    def density(self, points: ArrayLike) -> FloatArray:
        """Density of the min(1, delta) d positive singular values of R, of mass 1, at y > 0; 0 off the bands."""
        y = real_array(points, "points")
        x = np.maximum(y.ravel() ** 2 / self._unit, 1e-300)
        p, inside = self._complex(x)
        m, _ = self._values(p)
        value = np.where(inside & (y.ravel() > 0), -2 * m.imag / (math.pi * np.sqrt(x * self._unit)), 0.0)
        return value.reshape(y.shape)

    def denoise(self, points: ArrayLike) -> FloatArray:
        """The optimal singular value of S given y of R; beyond the bands with the ratio at the nearest edge."""
        y = real_array(points, "points")
        return np.asarray(y * self.ratio(y))

    def ratio(self, points: ArrayLike) -> FloatArray:
        """``xi(y)/y``, between 0 and 1."""
        y = real_array(points, "points")
        x = y.ravel() ** 2 / self._unit
        nearest = np.empty_like(x)
        distance = np.full(x.shape, np.inf)
        for low, high in self._bands:
            inset = 1e-9 * (high - low)
            clipped = np.clip(x, low + inset, high - inset)
            closer = np.abs(clipped - x) < distance
            nearest[closer], distance[closer] = clipped[closer], np.abs(clipped - x)[closer]
        return self._values(self._complex(nearest)[0])[1].reshape(y.shape)

    @property
    def mmse(self) -> float:
        """Per d, the rows of S; from the smaller of the two sums that it is a difference of."""
        delta, noise, *_ = self._constants
        x, weight, _, ratio, _ = self._rule
        if noise < 0.5:
            value = noise * delta - float((weight * x * (1 - ratio) ** 2).sum())
        else:
            value = (1 - noise) * delta - float((weight * x * ratio**2).sum())
        return self._rows * self._unit * value

    @property
    def information(self) -> float:
        """``I(S; R)/d^2``."""
        delta, noise, s, rho, t = self._constants
        x, weight, m, _, _ = self._rule
        x = np.maximum(x, 1e-300)
        p = self._complex(x)[0]
        potential = -np.log(np.abs(m)) + 0.5 * np.log(x) - delta * np.log(np.abs(p / m) / delta)
        potential -= 0.5 * delta * np.log(x)
        potential += (m + x * p / m - (noise + s) * p).real + rho * np.log(np.abs(1 - t * p)) - (1 + delta)
        potential -= 0.5 * (delta - 1) * np.log(x)
        energy = float((weight * (0.5 * (delta - 1) * np.log(x) + 0.5 * potential)).sum())
        return self._rows**2 * (energy - 0.5 * delta * math.log(noise) - _noise_energy(delta))


def _noise_energy(delta: float) -> float:
    """The log-gas energy of a d x delta d matrix of entries N(0, 1/d), delta >= 1."""
    rest = (delta - 1) * math.log(delta - 1) if delta > 1 else 0.0
    mean_log = delta * math.log(delta) - rest - 1
    return 0.25 * ((delta - 1) * mean_log + delta * math.log(delta) - 1)


def _roots_of_many(coefficients: FloatArray, reverse: bool) -> ComplexArray:
    """Roots (n, degree) of polynomials (n, degree + 1), ascending coefficients.

    ``reverse``: through 1/P, which keeps the small roots when the leading coefficient is small.
    """
    degree = coefficients.shape[1] - 1
    ordered = coefficients[:, ::-1] if reverse else coefficients
    companion = np.zeros((len(coefficients), degree, degree))
    companion[:, np.arange(1, degree), np.arange(degree - 1)] = 1.0
    companion[:, :, -1] = -ordered[:, :-1] / ordered[:, -1:]
    roots = np.asarray(np.linalg.eigvals(companion), dtype=np.complex128)
    return np.asarray(1 / np.where(roots == 0, 1e-300, roots)) if reverse else roots


@lru_cache(maxsize=4096)
def noisy_singular_values(law: RectangularLaw, noise: float) -> NoisySingularValues:
    """The spectrum at one noise, kept: its rule is computed once."""
    return NoisySingularValues(law, noise)


def denoise_rectangular(law: RectangularLaw, noise: float, matrix: FloatArray) -> FloatArray:
    """``E[S | R]`` of R (rows, columns) at large size: singular vectors kept, values denoised. O(rows^2 columns).

    In the eigenbasis of R R^T every row is multiplied by the ratio of denoised to noisy singular value.

    >>> from aimtheory.spectra import RectangularGinibre
    >>> denoise_rectangular(RectangularGinibre(), 1.0, np.eye(3)).round(6)[0]
    array([0.5, 0. , 0. ])
    """
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    values, vectors = np.linalg.eigh(gram)
    ratio = noisy_singular_values(law, noise).ratio(np.sqrt(np.maximum(values, 0.0)))
    filtered = (vectors * ratio) @ vectors.T
    fresh: FloatArray = filtered @ matrix if rows <= columns else matrix @ filtered
    return fresh


__all__ = ["NoisySingularValues", "denoise_rectangular", "noisy_singular_values"]
