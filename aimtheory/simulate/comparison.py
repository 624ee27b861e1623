"""Theory against simulation: differences in units of the standard error, observable by observable and time by time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from aimtheory.errors import InputError
from aimtheory.model import AttentionModel
from aimtheory.records import Result, Variable, record
from aimtheory.simulate.sgd_run import SgdRun

FloatArray = NDArray[np.float64]

_ROUNDING = {"float32": 3e-6, "float64": 1e-12}
"""Relative rounding of a simulated trace: a difference below it is no difference."""


class Theory(Protocol):
    """What can be compared: times, and values over them by name; ``Trajectory`` is one, ``SgdRun`` another."""

    @property
    def times(self) -> FloatArray:
        """Times, shape (n,)."""

    def __getitem__(self, name: str, /) -> FloatArray:
        """Values over the times."""


@record("comparison")
@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """Rows (observable, time): ``theory``, ``simulation`` (mean over seeds), ``standard_error`` and ``sigmas``.

    ``sigmas`` is the difference over the standard error, turned into the equivalent number of Gaussian standard
    deviations: with n seeds the ratio follows Student's t with n - 1 degrees of freedom, whose tails are heavy for
    few seeds. NaN where the simulation has no value.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("observable", "time")

    observables: tuple[str, ...]
    times: FloatArray
    theory: FloatArray
    simulation: FloatArray
    standard_error: FloatArray
    sigmas: FloatArray
    seeds: int
    finite_size: float
    notes: tuple[str, ...] = ()

    def variables(self) -> tuple[Variable, ...]:
        """Over observable and time."""
        tables = {
            "theory": "value of the theory",
            "simulation": "mean over seeds",
            "standard_error": "standard error of the mean",
            "sigmas": "difference in Gaussian standard deviations",
        }
        return (
            Variable("observable", np.array(self.observables), ("observable",), "observable"),
            Variable("time", self.times, ("time",), "time", "learning time"),
            *(Variable(name, getattr(self, name), self.frame_dims, what) for name, what in tables.items()),
        )

    def summary(self) -> dict[str, Any]:
        """The fields, and ``largest``, the largest |difference| in sigmas."""
        return {**super().summary(), "largest": self.largest}

    @property
    def largest(self) -> float:
        """The largest |difference| in sigmas."""
        finite = self.sigmas[~np.isnan(self.sigmas)]
        return float(np.abs(finite).max()) if finite.size else float("nan")

    @property
    def worst(self) -> tuple[str, float]:
        """Observable and time of the largest difference."""
        row, column = np.unravel_index(int(np.nanargmax(np.abs(self.sigmas))), self.sigmas.shape)
        return self.observables[row], float(self.times[column])

    def passes(self, sigmas: float = 4.0) -> bool:
        """True when every row has a value and agrees within that many sigmas; nothing compared does not pass."""
        return bool(self.sigmas.size and not np.isnan(self.sigmas).any() and self.largest <= sigmas)

    def __str__(self) -> str:
        lines = [f"{'observable':>14}  {'t':>8}  {'theory':>12}  {'simulation':>12}  {'std. error':>10}  {'sigmas':>7}"]
        for row, name in enumerate(self.observables):
            lines += [
                f"{name:>14}  {time:8.4g}  {self.theory[row, n]:12.6f}  {self.simulation[row, n]:12.6f}  "
                f"{self.standard_error[row, n]:10.2e}  {self.sigmas[row, n]:7.2f}"
                for n, time in enumerate(self.times)
            ]
        missing = int(np.isnan(self.sigmas).sum())
        lost = (f"{missing} rows have no value and do not pass",) if missing else ()
        tail = [*lost, f"{self.seeds} seeds; largest difference {self.largest:.2f} sigmas", *self.notes]
        return "\n".join([*lines, *tail])


