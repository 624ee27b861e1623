"""Every channel by independent routes: finite differences, Monte Carlo over forms, closed forms, refinement."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SoftmaxChannel,
    token_pairs,
)
from aimtheory.bayes.hardmax_two_tokens import two_token_integrals
from aimtheory.errors import InputError

NOISE = [[0.3, 0.1], [0.1, 0.7]]
PROBIT = GeneralChannel(
    2, lambda y, u: log_ndtr(y * u / 0.5).sum(axis=-1), [[-1.0], [1.0]], directions=[[1.0, -1.0, 0.3]], label="probit"
)
CLOSED = [
    SoftmaxChannel(2),
    SoftmaxChannel(3, inverse_temperature=0.7),
    LinearChannel(2, NOISE),
    LinearChannel(4, 0.2),
    HardmaxChannel(2),
    SignChannel(2),
    SignChannel(3, thresholds=0.4),
    SoftmaxChannel(3, 0.7, noise=0.3),
    SoftmaxChannel(2, noise=[[0, 0.5], [0.5, 1.0]]),
    LinearChannel(2, 0.1, matrix_noise=0.2),
    SignChannel(2, 0.4, noise=0.3, flips=0.1),
    SignChannel(2, 0.2, matrix_noise=0.2, output_noise=0.5),
    HardmaxChannel(2, matrix_noise=0.4),
    HardmaxChannel(2, noise=0.3, flips=0.1),
    PROBIT,
]
NAMES = [f"{channel.name}-{channel.tokens}-{n}" for n, channel in enumerate(CLOSED)]


def draw(channel, q, variance, count, seed):
    """omega and forms of the scalar problem."""
    rng = np.random.default_rng(seed)
    scale = np.sqrt(channel.multiplicity)
    omega = math.sqrt(q) * scale * rng.standard_normal((count, channel.pairs))
    forms = omega + math.sqrt(variance) * scale * rng.standard_normal(omega.shape)
    return omega, channel.sample(forms, rng)


@pytest.mark.parametrize("channel", CLOSED, ids=NAMES)
def test_gradient_is_the_derivative_of_log_partition(channel):
    omega, outputs = draw(channel, 0.6, 0.5, 20, 1)
    gradient = channel.gradient(outputs, omega, 0.5)
    step = 1e-4
    for pair in range(channel.pairs):
        shift = np.zeros(channel.pairs)
        shift[pair] = step
        values = [channel.log_partition(outputs, omega + m * shift, 0.5) for m in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        assert np.allclose(gradient[:, pair], slope, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("channel", CLOSED, ids=NAMES)
@pytest.mark.parametrize(("q", "variance"), [(0.5, 0.5), (1.3, 0.2)])
def test_signal_and_psi_by_monte_carlo(channel, q, variance):
    """qhat/alpha = 2 E sum D g^2 and Psi = E log Z over sampled (omega, h, y): within 4 standard errors."""
    omega, outputs = draw(channel, q, variance, 20000, 7)
    terms = 2 * (channel.multiplicity * channel.gradient(outputs, omega, variance) ** 2).sum(axis=-1)
    logs = channel.log_partition(outputs, omega, variance)
    for sample, expected in (
        (terms, channel.signal(q, variance).value),
        (logs, channel.psi_out(q, q + variance).value),
    ):
        assert abs(sample.mean() - float(expected)) < 4 * sample.std() / math.sqrt(len(sample))
    # Nishimori: E g = 0.
    g = channel.gradient(outputs, omega, variance)
    assert np.all(np.abs(g.mean(axis=0)) < 4.5 * g.std(axis=0) / math.sqrt(len(g)))


@pytest.mark.parametrize("channel", CLOSED, ids=NAMES)
@pytest.mark.parametrize("q", [0.3, 0.9, 1.4])
def test_signal_is_the_gradient_of_psi(channel, q):
    """qhat/4 = alpha Psi_out'(q) at Q0 = 1.5, to 1e-8 (fifth-order differences)."""
    step = 2e-3
    points = q + step * np.array([-3, -2, -1, 1, 2, 3])
    psi = channel.psi_out(points, 1.5).value
    slope = (psi @ np.array([-1, 9, -45, 45, -9, 1])) / (60 * step)
    assert slope == pytest.approx(float(channel.signal(q, 1.5 - q).value) / 4, rel=1e-8, abs=1e-8)


