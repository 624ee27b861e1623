"""Thresholds: symbolic values, digits, certified intervals, and agreement with the numeric branch."""

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.special import log_ndtr

from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SoftmaxChannel,
    StateEvolution,
    make_prior,
    perfect_recovery_by_counting,
    perfect_recovery_by_limit,
    softmax_directions,
    threshold,
    weak_recovery_signal,
)
from aimtheory.bayes.enclosure import enclosure
from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.spectra import GOE, Atomic

rho = sp.Symbol("rho", positive=True)
HARDMAX = "0.403410629037599304517470"
"""[ours] digits of 1/(2E), E = (16/p_+ + 8/p_-)/(24 pi), p_+- = 1/4 +- asin(1/3)/(2 pi)."""


@pytest.mark.parametrize("tokens", [2, 3, 4, 7])
@pytest.mark.parametrize("width", ["1/10", "1/2", "2/3", "1", "5/4", "3"])
def test_softmax_perfect_recovery(tokens, width):
    """min(2 rho - rho^2, 1)/(T^2 + T - 2), exactly."""
    found = threshold(channel="softmax", kind="perfect", tokens=tokens, width=width)
    value = sp.Rational(width)
    freedom = 2 * value - value**2 if value <= 1 else sp.Integer(1)
    assert found.exact == freedom / (tokens**2 + tokens - 2)
    assert found.certified
    assert float(found.interval[0]) <= float(found.exact) <= float(found.interval[1])
    assert found.unit == "alpha"


def test_softmax_perfect_recovery_of_a_symbol():
    tokens = sp.Symbol("T", integer=True, positive=True)
    assert sp.factor(softmax_directions(tokens)) == (tokens - 1) * (tokens + 2)
    general = perfect_recovery_by_counting(make_prior(rho), SoftmaxChannel(3))
    assert sp.simplify(general.subs(rho, sp.Rational(1, 2)) - sp.Rational(3, 40)) == 0
    assert general.subs(rho, 2) == sp.Rational(1, 10)
    with pytest.raises(InputError, match="perfect_recovery_by_counting"):
        threshold(width=rho)


@pytest.mark.parametrize("width", ["1/5", "1", "2"])
@pytest.mark.parametrize("channel", [SoftmaxChannel(2), SoftmaxChannel(4), LinearChannel(2, 0.0)])
def test_perfect_recovery_by_two_routes(channel, width):
    """Counting, the limit of qhat MMSE, and the numeric curve: V > 0 just below, 0 just above."""
    prior = make_prior(width)
    counted = float(perfect_recovery_by_counting(prior, channel))
    limit = perfect_recovery_by_limit(prior, channel)
    assert abs(float(limit.value) - counted) < 3 * float(limit.error) + 1e-9
    assert float(limit.error) < 1e-5
    model = StateEvolution(prior, channel)
    assert 0 < model.solve(counted * (1 - 1e-4)).mmse < 1e-2
    assert model.solve(counted * (1 + 1e-12)).mmse == 0


def test_units_and_limits_of_the_width():
    assert threshold(width=0).exact == sp.Rational(1, 2)  # 2/K_T in alpha/rho
    assert threshold(width=0).unit == "alpha/width"
    assert threshold(width="inf", tokens=3).exact == sp.Rational(1, 10)
    assert threshold(prior=GOE("1/3"), tokens=3).exact == sp.Rational(1, 10)
    small = threshold(width="1/1000000").exact / sp.Rational(1, 1000000)
    assert abs(float(small) - 0.5) < 1e-6
    assert threshold(prior=Atomic([0, 1], ["3/4", "1/4"])).exact == sp.Rational(3, 32)


@pytest.mark.parametrize("tokens", [2, 3, 6])
def test_weak_recovery_of_closed_channels(tokens):
    """rho -> 0: 1/K_T for softmax, pi/(2 T (T+1)) for signs, (1 + Delta)-like sums for linear channels."""
    assert threshold(kind="weak", tokens=tokens, width=0).exact == sp.Rational(1, tokens**2 + tokens - 2)
    found = threshold(channel="sign", kind="weak", tokens=tokens, width=0)
    assert sp.simplify(found.exact - sp.pi / (2 * tokens * (tokens + 1))) == 0
    linear = threshold(channel="linear", kind="weak", tokens=tokens, width=0, noise=1.0)
    # 1 / (2 (T 2/3 + T(T-1)/2 1/2)).
    assert linear.exact == 1 / (sp.Rational(4 * tokens, 3) + sp.Rational(tokens * (tokens - 1), 2))


