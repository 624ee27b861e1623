"""The status of a trajectory: what happened, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from aimtheory.records import record

COMPLETE = "complete"
EVENT = "stopped at event"
UNTRUSTED = "untrusted"
UNCHECKED = "unchecked"
DIVERGED = "diverged"
INTERRUPTED = "interrupted"
BROKEN = "assumption broken"

_ADVICE = {
    COMPLETE: "degrees M and M-2 agree over the whole time span",
    EVENT: "a terminal event was reached, at the last of the times; later ones were not computed",
    UNTRUSTED: "degrees M and M-2 disagree after trusted_until: do not use later values; "
    "raise the degree, with closure='gns', which converges for all times",
    UNCHECKED: "no lower degree was compared, so nothing says how far to trust this; "
    "solve with check=True or compare by hand",
    DIVERGED: "the closed equations blew up; values after the last time are missing. "
    "The zero closure does this past its convergence time: use closure='gns', or add weight decay",
    BROKEN: "an assumption of the theory failed on the way; the trajectory goes up to there",
    INTERRUPTED: "interrupted from the keyboard; the times reached are here",
}


@record("trajectory-status")
@dataclass(frozen=True)
class Status:
    """How a solution ended, and in ``notes`` what was met on the way."""

    code: str
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the values can be used over the whole span that was asked for."""
        return self.code in (COMPLETE, EVENT)

    @property
    def advice(self) -> str:
        """What the status means and what to do."""
        return "; ".join((_ADVICE[self.code], *self.notes))

    def __str__(self) -> str:
        return f"{self.code}: {self.advice}"


__all__ = ["BROKEN", "COMPLETE", "DIVERGED", "EVENT", "INTERRUPTED", "UNCHECKED", "UNTRUSTED", "Status"]
