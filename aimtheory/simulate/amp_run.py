"""The result of approximate message passing: measured overlaps beside those that state evolution predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import Channel, LawPrior
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, record, save
from aimtheory.simulate.channel_summary import channel_summary
from aimtheory.status import Status

FloatArray = NDArray[np.float64]

AMP_VALUES = ("overlap", "self_overlap", "mse", "variance", "qhat", "change")
"""What is measured at every iteration."""

_MEANINGS = {
    "overlap": "overlap tr(S S_hat)",
    "self_overlap": "self-overlap tr(S_hat^2)",
    "mse": "squared error by d",
    "variance": "error that the algorithm claims",
    "qhat": "conjugate overlap",
    "change": "root mean square change of omega before damping",
}


@record("amp")
@dataclass(frozen=True, eq=False)
class AmpRun(Result):
    """AMP at finite d over several seeds, each with a teacher, tokens and outputs of its own.

    ``values[name]`` has shape (seeds, iterations + 1), with one more axis over the matrices when the channel sees
    several; iteration 0 is the prior mean. Per d:

    - ``overlap`` m = tr(S S_hat), ``self_overlap`` q = tr(S_hat^2), ``mse`` = ||S_hat - S||_F^2/d;
    - ``variance`` V = MMSE(qhat), the error that the algorithm itself claims, and ``qhat``;
    - ``change``, the root mean square change of omega/sqrt(D Q0) before damping: what the stopping rule reads.

    A seed that stopped by a rule keeps its last values; one that diverged or was interrupted has NaN from there on.
    ``predicted`` holds state evolution's ``overlap``, ``mse`` and ``qhat`` at each iteration: exact as d -> infinity
    without damping; with it V is damped alike and only the fixed point is exact. ``theory`` is the MMSE of that fixed
    point, reached from the prior mean. ``estimates`` are the last S_hat of each seed, ``teachers`` the S. The run
    differs from the limit by O(1/d) in the mean. Source: [B].
    """

    channel: Channel
    priors: tuple[LawPrior, ...]
    alpha: float
    dim: int
    samples: int
    damping: float
    tolerance: float
    dtype: str
    seeds: tuple[int | None, ...]
    seed_status: tuple[str, ...]
    iterations: NDArray[np.int64]
    values: Mapping[str, FloatArray]
    predicted: Mapping[str, FloatArray]
    theory: FloatArray | float
    status: Status
    estimates: tuple[FloatArray, ...] = field(repr=False, default=())
    teachers: tuple[FloatArray, ...] = field(repr=False, default=())
    seconds: float = 0.0

    def _table(self, name: str) -> FloatArray:
        if name not in self.values:
            raise InputError(f"{name!r} was not measured; measured are {', '.join(self.values)}")
        return self.values[name]

    def __getitem__(self, name: str) -> FloatArray:
        """The mean over seeds at each iteration."""
        return self.mean(name)

    def mean(self, name: str) -> FloatArray:
        """The mean over the seeds that got there; NaN where none did."""
        table = self._table(name)
        count = np.isfinite(table).sum(axis=0)
        return np.where(count > 0, np.nansum(table, axis=0) / np.maximum(count, 1), np.nan)

    def standard_error(self, name: str) -> FloatArray:
        """Spread across seeds over sqrt(seeds), unbiased variance; NaN below two seeds."""
        table = self._table(name)
        count = np.isfinite(table).sum(axis=0)
        squares = np.nansum((table - self.mean(name)) ** 2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(count >= 2, np.sqrt(squares / ((count - 1.0) * count)), np.nan))

    def final(self, name: str) -> FloatArray:
        """The last value of each seed, shape (seeds,) or (seeds, matrices); NaN for a seed that diverged or stopped."""
        return np.asarray(self._table(name)[:, -1])

    @property
    def mse(self) -> FloatArray | float:
        """Mean over seeds of the last ||S_hat - S||_F^2/d."""
        return _scalar(self.mean("mse")[-1])

    @property
    def mse_error(self) -> FloatArray | float:
        """Standard error of ``mse``."""
        return _scalar(self.standard_error("mse")[-1])

    @property
    def nishimori_gap(self) -> FloatArray:
        """m - q of each seed and iteration: 0 as d -> infinity for the Bayes-optimal learner, O(1/d) here."""
        return np.asarray(self.values["overlap"] - self.values["self_overlap"])

    @property
    def frame_dims(self) -> tuple[str, ...]:  # type: ignore[override]
        """Seed and iteration, and the matrix where there are several."""
        return ("seed", "iteration", "matrix")[: np.ndim(next(iter(self.values.values())))]

    def variables(self) -> tuple[Variable, ...]:
        """What was measured over seed and iteration, what state evolution predicts over iteration."""
        dims, first = self.frame_dims, next(iter(self.values.values()))
        places = [n if seed is None else seed for n, seed in enumerate(self.seeds)]
        return (
            Variable("seed", np.array(places), ("seed",), "seed"),
            Variable("iteration", np.arange(first.shape[1]), ("iteration",), "iteration"),
            *(
                Variable(name, table, dims[: table.ndim], _MEANINGS.get(name, name))
                for name, table in self.values.items()
            ),
            *(
                Variable(f"predicted_{name}", table, dims[1 : 1 + table.ndim], f"{name} of state evolution")
                for name, table in self.predicted.items()
            ),
            Variable("seed_status", np.array(self.seed_status), ("seed",), "status of the seed"),
        )

    def summary(self) -> dict[str, Any]:
        """``values`` are means over seeds by iteration with ``standard_errors``, ``seed_values`` each seed's;
        ``predicted`` state evolution; ``mse``, ``mse_error`` and ``theory`` the last numbers.
        """
        return {
            **channel_summary(self.channel),
            "prior": [prior.label for prior in self.priors],
            "alpha": self.alpha,
            "dim": self.dim,
            "samples": self.samples,
            "damping": self.damping,
            "tolerance": self.tolerance,
            "dtype": self.dtype,
            "seeds": list(self.seeds),
            "seed_status": list(self.seed_status),
            "status": self.status.code,
            "advice": self.status.advice,
            "notes": list(self.status.notes),
            "seconds": self.seconds,
            "mse": self.mse,
            "mse_error": self.mse_error,
            "theory": self.theory,
            "iterations": self.iterations,
            "values": {name: self.mean(name) for name in self.values},
            "standard_errors": {name: self.standard_error(name) for name in self.values},
            "predicted": dict(self.predicted),
            "nishimori_gap": self.nishimori_gap[:, -1],
            "seed_values": dict(self.values),
        }

    def save(self, path: str | Path, *, overwrite: bool = False, matrices: bool = True, **beside: Any) -> Path:
        """Write the run to a file, see ``Result.save``; without ``matrices`` (estimates, teachers) it is small."""
        kept = self if matrices else replace(self, estimates=(), teachers=())
        return save(kept, path, overwrite=overwrite, **beside)

    def table(self) -> str:
        """Measured overlap and error beside the predicted ones; after ten iterations every tenth."""
        if self.channel.indices > 1:
            return "\n".join(
                f"matrix {k + 1}: mse {m:.6f} +- {e:.1e}, theory {t:.6f}"
                for k, (m, e, t) in enumerate(
                    zip(np.ravel(self.mse), np.ravel(self.mse_error), np.ravel(self.theory), strict=True)
                )
            )
        lines = [
            f"{'iteration':>9}  {'overlap m':>20}  {'predicted':>9}  {'m - q':>9}  {'mse':>20}  {'predicted':>10}"
            f"  {'change':>8}"
        ]
        means = {name: self.mean(name) for name in self.values}
        errors = {name: self.standard_error(name) for name in ("overlap", "mse")}
        last = len(means["mse"]) - 1
        for n in range(last + 1):
            if n >= 10 and n % 10 and n != last:
                continue
            gap = means["overlap"][n] - means["self_overlap"][n]
            known = {name: self.predicted[name][n] if name in self.predicted else math.nan for name in errors}
            lines.append(
                f"{n:9d}  {means['overlap'][n]:9.6f} +- {errors['overlap'][n]:7.1e}  {known['overlap']:9.6f}"
                f"  {gap:9.2e}  {means['mse'][n]:9.3e} +- {errors['mse'][n]:7.1e}  {known['mse']:10.3e}"
                f"  {means['change'][n]:8.1e}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        found = f"mse = {self.mse:.6g} +- {self.mse_error:.1g}" if self.channel.indices == 1 else f"mse = {self.mse}"
        return (
            f"AmpRun({self.channel.name}, tokens={self.channel.tokens}, alpha={self.alpha:g}, dim={self.dim}, "
            f"{len(self.seeds)} seeds, {found}, theory = {self.theory:.6g}, status={self.status.code!r})"
            if self.channel.indices == 1
            else f"AmpRun({self.channel.name}, {self.channel.indices} matrices, alpha={self.alpha:g}, dim={self.dim}, "
            f"{len(self.seeds)} seeds, {found}, theory = {self.theory}, status={self.status.code!r})"
        )


def _scalar(value: FloatArray) -> FloatArray | float:
    return float(value) if np.ndim(value) == 0 else value


__all__ = ["AMP_VALUES", "AmpRun"]
