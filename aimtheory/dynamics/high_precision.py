"""Trajectories to any number of digits: the zero-closed hierarchy in mpmath, from exact initial moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import mpmath
import numpy as np
import sympy as sp

from aimtheory.checks import check_integer
from aimtheory.dynamics.taylor_integration import taylor_solution
from aimtheory.errors import InputError, NumericsError
from aimtheory.hierarchy import derive
from aimtheory.hierarchy.closure_map import ClosureMap, check_closure_map
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.hierarchy.lambdified import lambdified_drift
from aimtheory.hierarchy.moments import MomentHierarchy, check_degree, moment_symbol
from aimtheory.hierarchy.observables import Loss, Observable, OverlapReader, TracePolynomial, read_observables
from aimtheory.model import AttentionModel, model_summary
from aimtheory.population import population_loss
from aimtheory.records import Result, Variable, record
from aimtheory.scalars import to_sympy
from aimtheory.words import Word

_GUARD_DIGITS = 12
"""Working digits beyond those asked for: extrapolation cancels a few."""


@record("precise-trajectory")
@dataclass(frozen=True, eq=False)
class PreciseTrajectory(Result):
    """Values with ``digits`` decimal digits: ``run["q_12"]`` is a tuple of mpmath numbers over ``times``.

    ``error`` is the largest local error estimate that the integrator let through, summed over its steps.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("time",)

    model: AttentionModel
    degree: int
    digits: int
    times: tuple[Any, ...]
    values: Mapping[str, tuple[Any, ...]]
    error: Any

    def variables(self) -> tuple[Variable, ...]:
        """Observables over time, rounded to floats; the record holds every digit."""
        return (
            Variable("time", np.array([float(t) for t in self.times]), ("time",), "time", "learning time"),
            *(
                Variable(name, np.array([float(value) for value in values]), ("time",), name)
                for name, values in self.values.items()
            ),
        )

    def summary(self) -> dict[str, Any]:
        """``times`` and ``values`` as strings of ``digits`` decimal digits."""
        with mpmath.workdps(self.digits + _GUARD_DIGITS):
            texts = {name: [mpmath.nstr(value, self.digits) for value in row] for name, row in self.values.items()}
            times = [mpmath.nstr(time, self.digits) for time in self.times]
        summary = {**model_summary(self.model), "degree": self.degree, "digits": self.digits}
        return {**summary, "times": times, "values": texts, "error": mpmath.nstr(self.error, 3)}

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        if name not in self.values:
            raise InputError(f"{name!r} was not computed; the observables of this run are {', '.join(self.values)}")
        return self.values[name]


def solve_to_digits(
    model: AttentionModel,
    *,
    degree: int,
    times: Sequence[object],
    digits: int = 30,
    observables: Iterable[str | Word | Observable] | None = None,
    integrator: str = "extrapolation",
    closure: ClosureMap | None = None,
) -> PreciseTrajectory:
    """The hierarchy of degree M, closed by zero ([D] (13)) or by a closure map, solved to ``digits`` decimal digits.

    Initial moments are exact rationals from the laws and the gradients of the potential its symbolic closed form.
    ``integrator`` is ``"extrapolation"`` (Gragg-Bulirsch-Stoer in mpmath) or ``"taylor"`` (the optional library
    heyoka, faster at many digits). The result is that of the *truncated* system: many digits of it say nothing of the
    truncation error. Times may be text such as ``"1/10"``, to be exact. Raises ``InputError`` for a potential without
    a closed form (softmax), for which ``solve`` gives double precision, and ``NumericsError`` when the truncated
    equations blow up.

    >>> import aimtheory as aim
    >>> run = solve_to_digits(aim.models.load("exact-linear"), degree=3, times=["1/10"], digits=40)
    >>> mpmath.nstr(run["t_1"][0], 12)
    '0.54'
    """
    degree = check_degree(degree)
    digits = check_integer(digits, "digits", 1, 1000)
    if integrator not in ("extrapolation", "taylor"):
        raise InputError(f"unknown integrator {integrator!r}; choose 'extrapolation' or 'taylor'")
    hierarchy = derive(model, degree)
    chosen = [one for one in read_observables(observables, model, hierarchy.views) if not isinstance(one, Loss)]
    with mpmath.workdps(digits + _GUARD_DIGITS):
        grid = [_number(t, f"times[{n}]") for n, t in enumerate(times)]
        if not grid or grid[0] < 0 or any(b <= a for a, b in pairwise(grid)):
            raise InputError(f"times = {list(times)} must increase from 0 or later")
        law = initial_law(model, hierarchy.views)
        moments = [_number(law.moment([str(x) for x in word]), f"tr({word})") for word in hierarchy.words]
        start = np.array(moments, dtype=object)
        tolerance = mpmath.mpf(10) ** -(digits + 3)
        if integrator == "taylor":
            states, error = taylor_solution(_closed_equations(hierarchy, closure), moments, grid), mpmath.eps
        else:
            states, error = _extrapolate(_right_hand_side(hierarchy, closure), start, grid, tolerance)
        values = {
            one.name: tuple(one.evaluate(_PreciseReading(hierarchy, state)) for state in states) for one in chosen
        }
    return PreciseTrajectory(model, degree, digits, tuple(grid), values, error)