def test_hardmax_weak_recovery():
    found = threshold(channel="hardmax", kind="weak", tokens=2, width="0", digits=25)
    assert found.digits.startswith(HARDMAX)
    assert len(found.digits.removeprefix("0.")) == 25
    angle = sp.asin(sp.Rational(1, 3)) / (2 * sp.pi)
    plus, minus = sp.Rational(1, 4) + angle, sp.Rational(1, 4) - angle
    energy = (16 / plus + 8 / minus) / (24 * sp.pi)
    assert sp.simplify(found.exact - 1 / (2 * energy)) == 0
    with mp.workdps(60):
        reference = 1 / (2 * mp.mpf(sp.N(energy, 50)))
        assert mp.mpf(found.interval[0]) < reference < mp.mpf(found.interval[1])
        assert mp.mpf(found.interval[1]) - mp.mpf(found.interval[0]) < mp.mpf(10) ** -24
    assert found.certified
    assert found.as_dict()["threshold"] == found.digits
    assert sp.simplify(sp.sympify(found.as_dict()["exact"]) - found.exact) == 0
    longer = threshold(channel="hardmax", kind="weak", width=0, digits=60)
    assert longer.digits.startswith(found.digits[:-1])


def test_general_weak_recovery():
    """1/signal(0, 1) for a user's channel: a third of the bits of the sign channel, three times its threshold."""
    channel = GeneralChannel(
        2, lambda y, u: log_ndtr(y * u / 0.5)[..., 0], [[-1.0], [1.0]], directions=[[0.0, 1.0, 0.0]]
    )
    found = threshold(channel=channel, kind="weak", width=0)
    # Without knowledge: P = Phi(u/.5), E[u y] = 2 phi(0)/sqrt(1 + .25); signal = 2 (E u y)^2.
    exact = math.pi / 4 * 1.25
    assert float(found) == pytest.approx(exact, rel=1e-9)
    assert not found.certified
    assert found.exact is None
    assert float(found.interval[0]) <= exact <= float(found.interval[1])


def test_hardmax_of_three_tokens_weak_recovery():
    """By cubature, against sampled answers: signal(0, 1) = 2 E |E[z | y]|^2 from 400,000 forms."""
    found = threshold(channel="hardmax", kind="weak", tokens=3, width=0)
    channel = HardmaxChannel(3)
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400000, 6))
    answers = channel.sample(np.sqrt(channel.multiplicity) * z)
    codes = answers @ np.array([9, 3, 1])
    total = 0.0
    for code in np.unique(codes):
        mine = z[codes == code]
        # Two halves, so that the square of the mean has no bias.
        half = len(mine) // 2
        total += len(mine) / len(z) * float(mine[:half].mean(axis=0) @ mine[half:].mean(axis=0))
    assert float(found) == pytest.approx(1 / (2 * total), rel=0.02)
    assert "cubature" in found.method
    assert float(weak_recovery_signal(channel).error) < 0.01 * 2 * total


def test_weak_recovery_of_an_even_channel():
    """y = |h_12| + noise with a GOE prior: alpha_weak from the q -> 0 limit, near 1/4 for little noise."""
    noise = 5e-3
    y = np.linspace(-0.5, 6.2, 200)

    def log_likelihood(y, u):
        return -0.5 * (y[..., 0] - np.abs(u[..., 0])) ** 2 / noise - 0.5 * math.log(2 * math.pi * noise)

    channel = GeneralChannel(
        2, log_likelihood, y, weights=np.full(200, y[1] - y[0]), directions=[[0.0, 1.0, 0.0]], label="retrieval"
    )
    found = threshold(channel=channel, kind="weak", prior=GOE(1))
    assert 0.25 < float(found) < 0.26
    model = StateEvolution(GOE(1), channel)
    assert model.fixed_points(0.99 * float(found))[0].stable
    assert not model.fixed_points(1.01 * float(found))[0].stable
    with pytest.raises(AssumptionError, match="no continuous weak recovery"):
        threshold(channel=channel, kind="weak", width=0)


def test_forms_of_a_threshold():
    found = threshold(channel="softmax", kind="perfect", tokens=2, width="1/2", digits=12)
    assert repr(found) == "Threshold(3/16)"
    assert found.digits == "0.187500000000"
    assert float(found) == 0.1875
    assert r"\frac{3}{16}" in found._repr_latex_()
    assert found.as_dict()["exact"] == "3/16"
    inexact = threshold(width=0.3)
    assert inexact.exact is None
    assert float(inexact) == pytest.approx(0.1275)


