"""Certified decimal enclosures of exact expressions, by ball arithmetic (Arb, through python-flint)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import sympy as sp
from flint import arb, ctx, fmpq, fmpz

from aimtheory.errors import InputError, NumericsError

_FUNCTIONS: dict[type[sp.Expr], Callable[[arb], arb]] = {
    sp.exp: arb.exp,
    sp.log: arb.log,
    sp.sin: arb.sin,
    sp.cos: arb.cos,
    sp.tan: arb.tan,
    sp.asin: arb.asin,
    sp.acos: arb.acos,
    sp.atan: arb.atan,
    sp.sinh: arb.sinh,
    sp.cosh: arb.cosh,
    sp.tanh: arb.tanh,
    sp.erf: arb.erf,
    sp.erfc: arb.erfc,
    sp.gamma: arb.gamma,
    sp.Abs: abs,
}
_CONSTANTS: dict[sp.Expr, Callable[[], arb]] = {
    sp.pi: arb.pi,
    sp.E: arb.const_e,
    sp.EulerGamma: arb.const_euler,
    sp.Catalan: arb.const_catalan,
}
_DOUBLINGS = 7


def enclosure(expression: sp.Expr, digits: int) -> tuple[str, str]:
    """Decimal strings (low, high) with low <= value <= high, ``digits`` digits agreeing, rounded outwards.

    Every operation of Arb returns a ball that holds the exact result, so cancellation shows as a wide ball; the
    precision is then doubled until the ball is narrow enough. Understands rationals, floats (the binary numbers they
    are), pi, e, sums, products, powers, exp, log, trigonometric and hyperbolic functions and their inverses, erf, erfc
    and gamma of real constants. Anything else is an ``InputError``; a value that no precision pins down (an expression
    that vanishes without sympy seeing it, or a function at the end of its domain) a ``NumericsError``.

    >>> enclosure(sp.asin(sp.Rational(1, 3)), 10)
    ('0.339836909454', '0.339836909455')
    >>> enclosure(1 - sp.erf(1) ** 2, 6)
    ('0.28985537', '0.28985538')
    """
    low, high = rational_bounds(expression, digits)
    largest = max(abs(low), abs(high))
    exponent = math.floor(_log10(largest)) + 1 if largest else 0
    places = max(digits + 2 - exponent, 0)
    return _decimal(low, places, up=False), _decimal(high, places, up=True)


def rational_bounds(expression: sp.Expr, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals low <= value <= high whose distance is below ``10^-(digits + 4)`` of the value.

    >>> low, high = rational_bounds(sp.sqrt(2), 5)
    >>> low**2 < 2 < high**2
    True
    """
    if expression.free_symbols:
        names = ", ".join(sorted(str(symbol) for symbol in expression.free_symbols))
        raise InputError(f"no enclosure of {expression}: give a number to {names}")
    bits = math.ceil((digits + 4) * math.log2(10)) + 32
    for _ in range(_DOUBLINGS):
        with ctx.workprec(bits):
            ball = _evaluate(expression)
            if ball.is_finite():
                low, high = _fraction(ball.lower()), _fraction(ball.upper())
                if (high - low) * 10 ** (digits + 4) <= min(abs(low), abs(high)) or low == high:
                    return low, high
        bits *= 2
    raise NumericsError(
        f"{bits} bits do not pin {expression} down to {digits} digits: it vanishes or lies at the end of a domain; "
        "simplify it"
    )


def _log10(value: Fraction) -> float:
    """Also where a float would overflow."""
    return math.log10(value.numerator) - math.log10(value.denominator)


def _fraction(value: arb) -> Fraction:
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _decimal(value: Fraction, places: int, up: bool) -> str:
    scaled = value * 10**places
    number = math.ceil(scaled) if up else math.floor(scaled)
    text = str(abs(number)).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{text[:-places]}.{text[-places:]}" if places else f"{sign}{text}"


def _evaluate(node: sp.Expr) -> arb:
    if node.is_Rational or node.is_Float:
        exact = sp.Rational(node)
        return arb(fmpq(fmpz(int(exact.p)), fmpz(int(exact.q))))
    if node in _CONSTANTS:
        return _CONSTANTS[node]()
    parts = [_evaluate(argument) for argument in node.args]
    if isinstance(node, sp.Add):
        return sum(parts[1:], parts[0])
    if isinstance(node, sp.Mul):
        return math.prod(parts[1:], start=parts[0])
    if isinstance(node, sp.Pow):
        if node.exp.is_Integer:
            return parts[0] ** int(node.exp)
        return parts[0].sqrt() if node.exp == sp.Rational(1, 2) else parts[0] ** parts[1]
    if type(node) in _FUNCTIONS:
        return _FUNCTIONS[type(node)](parts[0])
    raise InputError(
        f"no certified enclosure of {node}; it may hold numbers, pi, +, *, powers and "
        f"{', '.join(sorted(kind.__name__ for kind in _FUNCTIONS))}"
    )


__all__ = ["enclosure", "rational_bounds"]
