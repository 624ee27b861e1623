"""Matrix-free AMP: its linear maps against explicit sensing matrices, one iteration against the formulas written out,
its statistics against state evolution, its memory, and what it says when it fails."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SoftmaxChannel,
    StateEvolution,
    make_prior,
    token_pairs,
)
from aimtheory.errors import InputError
from aimtheory.simulate import AmpState, TokenBlocks, amp, teacher_data
from aimtheory.simulate.pair_forms import pair_forms, weighted_outer_sum
from aimtheory.spectra import GOE, Atomic, bayes_wishart, denoise_matrix


def sensing_matrices(tokens):
    """X_ab = sym(x_a x_b^T - delta_ab 1)/sqrt(d) of tokens (n, T, d), shape (n, P, d, d): what AMP must not build."""
    dim = tokens.shape[2]
    outer = np.einsum("nai,nbj->nabij", tokens, tokens)
    outer = (outer + outer.transpose(0, 1, 2, 4, 3)) / 2
    return np.stack(
        [(outer[:, a, b] - (a == b) * np.eye(dim)) / math.sqrt(dim) for a, b in token_pairs(tokens.shape[1])], axis=1
    )


@given(st.integers(2, 4), st.integers(1, 5), st.integers(2, 6), st.integers(0, 10**6))
def test_forms_and_their_adjoint_are_those_of_the_sensing_matrices(tokens, samples, dim, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, tokens, dim))
    matrix = rng.standard_normal((dim, dim))
    matrix = matrix + matrix.T
    weights = rng.standard_normal((samples, tokens * (tokens + 1) // 2))
    sensing = sensing_matrices(x)
    block = x.transpose(1, 0, 2)
    np.testing.assert_allclose(pair_forms(block, matrix), np.einsum("npij,ij->np", sensing, matrix), atol=1e-11)
    diagonal = [place for place, (a, b) in enumerate(token_pairs(tokens)) if a == b]
    adjoint = weighted_outer_sum(block, weights) - weights[:, diagonal].sum() * np.eye(dim)
    expected = np.einsum("np,npij->ij", weights, sensing) * math.sqrt(dim)
    np.testing.assert_allclose(adjoint, expected, atol=1e-11)
    # <g, forms(M)> = <adjoint(g), M>: the two maps are adjoint whatever the scales.
    assert np.vdot(weights, pair_forms(block, matrix)) * math.sqrt(dim) == pytest.approx(np.vdot(adjoint, matrix))


@pytest.mark.parametrize(
    "channel",
    [SoftmaxChannel(3, 1.7), LinearChannel(2, noise=0.3), SignChannel(2, thresholds=0.2), HardmaxChannel(2)],
    ids=lambda channel: channel.name,
)
def test_iterations_are_the_equations_written_with_sensing_matrices(channel):
    """Three iterations with damping, from dense arrays and g = d log Z/d omega by finite differences of log Z."""
    dim, alpha, damping = 14, 0.4, 0.3
    prior = make_prior("1/2")
    data = teacher_data(channel, [prior], alpha=alpha, dim=dim, seed=np.random.SeedSequence(5))
    state = AmpState(channel, [prior], data.tokens, data.outputs, damping)
    x = np.concatenate([block.transpose(1, 0, 2) for _, block in data.tokens])
    sensing = sensing_matrices(x)
    multiplicity = np.array([1.0 + (a == b) for a, b in token_pairs(channel.tokens)])

    def slope(omega, variance):
        step = 1e-5 * math.sqrt(variance)
        g = np.empty_like(omega)
        for p in range(channel.pairs):
            shift = step * (np.arange(channel.pairs) == p)
            up, down = (channel.log_partition(data.outputs, omega + s * shift, variance) for s in (1, -1))
            g[:, p] = (up - down) / (2 * step)
        return g

    estimate, variance = prior.mean * np.eye(dim), prior.second_moment - prior.mean_square
    used, omega, g = variance, None, 0.0
    for _ in range(3):
        fresh = np.einsum("npij,ij->np", sensing, estimate) - multiplicity * variance * g
        used = variance if omega is None else damping * used + (1 - damping) * variance
        omega = fresh if omega is None else damping * omega + (1 - damping) * fresh
        g = slope(omega, used)
        qhat = 2 * (len(x) / dim**2) * (multiplicity * g**2).sum(axis=1).mean()
        observed = estimate + 2 / (dim * qhat) * np.einsum("np,npij->ij", g, sensing)
        estimate, variance = denoise_matrix(prior.law, qhat, observed), float(prior.mmse(qhat))
        assert state.step()
        assert state.qhat[0] == pytest.approx(qhat, rel=1e-6)
        np.testing.assert_allclose(state.estimates[0], estimate, atol=1e-5)


def test_tokens_are_the_same_kept_or_drawn_anew():
    """And so are the runs, whatever the block size; float32 agrees to its precision."""
    options = {"width": 0.5, "alpha": 0.3, "dim": 30, "seed": 3, "iterations": 5, "predict": False}
    kept, anew = amp("sign", **options), amp("sign", memory_limit=0, **options)
    np.testing.assert_array_equal(kept.values["mse"], anew.values["mse"])
    single = amp("sign", dtype="float32", **options)
    assert single.dtype == "float32"
    x = TokenBlocks(4, 2, 5, "float64", np.random.SeedSequence(0), memory_limit=0)
    assert not x.kept
    np.testing.assert_array_equal(next(iter(x))[1], next(iter(x))[1])
    given_tokens = np.random.default_rng(0).standard_normal((7, 2, 4))
    (rows, block), *rest = TokenBlocks.of(given_tokens)
    assert rows == slice(0, 7)
    assert not rest
    np.testing.assert_array_equal(block.transpose(1, 0, 2), given_tokens)


def test_tokens_and_outputs_have_the_law_of_the_model():
    """Var h_ab = (1 + delta_ab) tr S^2 over samples, at 5 standard errors of a variance (chi-squared)."""
    channel = LinearChannel(2)
    data = teacher_data(channel, [make_prior(1)], alpha=20, dim=40, seed=np.random.SeedSequence(1))
    second = (data.teachers[0] ** 2).sum() / 40
    measured = data.outputs.var(axis=0) / (channel.multiplicity * second)
    assert np.all(np.abs(measured - 1) < 5 * math.sqrt(2 / data.samples) * 2)  # heavy tails at d = 40: a factor 2
    assert np.all(np.abs(data.outputs.mean(axis=0)) < 5 * np.sqrt(2 * second / data.samples))


def test_undamped_overlaps_follow_state_evolution_step_by_step():
    """Sign channel, n/d = 48: m, q and the MSE of four iterations; the O(1/d) bias is about 3% at d = 80."""
    run = amp("sign", width=0.5, alpha=0.6, dim=80, seeds=range(4), damping=0.0, iterations=4, tolerance=1e-12)
    rows = StateEvolution(bayes_wishart(0.5), SignChannel(2)).iterate(run.alpha, 4)
    np.testing.assert_allclose(run.predicted["overlap"], rows[:, 0], rtol=1e-12)
    np.testing.assert_allclose(run.predicted["qhat"][1:], rows[:-1, 2], rtol=1e-12)
    np.testing.assert_allclose(run["overlap"], rows[:, 0], rtol=0.05)
    np.testing.assert_allclose(run["self_overlap"], rows[:, 0], rtol=0.05)
    np.testing.assert_allclose(run["mse"], rows[:, 1], rtol=0.08)
    # Nishimori: tr(S S_hat) = tr(S_hat^2) up to fluctuations and bias O(1/d).
    assert np.abs(run.nishimori_gap).max() < 10 / run.dim


def test_goe_prior_and_linear_channel_is_ridge_regression():
    """All Gaussian: AMP's fixed point is the posterior mean, here by a dense linear solve of its own.

    h = <X, S> with a GOE prior of unit variance and noise Delta: E[S | y] = sum lambda_i X_i with
    (K + Delta) lambda = y, K_ij = Cov(h_i, h_j) = 2 <X_i, X_j>/d for symmetric X.
    """
    dim, noise = 24, 0.5
    channel = LinearChannel(2, noise=noise)
    prior = make_prior(prior=GOE(1))
    data = teacher_data(channel, [prior], alpha=0.5, dim=dim, seed=np.random.SeedSequence(2))
    state = AmpState(channel, [prior], data.tokens, data.outputs, damping=0.3)
    for _ in range(150):
        assert state.step()
    x = np.concatenate([block.transpose(1, 0, 2) for _, block in data.tokens])
    sensing = sensing_matrices(x).reshape(-1, dim * dim)
    covariance = sensing @ sensing.T * (2 / dim)
    weights = np.linalg.solve(covariance + noise * np.eye(len(covariance)), data.outputs.ravel())
    posterior = (2 / dim) * (weights @ sensing).reshape(dim, dim)
    distance = ((state.estimates[0] - posterior) ** 2).sum() / dim
    error = ((data.teachers[0] - posterior) ** 2).sum() / dim
    assert distance < 0.03 * error
    assert float(state.variance[0]) == pytest.approx(error, rel=0.2)


@pytest.mark.parametrize(
    ("channel", "options"), [("softmax", {"tokens": 3}), ("linear", {"noise": 0.2}), ("hardmax", {})]
)
def test_error_is_near_the_bayes_optimal_one(channel, options):
    """Small d, so only near: 10% + 4 standard errors. The precise comparison is among the slow tests."""
    alpha = 0.06 if channel == "softmax" else 0.5
    run = amp(channel, width=1, alpha=alpha, dim=50, seeds=range(4), iterations=50, **options)
    assert "diverged" not in run.seed_status
    assert abs(run.mse - run.theory) < 0.1 * run.theory + 4 * run.mse_error
    assert run.theory == StateEvolution(bayes_wishart(1), run.channel).solve(run.alpha, "uninformed").mmse


def test_several_matrices_have_each_their_own_iteration():
    """y = sign(h1_12 + 2 h2_12): two iterations for two priors against the equations with sensing matrices."""
    channel = GeneralChannel(
        2,
        lambda y, u: np.log(np.where(y[..., 0] * (u[..., 0, 0] + 2 * u[..., 1, 0]) > 0, 1.0, 1e-300)),
        outputs=[[-1.0], [1.0]],
        directions=[[0.0, 1.0, 0.0]],
        count=2,
    )
    dim = 8
    priors = [make_prior(0.5), make_prior(2)]
    data = teacher_data(channel, priors, alpha=0.4, dim=dim, seed=np.random.SeedSequence(0))
    state = AmpState(channel, priors, data.tokens, data.outputs)
    x = np.concatenate([block.transpose(1, 0, 2) for _, block in data.tokens])
    sensing = sensing_matrices(x)
    estimates = np.array([prior.mean * np.eye(dim) for prior in priors])
    variance = np.array([prior.second_moment - prior.mean_square for prior in priors])
    g = np.zeros((len(x), 2, 3))
    for _ in range(2):
        omega = np.einsum("npij,kij->nkp", sensing, estimates) - channel.multiplicity * variance[:, None] * g
        g = channel.gradient(data.outputs, omega, variance)
        qhat = 2 * (len(x) / dim**2) * (channel.multiplicity * g**2).sum(axis=2).mean(axis=0)
        observed = estimates + 2 / (dim * qhat[:, None, None]) * np.einsum("nkp,npij->kij", g, sensing)
        estimates = np.array([denoise_matrix(p.law, q, r) for p, q, r in zip(priors, qhat, observed, strict=True)])
        variance = np.array([float(prior.mmse(q)) for prior, q in zip(priors, qhat, strict=True)])
        assert state.step()
        np.testing.assert_allclose(state.qhat, qhat, rtol=1e-10)
        np.testing.assert_allclose(state.estimates, estimates, atol=1e-9)
    assert {name: value.shape for name, value in state.measure(data.teachers).items()}["mse"] == (2,)


def test_other_priors_are_learned_too():
    prior = Atomic([-1, 1], ["1/2", "1/2"])
    run = amp("linear", prior=prior, noise=0.5, alpha=0.4, dim=40, seeds=[0, 1], iterations=20)
    assert abs(run.mse - run.theory) < 0.15 * run.theory + 4 * run.mse_error


def test_a_channel_that_says_nothing_leaves_the_prior_mean():
    """An output of pure noise: qhat is 0 up to rounding of an exact zero, the error stays the prior's."""
    blind = GeneralChannel(
        2,
        lambda y, u: np.log(0.5) + 0 * (y[..., 0] + u[..., 0]),
        outputs=[[-1.0], [1.0]],
        directions=[[0.0, 1.0, 0.0]],
    )
    run = amp(blind, width=0.5, alpha=0.5, dim=20, iterations=3, predict=False)
    np.testing.assert_allclose(run.final("variance"), 1.0, rtol=1e-6)


