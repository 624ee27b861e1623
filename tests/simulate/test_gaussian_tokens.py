"""Tokens have the Gaussian law that the model states, and the stream does not depend on threads."""

import numpy as np
import pytest
from scipy import stats

from aimtheory.errors import InputError
from aimtheory.simulate.gaussian_tokens import GaussianTokens, covariance_factor, fill_normal, float_type


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_standard_normal(dtype):
    numbers = np.empty(1 << 20, dtype=dtype)
    fill_normal(numbers, np.random.SFC64(3))
    z = numbers.astype(np.float64)
    n = len(z)
    # Standard errors of sample moments of N(0,1): var z = 1, var z^2 = 2, var z^3 = 15, var z^4 = 96, var z^6 = 10170.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((z**power).mean() - mean) < 4 * np.sqrt(variance / n), power
    # Tail probabilities, binomial standard error.
    for level in (2.0, 3.0, 4.0):
        p = 2 * stats.norm.sf(level)
        assert abs((np.abs(z) > level).mean() - p) < 4 * np.sqrt(p / n)
    assert stats.kstest(z[: 1 << 17], "norm").pvalue > 1e-4


def test_the_two_halves_of_a_box_muller_pair_are_independent():
    numbers = np.empty(1 << 15, dtype=np.float32)
    bits = np.random.SFC64(4)
    products, squares = [], []
    for _ in range(16):
        fill_normal(numbers, bits)
        first, second = numbers[: 1 << 14].astype(float), numbers[1 << 14 :].astype(float)
        products.append((first * second).mean())
        squares.append(((first**2 - 1) * (second**2 - 1)).mean())
    assert abs(np.mean(products)) < 4 / np.sqrt(16 * 2**14)
    assert abs(np.mean(squares)) < 4 * 2 / np.sqrt(16 * 2**14)


@pytest.mark.parametrize(
    "covariance",
    [np.eye(2), np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 1.0], [1.0, 1.0]]), np.diag([1.0, 0.0])],
    ids=["identity", "correlated", "singular", "one dead token"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tokens_have_the_covariance_asked_for(covariance, dtype):
    tokens = GaussianTokens(40, covariance, 2000, dtype, np.random.SeedSequence(1))().astype(np.float64)
    assert tokens.shape == (2000, 2, 40)
    found = np.einsum("bia,bja->ij", tokens, tokens) / (2000 * 40)
    # Var x_i x_j = C_ii C_jj + C_ij^2.
    error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / (2000 * 40))
    assert (np.abs(found - covariance) <= 4 * error).all()
    # Different components are uncorrelated.
    across = np.einsum("bi,bj->ij", tokens[:, :, 0], tokens[:, :, 1]) / 2000
    assert (np.abs(across) <= 4 * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / 2000)).all()


def test_factor_of_a_singular_covariance():
    covariance = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    factor = covariance_factor(covariance)
    assert factor.shape == (3, 1)
    np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-14)
    assert covariance_factor(np.eye(3)) is None


@pytest.mark.parametrize(("batch", "dim"), [(1, 5), (3, 7), (700, 101)])
def test_background_thread_gives_the_same_numbers(batch, dim):
    plain, threaded = (
        GaussianTokens(dim, np.eye(3), batch, "float32", np.random.SeedSequence(9), background=flag)
        for flag in (False, True)
    )
    previous = None
    for _ in range(7):
        first, second = plain().copy(), threaded()
        assert np.array_equal(first, second)
        assert previous is None or not np.array_equal(first, previous)
        previous = first


def test_batches_do_not_repeat_across_a_refill():
    stream = GaussianTokens(30, np.eye(1), 10, "float32", np.random.SeedSequence(2))
    seen = np.concatenate([stream().ravel().copy() for _ in range(500)])
    assert len(np.unique(seen)) > 0.995 * len(seen)


def test_dtype_is_checked():
    assert float_type(np.float32) == np.float32
    for bad in ("float16", "int32", "complex64", "nonsense", None):
        with pytest.raises(InputError, match="float32, float64"):
            float_type(bad)