@given(st.integers(2, 5), st.floats(0.2, 4))
def test_softmax_outputs_give_the_differences_back(tokens, beta):
    channel = SoftmaxChannel(tokens, beta)
    forms = np.random.default_rng(tokens).standard_normal((5, channel.pairs))
    differences = channel.differences(channel.sample(forms))
    assert np.allclose(differences, forms - forms[:, -1:], atol=1e-12)


def test_softmax_density_against_scipy():
    """log Z is the Gaussian density of the log ratios beta (h_ab - h_TT), A D A^T built explicitly."""
    for tokens in (2, 3):
        channel = SoftmaxChannel(tokens, 1.7)
        omega, outputs = draw(channel, 0.6, 0.4, 6, 3)
        size = channel.pairs
        difference = np.hstack([np.eye(size - 1), -np.ones((size - 1, 1))]) * 1.7
        covariance = 0.4 * (difference * channel.multiplicity) @ difference.T
        seen = 1.7 * channel.differences(outputs)[:, :-1]
        for row in range(6):
            expected = multivariate_normal(difference @ omega[row], covariance).logpdf(seen[row])
            assert channel.log_partition(outputs, omega, 0.4)[row] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("tokens", [2, 3, 4, 6])
def test_softmax_directions(tokens):
    """K_T = T^2 + T - 2 is twice the rank of h -> softmax logits, all rows, counted numerically."""
    pairs = token_pairs(tokens)
    rows = []
    for a, b in itertools.product(range(tokens), repeat=2):
        row = np.zeros(len(pairs))
        row[pairs.index((min(a, b), max(a, b)))] += 1
        row[pairs.index((a, a))] -= 1
        rows.append(row)
    assert 2 * np.linalg.matrix_rank(np.array(rows)) == SoftmaxChannel(tokens).exact_directions


def test_linear_without_noise_sees_every_form():
    channel = LinearChannel(3, 0.0)
    assert float(channel.signal(0.5, 0.25).value) == pytest.approx((9 + 3) / 0.25)
    assert channel.exact_directions == 12
    assert LinearChannel(2, [[0, 1], [1, 0]]).exact_directions == 4


def test_hardmax_without_knowledge():
    """G(0) = 2E = (16/p_+ + 8/p_-)/(12 pi)."""
    plus, minus = (0.25 + s * math.asin(1 / 3) / (2 * math.pi) for s in (1, -1))
    expected = (16 / plus + 8 / minus) / (12 * math.pi)
    assert float(HardmaxChannel(2).signal(0.0, 1.0).value) == pytest.approx(expected, rel=1e-12)
    assert float(HardmaxChannel(2).direct(0.0).value) == pytest.approx(expected, rel=1e-13)
    assert float(HardmaxChannel(2).uninformed_signal()) == pytest.approx(expected, rel=1e-13)


def test_hardmax_at_small_variance():
    """r -> inf: one boundary at a time, sqrt(r) G -> (8/sqrt(2 pi)) int phi^2/Phi."""
    k = np.linspace(-12, 12, 4001)
    integral = np.sum(np.exp(-(k**2) - np.log(2 * np.pi) - log_ndtr(k))) * (k[1] - k[0])
    value = float(HardmaxChannel(2).signal(1.0, 1e-10).value) * 1e-10 * 1e5
    assert value == pytest.approx(8 / math.sqrt(2 * math.pi) * integral, rel=2e-5)


