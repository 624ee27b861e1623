"""Truncation studies: how the error of a closure depends on its degree, and until when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.closed_model import close
from aimtheory.dynamics.integrate import check_times
from aimtheory.dynamics.solve import TRUST_TOLERANCE, solve
from aimtheory.dynamics.trajectory import Trajectory
from aimtheory.dynamics.trust import coarser_degrees, integration_noise, judge, remaining_error
from aimtheory.errors import InputError
from aimtheory.hierarchy import Closure, Views, views
from aimtheory.hierarchy.moments import check_degree
from aimtheory.hierarchy.observables import Observable, Overlap, TraceOf, driving_observables, read_observables
from aimtheory.model import AttentionModel, model_summary
from aimtheory.progress import Progress
from aimtheory.records import Result, Variable, record
from aimtheory.spectra import JointLaw
from aimtheory.words import Word

_NEXT = "the next degree"
_SEEN = 1e-8
"""True errors below this do not enter a calibration."""
_FLOOR = 1e-12
"""Errors below this are rounding and integration error, not truncation; they do not enter a fit."""


@dataclass(frozen=True)
class Calibration:
    """Estimated against true errors at ``points`` of degree, time and observable.

    ``covered`` is the part of them where the estimate is at least the true error, ``worst`` the largest true error over
    its estimate. Errors below 1e-8, where the integrator shows, do not count; nor do estimates that are not known.
    """

    points: int
    covered: float
    worst: float

    @classmethod
    def of(cls, true: FloatArray, stated: FloatArray) -> Calibration:
        """From arrays of one shape; an infinite estimate covers anything, NaN is left out.

        >>> Calibration.of(np.array([0.1, 0.3, 0.2]), np.array([0.2, 0.2, np.inf]))
        Calibration(points=3, covered=0.6666666666666666, worst=1.4999999999999998)
        """
        used = np.isfinite(true) & ~np.isnan(stated) & (true > _SEEN)
        if not used.any():
            return cls(0, float("nan"), float("nan"))
        ratios = true[used] / np.maximum(stated[used], np.finfo(np.float64).tiny)
        return cls(int(used.sum()), float((ratios <= 1).mean()), float(ratios.max()))

    def __str__(self) -> str:
        return (
            "while it is trusted, the error estimated from degrees M, M-2 and M-4 covers the true one at "
            f"{100 * self.covered:.0f} % of {self.points} points; at worst the true error is {self.worst:.2g} times it"
        )


@record("truncation")
@dataclass(frozen=True, eq=False)
class TruncationStudy(Result):
    """Errors of a closure by degree and time, against a reference.

    ``errors[name]`` has shape (degrees, times): |value - reference|, NaN where a trajectory did not get there.
    ``estimates[name]``, same shape, is the error that ``solve`` would state at these times from degrees M, M-2 and M-4,
    and ``trusted_until``, one a degree, until when it would trust (NaN where no degree is below); ``calibration``
    compares both errors up to there. ``error`` is the largest over observables. At each time ``rate`` is the slope of
    log(error) per degree by least squares, with ``rate_error`` its standard error: negative while the closure
    converges. ``convergence_time`` is where the rate changes sign, the time t* past which a larger degree makes it
    worse; infinite when it never does.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("degree", "time")

    model: AttentionModel
    closure: str
    degrees: tuple[int, ...]
    times: FloatArray
    reference: str
    observables: tuple[str, ...]
    errors: Mapping[str, FloatArray]
    estimates: Mapping[str, FloatArray]
    trusted_until: tuple[float, ...]
    rate: FloatArray
    rate_error: FloatArray
    convergence_time: float
    trajectories: tuple[Trajectory, ...] = field(repr=False)

    @property
    def error(self) -> FloatArray:
        """Largest error over observables, shape (degrees, times)."""
        return np.max(np.stack([self.errors[name] for name in self.observables]), axis=0)

    @property
    def calibration(self) -> Calibration:
        """How the estimated errors compare with the true ones, over degrees, times that are trusted, observables."""
        trusted = self.times <= np.array(self.trusted_until)[:, None]
        true = np.stack([self.errors[name][trusted] for name in self.observables])
        stated = np.stack([self.estimates[name][trusted] for name in self.observables])
        return Calibration.of(true, stated)

    def variables(self) -> tuple[Variable, ...]:
        """Errors and their estimates over degree and time, rates over time."""
        return (
            Variable("degree", np.array(self.degrees), ("degree",), "truncation degree M"),
            Variable("time", self.times, ("time",), "time", "learning time"),
            *(
                Variable(f"{name}_error", table, self.frame_dims, f"error of {name} against {self.reference}")
                for name, table in self.errors.items()
            ),
            *(
                Variable(f"{name}_estimate", table, self.frame_dims, f"estimated error of {name}")
                for name, table in self.estimates.items()
            ),
            Variable("rate", self.rate, ("time",), "slope of log(error) by degree"),
            Variable("rate_error", self.rate_error, ("time",), "standard error of the rate"),
        )

    def summary(self) -> dict[str, Any]:
        """``errors`` (name -> degrees x times), ``error``, ``rate``, ``convergence_time`` (null: never reached)."""
        return {
            **model_summary(self.model),
            "closure": self.closure,
            "degrees": list(self.degrees),
            "reference": self.reference,
            "observables": list(self.observables),
            "convergence_time": self.convergence_time,
            "advice": self.verdict,
            "status": [run.status.code for run in self.trajectories],
            "trusted_until": list(self.trusted_until),
            "times": self.times,
            "values": {name: [run.values[name] for run in self.trajectories] for name in self.observables},
            "error": self.error,
            "errors": dict(self.errors),
            "estimates": dict(self.estimates),
            "calibration": {
                "points": self.calibration.points,
                "covered": self.calibration.covered,
                "worst": self.calibration.worst,
            },
            "rate": self.rate,
            "rate_error": self.rate_error,
        }

    def table(self) -> str:
        """The errors as text, one row a degree, one column a time, and the fitted rates."""
        lines = [f"error of closure {self.closure!r} in {', '.join(self.observables)} against {self.reference}"]
        lines.append("  ".join([f"{'M':>10}", *(f"t={t:<8.4g}" for t in self.times)]))
        for degree, row in zip(self.degrees, self.error, strict=True):
            lines.append("  ".join([f"{degree:>10}", *(f"{value:<10.1e}" for value in row)]))
        lines.append("  ".join([f"{'rate':>10}", *(f"{value:<10.2f}" for value in self.rate)]))
        lines.append("  ".join([f"{'+-':>10}", *(f"{value:<10.2f}" for value in self.rate_error)]))
        lines.append(self.verdict)
        if self.reference != _NEXT and self.calibration.points:
            lines.append(str(self.calibration))
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """One sentence: until when a higher degree helps."""
        if np.isinf(self.convergence_time):
            return f"a higher degree helps at every time up to t = {self.times[-1]:g}"
        advice = "" if self.closure == "gns" else ": use closure='gns' there"
        return (
            f"a higher degree helps until about t* = {self.convergence_time:.3g}; "
            f"after that it makes the {self.closure} closure worse{advice}"
        )

    def __repr__(self) -> str:
        return (
            f"TruncationStudy({self.model.name}, closure={self.closure!r}, degrees={list(self.degrees)}, "
            f"reference={self.reference!r}, convergence_time={self.convergence_time:.4g})"
        )

    def _repr_latex_(self) -> str:
        head = " & ".join(["M", *(f"t={t:.4g}" for t in self.times)])
        rows = [
            " & ".join([str(degree), *(_scientific(value) for value in row)])
            for degree, row in zip(self.degrees, self.error, strict=True)
        ]
        body = r" \\ ".join([head, *rows])
        return rf"$$\begin{{array}}{{r{'l' * len(self.times)}}} {body} \end{{array}}$$"


