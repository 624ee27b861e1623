"""Softmax attention of any number of tokens: the table, cubature, finite differences, Monte Carlo, exact limits."""

import numpy as np
import pytest

from aimtheory.errors import InputError
from aimtheory.model.activations import Softmax
from aimtheory.model.losses import CrossEntropy, MeanSquaredError
from aimtheory.model.value_loss import ValueLoss
from aimtheory.population import potential
from aimtheory.population.gumbel_smoothing import COARSE, FINE, Resolution, gumbel_derivatives
from aimtheory.population.row_lengths import RowLengths
from aimtheory.population.softmax_any_length import SoftmaxRows
from aimtheory.population.softmax_overlap import row_overlap
from aimtheory.population.softmax_row import row_averages

Q = np.array([[1.5, 0.7], [0.7, 2.0]])
TABLE = {
    2: 0.27697326242,
    3: 0.46410629249,
    8: 1.0268978933,
    64: 2.5257017270,
    1024: 3.7219593766,
}


def order_parameters(count, seed, scale=0.6):
    rng = np.random.default_rng(seed)
    plus, minus = rng.standard_normal((2, count, count + 2)) * scale
    mean = rng.standard_normal(count) * 0.5
    return mean, (plus @ plus.T + minus @ minus.T) / 2, (plus @ plus.T - minus @ minus.T) / 2


def exchangeable(tokens, variance, covariance):
    return np.full((tokens, tokens), covariance) + (variance - covariance) * np.eye(tokens)


def by_cubature(loss, tokens, covariance):
    phi = potential(loss, tokens, covariance)
    phi.__dict__["_softmax_rows"] = None
    return phi


LOSSES = [
    MeanSquaredError("softmax"),
    MeanSquaredError(Softmax(2), Softmax("1/2")),
    MeanSquaredError("softmax", "softmax", (0, 2), (1,), student_weights=("1/2", "1/2")),
    CrossEntropy(),
    CrossEntropy(Softmax(2), Softmax("1/2"), (0, 2), (1, 3)),
    CrossEntropy(Softmax(), Softmax(), (1,), (0, 2), teacher_weights=("1/3", "2/3")),
]


@pytest.mark.parametrize("tokens", TABLE)
def test_table_of_the_tied_potential(tokens):
    found = potential(MeanSquaredError("softmax"), tokens).tied_value(Q)
    assert found.method == "rows"
    assert found.value == pytest.approx(TABLE[tokens], abs=1e-9)
    assert found.error < 1e-8


@pytest.mark.parametrize("tokens", [2, 3])
def test_overlaps_of_values_are_the_cubature_of_all_forms(tokens):
    """What the overlap of two value matrices multiplies, a head with itself and two heads, at C = 1."""
    mean, q1, q2 = order_parameters(2, 7)
    loss = ValueLoss(Softmax(2), Softmax("1/2"))
    for term in loss.trace_terms():
        found = potential(term, tokens).gradients(mean, q1, q2)
        expected = by_cubature(term, tokens, None).gradients(mean, q1, q2)
        assert (found.method, expected.method) == ("rows", "grid")
        for name in ("mean", "q1", "q2"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9, err_msg=name)
        assert SoftmaxRows.of(term, tokens, exchangeable(tokens, 1.2, 0.2)) is None


def test_values_at_a_thousand_tokens_are_the_squared_error_at_equal_values():
    """With all overlaps of values 1 the value loss is the mean squared error between the attention matrices."""
    mean, q1, q2 = order_parameters(2, 3)
    terms = ValueLoss("softmax").trace_terms()
    total = sum(potential(term, 1024).value(mean, q1, q2).value for term in terms)
    expected = potential(MeanSquaredError("softmax"), 1024).value(mean, q1, q2).value
    assert total == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda v: str(v)[:40])
@pytest.mark.parametrize(("tokens", "law"), [(2, (1.0, 0.0)), (2, (1.3, -0.2)), (3, (1.2, 0.4))])
def test_rows_are_the_cubature_of_all_forms(loss, tokens, law):
    c = exchangeable(tokens, *law)
    mean, q1, q2 = order_parameters(loss.indices, 5)
    phi, reference = potential(loss, tokens, c), by_cubature(loss, tokens, c)
    found, expected = phi.gradients(mean, q1, q2), reference.gradients(mean, q1, q2)
    assert (found.method, expected.method) == ("rows", "grid")
    assert max(found.error, expected.error) < 2e-8
    assert phi.value(mean, q1, q2).value == pytest.approx(reference.value(mean, q1, q2).value, abs=1e-9)
    for name in ("mean", "q1", "q2"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9, err_msg=name)
    np.testing.assert_allclose(phi.mean_hessian(mean, q1, q2), reference.mean_hessian(mean, q1, q2), atol=2e-9)


