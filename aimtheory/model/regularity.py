"""Does a loss or an activation satisfy the assumptions of the theory? A sound symbolic analysis of its structure.

Two assumptions of [D] (arXiv:2609.03858) restrict the loss:

- Assumption 1.3: continuous with at most polynomial growth (Theorem 1 needs it to pass expectations to the limit);
- Assumption 2.1: four times continuously differentiable with polynomially growing derivatives (the flows need it).

The analysis walks the expression and keeps, for every part f, an enclosure of its range and a bound on its polynomial
growth; it accepts only what it can prove, by these rules (all derivatives of an accepted part grow polynomially):

- sums, products, positive integer powers, and ``tanh erf erfc sin cos atan asinh`` of accepted parts;
- ``exp(f)`` when f is bounded above (an interval bound, or a quadratic polynomial bounded above);
- other powers and ``log f`` when f is bounded away from 0 on the right side; ``log f`` also when f is *log-regular*:
  built by sums, products and powers from positive constants, exponentials of accepted parts and parts bounded below
  by a positive number (for these every derivative of log f is polynomially bounded);
- ratios such as the softmax: ``N/D`` with D a product of powers of sums of positive multiples of exponentials, when
  each exponential of N lies in the convex hull of those of D (then it is at most D, by weighted AM-GM); also times
  accepted parts, such as sums that hold other ratios.

An expression that is fine but outside these rules is refused with the part that could not be proved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
from scipy.optimize import linprog

from aimtheory.errors import AssumptionError, InputError

_GROWTH = "Assumption 1.3 of [D]: continuous with at most polynomial growth"
_SMOOTHNESS = "Assumption 2.1 of [D]: four times continuously differentiable with polynomially growing derivatives"
_MAXIMAL_TERMS = 2000


@dataclass(frozen=True)
class Regularity:
    """What was proved: ``lower <= f <= upper`` and ``|f| = O(1 + |G|^degree)``."""

    lower: float
    upper: float
    degree: float
    exponential: bool = False


class _Violation(Exception):
    def __init__(self, assumption: str, part: sp.Basic, why: str, exponential: bool = False) -> None:
        super().__init__(why)
        self.assumption, self.part, self.why, self.exponential = assumption, part, why, exponential


def check_regularity(
    expression: sp.Expr,
    variables: Sequence[sp.Basic],
    what: str = "loss",
    allow_exponential_growth: bool = False,
) -> Regularity:
    """Prove Assumptions 1.3 and 2.1 of [D] for an expression in the variables, or raise ``AssumptionError``.

    ``allow_exponential_growth`` lets exponentials of at most linear growth through (``exp(G)``): their Gaussian
    expectations exist, but Theorem 1 does not cover them.

    >>> x = sp.Symbol("x", real=True)
    >>> check_regularity(sp.exp(x) / (1 + sp.exp(x)), [x]).degree
    0.0
    >>> check_regularity(sp.Abs(x), [x])
    Traceback (most recent call last):
        ...
    aimtheory.errors.AssumptionError: loss: Abs(x) is not differentiable at 0; it breaks Assumption 2.1 of [D]: four \
