"""Hardmax of three tokens and more: answers, posteriors, couplings of rows, and the table between its exact ends."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from aimtheory.bayes import HardmaxChannel, SoftmaxChannel, pair_multiplicity
from aimtheory.bayes.hardmax_chain import answer_chain, chain_moments, height_tables, possible_answers
from aimtheory.bayes.hardmax_coupling import (
    answer_entropy,
    coupling_of_all_answers,
    exact_coupling,
    sampled_coupling,
    shared_products,
)
from aimtheory.bayes.hardmax_forest import all_rows, forest_moments
from aimtheory.bayes.hardmax_means import draw_means
from aimtheory.bayes.hardmax_rows import (
    boundary_signal,
    row_excess,
    row_posterior,
    tie_sum,
    tie_sum_mean,
    uniform_points,
)
from aimtheory.bayes.token_pairs import pair_index
from aimtheory.errors import InputError


def chained(tokens, omega, scale, answers=None, cells=96):
    tables = height_tables(omega, scale, tokens, cells)
    every = possible_answers(tokens) if answers is None else answers
    return {answer: chain_moments(answer_chain(answer), tables, omega, scale) for answer in every}


@pytest.mark.parametrize(("tokens", "kinds"), [(2, 4), (3, 25), (4, 218)])
def test_possible_answers_have_total_probability_one(tokens, kinds):
    assert len(possible_answers(tokens)) == kinds
    scale = np.sqrt(pair_multiplicity(tokens))
    omega = 2 * np.random.default_rng(tokens).standard_normal((4, len(scale)))
    found = chained(tokens, omega, scale)
    assert np.sum([z for z, _ in found.values()], axis=0) == pytest.approx(1, abs=1e-6)
    # The probabilities sum to 1, so their derivatives sum to 0.
    assert np.sum([slope for _, slope in found.values()], axis=0) == pytest.approx(0, abs=1e-5)


def test_two_tokens_are_orthants():
    channel = HardmaxChannel(2)
    omega = np.random.default_rng(0).standard_normal((5, 3))
    scale = np.sqrt(0.6 * channel.multiplicity)
    for answer, (z, slope) in chained(2, omega, scale).items():
        outputs = np.tile(answer, (5, 1))
        assert np.log(z) == pytest.approx(channel.log_partition(outputs, omega, 0.6), rel=1e-5)
        assert slope / z[:, None] == pytest.approx(channel.gradient(outputs, omega, 0.6), abs=1e-5)


def test_answers_by_counting():
    """Probabilities of all answers of three tokens against frequencies of sampled forms, 4.5 standard errors."""
    channel = HardmaxChannel(3)
    rng = np.random.default_rng(5)
    omega = 0.8 * rng.standard_normal((1, 6))
    scale = np.sqrt(0.7 * channel.multiplicity)
    answers = channel.sample(omega + scale * rng.standard_normal((50000, 6)))
    kinds, counts = np.unique(answers, axis=0, return_counts=True)
    found = chained(3, omega, scale)
    for kind, count in zip(kinds, counts, strict=True):
        probability = float(found[tuple(kind.tolist())][0][0])
        assert abs(count / 50000 - probability) < 4.5 * math.sqrt(probability / 50000) + 1e-5
    assert answer_chain((1, 2, 0)) is None


@pytest.mark.parametrize("tokens", [3, 4])
def test_gradient_is_the_derivative_of_log_partition(tokens):
    channel = HardmaxChannel(tokens)
    rng = np.random.default_rng(tokens)
    omega = rng.standard_normal((3, channel.pairs))
    outputs = channel.sample(omega + np.sqrt(0.6 * channel.multiplicity) * rng.standard_normal(omega.shape))
    gradient = channel.gradient(outputs, omega, 0.6)
    assert gradient.sum(axis=1) == pytest.approx(0, abs=1e-5)
    step = 0.02
    for pair in range(channel.pairs):
        shift = np.zeros(channel.pairs)
        shift[pair] = step
        up, down = (channel.log_partition(outputs, omega + s * shift, 0.6) for s in (1, -1))
        assert gradient[:, pair] == pytest.approx((up - down) / (2 * step), abs=2e-4)


@pytest.mark.parametrize("tokens", [3, 5])
def test_the_forest_agrees_with_the_chain(tokens):
    """Sampling over the winners against the exact chain, answers of every shape, at four standard errors."""
    rng = np.random.default_rng(1)
    scale = np.sqrt(pair_multiplicity(tokens))
    omega = 0.7 * rng.standard_normal((40, len(scale)))
    answers = (omega + scale * rng.standard_normal(omega.shape))[:, pair_index(tokens)].argmax(axis=2)
    parts = 16
    points = np.concatenate([uniform_points(tokens, 128, k).T for k in range(parts)], axis=1)
    z, moment = forest_moments(answers, omega, scale, all_rows(omega, scale, tokens), points, parts)
    for row, answer in enumerate(answers):
        exact, slope = chained(tokens, omega[row : row + 1], scale, [tuple(answer.tolist())])[tuple(answer.tolist())]
        for seen, expected in ((z[:, row], exact[0]), (moment[:, row] / scale, slope[0])):
            error = seen.std(axis=0, ddof=1) / math.sqrt(parts)
            assert np.all(np.abs(seen.mean(axis=0) - expected) < 5.5 * error + 1e-5)


def test_rows_by_counting():
    omega, scale = np.array([[0.3, -0.2, 0.5, 0.1]]), np.sqrt([2.0, 1, 1, 1])
    row = row_posterior(omega, scale)
    rng = np.random.default_rng(3)
    z = rng.standard_normal((100000, 4))
    winner = (omega + scale * z).argmax(axis=1)
    for answer in range(4):
        mine = winner == answer
        assert mine.mean() == pytest.approx(row.probability[0, answer], abs=4.5 * 0.5 / math.sqrt(100000))
        mean = z[mine].mean(axis=0) / scale
        assert mean == pytest.approx(row.gradient[0, answer], abs=4.5 / math.sqrt(mine.sum()))


@pytest.mark.parametrize("tokens", [2, 3, 5])
@pytest.mark.parametrize("ratio", [0.0, 0.7, 20.0])
def test_mean_of_the_tie_sum(tokens, ratio):
    """Its product of one-dimensional integrals against sampled means; at T = 2 it is the whole information."""
    multiplicity = np.ones(tokens)
    multiplicity[0] = 2
    omega = np.sqrt(ratio * multiplicity) * np.random.default_rng(2).standard_normal((100000, tokens))
    sums = tie_sum(omega, multiplicity, multiplicity)
    exact = tie_sum_mean(ratio * multiplicity, multiplicity, multiplicity)
    assert abs(sums.mean() - exact) < 4 * sums.std() / math.sqrt(len(sums)) + 1e-9
    if tokens == 2:
        rows = row_posterior(omega[:200], np.sqrt(multiplicity)).information(multiplicity)
        assert rows == pytest.approx(sums[:200], abs=1e-7)
        assert row_excess(2, ratio, 64, 0) == pytest.approx(0, abs=1e-7)


def test_two_tokens_by_rows_and_coupling():
    """G = T E R - E Delta at T = 2, where G is known by quadrature."""
    for ratio in (0.0, 0.5, 8.0):
        multiplicity = np.array([2.0, 1.0])
        rows = 2 * tie_sum_mean(ratio * multiplicity, multiplicity, multiplicity)
        values = [exact_coupling(2, ratio, 256, seed, 64) for seed in range(4)]
        exact = float(HardmaxChannel(2).direct(ratio).value)
        assert abs(rows - np.mean(values) - exact) < 6 * np.std(values, ddof=1) / 2 + 2e-6


def test_weights_of_the_double_ties():
    """Shrunk gaps, weighted, keep the means of symmetric functions: here of 1 and of how many gaps are small."""
    for tokens in (3, 5):
        index = pair_index(tokens)
        omega, weight, _ = draw_means(tokens, 40.0, 1024, 1)
        plain = np.sqrt(40 * pair_multiplicity(tokens)) * np.random.default_rng(0).standard_normal(omega.shape)

        def close(means, index=index):
            top = np.sort(means[:, index], axis=2)
            return (top[:, :, -1] - top[:, :, -2] < 2).sum(axis=1).astype(float)

        assert weight.mean() == pytest.approx(1, abs=0.02)
        value, expected = weight * close(omega), close(plain)
        error = math.hypot(value.std(), expected.std()) / math.sqrt(len(omega))
        assert abs(value.mean() - expected.mean()) < 4 * error


def test_shared_products_by_sampling():
    """E of the products of two rows' posterior means at their common form, over sampled answers."""
    scale = np.sqrt(pair_multiplicity(3))
    omega = np.random.default_rng(1).standard_normal((1, 6)) * scale
    rows = all_rows(omega, scale, 3)
    index = pair_index(3)
    forms = omega + scale * np.random.default_rng(0).standard_normal((50000, 6))
    answers = forms[:, index].argmax(axis=2)
    mean = rows.gradient[0] * scale[index][:, None, :]
    products = sum(
        mean[a, answers[:, a], b] * mean[b, answers[:, b], a] for a, b in itertools.permutations(range(3), 2)
    )
    expected = float(shared_products(omega, scale, rows)[0])
    assert abs(products.mean() - expected) < 4 * products.std() / math.sqrt(len(products)) + 2e-4


