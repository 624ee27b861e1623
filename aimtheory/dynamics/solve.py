"""Solve a model: run its closed equations, compare them with a coarser closure, and judge how far to trust them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray
from aimtheory.checks import check_positive
from aimtheory.dynamics.closed_model import ClosedModel, close, read_states
from aimtheory.dynamics.fast_mean import critical_points
from aimtheory.dynamics.integrate import Crossing, Event, Integration, Tolerances, check_times, integrate
from aimtheory.dynamics.trajectory import Trajectory
from aimtheory.errors import AssumptionError, InputError
from aimtheory.hierarchy import Closure
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.hierarchy.observables import Observable, observable, read_observables
from aimtheory.model import AttentionModel
from aimtheory.progress import Progress
from aimtheory.status import Ending, Status
from aimtheory.words import Word

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw

TRUST_TOLERANCE = 1e-2
"""Default disagreement of degrees M and M-2, relative to the value, beyond which values are not trusted."""

_FLOOR = 0.02
"""Values below this part of an observable's largest magnitude so far are judged as if they were that large."""

_CUBATURE_LIMIT = 1e-2
"""Relative error of the gradients beyond which a trajectory is not trusted: what the trust tolerance allows the
closure.
"""


def solve(
    model: AttentionModel,
    *,
    degree: int | None = None,
    times: ArrayLike,
    closure: str | Closure = "auto",
    observables: Iterable[str | Word | Observable] | None = None,
    initial: JointLaw | ParameterMatrices | None = None,
    initial_mean: ArrayLike | None = None,
    events: Sequence[Event] = (),
    check: bool = True,
    trust_tolerance: float = TRUST_TOLERANCE,
    rtol: float = 1e-9,
    atol: float = 1e-11,
    dense: bool = True,
    progress: Progress | None = None,
    **closure_options: object,
) -> Trajectory:
    """The trajectory of a model's moments under online SGD in the limit d -> infinity, exact or closed at degree M.

    ``closure`` is ``"auto"`` (``exact`` where it applies, ``gns`` elsewhere; the status says which and why),
    ``"exact"`` (nothing truncated: the degree may be left out), ``"gns"`` (compressed operators: does not blow up),
    ``"zero"`` ([D] (13): diverges past its radius of convergence without weight decay), ``"matrix"`` (the flow on
    sampled matrices, ``dim=``, ``seed=``) or a ``Closure``. Time is t = n x clock x learning_rate / d.
    ``observables`` are names (default: traces, overlaps q and p of the trained index, loss). ``initial`` replaces the
    model's laws: parameter matrices by name, a ``FreeFamily``, a ``MatrixFamily`` or ``JointMoments``. With ``check``
    the system is also solved at degree M-2, which gives ``errors`` and ``trusted_until``; under ``exact`` a second
    run does, with fewer nodes and looser tolerances. Without it ``trusted_until`` is NaN where anything was
    truncated. ``progress`` is called with (time, final time). Approximate; the local error of the integrator is at
    most atol + rtol |y|.

    A blow-up or Ctrl-C gives a trajectory up to there with a status that says so. Raises ``InputError`` for a bad
    degree, time, closure or observable, and for a degree left out where the closure needs it.

    >>> import aimtheory as aim
    >>> run = aim.solve(aim.models.load("tied-softmax"), times=[0, 0.5, 1])
    >>> run.status.code, [round(float(p), 3) for p in run["p_12"][1:]]
    ('complete', [0.112, 0.221])
    """
    closed = close(model, degree=degree, closure=closure, initial=initial, initial_mean=initial_mean, **closure_options)
    grid = check_times(times)
    task = _Task(
        closed=closed,
        observables=read_observables(observables, model, closed.views),
        crossings=_crossings(closed, events),
        tolerances=Tolerances(check_positive(rtol, "rtol"), check_positive(atol, "atol")),
        trust=check_positive(trust_tolerance, "trust_tolerance"),
        check=check,
    )
    run = _run(task, grid, dense, progress)
    comparison = _compare(task, run)
    verdict = _judge(task, run, comparison)
    return Trajectory(
        model=model,
        closure=closed.closure,
        degree=closed.degree,
        times=run.integration.times,
        values=run.values,
        errors=comparison.errors,
        status=verdict.status,
        trusted_until=verdict.trusted_until,
        trust_tolerance=task.trust,
        events={event.name: crossed for event, crossed in zip(events, run.integration.crossings, strict=True)},
        states=run.integration.states,
        dense=run.integration.dense,
        branches=run.integration.branches,
        initial=initial,
        initial_mean=closed.initial_mean,
        evaluations=run.integration.evaluations,
        rtol=task.tolerances.rtol,
        atol=task.tolerances.atol,
        span=float(grid[-1]),
    )


