"""Hardmax of two tokens with Gaussian noise of any variances on the forms, and with flipped answers.

With S_ab = D_ab V + Delta_ab, kappa_a = (omega_aa - omega_12)/sqrt(S_aa + S_12) and c = S_12/sqrt((S_11 + S_12)(S_22 +
S_12)), the clean answer (s_1, s_2) has probability ``Phi_2(s_1 kappa_1, s_2 kappa_2; s_1 s_2 c)`` and the seen one

    Z(s) = sum_{f_1, f_2 = +-1} w(f_1) w(f_2) Phi_2(f_1 s_1 kappa_1, f_2 s_2 kappa_2; f_1 f_2 s_1 s_2 c),

w(1) = 1 - flips, w(-1) = flips. The mean over kappa, of covariance ``q (D_aa + 1)/(S_aa + S_12)`` and q off it, is a
trapezoid rule in kappa = sinh t; its error is the change when every other node is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes.bivariate_normal import log_orthant, log_orthant_derivative
from aimtheory.spectra.law import FloatArray

_REACH = 8.5
_NODES = 73
_SIGNS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


def _standard(variances: FloatArray) -> tuple[float, float, float]:
    """Standard deviations of the two gaps, and their correlation."""
    one, two = math.sqrt(variances[0] + variances[1]), math.sqrt(variances[2] + variances[1])
    return one, two, float(variances[1]) / (one * two)


def _seen(
    first: FloatArray,
    second: FloatArray,
    signs: tuple[FloatArray, FloatArray] | tuple[float, float],
    c: float,
    flips: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``log Z`` and d log Z/d kappa of the answers ``signs`` (scalars, or arrays of +-1)."""
    logs, ones, twos = [], [], []
    for f, g in _SIGNS if flips else _SIGNS[:1]:
        share = (1 - flips if f > 0 else flips) * (1 - flips if g > 0 else flips)
        s, t = (
            np.broadcast_to(f * np.asarray(signs[0]), first.shape),
            np.broadcast_to(g * np.asarray(signs[1]), first.shape),
        )
        value, one, two = (np.empty(first.shape) for _ in range(3))
        for sign in (1.0, -1.0):
            mine = s * t == sign
            h, k = (s * first)[mine], (t * second)[mine]
            value[mine] = log_orthant(h, k, sign * c)
            one[mine] = log_orthant_derivative(h, k, sign * c)
            two[mine] = log_orthant_derivative(k, h, sign * c)
        logs.append(math.log(share) + value)
        ones.append((s, math.log(share) + one))
        twos.append((t, math.log(share) + two))
    total = np.logaddexp.reduce(logs, axis=0)
    slope_one = sum(sign * np.exp(part - total) for sign, part in ones)
    slope_two = sum(sign * np.exp(part - total) for sign, part in twos)
    return total, np.asarray(slope_one), np.asarray(slope_two)


def two_token_posterior(
    answers: NDArray[np.int64], omega: FloatArray, variances: FloatArray, flips: float
) -> tuple[FloatArray, FloatArray]:
    """``log Z`` (...) and its gradient by omega (..., 3), at answers (..., 2) and variances S (3,)."""
    one, two, c = _standard(variances)
    signs = np.where(answers[..., 0] == 0, 1.0, -1.0), np.where(answers[..., 1] == 1, 1.0, -1.0)
    first, second = (omega[..., 0] - omega[..., 1]) / one, (omega[..., 2] - omega[..., 1]) / two
    log_z, slope_one, slope_two = _seen(first, second, signs, c, flips)
    g_one, g_two = slope_one / one, slope_two / two
    return log_z, np.stack([g_one, -(g_one + g_two), g_two], axis=-1)


def noisy_two_tokens(
    overlap: float, spread: float, noise: Sequence[float], flips: float
) -> tuple[float, float, float, float]:
    """``2 E sum D g^2`` and its error, ``E log Z`` and its error, at q = ``overlap`` and V = ``spread``."""
    variances = spread * np.array([2.0, 1.0, 2.0]) + np.array(noise)
    if variances.min() <= 0:
        return math.inf, math.inf, 0.0 if not flips else math.nan, 0.0
    one, two, c = _standard(variances)
    sigma, tau = math.sqrt(3 * overlap) / one, math.sqrt(3 * overlap) / two
    weights = [(1.0, 1)] if overlap == 0 else [(1.0, 1), (2.0, 2)]
    x, dx = _line(sigma)
    y, dy = _line(tau)
    first, second = np.meshgrid(x, y, indexing="ij")
    if overlap == 0:
        density = np.ones(first.shape)
    else:
        # The gaps of omega are correlated by 1/3.
        form = (first / sigma) ** 2 + (second / tau) ** 2 - 2 / 3 * first * second / (sigma * tau)
        density = np.exp(-0.5 * form * 9 / 8) * np.outer(dx, dy) / (2 * math.pi * sigma * tau * math.sqrt(8 / 9))
    signal, entropy = np.zeros(first.shape), np.zeros(first.shape)
    for signs in _SIGNS:
        log_z, slope_one, slope_two = _seen(first, second, signs, c, flips)
        g_one, g_two = slope_one / one, slope_two / two
        z = np.exp(log_z)
        signal += 2 * z * (2 * g_one**2 + 2 * g_two**2 + (g_one + g_two) ** 2)
        entropy += z * log_z
    sums = [
        [float((factor**2 * (density * values)[::stride, ::stride]).sum()) for factor, stride in weights]
        for values in (signal, entropy)
    ]
    results: list[float] = []
    for each in sums:
        results += [each[0], (abs(each[0] - each[1]) if len(each) > 1 else 0.0) + 1e-12 * abs(each[0])]
    return results[0], results[1], results[2], results[3]


def _line(sigma: float) -> tuple[FloatArray, FloatArray]:
    """Nodes kappa = sinh t over +-8.5 standard deviations, and their measure."""
    if sigma == 0:
        return np.zeros(1), np.ones(1)
    scale = min(1.0, sigma)
    t = np.linspace(-1, 1, _NODES) * math.asinh(_REACH * sigma / scale)
    return scale * np.sinh(t), scale * np.cosh(t) * (t[1] - t[0])


__all__ = ["noisy_two_tokens", "two_token_posterior"]