@pytest.mark.parametrize("ratio", [0.3, 6.0])
def test_sampled_and_exact_coupling_agree(ratio):
    exact = [exact_coupling(3, ratio, 16, seed, 64) for seed in range(6)]
    sampled = [sampled_coupling(3, ratio, 256, seed, 8) for seed in range(6)]
    error = math.hypot(np.std(exact, ddof=1), np.std(sampled, ddof=1)) / math.sqrt(6)
    assert abs(np.mean(exact) - np.mean(sampled)) < 4.5 * error + 3e-3 * np.mean(exact)


def test_small_variance_for_any_number_of_tokens():
    """T = 2: the quadrature's limit; T = 3: the tie probabilities counted among sampled forms, 4.5 standard errors."""
    assert boundary_signal(2) == pytest.approx(float(HardmaxChannel(2).table.signal(np.array(1e16)) * 1e8), rel=1e-7)
    forms = np.sqrt(pair_multiplicity(3)) * np.random.default_rng(0).standard_normal((200000, 6))
    matrices = SoftmaxChannel(3).sample(forms)
    top = np.sort(np.log(matrices), axis=-1)
    gaps = top[..., 2] - top[..., 1]
    which = np.argsort(matrices, axis=-1)
    width = 0.05
    total, square = 0.0, 0.0
    for row in range(3):
        # Density of the gap at 0, weighted by the standard deviation of the difference of the two forms.
        diagonal = (which[:, row, 1:] == row).any(axis=1)
        term = np.where(gaps[:, row] < width, np.sqrt(np.where(diagonal, 3.0, 2.0)) / width, 0.0)
        total += term.mean()
        square += term.var() / len(term)
    k = np.linspace(-12, 12, 4001)
    integral = np.sum(np.exp(-(k**2) - np.log(2 * np.pi) - log_ndtr(k))) * (k[1] - k[0])
    # A tie has two sides; the density of the gap is that of |difference|, twice the density of the difference.
    estimate = 2 * integral * total
    assert abs(estimate - boundary_signal(3)) < 4.5 * 2 * integral * math.sqrt(square) + 0.01 * estimate