def test_same_seed_same_numbers_and_statistics_over_seeds():
    run = amp("sign", width=0.5, alpha=0.5, dim=20, seeds=[4, 7, 9], iterations=4, predict=False)
    one = amp("sign", width=0.5, alpha=0.5, dim=20, seed=7, iterations=4, predict=False)
    np.testing.assert_array_equal(run.values["mse"][1], one.values["mse"][0])
    last = run.values["mse"][:, -1]
    assert run.mse == pytest.approx(last.mean())
    assert run.mse_error == pytest.approx(last.std(ddof=1) / math.sqrt(3))
    assert math.isnan(one.mse_error)
    assert len(run.estimates) == len(run.teachers) == 3
    assert run.final("mse")[2] == pytest.approx(((run.estimates[2] - run.teachers[2]) ** 2).sum() / 20)


def test_what_did_not_converge_says_so():
    run = amp("softmax", width=0.5, alpha=0.1, dim=40, iterations=3, predict=False)
    assert run.status.code == "not converged"
    assert not run.status.ok
    assert run.values["change"][0, -1] > run.tolerance


def test_a_collapse_onto_a_wrong_matrix_is_not_called_recovery():
    """Undamped softmax at n/d = 5.4 falls for matrices that fit the data: V -> 0 with a large error.

    Counting says that this cannot be recovery: 10 alpha = 0.9 (0.3 here) combinations against 0.51 parameters.
    """
    run = amp("softmax", tokens=3, width=0.3, alpha=0.03, dim=60, seeds=range(6), damping=0.0, predict=False)
    collapsed = [k for k in range(6) if run.final("variance")[k] < 1e-20]
    assert collapsed
    assert all(run.final("mse")[k] > 0.2 and run.seed_status[k] == "not converged" for k in collapsed)
    assert any("collapsed" in note for note in run.status.notes)


