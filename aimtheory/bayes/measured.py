"""Arrays of numbers with the error of the rule that produced them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aimtheory.frozen import ByValue
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray


@record("measured")
@dataclass(frozen=True, eq=False)
class Measured(ByValue):
    """``value`` and a bound or estimate of its absolute ``error``, arrays of one shape.

    ``method`` is ``"closed form"`` (rounding only), ``"quadrature"`` (deterministic; the error is the change under
    refinement plus the interpolation tail) or ``"cubature"`` (a bound of 3.5 standard errors and more over independent
    randomizations; one standard error for ``GeneralChannel``).
    """

    value: FloatArray
    error: FloatArray
    method: str

    def __float__(self) -> float:
        return float(self.value)

    def scaled(self, factor: float | FloatArray) -> Measured:
        """Both multiplied by ``factor`` (>= 0, broadcast)."""
        return Measured(np.asarray(self.value * factor), np.asarray(self.error * factor), self.method)

    def __str__(self) -> str:
        if np.ndim(self.value) == 0:
            return f"{float(self.value):.12g} ± {float(self.error):.1g} ({self.method})"
        return f"{self.value} ± {float(np.max(self.error)):.1g} ({self.method})"


def closed_form(value: FloatArray | float) -> Measured:
    """A value known to rounding: error 4e-16 of its size."""
    array = np.asarray(value, dtype=np.float64)
    return Measured(array, 4e-16 * np.abs(array), "closed form")


__all__ = ["Measured"]
