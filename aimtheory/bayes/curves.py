"""Learning curves: the Bayes-optimal error against the sample complexity."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.channel_library import make_channel
from aimtheory.bayes.prior import make_prior
from aimtheory.bayes.state_evolution import BranchCurve, StateEvolution
from aimtheory.spectra.law import FloatArray


def bayes_curve(
    channel: str | Channel = "softmax",
    tokens: int | None = None,
    width: object = None,
    alpha: ArrayLike = (),
    prior: object = None,
    branch: str = "equilibrium",
    **options: Any,
) -> BranchCurve:
    """q, MMSE, qhat, residual and status over an array of alpha; parameters as for :func:`mmse_curve`."""
    evolution = StateEvolution(make_prior(width, prior), make_channel(channel, tokens, **options))
    return evolution.curve(alpha, branch)


def mmse_curve(
    channel: str | Channel = "softmax",
    tokens: int | None = None,
    width: object = None,
    alpha: ArrayLike = (),
    prior: object = None,
    branch: str = "equilibrium",
    **options: Any,
) -> FloatArray:
    """``lim E ||S_hat - S||_F^2 / d`` of the Bayes-optimal learner, same shape as ``alpha`` = n/d^2.

    ``channel`` is softmax, hardmax, linear, sign (with their noise, see :func:`make_channel`) or a Channel; the prior
    is that of [B] at ``width`` rho (``S = W W^T/sqrt(r d)``), its limits at 0 (alpha is then n/(rho d^2)) and
    ``"inf"`` (GOE), or a law given as ``prior``. ``branch``: equilibrium, uninformed (what AMP reaches) or informed.
    An entry that did not converge is NaN; :func:`bayes_curve` says why, and what the channel's own error is worth in
    each entry (``error``).

    >>> mmse_curve(channel="softmax", tokens=2, width="1/2", alpha=[0.0, 0.089711, 0.1875]).round(6)
    array([1.      , 0.457619, 0.      ])
    """
    return bayes_curve(channel, tokens, width, alpha, prior, branch, **options).mmse


__all__ = ["bayes_curve", "mmse_curve"]
