"""Any law plus semicircular noise by Biane's subordination: no equation for g, hence no branch to choose.

``g_Delta(x) = g_S(w)`` with ``x = w + Delta g_S(w)`` and w = p + i q on the curve

    int mu_S(dt) / ((p - t)^2 + q^2) = 1/Delta         (q > 0; q = 0 where the integral at q = 0 is below 1/Delta).

x increases with p, the density is ``f = q / (pi Delta)``, and ``Delta mu_S(dt)/|w - t|^2`` is the law of the
eigenvalue t of S seen from x (the overlap of Ledoit and Peche), whose mean is the denoised eigenvalue ``D = 2p - x``
and whose variance is the local MMSE. Source: Biane, On the free convolution with a semi-circular distribution (1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import NumericsError
from aimtheory.spectra.band_quadrature import BandQuadrature, BoundaryValues, gauss_legendre
from aimtheory.spectra.law import FloatArray, Interval

ComplexArray = NDArray[np.complex128]
_NODES = 20


class Band(NamedTuple):
    """An interval of p on which q > 0: ``anchor + [low, high]``. At weak noise the band around an atom is too narrow
    for the floats next to the atom, so that it is measured from there.
    """

    anchor: float
    low: float
    high: float


class CauchyTransform(Protocol):
    """What subordination must know of mu_S. A point is ``p``, or ``anchor + p`` with an anchor for each."""

    @property
    def breaks(self) -> FloatArray:
        """Points of p near which the curve may bend on a scale far below that of its band."""

    def bands(self, noise: float) -> tuple[Band, ...]:
        """Intervals of p on which q > 0."""

    def height(
        self, p: FloatArray, noise: float, guess: FloatArray | None = None, anchor: FloatArray | None = None
    ) -> FloatArray:
        """``q^2`` on the curve, 0 off the bands."""

    def local(self, p: FloatArray, square: FloatArray, noise: float, anchor: FloatArray | None = None) -> LocalValues:
        """Everything that is needed at w = p + i sqrt(square)."""


@dataclass(frozen=True, eq=False)
class LocalValues:
    """At points w: g_S(w), dx/dp, posterior mean and variance, and int log|w - t| mu_S(dt)."""

    g: ComplexArray
    slope: FloatArray
    mean: FloatArray
    variance: FloatArray
    log_mean: FloatArray


class AtomTransform:
    """Cauchy transform of ``sum_i w_i delta_{t_i}``, t ascending; every quantity a sum of terms of one sign."""

    def __init__(self, points: FloatArray, weights: FloatArray) -> None:
        self.points, self.weights = points, weights

    @property
    def breaks(self) -> FloatArray:
        """None: between atoms the curve bends on the scale of their distances, which the panels see."""
        return np.empty(0)

    def bands(self, noise: float) -> tuple[Band, ...]:
        """Between neighbouring atoms ``phi(p) = sum w/(p-t)^2`` is convex: a gap is where it dips below 1/Delta."""
        t, w = self.points, self.weights
        # Two neighbours alone keep phi above (w_l^{1/3} + w_r^{1/3})^3 / distance^2.
        floor = (np.cbrt(w[:-1]) + np.cbrt(w[1:])) ** 3 / np.diff(t) ** 2
        before = np.flatnonzero(floor < 1 / noise)
        # Mostly the lowest point of those two alone shows the gap already; else the true lowest point decides.
        share = np.cbrt(w[before]) / (np.cbrt(w[before]) + np.cbrt(w[before + 1]))
        is_open = self._sum(share * (t[before + 1] - t[before]), 2, t[before]) < 1 / noise
        rest = np.flatnonzero(~is_open)
        bottom = self._valley(t[before[rest]], t[before[rest] + 1])
        is_open[rest] = self._sum(bottom, 2, t[before[rest]]) < 1 / noise
        before = before[is_open]
        first, last = np.append(0, before + 1), np.append(before, len(t) - 1)
        starts = self._edge(-np.sqrt(noise * w[first]), t[first], noise)
        ends = self._edge(np.sqrt(noise * w[last]), t[last], noise)
        highs = (t[last] - t[first]) + ends
        return tuple(Band(*row) for row in zip(t[first].tolist(), starts.tolist(), highs.tolist(), strict=True))

    def _offsets(self, p: FloatArray, anchor: FloatArray | None, part: slice) -> FloatArray:
        """``p - t_i``, shape (points, atoms)."""
        if anchor is None:
            return np.asarray(p[part, None] - self.points)
        return np.asarray((anchor[part, None] - self.points) + p[part, None])

    def _sum(self, p: FloatArray, power: int, anchor: FloatArray) -> FloatArray:
        """``sum_i w_i / (anchor + p - t_i)^power``, in chunks."""
        result = np.empty(p.shape)
        for part in _chunks(len(p), len(self.points)):
            inverse = 1.0 / self._offsets(p, anchor, part)
            result[part] = math.prod([inverse] * power) @ self.weights
        return result

    def valley(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """The minimum of phi between two atoms: root of its increasing derivative by Newton within a bracket."""
        return np.asarray(left + self._valley(left, right))

    def _valley(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Its distance from the left atom."""
        low, high = np.zeros(left.shape), right - left
        p = 0.5 * high
        for _ in range(100 if len(left) else 0):
            slope, curvature = -2 * self._sum(p, 3, left), 6 * self._sum(p, 4, left)
            low, high = np.where(slope < 0, p, low), np.where(slope > 0, p, high)
            newton = p - slope / curvature
            following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
            if np.all(np.abs(following - p) <= 1e-14 * (right - left)):
                return following
            p = following
        return p

    def _edge(self, start: FloatArray, anchor: FloatArray, noise: float) -> FloatArray:
        """phi = 1/Delta by Newton from the side where phi is larger; phi is convex, so it cannot overshoot."""
        p = start.copy()
        for _ in range(200):
            value = self._sum(p, 2, anchor) - 1 / noise
            change = value / (-2 * self._sum(p, 3, anchor))
            moving = (value > 0) & (np.abs(change) > 1e-15 * np.abs(p) + 1e-300)
            if not np.any(moving):
                break
            p = np.where(moving, p - change, p)
        return p

    def height(
        self, p: FloatArray, noise: float, guess: FloatArray | None = None, anchor: FloatArray | None = None
    ) -> FloatArray:
        """Newton on ``1/phi(p, y) = Delta`` in y = q^2: a harmonic mean is concave in y, so it climbs monotonically."""
        t, w = self.points, self.weights
        result = np.empty(p.shape)
        for part in _chunks(len(p), len(t)):
            square = self._offsets(p, anchor, part) ** 2
            floor = np.maximum((noise * w - square).max(axis=1), 0.0)
            y = np.full(floor.shape, noise) if guess is None else np.maximum(guess[part], floor)
            floor = np.maximum(floor, 1e-300)
            live = np.arange(len(y))
            for step in range(100):
                kernel = 1.0 / (square[live] + y[live, None])
                first = kernel @ w
                second = np.einsum("ij,ij,j->i", kernel, kernel, w)
                change = (noise - 1 / first) * first**2 / second
                before = y[live]
                y[live] = np.maximum(before + change, floor[live])
                # From above the first step may lead down; after it a step that does not climb is rounding.
                still = np.abs(y[live] - before) > 4e-16 * y[live] if step == 0 else y[live] - before > 4e-16 * before
                live = live[still]
                if not len(live):
                    break
            closed = (y <= 1e-300) | ((1.0 / np.maximum(square, 1e-300)) @ w <= 1 / noise)
            result[part] = np.where(closed, 0.0, y)
        return result

    def local(self, p: FloatArray, square: FloatArray, noise: float, anchor: FloatArray | None = None) -> LocalValues:
        """Sums over atoms; ``dx/dp = 2 Delta |T|^2 / sum w/|w-t|^4``, ``T = sum w / (|w-t|^2 (w-t))`` on the bands."""
        t, w = self.points, self.weights
        g = np.empty(p.shape, dtype=np.complex128)
        slope, mean, variance, log_mean = (np.empty(p.shape) for _ in range(4))
        q = np.sqrt(square)
        for part in _chunks(len(p), len(t)):
            offset = self._offsets(p, anchor, part)
            modulus = offset**2 + square[part, None]
            kernel = w / modulus
            quartic = kernel / modulus
            total = np.einsum("ij->i", kernel)
            near = np.einsum("ij,ij->i", kernel, offset)
            g[part] = near - 1j * q[part] * total
            fourth = np.einsum("ij->i", quartic)
            third = np.einsum("ij,ij->i", quartic, offset)
            on_band = 2 * noise * (third**2 + square[part] * fourth**2) / fourth
            slope[part] = np.where(square[part] > 0, on_band, 1 - noise * total)
            # t = p - offset: the mean of t from p is minus that of the offset. Off the bands the kernel has mass below
            # 1 and D is the continuation x - 2 Delta g.
            shift = np.where(square[part] > 0, near / total, noise * near)
            mean[part] = p[part] - shift
            variance[part] = noise * np.einsum("ij,ij->i", kernel, (offset - shift[:, None]) ** 2)
            log_mean[part] = 0.5 * np.log(modulus) @ w
        return LocalValues(g, slope, mean if anchor is None else anchor + mean, variance, log_mean)