def _number(value: object, name: str) -> Any:
    from aimtheory.scalars import to_scalar

    expression = to_sympy(to_scalar(value, name))
    if expression.free_symbols:
        raise InputError(f"{name} = {expression} is symbolic; give a number")
    return sp.N(expression, mpmath.mp.dps + 5)._to_mpmath(mpmath.mp.prec)


def _gradients(hierarchy: MomentHierarchy) -> tuple[list[sp.Expr], list[sp.Symbol], list[TracePolynomial]]:
    """The couplings as expressions of the overlaps q_kl, those symbols, and the overlaps as trace polynomials."""
    model, views = hierarchy.model, hierarchy.views
    if model.traces:
        raise InputError("solve_to_digits takes models without explicit traces; use solve() for double precision")
    if not all(matrix.is_symmetric for matrix in views.matrices):
        raise InputError("solve_to_digits takes tied models; this model has attention matrices that are not symmetric")
    phi = population_loss(model)
    count = len(model.forms)
    q = sp.Matrix(count, count, lambda k, l: sp.Symbol(f"q_{min(k, l) + 1}_{max(k, l) + 1}", real=True))
    value = phi.symbolic_value([0] * count, q, q)
    if value is None:
        raise InputError(
            f"the potential of {model.name} has no closed form, so its gradients have no arbitrary-precision value; "
            "use solve() for double precision, or a polynomial or erf activation"
        )
    # The absolute values in closed forms are of 1 + variances, which are positive; their signs need not be kept.
    value = value.replace(sp.Abs, lambda argument: argument)
    pairs = [(k, l) for k in range(count) for l in range(k, count)]
    # [grad Phi]_kl is half the derivative by the shared off-diagonal variable.
    gradients = [
        sp.diff(value, q[c.k, c.l]) / (1 if c.k == c.l else 2) if c.kind != "decay" else to_sympy(model.weight_decay)
        for c in views.couplings
    ]
    reader = OverlapReader.of(views)
    return gradients, [q[k, l] for k, l in pairs], [reader.plain[k][l] for k, l in pairs]


def _closed_equations(hierarchy: MomentHierarchy, closure: ClosureMap | None) -> dict[sp.Symbol, sp.Expr]:
    """d moment/dt of every word as an expression of the moments alone, words above the degree closed."""
    gradients, symbols, overlaps = _gradients(hierarchy)
    moments = {word: moment_symbol(word) for word in hierarchy.words}
    values = {
        symbol: sp.nsimplify(p.constant, rational=True)
        + sum(sp.nsimplify(c, rational=True) * moments[w] for w, c in zip(p.words, p.coefficients, strict=True))
        for symbol, p in zip(symbols, overlaps, strict=True)
    }
    known = {
        c.symbol: gradient.subs(values, simultaneous=True)
        for c, gradient in zip(hierarchy.views.couplings, gradients, strict=True)
    }
    missing = {moment_symbol(word): value for word, value in check_closure_map(hierarchy, closure).items()}
    return {moments[word]: rhs.xreplace(missing).xreplace(known) for word, rhs in hierarchy.equations.items()}