def truncation_study(
    model: AttentionModel,
    *,
    degrees: Sequence[int],
    times: ArrayLike,
    closure: str | Closure = "zero",
    observables: Iterable[str | Word | Observable] | None = None,
    reference: str | Trajectory | Callable[[str, FloatArray], FloatArray] = "auto",
    initial: JointLaw | None = None,
    progress: Progress | None = None,
) -> TruncationStudy:
    """Solve at several degrees and measure the error of each against a reference.

    ``reference`` is ``"exact"`` (the closure without truncation: the errors are the true ones), ``"gns"`` (gns some
    degrees above the largest), ``"next"`` (the same closure two degrees up, each degree against the next), a trajectory
    solved at these times, or a function (observable, times) -> values such as an exact solution; ``"auto"`` takes exact
    where it applies, else gns where the initial law allows it. The fitted rate says how fast the error falls with the
    degree and t* when it stops; ``calibration`` how the error that ``solve`` states compares with the true one. Degrees
    of one parity are compared fairly; gns uses odd ones.

    Raises ``InputError`` for degrees that do not increase or an unknown reference.

    >>> import aimtheory as aim
    >>> study = aim.truncation_study(aim.models.load("exact-linear"), degrees=[4, 6, 8], times=[0.05, 0.1])
    >>> bool(study.error[2, 0] < study.error[0, 0])
    True
    """
    orders = [check_degree(degree) for degree in degrees]
    if len(orders) < 2 or any(b <= a for a, b in pairwise(orders)):
        raise InputError(f"degrees = {list(degrees)} must be at least two increasing integers")
    grid = check_times(times)
    seen = views(model)
    chosen = (
        _default_observables(seen, min(orders)) if observables is None else read_observables(observables, model, seen)
    )
    names = tuple(one.name for one in chosen)
    # The overlaps that drive the flow belong to what solve judges.
    drivers = [one for one in driving_observables(model, seen) if one.name not in names and min(orders) >= 2]
    total = len(orders) + 1
    runs = []
    for n, degree in enumerate(orders):
        runs.append(
            solve(
                model,
                degree=degree,
                times=grid,
                closure=closure,
                observables=(*chosen, *drivers),
                initial=initial,
                check=False,
                dense=False,
            )
        )
        if progress is not None:
            progress(n + 1, total)
    label, targets = _reference(model, reference, runs, grid, chosen, orders, closure, initial)
    if progress is not None:
        progress(total, total)
    errors = {
        name: np.stack([_gap(run, target[name], name, len(grid)) for run, target in zip(runs, targets, strict=True)])
        for name in names
    }
    worst = np.max(np.stack(list(errors.values())), axis=0)
    rate, rate_error = _fit_rates(np.array(orders, dtype=np.float64), worst)
    estimates, trusted_until = _estimates(model, runs, orders, grid, (*chosen, *drivers), closure, initial)
    return TruncationStudy(
        model=model,
        closure=runs[0].closure.name,
        degrees=tuple(orders),
        times=grid,
        reference=label,
        observables=names,
        errors=errors,
        estimates={name: estimates[name] for name in names},
        trusted_until=trusted_until,
        rate=rate,
        rate_error=rate_error,
        convergence_time=_convergence_time(grid, rate),
        trajectories=tuple(runs),
    )


