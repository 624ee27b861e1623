"""The status of a simulation: what happened, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from aimtheory.records import record

COMPLETE = "complete"
DIVERGED = "diverged"
INTERRUPTED = "interrupted"

_ADVICE = {
    COMPLETE: "all seeds reached the last time",
    DIVERGED: "a NaN or an infinity appeared; values from there on are NaN. Lower the learning rate, raise batch, "
    "or add weight decay",
    INTERRUPTED: "interrupted from the keyboard; what was reached is here, the rest is NaN",
}


@record("run-status")
@dataclass(frozen=True)
class RunStatus:
    """One of complete, diverged, interrupted; ``notes`` say what limits a comparison with the limit d -> infinity."""

    code: str
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when every seed reached every time."""
        return self.code == COMPLETE

    @property
    def advice(self) -> str:
        """What the status means and what to do."""
        return "; ".join((_ADVICE[self.code], *self.notes))

    def __str__(self) -> str:
        return f"{self.code}: {self.advice}"


__all__ = ["COMPLETE", "DIVERGED", "INTERRUPTED", "RunStatus"]