@dataclass(frozen=True)
class _Task:
    """What is to be solved, how accurately, and whether to check it."""

    closed: ClosedModel
    observables: tuple[Observable, ...]
    crossings: tuple[Crossing, ...]
    tolerances: Tolerances
    trust: float
    check: bool


@dataclass(frozen=True)
class _Run:
    """The integration at the degree asked for, and the observables at its times."""

    integration: Integration
    values: dict[str, FloatArray]


@dataclass(frozen=True)
class _Comparison:
    """Differences from a coarser closure by observable and time, NaN where there are none.

    ``agree_until`` is the time up to which all stay within the trust tolerance, None when nothing was compared, and
    ``first`` the observable that leaves it first, None when none does.
    """

    errors: dict[str, FloatArray]
    agree_until: float | None = None
    interrupted: bool = False
    first: str | None = None


@dataclass(frozen=True)
class _Verdict:
    """How it ended and until when to trust it."""

    status: Status
    trusted_until: float


def _crossings(closed: ClosedModel, events: Sequence[Event]) -> tuple[Crossing, ...]:
    for event in events:
        if not isinstance(event, Event):
            raise InputError(f"event {event!r} is not an Event; write aim.Event('p_12', 0.3)")
    return tuple(
        Crossing(
            observable(event.observable, closed.model, closed.views),
            float(event.level),
            event.terminal,
            event.direction,
        )
        for event in events
    )


def _run(task: _Task, grid: FloatArray, dense: bool, progress: Progress | None) -> _Run:
    """Integrate, and read the observables at the times reached."""
    result = integrate(task.closed, grid, task.tolerances, events=task.crossings, dense=dense, progress=progress)
    branches = [result.branch_at(float(t)) for t in result.times]
    return _Run(result, read_states(task.closed, task.observables, result.states, branches))


def _compare(task: _Task, run: _Run) -> _Comparison:
    """Solve at a coarser degree on a finer grid, where there is one, and take the differences."""
    closed, result = task.closed, run.integration
    errors = {one.name: np.full(len(result.times), np.nan) for one in task.observables}
    if task.check and len(result.times) and closed.second_rule is not None:
        return _compare_rules(task, run, closed.second_rule)
    coarser = None if closed.degree is None else closed.closure.coarser_degree(closed.degree)
    if not task.check or not len(result.times) or closed.system.is_exact or coarser is None or coarser < 2:
        return _Comparison(errors)
    lower = ClosedModel(closed.model, closed.closure, coarser, closed.initial_law, closed.initial_mean)
    readable = [one for one in task.observables if lower.holds(one)]
    grid = result.times
    if result.dense is not None and result.times[-1] > 0:
        # Between the requested times too: a disagreement there must not hide.
        grid = np.union1d(grid, np.linspace(0.0, result.times[-1], 65))
    rough = integrate(lower, grid, task.tolerances, dense=False)
    times = [float(t) for t in rough.times]
    if result.dense is not None:
        fine = read_states(closed, readable, result.dense(rough.times), [result.branch_at(t) for t in times])
    else:
        fine = {one.name: run.values[one.name][: len(times)] for one in readable}
    low = read_states(lower, readable, rough.states, [rough.branch_at(t) for t in times])
    gaps = np.zeros((len(fine), len(times)))
    where = np.searchsorted(rough.times, result.times)
    inside = where < len(times)
    for row, (name, values) in enumerate(fine.items()):
        gap = np.abs(values - low[name])
        gaps[row] = gap / _magnitude(values, task)
        errors[name][inside] = gap[where[inside]]
    beyond = ~(gaps <= task.trust)
    bad = np.flatnonzero(beyond.any(axis=0))
    last = len(times) - 1 if not len(bad) else int(bad[0]) - 1
    first = list(fine)[int(np.argmax(beyond[:, bad[0]]))] if len(bad) else None
    return _Comparison(errors, times[last] if last >= 0 else 0.0, rough.code is Ending.INTERRUPTED, first)


def _magnitude(values: FloatArray, task: _Task) -> FloatArray:
    """What a disagreement is measured by: the value, or a part of its largest magnitude so far where it is small.

    So far, not along the whole run: a truncation that blows up later must not excuse what is wrong before. Never so
    small that the tolerance falls below the accuracy of the integrator, as for an observable that stays zero.
    """
    size = np.abs(values)
    peak = np.fmax.accumulate(size) if len(size) else size
    return np.maximum(np.maximum(size, _FLOOR * peak), 1e3 * task.tolerances.atol / task.trust)


