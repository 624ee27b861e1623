"""The flow of a closed system: its couplings read off the state, integrated in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aimtheory.dynamics.coupling_values import CouplingValues, read_observables
from aimtheory.dynamics.integrate import Event, Integration, Progress, integrate
from aimtheory.hierarchy.closures import ClosedSystem

FloatArray = NDArray[np.float64]


def follow(
    system: ClosedSystem,
    couplings: CouplingValues,
    grid: FloatArray,
    events: Sequence[Event],
    rtol: float,
    atol: float,
    dense: bool,
    progress: Progress | None,
) -> Integration:
    """Integrate dy/dt = drift(couplings(y), y) from the initial state over ``grid``; see ``integrate``.

    The same arguments give the same states, bit for bit: that is how the states of a stored trajectory are made again.
    """

    def drift(state: FloatArray) -> FloatArray:
        return system.drift(couplings(lambda words: system.moments(words, state)), state)

    def crossing(event: Event) -> Callable[[FloatArray], float]:
        return lambda state: (
            read_observables(system, couplings, (event.observable,), state[None])[event.observable][0] - event.level
        )

    return integrate(
        drift,
        system.initial,
        grid,
        rtol=rtol,
        atol=atol,
        events=[(crossing(event), event.terminal) for event in events],
        dense=dense,
        progress=progress,
    )


__all__ = ["follow"]