times continuously differentiable with polynomially growing derivatives
    """
    stand_ins = {variable: sp.Symbol(f"v{n}", real=True) for n, variable in enumerate(variables)}
    back = {symbol: variable for variable, symbol in stand_ins.items()}
    replaced = sp.sympify(expression).xreplace(stand_ins)
    replaced = replaced.replace(sp.cosh, lambda a: (sp.exp(a) + sp.exp(-a)) / 2)
    replaced = replaced.replace(sp.sinh, lambda a: (sp.exp(a) - sp.exp(-a)) / 2)
    extra = replaced.free_symbols - set(back)
    if extra:
        names = ", ".join(sorted(map(str, extra)))
        raise InputError(f"{what} has the unknown symbols {names}; its variables are {', '.join(map(str, variables))}")
    if replaced.has(sp.nan, sp.oo, -sp.oo, sp.zoo, sp.I):
        raise InputError(f"{what} = {expression} is not a finite real expression")
    try:
        return _Analysis(allow_exponential_growth).analyse(replaced)
    except _Violation as violation:
        part = violation.part.xreplace(back) if isinstance(violation.part, sp.Basic) else violation.part
        hint = ""
        if violation.exponential:
            hint = "; pass allow_exponential_growth=True to compute it all the same, without the theorem behind it"
        raise AssumptionError(
            f"{what}: {_shorten(part)} {violation.why}; it breaks {violation.assumption}{hint}"
        ) from None


def _shorten(part: object) -> str:
    text = str(part)
    return text if len(text) <= 120 else f"{text[:117]}..."


class _Analysis:
    def __init__(self, allow_exponential_growth: bool) -> None:
        self.allow = allow_exponential_growth
        self.memory: dict[sp.Expr, Regularity] = {}

    def analyse(self, part: sp.Expr) -> Regularity:
        if part not in self.memory:
            self.memory[part] = self._analyse(part)
        return self.memory[part]

    def _analyse(self, part: sp.Expr) -> Regularity:
        if part.is_number:
            value = float(part)
            if not math.isfinite(value):
                raise _Violation(_GROWTH, part, "is not finite")
            return Regularity(value, value, 0.0)
        if part.is_Symbol:
            return Regularity(-math.inf, math.inf, 1.0)
        if part.is_Add:
            return self._sum(part)
        if part.is_Mul:
            return self._product(part)
        if isinstance(part, sp.exp):
            return self._exponential(part)
        if part.is_Pow:
            return self._power(part)
        if isinstance(part, sp.log):
            return self._logarithm(part)
        return self._function(part)

    def _sum(self, part: sp.Expr) -> Regularity:
        terms = [self.analyse(term) for term in part.args]
        lower, upper = sum(t.lower for t in terms), sum(t.upper for t in terms)
        quadratic = _quadratic_range(part)
        if quadratic is not None:
            lower, upper = max(lower, quadratic[0]), min(upper, quadratic[1])
        return Regularity(lower, upper, max(t.degree for t in terms), any(t.exponential for t in terms))

    def _product(self, part: sp.Expr) -> Regularity:
        try:
            factors = [self.analyse(factor) for factor in part.args]
        except _Violation as violation:
            ratio = self._ratio(part)
            if ratio is None:
                raise violation from None
            return ratio
        lower, upper, degree = 1.0, 1.0, 0.0
        for factor in factors:
            corners = [_times(a, b) for a in (lower, upper) for b in (factor.lower, factor.upper)]
            lower, upper, degree = min(corners), max(corners), degree + factor.degree
        return Regularity(lower, upper, degree, any(f.exponential for f in factors))

    def _exponential(self, part: sp.Expr) -> Regularity:
        (exponent,) = part.args
        inner = self.analyse(exponent)
        if inner.upper < math.inf and not inner.exponential:
            return Regularity(_exp(inner.lower), _exp(inner.upper), 0.0)
        if self.allow and inner.degree <= 1 and not inner.exponential:
            return Regularity(_exp(inner.lower), math.inf, 0.0, exponential=True)
        if inner.degree <= 1 and not inner.exponential:
            raise _Violation(_GROWTH, part, "grows exponentially", exponential=True)
        raise _Violation(_GROWTH, part, "grows faster than exponentially, or could not be bounded")

    def _power(self, part: sp.Expr) -> Regularity:
        base, exponent = part.as_base_exp()
        if not exponent.is_number:
            raise _Violation(_GROWTH, part, "has an exponent that varies; write it with exp and log")
        power = float(exponent)
        try:
            inner = self.analyse(base)
        except _Violation as violation:
            ratio = self._ratio(part)
            if ratio is None:
                raise violation from None
            return ratio
        if exponent.is_Integer and power > 0:
            corners = [_power(inner.lower, power), _power(inner.upper, power)]
            lower, upper = min(corners), max(corners)
            if int(power) % 2 == 0 and inner.lower < 0 < inner.upper:
                lower = 0.0
            return Regularity(lower, upper, inner.degree * power, inner.exponential)
        away = inner.lower > 0 or (inner.upper < 0 and exponent.is_Integer)
        if not away:
            ratio = self._ratio(part)
            if ratio is not None:
                return ratio
            why = "has a pole" if power < 0 else "is not smooth"
            raise _Violation(_SMOOTHNESS, part, f"{why} where its base vanishes, or the base could not be bounded away")
        if inner.exponential and power < 0:
            inner = Regularity(inner.lower, inner.upper, 0.0)
        corners = [_power(inner.lower, power), _power(inner.upper, power)]
        degree = inner.degree * power if power > 0 else 0.0
        return Regularity(min(corners), max(corners), degree, inner.exponential)

    def _logarithm(self, part: sp.Expr) -> Regularity:
        (argument,) = part.args
        try:
            inner = self.analyse(argument)
        except _Violation as violation:
            degree = self._log_regular(argument)
            if degree is None:
                raise violation from None
            lower = 0.0 if _at_least_one(argument) else -math.inf
            return Regularity(lower, math.inf, max(degree, 0.0))
        if inner.lower > 0 and not inner.exponential:
            degree = 0.0 if inner.upper < math.inf else inner.degree
            return Regularity(math.log(inner.lower), _log(inner.upper), degree)
        log_degree = self._log_regular(argument)
        if log_degree is None:
            why = "is singular where its argument vanishes, or the argument could not be bounded away from 0"
            raise _Violation(_SMOOTHNESS, part, why)
        lower = 0.0 if _at_least_one(argument) else -math.inf
        return Regularity(lower, _log(inner.upper), log_degree)

    def _function(self, part: sp.Expr) -> Regularity:
        if isinstance(part, (sp.Abs, sp.Max, sp.Min)):
            raise _Violation(
                _SMOOTHNESS, part, "is not differentiable at 0" if isinstance(part, sp.Abs) else "has kinks"
            )
        if isinstance(part, (sp.sign, sp.Heaviside, sp.floor, sp.ceiling, sp.DiracDelta)):
            raise _Violation(_GROWTH, part, "is not continuous")
        if isinstance(part, sp.Piecewise):
            raise _Violation(_SMOOTHNESS, part, "is given by pieces, whose smoothness is not examined")
        ranges = {
            sp.tanh: (-1.0, 1.0), sp.erf: (-1.0, 1.0), sp.erfc: (0.0, 2.0), sp.sin: (-1.0, 1.0), sp.cos: (-1.0, 1.0),
            sp.atan: (-math.pi / 2, math.pi / 2), sp.asinh: (-math.inf, math.inf),
        }  # fmt: skip
        for function, (lower, upper) in ranges.items():
            if isinstance(part, function):
                inner = self.analyse(part.args[0])
                if inner.exponential:
                    raise _Violation(_GROWTH, part, "has derivatives that grow exponentially")
                if function in (sp.tanh, sp.erf, sp.atan, sp.asinh):
                    monotone = {sp.tanh: math.tanh, sp.erf: math.erf, sp.atan: math.atan, sp.asinh: math.asinh}
                    numeric: Callable[[float], float] = monotone[function]
                    lower, upper = float(numeric(inner.lower)), float(numeric(inner.upper))
                return Regularity(lower, upper, inner.degree if function is sp.asinh else 0.0)
        known = "exp log sqrt tanh sinh cosh sin cos atan asinh erf erfc and powers"
        raise _Violation(_SMOOTHNESS, part, f"is not among the functions whose growth is known ({known})")

    def _log_regular(self, part: sp.Expr, structural: bool = False) -> float | None:
        """The growth degree of log(part) when part is log-regular (positive, see the module), else None.

        ``structural`` looks at sums, products and powers of exponentials alone, not at bounds of the parts.
        """
        if part.is_number:
            return 0.0 if float(part) > 0 else None
        if isinstance(part, sp.exp):
            try:
                inner = self.analyse(part.args[0])
            except _Violation:
                return None
            return None if inner.exponential else inner.degree
        if part.is_Add or part.is_Mul:
            degrees = [self._log_regular(term, structural) for term in part.args]
            known = [degree for degree in degrees if degree is not None]
            if len(known) == len(degrees):
                return max(known)
        if part.is_Pow and part.exp.is_number:
            inner_degree = self._log_regular(part.base, structural)
            if inner_degree is not None:
                return inner_degree
        if structural:
            return None
        try:
            whole = self.analyse(part)
        except _Violation:
            return None
        return whole.degree if whole.lower > 0 and not whole.exponential else None

    def _ratio(self, part: sp.Expr) -> Regularity | None:
        """Boundedness (times a polynomial) of exponentials over sums of exponentials, or None if not proved."""
        numerator: list[tuple[sp.Expr, Regularity]] = [(sp.S.Zero, Regularity(1.0, 1.0, 0.0))]
        denominators: list[tuple[list[sp.Expr], float]] = []
        for factor in sp.Mul.make_args(part):
            base, exponent = factor.as_base_exp() if not isinstance(factor, sp.exp) else (factor, sp.S.One)
            if not exponent.is_number:
                return None
            terms = self._exponential_sum(base)
            if terms is None:
                # Not a sum of exponentials, but accepted by itself, as a sum that holds another ratio: a coefficient.
                try:
                    found = self.analyse(factor)
                except _Violation:
                    return None
                if found.exponential:
                    return None
                numerator = [
                    (a, Regularity(-math.inf, math.inf, coefficient.degree + found.degree))
                    for a, coefficient in numerator
                ]
                continue
            if exponent.is_Integer and exponent > 0:
                if len(numerator) * len(terms) ** int(exponent) > _MAXIMAL_TERMS:
                    return None
                for _ in range(int(exponent)):
                    numerator = [
                        (sp.expand(a + b), Regularity(-math.inf, math.inf, ra.degree + rb.degree))
                        for (a, ra), (b, rb) in itertools.product(numerator, terms)
                    ]
            elif exponent < 0 and all(coefficient.lower > 0 for _, coefficient in terms):
                denominators.append(([sp.expand(a) for a, _ in terms], -float(exponent)))
            else:
                return None
        if not denominators:
            return None
        if not all(_in_hull(exponent, denominators) for exponent, _ in numerator):
            return None
        degree = max(coefficient.degree for _, coefficient in numerator)
        positive = self._log_regular(part, structural=True) is not None
        # A single softmax-like ratio with a unit-coefficient copy of its numerator below is at most 1.
        upper = 1.0 if positive and _is_probability(part) else math.inf
        return Regularity(0.0 if positive else -math.inf, upper, degree)

    def _exponential_sum(self, part: sp.Expr) -> list[tuple[sp.Expr, Regularity]] | None:
        """part as a list of (exponent, coefficient) meaning sum coefficient*exp(exponent); None if it is not one."""
        result: list[tuple[sp.Expr, Regularity]] = []
        for term in sp.Add.make_args(part):
            exponent, coefficient = sp.S.Zero, Regularity(1.0, 1.0, 0.0)
            for factor in sp.Mul.make_args(term):
                try:
                    if isinstance(factor, sp.exp):
                        inner = self.analyse(factor.args[0])
                        if inner.exponential:
                            return None
                        exponent += factor.args[0]
                        continue
                    found = self.analyse(factor)
                except _Violation:
                    return None
                corners = [
                    _times(a, b) for a in (coefficient.lower, coefficient.upper) for b in (found.lower, found.upper)
                ]
                coefficient = Regularity(min(corners), max(corners), coefficient.degree + found.degree)
                if found.exponential:
                    return None
            result.append((exponent, coefficient))
        return result


def _is_probability(part: sp.Expr) -> bool:
    numerator, denominator = part.as_numer_denom()
    return isinstance(numerator, sp.exp) and denominator.is_Add and numerator in denominator.args


def _at_least_one(argument: sp.Expr) -> bool:
    return (
        argument.is_Add
        and any(term.is_number and term >= 1 for term in argument.args)
        and all(term.is_number or isinstance(term, sp.exp) for term in argument.args)
    )


def _in_hull(exponent: sp.Expr, denominators: list[tuple[list[sp.Expr], float]]) -> bool:
    """Is exponent = sum_i power_i (convex combination of the exponents of denominator i), up to constants?"""
    exponents = [exponent, *itertools.chain.from_iterable(terms for terms, _ in denominators)]
    tables = [{m: float(c) for m, c in sp.expand(e).as_coefficients_dict().items() if m != 1} for e in exponents]
    monomials = sorted({m for table in tables for m in table}, key=sp.default_sort_key)
    columns = len(exponents) - 1
    if columns == 0:
        return False
    equations = [[tables[1 + c].get(m, 0.0) for c in range(columns)] for m in monomials]
    right = [tables[0].get(m, 0.0) for m in monomials]
    start = 0
    for terms, power in denominators:
        equations.append([1.0 if start <= c < start + len(terms) else 0.0 for c in range(columns)])
        right.append(power)
        start += len(terms)
    result = linprog(np.zeros(columns), A_eq=np.array(equations), b_eq=np.array(right), bounds=(0, None))
    return bool(result.status == 0)


def _quadratic_range(part: sp.Expr) -> tuple[float, float] | None:
    variables = sorted(part.free_symbols, key=str)
    if not variables or not part.is_polynomial(*variables):
        return None
    polynomial = sp.Poly(part, *variables)
    if polynomial.total_degree() != 2:
        return None
    hessian = np.array(sp.hessian(part, variables).tolist(), dtype=float)
    at_zero = dict.fromkeys(variables, 0)
    gradient = np.array([float(sp.diff(part, v).subs(at_zero)) for v in variables])
    eigenvalues = np.linalg.eigvalsh(hessian)
    small = 1e-12 * np.abs(eigenvalues).max()
    stationary, *_ = np.linalg.lstsq(hessian, -gradient, rcond=1e-12)
    if not np.allclose(hessian @ stationary, -gradient, rtol=1e-10, atol=1e-10 * (1 + np.abs(gradient).max())):
        return None
    value = float(part.subs(at_zero)) + 0.5 * float(gradient @ stationary)
    slack = 1e-10 * (1 + abs(value))
    if eigenvalues.min() >= -small and eigenvalues.min() >= 0:
        return value - slack, math.inf
    if eigenvalues.max() <= small and eigenvalues.max() <= 0:
        return -math.inf, value + slack
    return None


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _log(value: float) -> float:
    return math.log(value) if value < math.inf else math.inf


def _power(value: float, power: float) -> float:
    try:
        return float(value**power)
    except OverflowError:
        return math.inf
    except ZeroDivisionError:
        return math.inf


__all__ = ["Regularity", "check_regularity"]