def test_entropy_of_the_answers_by_counting():
    answers = HardmaxChannel(3).sample(
        np.sqrt(pair_multiplicity(3)) * np.random.default_rng(0).standard_normal((50000, 6))
    )
    share = np.unique(answers, axis=0, return_counts=True)[1] / 50000
    assert -(share * np.log(share)).sum() == pytest.approx(answer_entropy(3), abs=5e-3)


def monte_carlo_signal(tokens, ratio, count, seed, cells=64):
    """G(r) = sum of rows minus coupling at plainly sampled means: no table, no fit, no importance sampling."""
    multiplicity = pair_multiplicity(tokens)
    scale = np.sqrt(multiplicity)
    omega = math.sqrt(ratio) * scale * np.random.default_rng(seed).standard_normal((count, len(scale)))
    terms = []
    for part in np.array_split(omega, max(1, count // 200)):
        rows = all_rows(part, scale, tokens).information(multiplicity[pair_index(tokens)][:, None, :]).sum(axis=1)
        terms.append(rows - coupling_of_all_answers(part, scale, tokens, cells))
    terms = np.concatenate(terms)
    return terms.mean(), terms.std() / math.sqrt(count)


def test_table_of_three_tokens_by_monte_carlo():
    """A table of few points, within its error and four standard errors of plain Monte Carlo; exact ends."""
    channel = HardmaxChannel(3, points=4)
    table = channel.table
    assert float(table.signal(np.array(1e14)) * 1e7) == pytest.approx(boundary_signal(3), rel=1e-5)
    scale = np.sqrt(pair_multiplicity(3))
    start = sum(
        2 * float((slope[0] ** 2 * scale**2).sum() / z[0]) for z, slope in chained(3, np.zeros((1, 6)), scale).values()
    )
    assert float(table.signal(np.array(0.0))) == pytest.approx(start, rel=1e-5)
    assert float(table.entropy(np.array(0.0))) == pytest.approx(-answer_entropy(3), rel=1e-6)
    for ratio in (0.5, 5.0):
        value, error = monte_carlo_signal(3, ratio, 400, 3)
        found = float(table.signal(np.array(ratio)))
        assert abs(value - found) < 4 * error + table.relative_error * found


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "stated"), [(3, 6e-4), (4, 3e-3)])
def test_tables_agree_with_other_points(tokens, stated):
    """Two seeds differ by no more than their stated errors, which are small."""
    one, two = HardmaxChannel(tokens).table, HardmaxChannel(tokens, seed=1234).table
    assert max(one.relative_error, two.relative_error) < stated
    ratio = np.array([0.02, 0.1, 0.5, 1, 3, 10, 40, 200, 2e3])
    difference = np.abs(one.signal(ratio) / two.signal(ratio) - 1)
    assert np.all(difference < math.hypot(one.relative_error, two.relative_error))


