"""A law given by a density function on one or several intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar

from aimtheory.arrays import real_array
from aimtheory.errors import AssumptionError, InputError
from aimtheory.frozen import same_value
from aimtheory.records import record
from aimtheory.scalars import Scalar
from aimtheory.spectra.band_quadrature import gauss_legendre
from aimtheory.spectra.initial_law import plain
from aimtheory.spectra.law import (
    FloatArray,
    Interval,
    JacobiCoefficients,
    SpectralLaw,
    check_count,
    check_dimension,
    jacobi_of_atoms,
    rotate,
)
from aimtheory.spectra.subordination import AtomTransform, Band, LocalValues, SubordinatedSpectrum

ComplexArray = NDArray[np.complex128]
_NODES = 16
_FINE = 64


@record("law-user-density")
@dataclass(frozen=True, eq=False, repr=False)
class UserDensity(SpectralLaw):
    """The law with density ``function`` (vectorised, float array in and out) on the intervals ``support``.

    The function is interpolated by Legendre polynomials on panels that are halved until it is resolved, so jumps,
    square-root edges and integrable edge singularities are allowed. Raises ``InputError`` when it is negative or not
    finite, ``AssumptionError`` when its integral differs from 1 by more than ``tolerance`` (within it, the density is
    divided by the integral). Accurate to about 1e-13, or 1e-8 when the density diverges at an edge other than 0. Two
    are equal when their panels are; copies, pickles and files carry the panels.

    >>> law = UserDensity(lambda x: 0.5 * np.ones_like(x), [(-1.0, 1.0)])
    >>> [round(abs(float(m)), 12) for m in law.moments(4)]
    [0.0, 0.333333333333, 0.0, 0.2]
    """

    law_name: ClassVar[str] = "density"

    function: Callable[[FloatArray], FloatArray]
    intervals: tuple[Interval, ...]
    _low: FloatArray = field(init=False)
    _high: FloatArray = field(init=False)
    _values: FloatArray = field(init=False)

    def __init__(
        self, function: Callable[[FloatArray], FloatArray], support: Sequence[Interval], tolerance: float = 1e-6
    ) -> None:
        intervals = tuple(sorted((float(low), float(high)) for low, high in support))
        if not intervals:
            raise InputError("a density needs at least one support interval; got none")
        for low, high in intervals:
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InputError(f"support interval ({low}, {high}) must be finite with low < high; split off atoms")
        for (_, first_high), (second_low, _) in pairwise(intervals):
            if second_low < first_high:
                raise InputError(f"support intervals overlap: {first_high} > {second_low}; merge them")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "intervals", intervals)
        low_ends, high_ends, values = _panels(function, intervals)
        _, rule = gauss_legendre(_NODES)
        mass = float((values * rule * (high_ends - low_ends)[:, None]).sum())
        if not abs(mass - 1) <= tolerance:
            raise AssumptionError(
                f"the density integrates to {mass:.10g} over {intervals}, not to 1 within {tolerance:g}; "
                "normalize it or mend its support"
            )
        for name, array in (("_low", low_ends), ("_high", high_ends), ("_values", values / mass)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def to_record(self) -> dict[str, object]:
        """The panels: their ends and the values of the density at their nodes."""
        return {"intervals": self.intervals, "low": self._low, "high": self._high, "values": self._values}

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> UserDensity:
        """The law of a table of panels; its function interpolates them."""
        return _of_panels(**values)

    def to_mapping(self) -> dict[str, Any]:
        """The table of the panels: their ends and the density at 16 Gauss nodes of each."""
        return {"law": self.law_name} | {key: plain(value) for key, value in self.to_record().items()}

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> UserDensity:
        """From the table of the panels; ``InputError`` names what is missing or does not fit."""
        for key in cls.mapping_keys():
            if key not in data:
                raise InputError(f"a density in a file needs the key {key!r}: the table that UserDensity writes")
        intervals = tuple((float(low), float(high)) for low, high in data["intervals"])
        low, high, values = (real_array(data[key], key) for key in ("low", "high", "values"))
        if values.ndim != 2 or not len(low) == len(high) == len(values) or values.shape[1] != _NODES:
            raise InputError(f"a density in a file has {len(low)} panels of {_NODES} values; values has {values.shape}")
        return _of_panels(intervals, low, high, values)

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """Support, ends of the panels, values."""
        return ("intervals", "low", "high", "values")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UserDensity):
            return NotImplemented
        return same_value(self.to_record(), other.to_record())

    def __hash__(self) -> int:
        return hash((self.intervals, self._values.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_panels, tuple(self.to_record().values())

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "density")
        return f"UserDensity({name}, support={list(self.intervals)})"

    def transform(self) -> PanelTransform:
        """The Cauchy transform of the panels."""
        return PanelTransform(self._low, self._high, self._values, self.intervals)

    def nodes(self) -> tuple[FloatArray, FloatArray]:
        """Quadrature nodes and probabilities of the panels, flat."""
        nodes, rule = gauss_legendre(_NODES)
        width = (self._high - self._low)[:, None]
        return (self._low[:, None] + width * nodes).ravel(), (self._values * rule * width).ravel()

    def noisy_spectrum(self, noise: float) -> SubordinatedSpectrum:
        """By subordination; far from the law its Gauss nodes serve as atoms."""
        (low, _), (_, high) = self.support[0], self.support[-1]
        if noise > 4 * (high - low) ** 2:
            # The curve stays a support away from the law, whose Gauss nodes then serve as atoms, without cancellation.
            return SubordinatedSpectrum(AtomTransform(*self.nodes()), noise)
        return SubordinatedSpectrum(self.transform(), noise)

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``int x^n f(x) dx`` by the panels' Gauss rules, floats."""
        points, weights = self.nodes()
        return tuple(float(weights @ points**n) for n in range(1, check_count(count) + 1))

    def jacobi(self, count: int) -> JacobiCoefficients:
        """By Lanczos on the panels' Gauss rules, not through the moments."""
        return jacobi_of_atoms(*self.nodes(), check_count(count))

    @property
    def support(self) -> tuple[Interval, ...]:
        """The intervals given, ascending."""
        return self.intervals

    def density(self, points: ArrayLike) -> FloatArray:
        """The panels' polynomials, which are the function over its integral to rounding; 0 off the support."""
        x = np.asarray(points, dtype=np.float64)
        result, table = np.zeros(x.shape), TabulatedDensity(self._low, self._high, self._values)
        for low, high in self.intervals:
            inside = (x > low) & (x < high)
            if np.any(inside):
                result[inside] = table(x[inside])
        return result

    def stieltjes(self, points: ArrayLike) -> ComplexArray:
        """``int f(t) dt / (z - t)``, accurate up to the support (upper boundary value on it)."""
        z = np.asarray(points, dtype=np.complex128)
        flat = z.ravel()
        upper = np.where(flat.imag < 0, np.conj(flat), flat)
        g = self.transform().cauchy(upper)[0]
        return np.where(flat.imag < 0, np.conj(g), g).reshape(z.shape)

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """Haar-rotated quantiles (i + 1/2)/dim of the law."""
        points, weights = self.nodes()
        cumulative = np.cumsum(weights) - 0.5 * weights
        return rotate(np.interp((np.arange(check_dimension(dim)) + 0.5) / dim, cumulative, points), rng)


