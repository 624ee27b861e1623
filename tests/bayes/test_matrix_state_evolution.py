"""Several matrices: joint denoising, channels of several heads, the K x K equations as gradients of one function."""

import math

import numpy as np
import pytest

from aimtheory.bayes import (
    CoupledChannel,
    GeneralChannel,
    JointPrior,
    LinearChannel,
    LinearHeads,
    MultiIndexStateEvolution,
    SignChannel,
    SignHeads,
    SoftmaxHeads,
    StateEvolution,
)
from aimtheory.bayes.head_channels import _count_by_factor, _count_two
from aimtheory.errors import InputError, NumericsError
from aimtheory.spectra import GOE, Wishart, bayes_wishart

STENCIL = np.array([1, -8, 8, -1]) / 12
OFFSETS = np.array([-2, -1, 1, 2])
TRIDIAGONAL = np.eye(3) + np.diag([0.1, 0.1], 1) + np.diag([0.1, 0.1], -1)
DIRECTIONS = [np.array([[1.0, 0], [0, 0]]), np.array([[0, 0], [0, 1.0]]), np.array([[0, 1.0], [1.0, 0]])]


def observe(matrices, qhat, rng):
    """T = qhat S + qhat^{1/2} Z, Z of independent GOEs."""
    values, vectors = np.linalg.eigh(qhat)
    root = (vectors * np.sqrt(values)) @ vectors.T
    noise = np.stack([GOE(1).sample(matrices.shape[1], rng) for _ in matrices])
    return np.tensordot(qhat, matrices, axes=1) + np.tensordot(root, noise, axes=1)


def test_sum_of_two_gaussian_heads():
    """Only h^1 + h^2 is seen: 2x^2 + x - 1 = 0, x = 1/2, V = 3/4 at alpha = 1/2 (one pair of tokens)."""
    y = np.linspace(-9, 9, 60)

    def log_likelihood(y, u):
        return -0.5 * (y[..., 0] - u[..., 0].sum(axis=-1)) ** 2 - 0.5 * math.log(2 * math.pi)

    channel = GeneralChannel(
        2, log_likelihood, y, weights=np.full(60, y[1] - y[0]), directions=[[0.0, 1.0, 0.0]], count=2, label="sum",
        tolerance=1e-3,
    )  # fmt: skip
    point = MultiIndexStateEvolution([GOE(1), GOE(1)], channel).solve(0.5, steps=10, tolerance=1e-4)
    assert point.ok
    assert point.mmse == pytest.approx([0.75, 0.75], abs=1e-4)
    assert point.error_matrix[0, 1] == pytest.approx(-0.25, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.05, 0.7, 20.0])
def test_linear_mixture_by_counting_the_sum(alpha):
    """The sum of K heads of variance C is one GOE of variance KC: the scalar equation gives the rest."""
    heads, variance, noise = 3, 0.8, 0.4
    point = MultiIndexStateEvolution([GOE(variance)] * heads, LinearHeads(2, [[1.0] * heads], noise)).solve(alpha)
    total = heads * variance
    low, high = 0.0, total
    for _ in range(200):
        v = 0.5 * (low + high)
        qhat = 2 * alpha * (4 / (2 * v + noise) + 1 / (v + noise))
        low, high = (v, high) if total / (1 + total * qhat) > v else (low, v)
    assert np.ones(heads) @ point.error_matrix @ np.ones(heads) == pytest.approx(v, rel=1e-9)
    assert point.mmse == pytest.approx(np.full(heads, variance - (total - v) / heads**2), rel=1e-9)


def test_heads_seen_one_by_one_are_scalar_problems():
    """A mixing that can be undone, with noise that follows it, is K separate linear channels."""
    point = MultiIndexStateEvolution([bayes_wishart("1/2"), GOE(1)], LinearHeads(2, np.eye(2), 1.0)).solve(0.3)
    assert point.status == "converged"
    assert point.coupling == 0
    for place, law in enumerate((bayes_wishart("1/2"), GOE(1))):
        assert point.mmse[place] == pytest.approx(StateEvolution(law, LinearChannel(2, 1.0)).solve(0.3).mmse, rel=1e-8)


def test_approximation_is_said_and_is_an_upper_bound():
    """Two coupled Wisharts: the linear estimate; one Wishart beside a GOE is exact, and better than linear."""
    channel = LinearHeads(2, [[1.0, 0.5]], 1.0)
    rough = MultiIndexStateEvolution([bayes_wishart("1/2"), bayes_wishart(1)], channel).solve(0.4)
    assert (rough.status, rough.ok) == ("approximation", False)
    assert "above the Bayes-optimal" in rough.advice
    law = Wishart("1/2", 1)
    variance = float(law.second_moment) - 1
    exact = MultiIndexStateEvolution([law, GOE(1)], channel).solve(0.4)
    linear = MultiIndexStateEvolution([GOE(variance), GOE(1)], channel).solve(0.4)
    assert exact.ok
    assert np.all(exact.mmse < linear.mmse)
    # Knowing the other matrix can only help.
    alone = StateEvolution(law, SignChannel(2))
    assert exact.mmse[0] > float(alone.prior.mmse(exact.qhat[0, 0]))


