"""The status of a learning algorithm on a fixed data set: what happened, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aimtheory.records import record

CONVERGED = "converged"
COMPLETE = "complete"
STATIONARY = "stationary"
UNCONVERGED = "not converged"
DIVERGED = "diverged"
INTERRUPTED = "interrupted"

_ADVICE = {
    CONVERGED: "every seed met the stopping rule",
    STATIONARY: "the error has settled, while the change of the forms stays at a small level above the tolerance: at "
    "finite d eigenvalues cross the edge of the bulk, where the denoiser of the limit is infinitely steep",
    COMPLETE: "every run made all its steps",
    UNCONVERGED: "a seed ended far from a fixed point: do not use its last numbers; see the change, allow more "
    "iterations, add damping or raise dim",
    DIVERGED: "a NaN or an infinity appeared; values from there on are NaN. Add damping, or raise dim",
    INTERRUPTED: "interrupted from the keyboard; what was reached is here, the rest is NaN",
}
_WORST_FIRST = (INTERRUPTED, DIVERGED, UNCONVERGED, STATIONARY)


@record("algorithm-status")
@dataclass(frozen=True)
class AlgorithmStatus:
    """One of converged, stationary, complete, not converged, diverged, interrupted, with notes."""

    code: str
    notes: tuple[str, ...] = ()

    @classmethod
    def worst(cls, codes: Iterable[str], best: str, notes: Iterable[str] = ()) -> AlgorithmStatus:
        """The status of several seeds together: the worst of theirs."""
        found = set(codes)
        return cls(next((code for code in _WORST_FIRST if code in found), best), tuple(notes))

    @property
    def ok(self) -> bool:
        """True when every seed ended as it should."""
        return self.code in (CONVERGED, STATIONARY, COMPLETE)

    @property
    def advice(self) -> str:
        """What the status means and what to do."""
        return "; ".join((_ADVICE[self.code], *self.notes))

    def __str__(self) -> str:
        return f"{self.code}: {self.advice}"


__all__ = ["COMPLETE", "CONVERGED", "DIVERGED", "INTERRUPTED", "STATIONARY", "UNCONVERGED", "AlgorithmStatus"]
