"""One row of the hardmax channel: T independent Gaussian forms, of which only the place of the largest is seen.

For forms ``h_c = omega_c + s_c z_c`` of one row, with ``Phi_c, phi_c`` the law of h_c at v and ``k_c = phi_c/(s_c
Phi_c)``,

    Z_b   = P(b is largest) = int dv prod_c Phi_c(v) k_b(v),
    Z_b d log Z_b/d omega_c = -K_bc (c != b),    K_bc = int dv prod Phi k_b k_c,    and the gradient sums to 0 over c:

one-dimensional integrals, whatever T. The information of the row is ``R = 2 sum_b Z_b sum_c D_c (d log Z_b/d
omega_c)^2``. Where V << q it lives on the ties of the two largest forms, and the *tie sum*

    C = sum_{i<j} tau(u_ij) prod_l P(h_l < the tied pair),   tau(u) = 2 (D_i + D_j)/(s_i^2 + s_j^2) phi^2/(Phi(u)
    Phi(-u)),

u_ij the gap by its standard deviation, equals R up to double ties. Its mean over omega is a product of one-dimensional
integrals, so that only ``R - C`` is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from aimtheory.spectra.law import FloatArray

_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))
_LOG_TWO_PI = float(np.log(2 * np.pi))
_CELLS = 40
_REACH = 6.0
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """N rows: ``probability`` Z (N, T), ``gradient`` d log Z_b/d omega_c (N, T answers, T forms), and what they were
    computed from: midpoints ``low + step (i + 1/2)`` of v, ``cumulative`` Phi_c (N, T, n), ``density`` of v with b
    the largest, times the step (N, T, n).
    """

    probability: FloatArray
    gradient: FloatArray
    low: FloatArray
    step: FloatArray
    cumulative: FloatArray
    density: FloatArray

    def information(self, multiplicity: FloatArray) -> FloatArray:
        """``2 sum_b Z_b sum_c D_c g_bc^2``, shape (N,)."""
        squares = (self.gradient**2 * multiplicity).sum(axis=-1)
        return np.asarray(2 * (self.probability * squares).sum(axis=-1))


def row_posterior(omega: FloatArray, scale: FloatArray, cells: int = _CELLS) -> RowPosterior:
    """The posterior of rows with means ``omega`` (N, T) and standard deviations ``scale`` (T,) or (N, T).

    The midpoint rule over +-6 standard deviations of the largest form: error about 1e-9.

    >>> row = row_posterior(np.zeros((1, 3)), np.ones(3))
    >>> row.probability.round(7).tolist()
    [[0.3333333, 0.3333333, 0.3333333]]
    """
    spread = np.broadcast_to(scale, omega.shape)
    low, high = (omega - _REACH * spread).max(axis=1), (omega + _REACH * spread).max(axis=1)
    step = (high - low) / cells
    v = low[:, None] + step[:, None] * (np.arange(cells) + 0.5)
    x = (v[:, None, :] - omega[:, :, None]) / spread[:, :, None]
    cumulative = np.maximum(ndtr(x), TINY)
    hazard = np.exp(-0.5 * x * x) / (_ROOT_TWO_PI * cumulative * spread[:, :, None])
    density = (cumulative.prod(axis=1) * step[:, None])[:, None, :] * hazard
    probability = density.sum(axis=2)
    gradient = -np.matmul(density, hazard.transpose(0, 2, 1)) / np.maximum(probability, TINY)[:, :, None]
    place = np.arange(omega.shape[1])
    gradient[:, place, place] = 0
    gradient[:, place, place] = -gradient.sum(axis=2)
    return RowPosterior(probability, gradient, low, step, cumulative, density)


def tie_sum(omega: FloatArray, variances: FloatArray, multiplicity: FloatArray) -> FloatArray:
    """C at rows ``omega`` (N, T); ``variances`` s^2 and ``multiplicity`` D of shape (T,)."""
    total = np.zeros(len(omega))
    tokens = omega.shape[1]
    for i in range(tokens):
        for j in range(i + 1, tokens):
            gap = variances[i] + variances[j]
            term = (
                2 * (multiplicity[i] + multiplicity[j]) / gap * _sharpness((omega[:, i] - omega[:, j]) / np.sqrt(gap))
            )
            height = (variances[j] * omega[:, i] + variances[i] * omega[:, j]) / gap
            for other in range(tokens):
                if other not in (i, j):
                    width = np.sqrt(variances[other] + variances[i] * variances[j] / gap)
                    term = term * ndtr((height - omega[:, other]) / width)
            total += term
    return total


def tie_sum_mean(prior: FloatArray, variances: FloatArray, multiplicity: FloatArray) -> float:
    """``E C`` over independent omega_c of variances ``prior`` (T,), exactly.

    The gap of a pair is independent of its precision-weighted height where prior and posterior variances are
    proportional, which is required.
    """
    z = np.linspace(-10, 10, 401)
    weight = np.exp(-0.5 * z * z) / _ROOT_TWO_PI * (z[1] - z[0])
    unit = np.linspace(-1, 1, 1441)
    tokens, total, seen = len(prior), 0.0, {}
    for i in range(tokens):
        for j in range(i + 1, tokens):
            others = tuple(sorted((variances[k], prior[k]) for k in range(tokens) if k not in (i, j)))
            key = (tuple(sorted((variances[i], variances[j]))), others)
            if key not in seen:
                gap = variances[i] + variances[j]
                ratio = (prior[i] + prior[j]) / gap
                factor = 2 * (multiplicity[i] + multiplicity[j]) / gap
                if ratio == 0:
                    mean = float(_sharpness(np.zeros(1))[0])
                else:
                    u = min(9.0, 10 * float(np.sqrt(ratio))) * unit
                    density = np.exp(-0.5 * u * u / ratio) / (_ROOT_TWO_PI * np.sqrt(ratio))
                    mean = float((_sharpness(u) * density).sum() * (u[1] - u[0]))
                inner = variances[i] * variances[j] / gap
                below = weight.copy()
                for variance, before in others:
                    below = below * ndtr(np.sqrt(inner * ratio) * z / np.sqrt(variance + inner + before))
                seen[key] = factor * mean * float(below.sum())
            total += seen[key]
    return total


def _sharpness(u: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-u * u - _LOG_TWO_PI - log_ndtr(u) - log_ndtr(-u)))


def ordered_row(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Means omega (N, T) of a row from uniform ``points`` (N, T), the off-diagonal ones (of one variance) in descending
    order: what matters, the largest forms, then hangs on the first coordinates, which Sobol points cover best.
    """
    omega = np.empty(points.shape)
    omega[:, 0] = np.sqrt(prior[0]) * ndtri(points[:, 0])
    level = np.zeros(len(points))
    for k in range(1, points.shape[1]):
        level = level + np.log(points[:, k]) / (points.shape[1] - k)
        omega[:, k] = -np.sqrt(prior[k]) * ndtri(np.maximum(-np.expm1(level), TINY))
    return omega


