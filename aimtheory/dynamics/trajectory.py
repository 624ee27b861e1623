"""Trajectories: the solution of a closed hierarchy, read by name, with how far it can be trusted."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.branch import Branch, BranchPath
from aimtheory.dynamics.closed_model import ClosedModel, read_states
from aimtheory.dynamics.dense_output import DenseOutput
from aimtheory.dynamics.integrate import Tolerances, integrate
from aimtheory.dynamics.meanings import meaning, time_meaning
from aimtheory.errors import InputError, NumericsError
from aimtheory.frozen import FrozenMapping
from aimtheory.hierarchy import Closure, Views
from aimtheory.hierarchy.closures import ClosedSystem
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.hierarchy.observables import Observable, observable
from aimtheory.model import AttentionModel, model_summary
from aimtheory.records import Result, Variable, field_values, record, save
from aimtheory.spectra import DressedSpectrum, SpectralMeasure
from aimtheory.status import Status
from aimtheory.words import Letter, Word

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw

_SMALL = 1 << 12
"""States and dense output of at most this many numbers are stored; larger ones are made again when needed."""
_DRAWN, _POINTS = 1 << 12, 101
"""States of at most this size are read at so many times for the curves that a file keeps in their stead."""
_SMOOTH = 1 << 18
"""Dense output is read for states up to this size; larger ones are drawn through the stored times."""


class NamedArrays(FrozenMapping[str, FloatArray]):
    """Arrays by name. A call gives the arrays alone, so that ``run.values`` is a table and ``run.values()`` the method
    of a mapping.
    """

    __slots__ = ()

    def __call__(self) -> ValuesView[FloatArray]:
        """The arrays in order."""
        return self.values()


@record("trajectory")
@dataclass(frozen=True, eq=False)
class Trajectory(Result):
    """The moments of a model over time, exact or under a closure of degree M (None where it was left out).

    A mapping from the names of its observables to arrays over ``times``: ``run["p_12"]``, ``dict(run)``, ``"loss" in
    run``. Any other observable or word that the states hold is read on demand, ``run["tr(S1 S2)"]``; ``run.at(t)``
    gives values between the times. ``status`` says what happened and what to do; ``errors[name]`` is the error at each
    time, estimated from degrees M, M-2 and M-4 (infinite where their differences do not shrink) or from a second
    quadrature, NaN where it was not compared; ``trusted_until`` is the last time up to which it stays below
    ``trust_tolerance`` x |value| for every observable and for the overlaps that drive the flow, where a value below 2 %
    of the largest so far counts as that much; NaN where nothing was compared. ``branches`` are those of the slaved
    means. Time is t = n x clock x learning_rate / d.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("time",)

    model: AttentionModel
    closure: Closure
    degree: int | None
    times: FloatArray
    values: Mapping[str, FloatArray]
    errors: Mapping[str, FloatArray]
    status: Status
    trusted_until: float
    trust_tolerance: float
    events: Mapping[str, tuple[float, ...]]
    states: FloatArray | None = field(repr=False, compare=False, default=None)
    """At the times; None in a file that left them out: they are then made again when something asks for them."""
    dense: DenseOutput | None = field(repr=False, compare=False, default=None)
    branches: BranchPath | None = field(repr=False, default=None)
    initial: JointLaw | ParameterMatrices | None = field(repr=False, default=None)
    initial_mean: FloatArray | None = None
    evaluations: int = 0
    rtol: float = 1e-9
    atol: float = 1e-11
    span: float = 0.0
    """The last time that was asked for."""
    drawn: Mapping[str, FloatArray] = field(repr=False, compare=False, default=FrozenMapping())
    """Observables on the finer grid ``drawn["time"]``, for figures of a file that left the states out."""

    def __post_init__(self) -> None:
        """Tables that cannot be changed."""
        object.__setattr__(self, "values", NamedArrays(self.values))
        object.__setattr__(self, "errors", FrozenMapping(self.errors))
        object.__setattr__(self, "events", FrozenMapping(self.events))

    @cached_property
    def closed(self) -> ClosedModel:
        """The closed model whose states these are."""
        return ClosedModel(self.model, self.closure, self.degree, self.initial, self.initial_mean)

    @property
    def method(self) -> str:
        """The closure for a legend, with its degree M where it has one: ``"gns, M = 11"``, ``"exact"``."""
        return f"{self.closure.name}, M = {self.degree}" if self.closure.needs_degree else self.closure.name

    @property
    def views(self) -> Views:
        """The letters in which words are read."""
        return self.closed.views

    @property
    def system(self) -> ClosedSystem:
        """The closed system whose states these are."""
        return self.closed.system

    @cached_property
    def _flow(self) -> tuple[FloatArray, DenseOutput | None]:
        """States at the times and dense output: those that are kept, else by the same integration once more."""
        if self.states is not None:
            return self.states, self.dense
        grid = np.union1d(self.times, [max(self.span, *self.times[-1:])])
        flow = integrate(self.closed, grid, Tolerances(self.rtol, self.atol))
        count = len(self.times)
        if not np.array_equal(flow.times[:count], self.times):
            raise NumericsError(
                f"the flow did not reach t = {self.times[-1]:g} again ({flow.code} at t = {flow.reached:g}); "
                "solve the model again, or save with states=True"
            )
        return flow.states[:count], flow.dense

    def __getitem__(self, name: str | Word | Observable) -> FloatArray:
        """Values over ``times`` of an observable or of a word; ``InputError`` when the state does not hold it."""
        if isinstance(name, str) and name in self.values:
            return self.values[name]
        chosen = observable(name, self.model, self.views)
        if chosen.name in self.values:
            return self.values[chosen.name]
        return self.read(chosen, self._flow[0], self.times)

    def keys(self) -> KeysView[str]:
        """The names of the observables that were computed."""
        return self.values.keys()

    def items(self) -> ItemsView[str, FloatArray]:
        """Names and arrays."""
        return self.values.items()

    def get(self, name: str, default: Any = None) -> Any:
        """The array of an observable that was computed, else the default."""
        return self.values.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, name: object) -> bool:
        """True for the observables that were computed; others may still be read."""
        return name in self.values

    def read(self, name: str | Word | Observable, states: FloatArray, times: FloatArray | None = None) -> FloatArray:
        """An observable at given states, shape (number of states,).

        ``times`` says where on the trajectory the states lie, and with it on which branch their means are; without it
        they are followed from that of time zero, one state after another.
        """
        chosen = observable(name, self.model, self.views)
        return read_states(self.closed, [chosen], states, self._branches(states, times))[chosen.name]

    def _branches(self, states: FloatArray, times: FloatArray | None) -> Sequence[Branch | None]:
        if times is not None:
            return [None if self.branches is None else self.branches.at(float(t)) for t in times]
        branch, found = self.closed.initial_branch, []
        for state in states:
            branch = self.closed.branch(state, branch)
            found.append(branch)
        return found

    def at(self, times: ArrayLike, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
        """Observables at any times in the solved range, from the dense output.

        Raises ``InputError`` outside the range, or when no dense output was kept (states too large: solve with these
        times instead).
        """
        dense = self._flow[1]
        if dense is None:
            raise InputError(
                "no dense output was kept for this trajectory; solve again with the times you need in times="
            )
        points = np.atleast_1d(np.asarray(times, dtype=np.float64))
        states = dense(points)
        wanted = tuple(self.values) if names is None else names
        chosen = [observable(name, self.model, self.views) for name in wanted]
        found = read_states(self.closed, chosen, states, self._branches(states, points))
        return {name: found[one.name] for name, one in zip(wanted, chosen, strict=True)}

    def curve(self, name: str, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """Times and values to draw: through the dense output when there is one of moderate size, else stored ones."""
        if name in self.drawn:
            return self.drawn["time"], self.drawn[name]
        if self.states is None or self.dense is None or self.states.shape[1] > _SMOOTH or len(self.times) < 2:
            return self.times, self[name]
        grid = np.union1d(self.times, np.linspace(self.times[0], self.times[-1], points))
        if self.times[0] < self.trusted_until < self.times[-1]:
            grid = np.union1d(grid, [self.trusted_until])
        return grid, self.at(grid, [name])[name]

    def spectral_measure(self, time: float, name: str | None = None) -> SpectralMeasure:
        """The spectral measure of an attention matrix at a time, from the operators of the closure (gns or matrix).

        ``name`` is a view such as ``"S1"``, by default the first that is trained. Gauss quadrature: exact for the
        moments that the state holds; ``.density(x, resolution)`` smooths it and states the resolution.
        """
        return self.system.spectral_measure(*self._letter_and_state(time, name))

    def spectrum(self, time: float, name: str | None = None) -> DressedSpectrum:
        """The law of an attention matrix at a time: ``.density(x)``, ``.atoms``, ``.edges``, ``.quantiles(p)``.

        Exact in the limit d -> infinity; closure exact only (``InputError`` says so elsewhere).
        """
        return self.system.spectrum(*self._letter_and_state(time, name))

    def spectral_law(self, time: float, name: str | None = None) -> DressedSpectrum | SpectralMeasure:
        """The exact law of a matrix at a time where the closure has it (``spectrum``), else ``spectral_measure``."""
        letter, state = self._letter_and_state(time, name)
        return self.system.spectral_law(letter, state)

    def spectral_density(self, time: float, grid: ArrayLike, name: str | None = None) -> FloatArray:
        """Density of the continuous part of the spectrum on a grid, same shape; see ``spectrum``."""
        return self.spectrum(time, name).density(grid)

    def _letter_and_state(self, time: float, name: str | None) -> tuple[Letter, FloatArray]:
        letters = {str(letter): letter for letter in self.views.alphabet.letters}
        chosen = str(self.views.trainable_letters[0]) if name is None else name
        if chosen not in letters:
            raise InputError(f"unknown matrix {name!r}; the matrices of this model are {', '.join(letters)}")
        hit = np.flatnonzero(np.isclose(self.times, time, rtol=0, atol=1e-12))
        states, dense = self._flow
        if len(hit):
            state = states[hit[0]]
        elif dense is not None:
            state = dense(time)[0]
        else:
            raise InputError(f"time {time} is not among the times of this trajectory, and no dense output was kept")
        return letters[chosen], state

    def variables(self) -> tuple[Variable, ...]:
        """Observables over time, and their estimated errors."""
        return (
            Variable("time", self.times, ("time",), time_meaning(self.model), "learning time"),
            *(Variable(name, values, ("time",), meaning(name)) for name, values in self.values.items()),
            *(
                Variable(f"{name}_error", values, ("time",), f"estimated error of {name}, from coarser computations")
                for name, values in self.errors.items()
            ),
        )

    def summary(self) -> dict[str, Any]:
        """``times``, ``values`` (name -> list), ``errors``, ``status``, ``advice``, ``trusted_until``."""
        return {
            **model_summary(self.model),
            "closure": self.closure.name,
            "closure_options": dict(self.closure.options),
            "degree": self.degree,
            "status": self.status.code,
            "advice": self.status.advice,
            "trusted_until": self.trusted_until,
            "trust_tolerance": self.trust_tolerance,
            "events": {name: list(crossed) for name, crossed in self.events.items()},
            "times": self.times,
            "values": dict(self.values),
            "errors": dict(self.errors),
        }

    def to_record(self, states: bool = False) -> dict[str, Any]:
        """All but the states of the solver, unless they are small or asked for: they can be made again."""
        values = field_values(self)
        size = 0 if self.states is None else self.states.size
        if self.dense is not None:
            size += self.dense.coefficients.size + self.dense.states.size
        if states or size <= _SMALL:
            return values
        drawn: Mapping[str, FloatArray] = self.drawn
        if not drawn and self.states is not None and self.states.shape[1] <= _DRAWN:
            curves = {name: self.curve(name, _POINTS) for name in self.values}
            fine = {name: curve for name, (grid, curve) in curves.items() if len(grid) > len(self.times)}
            drawn = {"time": next(iter(curves.values()))[0], **fine} if fine else {}
        return {**values, "states": None, "dense": None, "drawn": dict(drawn)}

    def save(self, path: str | Path, *, overwrite: bool = False, states: bool = False, **beside: Any) -> Path:
        """Write a file; its suffix chooses the format, see ``Result.save``. An existing file is kept unless
        ``overwrite``.

        Model, initial condition and closure are stored with all that was computed, so that observables which were not
        stored can be read after loading: large states of the solver are then made again by the same integration, or
        kept in the file with ``states``.
        """
        return save(self, path, overwrite=overwrite, values=self.to_record(states), **beside)

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


__all__ = ["NamedArrays", "Trajectory"]
