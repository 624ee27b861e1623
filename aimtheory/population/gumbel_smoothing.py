"""The Gaussian smoothing of exp(−eˣ), from which averages of a softmax over any number of tokens are made ("ours").

A softmax divides by Σ = Σ_j e^{g_j}, and e^{−e^u Σ} is a product over the tokens. What one token of variance a adds is

    λ_a(u) = E exp(−e^{u+√a z}),   z ~ N(0, 1),

a step from 1 to 0 about u = −a/2, and its derivatives by u. By Stein's lemma E F^{(k)}(u+√a z) h_n(z) with normalized
Hermite polynomials h_n gives them all: E F h_{n+1} = √a E F' h_n/√(n+1).

Two rules, both of positive terms, so that 1 − λ and λ' keep their relative accuracy in the tail u → −∞ where many
tokens live. Below a standard deviation of 3 a trapezoid sum over z. Above it the step is narrow on the scale of z, and
with the Gumbel density −d/dt exp(−eᵗ) = e^{t−eᵗ} the same integral runs over t, λ_a(u) = ∫ e^{t−eᵗ} Φ((t−u)/√a) dt,
on nodes that do not depend on a: low temperature costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]

_LARGEST_DEVIATION = 3.0
"""Standard deviation up to which the sum runs over z."""
_COARSEST = 0.6
"""A spacing of z that integrates polynomials times the Gaussian to exp(−2π²/0.36) = 1e-24."""
_LEVELS = 6
"""Spacings of z halve in this many steps."""
_STEEPEST = 100.0
"""exp(−y) beyond it is left out: subnormal numbers would be slow, and count for nothing."""
_NEGLIGIBLE = 1e-45


@dataclass(frozen=True)
class Resolution:
    """How fine the grids are: ``step`` of u, ``smoothing`` of √a z, ``tail`` that may be cut off, in relative terms.

    The functions are analytic in a strip |Im u| < π/2, so that a step h leaves an error of exp(−π²/h) times a modest
    factor.
    """

    step: float
    smoothing: float
    tail: float


FINE = Resolution(0.27, 0.30, 1e-12)
COARSE = Resolution(0.31, 0.34, 1e-11)


def gumbel_derivatives(points: FloatArray, variance: float, order: int, resolution: Resolution) -> FloatArray:
    """(1 − λ_a, λ_a', …, λ_a^{(order)}) at the points, shape (order + 1, n), order ≤ 4.

    >>> float(gumbel_derivatives(np.array([0.0]), 0.0, 1, FINE)[1, 0])  # −1/e
    -0.36787944117144233
    """
    result = np.empty((order + 1, len(points)))
    if variance > _LARGEST_DEVIATION**2:
        density, nodes = _gumbel_nodes(resolution.smoothing)
        deviation = math.sqrt(variance)
        scaled = (nodes - points[:, None]) / deviation
        result[0] = special.ndtr(-scaled) @ density
        # d^k/du^k Φ((t−u)/√a) = −He_{k−1}(ζ) φ(ζ) a^{−k/2}.
        previous, current = np.zeros_like(scaled), -normal_density(scaled)
        for k in range(1, order + 1):
            result[k] = (current @ density) / deviation**k
            previous, current = current, scaled * current - (k - 1) * previous
        return result
    nodes, weights = _normal_nodes(math.sqrt(variance), resolution)
    y, falling = _steps(points, math.sqrt(variance), nodes)
    result[0] = -(np.expm1(-y) @ weights)
    for k in range(1, order + 1):
        result[k] = (falling * _bell_ratio(k, y)) @ weights
    return result


def gumbel_modes(
    points: FloatArray, variance: float, count: int, orders: int, resolution: Resolution
) -> tuple[FloatArray, list[FloatArray]]:
    """1 − λ_a (n,), and E F^{(k)}(u + √a z) h_m(z) for k = 1..orders ≤ 3 and m < count, each of shape (n, count).

    F = exp(−eˣ). The modes of F itself, m ≥ 1, are √(a/m) times those of F' at m − 1.
    """
    deviation = math.sqrt(variance)
    wide = variance > _LARGEST_DEVIATION**2
    # With few nodes all derivatives are summed directly; otherwise Stein's lemma shifts the modes of the first.
    direct = variance < 0.25
    extra = count if direct else count + orders - 1
    if wide:
        density, nodes = _gumbel_nodes(resolution.smoothing)
        scaled = (nodes - points[:, None]) / deviation
        escaped = special.ndtr(-scaled) @ density
        current = normal_density(scaled) / -deviation
        previous = np.zeros_like(current)
        first = np.empty((len(points), extra))
        for m in range(extra):
            first[:, m] = current @ density
            previous, current = current, (scaled * current - math.sqrt(m) * previous) / math.sqrt(m + 1)
        modes = [first]
    else:
        shape = _trapezoid_shape(deviation, resolution)
        nodes, weights = _trapezoid(*shape)
        # Tables grow by blocks, so that few are made.
        transform = _hermite_table(shape, 16 * math.ceil(extra / 16))[:, :extra]
        y, falling = _steps(points, deviation, nodes)
        escaped = -(np.expm1(-y) @ weights)
        modes = [(falling * _bell_ratio(k, y)) @ transform for k in range(1, (orders if direct else 1) + 1)]
    while len(modes) < orders:
        last = modes[-1]
        shift = np.sqrt(np.arange(1, last.shape[1])) / deviation
        modes.append(last[:, 1:] * shift)
    return escaped, [table[:, :count] for table in modes]


def normal_density(points: FloatArray) -> FloatArray:
    """φ(x), zero where it is negligible."""
    density = np.exp(np.maximum(-0.5 * points * points, -110.0)) * (1 / math.sqrt(2 * math.pi))
    density[density < _NEGLIGIBLE] = 0.0
    return np.asarray(density)


def _steps(points: FloatArray, deviation: float, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """y = exp(u + √a z), cut at 100, and y e^{−y}, zero there."""
    y = np.minimum(np.exp(np.minimum(points[:, None] + deviation * nodes, 5.0)), _STEEPEST)
    falling = np.exp(-y) * y
    falling[y >= _STEEPEST] = 0.0
    return y, falling


def _bell_ratio(k: int, y: FloatArray) -> FloatArray | float:
    """F^{(k)}/(y e^{−y}) with y = eˣ: −1, y−1, −y²+3y−1, y³−6y²+7y−1."""
    if k == 1:
        return -1.0
    if k == 2:
        return y - 1.0
    if k == 3:
        return (3.0 - y) * y - 1.0
    return ((y - 6.0) * y + 7.0) * y - 1.0


@lru_cache(maxsize=8)
def _gumbel_nodes(step: float) -> tuple[FloatArray, FloatArray]:
    """(e^{t−eᵗ} dt, t): e^{−36} below and exp(−e^{3.7}) above are lost."""
    nodes: FloatArray = step * np.arange(math.floor(-36 / step), math.ceil(3.7 / step) + 1, dtype=np.float64)
    return np.asarray(np.exp(nodes - np.exp(nodes)) * step), nodes


def _normal_nodes(deviation: float, resolution: Resolution) -> tuple[FloatArray, FloatArray]:
    """A trapezoid rule for z ~ N(0, 1) that resolves exp(−e^{√a z}) and reaches past its tilt z ~ √a."""
    return _trapezoid(*_trapezoid_shape(deviation, resolution))


def _trapezoid_shape(deviation: float, resolution: Resolution) -> tuple[int, int, int]:
    """(level of the spacing, nodes below 0, nodes above 0); in steps, so that rules are shared along a trajectory."""
    if deviation == 0.0:
        return -1, 0, 0
    level = max(0, math.ceil(_LEVELS * math.log2(_COARSEST * deviation / resolution.smoothing)))
    step = _COARSEST * 2.0 ** (-level / _LEVELS)
    # At small a the nodes are few, and high modes ask for the far tail.
    reach = 8.6 if deviation < 1 else math.sqrt(-2 * math.log(resolution.tail))
    return level, math.ceil(reach / step), math.ceil((reach + math.ceil(4 * deviation) / 4) / step)


@lru_cache(maxsize=256)
def _trapezoid(level: int, below: int, above: int) -> tuple[FloatArray, FloatArray]:
    if level < 0:
        return np.zeros(1), np.ones(1)
    step = _COARSEST * 2.0 ** (-level / _LEVELS)
    nodes = np.arange(-below, above + 1) * step
    return nodes, np.exp(-(nodes**2) / 2) * (step / math.sqrt(2 * math.pi))


@lru_cache(maxsize=64)
def _hermite_table(shape: tuple[int, int, int], count: int) -> FloatArray:
    """w h_m at the nodes, shape (nodes, count); the recurrence runs on h_m √w, which stays of order one."""
    nodes, weights = _trapezoid(*shape)
    root = np.sqrt(weights)
    table = np.empty((count, len(nodes)))
    previous, current = np.zeros_like(nodes), root.copy()
    for m in range(count):
        table[m] = current
        previous, current = current, (nodes * current - math.sqrt(m) * previous) / math.sqrt(m + 1)
    return np.ascontiguousarray((table * root).T)


__all__ = ["COARSE", "FINE", "Resolution", "gumbel_derivatives", "gumbel_modes", "normal_density"]