def test_enclosures():
    """Rigorous, tight, and for negative and large numbers as well."""
    for expression in (
        sp.pi**2 - 10,
        1000 * sp.sqrt(2),
        sp.exp(-3) / 7,
        sp.log(sp.Rational(2, 3)),
        -sp.asin(sp.Rational(1, 7)),
        sp.erfc(9) * sp.cos(3),
        sp.Rational(2, 3) ** sp.Rational(5, 7) - sp.gamma(sp.Rational(1, 3)),
        sp.sqrt(10**40 + 1) - 10**20,
    ):
        low, high = enclosure(expression, 20)
        value = sp.N(expression, 60)
        assert sp.Rational(low) <= value <= sp.Rational(high)
        assert sp.Rational(high) - sp.Rational(low) < abs(value) * sp.Rational(10) ** -19
    with pytest.raises(InputError, match="no certified enclosure"):
        enclosure(sp.besselj(0, 1), 10)
    with pytest.raises(InputError, match="give a number to rho"):
        enclosure(rho + 1, 10)
    with pytest.raises(NumericsError, match="vanishes"):
        enclosure(sp.sin(sp.pi**2) ** 2 + sp.cos(sp.pi**2) ** 2 - 1, 10)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"channel": "hardmax", "width": "1/2"}, AssumptionError, "never recovers perfectly"),
        ({"channel": "linear", "width": "1/2", "noise": 0.1}, AssumptionError, "never recovers perfectly"),
        ({"kind": "weak", "width": "1/2"}, AssumptionError, "no weak-recovery transition"),
        ({"kind": "strong", "width": "1/2"}, InputError, "kind = 'strong'"),
        ({"width": "-1/2"}, InputError, "width = -1/2"),
        ({"width": "1/2", "tokens": 1}, InputError, "tokens = 1"),
        ({"width": "1/2", "digits": 0}, InputError, "digits = 0"),
        ({"width": "__import__('os')"}, InputError, "is not a number"),
        ({}, InputError, "either width"),
    ],
)
def test_bad_input_is_named(options, error, message):
    with pytest.raises(error, match=message):
        threshold(**options)


@pytest.mark.parametrize(("tokens", "tau"), [(2, 1), (3, 2), (2, 9)])
def test_sign_with_an_exact_threshold(tokens, tau):
    """The closed form, enclosed; against the same sum by mpmath with erfc. At tau = 9 its parts cancel 18 digits."""
    found = threshold(channel="sign", kind="weak", width=0, tokens=tokens, thresholds=tau, digits=30)
    with mp.workdps(60):
        signal = mp.mpf(0)
        for scale, count in ((2, tokens), (1, tokens * (tokens - 1) // 2)):
            k = mp.mpf(tau) / mp.sqrt(scale)
            tail = mp.erfc(k / mp.sqrt(2)) / 2
            signal += 2 * count * mp.npdf(k) ** 2 / (tail * (1 - tail))
        assert mp.mpf(found.interval[0]) <= 1 / signal <= mp.mpf(found.interval[1])
        assert abs(mp.mpf(found.digits) * signal - 1) < 1e-29
    assert found.certified
    if (tokens, tau) == (2, 1):
        assert found.digits.startswith("0.333811184593769780878")
        assert found.exact is not None


def test_a_decimal_in_a_string_is_exact():
    """Not the binary number next to it: 2 rho - rho^2 over 4 at rho = 3/10 is .1275."""
    found = threshold(width="0.3", digits=30)
    assert found.exact == sp.Rational(51, 400)
    assert found.digits == "0.127500000000000000000000000000"
    assert threshold(width=0.3, digits=30).digits != found.digits
    assert threshold(prior=Atomic(["0.1", "1e-3"], ["0.25", "0.75"])).exact == sp.Rational(3, 32)
    for text in ("1e400", "1e-999999999"):
        with pytest.raises(InputError, match=text):
            threshold(width=text)


@pytest.mark.parametrize("tau", [0.5, 6.5, 9.3])
def test_sign_with_a_far_threshold_given_as_a_float(tau):
    """The interval holds the truth where 1 - erf^2 would have lost every digit."""
    found = threshold(channel="sign", kind="weak", width=0, thresholds=tau)
    with mp.workdps(40):
        signal = mp.mpf(0)
        for k, count in ((tau / mp.sqrt(2), 2), (mp.mpf(tau), 1)):
            tail = mp.erfc(k / mp.sqrt(2)) / 2
            signal += 2 * count * mp.npdf(k) ** 2 / (tail * (1 - tail))
        assert mp.mpf(found.interval[0]) <= 1 / signal <= mp.mpf(found.interval[1])


def test_sign_with_thresholds():
    """A float threshold: digits only as far as known; value against the channel's own integral."""
    found = threshold(channel="sign", kind="weak", width=0, thresholds=0.5)
    assert float(found) == pytest.approx(1 / float(SignChannel(2, 0.5).signal(0.0, 1.0).value), rel=1e-12)
    assert found.exact is None
