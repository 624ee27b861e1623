"""Integrating a closed system in time: Runge-Kutta of order eight, with events, and nothing lost on interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import DOP853
from scipy.optimize import brentq

from aimtheory.dynamics.dense_output import DenseOutput
from aimtheory.dynamics.status import BROKEN, COMPLETE, DIVERGED, EVENT, INTERRUPTED
from aimtheory.errors import AimTheoryError, AssumptionError, InputError

FloatArray = NDArray[np.float64]
Progress = Callable[[float, float], None]
"""Called with (time reached, final time) after each step."""

_BLOW_UP = 1e10
_DENSE_LIMIT = 1 << 25


@dataclass(frozen=True)
class Event:
    """An observable crossing a level, in either direction; a ``terminal`` event ends the integration.

    >>> Event("p_12", 0.3)
    Event(observable='p_12', level=0.3, terminal=False)
    """

    observable: str
    level: float
    terminal: bool = False

    def __post_init__(self) -> None:
        if (
            isinstance(self.level, bool)
            or not isinstance(self.level, int | float | np.number)
            or not np.isfinite(self.level)
        ):
            raise InputError(f"event level = {self.level!r} for {self.observable} must be a finite number")


@dataclass(frozen=True)
class Integration:
    """States at the requested times that were reached, crossings of events, dense output if it fits, how it ended."""

    times: FloatArray
    states: FloatArray
    crossings: tuple[tuple[float, ...], ...]
    dense: DenseOutput | None
    code: str
    reached: float
    notes: tuple[str, ...]
    evaluations: int


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


def integrate(
    drift: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    times: FloatArray,
    *,
    rtol: float,
    atol: float,
    events: Sequence[tuple[Callable[[FloatArray], float], bool]] = (),
    dense: bool = True,
    progress: Progress | None = None,
) -> Integration:
    """Solve dy/dt = drift(y) from time 0 and report the states at ``times``.

    ``events`` are pairs (function of the state whose sign changes, terminal). A keyboard interrupt, a blow-up (beyond
    1e10 times the start) or a step size that vanishes end the integration with what has been reached. Local error per
    step at most atol + rtol |y|.
    """
    final = float(times[-1])
    states: list[FloatArray] = []
    next_time = 0
    while next_time < len(times) and times[next_time] <= 0:
        states.append(start.copy())
        next_time += 1
    breakpoints, step_states, coefficients = [0.0], [], []
    crossings: list[list[float]] = [[] for _ in events]
    code, notes = COMPLETE, []
    bound = _BLOW_UP * max(1.0, float(np.abs(start).max(initial=0.0)))
    reached, evaluations = 0.0, 0
    values = [function(start) for function, _ in events]
    keep_dense, step_seen = dense, False
    try:
        # A drift of NaN at the very start is an error of the input, not of the integration.
        if final > 0 and start.size:
            with np.errstate(over="ignore", invalid="ignore"):
                solver = DOP853(lambda _, y: drift(y), 0.0, start, final, rtol=rtol, atol=atol)
                while solver.status == "running":
                    message = solver.step()
                    if solver.status == "failed" or not np.isfinite(solver.y).all():
                        code = DIVERGED
                        notes.append(
                            f"the integration stopped at t = {solver.t:.6g}: {message or 'the state is not finite'}"
                        )
                        break
                    if float(np.abs(solver.y).max()) > bound:
                        code = DIVERGED
                        notes.append(f"the state exceeded {bound:.1e} at t = {solver.t:.6g}")
                        break
                    step_seen = True
                    piece = solver.dense_output()
                    stop = solver.t
                    for number, (function, terminal) in enumerate(events):
                        new = function(solver.y)
                        if values[number] * new < 0:
                            root = brentq(lambda t, f=function, y=piece: f(y(t)), solver.t_old, solver.t, xtol=1e-12)
                            crossings[number].append(float(root))
                            if terminal:
                                stop = min(stop, float(root))
                        values[number] = new
                    ended = stop < solver.t or any(
                        terminal and crossed and crossed[-1] == stop
                        for (_, terminal), crossed in zip(events, crossings, strict=True)
                    )
                    while next_time < len(times) and times[next_time] <= stop:
                        states.append(np.asarray(piece(times[next_time])))
                        next_time += 1
                    reached = stop
                    if keep_dense:
                        breakpoints.append(solver.t)
                        step_states.append(piece.y_old)
                        coefficients.append(np.array(piece.F))
                        if len(coefficients) * 8 * start.size > _DENSE_LIMIT:
                            keep_dense = False
                    if progress is not None:
                        progress(reached, final)
                    if ended:
                        code = EVENT
                        if not states or stop > times[len(states) - 1]:
                            # The state at the event belongs to the answer, whether or not its time was asked for.
                            times = np.append(times[: len(states)], stop)
                            states.append(np.asarray(piece(stop)))
                        crossings = [[t for t in crossed if t <= stop] for crossed in crossings]
                        break
                evaluations = solver.nfev
        else:
            reached = final
            while next_time < len(times):
                states.append(start.copy())
                next_time += 1
    except KeyboardInterrupt:
        code = INTERRUPTED
        notes.append(f"at t = {reached:.6g} of {final:.6g}")
    except AimTheoryError as error:
        if not step_seen:
            raise
        # The right-hand side refused a state on the way: keep the trajectory up to there.
        code = BROKEN if isinstance(error, AssumptionError) else DIVERGED
        notes.append(f"the right-hand side failed after t = {reached:.6g}: {error}")
    solution = (
        DenseOutput(np.array(breakpoints), np.array(step_states), np.array(coefficients))
        if keep_dense and step_states
        else None
    )
    kept = np.array(states) if states else np.zeros((0, start.size))
    return Integration(
        times[: len(kept)], kept, tuple(map(tuple, crossings)), solution, code, reached, tuple(notes), evaluations
    )


__all__ = ["Event", "Integration", "Progress", "check_times", "integrate"]