def test_matrix_noise_acts_like_variance():
    """h + noise of variances Delta (1 + delta_ab) given omega is N(omega, D (V + Delta)): G(q/(V + Delta))/(V +
    Delta)."""
    noisy, clean = HardmaxChannel(2, matrix_noise=0.3), HardmaxChannel(2)
    assert float(noisy.signal(0.5, 0.2).value) == float(clean.signal(0.5, 0.5).value)
    assert float(noisy.psi_out(0.5, 0.7).value) == pytest.approx(float(clean.psi_out(0.5, 1.0).value), rel=1e-15)
    assert (
        HardmaxChannel(3, noise=0.3 * (np.ones((3, 3)) + np.eye(3))).noise == HardmaxChannel(3, matrix_noise=0.3).noise
    )
    assert float(noisy.uninformed_signal()) == pytest.approx(float(noisy.signal(0.0, 1.0).value), rel=1e-12)


def test_bad_input_is_named():
    for make, message in (
        (lambda: HardmaxChannel(tokens=17), "above 16"),
        (lambda: HardmaxChannel(3, noise=0.3), "proportional"),
        (lambda: HardmaxChannel(3, flips=0.1), "T = 2"),
        (lambda: HardmaxChannel(2, flips=0.5), "flips"),
        (lambda: HardmaxChannel(2, flips=-0.1), "flips"),
        (lambda: HardmaxChannel(2, noise=float("nan")), "noise"),
        (lambda: HardmaxChannel(2, matrix_noise=-1.0), "matrix_noise variance -1.0"),
        (lambda: HardmaxChannel(3, points=100), "power of two"),
        (lambda: HardmaxChannel(2, flips=0.1).sample(np.zeros((1, 3))), "Generator"),
        (lambda: HardmaxChannel(3).gradient(np.array([[1, 2, 0]]), np.zeros((1, 6)), 1.0), "impossible"),
        (lambda: HardmaxChannel(5).gradient(np.array([[1, 2, 0, 0, 0]]), np.zeros((1, 15)), 1.0), "impossible"),
    ):
        with pytest.raises(InputError, match=message):
            make()