def compare(
    theory: Theory | Sequence[Theory],
    simulation: SgdRun,
    observables: Iterable[str] | None = None,
    *,
    finite_size: float = 0.0,
) -> Comparison:
    """Compare a theory with SGD at finite d.

    The standard error is the spread across seeds: fluctuation of the initial matrices, of order 1/d, and noise of the
    tokens. ``theory`` is one trajectory, or one for each seed in their order, started from the same matrices
    (``initial_parameters``): then the statistics are made on the differences seed by seed, initial fluctuations
    cancel and the comparison is much sharper.

    Not in the standard error: the bias of finite d (fourth cumulants of the forms, O(1/d); odd ones up to
    O(d^{-1/2})), the one of gradient noise O(learning_rate x d / batch), and the one of the step O(learning_rate /
    d). ``finite_size`` is an allowance for it, in the units of the observables, added in quadrature; halve it when d
    doubles. Default observables: all that were simulated except ``loss``, whose bias is the largest.

    Theory values are read at the simulation's times, from ``theory.times`` up to half a step, else from
    ``theory.at``. Raises ``InputError`` when they cannot be, and for fewer than 3 seeds without ``finite_size``: one
    run has no standard error.
    """
    if not (np.isfinite(finite_size) and finite_size >= 0):
        raise InputError(f"finite_size = {finite_size!r} must be a number of at least 0")
    paired = isinstance(theory, Sequence)
    theories: list[Theory] = list(theory) if isinstance(theory, Sequence) else [theory]
    seeds = len(simulation.seeds)
    if paired and len(theories) != seeds:
        raise InputError(f"{len(theories)} theories for {seeds} seeds; give one, or one for each seed in their order")
    if seeds < 3 and finite_size == 0:
        raise InputError(
            f"the simulation has {seeds} seed{'s' * (seeds > 1)}: its standard error is unknown. "
            "Run at least 3 seeds (seeds=range(3)), or state an allowance with finite_size="
        )
    names = _observables(observables, simulation)
    step = float(simulation.model.clock) * simulation.learning_rate / simulation.dim
    shape = (len(names), len(simulation.times))
    expected, found, error, sigmas = (np.full(shape, np.nan) for _ in range(4))
    tables = [_values(each, names, simulation.times, step) for each in theories]
    for row, name in enumerate(names):
        predicted = np.array([table[name] for table in tables])
        expected[row], found[row] = predicted.mean(axis=0), simulation.mean(name)
        error[row], sigmas[row] = _significance(simulation, name, predicted, finite_size)
    return Comparison(
        observables=names,
        times=simulation.times,
        theory=expected,
        simulation=found,
        standard_error=error,
        sigmas=sigmas,
        seeds=seeds,
        finite_size=finite_size,
        notes=_notes(theories, simulation),
    )


def _observables(observables: Iterable[str] | None, simulation: SgdRun) -> tuple[str, ...]:
    if isinstance(observables, str):
        raise InputError(f"observables = {observables!r} is one name; give a list such as [{observables!r}]")
    if observables is None:
        names = tuple(name for name in simulation.values if name != "loss")
        return names or tuple(simulation.values)
    names = tuple(observables)
    for name in names:
        simulation.mean(name)
    if not names:
        raise InputError("observables is empty; name at least one, or leave it out for all that were simulated")
    return names


def _significance(
    simulation: SgdRun, name: str, predicted: FloatArray, finite_size: float
) -> tuple[FloatArray, FloatArray]:
    """Standard error and sigmas at each time, with the effective degrees of freedom of Welch and Satterthwaite."""
    gaps = simulation.values[name] - predicted
    count = np.isfinite(gaps).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, np.nansum(gaps, axis=0) / count, np.nan)
        spread = np.where(count > 1, np.nansum((gaps - mean) ** 2, axis=0) / ((count - 1.0) * count), 0.0)
    mean = np.where(np.isfinite(simulation.mean(name)), mean, np.nan)
    exact = _ROUNDING[simulation.dtype] * np.maximum(1.0, np.abs(predicted).max(axis=0))
    variance = spread + finite_size**2 + exact**2
    ratio = mean / np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(spread > 0, variance**2 / (spread**2 / np.maximum(count - 1.0, 1.0)), np.inf)
    return np.sqrt(variance), _gaussian_equivalent(ratio, freedom)


