"""Trajectories: the solution of a closed hierarchy, read by name, with how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.dynamics.coupling_values import CouplingValues, read_observables
from aimtheory.dynamics.dense_output import DenseOutput
from aimtheory.dynamics.status import Status
from aimtheory.errors import InputError
from aimtheory.hierarchy import Closure, Views, views
from aimtheory.hierarchy.closures import ClosedSystem, ClosureProblem
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.model import AttentionModel
from aimtheory.spectra import SpectralMeasure
from aimtheory.words import Word, trace_name

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Trajectory:
    """The moments of a model over time under a closure of degree M.

    ``run["p_12"]``, ``run["loss"]`` or ``run["tr(S1 S2)"]`` gives an array over ``times``; ``run.at(t)`` values
    between them. ``status`` says what happened and what to do; ``errors[name]`` is the difference from degree M-2 at
    each time (NaN where it was not compared) and ``trusted_until`` the last time up to which it stays below
    ``trust_tolerance`` x max(1, |value|) for every observable. Time is t = n x time_factor x learning_rate / d.
    """

    model: AttentionModel
    closure: Closure
    degree: int
    times: FloatArray
    values: Mapping[str, FloatArray]
    errors: Mapping[str, FloatArray]
    status: Status
    trusted_until: float
    trust_tolerance: float
    events: Mapping[str, tuple[float, ...]]
    states: FloatArray = field(repr=False)
    dense: DenseOutput | None = field(repr=False, default=None)
    initial: JointLaw | ParameterMatrices | None = field(repr=False, default=None)
    initial_mean: FloatArray | None = None
    evaluations: int = 0

    @cached_property
    def views(self) -> Views:
        """The letters in which words are read."""
        return views(self.model)

    @cached_property
    def system(self) -> ClosedSystem:
        """The closed system whose states these are."""
        return self.closure.close(ClosureProblem(self.model, self.views, self.degree, self.initial))

    @cached_property
    def _couplings(self) -> CouplingValues:
        return CouplingValues(self.model, self.views, self.initial_mean)

    def __getitem__(self, name: str | Word) -> FloatArray:
        """Values over ``times`` of an observable or of a word; ``InputError`` when the state does not hold it."""
        key = trace_name(name) if isinstance(name, Word) else name
        return self.values[key] if key in self.values else self.read(key, self.states, self.times)

    def __len__(self) -> int:
        return len(self.times)

    def read(self, name: str, states: FloatArray, times: FloatArray | None = None) -> FloatArray:
        """An observable at given states, shape (number of states,).

        ``times`` tells on which branch of means to read them: that of the nearest time of the trajectory.
        """
        means = [f"m_{k + 1}" for k in range(len(self.model.indices))]
        trained = [mean for mean, moves in zip(means, self.model.trainable, strict=True) if moves]
        if times is not None and len(times) and all(mean in self.values for mean in trained):
            nearest = int(np.abs(self.times - times[0]).argmin())
            start = self._couplings.start_mean.copy()
            for k, mean in enumerate(means):
                if mean in self.values:
                    start[k] = self.values[mean][nearest]
            self._couplings.restart(start)
        else:
            self._couplings.restart()
        return read_observables(self.system, self._couplings, (name,), states)[name]

    def at(self, times: ArrayLike, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
        """Observables at any times in the solved range, from the dense output.

        Raises ``InputError`` outside the range, or when no dense output was kept (states too large: solve with these
        times instead).
        """
        if self.dense is None:
            raise InputError(
                "no dense output was kept for this trajectory; solve again with the times you need in times="
            )
        points = np.atleast_1d(np.asarray(times, dtype=np.float64))
        states = self.dense(points)
        return {name: self.read(name, states, points) for name in (tuple(self.values) if names is None else names)}

    def spectral_measure(self, time: float, name: str | None = None) -> SpectralMeasure:
        """The spectral measure of an attention matrix at a time, from the operators of the closure (gns or matrix).

        ``name`` is a view such as ``"S1"``, by default the first that is trained. Gauss quadrature: exact for the
        moments that the state holds; ``.density(x, resolution)`` smooths it and states the resolution.
        """
        letters = {str(letter): letter for letter in self.views.alphabet.letters}
        chosen = str(self.views.trainable_letters[0]) if name is None else name
        if chosen not in letters:
            raise InputError(f"unknown matrix {name!r}; the matrices of this model are {', '.join(letters)}")
        hit = np.flatnonzero(np.isclose(self.times, time, rtol=0, atol=1e-12))
        if len(hit):
            state = self.states[hit[0]]
        elif self.dense is not None:
            state = self.dense(time)[0]
        else:
            raise InputError(f"time {time} is not among the times of this trajectory, and no dense output was kept")
        return self.system.spectral_measure(letters[chosen], state)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write everything to a NetCDF file; an existing file is kept unless ``overwrite``. See ``load_trajectory``."""
        from aimtheory.dynamics.storage import save_trajectory

        return save_trajectory(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, model: AttentionModel | None = None) -> Trajectory:
        """Read a trajectory back; ``model`` is needed only when the file could not hold it. ``InputError`` for a file
        that is none; nothing in it is executed."""
        from aimtheory.dynamics.storage import load_trajectory

        return load_trajectory(cls, path, model)

    def table(self) -> str:
        """The values as text, one row a time."""
        names = list(self.values)
        lines = ["  ".join([f"{'t':>8}", *(f"{name:>12}" for name in names)])]
        for n, time in enumerate(self.times):
            mark = "" if time <= self.trusted_until else "  ?"
            lines.append("  ".join([f"{time:8.4g}", *(f"{self.values[name][n]:12.6f}" for name in names)]) + mark)
        return "\n".join(lines)

    def __repr__(self) -> str:
        span = f"t = {self.times[0]:g}..{self.times[-1]:g}" if len(self.times) else "no times reached"
        return (
            f"Trajectory({self.model.name}, closure={self.closure.name!r}, degree={self.degree}, {span}, "
            f"{len(self.times)} times, status={self.status.code!r}, trusted_until={self.trusted_until:g})"
        )

    def _repr_latex_(self) -> str:
        names = list(self.values)
        heads = " & ".join(["t", *(rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}" for name in names)])
        rows = [
            " & ".join([f"{t:.4g}", *(f"{self.values[name][n]:.6f}" for name in names)])
            for n, t in enumerate(self.times)
        ]
        body = r" \\ ".join([heads, *rows])
        return rf"$$\begin{{array}}{{{'r' * (len(names) + 1)}}} {body} \end{{array}}$$"


__all__ = ["Trajectory"]
