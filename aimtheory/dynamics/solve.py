"""Solve a model: run its closed equations, compare them with a coarser closure, and judge how far to trust them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray
from aimtheory.checks import check_positive
from aimtheory.dynamics.closed_model import ClosedModel, close, read_states
from aimtheory.dynamics.fast_mean import critical_points
from aimtheory.dynamics.integrate import Crossing, Event, Integration, Tolerances, check_times, integrate
from aimtheory.dynamics.matrix_check import MatrixDistance, flow_samples, matrix_check, matrix_note
from aimtheory.dynamics.trajectory import Trajectory
from aimtheory.dynamics.trust import (
    Judgement,
    coarser_degrees,
    finer_times,
    integration_noise,
    judge,
    magnitude,
    remaining_error,
)
from aimtheory.errors import AssumptionError, InputError
from aimtheory.hierarchy import Closure
from aimtheory.hierarchy.closures.matrix import Matrix
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.hierarchy.observables import Observable, driving_observables, observable, read_observables
from aimtheory.model import AttentionModel
from aimtheory.progress import Progress
from aimtheory.status import Ending, Status
from aimtheory.words import Word

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw

TRUST_TOLERANCE = 1e-2
"""Default estimated error, relative to the value, beyond which values are not trusted."""

_POINTS = 64
"""About so many times, in the steps of the integrator, are compared besides those asked for; of a quadrature, whose
error moves slowly, a quarter.
"""

_MATRIX_RTOL = 1e-6
"""Local errors of the flow of matrices, far below its scatter."""

_WELL = (Ending.COMPLETE, Ending.EVENT)

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
    check: bool | str | Matrix = True,
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
    the system is also solved at degrees M-2 and M-4: the differences d1 = |M - (M-2)| and d0 = |(M-2) - (M-4)|, largest
    so far, leave an error (3/2) d1 r/(1 - r), r = max(d1/d0, 1/2), which gives ``errors`` and ``trusted_until``; under
    ``exact`` a second run does, with fewer nodes and looser tolerances. Without it ``trusted_until`` is NaN where
    anything was truncated. ``check="matrix"``, or a closure such as ``aimtheory.hierarchy.closure("matrix", dim=800)``,
    compares with the flow of sampled matrices instead, in units of its scatter; the status says how closely that can
    look. Overlaps of the trained forms, which drive the flow, are judged whatever is asked for. ``progress`` is called
    with (time, final time). Approximate; the local error of the integrator is at most atol + rtol |y|.

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
        check=check is not False,
        flow=matrix_check(check, closed.closure),
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
    flow: Matrix | None
    """The flow of sampled matrices to compare with, in the place of lower degrees."""


@dataclass(frozen=True)
class _Run:
    """The integration at the degree asked for, and the observables at its times."""

    integration: Integration
    values: dict[str, FloatArray]


@dataclass(frozen=True)
class _Rival:
    """A coarser computation to compare with, and what it is called."""

    closed: ClosedModel
    tolerances: Tolerances
    name: str


@dataclass(frozen=True)
class _Comparison:
    """Estimated errors by observable and time, NaN where there are none, and until when they are tolerable.

    ``judgement`` is None when nothing was compared; ``rivals`` are the coarser computations, ``unread`` the observables
    that they do not hold.
    """

    errors: dict[str, FloatArray]
    judgement: Judgement | None = None
    rivals: tuple[_Rival, ...] = ()
    unread: tuple[str, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Verdict:
    """How it ended and until when to trust it."""

    status: Status
    trusted_until: float


def _crossings(closed: ClosedModel, events: Sequence[Event]) -> tuple[Crossing, ...]:
    if not isinstance(events, Iterable):
        raise InputError(f"events = {events!r} is not a list of events; write [aim.Event('p_12', 0.3)]")
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


def _rivals(task: _Task) -> tuple[_Rival, ...]:
    """What to compare with: degrees M-2 and M-4 as far as the closure has them, or the second rule of a quadrature."""
    closed, tolerances = task.closed, task.tolerances
    if closed.second_rule is not None:
        # At looser tolerances, so that the error of the integrator shows as well.
        looser = Tolerances(10 * tolerances.rtol, 10 * tolerances.atol)
        return (_Rival(closed.second_rule, looser, "the second quadrature"),)
    if closed.system.is_exact:
        return ()
    degrees = () if closed.degree is None else coarser_degrees(closed.closure, closed.degree)
    return tuple(_Rival(replace(closed, degree=degree), tolerances, f"degree {degree}") for degree in degrees)


def _compare(task: _Task, run: _Run) -> _Comparison:
    """Solve the coarser systems on a finer grid, estimate the error that is left, and judge it."""
    closed, result, tolerances = task.closed, run.integration, task.tolerances
    errors = {one.name: np.full(len(result.times), np.nan) for one in task.observables}
    if task.flow is not None and len(result.times):
        return _compare_with_matrices(task, run, task.flow)
    rivals = _rivals(task) if task.check and len(result.times) else ()
    if not rivals:
        return _Comparison(errors)
    unread = tuple(one.name for one in task.observables if not rivals[0].closed.holds(one))
    if len(unread) == len(task.observables):
        return _Comparison(errors, rivals=rivals, unread=unread)
    # The overlaps that drive the flow too: where they are wrong, all is, whether or not it shows in what was asked for.
    watched = {one.name: one for one in (*task.observables, *driving_observables(closed.model, closed.views))}
    readable = [one for one in watched.values() if rivals[0].closed.holds(one)]
    grid, fine = _read_between(task, run, readable, _POINTS if closed.second_rule is None else _POINTS // 4)
    coarse, interrupted = [], False
    for rival in rivals:
        table, stopped = _read_on(rival, readable, grid)
        coarse.append(table)
        interrupted = interrupted or stopped
        if stopped:
            break
    where = np.searchsorted(grid, result.times)
    estimates, notes = {}, []
    for name, values in fine.items():
        lower = [table[name] for table in coarse if name in table]
        noise = integration_noise(values, tolerances.rtol, tolerances.atol)
        estimates[name] = remaining_error(values, lower[0], lower[1] if len(lower) > 1 else None, noise=noise)
        if name in errors:
            errors[name][:] = estimates[name][where]
    alone = [name for name in fine if name in errors and sum(name in table for table in coarse) < 2]
    if alone and closed.second_rule is None:
        notes.append(
            f"{', '.join(alone)}: two degrees only, {closed.degree} and {rivals[0].closed.degree}, so that no rate of "
            "convergence is known and their difference is taken for the error; a higher degree is judged by three"
        )
    if result.dense is None and grid[-1] > 0:
        notes.append("errors were compared at the requested times only, not between them: no dense output was kept")
    judgement = judge(grid, fine, estimates, tolerance=task.trust, least=_least(tolerances, task))
    return _Comparison(errors, judgement, rivals, unread, interrupted, tuple(notes))


def _compare_with_matrices(task: _Task, run: _Run, flow: Matrix) -> _Comparison:
    """Run the flow of sampled matrices and judge what its scatter does not explain."""
    result = run.integration
    chosen = list(task.observables)
    grid, ours = _read_between(task, run, chosen, _POINTS // 4)
    tolerances = Tolerances(max(task.tolerances.rtol, _MATRIX_RTOL), max(task.tolerances.atol, _MATRIX_RTOL / 100))
    samples, stopped = [], False
    for sample in flow_samples(flow, task.closed.initial_law):
        sampled = replace(task.closed, closure=sample, degree=None, choice=None)
        table, stopped = _read_on(_Rival(sampled, tolerances, ""), chosen, grid)
        samples.append(table)
        if stopped:
            break
    distance = {name: MatrixDistance.of(values, [table[name] for table in samples]) for name, values in ours.items()}
    least = _least(tolerances, task)
    unexplained = {name: one.unexplained for name, one in distance.items()}
    judgement = judge(grid, ours, unexplained, tolerance=task.trust, least=least)
    where = np.searchsorted(grid, result.times)
    errors = {name: one.gap[where] for name, one in distance.items()}
    relative = {name: one.scatter / magnitude(ours[name], least) for name, one in distance.items()}
    notes = (matrix_note(flow, len(samples), distance, relative, task.trust),)
    return _Comparison(errors, judgement, (), (), stopped, notes)


def _read_between(
    task: _Task, run: _Run, wanted: Sequence[Observable], points: int
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Observables at the times and at about so many between them, where a disagreement must not hide."""
    result = run.integration
    grid, states = result.times, result.states
    if result.dense is not None and grid[-1] > 0:
        grid = finer_times(grid, result.dense.breakpoints, points)
        states = result.dense(grid)
    return grid, read_states(task.closed, wanted, states, [result.branch_at(float(t)) for t in grid])