def test_interruption_keeps_what_was_reached():
    calls = []

    def interrupt(done, total):
        calls.append((done, total))
        if len(calls) == 12:
            raise KeyboardInterrupt

    run = amp("sign", width=0.5, alpha=0.5, dim=20, seeds=[0, 1, 2], iterations=8, tolerance=1e-14, progress=interrupt)
    assert run.status.code == "interrupted"
    assert calls[-1] == (12, 24)
    assert run.iterations.tolist() == [8, 4, 0]
    assert np.isfinite(run.values["mse"][0]).all()
    assert np.isfinite(run.values["mse"][1, :5]).all()
    assert np.isnan(run.values["mse"][1, 5:]).all()
    assert np.isfinite(run["mse"]).all()


def peak(dim, alpha):
    tracemalloc.start()
    amp("linear", width=0.5, alpha=alpha, noise=0.1, dim=dim, iterations=2, predict=False)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_memory_is_that_of_the_tokens():
    """Doubling n at fixed d adds n T d numbers and O(n) more; n d^2 would add 50 times as much."""
    dim = 100
    amp("linear", width=0.5, alpha=0.1, noise=0.1, dim=20, iterations=1, predict=False)
    small, large = peak(dim, 3.0), peak(dim, 6.0)
    tokens = 3.0 * dim**2 * 2 * dim * 8
    assert 0.9 * tokens < large - small < 1.4 * tokens
    without = TokenBlocks(dim, 2, 60000, "float64", np.random.SeedSequence(0), memory_limit=0)
    tracemalloc.start()
    for _ in without:
        pass
    drawn = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert drawn < 0.3 * 60000 * 2 * dim * 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": -1}, "width = -1"),
        ({"width": 0}, "width > 0"),
        ({"width": None, "prior": [GOE(1), GOE(1)]}, "1 matrices, but 2 priors"),
        ({"alpha": -0.1}, "alpha = -0.1"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"alpha": 1e-9}, "no sample"),
        ({"dim": 1}, "dim = 1"),
        ({"tokens": 1}, "tokens = 1"),
        ({"damping": 1.0}, "damping = 1.0"),
        ({"damping": "x"}, "damping = 'x'"),
        ({"iterations": 0}, "iterations = 0"),
        ({"tolerance": 0}, "tolerance = 0"),
        ({"dtype": "float16"}, "dtype = 'float16'"),
        ({"memory_limit": -1}, "memory_limit = -1"),
        ({"channel": "relu"}, "'relu' is unknown"),
        ({"flips": 0.1}, "options"),
    ],
)
def test_bad_input_is_named(changes, message):
    options = {"channel": "softmax", "tokens": 2, "width": 0.5, "alpha": 0.1, "dim": 20, **changes}
    with pytest.raises(InputError, match=message):
        amp(**options)


