"""Posterior averages over two independent Gaussian axes: channels of two matrices with one form each."""

from __future__ import annotations

import math

import numpy as np

from aimtheory.bayes.measured import Measured
from aimtheory.spectra.law import FloatArray

REACH = 7.5
_INNER = 168
"""Nodes an axis of h; every second one makes the coarse rule of the error."""

_OUTER = (56, 42)


def axis_grids(total: FloatArray) -> list[FloatArray]:
    """Midpoints within 7.5 standard deviations of N(0, q + V), one array an axis."""
    unit = REACH * ((2 * np.arange(_INNER) + 1) / _INNER - 1)
    return [unit * math.sqrt(float(value)) for value in total]


def measure_two_axes(
    grids: list[FloatArray], table: FloatArray, weights: FloatArray, q: FloatArray, v: FloatArray, even: bool = False
) -> tuple[Measured, Measured]:
    """``2 E g g^T`` (2, 2) and ``E log Z`` for omega_i ~ N(0, q_i), h_i ~ N(omega_i, v_i), p(y | h) = ``table`` on the
    grids, shape (n, n, Y), summed over y with ``weights``.

    ``even``: the table is even in the second axis. An axis with q_i = 0 costs one node. The errors are the changes on
    coarser grids of h and of omega.
    """
    rules = [_integrate(grids, table, weights, q, v, *kind, even) for kind in ((1, 0), (2, 0), (1, 1))]
    values, psis = np.array([rule[0] for rule in rules]), np.array([rule[1] for rule in rules])
    error = np.abs(values[1:] - values[0]).sum(axis=0) + 1e-13 * np.abs(values[0]).max()
    psi_error = np.abs(psis[1:] - psis[0]).sum() + 1e-13 * abs(psis[0])
    return Measured(values[0], error, "quadrature"), Measured(np.asarray(psis[0]), np.asarray(psi_error), "quadrature")


def _integrate(
    grids: list[FloatArray],
    table: FloatArray,
    weights: FloatArray,
    q: FloatArray,
    v: FloatArray,
    stride: int,
    outer: int,
    even: bool,
) -> tuple[FloatArray, float]:
    values = table[stride // 2 :: stride, stride // 2 :: stride]
    kernels, slopes, masses = [], [], []
    for axis in range(2):
        x = grids[axis][stride // 2 :: stride]
        omega, mass = _normal_rule(math.sqrt(max(q[axis], 0.0)), _OUTER[outer], half=even and axis == 1)
        z = (x - omega[:, None]) / math.sqrt(v[axis])
        kernel = np.exp(-0.5 * z**2) * ((x[1] - x[0]) / math.sqrt(2 * math.pi * v[axis]))
        kernels.append(kernel)
        slopes.append(kernel * z)
        masses.append(mass)
    # The axis with fewer nodes of omega is summed first.
    first = 1 if len(masses[1]) <= len(masses[0]) else 0
    last = 1 - first
    inner = [np.tensordot(part, values, axes=(1, first)) for part in (kernels[first], slopes[first])]
    z0, along, across = (
        np.tensordot(left, right, axes=(1, 1))
        for left, right in ((kernels[last], inner[0]), (slopes[last], inner[0]), (kernels[last], inner[1]))
    )
    means = np.stack([along, across] if last == 0 else [across, along]) / np.sqrt(v)[:, None, None, None]
    mass = np.multiply.outer(masses[last], masses[first])[..., None] * weights
    alive = z0 > 1e-250
    safe = np.where(alive, z0, 1.0)
    signal = 2 * np.einsum("iaby,jaby,aby->ij", means, means, np.where(alive, mass / safe, 0.0))
    if even:
        signal[0, 1] = signal[1, 0] = 0.0
    return signal, float((mass * np.where(alive, z0 * np.log(safe), 0.0)).sum())


def _normal_rule(spread: float, count: int, half: bool) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of N(0, spread^2), its positive half only when the integrand is even."""
    if spread < 1e-9:
        return np.zeros(1), np.ones(1)
    z = REACH * ((2 * np.arange(count) + 1) / count - 1)
    mass = np.exp(-0.5 * z**2)
    mass /= mass.sum()
    return (spread * z[count // 2 :], 2 * mass[count // 2 :]) if half else (spread * z, mass)


__all__ = ["axis_grids", "measure_two_axes"]
