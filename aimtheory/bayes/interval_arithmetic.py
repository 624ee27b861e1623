"""Certified decimal enclosures of exact expressions, by interval arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import sympy as sp

from aimtheory.errors import InputError, NumericsError


def enclosure(expression: sp.Expr, digits: int) -> tuple[str, str]:
    """Decimal strings (low, high) with low <= value <= high, about ``digits`` digits wide, rounded outwards.

    Understands rationals, pi, sums, products, rational powers, exp, log and asin of constants, everything else is an
    ``InputError``. asin, which mpmath's intervals lack, is enclosed by checking sin at both ends.

    >>> enclosure(sp.asin(sp.Rational(1, 3)), 10)
    ('0.339836909454', '0.339836909455')
    """
    with mp.workdps(digits + 20):
        before = mp.iv.prec
        mp.iv.prec = mp.mp.prec
        try:
            low, high = _ends(_evaluate(expression))
        finally:
            mp.iv.prec = before
    largest = max(abs(low), abs(high))
    exponent = math.floor(math.log10(largest)) + 1 if largest else 0
    places = max(digits + 2 - exponent, 0)
    return _decimal(low, places, up=False), _decimal(high, places, up=True)


def _ends(interval: mp.iv.mpf) -> tuple[Fraction, Fraction]:
    return _fraction(mp.mpf(interval.a)), _fraction(mp.mpf(interval.b))


def _fraction(value: mp.mpf) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return (-1 if sign else 1) * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _decimal(value: Fraction, places: int, up: bool) -> str:
    scaled = value * 10**places
    number = math.ceil(scaled) if up else math.floor(scaled)
    text = str(abs(number)).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{text[:-places]}.{text[-places:]}" if places else f"{sign}{text}"


def _evaluate(node: sp.Expr) -> mp.iv.mpf:
    iv = mp.iv
    if node.is_Rational:
        return iv.mpf(int(node.p)) / iv.mpf(int(node.q))
    if node.is_Float:
        exact = sp.Rational(node)
        return iv.mpf(int(exact.p)) / iv.mpf(int(exact.q))
    if node == sp.pi:
        return iv.pi
    parts = [_evaluate(argument) for argument in node.args]
    if isinstance(node, sp.Add):
        return sum(parts[1:], parts[0])
    if isinstance(node, sp.Mul):
        result = parts[0]
        for part in parts[1:]:
            result = result * part
        return result
    if isinstance(node, sp.Pow) and node.exp.is_Integer:
        power = int(node.exp)
        result = parts[0] ** abs(power)
        return result if power >= 0 else 1 / result
    if isinstance(node, sp.Pow) and node.exp == sp.Rational(1, 2):
        return iv.sqrt(parts[0])
    if isinstance(node, sp.Pow):
        return iv.exp(parts[1] * iv.log(parts[0]))
    if isinstance(node, sp.exp):
        return iv.exp(parts[0])
    if isinstance(node, sp.log):
        return iv.log(parts[0])
    if isinstance(node, sp.asin):
        return _asin(parts[0])
    raise InputError(f"no certified enclosure of {node}; it may hold numbers, pi, +, *, powers, exp, log and asin")


def _asin(argument: mp.iv.mpf) -> mp.iv.mpf:
    low, high = mp.mpf(argument.a), mp.mpf(argument.b)
    slack = mp.mpf(2) ** (-mp.mp.prec + 8)
    below, above = mp.asin(low) - slack, mp.asin(high) + slack
    if not (-mp.pi / 2 < below and above < mp.pi / 2):
        raise NumericsError("asin too close to its ends for a certified enclosure")
    if not (mp.iv.sin(mp.iv.mpf(below)).b <= argument.a and argument.b <= mp.iv.sin(mp.iv.mpf(above)).a):
        raise NumericsError("the enclosure of asin could not be certified; raise the number of digits")
    return mp.iv.mpf([below, above])


__all__ = ["enclosure"]
