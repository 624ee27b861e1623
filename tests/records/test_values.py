"""Values and sympy expressions through the codec: exact, and nothing foreign gets in."""

import json
import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue, FrozenMapping, same_value
from aimtheory.records import decode, encode, record
from aimtheory.records.sympy_trees import sympy_of_tree, sympy_tree

CHECK = settings(derandomize=True, deadline=None, max_examples=80)


@record("test-point")
@dataclass(frozen=True, eq=False)
class Point(ByValue):
    x: object
    label: str = ""


@record("test-colour")
class Colour(Enum):
    RED = "red"
    BLUE = 2


NUMBERS = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**30, max_value=10**400),
    st.floats(),
    st.fractions(),
    st.complex_numbers(allow_nan=False),
    st.floats(allow_nan=False).map(mpmath.mpf),
)
SCALARS = NUMBERS | st.none() | st.text() | st.binary() | st.sampled_from(Colour)
ARRAYS = st.sampled_from(
    [np.float64, np.float32, np.int64, np.int8, np.uint16, np.bool_, np.complex128, np.dtype("U3")]
)
VALUES = st.recursive(
    SCALARS | ARRAYS.flatmap(lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.sampled_from(["$array", "$"]), inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(FrozenMapping)
        | inner.map(Point)
    ),
    max_leaves=8,
)


def types(value):
    """The types inside a value, which must survive as well as the numbers."""
    if isinstance(value, FrozenMapping | dict):
        return type(value), [(types(key), types(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [types(item) for item in value]
    if isinstance(value, Point):
        return Point, types(value.x)
    return (type(value), value.dtype, value.shape) if isinstance(value, np.ndarray) else type(value)


@CHECK
@given(VALUES)
def test_every_value_survives_json(value):
    text = json.dumps(encode(value), allow_nan=False)
    again = decode(json.loads(text))
    assert same_value(again, value)
    assert types(again) == types(value)
    assert json.dumps(encode(again), allow_nan=False) == text


@CHECK
@given(st.floats(allow_nan=False))
def test_floats_keep_every_bit(number):
    again = decode(json.loads(json.dumps(encode(number), allow_nan=False)))
    assert math.copysign(1, again) == math.copysign(1, number)
    assert again == number


x, y = sp.Symbol("x", positive=True), sp.Symbol("y")
EXPRESSIONS = [
    sp.sqrt(2),
    sp.pi / 3 + sp.E,
    sp.Float("0.1", 50),
    sp.Float(0.1),
    sp.Float(0),
    sp.Float("-1e-400", 20),
    sp.Integer(7) ** 60,
    sp.Rational(-2, 3),
    sp.I * sp.asin(sp.Rational(1, 3)) / sp.log(2),
    sp.oo,
    sp.Piecewise((2 * x - x**2, x <= 1), (1, True)),
    sp.erf(x * y) + sp.Max(x, y) + sp.tanh(sp.sqrt(x)),
    sp.GoldenRatio * sp.EulerGamma,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_expressions_are_exact(expression):
    tree = json.loads(json.dumps(sympy_tree(expression)))
    again = sympy_of_tree(tree)
    assert again == expression
    assert type(again) is type(expression)
    assert sp.srepr(again) == sp.srepr(expression)


RATIONALS = st.fractions(min_value=-50, max_value=50, max_denominator=50).map(
    lambda f: sp.Rational(f.numerator, f.denominator)
)


@CHECK
@given(
    st.recursive(
        RATIONALS | st.sampled_from([sp.pi, x, y, sp.sqrt(3)]),
        lambda inner: (
            st.tuples(inner, inner).map(lambda p: p[0] + p[1])
            | st.tuples(inner, inner).map(lambda p: p[0] * p[1])
            | inner.map(sp.exp)
            | inner.map(lambda e: sp.sqrt(1 + e**2))
        ),
        max_leaves=5,
    )
)
def test_random_expressions_are_exact(expression):
    assert sympy_of_tree(sympy_tree(expression)) == expression


def test_what_has_no_record_is_named_with_its_place():
    with pytest.raises(InputError, match=r"the value\['a'\]\[1\] = <function .* of type function cannot be stored"):
        encode({"a": [1, lambda: 0]})
    with pytest.raises(InputError, match=r"the value\.x = .*cannot be stored"):
        encode(Point(object()))
    with pytest.raises(InputError, match="array of type object"):
        encode(np.array([None, 1], dtype=object))
    with pytest.raises(InputError, match="dummy symbol"):
        encode(sp.Dummy("z"))
    with pytest.raises(InputError, match="cannot be stored"):
        encode(sp.Integral(x, x))
    with pytest.raises(InputError, match="kept from evaluating"):
        encode(sp.Add(1, 2, evaluate=False))
    with pytest.raises(InputError, match="belongs to Point"):
        record("test-point")(Fraction)
    bare = record("test-bare")(type("Bare", (), {}))
    with pytest.raises(InputError, match="Bare is no dataclass"):
        encode(bare())


@pytest.mark.parametrize(
    "tree",
    [
        {"$sympy": ["__import__", ["Symbol", "os", {}]]},
        {"$sympy": "x"},
        {"$sympy": ["Lambda", ["pi"]]},
        {"$record": "no-such-kind", "values": {}},
        {"$eval": "1"},
        {"$array": {"dtype": "O", "shape": [1], "data": [None]}},
        {"$variable": "missing", "dtype": "f8"},
    ],
    ids=str,
)
def test_foreign_trees_are_refused(tree):
    with pytest.raises(InputError):
        decode(tree)
