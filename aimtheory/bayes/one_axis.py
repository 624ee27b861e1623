"""Integrals of a channel that sees one combination of forms, u, by panels that follow its jumps and its posterior.

With u = omega + sqrt(V) z, omega ~ N(0, q), z ~ N(0, 1), in units in which u has variance q + V:

    Z = E_z p(y|u),   m = E_z[z p(y|u)]/Z,   signal = (2/V) sum_y weight E_omega[Z m^2],   psi = sum_y weight E Z log Z.

A tabulated likelihood loses both where V is far below the step of its table, and where p jumps between two nodes. Here
z is integrated by Gauss panels that are cut at the jumps of p, and omega by panels graded towards each jump on the
scale sqrt(V), so that both limits are as sharp as any other point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aimtheory.bayes.measured import Measured
from aimtheory.spectra.band_quadrature import gauss_legendre
from aimtheory.spectra.law import FloatArray

Density = Callable[[FloatArray], FloatArray]
"""Points u (N,) to p(y|u) of shape (N, Y)."""

_REACH, _SCAN, _JUMP = 9.0, 8001, 1e-3
_INNER = np.array([-9.0, -4.5, -2.25, 0.0, 2.25, 4.5, 9.0])
_NEAR = np.array([-9.0, -6.5, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.5, 9.0])
_PANELS, _DOUBLINGS, _ENOUGH = 12, 3, 1e-9
_FINE, _COARSE = 12, 9
_SIZE = 1 << 21
_SHARED = 30.0
"""Up to sqrt(q + V) = 30 sqrt(V) all omega share one set of points u, whose likelihood is computed once."""


def find_jumps(density: Density, total: float) -> FloatArray:
    """Points within nine standard deviations sqrt(``total``) where some p(y|u) jumps by more than 1e-3, ascending.

    A scan of 8001 points, and bisection of the cells that change: across a jump the change stays while the cell
    shrinks. Two jumps in one cell of the scan are found as one at most.

    >>> find_jumps(lambda u: np.stack([u > 0.3, u <= 0.3], axis=1).astype(float), 1.0).round(9)
    array([0.3])
    """
    reach = _REACH * math.sqrt(total)
    grid = np.linspace(-reach, reach, _SCAN)
    values = np.concatenate([density(part) for part in np.array_split(grid, 8)])
    cells = np.flatnonzero(np.abs(np.diff(values, axis=0)).max(axis=1) > _JUMP)
    low, high = grid[cells], grid[cells + 1]
    left, right = values[cells], values[cells + 1]
    for _ in range(45):
        if not len(low):
            break
        middle = 0.5 * (low + high)
        centre = density(middle)
        before, after = np.abs(centre - left).max(axis=1), np.abs(right - centre).max(axis=1)
        # A smooth change halves with the cell.
        kept = np.maximum(before, after) > _JUMP
        first = before >= after
        low, high = np.where(first, low, middle)[kept], np.where(first, middle, high)[kept]
        left, right = (
            np.where(first[:, None], left, centre)[kept],
            np.where(first[:, None], centre, right)[kept],
        )
    return np.unique(0.5 * (low + high))


def one_axis_integrals(
    density: Density, weights: FloatArray, jumps: FloatArray, q: float, variance: float
) -> tuple[Measured, Measured]:
    """``(signal, psi)`` at q >= 0 and V > 0; the error is the change from 9 to 12 nodes a panel and on halving panels.

    >>> def sign(u):
    ...     return np.stack([u > 0, u <= 0], axis=1).astype(float)
    >>> signal, _ = one_axis_integrals(sign, np.ones(2), np.zeros(1), 0.0, 1.0)
    >>> float(signal.value).__round__(12)                         # 2 (2/pi)
    1.273239544735
    """
    if q == 0:
        fine = _inner(density, weights, jumps, np.zeros(1), variance, _FINE)
        coarse = _inner(density, weights, jumps, np.zeros(1), variance, _COARSE)
        pairs = [(a[0], abs(a[0] - b[0])) for a, b in zip(fine, coarse, strict=True)]
    else:
        before = _outer(density, weights, jumps, q, variance, _PANELS, _COARSE)
        for doubling in range(_DOUBLINGS):
            now = _outer(density, weights, jumps, q, variance, _PANELS << doubling, _FINE)
            pairs = [(a, abs(a - b)) for a, b in zip(now, before, strict=True)]
            if all(error <= _ENOUGH * abs(value) for value, error in pairs):
                break
            before = now
    # What lies beyond nine standard deviations, and rounding.
    return (
        _measured(*pairs[0], 1e-16 / variance),
        _measured(*pairs[1], 0.0),
    )


def _measured(value: float, change: float, floor: float) -> Measured:
    return Measured(np.asarray(value), np.asarray(change + 1e-13 * abs(value) + floor), "quadrature")


def _outer(
    density: Density, weights: FloatArray, jumps: FloatArray, q: float, variance: float, panels: int, nodes: int
) -> tuple[float, float]:
    root, scale = math.sqrt(q), math.sqrt(variance)
    # Even likelihoods such as those of |u| have a kink at 0.
    marks = (np.append(jumps, 0.0)[:, None] + scale * _NEAR).ravel()
    edge = _REACH * root
    marks = np.unique(np.clip(np.concatenate([marks, np.linspace(-edge, edge, 2 * panels + 1)]), -edge, edge))
    unit, rule = gauss_legendre(nodes)
    width = np.diff(marks)
    omega = (marks[:-1, None] + width[:, None] * unit).ravel()
    mass = (width[:, None] * rule).ravel() * np.exp(-0.5 * (omega / root) ** 2) / (root * math.sqrt(2 * math.pi))
    if q + variance > _SHARED**2 * variance or len(jumps) > 0:
        signal, psi = _inner(density, weights, jumps, omega, variance, nodes)
    else:
        signal, psi = _shared(density, weights, omega, q + variance, variance, nodes)
    return float(mass @ signal), float(mass @ psi)


def _shared(
    density: Density, weights: FloatArray, omega: FloatArray, total: float, variance: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """As ``_inner``, without jumps: p(y|u) on panels of u narrower than sqrt(V), summed against each kernel."""
    scale, edge = math.sqrt(variance), _REACH * math.sqrt(total)
    count = math.ceil(edge / (1.75 * scale))
    marks = np.linspace(-edge, edge, 2 * max(count, _PANELS) + 1)
    unit, rule = gauss_legendre(nodes)
    width = np.diff(marks)
    u = (marks[:-1, None] + width[:, None] * unit).ravel()
    mass = (width[:, None] * rule).ravel() / (scale * math.sqrt(2 * math.pi))
    p = mass[:, None] * density(u)
    z = (u - omega[:, None]) / scale
    kernel = np.exp(-0.5 * z * z)
    return _bits(kernel @ p, (kernel * z) @ p, weights, variance)


def _inner(
    density: Density, weights: FloatArray, jumps: FloatArray, omega: FloatArray, variance: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """``(2/V) sum_y weight Z m^2`` and ``sum_y weight Z log Z`` at every omega."""
    scale = math.sqrt(variance)
    signal, psi = np.empty(omega.shape), np.empty(omega.shape)
    cost = (len(_INNER) + len(jumps)) * nodes * len(weights)
    for part in np.array_split(np.arange(len(omega)), max(1, len(omega) * cost // _SIZE)):
        z, mass = posterior_nodes(jumps, omega[part], variance, nodes)
        p = density((omega[part, None] + scale * z).ravel()).reshape(*z.shape, -1)
        total = np.einsum("nz,nzy->ny", mass, p)
        first = np.einsum("nz,nzy->ny", mass * z, p)
        signal[part], psi[part] = _bits(total, first, weights, variance)
    return signal, psi


def posterior_nodes(
    jumps: FloatArray, omega: FloatArray, variance: float, nodes: int = _FINE
) -> tuple[FloatArray, FloatArray]:
    """Nodes z and weights (N, M) of standard normal integrals, cut where ``omega + sqrt(V) z`` meets a jump or 0."""
    unit, rule = gauss_legendre(nodes)
    cuts = np.clip((np.append(jumps, 0.0) - omega[:, None]) / math.sqrt(variance), -_REACH, _REACH)
    marks = np.sort(np.concatenate([cuts, np.broadcast_to(_INNER, (len(omega), len(_INNER)))], axis=1), axis=1)
    width = np.diff(marks, axis=1)
    z = (marks[:, :-1, None] + width[..., None] * unit).reshape(len(omega), -1)
    mass = (width[..., None] * rule).reshape(z.shape) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return z, mass


def _bits(total: FloatArray, first: FloatArray, weights: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """The two sums over y, from ``E p`` and ``E z p`` of shape (N, Y)."""
    alive = total > 1e-290
    safe = np.where(alive, total, 1.0)
    signal = np.where(alive, first**2 / safe, 0.0) @ weights * (2 / variance)
    return np.asarray(signal), np.where(alive, total * np.log(safe), 0.0) @ weights


__all__ = ["find_jumps", "one_axis_integrals", "posterior_nodes"]
