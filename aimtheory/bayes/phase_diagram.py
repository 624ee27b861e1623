"""The Bayes-optimal error over a grid of widths and sample complexities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import Channel, check_alpha
from aimtheory.bayes.channel_library import make_channel
from aimtheory.bayes.prior import make_prior
from aimtheory.bayes.state_evolution import StateEvolution
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, record
from aimtheory.spectra.law import FloatArray

COMPLETE, PARTIAL, INTERRUPTED = "complete", "some points did not converge", "interrupted"


@record("bayes-diagram")
@dataclass(frozen=True, eq=False)
class PhaseDiagram(Result):
    """``mmse`` (widths, alphas), per d; ``relative`` the same by the prior's variance Q0 - (tr S)^2 = 1.

    ``perfect`` (widths,) is the threshold of perfect recovery (inf where there is none); rows not reached before an
    interruption are NaN. ``status`` is complete, interrupted, or that some points did not converge (NaN).
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("width", "alpha")

    width: FloatArray
    alpha: FloatArray
    mmse: FloatArray
    perfect: FloatArray
    channel: str
    tokens: int
    status: str
    error: FloatArray | None = None
    """What the error of the channel's integrals is worth in ``mmse``, absolute; None where it was not computed."""

    def variables(self) -> tuple[Variable, ...]:
        """MMSE over width and alpha, the threshold over width."""
        return (
            Variable("width", self.width, ("width",), "width ratio r/d"),
            Variable("alpha", self.alpha, ("alpha",), "sample complexity n/d^2"),
            Variable("mmse", self.mmse, ("width", "alpha"), "minimum mean squared error by d"),
            Variable("perfect", self.perfect, ("width",), "alpha of perfect recovery, infinite where there is none"),
        )

    def summary(self) -> dict[str, Any]:
        """``width``, ``alpha``, ``mmse`` (widths x alphas), ``perfect`` by width (null: none), ``status``."""
        names = ("channel", "tokens", "status", "width", "alpha", "perfect", "mmse")
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Lists for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("width", "alpha", "mmse", "perfect")}
        error = None if self.error is None else self.error.tolist()
        return {**arrays, "error": error, "channel": self.channel, "tokens": self.tokens, "status": self.status}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PhaseDiagram:
        """The inverse of ``as_dict``."""
        arrays = {name: np.asarray(data[name], dtype=np.float64) for name in ("width", "alpha", "mmse", "perfect")}
        error = None if data.get("error") is None else np.asarray(data["error"], dtype=np.float64)
        return cls(**arrays, channel=data["channel"], tokens=data["tokens"], status=data["status"], error=error)


def phase_diagram(
    channel: str | Channel = "softmax",
    tokens: int | None = None,
    width: ArrayLike = (),
    alpha: ArrayLike = (),
    branch: str = "equilibrium",
    progress: Callable[[float, float], None] | None = None,
    **options: Any,
) -> PhaseDiagram:
    """MMSE on the grid ``width`` x ``alpha`` (1-d arrays, widths > 0). Ctrl-C keeps the rows that are done.

    ``progress`` is called with (widths done, widths to do).

    >>> phase_diagram("softmax", 2, width=[0.5, 1.0], alpha=[0.0, 0.1]).mmse.round(4)
    array([[1.    , 0.3922],
           [1.    , 0.4999]])
    """
    seen = make_channel(channel, tokens, **options)
    widths, rates = real_array(width, "width"), check_alpha(alpha)
    if widths.ndim != 1 or rates.ndim != 1 or not len(widths) or not len(rates):
        raise InputError("width and alpha must be non-empty 1-d arrays")
    if np.any(widths <= 0):
        raise InputError(f"width = {widths[widths <= 0][0]} must be > 0")
    mmse, perfect = np.full((len(widths), len(rates)), np.nan), np.full(len(widths), np.nan)
    error, status = np.full(mmse.shape, np.nan), COMPLETE
    try:
        for place in range(len(widths)):
            evolution = StateEvolution(make_prior(float(widths[place])), seen)
            curve = evolution.curve(rates, branch)
            mmse[place], error[place] = curve.mmse, curve.channel_error()
            perfect[place] = evolution.fixed_point_curve.perfect
            if progress is not None:
                progress(place + 1, len(widths))
        if np.any(np.isnan(mmse)):
            status = PARTIAL
    except KeyboardInterrupt:
        status = INTERRUPTED
    return PhaseDiagram(widths, rates, mmse, perfect, seen.name, seen.tokens, status, error)


__all__ = ["COMPLETE", "INTERRUPTED", "PARTIAL", "PhaseDiagram", "phase_diagram"]
