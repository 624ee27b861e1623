"""A learning curve with what it belongs to: channel, width, thresholds and jumps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aimtheory.bayes.state_evolution import BranchCurve, FirstOrderTransition
from aimtheory.records import Result, Variable, record

_COMPLETE, _PARTIAL = "complete", "some points did not converge"


@record("bayes-curve")
@dataclass(frozen=True, eq=False)
class LearningCurve(Result):
    """A branch of state evolution and what it belongs to.

    ``width`` is the text of rho (``"0"``: the small-width limit, ``"inf"``: GOE); ``perfect`` the alpha of perfect
    recovery (inf where there is none), in the unit of the curve; ``mmse_digits`` the MMSE to more digits than floats
    hold, where it was asked for; ``channel_error`` the largest relative error of qhat from the channel's integrals.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("alpha",)

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

    def variables(self) -> tuple[Variable, ...]:
        """Those of the branch; the digits that were asked for."""
        known = ["" if text is None else text for text in self.mmse_digits]
        digits = [Variable("mmse_digits", known, ("alpha",), "MMSE in decimal digits")] if known else []
        return (*self.curve.variables(), *digits)

    def summary(self) -> dict[str, Any]:
        """``alpha``, ``mmse``, ``q``, ``qhat``, ``residual``, ``point_status`` lists over alpha; ``status``, ``unit``
        (alpha, or alpha/width), ``perfect`` (null: none), ``transitions``, ``channel_error``.
        """
        values: dict[str, Any] = {
            "channel": self.channel,
            "tokens": self.tokens,
            "width": self.width,
            "status": _COMPLETE if self.curve.ok else _PARTIAL,
            "perfect": self.perfect,
            "channel_error": self.channel_error,
            "transitions": [
                {name: getattr(item, name) for name in item.__dataclass_fields__} for item in self.transitions
            ],
            **self.curve.summary(),
        }
        return {**values, "mmse_digits": list(self.mmse_digits)} if self.mmse_digits else values


__all__ = ["LearningCurve"]
