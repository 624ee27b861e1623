"""Words on matrices: dense, sparse, exact and compressed representations give the traces of plain products."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.words import Letter, Representation

W, S, V = Letter("W", "d", "r"), Letter("S", symmetric=True), Letter("V")
STEPS = {"d": [W, S, V, V.T], "r": [W.T]}


@st.composite
def closed_words(draw):
    """A random closed path from the embedding space."""
    word, space = [], "d"
    for _ in range(draw(st.integers(0, 7))):
        step = draw(st.sampled_from(STEPS[space]))
        word.append(step)
        space = step.columns
    return tuple(word) if space == "d" else (*word, W.T)


def matrices(dim=5, rank=3):
    rng = np.random.default_rng(4)
    symmetric = rng.normal(size=(dim, dim))
    return {W: rng.normal(size=(dim, rank)), S: symmetric + symmetric.T, V: rng.normal(size=(dim, dim))}


def plain_product(word, given, dim):
    result = np.eye(dim)
    for letter in word:
        result = result @ (given[letter.T].T if letter.transposed else given[letter])
    return result


@settings(max_examples=60, deadline=None)
@given(st.lists(closed_words(), min_size=1, max_size=4))
def test_traces_and_states_are_those_of_plain_products(words):
    given_matrices, dim = matrices(), 5
    vacuum = np.random.default_rng(0).normal(size=dim)
    trace = Representation(given_matrices, dim=dim)
    state = Representation({x: sps.csr_array(m) for x, m in given_matrices.items()}, vacuum=vacuum)
    for word in words:
        product = plain_product(word, given_matrices, dim)
        assert np.allclose(trace.product(word), product, rtol=1e-12)
        size = max(1.0, np.abs(product).max())
        assert trace.trace(word) == pytest.approx(np.trace(product) / dim if word else 1.0, abs=1e-12 * dim * size)
        expected = vacuum @ product @ vacuum if word else 1.0
        assert state.trace(word) == pytest.approx(expected, abs=1e-11 * dim * size)


def test_letters_by_name_and_exact_numbers():
    """Objects of mpmath have the trace to their digits; names without an adjoint are multiplied as they stand."""
    X = np.array([[mpmath.mpf(1) / 3, mpmath.mpf(1)], [mpmath.mpf(0), mpmath.mpf(2)]])
    words = Representation({"X": X}, dim=1, adjoint=None)
    with mpmath.workdps(40):
        exact = Representation({"X": np.array([[Fraction(1, 3), 1], [0, 2]], dtype=object)}, adjoint=None)
        assert exact.product(["X"] * 3)[0, 0] == Fraction(1, 27)
    assert words.trace(["X", "X", "X"]) == pytest.approx(1 / 27 + 8)


def test_what_stands_still_is_multiplied_once_for_many_states():
    class Counted(dict):
        asked = 0

        def __getitem__(self, key):
            Counted.asked += key == S
            return super().__getitem__(key)

    known, given_matrices = {}, matrices()
    for _ in range(3):
        words = Representation(Counted(given_matrices), dim=5, fixed={S}, known=known)
        words.trace((S, S, V))
        words.trace((S, S, S, S))
    assert Counted.asked == 1
    assert set(known) == {(S,), (S, S)}
