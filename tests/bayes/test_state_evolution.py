"""State evolution: published and independent numbers, every kind of fixed point, transitions, free entropy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    MultiIndexStateEvolution,
    SignChannel,
    SoftmaxChannel,
    StateEvolution,
    bayes_curve,
    free_entropy,
    make_prior,
    mmse_curve,
)
from aimtheory.bayes.hardmax_two_tokens import two_token_integrals
from aimtheory.errors import InputError
from aimtheory.spectra import GOE, Atomic, bayes_wishart


def evolution(channel, width=None, prior=None):
    return StateEvolution(make_prior(width, prior), channel)


@pytest.mark.parametrize(
    ("tokens", "width", "alpha", "mmse"),
    [
        (2, 0.5, 0.089711, 0.457619),
        (2, 0.5, 0.16985388, 0.055106),
        (3, 0.3, 0.03, 0.437927),
        (4, 1, 0.02, 0.552242),
        (2, 2, 0.1, 0.550930),
    ],
)
def test_softmax_values(tokens, width, alpha, mmse):
    """From the roots of the cubic for the Stieltjes transform and a midpoint rule for int f^3, by a separate script."""
    point = evolution(SoftmaxChannel(tokens), width).solve(alpha)
    assert point.mmse == pytest.approx(mmse, abs=1e-6)
    assert point.stable
    assert point.status == "converged"
    assert point.qhat == pytest.approx(alpha * (tokens**2 + tokens - 2) / point.mmse, rel=1e-12)


@pytest.mark.parametrize(("alpha", "mmse"), [(0.1, 0.7451104), (0.31, 0.3625945), (1.1, 0.0676668)])
def test_hardmax_values(alpha, mmse):
    """From a damped iteration with an 800 x 800 trapezoid grid in both variables, by a separate script."""
    assert evolution(HardmaxChannel(2), 0.5).solve(alpha).mmse == pytest.approx(mmse, abs=2e-7)


def test_hardmax_is_converged_at_large_alpha():
    """alpha = 10, V << q: the solution satisfies the equations under a rule with a quarter of the step."""
    model = evolution(HardmaxChannel(2), 0.5)
    for alpha in (10.0, 100.0):
        point = model.solve(alpha)
        ratio = np.array([point.q / point.mmse])
        for refinement in (0, 1):
            signal = two_token_integrals(ratio, refinement)[0][0] / point.mmse
            assert point.qhat == pytest.approx(alpha * signal, rel=1e-11)
        assert float(model.prior.mmse(point.qhat)) == pytest.approx(point.mmse, rel=1e-11)


def test_published_softmax_curve():
    """Rows of the public data of arXiv:2506.01582 (T = 2, rho = 1/2), solved to about 5e-4 there."""
    alpha = np.array([0.002215764705882353, 0.03162596078431373, 0.06103615686274509, 0.09044635294117646])
    alpha = np.append(alpha, [0.11985654901960782, 0.14926674509803922])
    mmse = [0.9910027427073572, 0.8405845245863066, 0.64959212103643, 0.45290107358232423]
    mmse += [0.27527935041063567, 0.13134096628367264]
    assert np.allclose(mmse_curve("softmax", 2, 0.5, alpha), mmse, atol=5e-4)


def test_goe_softmax_is_a_straight_line():
    """rho -> inf: MMSE = 1 - alpha K_T."""
    for tokens in (2, 3, 5):
        directions = tokens**2 + tokens - 2
        alpha = np.linspace(0, 1 / directions, 7)
        assert np.allclose(mmse_curve("softmax", tokens, prior=GOE(1), alpha=alpha), 1 - alpha * directions, atol=1e-10)
    wide = mmse_curve("softmax", 2, 1e4, [0.1])
    assert wide[0] == pytest.approx(0.6, abs=3e-3)


def test_linear_channel_with_goe_solves_a_quadratic():
    """Noise D_ab Delta: signal = T(T+1)/(V + Delta), and V = 1/(1 + qhat)."""
    delta, alpha = 0.3, 0.4
    channel = LinearChannel(2, [[2 * delta, delta], [delta, 2 * delta]])
    rate = 6 * alpha
    # V (V + Delta + rate) = V + Delta.
    b = delta + rate - 1
    exact = (-b + math.sqrt(b * b + 4 * delta)) / 2
    assert evolution(channel, prior=GOE(1)).solve(alpha).mmse == pytest.approx(exact, rel=1e-12)


@settings(max_examples=15)
@given(st.floats(0.1, 2.5), st.floats(0.02, 3), st.sampled_from(["hardmax", "sign", "linear"]))
def test_solution_solves_both_equations(width, alpha, name):
    channel = {"hardmax": HardmaxChannel(2), "sign": SignChannel(2, 0.3), "linear": LinearChannel(2, 0.5)}[name]
    model = evolution(channel, width)
    point = model.solve(alpha)
    assert float(model.qhat(point.q, alpha)) == pytest.approx(point.qhat, rel=1e-8)
    assert float(model.residual(point.q, alpha)) == pytest.approx(0, abs=1e-9)


@settings(max_examples=15)
@given(st.floats(0.1, 2.5), st.floats(0.02, 1.5))
def test_less_information_never_helps(width, alpha):
    """Data processing: hardmax is a function of softmax, sign a function of the forms."""
    soft, hard = (mmse_curve(name, 2, width, [alpha])[0] for name in ("softmax", "hardmax"))
    assert soft <= hard + 1e-10
    assert mmse_curve("linear", 2, width, [alpha])[0] <= mmse_curve("sign", 2, width, [alpha])[0] + 1e-10
    noisy = mmse_curve("linear", 2, width, [alpha], noise=0.5)[0]
    assert mmse_curve("linear", 2, width, [alpha], noise=0.1)[0] <= noisy + 1e-10


@pytest.mark.parametrize("channel", [HardmaxChannel(2), SoftmaxChannel(2), SignChannel(3), LinearChannel(2, 0.2)])
def test_plain_iteration_arrives_at_the_solution(channel):
    model = evolution(channel, 0.5)
    alpha = 0.05 if channel.name == "softmax" else 0.3
    for start in ("uninformed", "informed"):
        path = model.iterate(alpha, 150, start)
        assert path[-1, 1] == pytest.approx(model.solve(alpha).mmse, abs=1e-8)
    assert path[0, 0] > path[-1, 0]
    damped = model.iterate(alpha, 250, damping=0.5)
    assert damped[-1, 1] == pytest.approx(model.solve(alpha).mmse, abs=1e-8)
    assert np.all(np.diff(damped[:, 0]) > -1e-12)


def test_curve_and_single_points_agree():
    alpha = np.linspace(0.0, 0.2, 23)
    curve = bayes_curve("softmax", 2, "1/2", alpha)
    model = evolution(SoftmaxChannel(2), "1/2")
    assert np.allclose(curve.mmse, [model.solve(a).mmse for a in alpha], atol=1e-10)
    assert np.all(np.diff(curve.mmse) <= 0)
    assert curve.ok
    assert curve.status[-1] == "perfect recovery"
    assert curve.mmse[-1] == 0
    assert curve.mmse[0] == pytest.approx(1.0)
    assert np.max(curve.residual) < 1e-10


@pytest.mark.parametrize("alpha", [1e-12, 1e-8, 0.1874999, 0.1875 - 1e-9])
def test_softmax_far_into_both_ends(alpha):
    """Small alpha: V = 1 - 4 alpha + ...; near the threshold alpha = qhat V / K_T must come back."""
    point = evolution(SoftmaxChannel(2), 0.5).solve(alpha)
    assert point.ok
    assert point.qhat * point.mmse / 4 == pytest.approx(alpha, rel=1e-11)
    if alpha < 1e-6:
        assert point.mmse == pytest.approx(1.0, abs=1e-5)
    else:
        assert 0 < point.mmse < 1e-5


def test_alpha_zero():
    point = evolution(HardmaxChannel(2), 0.5).solve(0.0)
    assert point.mmse == pytest.approx(1.0)
    assert point.q == pytest.approx(0.5)
    assert point.qhat == 0
    assert point.free_entropy == pytest.approx(0, abs=1e-14)


def test_small_width_softmax():
    """alpha/rho = (2 - t)/K_T, MMSE = t (2 - t): t = 2 - K_T alpha/rho between weak and perfect recovery."""
    scaled = np.array([0.1, 0.249, 0.26, 0.4, 0.499, 0.6])
    t = np.clip(2 - 4 * scaled, 0, 1)
    assert np.allclose(mmse_curve("softmax", 2, 0, scaled), t * (2 - t), atol=1e-11)
    for width in (1e-4, 1e-6):
        finite = mmse_curve("softmax", 2, width, scaled * width)
        assert np.allclose(finite, t * (2 - t), atol=6 * math.sqrt(width))


def test_small_width_hardmax_crosses_its_threshold():
    """On the numeric branch the overlap leaves 0 at 0.40341062903759930 (derived exactly elsewhere)."""
    threshold = 0.40341062903759930
    low, high = (evolution(HardmaxChannel(2), 0).solve(threshold * s) for s in (1 - 1e-6, 1 + 1e-6))
    assert low.q == 0
    assert high.q > 0
    # Bisection on q > 0.
    left, right = 0.3, 0.5
    for _ in range(40):
        middle = 0.5 * (left + right)
        left, right = (left, middle) if evolution(HardmaxChannel(2), 0).solve(middle).q > 0 else (middle, right)
    assert right == pytest.approx(threshold, rel=1e-7)


def wave(points=64, noise=0.05, frequency=2.5):
    """y = sin(2.5 h_12) + noise: almost no linear signal, hence a first-order transition."""
    reach = 1 + 6 * math.sqrt(noise)
    y = np.linspace(-reach, reach, points)

    def log_likelihood(y, u):
        return -0.5 * (y[..., 0] - np.sin(frequency * u[..., 0])) ** 2 / noise - 0.5 * math.log(2 * math.pi * noise)

    weights = np.full(points, y[1] - y[0])
    return GeneralChannel(2, log_likelihood, y, weights=weights, directions=[[0.0, 1.0, 0.0]], label="wave")


@pytest.fixture(scope="module")
def jump():
    return StateEvolution(GOE(1), wave())


@pytest.mark.slow
def test_first_order_transition(jump):
    """Three solutions between the spinodals, the middle one unstable; free entropies cross; a hard phase follows."""
    ends = jump.spinodals()
    assert [end.ends for end in ends] == ["uninformed", "informed"]
    low, high = ends[1].alpha, ends[0].alpha
    assert low < high
    transition = jump.first_order_transition((0.5, 2.0))
    assert low < transition.alpha < high
    assert transition.hard_phase == (transition.alpha, pytest.approx(high))
    assert transition.mmse_after < 0.1 < 0.9 < transition.mmse_before
    middle = 0.5 * (transition.alpha + high)
    points = jump.fixed_points(middle)
    assert [point.stable for point in points] == [True, False, True]
    assert [point.branch for point in points] == ["uninformed", "between", "informed"]
    # The unstable solution is a minimum of f between two maxima.
    assert points[1].free_entropy < min(points[0].free_entropy, points[2].free_entropy)
    assert jump.solve(middle).mmse == points[2].mmse
    assert jump.solve(middle, "uninformed").mmse == points[0].mmse
    before = jump.fixed_points(0.5 * (low + transition.alpha))
    assert max(before, key=lambda point: point.free_entropy).branch == "uninformed"
    with pytest.raises(InputError, match="no first-order transition"):
        jump.first_order_transition((1.5, 2.0))


def test_iteration_obeys_stability(jump):
    """From the prior the map stays at the bad solution in the hard phase; from the truth it goes to the good one."""
    alpha = 1.5
    points = jump.fixed_points(alpha)
    assert jump.iterate(alpha, 40)[-1, 1] == pytest.approx(points[0].mmse, abs=1e-3)
    assert jump.iterate(alpha, 12, 0.97)[-1, 1] == pytest.approx(points[2].mmse, rel=1e-2)


@pytest.mark.slow
def test_curve_through_the_jump(jump):
    alpha = np.array([0.7, 1.5, 3.2])
    best, plain = jump.curve(alpha), jump.curve(alpha, "uninformed")
    assert best.ok
    assert plain.mmse[1] > 0.8 > 0.1 > best.mmse[1]
    assert best.mmse[[0, 2]] == pytest.approx(plain.mmse[[0, 2]])


def test_perfect_recovery_points():
    """Below the threshold V = 0 is a solution that repels; above it attracts and wins."""
    model = evolution(SoftmaxChannel(2), 0.5)
    below, above = model.fixed_points(0.15), model.fixed_points(0.2)
    assert [point.stable for point in below] == [True, False]
    assert below[-1].free_entropy == -math.inf
    assert [point.mmse for point in above] == [0.0]
    assert above[-1].stable
    assert model.solve(0.2).status == "perfect recovery"


def test_phase_retrieval_weak_recovery():
    """y = |h_12| nearly without noise and a Gaussian prior: weak recovery at n = N/2, N = d^2/2: alpha = 1/4."""
    noise = 2e-3
    y = np.linspace(-0.3, 6.3, 300)

    def log_likelihood(y, u):
        return -0.5 * (y[..., 0] - np.abs(u[..., 0])) ** 2 / noise - 0.5 * math.log(2 * math.pi * noise)

    channel = GeneralChannel(
        2, log_likelihood, y, weights=np.full(300, y[1] - y[0]), directions=[[0.0, 1.0, 0.0]], label="retrieval"
    )
    model = StateEvolution(GOE(1), channel)
    assert model.prior_mean_is_fixed
    below, above = model.fixed_points(0.24), model.fixed_points(0.27)
    assert [point.stable for point in below] == [True]
    assert below[0].q == 0
    assert [point.stable for point in above] == [False, True]
    assert above[1].q > 1e-3


@pytest.mark.parametrize("channel", [SoftmaxChannel(2), HardmaxChannel(2), LinearChannel(3, 0.2), SignChannel(2)])
@pytest.mark.parametrize("width", [0.5, 1.7])
def test_fixed_points_are_stationary_points(channel, width):
    """Both derivatives of f vanish (to 1e-8, by differences), and f itself agrees with its other form."""
    model = evolution(channel, width)
    alpha = 0.04
    point = model.solve(alpha)
    stencil = np.array([-1, 9, -45, 45, -9, 1]) / 60
    offsets = np.array([-3, -2, -1, 1, 2, 3])
    step = 2e-3 * point.mmse
    along_q = [model.free_entropy(point.q + step * k, point.qhat, alpha) for k in offsets]
    assert stencil @ along_q / step == pytest.approx(0, abs=1e-8)
    step = 5e-3 * point.qhat
    along_qhat = [model.free_entropy(point.q, point.qhat + step * k, alpha) for k in offsets]
    assert stencil @ along_qhat / step == pytest.approx(0, abs=1e-8)
    assert model.free_entropy(point.q, point.qhat, alpha) == pytest.approx(point.free_entropy, abs=1e-12)
    # Off the fixed point the gradients are the residuals of the two equations.
    q = 0.5 * (point.q + model.prior.second_moment)
    step = 1e-3 * (model.prior.second_moment - q)
    slope = stencil @ [model.free_entropy(q + step * k, point.qhat, alpha) for k in offsets] / step
    assert slope == pytest.approx((float(model.qhat(q, alpha)) - point.qhat) / 4, rel=1e-7)


def test_free_entropy_grows_by_psi():
    """df/dalpha = Psi_out at a stationary point."""
    model = evolution(HardmaxChannel(2), 0.5)
    alpha, step = 0.4, 1e-3
    values = [model.solve(alpha + k * step).free_entropy for k in (-2, -1, 1, 2)]
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
    point = model.solve(alpha)
    assert slope == pytest.approx(float(model.channel.psi_out(point.q, model.prior.second_moment).value), rel=1e-8)


def test_atomic_and_symmetric_priors():
    """A +-1 spectrum: softmax recovers it perfectly at (1 - 1/2)/K_T."""
    model = StateEvolution(Atomic([-1, 1]), SoftmaxChannel(2))
    assert model.solve(0.13).mmse == 0
    point = model.solve(0.12)
    assert point.qhat * point.mmse == pytest.approx(0.48, rel=1e-9)
    assert 0.1 < point.mmse < 0.2


def test_several_matrices_seen_separately():
    """y holds a sign of h^1 and one of h^2: two independent problems."""
    separate = GeneralChannel(
        2,
        lambda y, u: (
            np.log(np.where(y[..., 0] * u[..., 0, 0] > 0, 1.0, 1e-300))
            + np.log(np.where(y[..., 1] * u[..., 1, 0] > 0, 1.0, 1e-300))
        ),
        [[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)],
        directions=[[0.0, 1.0, 0.0]],
        count=2,
    )
    one = GeneralChannel(
        2,
        lambda y, u: np.log(np.where(y[..., 0] * u[..., 0] > 0, 1.0, 1e-300)),
        [[-1.0], [1.0]],
        directions=[[0.0, 1.0, 0.0]],
    )
    laws = (GOE(1), bayes_wishart("1/2"))
    both = MultiIndexStateEvolution(laws, separate).solve(1.0)
    assert both.ok
    # The means of the second matrix correlate nothing here: the first is centred.
    assert both.coupling < 1e-10
    for place, law in enumerate(laws):
        assert both.mmse[place] == pytest.approx(StateEvolution(law, one).solve(1.0).mmse, rel=5e-3)
    informed = MultiIndexStateEvolution(laws, separate).solve(1.0, "informed")
    assert informed.mmse == pytest.approx(both.mmse, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: evolution(SoftmaxChannel(2), 0.5).solve(-0.1), "alpha = -0.1"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).solve(float("nan")), "alpha = nan"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).qhat(0.4, 0.1), r"\[\(tr S\)\^2, tr S\^2\] = \[0.5, 1.5\]"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).free_entropy(1.6, 1.0, 0.1), "q = 1.6"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).solve(0.1, "lower"), "branch = 'lower'"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).first_order_transition(), "no first-order transition"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).first_order_transition((0.2, 0.1)), "bracket"),
        (lambda: evolution(SoftmaxChannel(2), 0.5).iterate(0.1, 5, "warm"), "start = 'warm'"),
        (lambda: StateEvolution(bayes_wishart(1), "softmax"), "must be a Channel"),
        (lambda: mmse_curve("softmax", 1, 0.5, [0.1]), "tokens = 1"),
        (lambda: mmse_curve("relu", 2, 0.5, [0.1]), "unknown"),
        (lambda: mmse_curve("softmax", 2, 0.5, [0.1], flips=0.1), "does not take"),
        (lambda: mmse_curve(SoftmaxChannel(2), 3, 0.5, [0.1]), "contradicts"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_free_entropy_function():
    """psi_P - qhat q/4 of a GOE: qhat/4 - log(1 + qhat)/4 - qhat q/4 at alpha = 0."""
    value = free_entropy(make_prior(prior=GOE(1)), SoftmaxChannel(2), 0.0, 0.3, 2.0)
    assert value == pytest.approx(0.5 - math.log(3) / 4 - 0.15, rel=1e-12)
