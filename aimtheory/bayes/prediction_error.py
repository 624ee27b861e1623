"""Test error: what predictions by an estimate of S lose on fresh data, beside its mean squared error.

An estimate S_hat with overlaps m = tr(S S_hat) and s = tr(S_hat^2) has on fresh tokens forms omega that are jointly
normal with those of S: ``E omega^2 = D s``, ``E omega h = D m``, ``E h^2 = D Q0``. Two rules predict an output from
omega:

- ``"bayes"`` the best prediction given omega (the posterior mean of the output, or the likeliest label), with
  ``h | omega ~ N((m/s) omega, D (Q0 - m^2/s))``; for the Bayes-optimal S_hat and AMP, m = s = q and this is the
  channel's own;
- ``"plug-in"`` the output of S_hat itself: what a network with that attention matrix answers, gradient descent's too.

The loss is the squared error summed over the output of a sample (linear: over a <= b; softmax: over the T x T matrix),
or the mean share of wrong labels (sign: over the forms; hardmax: over the rows). Ours, from the Gaussian law of the
forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import Channel
from aimtheory.bayes.hardmax_channel import HardmaxChannel
from aimtheory.bayes.hardmax_rows import row_posterior, uniform_points
from aimtheory.bayes.linear_channel import LinearChannel
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.sign_channel import SignChannel
from aimtheory.bayes.softmax_channel import SoftmaxChannel
from aimtheory.bayes.token_pairs import pair_index
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray

RULES = ("bayes", "plug-in")
_REPLICATES, _POINTS = 8, 2048
_QUANTILE = 3.5


def prediction_error(
    channel: Channel,
    overlap: float,
    second_moment: float,
    self_overlap: float | None = None,
    rule: str = "bayes",
    seed: int = 0,
) -> Measured:
    """Expected loss on a fresh sample; ``overlap`` m, ``second_moment`` Q0, ``self_overlap`` s (default m).

    Offered for the named channels. Linear and sign in closed form (bivariate normal probabilities); softmax and hardmax
    by 8 randomizations of 2048 Sobol points, error 3.5 standard errors. Raises ``InputError`` where
    ``m^2 > s Q0``, for other channels, and for a sign with output noise.

    >>> from aimtheory.bayes import SignChannel
    >>> float(prediction_error(SignChannel(2), 0.5, 1.0)).__round__(9)        # arccos(sqrt(q/Q0))/pi
    0.25
    """
    m, total = float(real_array(overlap, "overlap", 0)), float(real_array(second_moment, "second_moment", 0))
    s = m if self_overlap is None else float(real_array(self_overlap, "self_overlap", 0))
    if rule not in RULES:
        raise InputError(f"rule = {rule!r} must be 'bayes' or 'plug-in'")
    if total <= 0 or s < 0 or m**2 > s * total * (1 + 1e-9):
        raise InputError(
            f"overlap = {m}, self_overlap = {s}, second_moment = {total} are no overlaps of two matrices: "
            "need tr(S S_hat)^2 <= tr(S_hat^2) tr(S^2)"
        )
    return _error(channel, _Overlaps(m, s, total), rule, seed)


class _Overlaps(NamedTuple):
    """``m = tr(S S_hat)``, ``s = tr(S_hat^2)`` and ``total = tr S^2``."""

    m: float
    s: float
    total: float


@singledispatch
def _error(channel: Channel, known: _Overlaps, rule: str, seed: int) -> Measured:  # noqa: ARG001
    """The error behind a channel; a channel that offers it registers how."""
    raise InputError(
        f"the test error of the {channel.name} channel is not offered; softmax, hardmax, linear and sign are"
    )


@_error.register
def _(channel: LinearChannel, known: _Overlaps, rule: str, seed: int) -> Measured:  # noqa: ARG001
    m, s, total = known
    left = total - m**2 / s if rule == "bayes" and s > 0 else total - 2 * m + s
    return closed_form(float((channel.multiplicity * left + np.array(channel.noise)).sum()))


@_error.register
def _(channel: SoftmaxChannel, known: _Overlaps, rule: str, seed: int) -> Measured:
    def loss(omega: FloatArray, share: float, spread: FloatArray, points: FloatArray) -> float:
        forms = share * omega[:, None] + spread * points
        return _squared(omega, forms, channel.inverse_temperature, rule)

    return _over_rows(channel, channel.noise, known, seed, loss).scaled(channel.tokens)


@_error.register
def _(channel: HardmaxChannel, known: _Overlaps, rule: str, seed: int) -> Measured:
    def loss(omega: FloatArray, share: float, spread: FloatArray, points: FloatArray) -> float:  # noqa: ARG001
        return _missed(omega, share * omega, spread, rule, channel.flips)

    return _over_rows(channel, channel.noise, known, seed, loss)


@_error.register
def _(channel: SignChannel, known: _Overlaps, rule: str, seed: int) -> Measured:  # noqa: ARG001
    m, s, total = known
    if channel.seen.output_noise:
        raise InputError("with output noise there are no labels to miss; the test error is offered without it")
    # The likeliest sign is that of the posterior mean (m/s) omega: a plug-in of that estimate.
    share = m / s if rule == "bayes" and s > 0 else 1.0
    wrong = 0.0
    for scale, tau, noise in zip(channel.multiplicity, channel.thresholds, channel.noise, strict=True):
        seen, guess = math.sqrt(scale * total + noise), share * math.sqrt(scale * s)
        if guess <= 1e-150:
            low = float(ndtr(tau / seen))
            miss = low if tau <= 0 else 1 - low
        else:
            correlation = min(1.0, max(-1.0, share * scale * m / (seen * guess)))
            h, k = tau / seen, tau / guess
            if tau == 0:
                miss = math.acos(correlation) / math.pi
            else:
                from scipy.stats import multivariate_normal

                law = multivariate_normal(cov=[[1, correlation], [correlation, 1]], allow_singular=True)
                miss = float(ndtr(h) + ndtr(k) - 2 * law.cdf([h, k]))
        wrong += miss / channel.pairs
    flips = channel.seen.flips
    return closed_form(flips + (1 - 2 * flips) * wrong)


_RowLoss = Callable[[FloatArray, float, FloatArray, FloatArray], float]
"""The loss of a row by omega (N, T), m/s, the spread of its forms (T,) and two normal draws of them (N, 2, T)."""


def _over_rows(channel: Channel, noise: Sequence[float], known: _Overlaps, seed: int, loss: _RowLoss) -> Measured:
    """The mean over the rows of the loss of one row, by several randomizations."""
    values = np.array([_row_mean(channel, noise, known, seed + 1000 * k, loss) for k in range(_REPLICATES)])
    error = _QUANTILE * values.std(ddof=1) / math.sqrt(_REPLICATES)
    return Measured(np.asarray(values.mean()), np.asarray(error), "cubature")


def _row_mean(channel: Channel, noise: Sequence[float], known: _Overlaps, seed: int, loss: _RowLoss) -> float:
    tokens = channel.tokens
    index = pair_index(tokens)
    share = known.m / known.s if known.s > 0 else 0.0
    left = max(known.total - share * known.m, 0.0)
    losses = []
    kinds: dict[tuple[float, ...], float] = {}
    for row in range(tokens):
        scale = channel.multiplicity[index[row]]
        variances = np.array(noise)[index[row]]
        # Rows that look alike, the diagonal form first, have one loss.
        order = np.argsort(np.arange(tokens) != row, kind="stable")
        key = (*scale[order], *variances[order])
        if key not in kinds:
            points = ndtri(uniform_points(3 * tokens, _POINTS, seed)).reshape(_POINTS, 3, tokens)
            omega = np.sqrt(known.s * scale[order]) * points[:, 0]
            spread = np.sqrt(scale[order] * left + variances[order])
            kinds[key] = loss(omega, share, spread, points[:, 1:])
        losses.append(kinds[key])
    return float(np.mean(losses))


def _missed(omega: FloatArray, mean: FloatArray, spread: FloatArray, rule: str, flips: float) -> float:
    """The share of rows whose label is not the predicted one."""
    tokens = omega.shape[1]
    if np.all(spread == 0):
        right = 1.0 if rule == "bayes" else float((omega.argmax(axis=1) == mean.argmax(axis=1)).mean())
    else:
        chances = row_posterior(mean, np.maximum(spread, 1e-12)).probability
        chosen = chances.max(axis=1) if rule == "bayes" else chances[np.arange(len(omega)), omega.argmax(axis=1)]
        right = float(chosen.mean())
    return 1 - (1 - flips) * right - flips * (1 - right) / (tokens - 1)


def _squared(omega: FloatArray, forms: FloatArray, beta: float, rule: str) -> float:
    """``E |y - y_hat|^2`` of a row: the best guess leaves |y|^2 - y.y', y' another draw of the posterior."""
    one, two = _softmax(beta * forms[:, 0]), _softmax(beta * forms[:, 1])
    if rule == "bayes":
        return float(0.5 * ((one - two) ** 2).sum(axis=1).mean())
    guess = _softmax(beta * omega)
    return float(0.5 * (((one - guess) ** 2).sum(axis=1) + ((two - guess) ** 2).sum(axis=1)).mean())


def _softmax(scores: FloatArray) -> FloatArray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


__all__ = ["RULES", "prediction_error"]