def test_four_tokens_are_the_cubature():
    phi, reference = potential(MeanSquaredError("softmax"), 4), by_cubature(MeanSquaredError("softmax"), 4, None)
    found, expected = phi.tied_gradient(Q), reference.tied_gradient(Q)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    assert found[1] < 1e-8


@pytest.mark.parametrize("loss", [LOSSES[1], LOSSES[4]], ids=lambda v: str(v)[:40])
@pytest.mark.parametrize("tokens", [64, 100_000])
def test_gradients_are_the_finite_differences_of_the_value(loss, tokens):
    mean, q1, q2 = order_parameters(loss.indices, 7)
    phi, step = potential(loss, tokens), 1e-3
    found = phi.gradients(mean, q1, q2)
    scale = max(1.0, abs(phi.value(mean, q1, q2).value))

    def slope(shift):
        """Fourth order in the step."""
        values = [phi.value(*[x + n * step * s for x, s in zip((mean, q1, q2), shift, strict=True)]).value
                  for n in (-2, -1, 1, 2)]  # fmt: skip
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)

    count = loss.indices
    zero = np.zeros((count, count))
    for k in range(2):
        assert slope((np.eye(count)[k], zero, zero)) == pytest.approx(found.mean[k], abs=1e-8 * scale)
    for k, n in ((0, 0), (1, 0), (1, 1)):
        shift = zero.copy()
        shift[k, n] = shift[n, k] = 1.0
        half = 1.0 if k == n else 0.5
        assert half * slope((0 * mean, shift, zero)) == pytest.approx(found.q1[k, n], abs=1e-8 * scale)
        assert half * slope((0 * mean, zero, shift)) == pytest.approx(found.q2[k, n], abs=1e-8 * scale)


def sampled_rows(mean, q1, q2, tokens, c, rows, rng):
    """Logits (rows, tokens, 2) of one row of the forms, drawn from (4) of [D] without dropping what rows share."""
    k = len(q1)
    total = exchangeable(tokens, 1.0, c)
    own = total[:, 0]
    covariance = np.kron(total, q1) + np.kron(np.outer(own, own), q2)
    values, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = rng.standard_normal((rows, len(factor))) @ factor.T
    return draws.reshape(rows, tokens, k) + own[:, None] * mean


@pytest.mark.parametrize(
    ("tokens", "c", "mean", "overlap", "surprise"),
    [
        (5, 0.4, (0.7, 0.9), 0.248679, 1.646376),
        (3, 0.0, (0.7, -0.4), 0.388565, 1.287444),
        (12, 0.3, (1.0, 0.5), 0.112563, 2.557501),
    ],
)
def test_exchangeable_rows_are_sampled_ones(tokens, c, mean, overlap, surprise):
    q1, q2 = np.array([[1.2, 0.5], [0.5, 0.9]]), np.array([[0.4, 0.1], [0.1, 0.3]])
    covariance = exchangeable(tokens, 1.0, c)
    entropy = potential(CrossEntropy(), tokens, covariance).value(mean, q1, q2).value / tokens
    assert entropy == pytest.approx(surprise, abs=6e-7)
    squares = potential(MeanSquaredError("softmax"), tokens, covariance).value(mean, q1, q2).value / tokens
    diagonal = [
        potential(MeanSquaredError("softmax"), tokens, covariance)
        .value(np.full(2, mean[k]), np.diag([q1[k, k]] * 2), np.diag([q2[k, k]] * 2))
        .value
        for k in range(2)
    ]
    assert np.isfinite(diagonal).all()
    logits = sampled_rows(np.array(mean), q1, q2, tokens, c, 200_000, np.random.default_rng(4))
    p, r = (np.exp(logits[..., k]) / np.exp(logits[..., k]).sum(axis=1, keepdims=True) for k in range(2))
    for sample, exact in (((p - r) ** 2 / 2, squares), (p * r, overlap), (-r * np.log(p), entropy)):
        rows = sample.sum(axis=1)
        assert abs(rows.mean() - exact) < 4 * rows.std() / np.sqrt(len(rows)) + 6e-7


@pytest.mark.slow
def test_a_million_samples_at_64_tokens():
    """Value and score-function gradients of one row, 4 standard errors."""
    rng, tokens, q = np.random.default_rng(8), 64, Q
    phi = potential(MeanSquaredError("softmax"), tokens)
    gradient = phi.tied_gradient(q)[0]
    root, inverse = np.linalg.cholesky(q), np.linalg.inv(q)
    values, scores = [], []
    for _ in range(100):
        whitened = rng.standard_normal((10_000, tokens, 2)) @ root.T
        score = np.einsum("nja,njb->nab", whitened @ inverse, whitened @ inverse) - tokens * inverse
        logits = whitened
        logits[:, 0] *= np.sqrt(2)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        values.append(tokens / 2 * ((probabilities[..., 0] - probabilities[..., 1]) ** 2).sum(axis=1))
        scores.append(score)
    values, scores = np.concatenate(values), np.concatenate(scores)
    deviation = values.std() / 1e3
    assert abs(values.mean() - phi.tied_value(q).value) < 4 * deviation
    terms = 0.5 * (values - values.mean())[:, None, None] * scores
    assert (np.abs(terms.mean(axis=0) - gradient) < 4 * terms.std(axis=0) / 1e3).all()


