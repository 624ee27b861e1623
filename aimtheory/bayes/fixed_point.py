"""One solution of state evolution, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aimtheory.records import Result, Variable, numbers, record

CONVERGED = "converged"
EXACT = "perfect recovery"
UNCONVERGED = "not converged"

_ADVICE = {
    CONVERGED: "the undamped residual is within the tolerance",
    EXACT: "the matrix is recovered exactly: q = tr S^2, MMSE = 0",
    UNCONVERGED: "the residual is above the tolerance: do not use this value; see residual, refine the channel's rule",
}


@record("bayes-fixed-point")
@dataclass(frozen=True, eq=False)
class FixedPoint(Result):
    """A solution of ``V = MMSE(qhat)``, ``qhat = alpha signal(Q0 - V, V)`` at one alpha.

    ``mmse`` is V per d; ``stable`` says whether the undamped iteration converges to it (slope of the map below 1);
    ``free_entropy`` f decides between several: the largest is the Bayes-optimal one. ``residual`` is
    |alpha(qhat)/alpha - 1| of the undamped equations. ``branch`` is ``"uninformed"`` (reached from the prior mean),
    ``"informed"`` (reached from the true matrix), ``"both"``, or ``"between"``.
    """

    alpha: float
    q: float
    mmse: float
    qhat: float
    residual: float
    stable: bool
    free_entropy: float
    branch: str
    status: str
    channel_error: float = 0.0
    """Error of qhat from the channel's integrals, relative."""

    @property
    def ok(self) -> bool:
        """True unless the status is ``not converged``."""
        return self.status != UNCONVERGED

    @property
    def advice(self) -> str:
        """What the status means."""
        return _ADVICE[self.status]

    def variables(self) -> tuple[Variable, ...]:
        """One row."""
        return numbers(
            self,
            alpha="sample complexity n/d^2",
            q="overlap tr(S_hat S)",
            mmse="minimum mean squared error by d",
            qhat="conjugate overlap",
            residual="relative residual of alpha",
            stable="whether the undamped iteration converges to it",
            free_entropy="free entropy",
            branch="branch",
            status="status",
            channel_error="relative error of qhat from the channel's integrals",
        )

    def summary(self) -> dict[str, Any]:
        """The fields."""
        return {**self.as_dict(), "advice": self.advice}

    def as_dict(self) -> dict[str, float | bool | str]:
        """Plain numbers for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FixedPoint:
        """The inverse of ``as_dict``."""
        return cls(**data)

    def _repr_latex_(self) -> str:
        return (
            rf"$\alpha={self.alpha:.6g},\ q={self.q:.8g},\ \mathrm{{MMSE}}={self.mmse:.8g},\ "
            rf"\hat q={self.qhat:.8g},\ f={self.free_entropy:.8g}$ ({self.branch}, {self.status})"
        )


__all__ = ["CONVERGED", "EXACT", "UNCONVERGED", "FixedPoint"]