@pytest.mark.parametrize("laws", [("wishart", "goe"), ("goe", "goe"), ("wishart", "wishart")])
def test_joint_denoiser_on_matrices(laws):
    """Errors of the estimate at d = 300, over two draws, against the error matrix; exact or linear alike."""
    made = {"wishart": Wishart("1/2", 1), "goe": GOE(0.7)}
    prior = JointPrior([made[name] for name in laws])
    qhat = np.array([[2.0, 1.3], [1.3, 1.8]])
    dim, rng = 300, np.random.default_rng(3)
    found = []
    for _ in range(2):
        matrices = np.stack([made[name].sample(dim, rng) for name in laws])
        error = prior.denoise(qhat, observe(matrices, qhat, rng)) - matrices
        found.append(np.einsum("kij,lij->kl", error, error) / dim)
    assert prior.is_exact(qhat) is (laws != ("wishart", "wishart"))
    # Fluctuations and bias are O(1/d).
    assert np.mean(found, axis=0) == pytest.approx(prior.error_matrix(qhat), abs=4 / dim)


@pytest.mark.parametrize(
    "prior",
    [
        JointPrior([Wishart("1/2", 1), GOE(0.7)]),
        JointPrior([GOE(0.7), GOE(1.2)]),
        JointPrior(covariance=[[1.0, 0.4], [0.4, 0.5]]),
    ],
)
def test_error_is_the_slope_of_information(prior):
    qhat = np.array([[2.0, 0.9], [0.9, 1.1]])
    error = prior.error_matrix(qhat)
    for direction in DIRECTIONS:
        values = [prior.information(qhat + 1e-3 * k * direction) for k in OFFSETS]
        assert STENCIL @ values / 1e-3 == pytest.approx((error * direction).sum() / 4, rel=1e-8)


def test_joint_prior_limits():
    correlated = JointPrior(covariance=[[1.0, 0.4], [0.4, 0.5]])
    assert correlated.error_matrix(np.zeros((2, 2))) == pytest.approx(correlated.spread)
    qhat = np.array([[3.0, -1.0], [-1.0, 2.0]])
    assert correlated.error_matrix(qhat) == pytest.approx(np.linalg.inv(np.linalg.inv(correlated.spread) + qhat))
    both = JointPrior([Wishart("1/2", 1), Wishart(1, 1)])
    diagonal = both.error_matrix(np.diag([2.0, 3.0]))
    assert diagonal == pytest.approx(np.diag([float(p.mmse(q)) for p, q in zip(both.priors, (2.0, 3.0), strict=True)]))


@pytest.mark.parametrize(
    "channel",
    [LinearHeads(2, [[1.0, 0.5]], 0.3), SignHeads(2, 2), SignHeads(2, 2, noise=0.4), SoftmaxHeads(2.0, 0.05)],
    ids=lambda channel: type(channel).__name__,
)
def test_free_entropy_has_the_equations_as_gradients(channel):
    """Off any fixed point, in q and in qhat, to 1e-7."""
    evolution = MultiIndexStateEvolution(JointPrior(covariance=np.eye(2)), channel)
    q = np.array([[0.35, 0.2], [0.2, 0.35]])
    qhat, alpha, step = np.array([[1.2, 0.5], [0.5, 0.9]]), 0.8, 1e-3
    exchangeable = [np.eye(2), DIRECTIONS[2]]
    for direction in exchangeable if isinstance(channel, SoftmaxHeads) else DIRECTIONS:
        slope = STENCIL @ [evolution.free_entropy(q + step * k * direction, qhat, alpha) for k in OFFSETS] / step
        signal = channel.signal_matrix(q, np.eye(2) - q).value
        assert slope == pytest.approx(float(((alpha * signal - qhat) * direction).sum()) / 4, abs=1e-7)
    for direction in DIRECTIONS:
        slope = STENCIL @ [evolution.free_entropy(q, qhat + step * k * direction, alpha) for k in OFFSETS] / step
        left = np.eye(2) - q - evolution.prior.error_matrix(qhat)
        assert slope == pytest.approx(float((left * direction).sum()) / 4, abs=1e-9)


