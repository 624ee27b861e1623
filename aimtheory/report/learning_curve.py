"""Learning curves and phase diagrams of Bayes-optimal learning, as named results and as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aimtheory.bayes import BranchCurve, FirstOrderTransition, PhaseDiagram, Threshold
from aimtheory.bayes.fixed_point import CONVERGED, EXACT, UNCONVERGED
from aimtheory.errors import InputError

Record = dict[str, Any]

CURVE, DIAGRAM, THRESHOLD = "bayes-curve", "bayes-diagram", "bayes-threshold"
"""The key ``kind`` of the records."""

DIMENSIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    CURVE: dict.fromkeys(("alpha", "mmse", "q", "qhat", "residual", "point_status"), ("alpha",)),
    DIAGRAM: {"width": ("width",), "alpha": ("alpha",), "mmse": ("width", "alpha"), "perfect": ("width",)},
}
"""Which entries of a record are arrays, and over what."""

_COMPLETE, _PARTIAL = "complete", "some points did not converge"


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """A branch of state evolution and what it belongs to.

    ``width`` is the text of rho (``"0"``: the small-width limit, ``"inf"``: GOE); ``perfect`` the alpha of perfect
    recovery (inf where there is none), in the unit of the curve; ``mmse_digits`` the MMSE to more digits than floats
    hold, where it was asked for; ``channel_error`` the largest relative error of qhat from the channel's integrals.
    """

    curve: BranchCurve
    channel: str
    tokens: int
    width: str
    perfect: float
    transitions: tuple[FirstOrderTransition, ...] = ()
    mmse_digits: tuple[str | None, ...] = ()
    channel_error: float = 0.0

    @property
    def label(self) -> str:
        """For a legend."""
        extra = "" if self.curve.branch == "equilibrium" else f", {self.curve.branch}"
        rho = {"0": r"$\rho \to 0$", "inf": r"$\rho \to \infty$"}.get(self.width, rf"$\rho = {self.width}$")
        return rf"{self.channel}, $T = {self.tokens}$, {rho}{extra}"


def curve_record(result: LearningCurve) -> Record:
    """A curve: ``alpha``, ``mmse``, ``q``, ``qhat``, ``residual``, ``point_status`` lists over alpha; ``status``,
    ``unit`` (alpha, or alpha/width), ``perfect`` (null: none), ``transitions``, ``channel_error``.
    """
    curve = result.curve
    record: Record = {
        "kind": CURVE,
        "channel": result.channel,
        "tokens": result.tokens,
        "width": result.width,
        "branch": curve.branch,
        "unit": curve.unit,
        "status": _COMPLETE if curve.ok else _PARTIAL,
        "perfect": result.perfect,
        "channel_error": result.channel_error,
        "transitions": [
            {name: getattr(item, name) for name in item.__dataclass_fields__} for item in result.transitions
        ],
        **{name: getattr(curve, name) for name in ("alpha", "mmse", "q", "qhat", "residual")},
        "point_status": list(curve.status),
    }
    if result.mmse_digits:
        record["mmse_digits"] = list(result.mmse_digits)
    return record


def curve_from_record(record: Mapping[str, Any], source: str = "the file") -> LearningCurve:
    """A curve read back; ``InputError`` when the record is damaged."""
    try:
        arrays = {name: _array(record[name], 1) for name in ("alpha", "q", "mmse", "qhat", "residual")}
        status = tuple(str(item) for item in record["point_status"])
        if len({len(status), *map(len, arrays.values())}) != 1 or not set(status) <= {CONVERGED, EXACT, UNCONVERGED}:
            raise ValueError("its lists differ in length, or hold an unknown status")
        # JSON has no infinity: qhat is infinite exactly at perfect recovery.
        arrays["qhat"] = np.where(np.array(status) == EXACT, np.inf, arrays["qhat"])
        curve = BranchCurve(status=status, branch=str(record["branch"]), unit=str(record["unit"]), **arrays)
        transitions = tuple(
            FirstOrderTransition(**{**item, "interval": tuple(item["interval"])}) for item in record["transitions"]
        )
        return LearningCurve(
            curve,
            str(record["channel"]),
            int(record["tokens"]),
            str(record["width"]),
            _or_infinity(record["perfect"]),
            transitions,
            tuple(record.get("mmse_digits", ())),
            float(record["channel_error"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(source, error) from None


def diagram_record(diagram: PhaseDiagram) -> Record:
    """A diagram: ``width``, ``alpha``, ``mmse`` (widths x alphas), ``perfect`` by width (null: none), ``status``."""
    names = ("channel", "tokens", "status", "width", "alpha", "perfect", "mmse")
    return {"kind": DIAGRAM, **{name: getattr(diagram, name) for name in names}}


def diagram_from_record(record: Mapping[str, Any], source: str = "the file") -> PhaseDiagram:
    """A diagram read back; ``InputError`` when the record is damaged."""
    try:
        width, alpha, perfect = (_array(record[name], 1) for name in ("width", "alpha", "perfect"))
        mmse = _array(record["mmse"], 2)
        if mmse.shape != (len(width), len(alpha)) or perfect.shape != width.shape:
            raise ValueError("its arrays do not fit together")
        # A row that was reached and has no threshold: JSON has no infinity.
        perfect = np.where(np.isnan(perfect) & np.isfinite(mmse).any(axis=1), np.inf, perfect)
        return PhaseDiagram(
            width, alpha, mmse, perfect, str(record["channel"]), int(record["tokens"]), str(record["status"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(source, error) from None


def threshold_record(found: Threshold, width: str) -> Record:
    """A threshold: ``threshold`` (string of digits), ``exact`` (string or null), ``interval``, ``recovery``
    (perfect or weak), ``unit``, ``method``, ``certified``.
    """
    record = found.as_dict()
    recovery = record.pop("kind")
    return {"kind": THRESHOLD, **record, "recovery": recovery, "width": width}


def _array(values: Any, axes: int) -> np.ndarray:
    """Numbers with null for NaN."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != axes:
        raise ValueError(f"an array has {array.ndim} axes instead of {axes}")
    return array


def _or_infinity(value: Any) -> float:
    return float("inf") if value is None else float(value)


def _damaged(source: str, error: Exception) -> InputError:
    return InputError(f"{source} is damaged or from another version: {type(error).__name__} {error}")


__all__ = [
    "CURVE",
    "DIAGRAM",
    "DIMENSIONS",
    "THRESHOLD",
    "LearningCurve",
    "curve_from_record",
    "curve_record",
    "diagram_from_record",
    "diagram_record",
    "threshold_record",
]
