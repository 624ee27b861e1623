"""Sympy numbers and expressions as nested lists: exact, floats of any precision included, and read by a whitelist.

Text such as ``str(expression)`` rounds its floats and has to be parsed; a list of heads and arguments does neither.
Nothing that is read is evaluated: a head is looked up among the classes below, and an unknown one is an ``InputError``.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from aimtheory.errors import InputError

_CONSTANTS: dict[str, sp.Basic] = {
    "pi": sp.pi,
    "e": sp.E,
    "i": sp.I,
    "infinity": sp.oo,
    "minus_infinity": -sp.oo,
    "golden_ratio": sp.GoldenRatio,
    "euler_gamma": sp.EulerGamma,
    "catalan": sp.Catalan,
    "true": sp.true,
    "false": sp.false,
}
_HEADS: dict[Any, str] = {
    cls: cls.__name__
    for cls in (
        sp.Add,
        sp.Mul,
        sp.Pow,
        sp.exp,
        sp.log,
        sp.sin,
        sp.cos,
        sp.tan,
        sp.sinh,
        sp.cosh,
        sp.tanh,
        sp.asin,
        sp.acos,
        sp.atan,
        sp.asinh,
        sp.acosh,
        sp.atanh,
        sp.erf,
        sp.erfc,
        sp.erfi,
        sp.gamma,
        sp.Abs,
        sp.sign,
        sp.Max,
        sp.Min,
        sp.Piecewise,
        sp.Equality,
        sp.Unequality,
        sp.LessThan,
        sp.GreaterThan,
        sp.StrictLessThan,
        sp.StrictGreaterThan,
        sp.And,
        sp.Or,
        sp.Not,
        sp.floor,
        sp.ceiling,
        sp.besseli,
        sp.besselj,
        sp.besselk,
        sp.conjugate,
        sp.re,
        sp.im,
        sp.LambertW,
        sp.polygamma,
        sp.functions.elementary.piecewise.ExprCondPair,
    )
}
_FUNCTIONS = {name: cls for cls, name in _HEADS.items()}


def sympy_tree(expression: sp.Basic, where: str = "the expression") -> list[Any]:
    """The expression as nested lists of text and integers, to be read back by ``sympy_of_tree``.

    >>> sympy_tree(sp.sqrt(2))
    ['Pow', ['Rational', '2', '1'], ['Rational', '1', '2']]
    """
    if isinstance(expression, sp.Rational):
        return ["Rational", str(expression.p), str(expression.q)]
    if isinstance(expression, sp.Float):
        sign, mantissa, exponent, bits = expression._mpf_
        return ["Float", int(sign), hex(int(mantissa)), int(exponent), int(bits), int(expression._prec)]
    for name, constant in _CONSTANTS.items():
        if expression == constant:
            return [name]
    if isinstance(expression, sp.Dummy):
        raise InputError(f"{where}: {expression!r} is a dummy symbol, which has no name to be found by again")
    if isinstance(expression, sp.Symbol):
        # What was given when the symbol was made, or all that follows from it: both give an equal symbol.
        known = getattr(expression, "_assumptions_orig", expression.assumptions0)
        return ["Symbol", expression.name, {key: value for key, value in known.items() if value is not None}]
    head = _HEADS.get(expression.func)
    if head is None:
        raise InputError(f"{where}: {expression!r} of type {type(expression).__name__} cannot be stored")
    tree = [head, *(sympy_tree(argument, where) for argument in expression.args)]
    if expression.func(*expression.args) != expression:
        raise InputError(f"{where}: {expression!r} is kept from evaluating; evaluate it (doit()) before it is stored")
    return tree


def sympy_of_tree(tree: Any) -> sp.Basic:
    """The expression of ``sympy_tree``; ``InputError`` for anything else.

    >>> sympy_of_tree(["Add", ["pi"], ["Rational", "1", "3"]])
    1/3 + pi
    """
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
        raise InputError(f"{str(tree)[:80]} is not a stored expression")
    head, *rest = tree
    if head == "Rational":
        return sp.Rational(int(rest[0]), int(rest[1]))
    if head == "Float":
        sign, mantissa, exponent, bits, precision = rest
        parts = (int(sign), int(mantissa, 16), int(exponent), int(bits))
        return sp.Float._new(parts, int(precision), zero=False)
    if head == "Symbol":
        name, assumptions = rest
        return sp.Symbol(str(name), **{str(key): bool(value) for key, value in assumptions.items()})
    if head in _CONSTANTS and not rest:
        return _CONSTANTS[head]
    if head not in _FUNCTIONS:
        raise InputError(f"a stored expression has the unknown head {head!r}")
    return _FUNCTIONS[head](*map(sympy_of_tree, rest))


__all__ = ["sympy_of_tree", "sympy_tree"]