class SubordinatedSpectrum:
    """Noisy spectrum of any law through its Cauchy transform; quadrature by adaptive panels in p."""

    def __init__(self, transform: CauchyTransform, noise: float, tolerance: float = 1e-13) -> None:
        self.transform, self.noise = transform, noise
        self._p_bands = np.array(transform.bands(noise)).reshape(-1, 3)
        self._p, self._square, self.quadrature = self._integrate(tolerance, graded=False)
        if abs(float(self.quadrature.mass) - 1) > 1e-11:
            # A detail fell between the nodes of a wide panel: start again from panels graded towards where it may be.
            self._p, self._square, self.quadrature = self._integrate(tolerance, graded=True)
        error = abs(float(self.quadrature.mass) - 1)
        if error > 1e-8:
            raise NumericsError(
                f"the density at noise {noise:.6g} integrates to 1 only within {error:.2g}; "
                "smooth the law or raise the noise variance"
            )

    @property
    def bands(self) -> tuple[Interval, ...]:
        """The bands in x."""
        edges, anchor = self._p_bands[:, 1:].ravel(), np.repeat(self._p_bands[:, 0], 2)
        values = self.transform.local(edges, np.zeros(edges.shape), self.noise, anchor)
        x = anchor + (edges + self.noise * values.g.real)
        return tuple((float(a), float(b)) for a, b in x.reshape(-1, 2))

    def _start(self, graded: bool) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """First panels: band index and ends in theta; one a band, or dyadically graded to edges and breaks."""
        band: list[int] = []
        ends: list[tuple[float, float]] = []
        for index, (anchor, low, high) in enumerate(self._p_bands):
            marks = np.array([0.0, math.pi])
            if graded:
                inside = self.transform.breaks - anchor
                inside = inside[(inside > low) & (inside < high)]
                centres = np.concatenate([marks, 2 * np.arcsin(np.sqrt((inside - low) / (high - low)))])
                distances = math.pi * 0.5 ** np.arange(1, 28)
                marks = np.concatenate(
                    [centres, (centres[:, None] + distances).ravel(), (centres[:, None] - distances).ravel()]
                )
                marks = np.unique(marks[(marks >= 0) & (marks <= math.pi)])
            band += [index] * (len(marks) - 1)
            ends += list(pairwise(marks.tolist()))
        table = np.array(ends)
        return np.array(band), table[:, 0], table[:, 1]

    def _integrate(self, tolerance: float, graded: bool) -> tuple[FloatArray, FloatArray, BandQuadrature]:
        """Gauss-Legendre panels in theta, p = mid - half cos(theta), split until their Legendre tails vanish."""
        origins, ends = self._p_bands[:, 0], self._p_bands[:, 1:]
        nodes, rule = gauss_legendre(_NODES)
        to_legendre, interpolate = _panel_matrices()
        band, low, high = self._start(graded)
        guess: FloatArray | None = None
        accepted = []
        largest = np.zeros(2)
        for level in range(60):
            theta = low[:, None] + (high - low)[:, None] * nodes
            start, half = ends[band, 0], 0.5 * (ends[band, 1] - ends[band, 0])
            p = (start[:, None] + 2 * half[:, None] * np.sin(0.5 * theta) ** 2).ravel()
            anchor = np.repeat(origins[band], _NODES)
            square = self.transform.height(p, self.noise, guess, anchor)
            values = self.transform.local(p, square, self.noise, anchor)
            density = np.sqrt(square) / (math.pi * self.noise)
            stretch = (half[:, None] * np.sin(theta) * ((high - low)[:, None] * rule)).ravel()
            weights = stretch * values.slope
            measure = (density * values.slope).reshape(theta.shape) * (half[:, None] * np.sin(theta))
            tail = []
            for index, integrand in enumerate((measure, measure * values.variance.reshape(theta.shape))):
                coefficients = np.abs(integrand @ to_legendre.T)
                size = coefficients.max(axis=1) * (high - low)
                largest[index] = max(largest[index], float(size.max()))
                tail.append(coefficients[:, -3:].max(axis=1) * (high - low) <= tolerance * largest[index])
            good = (tail[0] & tail[1]) | ((high - low) < 1e-12)
            if level == 59:
                good[:] = True
            pick = np.repeat(good, _NODES)
            potential = values.log_mean + 0.5 * self.noise * (values.g**2).real
            columns = (
                anchor + p,
                square,
                anchor + (p + self.noise * values.g.real),
                weights,
                density,
                values.mean,
                values.variance,
                potential,
            )
            accepted.append(np.stack([column[pick] for column in columns]))
            if np.all(good):
                break
            # Children start Newton from the parent's q^2, interpolated.
            parent = square.reshape(theta.shape)[~good]
            guess = np.maximum(parent @ interpolate.T, 0.25 * parent.min(axis=1, keepdims=True)).ravel()
            middle = 0.5 * (low + high)[~good]
            low = np.stack([low[~good], middle], axis=1).ravel()
            high = np.stack([middle, high[~good]], axis=1).ravel()
            band = np.repeat(band[~good], 2)
        table = np.concatenate(accepted, axis=1)
        table = table[:, np.argsort(table[0])]
        return table[0], table[1], BandQuadrature(*table[2:])

    def boundary(self, points: FloatArray) -> BoundaryValues:
        """x(p) = x by Newton in p within a bracket, x being increasing along the curve."""
        x = points.ravel()
        grid_p = np.concatenate([self._p, (self._p_bands[:, :1] + self._p_bands[:, 1:]).ravel()])
        grid_x = np.concatenate([self.quadrature.points, np.array(self.bands).ravel()])
        order = np.argsort(grid_p)
        grid_p, grid_x = grid_p[order], np.maximum.accumulate(grid_x[order])
        reach = np.sqrt(self.noise) + np.abs(x) + np.abs(grid_p).max() + 1.0
        right = np.searchsorted(grid_x, x)
        low = np.where(right > 0, grid_p[np.maximum(right - 1, 0)], -2 * reach)
        high = np.where(right < len(grid_p), grid_p[np.minimum(right, len(grid_p) - 1)], 2 * reach)
        p = np.where(right == 0, x, np.where(right == len(grid_p), x, np.interp(x, grid_x, grid_p)))
        p = np.clip(p, low, high)
        square: FloatArray | None = None
        for _ in range(200):
            square = self.transform.height(p, self.noise, square)
            values = self.transform.local(p, square, self.noise)
            residual = p + self.noise * values.g.real - x
            low, high = np.where(residual < 0, p, low), np.where(residual > 0, p, high)
            newton = p - np.divide(residual, values.slope, out=np.full(p.shape, np.inf), where=values.slope > 0)
            following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
            scale = np.abs(p) + np.abs(x)
            done = (np.abs(newton - p) <= 4e-16 * scale) | (np.abs(residual) <= 4e-16 * scale)
            done |= high - low <= 4e-16 * scale
            if np.all(done):
                break
            p = np.where(done, p, following)
        else:
            raise NumericsError("the subordination equation did not converge; report the law and the noise variance")
        potential = values.log_mean + 0.5 * self.noise * (values.g**2).real
        shape = points.shape
        return BoundaryValues(values.g.reshape(shape), values.mean.reshape(shape), potential.reshape(shape))


@lru_cache(maxsize=1)
def _panel_matrices() -> tuple[FloatArray, FloatArray]:
    """From values at the nodes of a panel to Legendre coefficients, and to values at the nodes of its two halves."""
    nodes, _ = gauss_legendre(_NODES)
    to_legendre = np.linalg.inv(np.polynomial.legendre.legvander(2 * nodes - 1, _NODES - 1))
    children = np.concatenate([0.5 * nodes, 0.5 + 0.5 * nodes])
    between = np.polynomial.legendre.legvander(2 * children - 1, _NODES - 1) @ to_legendre
    return np.asarray(to_legendre, np.float64), np.asarray(between, np.float64)


def _chunks(rows: int, columns: int) -> list[slice]:
    step = max(1, (1 << 16) // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


__all__ = ["AtomTransform", "Band", "CauchyTransform", "LocalValues", "SubordinatedSpectrum"]