def _compare_rules(task: _Task, run: _Run, second: ClosedModel) -> _Comparison:
    """Solve with another quadrature at ten times the tolerances, and take the differences: both errors show."""
    result = run.integration
    errors = {one.name: np.full(len(result.times), np.nan) for one in task.observables}
    looser = Tolerances(10 * task.tolerances.rtol, 10 * task.tolerances.atol)
    other = integrate(second, result.times, looser, dense=False)
    count = len(other.times)
    low = read_states(second, task.observables, other.states, [other.branch_at(float(t)) for t in other.times])
    worst = np.zeros(count)
    for name, values in run.values.items():
        gap = np.abs(values[:count] - low[name])
        worst = np.maximum(worst, gap / _magnitude(values[:count], task))
        errors[name][:count] = gap
    bad = np.flatnonzero(~(worst <= task.trust))
    last = count - 1 if not len(bad) else int(bad[0]) - 1
    until = float(other.times[last]) if last >= 0 else 0.0
    return _Comparison(errors, until, other.code is Ending.INTERRUPTED)


def _judge(task: _Task, run: _Run, comparison: _Comparison) -> _Verdict:
    """Status and time of trust, from how the integration ended, the comparison, and doubts about the couplings."""
    closed, result = task.closed, run.integration
    chosen, code = closed.closure, result.code
    notes = [*([closed.choice] if closed.choice else []), *closed.system.notes, *_mean_notes(closed), *result.notes]
    if code is Ending.DIVERGED and chosen.name == "zero":
        notes.append("the zero closure does this past its convergence time: use closure='gns', or add weight decay")
    reached = float(result.times[-1]) if len(result.times) else 0.0
    well = code in (Ending.COMPLETE, Ending.EVENT)
    doubt = _doubt(task, result) if task.check else None
    if comparison.interrupted:
        notes.append("interrupted while a coarser computation was compared: trusted_until is as far as that went")
        code = Ending.INTERRUPTED
    if closed.system.is_exact:
        trusted_until = reached if comparison.agree_until is None else comparison.agree_until
        notes.append("the equations close by themselves: nothing was truncated")
        if trusted_until < reached and well:
            notes.append("the two quadratures differ after trusted_until: raise nodes=")
            code = Ending.UNTRUSTED
    elif comparison.agree_until is None:
        truncates = chosen.coarser_degree((closed.degree or 0) + 2) is not None
        trusted_until = reached if not truncates else 0.0 if task.check else float("nan")
        code = Ending.UNCHECKED if well else code
    else:
        trusted_until = comparison.agree_until
        if trusted_until < reached and code in (Ending.COMPLETE, Ending.EVENT):
            code = Ending.UNTRUSTED
        if comparison.first is not None:
            notes.append(
                f"trusted_until is that of {comparison.first!r}: degrees {closed.degree} and "
                f"{chosen.coarser_degree(closed.degree or 0)} disagree there first"
            )
    if doubt is not None:
        notes.append(f"{doubt}: do not use this trajectory")
        trusted_until = 0.0
        code = Ending.UNTRUSTED if code in (Ending.COMPLETE, Ending.EVENT, Ending.UNCHECKED) else code
    left_cone = result.diagnostics.left_cone
    if left_cone > 0:
        notes.append(f"the overlaps left the covariance cone by {left_cone:.2g} and were projected onto it")
    return _Verdict(Status(code, tuple(notes)), trusted_until)


def _mean_notes(closed: ClosedModel) -> list[str]:
    """What to say when the start decides among several attracting means."""
    fast, branch = closed.couplings.fast, closed.initial_branch
    if fast is None or branch is None:
        return []
    attracting = [point for point in critical_points(fast, branch.q1, branch.q2) if point.stable]
    moments = closed.system.initial
    speeds = closed.couplings.speeds(lambda words: closed.system.moments(words, moments))
    notes = []
    if fast.relax(branch.q1, branch.q2, speeds).kicked:
        notes.append(
            "m(0) lies on an unstable critical point of the means, which their fluctuations leave; the positive side "
            "was taken"
        )
    if len(attracting) <= 1:
        return notes
    where = ", ".join(str([round(float(m), 4) for m in point.mean[fast.moving]]) for point in attracting)
    chosen = [round(float(m), 4) for m in branch.mean[fast.moving]]
    return [
        *notes,
        f"{len(attracting)} attracting means m* at time 0, {where}: the fast flow from m(0) chose {chosen}, and the "
        "trajectory is that of this branch (initial_mean= starts elsewhere)",
    ]


def _doubt(task: _Task, result: Integration) -> str | None:
    """Why the couplings are not to be trusted: a cubature error that shows, or Monte Carlo that disagrees at an end."""
    error = result.diagnostics.cubature_error
    if error > _CUBATURE_LIMIT:
        return f"the gradients of the potential have a relative cubature error of {error:.2g}"
    closed = task.closed
    for n in (0, -1) if len(result.times) else ():
        state = result.states[n]
        try:
            reason = closed.couplings.doubt(
                lambda words, state=state: closed.moments(words, state),  # type: ignore[misc]
                result.branch_at(float(result.times[n])),
            )
        except AssumptionError:
            continue
        if reason is not None:
            return reason
    return None


__all__ = ["TRUST_TOLERANCE", "solve"]