def _default_observables(seen: Views, degree: int) -> tuple[Observable, ...]:
    forms = range(len(seen.matrices))
    trained = [k for k in forms if seen.moves(k)]
    pairs = [(min(k, l), max(k, l)) for k in trained for l in forms if l not in trained]
    overlaps = [Overlap.of(seen, k, l) for k, l in pairs] if degree >= 2 else []
    return (*(TraceOf.form(seen, k) for k in trained), *overlaps)


def _reference(
    model: AttentionModel,
    reference: str | Trajectory | Callable[[str, FloatArray], FloatArray],
    runs: Sequence[Trajectory],
    grid: FloatArray,
    chosen: tuple[Observable, ...],
    orders: Sequence[int],
    closure: str | Closure,
    initial: JointLaw | None,
) -> tuple[str, list[Mapping[str, FloatArray]]]:
    if reference == "auto":
        for candidate in ("exact", "gns"):
            try:
                return _reference(model, candidate, runs, grid, chosen, orders, closure, initial)
            except InputError:
                continue
        return _reference(model, "next", runs, grid, chosen, orders, closure, initial)
    if reference == "exact":
        run = solve(model, closure="exact", times=grid, observables=chosen, initial=initial, check=False, dense=False)
        return "the exact dynamics", [run.values] * len(runs)
    if reference == "gns":
        # gns against itself needs a wide margin, since its error falls slowly late; the zero closure a small one.
        above = max(orders) + (6 if runs[0].closure.name == "gns" else 3)
        degree = max(13, above + 1 - above % 2)
        run = solve(
            model,
            degree=degree,
            times=grid,
            closure="gns",
            observables=chosen,
            initial=initial,
            check=False,
            dense=False,
        )
        return f"gns at degree {degree}", [run.values] * len(runs)
    if reference == "next":
        last = solve(
            model,
            degree=max(orders) + 2,
            times=grid,
            closure=closure,
            observables=chosen,
            initial=initial,
            check=False,
            dense=False,
        )
        return _NEXT, [run.values for run in (*runs[1:], last)]
    if isinstance(reference, Trajectory):
        if len(reference.times) < len(grid) or not np.allclose(reference.times[: len(grid)], grid, rtol=0, atol=1e-12):
            raise InputError("the reference trajectory was solved at other times; solve it at the times of the study")
        return repr(reference), [{name: reference[name] for name in (one.name for one in chosen)}] * len(runs)
    if callable(reference):
        exact = {name: np.asarray(reference(name, grid), dtype=np.float64) for name in (one.name for one in chosen)}
        return "the exact solution", [exact] * len(runs)
    raise InputError(
        f"unknown reference {reference!r}; use 'auto', 'exact', 'gns', 'next', a trajectory, or a function"
    )