def _right_hand_side(hierarchy: MomentHierarchy, closure: ClosureMap | None) -> Callable[[np.ndarray], np.ndarray]:
    gradients, symbols, overlaps = _gradients(hierarchy)
    couplings = sp.lambdify(symbols, gradients, modules="mpmath")
    rows = [[(hierarchy.index(w), c) for w, c in zip(p.words, p.coefficients, strict=True)] for p in overlaps]
    constants = [p.constant for p in overlaps]
    moments = lambdified_drift(hierarchy, "mpmath", closure)

    def right_hand_side(state: np.ndarray) -> np.ndarray:
        values = [sum((c * state[n] for n, c in row), mpmath.mpf(c0)) for row, c0 in zip(rows, constants, strict=True)]
        return np.array([mpmath.mpf(x) for x in moments(couplings(*values), list(state))], dtype=object)

    return right_hand_side


@dataclass(frozen=True)
class _PreciseReading:
    """Moments in arbitrary precision, as observables read them."""

    hierarchy: MomentHierarchy
    state: np.ndarray

    def moments(self, words: Sequence[Word]) -> np.ndarray:
        """Moments of the state, as objects."""
        return np.array([self.state[self.hierarchy.index(word)] for word in words], dtype=object)

    def mean(self, k: int) -> float:
        """Zero: the forms of tied models are centred."""
        raise InputError(f"m_{k + 1} is the mean of a form; solve_to_digits takes tied models, whose forms are centred")

    def loss(self) -> float:
        """Not read here."""
        raise InputError("solve_to_digits does not compute the loss; use solve() for double precision")


def _extrapolate(
    drift: Callable[[np.ndarray], np.ndarray], start: np.ndarray, times: Sequence[Any], tolerance: Any
) -> tuple[list[np.ndarray], Any]:
    """Gragg-Bulirsch-Stoer: modified midpoint with 2, 4, 6, ... substeps, extrapolated in the square of the substep."""
    stages = max(6, min(40, mpmath.mp.dps // 3 + 3))
    time, state, total = mpmath.mpf(0), start, mpmath.mpf(0)
    step = times[-1] / 8 if times[-1] > 0 else mpmath.mpf(1)
    states = []
    for target in times:
        while time < target:
            width = min(step, target - time)
            new, error, used = _midpoint_table(drift, state, width, stages, tolerance)
            if not error <= tolerance or not all(mpmath.isfinite(x) for x in new):
                step = width / 2
                if step < mpmath.mpf(10) ** -6 * times[-1]:
                    raise NumericsError(
                        f"the truncated equations could not be continued past t = {mpmath.nstr(time, 8)} at this "
                        "precision: they blow up; lower the final time"
                    )
                continue
            time, state, total = time + width, new, total + error
            # Convergence in few stages means that the step could have been longer.
            step = width * (2 if used <= stages // 2 else 1) if width == step else max(step, width)
        states.append(state)
    return states, total


def _midpoint_table(
    drift: Callable[[np.ndarray], np.ndarray], state: np.ndarray, width: Any, stages: int, tolerance: Any
) -> tuple[np.ndarray, Any, int]:
    rows: list[list[np.ndarray]] = []
    slope = drift(state)
    error = mpmath.inf
    for stage in range(stages):
        substeps = 2 * (stage + 1)
        h = width / substeps
        before, here = state, state + h * slope
        for _ in range(substeps - 1):
            before, here = here, before + 2 * h * drift(here)
        row = [(before + here + h * drift(here)) / 2]
        for column in range(1, stage + 1):
            ratio = (mpmath.mpf(stage + 1) / (stage + 1 - column)) ** 2
            row.append(row[column - 1] + (row[column - 1] - rows[-1][column - 1]) / (ratio - 1))
        if rows:
            error = max(
                (abs(a - b) / max(1, abs(a)) for a, b in zip(row[-1], rows[-1][-1], strict=True)), default=mpmath.mpf(0)
            )
            if error <= tolerance:
                return row[-1], error, stage
        rows.append(row)
    return rows[-1][-1], error, stages


__all__ = ["PreciseTrajectory", "solve_to_digits"]
