"""Noncommutative polynomials: the laws of a ring with transposition, and evaluation on rectangular matrices."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.errors import InputError
from aimtheory.words import Letter, Polynomial, Word, cotangent_pullback, cyclic_derivative, leibniz

CHECK = settings(derandomize=True, deadline=None, max_examples=60)

W, X = Letter("W", "d", "r"), Letter("X", "d", "r")
V, D, S = Letter("V", "r", "s"), Letter("D"), Letter("S", symmetric=True)
LETTERS = (W, X, V, D, S)
FORMS = tuple(dict.fromkeys(form for letter in LETTERS for form in (letter, letter.T)))
SIZES = {"d": 4, "r": 3, "s": 2}
SPACES = tuple(SIZES)
G = sp.Symbol("g", real=True)


def matrices(seed):
    rng = np.random.default_rng(seed)
    result = {}
    for letter in LETTERS:
        matrix = rng.standard_normal((SIZES[letter.rows], SIZES[letter.columns]))
        result[letter] = matrix + matrix.T if letter.symmetric else matrix
    return result


def evaluate(polynomial, values):
    total = np.zeros((SIZES[polynomial.rows], SIZES[polynomial.columns]), dtype=complex)
    for word, coefficient in polynomial:
        product = np.eye(SIZES[word.rows])
        for letter in word:
            product = product @ (values[letter.T].T if letter.transposed else values[letter])
        total = total + complex(sp.sympify(coefficient).subs(G, 0.7)) * product
    return total


@st.composite
def words_between(draw, rows, columns, longest=4):
    """A word from one space to another, the empty one included when they are equal."""
    letters = []
    space = rows
    for _ in range(draw(st.integers(0, longest))):
        letters.append(draw(st.sampled_from([a for a in FORMS if a.rows == space])))
        space = letters[-1].columns
    bridge = {
        ("d", "r"): (W,), ("r", "d"): (X.T,), ("r", "s"): (V,), ("s", "r"): (V.T,),
        ("d", "s"): (X, V), ("s", "d"): (V.T, W.T),
    }  # fmt: skip
    if space != columns:
        letters.extend(bridge[space, columns])
    return Word(tuple(letters), rows)


coefficients = st.one_of(
    st.fractions(min_value=-3, max_value=3, max_denominator=4),
    st.sampled_from([G, 2 * G - 1, G**2]),
)


@st.composite
def polynomials(draw, rows="d", columns="d", most=3):
    terms = draw(st.dictionaries(words_between(rows, columns), coefficients, max_size=most))
    return Polynomial(terms, rows, columns)


@CHECK
@given(polynomials(), polynomials(), polynomials(), coefficients)
def test_ring_laws(P, Q, R, c):
    one, zero = Polynomial.identity(), Polynomial.zero()
    assert P + Q == Q + P
    assert (P + Q) + R == P + (Q + R)
    assert (P * Q) * R == P * (Q * R)
    assert P * (Q + R) == P * Q + P * R
    assert (P + Q) * R == P * R + Q * R
    assert P + zero == P
    assert not (P - P).terms
    assert P * one == P
    assert one * P == P
    assert (P * c) * Q == P * (Q * c) == c * (P * Q)
    assert (P * zero).terms == {}
    assert hash(P + Q) == hash(Q + P)


@CHECK
@given(polynomials("d", "r"), polynomials("r", "s"), polynomials("d", "r"))
def test_transposition_is_an_involution_that_reverses_products(P, Q, R):
    assert (P * Q).T == Q.T * P.T
    assert (P + R).T == P.T + R.T
    assert P.T.T == P
    assert (P * R.T).rows == (P * R.T).columns == "d"
    assert (P * P.T).is_symmetric


@CHECK
@given(polynomials("d", "r"), polynomials("r", "d"), st.integers(0, 100))
def test_evaluation_is_a_homomorphism(P, Q, seed):
    values = matrices(seed)
    assert evaluate(P * Q, values) == pytest.approx(evaluate(P, values) @ evaluate(Q, values), rel=1e-9, abs=1e-9)
    assert evaluate(P.T, values) == pytest.approx(evaluate(P, values).T, rel=1e-12, abs=1e-12)


@CHECK
@given(polynomials(), polynomials(), polynomials("d", "r", most=2), polynomials("d", "d", most=2), st.integers(0, 9))
def test_substitution_is_a_homomorphism_that_respects_transposes(P, Q, new_W, new_D, seed):
    def replace(letter):
        return {W: new_W, D: new_D}.get(letter)

    assert (P * Q).substitute(replace) == P.substitute(replace) * Q.substitute(replace)
    assert (P + Q).substitute(replace) == P.substitute(replace) + Q.substitute(replace)
    assert P.T.substitute(replace) == P.substitute(replace).T
    values = matrices(seed)
    replaced = values | {W: evaluate(new_W, values), D: evaluate(new_D, values)}
    expected = evaluate(P, replaced)
    assert evaluate(P.substitute(replace), values) == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_substitution_refuses_what_breaks_the_algebra():
    with pytest.raises(InputError, match="symmetric"):
        Polynomial.word(S).substitute({S: Polynomial.word(D)}.get)
    with pytest.raises(InputError, match="r"):
        Polynomial.word(W, W.T).substitute({W: Polynomial.word(D)}.get)


# The derivative of a polynomial along dX by a complex step: Im P(X + i h dX)/h, exact to rounding because P has real
# coefficients and transposes without conjugation.
STEP = 1e-30


def directional(polynomial, values, direction):
    moved = {letter: values[letter] + 1j * STEP * direction.get(letter, 0.0) for letter in values}
    return evaluate(polynomial, moved).imag / STEP


def direction_of(letter, seed):
    rng = np.random.default_rng(1000 + seed)
    change = rng.standard_normal((SIZES[letter.rows], SIZES[letter.columns]))
    return change + change.T if letter.symmetric else change


@CHECK
@given(st.sampled_from(SPACES).flatmap(lambda s: polynomials(s, s)), st.sampled_from(LETTERS), st.integers(0, 20))
def test_cyclic_derivative_against_the_derivative_of_the_trace(P, letter, seed):
    values, change = matrices(seed), direction_of(letter, seed)
    gradient = cyclic_derivative(P, letter)
    expected = np.trace(directional(P, values, {letter: change}))
    assert np.sum(evaluate(gradient, values).real * change) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if letter.symmetric:
        assert gradient.is_symmetric
    assert cyclic_derivative(P, letter.T) == gradient


@CHECK
@given(st.data(), st.sampled_from(LETTERS), st.integers(0, 20))
def test_cotangent_pullback_is_the_adjoint_of_the_derivative(data, letter, seed):
    rows, columns = data.draw(st.sampled_from(SPACES)), data.draw(st.sampled_from(SPACES))
    P, H = data.draw(polynomials(rows, columns)), data.draw(polynomials(rows, columns))
    values, change = matrices(seed), direction_of(letter, seed)
    left = np.sum(evaluate(H, values).real * directional(P, values, {letter: change}))
    pulled = cotangent_pullback(P, letter, H)
    assert (pulled.rows, pulled.columns) == (letter.rows, letter.columns)
    assert np.sum(evaluate(pulled, values).real * change) == pytest.approx(left, rel=1e-9, abs=1e-8)


@CHECK
@given(polynomials(), polynomials("d", "r", most=2), polynomials("d", "d", most=2), st.integers(0, 20))
def test_leibniz_against_the_derivative_along_a_flow(P, drift_W, drift_D, seed):
    drift = {W: drift_W, D: drift_D, S: drift_D + drift_D.T}
    values = matrices(seed)
    direction = {letter: evaluate(change, values).real for letter, change in drift.items()}
    expected = directional(P, values, direction)
    assert evaluate(leibniz(P, drift.get), values).real == pytest.approx(expected, rel=1e-9, abs=1e-8)


@CHECK
@given(polynomials(most=2), polynomials(most=2), polynomials(most=2))
def test_leibniz_is_a_derivation(P, Q, drift_D):
    def drift(letter):
        return drift_D if letter == D else None

    assert leibniz(P * Q, drift) == leibniz(P, drift) * Q + P * leibniz(Q, drift)
    assert leibniz(P.T, drift) == leibniz(P, drift).T


def test_known_cyclic_derivatives():
    # d Tr(D^3) = 3 Tr(D^2 dD), so the gradient is 3 (D^2)^T; d Tr(W W^T S) = 2 Tr(W^T S dW).
    assert cyclic_derivative(Polynomial.word(D, D, D), D) == Polynomial.word(D.T, D.T) * 3
    assert cyclic_derivative(Polynomial.word(W, W.T, S), W) == Polynomial.word(S, W) * 2
    assert cyclic_derivative(Polynomial.word(S, S), S) == Polynomial.word(S) * 2
    assert cyclic_derivative(Polynomial.word(D), D) == Polynomial.identity()
    half = Fraction(1, 2)
    assert cyclic_derivative(Polynomial.word(S, D), S) == Polynomial.word(D) * half + Polynomial.word(D.T) * half
    assert not cyclic_derivative(Polynomial.word(S), D).terms


def test_products_with_words_letters_and_numbers():
    P = Polynomial.word(W, W.T)
    square = Polynomial.word(W, W.T, W, W.T)
    assert square == W * (W.T * P)
    assert square == Word.of(W, W.T) * P
    assert P * Word.of(D) == Polynomial.word(W, W.T, D) == P * D
    assert 2 * P == P * 2 == P + P
    assert P * "1/2" + P * Fraction(1, 2) == P
    assert (P * G - P * G).terms == {}


def test_a_coefficient_that_expands_to_zero_is_dropped():
    vanishing = (G + 1) ** 2 - G**2 - 2 * G - 1
    assert Polynomial({Word.of(D): vanishing}) == Polynomial.zero()
    unexpanded = Polynomial({Word.of(D): G * (G + 1)})
    assert unexpanded == Polynomial({Word.of(D): G**2 + G})


def test_shape_and_number_errors():
    P = Polynomial.word(W, W.T)
    with pytest.raises(InputError, match="cannot multiply"):
        P * Polynomial.word(W.T)
    with pytest.raises(InputError, match="cannot add"):
        P + Polynomial.word(W)
    with pytest.raises(InputError, match="mixes shapes"):
        Polynomial({Word.of(W): 1, Word.of(D): 1})
    with pytest.raises(InputError, match="a trace needs a square"):
        cyclic_derivative(Polynomial.word(W), W)
    for bad in (float("nan"), float("inf"), True, None, "x", sp.nan, sp.oo):
        with pytest.raises(InputError):
            P * bad
    with pytest.raises(TypeError):
        P + 1


def test_text_and_latex():
    P = Polynomial.word(W, W.T) * Fraction(-1, 2) + Polynomial.word(D.T) + Polynomial.identity() * (G + 1)
    assert str(P) == "-1/2*W W^T + D^T + (g + 1)*1"
    assert Polynomial.word(Letter("W1", "d", "r1")).latex == "W_{1}"
    assert Polynomial.word(D.T).latex == r"D^{\top}"
    assert str(Polynomial.zero()) == Polynomial.zero().latex == "0"


def test_polynomials_travel_and_are_keys():
    W, V = Letter("W1", "d", "r1"), Letter("V1", "d", "r1")
    S = Polynomial.word(W, W.T) + Polynomial.word(V, W.T) * sp.sqrt(2)
    for other in (pickle.loads(pickle.dumps(S)), copy.deepcopy(S)):
        assert other == S
        assert {S: 1}[other] == 1
    assert Polynomial.word(W, W.T) != S
