"""Sample complexities at which learning changes: weak and perfect recovery, exact where a closed form exists."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.channel_library import make_channel
from aimtheory.bayes.cross_attention import check_side
from aimtheory.bayes.enclosure import enclosure, rational_bounds
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.prior import Prior, make_prior
from aimtheory.bayes.prior_mean_branch import end_of_prior_mean, prior_mean_is_fixed
from aimtheory.bayes.state_evolution import StateEvolution
from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.records import Result, Variable, numbers, record

KINDS = ("perfect", "weak")


@record("bayes-threshold")
@dataclass(frozen=True, eq=False, repr=False)
class Threshold(Result):
    """A threshold in units of ``unit`` (alpha = n/d^2, or alpha/width in the small-width limit).

    ``exact`` is a sympy expression or None; ``digits`` the decimal string asked for; ``interval`` encloses the value:
    rigorously when ``certified`` (ball arithmetic), else by the error estimate of the numerics (3.5 standard
    errors and more for a cubature). ``method`` says how it was found, and what else agrees with it.
    """

    value: float
    exact: sp.Expr | None
    digits: str
    interval: tuple[str, str]
    certified: bool
    kind: str
    channel: str
    tokens: int
    unit: str
    method: str

    def __repr__(self) -> str:
        return f"Threshold({self.digits if self.exact is None else self.exact})"

    def __float__(self) -> float:
        return self.value

    def _repr_latex_(self) -> str:
        name = r"\alpha" if self.unit == "alpha" else r"\alpha/\rho"
        tail = "" if self.exact is None else rf"{sp.latex(self.exact)} = "
        return rf"${name}_{{\mathrm{{{self.kind}}}}} = {tail}{self.digits}$"

    def variables(self) -> tuple[Variable, ...]:
        """One row."""
        low, high = (
            Variable(name, float(end), (), f"{name} end of the interval", self.unit)
            for name, end in zip(("lower", "upper"), self.interval, strict=True)
        )
        exact = Variable(
            "exact", "" if self.exact is None else str(self.exact), (), "exact value, empty: none is known"
        )
        threshold = Variable("threshold", self.value, (), f"alpha of {self.kind} recovery", self.unit)
        rest = numbers(
            self,
            digits="decimal digits",
            certified="whether the interval is rigorous",
            channel="channel",
            tokens="tokens a sample",
            unit="unit of the threshold",
            method="how it was found",
        )
        return threshold, low, high, exact, Variable("recovery", self.kind, (), "perfect or weak"), *rest

    def summary(self) -> dict[str, Any]:
        """``threshold`` (string of digits), ``exact`` (string or null), ``interval``, ``recovery`` (perfect or weak),
        ``unit``, ``method``, ``certified``.
        """
        values = self.as_dict()
        return {("recovery" if name == "kind" else name): value for name, value in values.items()}

    def as_dict(self) -> dict[str, Any]:
        """For JSON: ``threshold`` (string), ``exact`` (string or None), ``interval`` and the rest."""
        return {
            "threshold": self.digits,
            "exact": None if self.exact is None else str(self.exact),
            "interval": list(self.interval),
            "certified": self.certified,
            "kind": self.kind,
            "channel": self.channel,
            "tokens": self.tokens,
            "unit": self.unit,
            "method": self.method,
        }


@dataclass(frozen=True)
class _Request:
    """What was asked for."""

    kind: str
    channel: Channel
    prior: Prior
    digits: int


def threshold(
    channel: str | Channel = "softmax",
    kind: str = "perfect",
    tokens: int | None = None,
    width: object = None,
    prior: object = None,
    digits: int = 20,
    **options: Any,
) -> Threshold:
    """The threshold of a channel (name or object) for the Wishart prior of [B] at ``width``, or any ``prior`` law.

    ``kind="perfect"``: the matrix is recovered exactly, ``alpha = degrees of freedom / exact directions``; softmax
    ``min(2 rho - rho^2, 1)/(T^2 + T - 2)``. ``kind="weak"`` at ``width=0`` (rho -> 0, in units of alpha/rho): the
    overlap leaves 0, ``1 / signal(q=0, V=1)`` for any channel. Raises ``AssumptionError`` when there is no such
    transition, and says why.

    >>> threshold(channel="softmax", kind="perfect", tokens=2, width="1/2")
    Threshold(3/16)
    >>> threshold(channel="hardmax", kind="weak", width=0, digits=24).digits
    '0.403410629037599304517470'
    """
    if kind not in KINDS:
        raise InputError(f"kind = {kind!r} must be 'perfect' or 'weak'")
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 10000:
        raise InputError(f"digits = {digits!r} must be an integer between 1 and 10000")
    law = make_prior(width, prior)
    seen = make_channel(channel, tokens, **options)
    if seen.indices != 1:
        raise InputError(f"thresholds are offered for one matrix; the channel sees {seen.indices}")
    check_side(law.is_rectangular, seen.is_rectangular)
    request = _Request(kind, seen, law, digits)
    if kind == "perfect":
        expression, method = perfect_recovery_by_counting(law, seen), "counting degrees of freedom"
        if expression.free_symbols:
            raise InputError(
                f"the threshold is {expression}: use perfect_recovery_by_counting, or give its symbols numbers"
            )
        if not law.is_fast:
            return _from_expression(expression, method, request)
        limit = perfect_recovery_by_limit(law, seen)
        distance = abs(float(limit.value) - float(expression))
        if distance > 10 * float(limit.error) + 1e-9 * float(expression):
            raise NumericsError(f"counting gives {float(expression):.12g} but the limit qhat -> infinity gives {limit}")
        return _from_expression(
            expression, f"{method}; the limit qhat -> infinity agrees within {distance:.1g}", request
        )
    return _small_width_weak(request) if law.is_small_width_limit else _weak_of_even_channel(request)


def perfect_recovery_by_counting(prior: Prior, channel: Channel) -> sp.Expr:
    """Unknowns by equations: ``lim qhat MMSE / exact_directions``, exact; a Piecewise for a symbolic width."""
    directions = channel.exact_directions
    if directions == 0:
        raise AssumptionError(
            f"the {channel.name} channel never recovers perfectly at finite alpha: no combination of forms is seen "
            "exactly (finite answers or noise); its MMSE only decays with alpha"
        )
    count = sp.Integer(int(directions)) if directions == int(directions) else sp.Float(directions, 17)
    freedom = prior.degrees_of_freedom
    if isinstance(freedom, sp.Piecewise):
        return sp.Piecewise(*[(sp.factor(value) / count, condition) for value, condition in freedom.args])
    return freedom / count


def perfect_recovery_by_limit(prior: Prior, channel: Channel) -> Measured:
    """``lim alpha(qhat)`` as qhat -> infinity, from the curve of fixed points at the largest qhat that floats allow."""
    scale = 1 / (prior.second_moment - prior.mean_square)
    qhat = scale * np.array([1e7, 1e8, 1e9])
    variance = prior.mmse(qhat)
    alpha = qhat / channel.signal(prior.overlap(qhat), variance).value
    # The deficit falls like a power of qhat, at least qhat^{-2/3}: at most a quarter of the last change is left.
    return Measured(np.asarray(alpha[-1]), np.asarray(abs(alpha[-1] - alpha[-2]) + 1e-13 * alpha[-1]), "closed form")


def weak_recovery_signal(channel: Channel) -> Measured:
    """``signal(q=0, V=1) = 2 E sum D_ab g_ab^2`` with no knowledge of S: 1 over the small-width weak threshold.

    At T >= 3 hardmax and for general channels it is computed directly, without building a table over q/V.
    """
    direct = getattr(channel, "direct", None)
    if direct is not None:
        measured: Measured = direct(0.0)
        return measured
    return channel.signal(0.0, 1.0)


def _small_width_weak(request: _Request) -> Threshold:
    channel, prior, digits = request.channel, request.prior, request.digits
    expression = channel.uninformed_signal()
    method = "stability of q = 0 at rho -> 0: alpha/rho = 1/(2 E sum D_ab g_ab^2)"
    if expression is not None:
        curve = StateEvolution(prior, channel).fixed_point_curve
        if len(curve.segments) > 1:
            method += "; a first-order jump starts earlier, see StateEvolution.spinodals"
        if not expression.has(sp.Float):
            return _from_expression(1 / expression, method, request)
        with mp.workdps(digits + 15):
            value = 1 / mp.mpf(sp.N(expression, digits + 15))
        return _from_number(
            value, abs(value) * mp.mpf(10) ** -14, f"{method}; noise or threshold given as floats", request
        )
    signal = weak_recovery_signal(channel)
    if float(signal.value) <= 10 * float(signal.error) + 1e-12:
        raise AssumptionError(
            f"the {channel.name} channel has no continuous weak recovery at small width: without knowledge of S its "
            "output has no linear signal (signal(0, 1) = 0); look for a jump with StateEvolution(...).spinodals()"
        )
    value = 1 / float(signal.value)
    spread = float(signal.error) * value**2
    return _from_number(mp.mpf(value), mp.mpf(spread), f"{method}; {signal.method}, error {spread:.1g}", request)


def _weak_of_even_channel(request: _Request) -> Threshold:
    """A prior without small width: a transition exists only when the prior mean is a fixed point."""
    channel, prior = request.channel, request.prior
    if not prior_mean_is_fixed(prior, channel):
        raise AssumptionError(
            f"no weak-recovery transition for {prior.label} with the {channel.name} channel: the overlap rises from "
            f"(tr S)^2 = {prior.mean_square:.6g} at every alpha > 0; the transition exists for width -> 0: pass width=0"
        )
    end = end_of_prior_mean(prior, channel)
    if not math.isfinite(float(end.value)):
        raise AssumptionError(
            f"no weak-recovery transition for {prior.label} with the {channel.name} channel: q = (tr S)^2 attracts at "
            "every alpha; look for a jump with StateEvolution(...).first_order_transitions()"
        )
    method = f"stability of q = (tr S)^2, extrapolated to qhat -> 0; {end.method}"
    return _from_number(mp.mpf(float(end.value)), mp.mpf(float(end.error)), method, request)


def _from_expression(expression: sp.Expr, method: str, request: _Request) -> Threshold:
    digits = request.digits
    exact = expression if request.prior.is_exact and not expression.has(sp.Float) else None
    low, high = rational_bounds(expression, digits + 5)
    with mp.workdps(digits + 15):
        middle = (low + high) / 2
        value = mp.mpf(middle.numerator) / middle.denominator
        text = mp.nstr(value, digits, strip_zeros=False)
    interval = enclosure(expression, digits)
    return _make(float(value), exact, text, interval, True, method, request)


def _from_number(value: mp.mpf, error: mp.mpf, method: str, request: _Request) -> Threshold:
    # No more digits than are known.
    known = max(1, math.ceil(float(mp.log10(abs(value) / max(error, mp.mpf(10) ** -15)))))
    shown = min(request.digits, known)
    text = mp.nstr(value, shown, strip_zeros=False)
    # Wider than the error by what the printing rounds.
    slack = error + abs(value) * mp.mpf(10) ** (-shown - 3)
    interval = (mp.nstr(value - slack, shown + 5), mp.nstr(value + slack, shown + 5))
    return _make(float(value), None, text, interval, False, method, request)


def _make(
    value: float,
    exact: sp.Expr | None,
    text: str,
    interval: tuple[str, str],
    certified: bool,
    method: str,
    request: _Request,
) -> Threshold:
    channel = request.channel
    unit = request.prior.alpha_unit
    return Threshold(value, exact, text, interval, certified, request.kind, channel.name, channel.tokens, unit, method)


__all__ = [
    "KINDS",
    "Threshold",
    "perfect_recovery_by_counting",
    "perfect_recovery_by_limit",
    "threshold",
    "weak_recovery_signal",
]