def test_bad_data_is_named():
    with pytest.raises(InputError, match="NaN"):
        TokenBlocks.of(np.full((2, 2, 3), np.nan))
    blocks = TokenBlocks.of(np.ones((2, 2, 3)))
    with pytest.raises(InputError, match="3 outputs were given for 2 samples"):
        AmpState(LinearChannel(2), [make_prior(1)], blocks, np.zeros((3, 3)))
    with pytest.raises(InputError, match="2 tokens a sample, the channel 3"):
        AmpState(LinearChannel(3), [make_prior(1)], blocks, np.zeros((2, 6)))


def extrapolated(channel, alpha, width, tokens, seeds):
    """The MSE at 1/d -> 0 with its standard error: weighted least squares of a + b/d over the dimensions."""
    dims = np.array(list(seeds), dtype=float)
    runs = [
        amp(channel, tokens=tokens, width=width, alpha=alpha, dim=int(dim), seeds=range(count))
        for dim, count in seeds.items()
    ]
    assert all("diverged" not in run.seed_status for run in runs)
    means = np.array([run.mse for run in runs])
    weights = 1 / np.array([run.mse_error for run in runs])
    design = np.stack([np.ones(len(dims)), 1 / dims], axis=1) * weights[:, None]
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ (means * weights)
    return runs, float(fitted[0]), float(math.sqrt(inverse[0, 0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "alpha", "width", "tokens"),
    [("softmax", 0.1, 0.5, 2), ("softmax", 0.03, 0.3, 3), ("hardmax", 0.1, 0.5, 2), ("hardmax", 0.31, 0.5, 2)],
)
def test_amp_reaches_the_bayes_optimal_error(channel, alpha, width, tokens):
    """Within 3 standard errors at d = 100 to 200 after the O(1/d) bias, fitted over the two, is taken away."""
    runs, limit, error = extrapolated(channel, alpha, width, tokens, {100: 16, 200: 6})
    theory = runs[0].theory
    assert abs(limit - theory) < 3 * error
    assert abs(runs[-1].mse - theory) < 0.03 * theory + 3 * runs[-1].mse_error
    assert np.all(np.abs(runs[-1].nishimori_gap[:, -1]) < 0.1)


@pytest.mark.slow
def test_hardmax_amp_is_far_below_the_published_curve():
    """alpha = 1.10579, rho = 1/2: published state evolution .2947 (data of arXiv:2506.01582), exact .0670881."""
    run = amp("hardmax", width=0.5, alpha=1.1057884, dim=100, seeds=range(4))
    assert run.theory == pytest.approx(0.0670881, abs=5e-6)  # n is rounded
    assert run.mse < 0.1
    assert run.mse + 20 * run.mse_error < 0.2947