@dataclass(frozen=True, eq=False)
class TabulatedDensity:
    """A density on panels ``low`` to ``high`` (n,), interpolated through ``values`` (n, 16) at their Gauss nodes."""

    low: FloatArray
    high: FloatArray
    values: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        """The density at ``points``, clipped at zero; a point off the panels takes the nearest one."""
        x = np.asarray(points, dtype=np.float64)
        panel = np.clip(np.searchsorted(self.low, x, side="right") - 1, 0, len(self.low) - 1)
        middle, half = 0.5 * (self.low + self.high)[panel], 0.5 * (self.high - self.low)[panel]
        basis = np.polynomial.legendre.legvander(np.clip((x - middle) / half, -1, 1), _NODES - 1)
        coefficients = (self.values @ _to_legendre().T)[panel]
        return np.asarray(np.maximum((basis * coefficients).sum(axis=-1), 0.0))


def _of_panels(intervals: tuple[Interval, ...], low: FloatArray, high: FloatArray, values: FloatArray) -> UserDensity:
    law = object.__new__(UserDensity)
    table = [np.array(array, dtype=np.float64) for array in (low, high, values)]
    if table[0].ndim != 1 or table[0].shape != table[1].shape or table[2].shape != (len(table[0]), _NODES):
        raise InputError("the table of a density is damaged: its panels do not fit together")
    for array in table:
        array.setflags(write=False)
    parts = {"function": TabulatedDensity(*table), "intervals": tuple((float(a), float(b)) for a, b in intervals)}
    for name, value in {**parts, "_low": table[0], "_high": table[1], "_values": table[2]}.items():
        object.__setattr__(law, name, value)
    return law