def _gaussian_equivalent(ratio: FloatArray, freedom: FloatArray) -> FloatArray:
    """The Gaussian deviate with the tail probability that Student's t gives to the ratio."""
    from scipy import stats

    plain = ~np.isfinite(freedom)
    tail = stats.t.logsf(np.abs(ratio), np.where(plain, 1.0, freedom))
    deviate = np.array([_deviate(float(value)) for value in tail])
    return np.sign(ratio) * np.where(plain, np.abs(ratio), deviate)


def _deviate(log_tail: float) -> float:
    """x with log P(N > x) = log_tail, by Newton in the logarithm, so that tails below 1e-300 do not overflow."""
    if not np.isfinite(log_tail):
        return float("nan") if np.isnan(log_tail) else float("inf")
    x = max(0.0, float(np.sqrt(max(0.0, -2 * (log_tail + np.log(2.0))))))
    for _ in range(60):
        value = float(log_ndtr(-x))
        slope = -math.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - value)
        change = (value - log_tail) / slope
        x = max(0.0, x - change)
        if abs(change) < 1e-12 * max(1.0, x):
            break
    return x


def _values(theory: Any, names: Sequence[str], times: FloatArray, step: float) -> dict[str, FloatArray]:
    known = np.asarray(theory.times, dtype=np.float64)
    nearest = np.abs(known[:, None] - times).argmin(axis=0) if known.size else np.zeros(len(times), dtype=np.int64)
    if known.size and (np.abs(known[nearest] - times) <= 0.5 * step * (1 + 1e-9)).all():
        return {name: np.asarray(theory[name], dtype=np.float64)[nearest] for name in names}
    if hasattr(theory, "at") and known.size and times[-1] <= known[-1] + 0.5 * step:
        read = theory.at(np.minimum(times, known[-1]), names)
        return {name: np.asarray(read[name], dtype=np.float64) for name in names}
    span = f"{known[0]:g}..{known[-1]:g}" if known.size else "none"
    raise InputError(
        f"the theory's times ({span}) do not hold the simulation's ({', '.join(f'{t:g}' for t in times)}), "
        "and it cannot be read between them; solve with times=simulation.times"
    )


def time_unit(model: AttentionModel) -> str:
    """What time counts, n steps at learning rate alpha_d: ``4 n alpha_d/d`` for tied attention."""
    return f"{'' if model.clock == 1 else f'{model.clock} '}n alpha_d/d"


def model_differences(theory: AttentionModel, simulation: AttentionModel) -> tuple[str, ...]:
    """Why a theory and a simulation are not of the same thing, whatever their names; nothing when they are."""
    if theory == simulation:
        return ()
    found = [f"the theory is of another model, {theory!r}, than the simulation, {simulation!r}"]
    if theory.clock != simulation.clock:
        found.append(
            f"their times are in different units, {time_unit(theory)} in the theory and {time_unit(simulation)} in the "
            "simulation"
        )
    return tuple(found)


def _notes(theories: Sequence[Any], simulation: SgdRun) -> tuple[str, ...]:
    notes = list(simulation.status.notes)
    if not simulation.status.ok:
        notes.insert(0, f"simulation {simulation.status.code}: {simulation.status.advice}")
    for theory in theories[:1]:
        model = getattr(theory, "model", None)
        if model is not None:
            notes += model_differences(model, simulation.model)
        status = getattr(theory, "status", None)
        trusted = getattr(theory, "trusted_until", None)
        if status is not None and not status.ok:
            notes.append(f"theory {status}")
        elif trusted is not None and trusted < simulation.times[-1]:
            notes.append(f"theory is trusted until t = {trusted:g} only")
    return tuple(notes)


__all__ = ["Comparison", "Theory", "compare", "model_differences", "time_unit"]
