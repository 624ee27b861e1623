"""How a computation ended: one enumeration for theories, simulations and algorithms; members carry their advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from aimtheory.records import record


class Ending(StrEnum):
    """How a computation ended; ``advice`` says what it means and what to do.

    Members are their own text, ``Ending.COMPLETE == "complete"``, and ``Ending("complete")`` is the member again.

    >>> Ending("untrusted").usable, Ending.COMPLETE.advice
    (False, 'the whole span was computed and passed its checks')
    """

    COMPLETE = "complete"
    CONVERGED = "converged"
    STATIONARY = "stationary"
    EVENT = "stopped at event"
    UNCHECKED = "unchecked"
    UNTRUSTED = "untrusted"
    UNCONVERGED = "not converged"
    BROKEN = "assumption broken"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """What the ending means and what to do."""
        return _ADVICE[self]

    @property
    def usable(self) -> bool:
        """True when the values can be used over the whole span that was asked for."""
        return self in _USABLE

    def __repr__(self) -> str:
        return repr(self.value)


_USABLE = (Ending.COMPLETE, Ending.CONVERGED, Ending.STATIONARY, Ending.EVENT)

_ADVICE = {
    Ending.COMPLETE: "the whole span was computed and passed its checks",
    Ending.CONVERGED: "every seed met the stopping rule",
    Ending.STATIONARY: "the error has settled, while the change of the forms stays at a small level above the "
    "tolerance: at finite d eigenvalues cross the edge of the bulk, where the denoiser of the limit is infinitely "
    "steep",
    Ending.EVENT: "a terminal event was reached, at the last of the times; later ones were not computed",
    Ending.UNCHECKED: "no lower degree was compared, or none for some observable, so nothing says how far to trust "
    "this; solve with check=True or compare by hand",
    Ending.UNTRUSTED: "after trusted_until the estimated error is too large: do not use later values; raise the "
    "degree, with closure='gns', which does not blow up, or use closure='exact' where it applies",
    Ending.UNCONVERGED: "a seed ended far from a fixed point: do not use its last numbers; see the change, allow more "
    "iterations, add damping or raise dim",
    Ending.BROKEN: "an assumption of the theory failed on the way; the trajectory goes up to there",
    Ending.DIVERGED: "the numbers blew up, to a NaN or beyond all bounds: values from there on are missing",
    Ending.INTERRUPTED: "interrupted from the keyboard; what was reached is here, the rest is missing",
}

_WORST_FIRST = (Ending.INTERRUPTED, Ending.DIVERGED, Ending.UNCONVERGED, Ending.STATIONARY)


@record("status")
@dataclass(frozen=True)
class Status:
    """How a computation ended, and in ``notes`` what was met on the way and what helps.

    >>> print(Status("untrusted", ("raise the degree to 9",)).code)
    untrusted
    """

    code: Ending
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """The code may be given as text; ``ValueError`` for one that is none."""
        object.__setattr__(self, "code", Ending(self.code))
        object.__setattr__(self, "notes", tuple(self.notes))

    @classmethod
    def worst(cls, codes: Iterable[Ending], best: Ending, notes: Iterable[str] = ()) -> Status:
        """The status of several seeds together: the worst of theirs."""
        found = set(codes)
        return cls(next((code for code in _WORST_FIRST if code in found), best), tuple(notes))

    @property
    def ok(self) -> bool:
        """True when the values can be used over the whole span that was asked for."""
        return self.code.usable

    @property
    def advice(self) -> str:
        """What the status means and what to do."""
        return "; ".join((self.code.advice, *self.notes))

    def __str__(self) -> str:
        return f"{self.code}: {self.advice}"


__all__ = ["Ending", "Status"]