def _least(tolerances: Tolerances, task: _Task) -> float:
    """The size below which values are zero to the accuracy of the integrator, and are not judged."""
    return 1e3 * tolerances.atol / task.trust


def _read_on(rival: _Rival, wanted: list[Observable], grid: FloatArray) -> tuple[dict[str, FloatArray], bool]:
    """The observables that a coarser system holds on a grid, NaN after its end; whether it was interrupted."""
    found = integrate(rival.closed, grid, rival.tolerances, dense=False)
    held = [one for one in wanted if rival.closed.holds(one)]
    read = read_states(rival.closed, held, found.states, [found.branch_at(float(t)) for t in found.times])
    table = {name: np.append(values, np.full(len(grid) - len(values), np.nan)) for name, values in read.items()}
    return table, found.code is Ending.INTERRUPTED


def _judge(task: _Task, run: _Run, comparison: _Comparison) -> _Verdict:
    """Status and time of trust, from how the integration ended, the comparison, and doubts about the couplings."""
    closed, result = task.closed, run.integration
    chosen, code = closed.closure, result.code
    notes = [*([closed.choice] if closed.choice else []), *closed.system.notes, *_mean_notes(closed), *result.notes]
    if code is Ending.DIVERGED and chosen.name == "zero":
        notes.append("the zero closure does this past its convergence time: use closure='gns', or add weight decay")
    reached = float(result.times[-1]) if len(result.times) else 0.0
    well = code in _WELL
    doubt = _doubt(task, result) if task.check else None
    judgement = comparison.judgement
    notes += comparison.notes
    if comparison.interrupted:
        notes.append("interrupted while a coarser computation was compared: trusted_until is as far as that went")
        code = Ending.INTERRUPTED
    if closed.system.is_exact:
        notes.append("the equations close by themselves: nothing was truncated")
    if judgement is not None:
        trusted_until = judgement.until
        if trusted_until < reached and well:
            code = Ending.UNTRUSTED
        if judgement.first is not None:
            notes.append(_why(task, comparison, judgement))
    elif closed.system.is_exact or chosen.coarser_degree((closed.degree or 0) + 2) is None:
        trusted_until = reached
    else:
        trusted_until = 0.0 if task.check else float("nan")
    if (comparison.unread or judgement is None) and not closed.system.is_exact and code in _WELL:
        code = Ending.UNCHECKED
    if comparison.unread:
        notes.append(f"{', '.join(comparison.unread)}: not compared, {comparison.rivals[0].name} does not hold it")
    if doubt is not None:
        notes.append(f"{doubt}: do not use this trajectory")
        trusted_until = 0.0
        code = Ending.UNTRUSTED if code in (*_WELL, Ending.UNCHECKED) else code
    left_cone = result.diagnostics.left_cone
    if left_cone > 0:
        notes.append(f"the overlaps left the covariance cone by {left_cone:.2g} and were projected onto it")
    return _Verdict(Status(code, tuple(notes)), trusted_until)


def _why(task: _Task, comparison: _Comparison, judgement: Judgement) -> str:
    """Which observable ends the trust, and what was found there."""
    asked = judgement.first in {one.name for one in task.observables}
    head = f"trusted_until is that of {judgement.first!r}{'' if asked else ', which drives the flow'}: "
    rivals = comparison.rivals
    if task.flow is not None:
        return f"{head}the flow of matrices is further away there than its scatter and {task.trust:g} of it explain"
    if task.closed.system.is_exact:
        return f"{head}the two quadratures differ there by more than {task.trust:g} of it: raise nodes="
    degrees = " and ".join(str(one.closed.degree) for one in rivals)
    if np.isinf(judgement.ratio):
        return f"{head}the differences of degrees {task.closed.degree}, {degrees} do not shrink there"
    return (
        f"{head}its error there, estimated from degrees {task.closed.degree}, {degrees}, exceeds {task.trust:g} of it"
    )


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
