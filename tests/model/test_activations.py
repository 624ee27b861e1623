"""Activations against finite differences, sympy, orthogonality and the definition."""

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from aimtheory.errors import AssumptionError, InputError
from aimtheory.model.activations import (
    ElementwiseActivation,
    ElementwiseExpression,
    Erf,
    Hermite,
    Polynomial,
    Softmax,
    activation,
    activation_mapping,
)

ELEMENTWISE = [
    activation("linear"),
    *[Hermite(n) for n in (0, 1, 2, 3, 7)],
    Polynomial(["1/2", -1, 0, 2]),
    Erf(),
    Erf(gain="3/2"),
    ElementwiseExpression("tanh(x) + x**2/3"),
]
ALL = [*ELEMENTWISE, Softmax(), Softmax(inverse_temperature=2.5), Softmax(2, mask="causal")]


@pytest.mark.parametrize("function", ALL, ids=repr)
def test_vector_jacobian_is_the_finite_difference(function):
    rng = np.random.default_rng(3)
    forms, cotangent, step = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3, 3)), 1e-6
    gradient = function.vector_jacobian(forms, cotangent)
    for position in np.ndindex(forms.shape):
        shift = np.zeros_like(forms)
        shift[position] = step
        difference = (cotangent * (function(forms + shift) - function(forms - shift))).sum() / (2 * step)
        assert gradient[position] == pytest.approx(difference, abs=2e-7 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize("function", ELEMENTWISE, ids=repr)
def test_derivatives_are_those_of_the_expression(function):
    x = sp.Symbol("x", real=True)
    points = np.linspace(-2.3, 2.1, 7)
    for order, numeric in enumerate((function, function.derivative, function.second_derivative)):
        exact = sp.diff(function.scalar_expression(x), x, order) if order else function.scalar_expression(x)
        expected = [float(exact.subs(x, sp.Float(p, 30))) for p in points]
        np.testing.assert_allclose(numeric(points), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("function", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(function, dtype):
    forms = np.random.default_rng(0).standard_normal((4, 2, 2)).astype(dtype)
    assert function(forms).dtype == dtype
    assert function.vector_jacobian(forms, forms).dtype == dtype
    if isinstance(function, ElementwiseActivation):
        assert function.second_derivative(forms).dtype == dtype


@pytest.mark.parametrize("function", ALL, ids=repr)
def test_input_is_not_changed(function):
    forms = np.random.default_rng(0).standard_normal((2, 2))
    before = forms.copy()
    function(forms)
    assert (forms == before).all()


@pytest.mark.parametrize("function", ALL, ids=repr)
def test_expression_matrix_agrees_with_the_numbers(function):
    symbols = sp.Matrix(2, 2, lambda i, j: sp.Symbol(f"g_{i}{j}", real=True))
    forms = np.array([[0.3, -1.2], [0.9, 0.4]])
    table = {symbols[i, j]: forms[i, j] for i in range(2) for j in range(2)}
    exact = np.array(function.expression(symbols).subs(table).evalf().tolist(), dtype=float)
    np.testing.assert_allclose(function(forms), exact, rtol=1e-12, atol=1e-12)


def test_hermites_are_orthonormal_under_the_normal_law():
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    values = np.array([Hermite(n)(nodes) for n in range(12)])
    np.testing.assert_allclose((values * weights) @ values.T, np.eye(12), atol=1e-9)


def test_low_hermites_are_the_ones_of_the_source():
    x = np.array([0.7, -1.9])
    np.testing.assert_allclose(Hermite(2)(x), (x**2 - 1) / math.sqrt(2))
    np.testing.assert_allclose(Hermite(3)(x), (x**3 - 3 * x) / math.sqrt(6))


@given(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), st.floats(-1e4, 1e4), st.floats(0.01, 20))
def test_softmax_rows_are_probabilities_invariant_under_a_common_shift(row, shift, beta):
    function = Softmax(inverse_temperature=beta)
    forms = np.array([row] * 3)
    probabilities = function(forms)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(function(forms + shift), probabilities, atol=1e-7 * beta)
    assert np.isfinite(function.log_probabilities(forms)).all()


def test_round_trip_through_name_and_parameters():
    for function in ALL:
        assert activation(function.name, **function.parameters) == function


def test_an_activation_without_a_name_is_not_written_to_a_file():
    """A file that could not be read back would lose the run in it."""

    class Nameless(Erf):
        @property
        def name(self):
            return "nameless"

    with pytest.raises(InputError, match="set the class attribute activation_name of Nameless"):
        activation_mapping(Nameless(), "")


def test_errors_list_what_exists():
    with pytest.raises(InputError, match=r"did you mean 'softmax'.*known: linear, polynomial"):
        activation("sofmax")
    with pytest.raises(InputError, match="no parameter 'temperature'; it takes inverse_temperature"):
        activation("softmax", temperature=1)
    with pytest.raises(InputError, match="needs coefficients"):
        activation("polynomial")
    with pytest.raises(InputError, match="inverse_temperature = -1 must be > 0"):
        activation("softmax", inverse_temperature=-1)
    with pytest.raises(InputError, match="nan is not finite"):
        Polynomial([1.0, float("nan")])
    with pytest.raises(InputError, match="degrees run from 0 to"):
        activation("hermite999")


@pytest.mark.parametrize("text", ["abs(x)", "relu(x)", "exp(x)", "sign(x)", "1/x"])
def test_elementwise_expressions_that_break_an_assumption_say_which(text):
    with pytest.raises(AssumptionError, match=r"Assumption (1\.3|2\.1) of \[D\]"):
        ElementwiseExpression(text)


def test_elementwise_expression_takes_one_symbol():
    with pytest.raises(InputError, match="function of one symbol"):
        ElementwiseExpression(sp.Symbol("a") * sp.Symbol("b"))