def uniform_points(dimension: int, count: int, seed: int) -> FloatArray:
    """Scrambled Sobol points strictly inside (0, 1), shape (count, dimension), count a power of two."""
    from scipy.stats import qmc

    return np.asarray(np.clip(qmc.Sobol(dimension, seed=seed).random(count), 1e-15, 1 - 1e-15))


def row_excess(tokens: int, ratio: float, count: int, seed: int) -> float:
    """``E(R - C)`` of one row at r = q/V, V = 1, by one randomization of ``count`` Sobol points; exact at r = 0."""
    multiplicity = np.ones(tokens)
    multiplicity[0] = 2
    if ratio == 0:
        omega = np.zeros((1, tokens))
    else:
        omega = ordered_row(uniform_points(tokens, count, seed), ratio * multiplicity)
    total = 0.0
    for part in np.array_split(omega, max(1, omega.size // 4096)):
        posterior = row_posterior(part, np.sqrt(multiplicity))
        total += float((posterior.information(multiplicity) - tie_sum(part, multiplicity, multiplicity)).sum())
    return total / len(omega)


def row_entropy(tokens: int) -> float:
    """``-sum_b p_b log p_b`` of the place of the largest form when nothing is known (omega = 0)."""
    multiplicity = np.ones(tokens)
    multiplicity[0] = 2
    p = row_posterior(np.zeros((1, tokens)), np.sqrt(multiplicity)).probability[0]
    return float(-(p * np.log(p)).sum())


def boundary_signal(tokens: int) -> float:
    """``lim sqrt(r) G(r)`` as r -> infinity, exactly: where V << q only one tie at a time is uncertain.

    A tie of the two largest forms i, j of a row contributes ``int phi^2/Phi`` from each side; given the tie, both forms
    are normal of variance 1/(1/D_i + 1/D_j) and the other forms of the row lie below:

        sqrt(r) G -> (4 T/sqrt(2 pi)) int phi^2/Phi
                     [ (T-1)(T-2)/2 E Phi(v/sqrt 2) Phi(v)^{T-3} + (T-1) E Phi(v)^{T-2} ],

    v of variance 1/2 in the first term (two off-diagonal forms) and 2/3 in the second (the diagonal one and another).
    """
    z = np.linspace(-12, 12, 2401)
    step = z[1] - z[0]
    density = np.exp(-0.5 * z**2) / _ROOT_TWO_PI * step
    sharpness = float(np.sum(np.exp(-(z**2) - _LOG_TWO_PI - log_ndtr(z))) * step)
    off, mixed = np.sqrt(0.5) * z, np.sqrt(2 / 3) * z
    pairs = 0.5 * (tokens - 1) * (tokens - 2)
    ties = (tokens - 1) * float(density @ ndtr(mixed) ** (tokens - 2))
    if tokens > 2:
        ties += pairs * float(density @ (ndtr(off / np.sqrt(2)) * ndtr(off) ** (tokens - 3)))
    return 4 / _ROOT_TWO_PI * sharpness * tokens * ties


__all__ = [
    "TINY",
    "RowPosterior",
    "boundary_signal",
    "ordered_row",
    "row_entropy",
    "row_excess",
    "row_posterior",
    "tie_sum",
    "tie_sum_mean",
    "uniform_points",
]
