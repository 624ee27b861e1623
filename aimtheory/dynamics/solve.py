"""Solve a model: close its hierarchy, integrate it, and say how far to trust the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.dynamics.closed_flow import follow
from aimtheory.dynamics.coupling_values import CouplingValues, read_observables
from aimtheory.dynamics.fast_mean import critical_points
from aimtheory.dynamics.integrate import Event, Integration, Progress, check_times
from aimtheory.dynamics.status import BROKEN, COMPLETE, EVENT, INTERRUPTED, UNCHECKED, UNTRUSTED, Status
from aimtheory.dynamics.trajectory import Trajectory
from aimtheory.errors import AssumptionError, InputError
from aimtheory.hierarchy import Closure, closure, views
from aimtheory.hierarchy.closures import ClosedSystem, ClosureProblem
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.hierarchy.moments import check_degree, check_model
from aimtheory.hierarchy.observables import default_observables, observable_words
from aimtheory.model import AttentionModel
from aimtheory.words import Word, trace_name

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw

FloatArray = NDArray[np.float64]

TRUST_TOLERANCE = 1e-2
"""Default disagreement of degrees M and M-2, relative to max(1, |value|), beyond which values are not trusted."""


_CUBATURE_LIMIT = 1e-2
"""Relative error of the gradients beyond which a trajectory is not trusted: what the trust tolerance allows the
closure.
"""


def solve(
    model: AttentionModel,
    *,
    degree: int,
    times: ArrayLike,
    closure: str | Closure = "gns",
    observables: Iterable[str | Word] | None = None,
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
    """The trajectory of a model's moments under online SGD in the limit d -> infinity, closed at degree M.

    ``closure`` is ``"gns"`` (compressed operators: converges for all times), ``"zero"`` ([D] (13): diverges past its
    radius of convergence without weight decay), ``"matrix"`` (the flow on sampled matrices, ``dim=``, ``seed=``) or a
    ``Closure``. Time is t = n x time_factor x learning_rate / d. ``observables`` are names (default: traces, overlaps
    q and p of the trained index, loss). ``initial`` replaces the model's laws: parameter matrices by name, a
    ``FreeFamily``, a ``MatrixFamily`` or ``JointMoments``. With ``check`` the system is also solved at degree M-2,
    which gives ``errors`` and ``trusted_until``. ``progress`` is called with (time, final time). Approximate; the
    local error of the integrator is at most atol + rtol |y|.

    A blow-up or Ctrl-C gives a trajectory up to there with a status that says so. Raises ``InputError`` for a bad
    degree, time, closure or observable.

    >>> import aimtheory as aim
    >>> run = aim.solve(aim.models.load("tied-softmax"), degree=7, times=[0, 0.5, 1])
    >>> run.status.code, [round(float(p), 3) for p in run["p_12"]]
    ('complete', [0.0, 0.112, 0.221])
    """
    check_model(model)
    degree = check_degree(degree)
    grid = check_times(times)
    for name, value in (("rtol", rtol), ("atol", atol), ("trust_tolerance", trust_tolerance)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
            raise InputError(f"{name} = {value!r} must be a positive number")
    for event in events:
        if not isinstance(event, Event):
            raise InputError(f"event {event!r} is not an Event; write aim.Event('p_12', 0.3)")
    chosen = _closure(closure, closure_options)
    seen = views(model)
    names = tuple(default_observables(model) if observables is None else _names(observables))
    for name in (*names, *(event.observable for event in events)):
        observable_words(name, model, seen)
    start_mean = _initial_mean(model, initial_mean)
    couplings = CouplingValues(model, seen, start_mean)
    system = chosen.close(ClosureProblem(model, seen, degree, initial))
    notes = _mean_notes(system, couplings)
    result = follow(system, couplings, grid, events, rtol, atol, dense, progress)
    couplings.restart()
    values, result = _read_all(system, couplings, names, result)
    doubt = _doubt(system, couplings, result) if check else None

    coarser = chosen.coarser_degree(degree) if check and result.times.size and not system.is_exact else None
    errors = {name: np.full(len(result.times), np.nan) for name in names}
    trusted_until, checked = float("nan"), False
    notes += result.notes
    if coarser is not None and coarser >= 2:
        checked = True
        trusted_until, stopped = _compare(
            model,
            chosen,
            coarser,
            initial,
            couplings,
            system,
            result,
            names,
            values,
            errors,
            trust_tolerance,
            rtol,
            atol,
        )
        if stopped:
            notes.append("interrupted while degree M-2 was compared: trusted_until is as far as that went")
    code = INTERRUPTED if checked and stopped else result.code
    reached = float(result.times[-1]) if len(result.times) else 0.0
    if system.is_exact:
        trusted_until = reached
        notes.append("the equations close by themselves: nothing was truncated")
    elif not checked:
        trusted_until = reached if not check or chosen.coarser_degree(degree + 2) is None else 0.0
        code = UNCHECKED if code in (COMPLETE, EVENT) else code
    elif trusted_until < reached and code in (COMPLETE, EVENT):
        code = UNTRUSTED
    if doubt is not None:
        notes.append(f"{doubt}: do not use this trajectory")
        trusted_until = 0.0
        code = UNTRUSTED if code in (COMPLETE, EVENT, UNCHECKED) else code
    if couplings.left_cone > 0:
        notes.append(f"the overlaps left the covariance cone by {couplings.left_cone:.2g} and were projected onto it")
    return Trajectory(
        model=model,
        closure=chosen,
        degree=degree,
        times=result.times,
        values=values,
        errors=errors,
        status=Status(code, tuple(notes)),
        trusted_until=trusted_until,
        trust_tolerance=trust_tolerance,
        events={f"{e.observable} = {e.level:g}": c for e, c in zip(events, result.crossings, strict=True)},
        states=result.states,
        dense=result.dense,
        initial=initial,
        initial_mean=start_mean,
        evaluations=result.evaluations,
        rtol=float(rtol),
        atol=float(atol),
        span=float(grid[-1]),
    )


def _initial_mean(model: AttentionModel, value: ArrayLike | None) -> FloatArray | None:
    if value is None:
        return None
    if model.centred:
        raise InputError("initial_mean is given but the forms of this model are centred; they have no mean")
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (len(model.indices),) or not np.isfinite(array).all():
        raise InputError(f"initial_mean = {value!r} must be {len(model.indices)} finite numbers, one an index")
    return array


def _mean_notes(system: ClosedSystem, couplings: CouplingValues) -> list[str]:
    """Start the fast means, and say so when the start decides among several attracting ones."""
    if couplings.fast is None:
        return []
    order = couplings.order_parameters(lambda words: system.moments(words, system.initial))
    trained = np.zeros(len(couplings.model.indices), dtype=bool)
    trained[couplings.fast.trained] = True
    points = critical_points(couplings.potential, trained, couplings.start_mean, order.q1, order.q2)
    attracting = [point for point in points if point.stable]
    notes = []
    if couplings.fast.kicked:
        notes.append(
            "m(0) lies on an unstable critical point of the means, which their fluctuations leave; the positive side "
            "was taken"
        )
    if len(attracting) <= 1:
        return notes
    where = ", ".join(str([round(float(m), 4) for m in point.mean[trained]]) for point in attracting)
    chosen = [round(float(m), 4) for m in order.mean[trained]]
    return [
        *notes,
        f"{len(attracting)} attracting means m* at time 0, {where}: the fast flow from m(0) chose {chosen}, and the "
        "trajectory is that of this branch (initial_mean= starts elsewhere)",
    ]


def _closure(value: str | Closure, options: dict[str, object]) -> Closure:
    if isinstance(value, Closure) and options:
        raise InputError(f"options {', '.join(options)} go with a closure's name; a Closure already has its own")
    return closure(value, **options)


def _names(observables: Iterable[str | Word]) -> list[str]:
    if isinstance(observables, str):
        raise InputError(f"observables = {observables!r} is one name; give a list such as [{observables!r}]")
    names = [trace_name(item) if isinstance(item, Word) else item for item in observables]
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"observable {name!r} is neither a name such as 'p_12' nor a word")
    if not names:
        raise InputError("observables is empty; name at least one, or leave it out for the default ones")
    return names


def _read_all(
    system: ClosedSystem, couplings: CouplingValues, names: Sequence[str], result: Integration
) -> tuple[dict[str, FloatArray], Integration]:
    """Observables at all states, and the integration cut where an assumption fails on reading (a branch of means that
    ends).
    """
    try:
        return read_observables(system, couplings, names, result.states), result
    except AssumptionError as error:
        count = 0
        couplings.restart()
        values: dict[str, list[float]] = {name: [] for name in names}
        for state in result.states:
            try:
                row = read_observables(system, couplings, names, state[None])
            except AssumptionError:
                break
            count += 1
            for name in names:
                values[name].append(float(row[name][0]))
        if count == 0:
            raise
        after = float(result.times[count - 1])
        note = f"after t = {after:.6g}: {error}"
        cut = replace(
            result, times=result.times[:count], states=result.states[:count], code=BROKEN, notes=(*result.notes, note)
        )
        return {name: np.array(column) for name, column in values.items()}, cut


def _moments(system: ClosedSystem, state: FloatArray, words: Sequence[Word]) -> FloatArray:
    return system.moments(words, state)


def _doubt(system: ClosedSystem, couplings: CouplingValues, result: Integration) -> str | None:
    """Why the couplings are not to be trusted: a cubature error that shows, or Monte Carlo that disagrees at an end."""
    if couplings.cubature_error > _CUBATURE_LIMIT:
        return f"the gradients of the potential have a relative cubature error of {couplings.cubature_error:.2g}"
    for state in (result.states[0], result.states[-1]) if len(result.states) else ():
        couplings.restart()
        try:
            reason = couplings.doubt(partial(_moments, system, state))
        except AssumptionError:
            continue
        if reason is not None:
            return reason
    return None


def _compare(
    model: AttentionModel,
    chosen: Closure,
    coarser: int,
    initial: JointLaw | ParameterMatrices | None,
    couplings: CouplingValues,
    system: ClosedSystem,
    result: Integration,
    names: Sequence[str],
    values: dict[str, FloatArray],
    errors: dict[str, FloatArray],
    tolerance: float,
    rtol: float,
    atol: float,
) -> tuple[float, bool]:
    """Solve at the coarser degree on a finer grid and fill ``errors``: the time up to which both agree, and whether the
    comparison was interrupted.
    """
    lower = chosen.close(ClosureProblem(model, couplings.views, coarser, initial))
    readable = [name for name in names if _holds(lower, name, couplings)]
    grid = result.times
    if result.dense is not None and result.times[-1] > 0:
        # Between the requested times too: a disagreement there must not hide.
        grid = np.union1d(grid, np.linspace(0.0, result.times[-1], 65))
    separate = CouplingValues(model, couplings.views, couplings.start_mean)
    rough = follow(lower, separate, grid, (), rtol, atol, False, None)
    couplings.restart()
    separate.restart()
    if result.dense is not None:
        fine_states = result.dense(rough.times)
        fine = read_observables(system, couplings, readable, fine_states)
    else:
        fine = {name: values[name][: len(rough.times)] for name in readable}
    low = read_observables(lower, separate, readable, rough.states)
    worst = np.zeros(len(rough.times))
    for name in readable:
        gap = np.abs(fine[name] - low[name])
        worst = np.maximum(worst, gap / np.maximum(1.0, np.abs(fine[name])))
        where = np.searchsorted(rough.times, result.times)
        inside = where < len(rough.times)
        errors[name][inside] = gap[where[inside]]
    bad = np.flatnonzero(~(worst <= tolerance))
    stopped = rough.code == INTERRUPTED
    if len(bad):
        return (float(rough.times[bad[0] - 1]) if bad[0] else 0.0), stopped
    return (float(rough.times[-1]) if len(rough.times) else 0.0), stopped


def _holds(system: ClosedSystem, name: str, couplings: CouplingValues) -> bool:
    try:
        read_observables(system, couplings, (name,), system.initial[None])
    except InputError:
        return False
    return True


__all__ = ["TRUST_TOLERANCE", "solve"]