@pytest.mark.parametrize("ratio", [0.0, 0.04, 0.06, 1.0, 30.0, 1e3, 1e6])
def test_hardmax_quadrature_is_converged(ratio):
    """Step halved twice, and the table against direct quadrature, from q << V to V << q."""
    values = [two_token_integrals(np.array([ratio]), refinement) for refinement in (0, 1)]
    assert values[0][0][0] == pytest.approx(values[1][0][0], rel=1e-13)
    assert values[0][1][0] == pytest.approx(values[1][1][0], rel=1e-13)
    channel = HardmaxChannel(2)
    assert float(channel.table.signal(np.array(ratio))) == pytest.approx(values[1][0][0], rel=1e-12)
    assert float(channel.table.entropy(np.array(ratio))) == pytest.approx(values[1][1][0], abs=1e-13)
    assert float(channel.direct(ratio).error) < 1e-12


def test_sign_without_thresholds():
    """signal(0, V) = 2T(T+1)/(pi V): every bit gives 2/pi; and large ratios stay resolved."""
    channel = SignChannel(3)
    assert float(channel.signal(0.0, 0.5).value) == pytest.approx(2 * 12 / math.pi / 0.5, rel=1e-14)
    k = np.linspace(-12, 12, 4001)
    integral = np.sum(np.exp(-(k**2) - np.log(2 * np.pi) - log_ndtr(k) - log_ndtr(-k))) * (k[1] - k[0])
    ratio = 1e12
    expected = 2 * 6 * integral / math.sqrt(2 * math.pi * ratio)
    assert float(channel.signal(ratio, 1.0).value) == pytest.approx(expected, rel=1e-9)
    assert float(channel.signal(ratio, 1.0).error) < 1e-12 * expected


def test_general_channel_reproduces_the_closed_ones():
    sign = GeneralChannel(
        2, lambda y, u: log_ndtr(y * u[..., :1] / 1e-3)[..., 0], [[-1.0], [1.0]], directions=[[0.0, 1.0, 0.0]]
    )
    exact = SignChannel(2).signal(0.5, 0.5).value / 3
    assert float(sign.signal(0.5, 0.5).value) == pytest.approx(exact, rel=1e-3)
    y = np.linspace(-9, 9, 401)
    linear = GeneralChannel(
        2,
        lambda y, u: (-0.5 * (y - u) ** 2 / 0.3 - 0.5 * math.log(0.6 * math.pi))[..., 0],
        y,
        weights=np.full(401, y[1] - y[0]),
        directions=[[0.0, 1.0, 0.0]],
    )
    assert float(linear.signal(0.5, 0.5).value) == pytest.approx(2 / 0.8, rel=1e-9)
    assert float(linear.psi_out(0.5, 1.0).value) == pytest.approx(-0.5 * math.log(2 * math.pi * math.e * 0.8), rel=1e-9)


def test_sampler_reproduces_hardmax():
    def answer(u, rng):
        return (u[:, 0] > 0) * 2 + (u[:, 1] > 0)

    channel = GeneralChannel.from_sampler(2, answer, 4, directions=[[1, -1, 0], [0, -1, 1]])
    measured = channel.signal(0.5, 0.5)
    exact = float(HardmaxChannel(2).signal(0.5, 0.5).value)
    assert abs(float(measured.value) - exact) < float(measured.error)
    assert float(measured.error) < 5e-3 * exact


def test_the_error_shows_an_unresolved_likelihood():
    jump = GeneralChannel.from_sampler(2, lambda u, _: u[:, 0] * u[:, 1] > 0.123, 2, directions=[[0, 1, 0], [1, 0, -1]])
    measured = jump.signal(0.9999, 1e-4)
    assert float(measured.error) > 0.02 * float(measured.value)


def test_a_jump_on_one_axis_is_resolved():
    """y = 1(h_12 > tau): 2 E phi(k)^2/(Phi(k) Phi(-k))/V over k = (omega - tau)/sqrt V, by scipy's quadrature."""
    q, v, tau = 0.9999, 1e-4, 0.123
    channel = GeneralChannel.from_sampler(2, lambda u, _: u[:, 0] > tau, 2, directions=[[0, 1, 0]])

    def integrand(k):
        score = np.exp(-k * k - np.log(2 * np.pi) - log_ndtr(k) - log_ndtr(-k))
        return score * np.exp(-((tau + np.sqrt(v) * k) ** 2) / (2 * q)) * np.sqrt(v / (2 * np.pi * q))

    expected = 2 * quad(integrand, -12, 12, epsabs=1e-14)[0] / v
    assert float(channel.signal(q, v).value) == pytest.approx(expected, rel=1e-9)


