"""Arbitrary-precision Taylor integration of the truncated hierarchy, through the optional library heyoka.

heyoka compiles the equations and integrates them with a Taylor series of the order that the precision asks for; at
many digits this is orders of magnitude faster than extrapolation in mpmath. Install it with the extra ``taylor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from aimtheory.errors import InputError, NumericsError


def taylor_solution(
    equations: Mapping[sp.Symbol, sp.Expr], start: Sequence[Any], times: Sequence[Any]
) -> list[np.ndarray]:
    """States at increasing ``times`` of d symbol/dt = equation, in the current mpmath precision.

    Equations are rational in the symbols and in roots, arcsines and pi of them. Raises ``InputError`` when heyoka is
    not installed or a function is foreign to it, and ``NumericsError`` when a step fails, as at a blow-up.
    """
    try:
        import heyoka
    except ImportError:
        raise InputError(
            "integrator='taylor' needs the library heyoka; install it with: pip install 'aimtheory[taylor]', "
            "or leave integrator out"
        ) from None
    precision = mpmath.mp.prec
    symbols = list(equations)
    variables = dict(zip(symbols, heyoka.make_vars(*(f"x{n}" for n in range(len(symbols)))), strict=True))
    known: dict[sp.Expr, Any] = {}
    system = [(variables[s], _expression(heyoka, rhs, variables, known)) for s, rhs in equations.items()]
    integrator = heyoka.taylor_adaptive(
        system,
        state=[_real(heyoka, value, precision) for value in start],
        fp_type=heyoka.real,
        prec=precision,
        compact_mode=True,
    )
    states = []
    for time in times:
        outcome = integrator.propagate_until(_real(heyoka, time, precision))[0]
        values = [mpmath.mpf(str(value)) for value in integrator.state]
        if outcome != heyoka.taylor_outcome.time_limit or not all(map(mpmath.isfinite, values)):
            raise NumericsError(
                f"the truncated equations could not be continued to t = {mpmath.nstr(time, 8)} at this "
                "precision: they blow up; lower the final time"
            )
        states.append(np.array(values, dtype=object))
    return states


def _real(heyoka: Any, value: Any, precision: int) -> Any:
    return heyoka.real(mpmath.nstr(mpmath.mpf(value), mpmath.mp.dps + 5), precision)


def _expression(heyoka: Any, expression: sp.Expr, variables: Mapping[sp.Symbol, Any], known: dict[sp.Expr, Any]) -> Any:
    """A sympy expression as a heyoka one; rationals become exact quotients of integers."""
    if expression in known:
        return known[expression]

    def read(part: sp.Expr) -> Any:
        return _expression(heyoka, part, variables, known)

    result: Any
    if isinstance(expression, sp.Symbol) and expression in variables:
        result = variables[expression]
    elif isinstance(expression, sp.Integer):
        result = heyoka.expression(float(int(expression)))
        if int(float(int(expression))) != int(expression):
            raise InputError(f"the coefficient {expression} is too large an integer for integrator='taylor'")
    elif isinstance(expression, sp.Rational):
        result = read(sp.Integer(expression.p)) / read(sp.Integer(expression.q))
    elif expression is sp.pi:
        result = heyoka.pi
    elif isinstance(expression, sp.Add):
        result = heyoka.sum([read(part) for part in expression.args])
    elif isinstance(expression, sp.Mul):
        result = heyoka.prod([read(part) for part in expression.args])
    elif isinstance(expression, sp.Pow) and expression.exp.is_Rational:
        base, exponent = read(expression.base), expression.exp
        if exponent.q == 2:
            base = heyoka.sqrt(base)
        elif exponent.q != 1:
            raise InputError(f"the power {expression} is not supported by integrator='taylor'; leave integrator out")
        power = heyoka.prod([base] * abs(exponent.p)) if exponent.p else heyoka.expression(1.0)
        result = power if exponent.p >= 0 else heyoka.expression(1.0) / power
    elif isinstance(expression, sp.asin):
        result = heyoka.asin(read(expression.args[0]))
    else:
        raise InputError(f"{expression} is not supported by integrator='taylor'; leave integrator out")
    known[expression] = result
    return result


__all__ = ["taylor_solution"]
