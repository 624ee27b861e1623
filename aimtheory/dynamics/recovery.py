"""Weak recovery: does a model escape its uninformative start, how fast, and why ([D] Corollaries 3, 4 and 7).

The structural overlap p_kl = tr(S_k S_l^T) - tr S_k tr S_l of a trained index with a fixed one is zero at an
uninformative start. Its velocity there follows from the hierarchy for any factorization; for the built-in ones it is
(17), (42) and Corollary 7. Where it vanishes the question is whether the cross-gradients vanish on the whole
uninformative manifold, which then traps the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.coupling_values import CouplingValues
from aimtheory.dynamics.fast_mean import FastMean
from aimtheory.dynamics.integrate import Event
from aimtheory.dynamics.solve import solve
from aimtheory.dynamics.trajectory import Trajectory
from aimtheory.errors import AssumptionError, InputError
from aimtheory.hierarchy import views
from aimtheory.hierarchy.initial_moments import initial_law, initial_means
from aimtheory.hierarchy.moments import check_model
from aimtheory.hierarchy.observables import TracePolynomial, trace_drift
from aimtheory.model import AttentionModel, model_summary
from aimtheory.population import PopulationLoss
from aimtheory.records import Result, Variable, numbers, record
from aimtheory.scalars import to_sympy
from aimtheory.words import spelled_indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aimtheory.words import Word

_ZERO = 1e-9
"""Velocities below this, relative to the scale of the teacher, are zero to the accuracy of the cubature."""


@record("vanishing")
@dataclass(frozen=True)
class Vanishing:
    """Whether the cross-gradients of the potential vanish on the uninformative manifold, and how that is known.

    ``verdict`` is ``"proved"`` (the symbolic gradient is zero in all student variables), ``"bounded"`` (at most
    ``bound`` at all sampled points: evidence, not a proof) or ``"no"``. ``for_any_mean`` says that the student's mean
    does not matter: the teacher has no first-order signal.
    """

    verdict: str
    bound: float
    expression: str
    for_any_mean: bool


@record("recovery")
@dataclass(frozen=True, eq=False)
class Recovery(Result):
    """Weak recovery of one fixed index by one trained index, from an uninformative start.

    ``velocity`` is dp_kl/dt at time 0 in the model's units of time; ``channels`` the velocities of q1_kl, q2_kl and
    of their symmetric (plus) and skew (minus) parts. ``threshold_time`` is the first time T at which |p_kl| reaches
    ``level`` (None when it does not by ``horizon``), so that N = T d/(clock x learning_rate) samples;
    ``scaling`` is Theta(d^2 log d), at the learning rate Theta(1/(d log d)), or "not on this scale". ``contraction``
    is the least effective Polyak-Lojasiewicz constant c in -dPhi/dt >= 2 c (Phi - Phi at the teacher) up to there.
    """

    model: AttentionModel
    pair: tuple[int, int]
    parameterization: str
    recovers: bool
    velocity: float
    channels: Mapping[str, float]
    mean: tuple[float, ...]
    vanishing: Vanishing
    level: float
    threshold_time: float | None
    horizon: float
    samples: str
    scaling: str
    contraction: float | None
    reason: str
    trajectory: Trajectory | None = field(repr=False, default=None)

    def variables(self) -> tuple[Variable, ...]:
        """One row."""
        return (
            Variable("model", self.model.name, (), "model"),
            *numbers(
                self,
                parameterization="parameterization",
                recovers="whether it weakly recovers",
                velocity="dp/dt at the start",
                level="threshold of |p|",
                threshold_time="time at which |p| reaches the level",
                horizon="longest time followed",
                samples="samples",
                scaling="scaling of the samples",
                contraction="least slope constant before recovery",
                reason="reason",
            ),
            *(Variable(f"velocity_{name}", value, (), f"velocity of {name}") for name, value in self.channels.items()),
        )

    def summary(self) -> dict[str, Any]:
        """``recovers``, ``velocity``, ``reason``, ``channels``, ``threshold`` (the level), ``threshold_time``,
        ``samples``.
        """
        return {
            **model_summary(self.model),
            "parameterization": self.parameterization,
            "pair": [index + 1 for index in self.pair],
            "recovers": self.recovers,
            "velocity": self.velocity,
            "channels": dict(self.channels),
            "mean": list(self.mean),
            "reason": self.reason,
            "vanishing": {
                "verdict": self.vanishing.verdict,
                "bound": self.vanishing.bound,
                "expression": self.vanishing.expression,
                "for_any_mean": self.vanishing.for_any_mean,
            },
            "threshold": self.level,
            "threshold_time": self.threshold_time,
            "horizon": self.horizon,
            "samples": self.samples,
            "scaling": self.scaling,
            "contraction": self.contraction,
        }

    def samples_at(self, dim: int, learning_rate: float) -> float | None:
        """N = T d/(clock x learning_rate) at a dimension and learning rate; None without a threshold time."""
        if self.threshold_time is None:
            return None
        return self.threshold_time * dim / (float(self.model.clock) * learning_rate)

    def __str__(self) -> str:
        verdict = "recovers" if self.recovers else "does not recover"
        pair = spelled_indices(*self.pair)
        lines = [
            f"{self.model.name} ({self.parameterization}) {verdict}: {self.reason}",
            f"  velocity dp_{pair}/dt at 0: {self.velocity:.6g}",
        ]
        if self.threshold_time is not None:
            time = f"T = {self.threshold_time:.6g}"
            lines.append(f"  |p| reaches {self.level:.4g} at {time}: {self.samples} samples, {self.scaling}")
        elif self.trajectory is not None:
            lines.append(f"  |p| stays below {self.level:.4g} up to t = {self.horizon:.4g}: {self.scaling}")
        if self.contraction is not None:
            lines.append(f"  effective Polyak-Lojasiewicz constant along the trajectory: {self.contraction:.4g}")
        return "\n".join(lines)


def recovery(
    model: AttentionModel,
    *,
    level: float | None = None,
    horizon: float | None = None,
    degree: int = 7,
    closure: str | None = None,
    follow: bool = True,
) -> Recovery:
    """Does a trained index weakly recover the fixed one, at what speed, in how many samples, and why.

    ``level`` is the threshold c of |p| (default: a tenth of the largest overlap possible, p_22 or q1_22); ``follow``
    solves the trajectory up to it, at ``degree`` with gns (or the closed equations of direct optimization), for at
    most ``horizon`` units of time. The velocity is exact in the limit d -> infinity but for the cubature of the
    potential. Raises ``InputError`` unless the model has exactly one trained and at least one fixed index,
    ``AssumptionError`` when the start is informative already.

    >>> import aimtheory as aim
    >>> aim.recovery(aim.models.load("direct-hermite2"), follow=False).recovers
    False
    """
    check_model(model)
    k, teacher = _pair(model)
    seen = views(model)
    couplings = CouplingValues(model, seen)
    law = initial_law(model, seen)

    def moments(words: Sequence[Word]) -> FloatArray:
        return np.array([float(law.moment([str(letter) for letter in word])) for word in words])

    order = couplings.order_parameters(moments)
    values = couplings.evaluate(moments, order.branch).couplings
    first, second = seen.matrices[k], seen.matrices[teacher]
    traces = [_value(TracePolynomial.of(matrix), moments) for matrix in (first, second)]
    strength = _value(TracePolynomial.of(second * second.T), moments) - traces[1] ** 2
    overlap = _value(TracePolynomial.of(first * second.T), moments) - traces[0] * traces[1]
    if abs(overlap) > 1e-9 * max(1.0, strength):
        raise AssumptionError(
            f"the start is informative: p_{spelled_indices(k, teacher)}(0) = {overlap:.6g}; weak recovery is asked "
            "from p = 0 (Assumption 3), with student and teacher independent"
        )
    if strength <= 0:
        raise AssumptionError(
            f"the teacher has no traceless part, p_{spelled_indices(teacher, teacher)} = {strength:.3g}: nothing to "
            "recover"
        )

    def rate(polynomial_of: str) -> float:
        product = first * (second.T if polynomial_of == "q1" else second)
        total = 0.0
        for coupling, value in zip(seen.couplings, values, strict=True):
            slope = _value(trace_drift(seen, product, coupling), moments)
            shift = _value(trace_drift(seen, first, coupling), moments) * traces[1]
            total += value * (slope - shift)
        return float(total)

    q1, q2 = rate("q1"), rate("q2")
    channels = {"q1": q1, "q2": q2, "plus": (q1 + q2) / 2, "minus": (q1 - q2) / 2}
    scale = max(1.0, strength) * max(1.0, float(np.abs(values).max(initial=0.0)))
    moves = bool(max(abs(q1), abs(q2)) > _ZERO * scale)
    vanishing = _vanishing(model, couplings.potential, k, teacher, order.mean, order.q1, order.q2, traces)
    kind = model.forms[k].parameterization
    threshold = 0.1 * strength if level is None else level
    if not isinstance(threshold, int | float | np.number) or not 0 < threshold < np.inf:
        raise InputError(f"level = {level} must be a positive number")
    speed = max(abs(q1), _ZERO)
    span = (50 * threshold / speed if moves else 5.0) if horizon is None else horizon
    if not (np.isfinite(span) and span > 0):
        raise InputError(f"horizon = {horizon} must be a positive number")
    run, time, contraction = None, None, None
    if follow:
        run, time = _follow(model, f"p_{spelled_indices(k, teacher)}", threshold, span, degree, closure, kind)
    if run is not None and time is not None:
        contraction = _contraction(run, couplings.potential, teacher, order.q1, order.q2, order.mean)
    trapped = vanishing.verdict in ("proved", "bounded")
    recovers = moves or (time is not None and not trapped)
    factor = model.clock
    return Recovery(
        model=model,
        pair=(k, teacher),
        parameterization=kind,
        recovers=recovers,
        velocity=q1,
        channels=channels,
        mean=tuple(float(m) for m in order.mean),
        vanishing=vanishing,
        level=threshold,
        threshold_time=time,
        horizon=span,
        samples=f"N = T d/({factor} alpha_d)" if factor != 1 else "N = T d/alpha_d",
        scaling="Theta(d^2 log d)" if recovers else "not on this scale",
        contraction=contraction,
        reason=_reason(
            kind, moves, trapped, time is not None, vanishing, order.mean[k], traces[0], couplings.start_mean[k]
        ),
        trajectory=run,
    )


def _pair(model: AttentionModel) -> tuple[int, int]:
    trained = [k for k, moves in enumerate(model.trained_forms) if moves]
    fixed = [k for k, moves in enumerate(model.trained_forms) if not moves]
    if len(trained) != 1 or not fixed:
        raise InputError(
            f"recovery asks for one trained index and a fixed one; this model has {len(trained)} trained and "
            f"{len(fixed)} fixed"
        )
    return trained[0], fixed[0]


def _value(polynomial: TracePolynomial, moments: Callable[[Sequence[Word]], FloatArray]) -> float:
    return float(polynomial(moments))


def _follow(
    model: AttentionModel, name: str, level: float, span: float, degree: int, closure: str | None, kind: str
) -> tuple[Trajectory, float | None]:
    chosen = ("zero" if kind == "direct" else "gns") if closure is None else closure
    events = [Event(name, level, terminal=True), Event(name, -level, terminal=True)]
    order = 2 if chosen == "zero" and kind == "direct" else degree
    run = solve(
        model,
        degree=order,
        times=np.linspace(0.0, span, 33),
        closure=chosen,
        observables=[name, "loss"],
        events=events,
        check=False,
        rtol=1e-8,
        atol=1e-10,
    )
    crossings = [t for times in run.events.values() for t in times]
    return run, min(crossings) if crossings else None


def _contraction(
    run: Trajectory, potential: PopulationLoss, teacher: int, q1: FloatArray, q2: FloatArray, mean: FloatArray
) -> float | None:
    """min over the trajectory of -dPhi/dt / (2 (Phi - Phi at the teacher)), by differences of the dense output."""
    if run.dense is None or len(run.times) < 2 or run.times[-1] <= 0:
        return None
    count = len(mean)
    best_q1, best_q2 = np.full((count, count), q1[teacher, teacher]), np.full((count, count), q2[teacher, teacher])
    floor = float(potential.value(np.full(count, mean[teacher]), best_q1, best_q2).value)
    times = np.linspace(0.0, float(run.times[-1]), 129)
    loss = run.at(times, ["loss"])["loss"]
    gap = loss - floor
    slope = -np.gradient(loss, times)
    usable = gap > 1e-9 * max(1.0, float(np.abs(loss).max()))
    return float((slope[usable] / (2 * gap[usable])).min()) if usable.any() else None


def _reason(
    kind: str, moves: bool, trapped: bool, crossed: bool, vanishing: Vanishing, mean: float, trace: float, start: float
) -> str:
    if moves and kind == "tied":
        return (
            f"PSD symmetry breaking: tr S_1 = {trace:.4g} > 0 couples the teacher's traceless part to the student "
            "through a cross-gradient that is not zero (Corollary 3)"
        )
    if moves and kind == "untied" and abs(mean) > 1e-6:
        return (
            f"symmetry repaired by the fast mean: it settles at m* = {mean:.4g}, where the cross-gradient is not zero "
            "(Corollary 4)"
        )
    if moves:
        return {
            "untied": "the cross-gradient is not zero at the mean that the fast flow selects (Corollary 4)",
            "direct": "the cross-gradient is not zero on a channel in which the teacher has strength (Corollary 7)",
        }.get(kind, "the velocity of the overlap at the uninformative start is not zero")
    if trapped:
        how = "identically" if vanishing.verdict == "proved" else f"(to {vanishing.bound:.1e}, at all sampled points)"
        if vanishing.for_any_mean:
            return (
                f"the teacher has no first-order signal: the cross-gradients vanish {how} on the uninformative "
                "manifold, whatever the student"
            )
        if kind == "untied":
            return (
                f"symmetry survives the fast relaxation: at m* = {mean:.4g}, reached from m(0) = {start:.4g}, the "
                f"cross-gradients vanish {how} on the uninformative manifold"
            )
        return f"the cross-gradients vanish {how} on the uninformative manifold, which traps the flow"
    if crossed:
        return "the velocity vanishes at the start but not on the whole uninformative manifold: escape at higher order"
    return (
        "the velocity vanishes at the start, no escape was seen in the time followed, and the cross-gradients do not "
        "vanish on the whole manifold: undecided beyond this time"
    )


def fixed_overlaps(model: AttentionModel, k: int) -> tuple[sp.Expr, sp.Expr, sp.Expr] | None:
    """(tr S, tr S S^T, tr S^2) of a form of one term from the laws of its letters; None where they say nothing."""
    kind, letters = model.forms[k].parameterization, model.forms[k].matrix.letters
    laws = [model.parameter(letter.name).law for letter in letters]
    if any(law is None for law in laws):
        return None
    if kind == "tied":
        gram = laws[0].gram()  # type: ignore[union-attr]
        if gram is None:
            return None
        second = to_sympy(gram.second_moment)
        return to_sympy(gram.mean), second, second
    try:
        described = [law.free_letter() for law in laws]  # type: ignore[union-attr]
    except InputError:
        return None
    if kind == "untied":
        width = model.widths[letters[0].columns]
        return sp.S.Zero, to_sympy(width) * to_sympy(described[0]) * to_sympy(described[1]), sp.S.Zero
    if kind != "direct":
        return None
    if laws[0].is_self_adjoint:  # type: ignore[union-attr]
        second = to_sympy(described[0].second_moment)  # type: ignore[union-attr]
        return to_sympy(described[0].mean), second, second  # type: ignore[union-attr]
    return sp.S.Zero, to_sympy(described[0]), sp.S.Zero


def _vanishing(
    model: AttentionModel,
    potential: PopulationLoss,
    k: int,
    teacher: int,
    mean: FloatArray,
    q1: FloatArray,
    q2: FloatArray,
    traces: Sequence[float],
) -> Vanishing:
    proof = _symbolic(model, potential, k, teacher, float(mean[k])) if len(model.forms) == 2 else None
    return proof if proof is not None else _sampled(model, potential, k, teacher, mean, q1, q2, traces)


def _symbolic(
    model: AttentionModel, potential: PopulationLoss, k: int, teacher: int, selected: float
) -> Vanishing | None:
    """The cross-gradients on the uninformative manifold as expressions in the student's variables; None without a
    closed form.
    """
    known = None if model.traces else fixed_overlaps(model, teacher)
    if known is None:
        return None
    trace, first, second = known
    tied = model.symmetric
    student_trace = sp.Symbol("t_1", real=True)
    cross1, cross2 = sp.symbols("c_1 c_2", real=True)
    variance1, variance2 = sp.symbols("q1_11 q2_11", real=True)
    student_mean = sp.Symbol("m_1", real=True)
    teacher_mean = (
        to_sympy(Fraction(0)) if model.centred else sp.nsimplify(initial_means(model)[teacher], rational=True)
    )

    def arrange(own: sp.Expr, shared: sp.Expr, other: sp.Expr) -> list[list[sp.Expr]]:
        grid = [[sp.S.Zero] * 2 for _ in range(2)]
        grid[k][k], grid[teacher][teacher], grid[0][1], grid[1][0] = own, other, shared, shared
        return grid

    if tied:
        grid = arrange(variance1, cross1, first)
        value = potential.symbolic_value([0, 0], grid, grid)
        if value is None:
            return None
        gradients = [sp.simplify(sp.diff(value, cross1).subs(cross1, student_trace * trace))]
        zero = all(g == 0 for g in gradients)
        return Vanishing("proved" if zero else "no", 0.0 if zero else float("nan"), _text(gradients), False)
    means = [sp.S.Zero, sp.S.Zero]
    if not model.centred:
        means[k], means[teacher] = student_mean, teacher_mean
    value = potential.symbolic_value(means, arrange(variance1, cross1, first), arrange(variance2, cross2, second))
    if value is None:
        return None
    start = {cross1: 0, cross2: 0}
    gradients = [sp.simplify(sp.diff(value, c).subs(start)) for c in (cross1, cross2)]
    if all(g == 0 for g in gradients):
        return Vanishing("proved", 0.0, _text(gradients), True)
    if not model.centred:
        # Does m_1 = 0 solve the fast flow whatever the overlaps, and do the cross-gradients vanish there?
        critical = sp.simplify(sp.diff(value, student_mean).subs(start).subs(student_mean, 0)) == 0
        at_zero = [sp.simplify(g.subs(student_mean, 0)) for g in gradients]
        curvature = sp.simplify(sp.diff(value, student_mean, 2).subs(start).subs(student_mean, 0))
        if critical and all(g == 0 for g in at_zero) and abs(selected) < 1e-9:
            return Vanishing("proved", 0.0, f"at m_1 = 0, curvature {curvature}: {_text(at_zero)}", False)
    return Vanishing("no", float("nan"), _text(gradients), False)


def _text(expressions: Sequence[sp.Expr]) -> str:
    return ", ".join(str(e) for e in expressions)


def _sampled(
    model: AttentionModel,
    potential: PopulationLoss,
    k: int,
    teacher: int,
    mean: FloatArray,
    q1: FloatArray,
    q2: FloatArray,
    traces: Sequence[float],
) -> Vanishing:
    """The largest cross-gradient at sampled points of the uninformative manifold, in units of its error."""
    rng = np.random.default_rng(0)
    tied = model.symmetric
    explicit = np.ones(len(potential.names))
    largest, error = 0.0, 0.0
    for _ in range(24):
        a, b = q1.copy(), q2.copy()
        scale = float(np.exp(rng.uniform(-1.5, 1.0)))
        trace = traces[0] * float(np.exp(rng.uniform(-1.0, 0.5)))
        a[k, k] = q1[k, k] * scale + (trace**2 if tied else 0.0)
        b[k, k] = a[k, k] if tied else a[k, k] * rng.uniform(-0.9, 0.9)
        shared = trace * traces[1] if tied else 0.0
        a[k, teacher] = a[teacher, k] = b[k, teacher] = b[teacher, k] = shared
        if tied:
            gradient, _, spread = potential.tied_gradients(a, explicit)
            found = abs(float(gradient[k, teacher]))
        else:
            point = mean
            if not model.centred:
                fast = FastMean(potential.at(explicit), np.arange(len(mean)) == k, mean)
                point = fast.relax(a, b, np.ones(len(mean))).branch.mean
            result = potential.gradients(point, a, b, explicit)
            found, spread = max(abs(float(result.q1[k, teacher])), abs(float(result.q2[k, teacher]))), result.error
        largest, error = max(largest, found), max(error, float(spread))
    zero = largest <= 10 * error + 1e-9
    return Vanishing("bounded" if zero else "no", largest, f"largest of 24 samples {largest:.3g}", False)


__all__ = ["Recovery", "Vanishing", "fixed_overlaps", "recovery"]