def test_several_matrices():
    """y sees h^1 + h^2/2 at one pair: the exact matrix of signals is rank one with entries 1 : 1/2 : 1/4."""
    channel = GeneralChannel(
        2,
        lambda y, u: log_ndtr(y[..., 0] * (u[..., 0, 0] + 0.5 * u[..., 1, 0]) / 0.3),
        [[-1.0], [1.0]],
        directions=[[0.0, 1.0, 0.0]],
        count=2,
    )
    value = channel.signal_matrix([[0.5, 0.2], [0.2, 0.4]], [0.5, 0.6]).value
    assert value == pytest.approx(value[0, 0] * np.outer([1, 0.5], [1, 0.5]), rel=1e-10)
    # One effective probit: q = .5 + .2 + .1, V = .5 + .15, noise .09.
    single = GeneralChannel(
        2, lambda y, u: log_ndtr(y * u / 0.3)[..., 0], [[-1.0], [1.0]], directions=[[0.0, 1.0, 0.0]]
    )
    assert value[0, 0] == pytest.approx(float(single.signal(0.8, 0.65).value), rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftmaxChannel(1), "tokens = 1"),
        (lambda: HardmaxChannel(2.5), "tokens = 2.5"),
        (lambda: SoftmaxChannel(2, 0.0), "inverse_temperature"),
        (lambda: LinearChannel(2, -0.1), "noise variance -0.1"),
        (lambda: LinearChannel(2, [[1, 2], [3, 1]]), "symmetric"),
        (lambda: LinearChannel(2, float("nan")), "noise = nan is not finite"),
        (lambda: SignChannel(2, float("inf")), "threshold"),
        (lambda: HardmaxChannel(3, points=100), "power of two"),
        (lambda: SoftmaxChannel(2).signal(-0.1, 1.0), "q = -0.1"),
        (lambda: SoftmaxChannel(2).signal(0.1, -1.0), "V = -1.0"),
        (lambda: SoftmaxChannel(2).psi_out(1.2, 1.0), r"\[0, Q0\]"),
        (lambda: SoftmaxChannel(2).qhat(0.5, 0.5, -1.0), "alpha = -1.0"),
        (lambda: HardmaxChannel(2).gradient(np.array([[2, 0]]), np.zeros((1, 3)), 1.0), "0..1"),
        (lambda: HardmaxChannel(3).gradient(np.array([[1, 2, 0]]), np.zeros((1, 6)), 1.0), "impossible"),
        (lambda: SignChannel(2).gradient(np.zeros((1, 3)), np.zeros((1, 3)), 1.0), r"\+1 or -1"),
        (lambda: SoftmaxChannel(2).gradient(np.zeros((1, 2, 2)), np.zeros((1, 3)), 1.0), "0, negative"),
        (lambda: SoftmaxChannel(2).sample(np.full((1, 3), np.nan)), "NaN"),
        (lambda: GeneralChannel(2, lambda y, u: -(u[..., :1] ** 2) + y, [[0.0], [1.0]]), "normalize|shape"),
        (
            lambda: GeneralChannel(
                2, lambda y, u: 0 * y[..., 0] + 0 * u[..., 0], [[0.0], [1.0]], directions=[[1, 0, 0]]
            ),
            "does not normalize: sum over outputs is 2",
        ),
        (lambda: GeneralChannel(4, lambda y, _: y, [[0.0]]), "count"),
        (lambda: GeneralChannel(2, lambda y, _: y, [[0.0]], directions=[[1, 0, 0], [2, 0, 0]]), "dependent"),
        (lambda: GeneralChannel(2, lambda y, _: y, [[0.0]], weights=[-1.0]), "weights"),
        (lambda: GeneralChannel.from_sampler(2, lambda u, _: u[:, 0], 2, directions=[[1, 0, 0]]), "integers"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