# Exact values and invariants.


def test_vanishing_forms_have_uniform_attention():
    for tokens in (2, 7, 10**6):
        zero = np.zeros((2, 2))
        assert row_overlap(RowLengths(tokens), zero, zero, np.zeros(2), FINE).value == pytest.approx(1, rel=1e-10)
        found = row_averages(RowLengths(tokens), 0.0, 0.0, 0.0, FINE)
        assert found.square[0] == pytest.approx(1, rel=1e-10)
        assert found.log_partition[0] == pytest.approx(tokens * np.log(tokens), rel=1e-10)
        assert found.own[0] == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize("variance", [0.0, 0.3, 5.0, 400.0, 1e6])
def test_equal_rows_overlap_as_their_square(variance):
    """Two routes: the two-dimensional integral at full correlation, and the one-dimensional one."""
    for tokens in (2, 64, 10**5):
        lengths = RowLengths(tokens)
        full = np.full((2, 2), variance)
        pair = row_overlap(lengths, full, 2 * full, np.zeros(2), FINE)
        single = row_averages(lengths, variance, 2 * variance, 0.0, FINE).square
        assert pair.value == pytest.approx(single[0], rel=1e-8)
        # d/dC_11 + d/dC_12 + d/dC_22 along the line of full correlation, where they nearly cancel.
        assert pair.off.sum() == pytest.approx(single[1], abs=1e-7 * np.abs(pair.off).max())
        assert pair.own.sum() == pytest.approx(single[2], abs=1e-7 * np.abs(pair.own).max())


def test_both_factorizations_agree(monkeypatch):
    import aimtheory.population.softmax_overlap as module

    q = np.array([[1.0, 0.8], [0.8, 1.6]])
    for tokens in (2, 50, 10**6):
        results = []
        for few in (1000, 0):
            monkeypatch.setattr(module, "_FEW_MODES", few)
            found = row_overlap(RowLengths(tokens), q, 1.7 * q, np.array([0.3, -0.2]), FINE, 2)
            results.append(np.concatenate([[found.value], found.off, found.own, found.mean]))
        np.testing.assert_allclose(results[0], results[1], rtol=3e-9, atol=3e-9 * np.abs(results[0]).max())


def test_probabilities_sum_to_one():
    for off, own, mean in ((0.2, 0.3, 0.4), (2.0, 1.0, -3.0), (30.0, 60.0, 5.0)):
        found = row_averages(RowLengths(50), off, own, mean, FINE)
        # E Σ_j σ_j = 1 for each row, and Σ_j σ_j² <= Σ_j σ_j.
        assert 0 < found.own[0] < 50
        assert found.own_square[0] < found.own[0]
        assert found.square[0] < 50


def test_smoothing_derivatives_are_finite_differences():
    points, step = np.linspace(-12, 3, 16), 1e-3
    for variance in (0.01, 1.0, 8.0, 12.0):
        table = gumbel_derivatives(points, variance, 4, Resolution(0.2, 0.2, 1e-15))
        for order in range(1, 4):
            ahead, behind = (
                gumbel_derivatives(points + s, variance, 4, Resolution(0.2, 0.2, 1e-15))[order] for s in (step, -step)
            )
            np.testing.assert_allclose((ahead - behind) / (2 * step), table[order + 1], atol=2e-6)


@pytest.mark.parametrize("resolution", [FINE, COARSE], ids=["fine", "coarse"])
def test_error_is_that_of_a_finer_grid(resolution):
    rng, finest = np.random.default_rng(3), Resolution(0.2, 0.2, 1e-14)
    for _ in range(6):
        a, b = 10 ** rng.uniform(-2, 0.7, 2)
        c = rng.uniform(-0.8, 0.99) * np.sqrt(a * b)
        q = np.array([[a, c], [c, b]])
        tokens = RowLengths(int(10 ** rng.uniform(0.4, 6)))
        found, reference = (row_overlap(tokens, q, 2 * q, np.zeros(2), r) for r in (resolution, finest))
        assert found.value == pytest.approx(reference.value, rel=2e-9 if resolution is FINE else 2e-7)


def test_one_token_is_a_constant():
    for loss in (MeanSquaredError("softmax"), CrossEntropy()):
        phi = potential(loss, 1)
        assert phi.tied_value(Q).value == 0
        assert not phi.tied_gradient(Q)[0].any()


