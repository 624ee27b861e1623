"""The branch on which nothing is learned beyond the prior mean, q = (tr S)^2: where it exists and where it attracts.

A channel that is even in the forms says nothing to a learner who knows the prior mean only (mean 0): q = 0 solves state
evolution at every alpha. Small overlaps return to it while ``alpha (d signal/dq) (dq/dqhat) < 1``; with dq/dqhat =
(prior variance)^2 at qhat = 0 this ends at a finite alpha, whereas at small width dq/dqhat = 0, and it never ends.
"""

from __future__ import annotations

import math

import numpy as np

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.prior import Prior

_NEAR = 4e-4


def prior_mean_is_fixed(prior: Prior, channel: Channel) -> bool:
    """True when ``signal((tr S)^2, V)`` vanishes within its error at the prior variance V.

    >>> from aimtheory.bayes import SignChannel, make_prior
    >>> prior_mean_is_fixed(make_prior(0), SignChannel(2))
    False
    """
    variance = prior.second_moment - prior.mean_square
    measured = channel.signal(prior.mean_square, variance)
    return bool(float(measured.value) * variance <= 10 * float(measured.error) * variance + 1e-12)


def end_of_prior_mean(prior: Prior, channel: Channel) -> Measured:
    """The alpha at which q = (tr S)^2 stops attracting: ``lim alpha(qhat)`` as qhat -> 0; infinite at small width.

    For a channel of :func:`prior_mean_is_fixed`. By extrapolation of ``qhat/signal`` to qhat = 0 in two orders; the
    error holds their difference and the error of each signal, three standard errors where it is statistical.
    """
    spread = prior.second_moment - prior.mean_square
    qhat = _NEAR / spread * np.array([1.0, 0.5, 0.25])
    overlap = prior.overlap(qhat)
    if np.all(overlap <= prior.mean_square):
        return Measured(np.asarray(math.inf), np.asarray(0.0), "closed form")
    signal = channel.signal(overlap, prior.mmse(qhat))
    if np.any(signal.value <= 0):
        return Measured(np.asarray(math.inf), np.asarray(0.0), signal.method)
    alpha = qhat / signal.value
    one, two = 2 * alpha[1] - alpha[0], 2 * alpha[2] - alpha[1]
    value = (4 * two - one) / 3
    own = alpha * signal.error / signal.value * (3.0 if signal.method == "cubature" else 1.0)
    error = abs(value - two) + float(np.array([1 / 3, 2.0, 8 / 3]) @ own) + 1e-11 * value
    return Measured(np.asarray(value), np.asarray(error), signal.method)


__all__ = ["end_of_prior_mean", "prior_mean_is_fixed"]
