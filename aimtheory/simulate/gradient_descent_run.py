"""The result of gradient descent on a fixed data set: single students and the average over initializations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import Channel, LawPrior
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, record, save
from aimtheory.simulate.channel_summary import channel_summary
from aimtheory.status import Status

FloatArray = NDArray[np.float64]


@record("gradient_descent")
@dataclass(frozen=True, eq=False)
class GradientDescentRun(Result):
    """Full-batch Adam at finite d over several seeds (teacher and data) and initializations of the student each.

    ``single`` (seeds, initializations, checkpoints) is ||S_k - S||_F^2/d of every student, ``losses`` its training loss
    per sample, ``averaged`` (seeds, checkpoints) the error of the mean of S_k over the initializations that were done;
    ``steps`` are the checkpoints. NaN where a run did not get. ``theory`` is the Bayes-optimal MMSE at this alpha.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("seed", "initialization", "step")

    channel: Channel
    prior: LawPrior
    alpha: float
    dim: int
    samples: int
    rank: int
    learning_rate: float
    dtype: str
    seeds: tuple[int | None, ...]
    initializations: int
    steps: NDArray[np.int64]
    single: FloatArray
    losses: FloatArray
    averaged: FloatArray
    theory: float
    status: Status
    averages: tuple[FloatArray, ...] = field(repr=False, default=())
    teachers: tuple[FloatArray, ...] = field(repr=False, default=())
    seconds: float = 0.0

    @property
    def done(self) -> NDArray[np.int64]:
        """How many initializations each seed finished."""
        return np.asarray(np.isfinite(self.single[:, :, -1]).sum(axis=1))

    def averaged_over(self, count: int) -> FloatArray:
        """Expected error of the average over ``count`` initializations, (seeds, checkpoints), from those done.

        Given the data, the students are independent and identically distributed, so with D_k = S_k - S the error is
        ``c + (s - c)/count``, s = E||D_k||^2/d, c = E<D_k, D_l>/d, exactly; both are estimated without bias from K >= 2
        initializations. ``count`` = 1 is the mean of ``single``, K gives ``averaged`` and infinity its limit c.
        """
        if not count >= 1:
            raise InputError(f"count = {count} must be at least 1")
        done = self.done[:, None].astype(float)
        if np.any(done < 2):
            raise InputError("averaged_over needs at least 2 finished initializations a seed")
        single = np.nanmean(self.single, axis=1)
        cross = (done * self.averaged - single) / (done - 1)
        return np.asarray(cross + (single - cross) / count)

    @property
    def mse(self) -> float:
        """Mean over seeds and initializations of the last single-run error."""
        return float(np.nanmean(self.single[:, :, -1])) if np.any(self.done) else math.nan

    @property
    def averaged_mse(self) -> float:
        """Mean over seeds of the last averaged error."""
        return float(np.nanmean(self.averaged[:, -1])) if np.any(self.done) else math.nan

    def standard_error(self, averaged: bool = True) -> float:
        """Spread of the last error over seeds, divided by the root of their number; NaN below two seeds."""
        last = self.averaged[:, -1] if averaged else self.single[:, :, -1].mean(axis=1)
        last = last[np.isfinite(last)]
        return float(last.std(ddof=1) / math.sqrt(len(last))) if len(last) >= 2 else math.nan

    def variables(self) -> tuple[Variable, ...]:
        """Errors and losses over seed, initialization and step."""
        places = [n if seed is None else seed for n, seed in enumerate(self.seeds)]
        return (
            Variable("seed", np.array(places), ("seed",), "seed"),
            Variable("initialization", np.arange(self.single.shape[1]), ("initialization",), "initialization"),
            Variable("step", self.steps, ("step",), "Adam steps"),
            Variable("single", self.single, self.frame_dims, "squared error by d of one student"),
            Variable("losses", self.losses, self.frame_dims, "training loss a sample"),
            Variable("averaged", self.averaged, ("seed", "step"), "squared error by d of the average"),
        )

    def summary(self) -> dict[str, Any]:
        """``mse`` of one run, ``averaged_mse`` with ``averaged_mse_error`` over seeds, and the tables ``single``
        (seeds x initializations x steps), ``losses`` and ``averaged`` (seeds x steps).
        """
        return {
            **channel_summary(self.channel),
            "prior": [self.prior.label],
            "alpha": self.alpha,
            "dim": self.dim,
            "samples": self.samples,
            "rank": self.rank,
            "learning_rate": self.learning_rate,
            "dtype": self.dtype,
            "seeds": list(self.seeds),
            "initializations": self.initializations,
            "status": self.status.code,
            "advice": self.status.advice,
            "notes": list(self.status.notes),
            "seconds": self.seconds,
            "mse": self.mse,
            "mse_error": self.standard_error(averaged=False) if np.all(self.done == self.initializations) else None,
            "averaged_mse": self.averaged_mse,
            "averaged_mse_error": self.standard_error(),
            "theory": self.theory,
            "steps": self.steps,
            "single": self.single,
            "losses": self.losses,
            "averaged": self.averaged,
        }

    def save(self, path: str | Path, *, overwrite: bool = False, matrices: bool = True, **beside: Any) -> Path:
        """Write the run to a file, see ``Result.save``; without ``matrices`` (averages, teachers) it is small."""
        kept = self if matrices else replace(self, averages=(), teachers=())
        return save(kept, path, overwrite=overwrite, **beside)

    def table(self) -> str:
        """Checkpoints: training loss, error of one run, of the average, and theory, means over seeds."""
        lines = [f"{'step':>6}  {'loss a sample':>13}  {'mse, one run':>12}  {'mse, averaged':>13}  {'theory':>9}"]
        for n, step in enumerate(self.steps):
            cells = [_mean(self.losses[:, :, n]), _mean(self.single[:, :, n]), _mean(self.averaged[:, n])]
            lines.append(f"{step:6d}  {cells[0]:13.4e}  {cells[1]:12.6g}  {cells[2]:13.6g}  {self.theory:9.6f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"GradientDescentRun({self.channel.name}, tokens={self.channel.tokens}, alpha={self.alpha:g}, "
            f"dim={self.dim}, {len(self.seeds)} seeds x {self.initializations} initializations, mse = {self.mse:.6g}, "
            f"averaged = {self.averaged_mse:.6g}, theory = {self.theory:.6g}, status={self.status.code!r})"
        )


def _mean(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else math.nan


__all__ = ["GradientDescentRun"]