# Where it applies, and bad input.


def test_other_covariances_and_activations_use_the_cubature():
    assert SoftmaxRows.of(MeanSquaredError("softmax"), 3, np.diag([1.0, 1.0, 2.0])) is None
    assert SoftmaxRows.of(MeanSquaredError("softmax", "erf"), 3, None) is None
    # Opposite tokens and skew matrices: the rows' own covariance is no covariance.
    opposite, q = exchangeable(2, 0.75, -0.75), np.eye(2)
    phi = potential(MeanSquaredError("softmax"), 2, opposite)
    assert phi.value(None, q, -q).method == "grid"
    assert phi.value(None, q, q).method == "rows"


@pytest.mark.parametrize("tokens", [0, -3, 2.5, True, None])
def test_bad_token_numbers(tokens):
    with pytest.raises(InputError, match="tokens"):
        potential(MeanSquaredError("softmax"), tokens)
    with pytest.raises(InputError, match="tokens"):
        RowLengths(tokens)


@pytest.mark.parametrize("beta", [np.inf, np.nan, 0, -1])
def test_bad_inverse_temperatures(beta):
    with pytest.raises(InputError, match="inverse_temperature"):
        Softmax(beta)


# Causal masks.


@pytest.mark.parametrize("loss", [MeanSquaredError, CrossEntropy])
@pytest.mark.parametrize("law", [(1.0, 0.0), (1.2, 0.4)])
def test_causal_rows_are_the_cubature_of_all_forms(loss, law):
    causal = loss(Softmax(2, "causal"), Softmax("1/2", "causal"))
    mean, q1, q2 = order_parameters(2, 11)
    phi, reference = (make(causal, 3, exchangeable(3, *law)) for make in (potential, by_cubature))
    found, expected = phi.gradients(mean, q1, q2), reference.gradients(mean, q1, q2)
    assert (found.method, expected.method) == ("rows", "grid")
    assert phi.value(mean, q1, q2).value == pytest.approx(reference.value(mean, q1, q2).value, abs=1e-9)
    for name in ("mean", "q1", "q2"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=2e-9, err_msg=name)


def test_causal_rows_are_a_sum_over_lengths():
    causal = MeanSquaredError("causal_softmax")
    for tokens in (2, 9, 200):
        found = potential(causal, tokens).tied_gradient(Q)[0]
        lengths = range(2, tokens + 1) if tokens < 10 else None
        if lengths is not None:
            rows = [potential(MeanSquaredError("softmax"), n).tied_gradient(Q)[0] / n for n in lengths]
            np.testing.assert_allclose(found, sum(rows), atol=1e-8)
        else:
            # S is a sum of powers, whatever their number.
            missing = np.geomspace(1e-8, 0.999, 40)
            powers = np.array([(1 - missing) ** k for k in range(1, tokens)])
            orders = np.arange(1, tokens)[:, None]
            s = RowLengths(tokens, causal=True).generating(missing)
            np.testing.assert_allclose(s[0], powers.sum(axis=0), rtol=1e-11)
            np.testing.assert_allclose(s[1], (orders * powers).sum(axis=0) / (1 - missing), rtol=1e-11)
            second = (orders * (orders - 1) * powers).sum(axis=0) / (1 - missing) ** 2
            np.testing.assert_allclose(s[2], second, rtol=1e-10)


def test_losses_of_different_masks():
    with pytest.raises(InputError, match="same mask"):
        CrossEntropy(Softmax(), Softmax(mask="causal"))
    with pytest.raises(InputError, match="one mask"):
        potential(MeanSquaredError(Softmax(mask="causal"), Softmax()), 2).tied_value(Q)
    with pytest.raises(InputError, match="mask"):
        Softmax(mask="banded")


# Closed forms and elementwise losses cost nothing in L either.


def test_entries_are_counted_not_enumerated():
    small = {n: potential(MeanSquaredError("hermite2"), n).tied_value(Q).value for n in (1, 2)}
    diagonal, off = small[1], (small[2] - 2 * small[1]) / 2
    tokens = 10**6
    found = potential(MeanSquaredError("hermite2"), tokens).tied_value(Q).value
    assert found == pytest.approx(tokens * diagonal + tokens * (tokens - 1) * off, rel=1e-12)


def test_elementwise_losses_of_many_tokens():
    tanh = MeanSquaredError("erf")
    small = {n: by_cubature(tanh, n, None).gradients([0.1, 0.2], Q, 0.5 * Q).q1 for n in (1, 2)}
    many = potential(tanh, 300, np.eye(300)).gradients([0.1, 0.2], Q, 0.5 * Q)
    assert many.method == "grid"
    expected = 300 * small[1] + 300 * 299 * (small[2] - 2 * small[1]) / 2
    np.testing.assert_allclose(many.q1, expected, rtol=1e-8)
