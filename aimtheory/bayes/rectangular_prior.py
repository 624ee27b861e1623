"""The prior of a rectangular attention matrix, S = U V^T or Ginibre, as cross-attention sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.bayes.prior import Prior
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.scalars import is_exact
from aimtheory.spectra.law import FloatArray, to_float
from aimtheory.spectra.law_checks import is_rectangular_law
from aimtheory.spectra.rectangular_denoising import noisy_singular_values
from aimtheory.spectra.rectangular_law import RectangularFactors, RectangularLaw

_LARGEST = 1e11
"""qhat tr S S^T/delta beyond which qhat MMSE no longer changes."""


@record("prior-rectangular")
@dataclass(frozen=True)
class RectangularPrior(Prior):
    """MMSE and information of ``S + sqrt(2/qhat) Z``, Z of entries N(0, 1/d).

    qhat is twice the precision of an entry (in units of d), as it is for symmetric matrices, whose entries are seen
    twice: free entropy, thresholds and counting then read the same, with ``dI/dqhat = MMSE/4`` and
    ``degrees_of_freedom`` twice the parameters by d^2.

    >>> from aimtheory.spectra import RectangularFactors
    >>> RectangularPrior(RectangularFactors(width="1/2", aspect=2)).degrees_of_freedom    # 2 rho (1 + delta - rho)
    5/2
    """

    law: RectangularLaw

    def __post_init__(self) -> None:
        if not is_rectangular_law(self.law):
            raise InputError(f"prior = {self.law!r} must be a RectangularLaw, e.g. RectangularFactors(width='1/2')")

    @property
    def is_rectangular(self) -> bool:
        """True."""
        return True

    @property
    def second_moment(self) -> float:
        """``tr S S^T``."""
        return to_float(self.law.second_moment, "second moment")

    @property
    def mean_square(self) -> float:
        """0."""
        return 0.0

    @property
    def mean(self) -> float:
        """0."""
        return 0.0

    @property
    def is_exact(self) -> bool:
        """True when the second moment is exact."""
        return is_exact(self.law.second_moment)

    @property
    def label(self) -> str:
        """The representation of the law."""
        return repr(self.law)

    @property
    def degrees_of_freedom(self) -> sp.Expr:
        """``2 rho (1 + delta - rho)`` for rank rho d, 2 delta at full rank."""
        return 2 * self.law.parameters

    @property
    def _entry(self) -> float:
        return self.second_moment / to_float(self.law.aspect, "aspect")

    def mmse(self, qhat: ArrayLike) -> FloatArray:
        """``lim E ||S - E[S | .]||_F^2/d``, relative error about 1e-12; tr S S^T at qhat = 0."""
        return self._over(qhat, "mmse")

    def information(self, qhat: ArrayLike) -> FloatArray:
        """``lim I/d^2``."""
        return self._over(qhat, "information")

    def _over(self, qhat: ArrayLike, quantity: str) -> FloatArray:
        values = np.asarray(qhat, dtype=np.float64)
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError(f"qhat = {qhat!r} must be finite and >= 0")
        precision = 0.5 * values
        delta = to_float(self.law.aspect, "aspect")
        if self.law.is_gaussian:
            s = self._entry
            return delta * s / (1 + s * precision) if quantity == "mmse" else 0.5 * delta * np.log1p(s * precision)
        result = np.empty(values.shape)
        low, high = 1e-9 / self._entry, _LARGEST / self._entry
        for place, value in np.ndenumerate(precision):
            point = noisy_singular_values(self.law, 1 / min(max(value, low), high))
            found = point.mmse if quantity == "mmse" else point.information
            if value < low:
                # MMSE = tr S S^T (1 - qhat/2 tr S S^T/delta + ...), to rounding.
                found = (
                    self.second_moment * (1 - value * self._entry)
                    if quantity == "mmse"
                    else (0.5 * value * self.second_moment)
                )
            elif value > high:
                parameters = float(self.law.parameters)
                found = found * high / value if quantity == "mmse" else found + 0.5 * parameters * np.log(value / high)
            result[place] = found
        return result


def make_rectangular_prior(width: object = None, prior: object = None) -> RectangularPrior:
    """The prior of cross-attention: square Gaussian factors of ``width`` and unit entries, or a rectangular law.

    >>> make_rectangular_prior("1/2").degrees_of_freedom
    3/2
    """
    if width is not None and prior is None:
        prior = RectangularFactors(width)
    return prior if isinstance(prior, RectangularPrior) else RectangularPrior(prior)  # type: ignore[arg-type]


__all__ = ["RectangularPrior", "make_rectangular_prior"]
