"""The Bayes-optimal MMSE to any number of digits, for channels whose qhat is a closed form of V."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import sympy as sp

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.channel_library import make_channel
from aimtheory.bayes.prior import Prior, make_prior
from aimtheory.bayes.state_evolution import StateEvolution
from aimtheory.errors import InputError, NumericsError
from aimtheory.scalars import to_scalar


def bayes_mmse_digits(
    channel: str | Channel = "softmax",
    tokens: int | None = None,
    width: object = None,
    alpha: object = 0,
    digits: int = 30,
    prior: object = None,
) -> mp.mpf:
    """MMSE of the softmax or linear channel at one alpha, to ``digits`` significant digits.

    Solves ``alpha = qhat / signal(MMSE(qhat))`` by secant steps from the float64 solution, with MMSE(qhat) by certified
    quadrature at the same precision (Wishart, GOE and atomic priors). Give parameters as strings or rationals: a
    decimal string is exact, a float is the binary number it is. 0 at and above perfect recovery.

    >>> mp.nstr(bayes_mmse_digits("softmax", 2, width="inf", alpha="1/10", digits=20), 20)     # 1 - alpha K_T
    '0.6'
    """
    law: Prior = make_prior(width, prior)
    seen = make_channel(channel, tokens)
    seen.signal_digits(mp.mpf(1))  # refuses channels without a closed form
    rate = to_scalar(alpha, "alpha")
    if isinstance(rate, sp.Expr):
        raise InputError(f"alpha = {rate} must be a number")
    if rate < 0:
        raise InputError(f"alpha = {rate} must be >= 0")
    evolution = StateEvolution(law, seen)
    guess = evolution.solve(float(rate))
    with mp.workdps(int(digits) + 20):
        target = mp.mpf(rate.numerator) / rate.denominator if isinstance(rate, Fraction) else mp.mpf(rate)
        if rate == 0:
            return law.variance_digits(int(digits) + 20)
        if seen.exact_directions > 0:
            freedom = mp.mpf(sp.N(law.degrees_of_freedom, int(digits) + 20))
            if target * seen.exact_directions >= freedom:
                return mp.mpf(0)

        def mmse(qhat: mp.mpf) -> mp.mpf:
            return law.mmse_digits(qhat, int(digits) + 8)

        def excess(log_qhat: mp.mpf) -> mp.mpf:
            return log_qhat - mp.log(seen.signal_digits(mmse(mp.exp(log_qhat)))) - mp.log(target)

        before = mp.log(mp.mpf(guess.qhat)) + mp.mpf(10) ** -8
        now = mp.log(mp.mpf(guess.qhat))
        f_before = excess(before)
        for _ in range(60):
            f = excess(now)
            if f == f_before or abs(now - before) < mp.mpf(10) ** (-int(digits) - 6):
                return mmse(mp.exp(now))
            before, now, f_before = now, now - f * (now - before) / (f - f_before), f
    raise NumericsError(f"the MMSE did not converge to {digits} digits at alpha = {rate}; it is too near a transition")


__all__ = ["bayes_mmse_digits"]
