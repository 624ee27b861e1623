"""Phase diagrams of recovery: escape velocity and threshold time over two parameters of a family of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.dynamics.recovery import recovery
from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.model import AttentionModel
from aimtheory.records import Result, Variable, record

FloatArray = NDArray[np.float64]


@record("recovery-diagram")
@dataclass(frozen=True, eq=False)
class RecoveryDiagram(Result):
    """Weak recovery on a grid: arrays of shape (len(first), len(second)).

    ``velocity`` is dp_12/dt at the start, ``threshold_time`` the time at which |p_12| reaches the level (NaN where it
    does not, or when only velocities were asked for), ``recovers`` the verdict (1, 0, or NaN where ``failures`` says
    why there is none).
    """

    first_name: str
    second_name: str
    first: FloatArray
    second: FloatArray
    velocity: FloatArray
    threshold_time: FloatArray
    recovers: FloatArray
    failures: tuple[tuple[int, int, str], ...]

    @property
    def frame_dims(self) -> tuple[str, ...]:  # type: ignore[override]
        """The two parameters, by name."""
        return self.first_name, self.second_name

    def variables(self) -> tuple[Variable, ...]:
        """Over the two parameters."""
        tables = {
            "velocity": "dp/dt at the start",
            "threshold_time": "time at which |p| reaches the level",
            "recovers": "whether it weakly recovers",
        }
        return (
            Variable(self.first_name, self.first, (self.first_name,), self.first_name),
            Variable(self.second_name, self.second, (self.second_name,), self.second_name),
            *(Variable(name, getattr(self, name), self.frame_dims, what) for name, what in tables.items()),
        )

    def __repr__(self) -> str:
        known = self.recovers[np.isfinite(self.recovers)]
        return (
            f"RecoveryDiagram({self.first_name} x {self.second_name}, {len(self.first)} x {len(self.second)} points, "
            f"{int(known.sum())} recover, {len(self.failures)} undecided)"
        )


def recovery_diagram(
    build: Callable[[float, float], AttentionModel],
    *,
    first: tuple[str, Sequence[float]],
    second: tuple[str, Sequence[float]],
    level: float | None = None,
    degree: int = 5,
    follow: bool = False,
    progress: Callable[[float, float], None] | None = None,
) -> RecoveryDiagram:
    """Weak recovery of ``build(x, y)`` over a grid of x (``first``) and y (``second``), each a name and its values.

    Velocities alone are cheap; ``follow`` solves every trajectory up to the ``level`` as well. A model outside the
    theory's assumptions leaves NaN at its point and a message in ``failures``; Ctrl-C returns the points done so far.

    >>> import aimtheory as aim
    >>> def build(width, scale):
    ...     return aim.AttentionModel.teacher_student(tokens=1, activation="linear", parameterization="tied",
    ...         student=aim.Wishart(width, scale), teacher=aim.Wishart(1, 1))
    >>> diagram = recovery_diagram(build, first=("width", [0.5, 1.0]), second=("trace", [0.5, 1.0, 2.0]))
    >>> diagram.velocity.shape
    (2, 3)
    """
    axes = []
    for name, values in (first, second):
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise InputError(f"values of {name!r} must be a non-empty list of finite numbers")
        axes.append(array)
    shape = (len(axes[0]), len(axes[1]))
    velocity, time, verdict = (np.full(shape, np.nan) for _ in range(3))
    failures: list[tuple[int, int, str]] = []
    try:
        for i, x in enumerate(axes[0]):
            for j, y in enumerate(axes[1]):
                try:
                    report = recovery(build(float(x), float(y)), level=level, degree=degree, follow=follow)
                except (AssumptionError, NumericsError) as error:
                    failures.append((i, j, str(error)))
                else:
                    velocity[i, j] = report.velocity
                    time[i, j] = np.nan if report.threshold_time is None else report.threshold_time
                    verdict[i, j] = float(report.recovers)
                if progress is not None:
                    progress(i * shape[1] + j + 1, shape[0] * shape[1])
    except KeyboardInterrupt:
        failures.append((-1, -1, "interrupted from the keyboard; points not reached are NaN"))
    return RecoveryDiagram(first[0], second[0], axes[0], axes[1], velocity, time, verdict, tuple(failures))


__all__ = ["RecoveryDiagram", "recovery_diagram"]
