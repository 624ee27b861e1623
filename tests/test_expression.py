"""The whitelist reader: it reads what it should, and evaluates nothing else."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from aimtheory.errors import InputError
from aimtheory.expression import parse_expression

X, Y = sp.symbols("x y", real=True)
G = sp.IndexedBase("G")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 2*y - 3/4", X + 2 * Y - sp.Rational(3, 4)),
        ("-x**2", -(X**2)),
        ("(x - y)**2 / 2", (X - Y) ** 2 / 2),
        ("exp(-x**2) + log(1 + y**2)", sp.exp(-(X**2)) + sp.log(1 + Y**2)),
        ("sqrt(1 + x**2)", sp.sqrt(1 + X**2)),
        ("tanh(x)*erf(y)", sp.tanh(X) * sp.erf(Y)),
        ("softplus(x)", sp.log(1 + sp.exp(X))),
        ("sigmoid(x)", (1 + sp.tanh(X / 2)) / 2),
        ("G[0, 1, 1]*G[1,0,0]", G[0, 1, 1] * G[1, 0, 0]),
        ("2*pi*x", 2 * sp.pi * X),
        ("0.5*x", 0.5 * X),
        ("x -\n y", X - Y),
    ],
)
def test_reads(text, expected):
    assert parse_expression(text, symbols=("x", "y"), indexed={"G": (2, 2, 2)}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "x if x else 1",
        "x and y",
        "'text'",
        "f'{x}'",
        "print(x)",
        "exp(x, y)",
        "exp(x=x)",
        "exp(*x)",
        "G[0]",
        "G[0, 1, 2]",
        "G[-1, 0, 0]",
        "G[x, 0, 0]",
        "G[0:1, 0, 0]",
        "G[True, 0, 0]",
        "x[0]",
        "G",
        "exp",
        "z",
        "True",
        "1j",
        "x := 1",
        "x @ y",
        "x // y",
        "x % y",
        "~x",
        "not x",
        "x < y",
        "9**9**9",
        "2**1000",
        "x**x",
        "x**(9*9)",
        "((x**60)**60)**60",
        "exp(exp(exp(9)))",
        "1e300*x",
        "1e999",
        "1/0",
        "x/0",
        "0**-1",
        "sqrt(-1)",
        "log(-1)",
        "log(0)",
        "",
        "x +",
        "x\x00",
        "..",
        "99999999999999999999999999999999999999999999",
    ],
)
def test_refuses(text):
    with pytest.raises(InputError):
        parse_expression(text, symbols=("x", "y"), indexed={"G": (2, 2, 2)})


def test_the_message_shows_the_position_and_the_vocabulary():
    with pytest.raises(InputError, match=r"at character 5.*x \+ >>>foo.*unknown name 'foo'.*allowed: numbers.*tanh"):
        parse_expression("x + foo", symbols=("x",))


def test_length_depth_and_control_characters_are_bounded():
    with pytest.raises(InputError, match="characters; at most"):
        parse_expression("x+" * 20_000 + "x", symbols=("x",))
    for deep in ("(" * 5000 + "x" + ")" * 5000, "-" * 3000 + "x", "exp(" * 100 + "x" + ")" * 100):
        with pytest.raises(InputError):
            parse_expression(deep, symbols=("x",))


def test_a_long_sum_is_not_deep():
    assert parse_expression("+".join(["x"] * 2000), symbols=("x",)) == 2000 * X


@given(st.text(max_size=40))
def test_any_text_reads_or_is_an_input_error(text):
    try:
        result = parse_expression(text, symbols=("x",))
    except InputError:
        return
    assert isinstance(result, sp.Expr)
    assert result.free_symbols <= {X}


def _trees():
    leaves = st.sampled_from(["x", "y"]) | st.integers(0, 9).map(str)

    def extend(inner):
        operation = st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        return operation | inner.map(lambda t: f"tanh({t})") | inner.map(lambda t: f"(-{t})**2")

    return st.recursive(leaves, extend, max_leaves=8)


@given(_trees())
def test_agrees_with_python_on_arithmetic(text):
    point = {"x": 0.37, "y": -1.21}
    expected = eval(text, {"__builtins__": {}, "tanh": np.tanh}, point)  # the test's own text
    result = parse_expression(text, symbols=("x", "y"))
    assert float(result.subs({X: point["x"], Y: point["y"]})) == pytest.approx(expected, rel=1e-9, abs=1e-9)
