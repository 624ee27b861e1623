"""The limit of very many tokens against the potential of any number of tokens."""

import numpy as np
import pytest

from aimtheory.errors import InputError
from aimtheory.model.losses import CrossEntropy, MeanSquaredError
from aimtheory.population import potential
from aimtheory.population.softmax_long_context import (
    LongContext,
    long_context_cross_entropy,
    long_context_overlap,
    long_context_squared_error,
)

Q1 = np.array([[0.8, 0.3], [0.3, 0.6]])
Q2 = np.array([[0.3, 0.1], [0.1, -0.2]])
MEAN = np.array([0.4, -0.7])


@pytest.mark.parametrize("tokens", [10_000, 1_000_000])
def test_both_terms_of_the_squared_error(tokens):
    exact = potential(MeanSquaredError("softmax"), tokens).value(MEAN, Q1, Q2).value
    limit = long_context_squared_error(Q1, Q1 + Q2, MEAN)
    assert exact == pytest.approx(limit.leading, rel=30 / tokens)
    # The next term is O(1/L²); the potential itself is right to 1e-9.
    assert exact == pytest.approx(limit.at(tokens), abs=300 / tokens**2 + 2e-9)


@pytest.mark.parametrize("tokens", [10_000, 1_000_000])
def test_both_terms_of_the_cross_entropy(tokens):
    exact = potential(CrossEntropy(), tokens).value(MEAN, Q1, Q2).value / tokens
    limit = long_context_cross_entropy(Q1, Q1 + Q2, MEAN)
    assert exact == pytest.approx(limit.at(tokens), abs=300 / tokens**2 + 1e-9)


def test_what_is_left_falls_like_one_over_l_squared():
    limit = long_context_squared_error(Q1, Q1 + Q2, MEAN)
    left = [
        n**2 * (potential(MeanSquaredError("softmax"), n).value(MEAN, Q1, Q2).value - limit.at(n))
        for n in (8000, 16000, 32000)
    ]
    assert max(map(abs, left)) < abs(limit.correction)
    # It tends to the next coefficient, by steps that halve.
    assert (left[2] - left[1]) / (left[1] - left[0]) == pytest.approx(0.5, abs=0.05)


def test_gradient_by_the_overlap_tends_to_minus_half_its_exponential():
    q = np.array([[1.5, 0.7], [0.7, 2.0]])
    gradient, _ = potential(MeanSquaredError("softmax"), 1_000_000).tied_gradient(q)
    # Half the derivative by the shared variable, of (e^{q_11} + e^{q_22})/2 − e^{q_12}.
    assert gradient[0, 1] == pytest.approx(-np.exp(0.7) / 2, rel=1e-3)
    assert gradient[0, 0] == pytest.approx(np.exp(1.5) / 2, rel=1e-3)


def test_input():
    with pytest.raises(InputError, match="own"):
        long_context_overlap(np.eye(2), np.eye(3))
    with pytest.raises(InputError, match="tokens"):
        LongContext(1.0, 1.0).at(0)