def _estimates(
    model: AttentionModel,
    runs: Sequence[Trajectory],
    orders: Sequence[int],
    grid: FloatArray,
    chosen: tuple[Observable, ...],
    closure: str | Closure,
    initial: JointLaw | None,
) -> tuple[dict[str, FloatArray], tuple[float, ...]]:
    """The estimated error at each degree and time, and until when it is tolerable; NaN where there is no coarser degree
    to compare with.
    """
    options: dict[str, Any] = {"closure": closure, "initial": initial}
    known = {degree: dict(run.values) for degree, run in zip(orders, runs, strict=True)}

    def values(degree: int) -> dict[str, FloatArray]:
        if degree not in known:
            lower = close(model, degree=degree, **options)
            held = [one for one in chosen if lower.holds(one)]
            known[degree] = {}
            if held:
                run = solve(model, degree=degree, times=grid, observables=held, check=False, dense=False, **options)
                known[degree] = dict(run.values)
        return known[degree]

    tables = {one.name: np.full((len(orders), len(grid)), np.nan) for one in chosen}
    trusted = []
    for row, (degree, run) in enumerate(zip(orders, runs, strict=True)):
        lower = [values(one) for one in coarser_degrees(run.closure, degree)]
        for name, table in tables.items():
            rows = [_padded(one[name], len(grid)) for one in lower if name in one]
            if not rows or run.system.is_exact:
                continue
            own = _padded(run.values[name], len(grid))
            noise = integration_noise(own, run.rtol, run.atol)
            table[row] = remaining_error(own, rows[0], rows[1] if len(rows) > 1 else None, noise=noise)
        stated = {name: table[row, : len(run.times)] for name, table in tables.items()}
        stated = {name: errors for name, errors in stated.items() if not np.isnan(errors[:1]).any()}
        least = 1e3 * run.atol / TRUST_TOLERANCE
        found = judge(run.times, run.values, stated, tolerance=TRUST_TOLERANCE, least=least)
        trusted.append(found.until if stated else float("nan"))
    return tables, tuple(trusted)


def _padded(values: FloatArray, size: int) -> FloatArray:
    return np.append(values, np.full(size - len(values), np.nan))


def _gap(run: Trajectory, target: FloatArray, name: str, size: int) -> FloatArray:
    gap = np.full(size, np.nan)
    reached = min(len(run.times), len(target))
    gap[:reached] = np.abs(run.values[name][:reached] - target[:reached])
    return gap


def _fit_rates(degrees: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slope of log(error) by degree at each time, and its standard error; NaN with fewer than two usable points."""
    rate = np.full(errors.shape[1], np.nan)
    spread = np.full(errors.shape[1], np.nan)
    for column in range(errors.shape[1]):
        good = np.isfinite(errors[:, column]) & (errors[:, column] > _FLOOR)
        if good.sum() < 2:
            continue
        x, y = degrees[good], np.log(errors[good, column])
        centred = x - x.mean()
        rate[column] = centred @ y / (centred @ centred)
        if good.sum() > 2:
            residual = y - y.mean() - rate[column] * centred
            spread[column] = np.sqrt(residual @ residual / (good.sum() - 2) / (centred @ centred))
    return rate, spread


def _convergence_time(times: FloatArray, rate: FloatArray) -> float:
    """The first time at which the rate reaches zero, interpolated in log t; infinite when it stays negative."""
    known = np.isfinite(rate) & (times > 0)
    t, slope = times[known], rate[known]
    up = np.flatnonzero(slope >= 0)
    if not len(up):
        return float("inf")
    n = int(up[0])
    if n == 0:
        return float(t[0])
    weight = -slope[n - 1] / (slope[n] - slope[n - 1])
    return float(np.exp((1 - weight) * np.log(t[n - 1]) + weight * np.log(t[n])))


def _scientific(value: float) -> str:
    if not np.isfinite(value):
        return r"\text{--}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa}\cdot 10^{{{int(exponent)}}}"


__all__ = ["TruncationStudy", "truncation_study"]
