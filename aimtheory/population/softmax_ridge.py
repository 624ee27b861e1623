"""Fields Λ_C(u, v) = E exp(−e^{u+g} − e^{v+h}) of strongly correlated logits, along and across their ridge ("ours").

A common Gaussian is split off, (g, h) = r(κ, 1)ξ + independent rest of variances a' = C_11 − κ²r² and b' = C_22 − r²,
r² = C_12/κ. In the coordinates u = κ(s + y), v = s − y, and with t = s + rξ,

    Λ_C = ∫ dt φ((t − s)/r)/r λ_{a'}(κ(t + y)) λ_{b'}(t − y) = −∫ dt Φ((t − s)/r) ∂_t[λ_{a'} λ_{b'}]:

a matrix product over t for each y on the same lattice as t. The integrands live where the λ's step, |t| of order one or
√b', so that nothing grows with the length r of the ridge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from aimtheory.population.gumbel_smoothing import Resolution, gumbel_derivatives, normal_density
from aimtheory.population.row_lengths import RowLengths
from aimtheory.population.softmax_row import graded_trapezoid, logit_range

FloatArray = NDArray[np.float64]

_NARROWEST = 1.15
"""Least r in units of the lattice spacing: the Gaussian is then summed to exp(−2π² 1.15²) = 5e-12."""


@dataclass(frozen=True)
class RidgeFields:
    """``missing`` = 1 − Λ and ``uv`` = ∂_u∂_vΛ at the nodes (s, y), and what their derivatives are made of."""

    missing: FloatArray
    uv: FloatArray
    kernel: FloatArray
    left: list[FloatArray]
    right: list[FloatArray]

    def pull(self, by_field: FloatArray, by_mixed: FloatArray, means: bool) -> tuple[FloatArray, FloatArray]:
        """Derivatives by (C_11, C_12, C_22) and by the mean of Σ by_field Λ + Σ by_mixed ∂_u∂_vΛ."""
        back = self.kernel.T @ by_field, self.kernel.T @ by_mixed

        def along(i: int, j: int) -> float:
            """Of Σ by_field ∂_u^i∂_v^jΛ + Σ by_mixed ∂_u^{i+1}∂_v^{j+1}Λ."""
            pairs = zip(back, (i, i + 1), (j, j + 1), strict=True)
            return sum(float(np.einsum("ty,ty,ty->", b, self.left[n], self.right[m])) for b, n, m in pairs)

        by_covariance = np.array([0.5 * along(2, 0), along(1, 1), 0.5 * along(0, 2)])
        return by_covariance, np.array([along(1, 0), along(0, 1)]) if means else np.zeros(2)


def _views(table: FloatArray, rows: int, columns: int, reverse: bool) -> tuple[list[FloatArray], FloatArray]:
    """λ and its derivatives, and 1 − λ, at t + y or, ``reverse``, at t − y: (rows, columns) views of each line."""

    def view(line: FloatArray) -> FloatArray:
        windows = np.lib.stride_tricks.sliding_window_view(line, columns)
        return windows[:, ::-1] if reverse else windows

    assert table.shape[1] == rows + columns - 1
    return [view(1.0 - table[0]), *[view(line) for line in table[1:]]], view(table[0])


@dataclass(frozen=True)
class RidgeNodes:
    """Nodes s (along) and y (across) with the direction κ; ``along`` and ``across`` are their weights.

    The Jacobian 2|κ| is in ``along``. ``lattice`` is the spacing of y and t; ``first`` is the index of the lowest y.
    """

    direction: float
    s: FloatArray
    along: FloatArray
    across: FloatArray
    lattice: float
    first: int
    top: float

    def fields(self, covariance: FloatArray, mean: FloatArray, order: int, resolution: Resolution) -> RidgeFields:
        """1 − Λ_C and ∂_u∂_vΛ_C at (u + m_1, v + m_2), arrays (s, y); ``order`` 0 makes no derivatives of them."""
        kappa, h = self.direction, self.lattice
        common = covariance.item(1) / kappa
        r = math.sqrt(common)
        rest = max(covariance.item(0) - kappa**2 * common, 0.0), max(covariance.item(3) - common, 0.0)
        low, high = self._window(r, max(rest[0] / kappa**2, rest[1]), mean, resolution)
        t = np.arange(math.floor(low / h), math.ceil(high / h) + 1)
        across = len(self.across)
        derivatives = 3 if order else 1
        # λ depends on t + y or t − y alone: its values at all pairs are views of one table.
        first, last = self.first, self.first + across - 1
        plus = kappa * h * np.arange(t[0] + first, t[-1] + last + 1, dtype=np.float64) + mean.item(0)
        minus = h * np.arange(t[0] - last, t[-1] - first + 1, dtype=np.float64) + mean.item(1)
        left, gone_left = _views(gumbel_derivatives(plus, rest[0], derivatives, resolution), len(t), across, False)
        right, gone_right = _views(gumbel_derivatives(minus, rest[1], derivatives, resolution), len(t), across, True)
        scaled = (h * t - self.s[:, None]) / r
        kernel = normal_density(scaled) * (h / r)
        # 1 − Λ = ∫ Φ((s − t)/r) (−∂_t)[λλ], a sum of positive terms, and what λλ lost below the lattice.
        falling = -(kappa * left[1] * right[0] + left[0] * right[1])
        passed = special.ndtr(-np.minimum(scaled, 14.0))
        lost = gone_left[0] + left[0][0] * gone_right[0] - 0.5 * h * falling[0]
        missing = passed @ (falling * h) + passed[:, :1] * lost
        return RidgeFields(missing, kernel @ (left[1] * right[1]), kernel, left, right)

    def _window(self, r: float, rest: float, mean: FloatArray, resolution: Resolution) -> tuple[float, float]:
        """Where the integrand over t lives: left, the exponential tail of λ' or the Gaussian, whichever ends first."""
        cut = -math.log(resolution.tail)
        reach = r * math.sqrt(2 * cut)
        lowest = float(self.s[0])
        peak = min(lowest + r * r, 0.0)
        rate = max(1 + (lowest - peak) / (r * r), 1e-3) if r > 0 else 1.0
        span = math.sqrt(2 * cut * rest)
        shift = max(abs(mean.item(0) / self.direction), abs(mean.item(1)))
        low = peak - min(reach, cut / rate + span) - shift - rest / 2
        high = min(float(self.s[-1]) + reach + 2 * r * r, self.top + span + shift)
        return low, max(high, low + 1.0)


