"""Scalars that keep what the user meant: ``"1/2"`` and ``"0.5"`` are rationals and stay exact, ``0.5`` is a float."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from numbers import Rational, Real
from typing import TypeAlias

import sympy as sp

from aimtheory.errors import InputError
from aimtheory.expression import parse_expression

Scalar: TypeAlias = Fraction | float | sp.Expr
"""An exact rational, a float, or a sympy expression (a symbol, an algebraic number)."""

_RATIONAL = re.compile(r"[+-]?\d+(/\d+)?")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def to_scalar(value: object, name: str = "number") -> Scalar:
    """Read a number without losing exactness.

    Integers, ``Fraction``, sympy rationals and strings become a ``Fraction``: ``"2/3"``, and ``"0.3"``, which is 3/10
    as it is written; the float 0.3 is the binary number next to it and stays a float; other sympy expressions pass
    through, also as text (``"sqrt(2)"``). Text is read by a whitelist and never evaluated. Raises ``InputError`` on
    NaN, infinity, a string beyond the range of floats, and anything else.

    >>> to_scalar("2/3"), to_scalar("0.3"), to_scalar(1), to_scalar(0.5)
    (Fraction(2, 3), Fraction(3, 10), Fraction(1, 1), 0.5)
    """
    if isinstance(value, str):
        text = value.strip()
        if _RATIONAL.fullmatch(text):
            numerator, _, denominator = text.partition("/")
            if denominator and int(denominator) == 0:
                raise InputError(f"{name} = {value!r} divides by zero; give a finite number")
            return Fraction(int(numerator), int(denominator or 1))
        if _DECIMAL.fullmatch(text):
            return _exact_decimal(text, name)
        return _algebraic(text, name)
    if isinstance(value, bool) or value is None:
        raise InputError(f"{name} = {value!r} is not a number")
    if isinstance(value, sp.Basic):
        if value.is_Rational:
            return Fraction(int(value.p), int(value.q))
        if value.is_Float:
            return _finite(float(value), name)
        if isinstance(value, sp.Expr) and not value.has(sp.nan, sp.oo, -sp.oo, sp.zoo):
            return value
        raise InputError(f"{name} = {value} is not a finite number or a scalar expression")
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Real):
        return _finite(float(value), name)
    raise InputError(f"{name} = {value!r} of type {type(value).__name__} is not a number")


def _exact_decimal(text: str, name: str) -> Fraction:
    mantissa, _, exponent = text.lower().partition("e")
    size = abs(float(text))
    if math.isinf(size):
        raise InputError(f"{name} = {text!r} is beyond the largest float, 1.8e308; choose other units")
    # Without the bound "1e-999999999" would be a billion digits.
    if size == 0 and float(mantissa) != 0:
        raise InputError(f"{name} = {text!r} is below the smallest float; write 0, or choose other units")
    return Fraction(mantissa) if size == 0 and exponent else Fraction(text)


def _algebraic(text: str, name: str) -> Scalar:
    """A number such as sqrt(2), read by the whitelist of ``parse_expression``."""
    try:
        number = parse_expression(text)
    except InputError:
        raise InputError(
            f"{name} = {text!r} is not a number; write a rational such as 2/3, a decimal such as 0.5, or sqrt(2)"
        ) from None
    return to_scalar(number, name)


def _finite(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"{name} = {value} is not finite; give a finite number")
    return value


def to_sympy(value: Scalar) -> sp.Expr:
    """The scalar as a sympy number, exact when it is exact."""
    return sp.Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else sp.sympify(value)


def is_exact(value: Scalar) -> bool:
    """True when no rounding has happened: a rational or a symbolic expression without floats."""
    return isinstance(value, Fraction) or (isinstance(value, sp.Expr) and not value.has(sp.Float))


__all__ = ["Scalar", "is_exact", "to_scalar", "to_sympy"]
