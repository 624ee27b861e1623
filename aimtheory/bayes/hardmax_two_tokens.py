"""Hardmax of two tokens: exact orthants, integrated where the integrand is sharp.

y fixes s_1 = sign(h_11 - h_12) and s_2 = sign(h_22 - h_12). With kappa_a = s_a (omega_aa - omega_12)/sqrt(3V) and
c = s_1 s_2/3, Z = Phi_2(kappa_1, kappa_2; c), and over the four answers

    G(r) = (4/3) sum_{c = +-1/3} E[ (3 A_1^2 + 3 A_2^2 + 6 c A_1 A_2) / Phi_2 ],    A_a = d Phi_2 / d kappa_a,
    kappa ~ N(0, r [[1, c], [c, 1]]),    r = q/V.

The bracket does not depend on r. It lives on the strips |kappa_1| = O(1) and |kappa_2| = O(1) while kappa has size
sqrt(r), so a rule scaled with kappa loses it at large r. In ``kappa = sinh t`` the strip and the long tail are both
resolved by one trapezoid rule, whose error falls exponentially with the step, and one table of the bracket serves
every r. (The derivative of Phi_2 enters, not the bivariate density: see the page on the published curve.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, roots_hermitenorm

from aimtheory.bayes.bivariate_normal import log_orthant, log_orthant_derivative
from aimtheory.bayes.scale_free import RatioTable, build_table
from aimtheory.spectra.law import FloatArray

_SMALL_RATIO = 0.05
_REACH, _FAR = 9.0, 12.0
_LARGEST = 1e6
_STEP = 0.125


def _bracket(first: FloatArray, second: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
    """The bracket of G, and Phi_2 log Phi_2."""
    log_z = log_orthant(first, second, c)
    one = np.exp(log_orthant_derivative(first, second, c) - log_z)
    two = np.exp(log_orthant_derivative(second, first, c) - log_z)
    z = np.exp(log_z)
    return z * (3 * one**2 + 3 * two**2 + 6 * c * one * two), z * log_z


@dataclass(frozen=True, eq=False)
class _Grid:
    """Nodes kappa = sinh t and d kappa; ``size`` of them lie below ``_FAR``.

    For c = 1/3 and -1/3: the bracket and Phi_2 log Phi_2 on the core, both arguments below ``_FAR``; beyond it in one
    argument they are those of a single boundary, a vector over the other; beyond it in both they vanish.
    """

    kappa: FloatArray
    measure: FloatArray
    size: int
    cores: tuple[tuple[FloatArray, FloatArray], ...]
    strip: tuple[FloatArray, FloatArray]


@lru_cache(maxsize=4)
def _grid(step: float) -> _Grid:
    low, high = -math.asinh(_REACH), math.asinh(_REACH * _LARGEST)
    t = np.arange(round(low / step), round(high / step) + 1) * step
    kappa = np.sinh(t)
    size = int(np.count_nonzero(kappa <= _FAR))
    near = kappa[:size]
    # Symmetric under the exchange of the arguments: the upper triangle suffices.
    row, column = np.triu_indices(size)
    cores = []
    for c in (1 / 3, -1 / 3):
        square = np.empty((2, size, size))
        square[:, row, column] = square[:, column, row] = _bracket(near[row], near[column], c)
        cores.append((square[0], square[1]))
    log_phi = log_ndtr(near)
    strip = (3 * np.exp(-(near**2) - math.log(2 * math.pi) - log_phi), np.exp(log_phi) * log_phi)
    return _Grid(kappa, step * np.cosh(t), size, tuple(cores), strip)


def _integrals(ratio: float, step: float) -> tuple[float, float]:
    """G(r) and psi(r) at one r."""
    signal = entropy = 0.0
    if ratio < _SMALL_RATIO:
        # Narrower than the grid; the bracket is smooth on the scale 1, so Gauss-Hermite converges at once.
        nodes, weights = roots_hermitenorm(24 if step >= _STEP else 32)
        weights = np.outer(weights, weights) / (2 * math.pi)
        x, y = np.meshgrid(math.sqrt(ratio) * nodes, math.sqrt(ratio) * nodes, indexing="ij")
        for c in (1 / 3, -1 / 3):
            bracket, plogp = _bracket(x, c * x + math.sqrt(1 - c * c) * y, c)
            signal += float((weights * bracket).sum())
            entropy += float((weights * plogp).sum())
        return 4 / 3 * signal, 2 * entropy
    grid = _grid(step)
    kept = int(np.count_nonzero(grid.kappa <= _REACH * math.sqrt(ratio)))
    size = min(kept, grid.size)
    x, w = grid.kappa[:size], grid.measure[:size]
    y, v = grid.kappa[:kept], grid.measure[:kept]
    for c, (bracket, plogp) in zip((1 / 3, -1 / 3), grid.cores, strict=True):
        scale = 1 / (2 * ratio * (1 - c * c))
        density = np.exp(-scale * (x[:, None] ** 2 + y**2 - 2 * c * np.outer(x, y)))
        density *= np.outer(w, v) * (math.sqrt(1 / (1 - c * c)) / (2 * math.pi * ratio))
        core, far = density[:, :size], 2 * density[:, size:].sum(axis=1)
        signal += float((core * bracket[:size, :size]).sum() + far @ grid.strip[0][:size])
        entropy += float((core * plogp[:size, :size]).sum() + far @ grid.strip[1][:size])
    return 4 / 3 * signal, 2 * entropy


def two_token_integrals(ratio: FloatArray, refinement: int = 0) -> tuple[FloatArray, FloatArray]:
    """``(G(r), psi(r))`` for an array of r in [0, 1e12], by direct quadrature; each refinement halves the step."""
    step = _STEP / 2**refinement
    values = np.array([_integrals(float(value), step) for value in ratio])
    return values[:, 0], values[:, 1]


@lru_cache(maxsize=1)
def two_token_table() -> RatioTable:
    """G and psi of the hardmax channel at T = 2, to about 1e-13."""

    def rule(ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = two_token_integrals(ratio)[0]
        return value, 1e-13 * np.abs(value)

    return build_table(rule, 1e-12)


__all__ = ["two_token_integrals", "two_token_table"]
