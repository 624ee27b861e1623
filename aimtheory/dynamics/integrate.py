"""Integrating a closed model in time, stiff or not, with events, and nothing lost on interruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray
from aimtheory.checks import check_finite
from aimtheory.dynamics.branch import Branch, BranchPath
from aimtheory.dynamics.closed_model import ClosedModel
from aimtheory.dynamics.coupling_values import Diagnostics
from aimtheory.dynamics.dense_output import DenseOutput
from aimtheory.dynamics.roots import roots_in_step
from aimtheory.dynamics.stepping import StepPolynomial, Steps
from aimtheory.errors import AimTheoryError, AssumptionError, InputError, NumericsError
from aimtheory.hierarchy.observables import Observable
from aimtheory.progress import Progress
from aimtheory.status import Ending

_BLOW_UP = 1e10
_DENSE_LIMIT = 1 << 25


DIRECTIONS = {1: "rising", -1: "falling"}
"""What the directions of an event are called in its name and on the command line."""


@dataclass(frozen=True)
class Event:
    """An observable crossing a level; a ``terminal`` event ends the integration.

    ``direction`` 1 counts rising crossings only, -1 falling ones, 0 both and points where the level is only touched.

    >>> Event("p_12", 0.3)
    Event(observable='p_12', level=0.3, terminal=False, direction=0)
    """

    observable: str
    level: float
    terminal: bool = False
    direction: int = 0

    @property
    def name(self) -> str:
        """What happens, as in the events of a trajectory: ``p_12 = 0.3``, ``p_12 = 0.3 rising``."""
        return " ".join([f"{self.observable} = {self.level:g}", *filter(None, [DIRECTIONS.get(self.direction)])])

    def __post_init__(self) -> None:
        """``InputError`` for a level that is not a finite number, or a direction that is not -1, 0 or 1."""
        check_finite(self.level, f"event level for {self.observable}")
        if self.direction not in (0, *DIRECTIONS):
            raise InputError(
                f"direction = {self.direction!r} of the event {self.observable}; 1 is rising, -1 falling, 0 both"
            )


@dataclass(frozen=True)
class Crossing:
    """An event with its observable read: what ``integrate`` watches."""

    observable: Observable
    level: float
    terminal: bool
    direction: int = 0

    def gap(self, closed: ClosedModel, state: FloatArray, branch: Branch | None) -> float:
        """The observable minus the level at a state."""
        return closed.reading(state, branch).value(self.observable) - self.level


@dataclass(frozen=True)
class Tolerances:
    """Local error of a step at most ``atol`` + ``rtol`` |y|."""

    rtol: float = 1e-9
    atol: float = 1e-11


@dataclass(frozen=True)
class Integration:
    """States at the requested times that were reached, crossings of events, dense output if it fits, how it ended.

    ``branches`` holds the branch of the means at every accepted step and every requested time, None where no mean is
    slaved; ``diagnostics`` the worst that was met.
    """

    times: FloatArray
    states: FloatArray
    branches: BranchPath | None
    crossings: tuple[tuple[float, ...], ...]
    dense: DenseOutput | None
    code: Ending
    reached: float
    notes: tuple[str, ...]
    evaluations: int
    diagnostics: Diagnostics

    def branch_at(self, time: float) -> Branch | None:
        """The last known branch at or before a time."""
        return None if self.branches is None else self.branches.at(time)


def check_times(times: ArrayLike) -> FloatArray:
    """The times as a float array that starts at 0 or later and increases; ``InputError`` names the offender."""
    try:
        array = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"times = {times!r} is not a list of numbers") from None
    if array.ndim != 1 or not len(array):
        raise InputError(f"times has shape {array.shape}; give a non-empty list of increasing times")
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"times[{bad}] = {array[bad]} is not finite")
    if array[0] < 0:
        raise InputError(f"times[0] = {array[0]} is negative; the flow starts at time 0")
    steps = np.diff(array)
    if (steps <= 0).any():
        bad = int(np.flatnonzero(steps <= 0)[0]) + 1
        raise InputError(f"times must increase, but times[{bad}] = {array[bad]} follows {array[bad - 1]}")
    return array


class _Course:
    """The course of an integration: the branch of the last accepted step, and what was met on the way."""

    def __init__(self, closed: ClosedModel, start: FloatArray) -> None:
        self.closed = closed
        self.branch = closed.initial_branch
        self.diagnostics = Diagnostics()
        self.points: dict[float, Branch] = {}
        self.started = False
        self.refusal: NumericsError | None = None
        self._last: tuple[FloatArray, Branch | None] = (start, self.branch)
        self.mark(0.0, self.branch)

    def drift(self, _: float, state: FloatArray) -> FloatArray:
        """The drift on the branch of the last accepted step.

        NaN at a state where it does not exist, as a step that is tried too far out may reach, so that the solver tries
        a shorter one; an error at the very start is raised.
        """
        if not np.isfinite(state).all():
            return np.full_like(state, np.nan)
        try:
            derivative, found = self.closed.evaluate(state, self.branch)
        except NumericsError as error:
            if not self.started:
                raise
            self.refusal = error
            return np.full_like(state, np.nan)
        self.started = True
        self.diagnostics = self.diagnostics.worse(found.diagnostics)
        self._last = (state, found.branch)
        return derivative

    def branch_of(self, state: FloatArray) -> Branch | None:
        """The branch at a state of the current step."""
        if self.branch is None:
            return None
        # The last drift of a step is that at its end, which the next step starts with.
        seen, branch = self._last
        if seen is state or np.array_equal(seen, state):
            return branch
        return self.closed.order_parameters(state, self.branch).branch

    def mark(self, time: float, branch: Branch | None) -> None:
        """Keep the branch of a time."""
        if branch is not None:
            self.points[time] = branch


def integrate(
    closed: ClosedModel,
    times: FloatArray,
    tolerances: Tolerances = Tolerances(),
    *,
    events: Sequence[Crossing] = (),
    dense: bool = True,
    progress: Progress | None = None,
) -> Integration:
    """Solve dy/dt = rhs(y) of a closed model from time 0 and report the states at ``times``.

    A keyboard interrupt, a blow-up (beyond 1e10 times the start) or a step size that vanishes end the integration with
    what has been reached. Local error per step at most atol + rtol |y|. Runge-Kutta steps of order eight; where the
    equations are stiff (late times, large weight decay) states of up to 1000 numbers take implicit ones.
    """
    final = float(times[-1])
    start = closed.system.initial
    states: list[FloatArray] = []
    course = _Course(closed, start)
    next_time = 0
    while next_time < len(times) and times[next_time] <= 0:
        states.append(start.copy())
        next_time += 1
    breakpoints, step_states, coefficients = [0.0], [], []
    crossings: list[list[float]] = [[] for _ in events]
    code, notes = Ending.COMPLETE, []
    bound = _BLOW_UP * max(1.0, float(np.abs(start).max(initial=0.0)))
    reached, evaluations = 0.0, 0
    values = [event.gap(closed, start, course.branch) for event in events]
    keep_dense, step_seen = dense, False
    try:
        # A drift of NaN at the very start is an error of the input, not of the integration.
        if final > 0 and start.size:
            with np.errstate(over="ignore", invalid="ignore"):
                steps = Steps(course.drift, start, final, tolerances.rtol, tolerances.atol)
                for piece in steps:
                    if float(np.abs(steps.y).max()) > bound:
                        code = Ending.DIVERGED
                        notes.append(f"the state exceeded {bound:.1e} at t = {steps.t:.6g}")
                        break
                    step_seen = True
                    arrived = course.branch_of(steps.y)
                    stop, ended = steps.t, False
                    for number, event in enumerate(events):
                        new = event.gap(closed, steps.y, arrived)
                        roots = _roots(closed, event, piece, course.branch, values[number], new, tolerances)
                        if roots and crossings[number] and abs(roots[0] - crossings[number][-1]) <= 1e-6 * piece.h:
                            # A point that touches the level at the end of the step before.
                            roots = roots[1:]
                        crossings[number].extend(roots)
                        if event.terminal and roots:
                            stop, ended = min(stop, roots[0]), True
                        values[number] = new
                    while next_time < len(times) and times[next_time] <= stop:
                        state = np.asarray(piece(times[next_time]))
                        course.mark(float(times[next_time]), course.branch_of(state))
                        states.append(state)
                        next_time += 1
                    reached = stop
                    if keep_dense:
                        breakpoints.append(steps.t)
                        step_states.append(piece.y_old)
                        coefficients.append(piece.F)
                        if len(coefficients) * 8 * start.size > _DENSE_LIMIT:
                            keep_dense = False
                    if progress is not None:
                        progress(reached, final)
                    if ended:
                        code = Ending.EVENT
                        if not states or stop > times[len(states) - 1]:
                            # The state at the event belongs to the answer, whether or not its time was asked for.
                            times = np.append(times[: len(states)], stop)
                            state = np.asarray(piece(stop))
                            course.mark(stop, course.branch_of(state))
                            states.append(state)
                        crossings = [[t for t in crossed if t <= stop] for crossed in crossings]
                        break
                    course.branch = arrived
                    course.mark(steps.t, arrived)
                if steps.failed:
                    code = Ending.DIVERGED
                    reason = course.refusal or steps.message or "the state is not finite"
                    notes.append(f"the integration stopped at t = {steps.t:.6g}: {reason}")
                evaluations = steps.evaluations
        else:
            reached = final
            while next_time < len(times):
                course.mark(float(times[next_time]), course.branch)
                states.append(start.copy())
                next_time += 1
    except KeyboardInterrupt:
        code = Ending.INTERRUPTED
        notes.append(f"at t = {reached:.6g} of {final:.6g}")
    except AimTheoryError as error:
        if not step_seen:
            raise
        # The right-hand side refused a state on the way: keep the trajectory up to there.
        code = Ending.BROKEN if isinstance(error, AssumptionError) else Ending.DIVERGED
        notes.append(f"the right-hand side failed after t = {reached:.6g}: {error}")
    solution = (
        DenseOutput(np.array(breakpoints), np.array(step_states), np.array(coefficients))
        if keep_dense and step_states
        else None
    )
    kept = np.array(states) if states else np.zeros((0, start.size))
    return Integration(
        times[: len(kept)],
        kept,
        BranchPath.of(course.points),
        tuple(map(tuple, crossings)),
        solution,
        code,
        reached,
        tuple(notes),
        evaluations,
        course.diagnostics,
    )


def _roots(
    closed: ClosedModel,
    event: Crossing,
    piece: StepPolynomial,
    branch: Branch | None,
    at_left: float,
    at_right: float,
    tolerances: Tolerances,
) -> list[float]:
    """The times within a step at which an event happens; touching counts within ten times the local error."""
    found = roots_in_step(
        lambda t: event.gap(closed, np.asarray(piece(t)), branch),
        piece.t_old,
        piece.t,
        at_left,
        at_right,
        tolerance=10 * (tolerances.atol + tolerances.rtol * max(abs(event.level), abs(at_right))),
    )
    return [t for t, direction in found if event.direction in (0, direction)]


__all__ = ["DIRECTIONS", "Crossing", "Event", "Integration", "Tolerances", "check_times", "integrate"]