def ridge_direction(off: FloatArray, own: FloatArray, resolution: Resolution) -> float | None:
    """κ for which both covariances have an independent rest, or None: κ must lie between C_12/C_22 and C_11/C_12.

    >>> from aimtheory.population.gumbel_smoothing import FINE
    >>> ridge_direction(np.array([[4.0, 3.9], [3.9, 4.0]]), np.array([[8.0, 7.8], [7.8, 8.0]]), FINE)
    1.0
    """
    if min(off.item(1), own.item(1)) <= 0:
        return None
    lowest = max(c.item(1) / c.item(3) for c in (off, own))
    highest = min(c.item(0) / c.item(1) for c in (off, own))
    if lowest > highest * (1 + 1e-9):
        return None
    middle = math.sqrt(off.item(0) / off.item(3))
    kappa = min(max(middle, lowest), highest)
    common = min(off.item(1), own.item(1)) / kappa
    spacing = _spacing(off, own, kappa, resolution)
    return kappa if common > (_NARROWEST * spacing) ** 2 else None


def _spacing(off: FloatArray, own: FloatArray, kappa: float, resolution: Resolution) -> float:
    """The lattice spacing: the scale of exp(−eˣ) in u or v, or that of the rests where they are wider."""
    rests = []
    for c in (off, own):
        common = c.item(1) / kappa
        rests += [max(c.item(0) - kappa**2 * common, 0.0) / kappa**2, max(c.item(3) - common, 0.0)]
    return resolution.step * max(min(1.0, 1.0 / kappa), 0.5 * math.sqrt(min(rests)))


def ridge_nodes(
    lengths: RowLengths, off: FloatArray, own: FloatArray, mean: FloatArray, kappa: float, resolution: Resolution
) -> RidgeNodes:
    """Nodes for ∬ du dv along and across the ridge u = κv."""
    low_u, high_u = logit_range(lengths, off.item(0), own.item(0), mean.item(0), resolution)
    low_v, high_v = logit_range(lengths, off.item(3), own.item(3), mean.item(1), resolution)
    low_u, high_u = low_u / kappa, high_u / kappa
    h = _spacing(off, own, kappa, resolution)
    cut = -math.log(resolution.tail)
    common = min(off.item(1), own.item(1)) / kappa
    spread = 1 + math.sqrt(2 * math.log(lengths.tokens))
    step = max(h, resolution.step * 1.25 * math.sqrt(common) / spread)
    shift = abs(mean.item(0) / kappa) + abs(mean.item(1))
    s_low = 0.5 * min(low_u + min(low_v + cut, high_v), low_v + min(low_u + cut / kappa, high_u))
    # Along the ridge both rows fall together, exp(2s + 2r²), or the Gaussian exp(−s²/2r²) where this is smaller.
    for c, count in ((off, lengths.tokens), (own, 1)):
        common_here, depth = c.item(1) / kappa, cut + math.log(count)
        rest_here = max(c.item(0) / kappa**2 + c.item(3) - 2 * common_here, 0.0)
        gaussian = math.sqrt(2 * common_here * depth)
        reach = gaussian if gaussian < 2 * common_here else depth / 2 + common_here
        s_low = min(s_low, -reach - rest_here / 4 - 0.5 * shift)
    s_high = 0.5 * (high_u + high_v)
    centre = s_low
    if max(off.item(0), off.item(3)) < 9:
        depths = [math.log(lengths.tokens) + 2 * math.sqrt(max(off.item(n), own.item(n))) for n in (0, 3)]
        centre = -0.5 * (depths[0] / kappa + depths[1] + shift)
    s, along = graded_trapezoid(s_low, s_high, centre, step, step / resolution.step)
    # Across, exp(−|u/κ − v|) or the Gaussian of the rests ends the integrand.
    rest = max(c.item(0) / kappa**2 + c.item(3) - 2 * c.item(1) / kappa for c in (off, own))
    gaussian = math.sqrt(2 * cut * max(rest, 0.0))
    depth_across = gaussian + 4.0 if gaussian < rest else cut + rest / 2
    span = 0.5 * (max(1.0, 1 / kappa) * depth_across + shift)
    below = -min(span, 0.5 * (high_v - low_u))
    above = min(span, 0.5 * (high_u - low_v))
    y = np.arange(math.floor(below / h), math.ceil(above / h) + 1)
    return RidgeNodes(kappa, s, 2 * kappa * along, np.full(len(y), h), h, int(y[0]), 3.8 * max(1.0, 1 / kappa))


__all__ = ["RidgeFields", "RidgeNodes", "ridge_direction", "ridge_nodes"]
