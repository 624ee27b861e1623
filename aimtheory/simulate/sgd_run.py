"""The result of online SGD: observables over seeds and times, spectra and matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.model import AttentionModel
from aimtheory.model.records import model_summary
from aimtheory.records import Result, Variable, record, save
from aimtheory.status import Ending, Status

FloatArray = NDArray[np.float64]


@record("sgd")
@dataclass(frozen=True, eq=False)
class SgdRun(Result):
    """Online SGD at finite d over several seeds.

    ``values[name]`` has shape (seeds, times), NaN where a seed did not get; ``run[name]`` is the mean over seeds and
    ``standard_error(name)`` its error, shape (times,). ``times`` are n x clock x learning_rate / d at the step
    counts ``steps``. ``eigenvalues[view]`` has shape (seeds, times, d), ascending. ``matrices[seed]`` holds the last
    parameter matrices of each seed by letter name, ``snapshots[seed]`` those at every time reached when they were
    asked for. ``flops_per_step`` counts the matrix products alone; ``seconds`` is the time spent stepping.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("seed", "time")

    model: AttentionModel
    dim: int
    learning_rate: float
    batch: int
    dtype: str
    seeds: tuple[int | None, ...]
    times: FloatArray
    steps: NDArray[np.int64]
    values: Mapping[str, FloatArray]
    status: Status
    loss_samples: int
    concentration: Mapping[str, float]
    eigenvalues: Mapping[str, FloatArray] = field(repr=False, default_factory=dict)
    matrices: tuple[Mapping[str, FloatArray], ...] = field(repr=False, default=())
    snapshots: tuple[tuple[Mapping[str, FloatArray], ...], ...] = field(repr=False, default=())
    diverged_at: Mapping[int, float] = field(default_factory=dict)
    steps_done: int = 0
    seconds: float = 0.0
    flops_per_step: int = 0

    def _table(self, name: str) -> FloatArray:
        if name not in self.values:
            raise InputError(
                f"observable {name!r} was not measured; measured are {', '.join(self.values)}. "
                "Run again with observables=[...]"
            )
        return self.values[name]

    def __getitem__(self, name: str) -> FloatArray:
        """The mean over seeds at each time, shape (times,); see ``mean``."""
        return self.mean(name)

    def __len__(self) -> int:
        return len(self.times)

    def count(self, name: str) -> NDArray[np.int64]:
        """How many seeds reached each time."""
        return np.isfinite(self._table(name)).sum(axis=0)

    def mean(self, name: str) -> FloatArray:
        """The mean over seeds. An interrupted run averages the seeds that got there; after a divergence the mean is
        NaN, since the seeds that survive are a biased choice."""
        table = self._table(name)
        if self.status.code is not Ending.INTERRUPTED:
            return table.mean(axis=0)
        count = self.count(name)
        return np.where(count > 0, np.nansum(table, axis=0) / np.maximum(count, 1), np.nan)

    def standard_error(self, name: str) -> FloatArray:
        """Spread across seeds over sqrt(seeds), with the unbiased variance; NaN where fewer than 2 seeds got.

        It holds the fluctuation of the initial matrices and the noise of SGD, not the bias O(1/sqrt d) + O(d
        learning_rate / batch) of finite d.
        """
        table, count = self._table(name), self.count(name)
        squares = np.nansum((table - self.mean(name)) ** 2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(squares / ((count - 1.0) * count))
        return np.where((count >= 2) & np.isfinite(self.mean(name)), error, np.nan)

    def variables(self) -> tuple[Variable, ...]:
        """Observables over seed and time, eigenvalues over seed, time and rank."""
        places = [n if seed is None else seed for n, seed in enumerate(self.seeds)]
        return (
            Variable("seed", np.array(places), ("seed",), "seed"),
            Variable("time", self.times, ("time",), "time n x clock x learning_rate / d", "learning time"),
            Variable("steps", self.steps, ("time",), "SGD steps"),
            *(Variable(name, table, ("seed", "time"), name) for name, table in self.values.items()),
            *(
                Variable(f"eigenvalues of {view}", table, ("seed", "time", "rank"), f"eigenvalues of {view}, ascending")
                for view, table in self.eigenvalues.items()
            ),
        )

    def summary(self) -> dict[str, Any]:
        """``values`` are means with ``standard_errors``, ``seed_values`` each seed; ``eigenvalues``."""
        return {
            **model_summary(self.model),
            "dim": self.dim,
            "learning_rate": self.learning_rate,
            "batch": self.batch,
            "dtype": self.dtype,
            "seeds": list(self.seeds),
            "status": self.status.code,
            "advice": self.status.advice,
            "notes": list(self.status.notes),
            "loss_samples": self.loss_samples,
            "concentration": dict(self.concentration),
            "seconds": self.seconds,
            "steps": self.steps,
            "times": self.times,
            "values": {name: self.mean(name) for name in self.values},
            "standard_errors": {name: self.standard_error(name) for name in self.values},
            "seed_values": dict(self.values),
            "eigenvalues": dict(self.eigenvalues),
        }

    def save(self, path: str | Path, *, overwrite: bool = False, matrices: bool = True, **beside: Any) -> Path:
        """Write the run to a file, see ``Result.save``; without its ``matrices`` and snapshots the file is small."""
        kept = self if matrices else replace(self, matrices=(), snapshots=())
        return save(kept, path, overwrite=overwrite, **beside)

    def table(self) -> str:
        """Mean and standard error as text, one row a time."""
        names = list(self.values)
        lines = ["  ".join([f"{'t':>8}", *(f"{name:>22}" for name in names)])]
        columns = [(self.mean(name), self.standard_error(name)) for name in names]
        for n, time in enumerate(self.times):
            cells = [f"{mean[n]:11.6f} +- {error[n]:7.1e}" for mean, error in columns]
            lines.append("  ".join([f"{time:8.4g}", *(f"{cell:>22}" for cell in cells)]))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"SgdRun({self.model.name}, dim={self.dim}, learning_rate={self.learning_rate:g}, batch={self.batch}, "
            f"{len(self.seeds)} seeds, "
            f"t = {self.times[0]:g}..{self.times[-1]:g} in {int(self.steps[-1])} steps, status={self.status.code!r})"
        )


__all__ = ["SgdRun"]
