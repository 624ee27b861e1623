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
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import NumericsError
from aimtheory.spectra.band_quadrature import BandQuadrature, BoundaryValues, gauss_legendre
from aimtheory.spectra.law import FloatArray, Interval

ComplexArray = NDArray[np.complex128]
_NODES = 16


class CauchyTransform(Protocol):
    """What subordination must know of mu_S."""

    @property
    def breaks(self) -> FloatArray:
        """Points of p near which the curve may bend on a scale far below that of its band."""

    def bands(self, noise: float) -> tuple[Interval, ...]:
        """Intervals of p on which q > 0."""

    def height(self, p: FloatArray, noise: float, guess: FloatArray | None = None) -> FloatArray:
        """``q^2`` on the curve, 0 off the bands."""

    def local(self, p: FloatArray, square: FloatArray, noise: float) -> LocalValues:
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
    """Cauchy transform of ``sum_i w_i delta_{t_i}``; every quantity a sum of terms of one sign."""

    def __init__(self, points: FloatArray, weights: FloatArray) -> None:
        self.points, self.weights = points, weights

    @property
    def breaks(self) -> FloatArray:
        """None: between atoms the curve bends on the scale of their distances, which the panels see."""
        return np.empty(0)

    def bands(self, noise: float) -> tuple[Interval, ...]:
        """Between neighbouring atoms ``phi(p) = sum w/(p-t)^2`` is convex: a gap is where it dips below 1/Delta."""
        t, w = self.points, self.weights
        first = self._edge(np.array([t[0] - math.sqrt(noise * w[0])]), noise)[0]
        last = self._edge(np.array([t[-1] + math.sqrt(noise * w[-1])]), noise)[0]
        left, right = t[:-1], t[1:]
        # Two neighbours alone keep phi above (w_l^{1/3} + w_r^{1/3})^3 / distance^2.
        floor = (np.cbrt(w[:-1]) + np.cbrt(w[1:])) ** 3 / (right - left) ** 2
        candidate = np.flatnonzero(floor < 1 / noise)
        left, right = left[candidate], right[candidate]
        bottom = self.valley(left, right)
        open_gap = self._sum(bottom, 2) < 1 / noise
        start_left = left[open_gap] + np.sqrt(noise * w[candidate[open_gap]])
        start_right = right[open_gap] - np.sqrt(noise * w[candidate[open_gap] + 1])
        ends = self._edge(start_left, noise)
        starts = self._edge(start_right, noise)
        return tuple((float(a), float(b)) for a, b in zip([first, *starts], [*ends, last], strict=True))

    def _sum(self, p: FloatArray, power: int) -> FloatArray:
        """``sum_i w_i / (p - t_i)^power``, in chunks."""
        result = np.empty(p.shape)
        for part in _chunks(len(p), len(self.points)):
            result[part] = (1.0 / (p[part, None] - self.points) ** power) @ self.weights
        return result

    def valley(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """The minimum of phi between two atoms: root of its increasing derivative by Newton within a bracket."""
        low, high = left.copy(), right.copy()
        p = 0.5 * (low + high)
        for _ in range(100):
            slope, curvature = -2 * self._sum(p, 3), 6 * self._sum(p, 4)
            low, high = np.where(slope < 0, p, low), np.where(slope > 0, p, high)
            newton = p - slope / curvature
            following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
            if np.all(np.abs(following - p) <= 1e-15 * (np.abs(p) + (right - left))):
                return following
            p = following
        return p

    def _edge(self, start: FloatArray, noise: float) -> FloatArray:
        """phi = 1/Delta by Newton from the side where phi is larger; phi is convex, so it cannot overshoot."""
        p = start.copy()
        for _ in range(200):
            value = self._sum(p, 2) - 1 / noise
            change = value / (-2 * self._sum(p, 3))
            moving = (value > 0) & (np.abs(change) > 1e-16 * np.abs(p) + 1e-300)
            if not np.any(moving):
                break
            p = np.where(moving, p - change, p)
        return p

    def height(self, p: FloatArray, noise: float, guess: FloatArray | None = None) -> FloatArray:
        """Newton on ``1/phi(p, y) = Delta`` in y = q^2: a harmonic mean is concave in y, so it climbs monotonically."""
        t, w = self.points, self.weights
        result = np.empty(p.shape)
        for part in _chunks(len(p), len(t)):
            square = (p[part, None] - t) ** 2
            floor = np.maximum((noise * w - square).max(axis=1), 0.0)
            y = np.full(floor.shape, noise) if guess is None else np.maximum(guess[part], floor)
            floor = np.maximum(floor, 1e-300)
            for _ in range(100):
                kernel = 1.0 / (square + y[:, None])
                first = kernel @ w
                second = (kernel * kernel) @ w
                change = (noise - 1 / first) * first**2 / second
                following = np.maximum(y + change, floor)
                done = np.abs(following - y) <= 4e-16 * y
                y = following
                if np.all(done):
                    break
            closed = (y <= 1e-300) | ((1.0 / np.maximum(square, 1e-300)) @ w <= 1 / noise)
            result[part] = np.where(closed, 0.0, y)
        return result

    def local(self, p: FloatArray, square: FloatArray, noise: float) -> LocalValues:
        """Sums over atoms; ``dx/dp = 2 Delta |T|^2 / sum w/|w-t|^4``, ``T = sum w / (|w-t|^2 (w-t))`` on the bands."""
        t, w = self.points, self.weights
        g = np.empty(p.shape, dtype=np.complex128)
        slope, mean, variance, log_mean = (np.empty(p.shape) for _ in range(4))
        q = np.sqrt(square)
        for part in _chunks(len(p), len(t)):
            offset = p[part, None] - t
            modulus = offset**2 + square[part, None]
            kernel = w / modulus
            quartic = kernel / modulus
            total = kernel.sum(axis=1)
            g[part] = (kernel * offset).sum(axis=1) - 1j * q[part] * total
            fourth = quartic.sum(axis=1)
            third = (quartic * offset).sum(axis=1)
            on_band = 2 * noise * (third**2 + square[part] * fourth**2) / fourth
            slope[part] = np.where(square[part] > 0, on_band, 1 - noise * total)
            # Off the bands the kernel has mass below 1 and D is the continuation x - 2 Delta g.
            inner = noise * (kernel @ t)
            mean[part] = np.where(square[part] > 0, inner / (noise * total), p[part] - noise * g[part].real)
            variance[part] = (noise * kernel * (t - mean[part][:, None]) ** 2).sum(axis=1)
            log_mean[part] = 0.5 * np.log(modulus) @ w
        return LocalValues(g, slope, mean, variance, log_mean)


class SubordinatedSpectrum:
    """Noisy spectrum of any law through its Cauchy transform; quadrature by adaptive panels in p."""

    def __init__(self, transform: CauchyTransform, noise: float, tolerance: float = 1e-13) -> None:
        self.transform, self.noise = transform, noise
        self._p_bands = transform.bands(noise)
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
        edges = np.array(self._p_bands).ravel()
        values = self.transform.local(edges, np.zeros(edges.shape), self.noise)
        x = edges + self.noise * values.g.real
        return tuple((float(a), float(b)) for a, b in x.reshape(-1, 2))

    def _start(self, graded: bool) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """First panels: band index and ends in theta; one a band, or dyadically graded to edges and breaks."""
        band: list[int] = []
        ends: list[tuple[float, float]] = []
        for index, (low, high) in enumerate(self._p_bands):
            marks = np.array([0.0, math.pi])
            if graded:
                inside = self.transform.breaks[(self.transform.breaks > low) & (self.transform.breaks < high)]
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
        ends = np.array(self._p_bands)
        nodes, rule = gauss_legendre(_NODES)
        to_legendre = np.linalg.inv(np.polynomial.legendre.legvander(2 * nodes - 1, _NODES - 1))
        band, low, high = self._start(graded)
        guess: FloatArray | None = None
        accepted = []
        largest = np.zeros(2)
        for level in range(60):
            theta = low[:, None] + (high - low)[:, None] * nodes
            start, half = ends[band, 0], 0.5 * (ends[band, 1] - ends[band, 0])
            p = (start[:, None] + 2 * half[:, None] * np.sin(0.5 * theta) ** 2).ravel()
            square = self.transform.height(p, self.noise, guess)
            values = self.transform.local(p, square, self.noise)
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
                p,
                square,
                p + self.noise * values.g.real,
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
            children = np.concatenate([0.5 * nodes, 0.5 + 0.5 * nodes])
            interpolate = np.polynomial.legendre.legvander(2 * children - 1, _NODES - 1) @ to_legendre
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
        grid_p = np.concatenate([self._p, np.array(self._p_bands).ravel()])
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


def _chunks(rows: int, columns: int) -> list[slice]:
    step = max(1, (1 << 20) // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


__all__ = ["AtomTransform", "CauchyTransform", "LocalValues", "SubordinatedSpectrum"]