def _panels(
    function: Callable[[FloatArray], FloatArray], intervals: Sequence[Interval]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Ends and nodal values of panels on which 16 Legendre coefficients resolve the function."""
    nodes, _ = gauss_legendre(_NODES)
    to_legendre = _to_legendre()
    low = np.array([interval[0] for interval in intervals])
    high = np.array([interval[1] for interval in intervals])
    # Twice as a start, so that a function symmetric about the middle is not resolved by accident.
    low, high = _halves(low, high)
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    largest = 0.0
    total = float((high - low).sum())
    for level in range(200):
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        x = middle[:, None] + half[:, None] * (2 * nodes - 1)
        x = np.clip(x, np.nextafter(low, high)[:, None], np.nextafter(high, low)[:, None])
        values = np.asarray(function(x.ravel()), dtype=np.float64)
        if values.shape != (x.size,):
            raise InputError(f"the density function must map shape ({x.size},) to itself; it returned {values.shape}")
        if not np.all(np.isfinite(values)):
            raise InputError(
                f"the density is {values[~np.isfinite(values)][0]} at x = {x.ravel()[~np.isfinite(values)][0]}"
            )
        if np.any(values < 0):
            raise InputError(f"the density is {values.min():.6g} < 0 at x = {x.ravel()[values.argmin()]}")
        values = values.reshape(x.shape)
        coefficients = np.abs(values @ to_legendre.T)
        content = coefficients.max(axis=1) * half
        largest = max(largest, float(content.max()))
        # Rounding of x alone moves a function by about content * eps |x| / half near an edge where it varies fast.
        rounding = 32 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high)) / half
        narrow = high - low <= 8e-16 * np.maximum(np.abs(low), np.abs(high))
        tail = coefficients[:, -2:].max(axis=1) * half
        good = (tail <= 1e-15 * largest) | (tail <= rounding * content) | narrow | (high - low <= 1e-40 * total)
        if level == 199 or len(low) > 20000:
            good[:] = True
        kept.append((low[good], high[good], values[good]))
        if np.all(good):
            break
        low, high = _halves(low[~good], high[~good])
    lows, highs, table = (np.concatenate([part[k] for part in kept]) for k in range(3))
    order = np.argsort(lows)
    return lows[order], highs[order], table[order]


def _halves(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle = 0.5 * (low + high)
    return np.stack([low, middle], axis=1).ravel(), np.stack([middle, high], axis=1).ravel()


def _to_legendre() -> FloatArray:
    nodes, _ = gauss_legendre(_NODES)
    return np.asarray(np.linalg.inv(np.polynomial.legendre.legvander(2 * nodes - 1, _NODES - 1)))


class PanelTransform:
    """Cauchy transform of a piecewise polynomial density, exact up to the real axis.

    A panel far from z is summed by its Gauss rule; a near one through the Legendre functions of the second kind,
    ``int P_k(t) / (zeta - t) dt = 2 Q_k(zeta)``; in between on a finer rule.
    """

    def __init__(self, low: FloatArray, high: FloatArray, values: FloatArray, intervals: tuple[Interval, ...]) -> None:
        self.low, self.high, self.intervals = low, high, intervals
        self.middle, self.half = middle, half = 0.5 * (low + high), 0.5 * (high - low)
        nodes, rule = gauss_legendre(_NODES)
        fine, fine_rule = gauss_legendre(_FINE)
        self.coefficients = values @ _to_legendre().T
        self.points = middle[:, None] + half[:, None] * (2 * nodes - 1)
        self.weights = values * rule * 2 * half[:, None]
        self.fine_nodes = 2 * fine - 1
        vandermonde = np.polynomial.legendre.legvander(self.fine_nodes, _NODES - 1)
        self.fine_weights = (self.coefficients @ vandermonde.T) * fine_rule * 2 * half[:, None]
        self.mean = float((self.weights * self.points).sum())

    @property
    def breaks(self) -> FloatArray:
        """The ends of the intervals, where the density may jump."""
        return np.array(self.intervals).ravel()

    def cauchy(self, z: ComplexArray) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        """``g(z)``, ``g'(z)`` and ``int log|z - t| f(t) dt`` for Im z >= 0."""
        g, slope = np.empty(z.shape, dtype=np.complex128), np.empty(z.shape, dtype=np.complex128)
        logs = np.empty(z.shape)
        points, weights = self.points.ravel(), self.weights.ravel()
        step = max(1, (1 << 19) // len(points))
        for start in range(0, len(z), step):
            part = slice(start, min(start + step, len(z)))
            zeta = (z[part, None] - self.middle) / self.half
            # Size of the Bernstein ellipse through zeta: a 16-point rule errs by its power -32.
            root = np.sqrt(zeta - 1) * np.sqrt(zeta + 1)
            ellipse = np.abs(zeta + root)
            row, panel = np.nonzero(ellipse < 3.3)
            difference = z[part, None] - points
            inverse = np.divide(1.0, difference, out=np.zeros_like(difference), where=difference != 0)
            modulus = np.abs(difference)
            log_terms = np.log(np.where(modulus > 0, modulus, 1.0))
            near_mask = np.repeat(ellipse < 3.3, _NODES, axis=1)
            inverse[near_mask] = 0.0
            log_terms[near_mask] = 0.0
            g[part] = inverse @ weights
            slope[part] = -(inverse**2) @ weights
            logs[part] = log_terms @ weights
            near_g, near_slope, near_log = self._near(z[part][row], zeta[row, panel], ellipse[row, panel], panel)
            np.add.at(g[part], row, near_g)
            np.add.at(slope[part], row, near_slope)
            np.add.at(logs[part], row, near_log)
        return g, slope, logs

    def _near(
        self, z: ComplexArray, zeta: ComplexArray, ellipse: FloatArray, panel: NDArray[np.int64]
    ) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        g, slope = np.zeros(zeta.shape, dtype=np.complex128), np.zeros(zeta.shape, dtype=np.complex128)
        logs = np.zeros(zeta.shape)
        half = self.half[panel]
        close = ellipse < 1.35
        far = np.flatnonzero(~close)
        for start in range(0, len(far), 1 << 13):
            index = far[start : start + (1 << 13)]
            difference = (zeta[index, None] - self.fine_nodes) * half[index, None]
            weight = self.fine_weights[panel[index]]
            g[index] = (weight / difference).sum(axis=1)
            slope[index] = -(weight / difference**2).sum(axis=1)
            logs[index] = (weight * np.log(np.abs(difference))).sum(axis=1)
        index = np.flatnonzero(close)
        if not len(index):
            return g, slope, logs
        near, coefficients, width = zeta[index], self.coefficients[panel[index]], half[index]
        # From the ends that neighbouring panels share, so that their logarithms cancel to the last digit.
        above = (z[index] - self.low[panel[index]]) / width
        below = (z[index] - self.high[panel[index]]) / width
        tiny = 1e-300
        # Q_0 on the upper side of the cut.
        angle = np.arctan2(above.imag, above.real) - np.arctan2(below.imag, below.real)
        log_ratio = np.log(np.maximum(np.abs(above), tiny)) - np.log(np.maximum(np.abs(below), tiny)) + 1j * angle
        q = [0.5 * log_ratio]
        q.append(near * q[0] - 1)
        for k in range(1, _NODES):
            q.append(((2 * k + 1) * near * q[k] - k * q[k - 1]) / (k + 1))
        square = above * below
        square = np.where(square == 0, tiny, square)
        total = np.zeros(near.shape, dtype=np.complex128)
        derivative = np.zeros(near.shape, dtype=np.complex128)
        potential = np.zeros(near.shape)
        for k in range(_NODES):
            total += coefficients[:, k] * 2 * q[k]
            change = -1 / square if k == 0 else k * (near * q[k] - q[k - 1]) / square
            derivative += coefficients[:, k] * 2 * change
            if k == 0:
                # int log(zeta - t) dt over (-1, 1).
                whole = _xlogx(above) - _xlogx(below) - 2
                potential += coefficients[:, 0] * (whole.real + 2 * np.log(width))
            else:
                # (2k+1) P_k = P'_{k+1} - P'_{k-1}: int P_k log(zeta - t) = 2 (Q_{k+1} - Q_{k-1}) / (2k+1).
                potential += coefficients[:, k] * 2 * (q[k + 1] - q[k - 1]).real / (2 * k + 1)
        g[index] = total
        slope[index] = derivative / width
        logs[index] = potential * width
        return g, slope, logs

    def bands(self, noise: float) -> tuple[Band, ...]:
        """p on which q > 0: the support widened, or joined, where ``-g'(p) > 1/Delta`` on the real line outside it."""
        lows, highs = [self._outer(self.intervals[0][0], -1.0, noise)], []
        for (_, left), (right, _) in pairwise(self.intervals):
            if left == right:
                continue
            best = minimize_scalar(
                lambda u, a=left, b=right: self._curvature(a + (b - a) * u),
                bounds=(0.0, 1.0),
                method="bounded",
                options={"xatol": 1e-12},
            )
            middle = left + (right - left) * best.x
            if self._curvature(middle) < 1 / noise:
                highs.append(self._edge(left, middle, noise))
                lows.append(self._edge(right, middle, noise))
        highs.append(self._outer(self.intervals[-1][1], 1.0, noise))
        return tuple(Band(0.0, low, high) for low, high in zip(lows, highs, strict=True))

    def _curvature(self, p: float) -> float:
        return float(-self.cauchy(np.array([p + 0j]))[1].real[0])

    def _outer(self, edge: float, side: float, noise: float) -> float:
        # phi(p) <= 1/distance^2, so the root is within sqrt(Delta) of the support.
        return self._edge(edge, edge + side * 1.01 * math.sqrt(noise), noise)

    def _edge(self, support_end: float, far: float, noise: float) -> float:
        """Root of phi = 1/Delta between the end of the support, where phi is largest, and ``far``; the end if none."""
        reach = far - support_end
        # The nearest distance that the arithmetic can tell from none.
        least = max(1e-14, 4 * float(np.spacing(abs(support_end))) / abs(reach))
        if least >= 1 or self._curvature(support_end + reach * least) < 1 / noise:
            return support_end
        # In the logarithm of the distance: the root may be many decades closer than far.
        root = brentq(
            lambda v: math.log(self._curvature(support_end + reach * math.exp(v)) * noise),
            math.log(least),
            0.0,
            xtol=2e-14,
            rtol=1e-14,
            maxiter=500,
        )
        return float(support_end + reach * math.exp(root))

    def height(
        self, p: FloatArray, noise: float, guess: FloatArray | None = None, anchor: FloatArray | None = None
    ) -> FloatArray:
        """``y = q^2`` with ``-Im g(p + iq)/q = 1/Delta``: Newton in y on the concave ``1/phi - Delta``, bracketed."""
        p = p if anchor is None else anchor + p
        # Below this floor, 1e-15 of the width sqrt(Delta) in q, the point counts as off the band.
        floor = 1e-30 * noise
        low, high = np.full(p.shape, floor), np.full(p.shape, noise)
        y = np.full(p.shape, noise) if guess is None else np.clip(guess, floor, noise)
        for _ in range(200):
            q = np.sqrt(y)
            g, slope, _ = self.cauchy(p + 1j * q)
            # Rounding can spoil Im g where q is tiny; phi tends to -g' there.
            phi = np.where(g.imag < 0, -g.imag / q, np.maximum(-slope.real, 1e-300))
            value = 1 / phi - noise
            low, high = np.where(value < 0, y, low), np.where(value > 0, y, high)
            # d phi / dq = -Re g'/q + Im g/q^2 and dq/dy = 1/(2q).
            change = (-slope.real / q - phi / q) / (2 * q)
            newton = y + np.divide(value * phi**2, change, out=np.full(y.shape, np.inf), where=change < 0)
            following = np.where((newton > low) & (newton < high), newton, np.sqrt(low * high))
            following = np.where(value == 0, y, following)
            if np.all((np.abs(newton - y) <= 1e-14 * y) | (high - low <= 1e-15 * high)):
                y = following
                break
            y = following
        return np.where(y <= 1.01 * floor, 0.0, y)

    def local(self, p: FloatArray, square: FloatArray, noise: float, anchor: FloatArray | None = None) -> LocalValues:
        """``dx/dp = |H'|^2 / Re H'`` with ``H' = 1 + Delta g'``; variance ``Delta (1 - Delta |g|^2)`` on the bands."""
        p = p if anchor is None else anchor + p
        g, slope, logs = self.cauchy(p + 1j * np.sqrt(square))
        on_band = square > 0
        g = np.where(on_band, g.real - 1j * np.sqrt(square) / noise, g.real)
        h = 1 + noise * slope
        stretch = h.real.copy()
        use = on_band & (h.real > 0)
        stretch[use] = np.abs(h[use]) ** 2 / h.real[use]
        variance = np.maximum(noise * (1 - noise * np.abs(g) ** 2), 0.0)
        return LocalValues(g, stretch, p - noise * g.real, variance, logs)


def _xlogx(z: ComplexArray) -> ComplexArray:
    return z * np.where(z == 0, 0.0, np.log(np.where(z == 0, 1.0, z)))


__all__ = ["PanelTransform", "TabulatedDensity", "UserDensity"]
