"""The free entropy of Bayes-optimal learning, of which state evolution is the gradient.

    f(q, qhat) = psi_P(qhat) - qhat q / 4 + alpha Psi_out(q),
    df/dqhat = 0  <=>  q = 4 psi_P'(qhat) = Q0 - MMSE(qhat),
    df/dq    = 0  <=>  qhat = 4 alpha Psi_out'(q).

f is ``lim (1/d^2) E log`` of the evidence; its largest stationary value is the Bayes-optimal one. Source: [B].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.bayes.channel import Channel, check_alpha
from aimtheory.bayes.prior import Prior
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray


def check_prior_overlap(prior: Prior, q: ArrayLike) -> FloatArray:
    """q within [(tr S)^2, tr S^2] of the prior, else ``InputError``."""
    values = np.asarray(q, dtype=np.float64)
    low, high = prior.mean_square, prior.second_moment
    slack = 1e-12 * high
    if not np.all(np.isfinite(values)) or np.any(values < low - slack) or np.any(values > high + slack):
        bad = values[~((values >= low - slack) & (values <= high + slack))].ravel()[0]
        raise InputError(f"q = {bad} lies outside [(tr S)^2, tr S^2] = [{low:.9g}, {high:.9g}] of {prior.label}")
    return np.clip(values, low, high)


def free_entropy(prior: Prior, channel: Channel, alpha: float, q: float, qhat: float) -> float:
    """``f(q, qhat)`` off or on a fixed point; qhat >= 0, q within [(tr S)^2, tr S^2].

    >>> from aimtheory.bayes import LinearChannel, make_prior
    >>> from aimtheory.spectra import GOE
    >>> round(free_entropy(make_prior(prior=GOE(1)), LinearChannel(2, noise=1.0), 0.0, 0.5, 1.0), 9)
    -0.048286795
    """
    overlap = float(check_prior_overlap(prior, q))
    rate = float(check_alpha(alpha))
    value = float(prior.log_moment(qhat)) - 0.25 * qhat * overlap
    if rate > 0:
        value += rate * float(channel.psi_out(overlap, prior.second_moment).value)
    return value


def stationary_free_entropy(prior: Prior, channel: Channel, alpha: float, qhat: float, variance: float) -> float:
    """f at a fixed point, ``qhat V/4 - I(qhat) + alpha Psi_out(Q0 - V)``: the large terms qhat Q0/4 cancelled by hand.

    At perfect recovery (qhat infinite) it is +inf above the threshold alpha and -inf below, like (alpha K - n) log V.
    """
    if math.isinf(qhat):
        excess = alpha * channel.exact_directions - float(prior.degrees_of_freedom)
        return math.inf if excess > 0 else -math.inf
    value = 0.25 * qhat * variance - float(prior.information(qhat))
    if alpha > 0:
        value += alpha * float(channel.psi_out(prior.second_moment - variance, prior.second_moment).value)
    return value


__all__ = ["check_prior_overlap", "free_entropy", "stationary_free_entropy"]