@pytest.mark.slow
def test_fixed_point_is_stationary():
    evolution = MultiIndexStateEvolution(JointPrior(covariance=np.eye(2)), SignHeads(2, 2))
    point = evolution.solve(0.6, start=0.7 * np.eye(2))
    assert point.ok
    assert point.q[0, 1] < 0.9 * point.q[0, 0]
    for direction in DIRECTIONS:
        values = [evolution.free_entropy(point.q + 1e-3 * k * direction, point.qhat, 0.6) for k in OFFSETS]
        assert STENCIL @ values / 1e-3 == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize(
    "channel", [SignHeads(2, 2), SignHeads(2, 3), SignHeads(2, 2, noise=0.5), SoftmaxHeads(2.0, 0.05)]
)
def test_signal_by_monte_carlo(channel):
    """2 E sum D g g^T from sampled outputs and the gradient that AMP uses: the Nishimori property, within 4 s.e."""
    heads, rng = channel.heads, np.random.default_rng(5)
    flat = np.full((heads, heads), 1 / heads)
    q = 0.6 * flat + 0.25 * (np.eye(heads) - flat)
    spread = np.eye(heads) - q
    if heads == 3:
        q = 0.6 * flat
        spread = np.eye(3) - q
    samples, pairs = 1500, channel.pairs
    scale = np.sqrt(channel.multiplicity)

    def draw(matrix):
        values, vectors = np.linalg.eigh(matrix)
        z = rng.standard_normal((samples, heads, pairs))
        return np.einsum("kl,nlp->nkp", vectors * np.sqrt(np.maximum(values, 0)), z) * scale

    omega = draw(q)
    g = channel.gradient(channel.sample(omega + draw(spread), rng), omega, spread)
    terms = 2 * np.einsum("p,nkp,nlp->nkl", channel.multiplicity, g, g)
    error = terms.std(axis=0) / math.sqrt(samples)
    expected = channel.signal_matrix(q, spread)
    assert np.all(np.abs(terms.mean(axis=0) - expected.value) < 4 * error + expected.error)


def test_orthants_by_a_common_factor():
    """K >= 3: equal to bivariate orthants at K = 2, and to arcsines at u = 0."""
    u = np.random.default_rng(0).normal(size=(40, 2)) * 2
    for c in (-0.8, -0.2, 0.5):
        for one, other in zip(_count_two(u, c), _count_by_factor(u, c), strict=True):
            assert np.abs(one - other).max() < 1e-13
    p, _ = _count_by_factor(np.zeros((1, 3)), -0.3)
    assert p[0, 3] == pytest.approx(1 / 8 + 3 * math.asin(-0.3) / (4 * math.pi), rel=1e-12)
    with pytest.raises(NumericsError, match=r"-1/\(K - 1\)"):
        _count_by_factor(np.zeros((1, 3)), -0.499)


def test_general_channel_in_whitened_coordinates():
    """The softmax pair, written as a general channel, at errors that are not diagonal."""
    channel = SoftmaxHeads(2.0, 0.1)
    q = np.array([[0.4, 0.25], [0.25, 0.4]])
    coupled = channel._coupled
    assert isinstance(coupled, CoupledChannel)
    assert coupled.signal_matrix(q, np.eye(2) - q).value == pytest.approx(
        channel.signal_matrix(q, np.eye(2) - q).value, abs=1e-7
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointPrior([GOE(1)], covariance=[[1.0]]), "either priors or the covariance"),
        (lambda: JointPrior(covariance=[[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: JointPrior([GOE(1)]).error_matrix([[-1.0]]), "positive semidefinite"),
        (lambda: JointPrior([GOE(1)]).error_matrix(np.eye(2)), r"shape \(1, 1\)"),
        (lambda: LinearHeads(2, [[1.0, 1.0], [1.0, 1.0]]), "linearly independent"),
        (lambda: LinearHeads(2, [[1.0]], -1.0), "noise = -1.0"),
        (lambda: SignHeads(2, 1), "heads = 1"),
        (lambda: SignHeads(2, 2, math.nan), "noise = nan"),
        (lambda: SignHeads(2, 2).signal_matrix(np.eye(2), -np.eye(2)), "positive definite"),
        (lambda: SignHeads(2, 3).signal_matrix(np.zeros((3, 3)), TRIDIAGONAL), "must be equal"),
        (lambda: SoftmaxHeads(1.0, 1e-5), "noise = 1e-05"),
        (lambda: SoftmaxHeads(1.0, 0.1, tokens=3), "tokens = 3"),
        (lambda: MultiIndexStateEvolution([GOE(1)], SignHeads(2, 2)), "sees 2 matrices"),
        (lambda: MultiIndexStateEvolution([GOE(1)], "sign"), "must be a JointChannel"),
        (lambda: MultiIndexStateEvolution([GOE(1)] * 2, SignHeads(2, 2)).solve(-1.0), "alpha = -1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
