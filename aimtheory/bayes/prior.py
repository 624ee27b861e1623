"""The prior of the attention matrix as state evolution sees it: MMSE, mutual information, degrees of freedom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.errors import AssumptionError, InputError
from aimtheory.frozen import Uncached
from aimtheory.records import record
from aimtheory.scalars import Scalar, is_exact, to_scalar, to_sympy
from aimtheory.spectra import (
    GOE,
    SpectralLaw,
    bayes_wishart,
    mmse,
    mutual_information,
)
from aimtheory.spectra.arbitrary_precision import mmse_digits
from aimtheory.spectra.law import FloatArray, to_float
from aimtheory.spectra.law_checks import is_matrix_law, is_spectral_law


class Prior(Uncached, ABC):
    """Everything is per d: ``Q0 = tr S^2``, ``mean_square = (tr S)^2``, MMSE(qhat) and I(qhat) of S + Z/sqrt(qhat)."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """``Q0 = lim tr S^2``."""

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """``lim (tr S)^2``, the overlap of the prior mean: the smallest q."""

    @abstractmethod
    def mmse(self, qhat: ArrayLike) -> FloatArray:
        """``V(qhat)``; at 0 the prior variance Q0 - (tr S)^2."""

    @abstractmethod
    def information(self, qhat: ArrayLike) -> FloatArray:
        """``I(qhat)``, with ``dI/dqhat = MMSE/4``."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """``lim tr S``."""

    @property
    @abstractmethod
    def degrees_of_freedom(self) -> sp.Expr:
        """``lim qhat MMSE(qhat)`` as qhat -> infinity: twice the parameters of S by d^2; exact when the law is."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A short description."""

    @property
    def is_exact(self) -> bool:
        """True when the parameters of the prior were given exactly (not as floats)."""
        return True

    @property
    def mmse_error(self) -> float:
        """The relative error of MMSE(qhat) in float64: the residual of a fixed point cannot be smaller."""
        return 1e-13

    @property
    def is_fast(self) -> bool:
        """True when MMSE costs microseconds, so that a curve may be scanned densely and far."""
        return True

    @property
    def is_rectangular(self) -> bool:
        """True for a matrix without symmetry, which belongs to cross-attention."""
        return False

    @property
    def alpha_unit(self) -> str:
        """The unit of alpha: ``alpha`` or ``alpha/width``."""
        return "alpha"

    @property
    def is_gaussian(self) -> bool:
        """True for a matrix of jointly Gaussian entries, for which linear denoising is optimal."""
        return False

    @property
    def is_small_width_limit(self) -> bool:
        """True where few strong directions leave q = 0 by a transition of their own."""
        return False

    @property
    def kinks(self) -> tuple[float, ...]:
        """The qhat at which MMSE(qhat) is not smooth."""
        return ()

    def as_law_prior(self) -> LawPrior:
        """The prior as that of a spectral law, from which matrices are drawn; ``InputError`` where there is none."""
        raise InputError(
            f"{self.label} has no matrix of finite dimension; give width > 0 such as 0.05, or a spectral law"
        )

    def variance_digits(self, digits: int) -> mp.mpf:  # noqa: ARG002
        """``Q0 - (tr S)^2``, the MMSE at qhat = 0, to ``digits`` digits."""
        return mp.mpf(self.second_moment) - mp.mpf(self.mean_square)

    def mmse_digits(self, qhat: mp.mpf, digits: int) -> mp.mpf:  # noqa: ARG002
        """``V(qhat)`` to ``digits`` digits; ``InputError`` for a prior that offers floats alone."""
        raise InputError(f"digits are offered for spectral laws and the small-width limit, not {self!r}")

    def overlap(self, qhat: ArrayLike) -> FloatArray:
        """``q(qhat) = Q0 - MMSE(qhat)``."""
        return self.second_moment - self.mmse(qhat)

    def log_moment(self, qhat: ArrayLike) -> FloatArray:
        """``psi_P(qhat) = Q0 qhat/4 - I(qhat)``, the prior's free entropy: ``psi_P' = q/4``, psi_P(0) = 0."""
        values = np.asarray(qhat, dtype=np.float64)
        return np.asarray(0.25 * self.second_moment * values - self.information(values))


@record("prior-law")
@dataclass(frozen=True)
class LawPrior(Prior):
    """S = O diag(lambda) O^T with Haar O and eigenvalues of a spectral law.

    >>> from aimtheory.spectra import GOE
    >>> LawPrior(GOE(1)).mmse([1.0])
    array([0.5])
    """

    law: SpectralLaw

    def __post_init__(self) -> None:
        if is_matrix_law(self.law) and not is_spectral_law(self.law):
            raise AssumptionError(
                f"prior = {self.law!r} is not symmetric: self-attention sees its symmetric and its "
                "antisymmetric part with different noise, which is not solved; for cross-attention, or self-attention "
                "with masked diagonal forms, use RectangularPrior(RectangularFactors(...))"
            )
        if not is_spectral_law(self.law):
            raise InputError(f"prior = {self.law!r} must be a SpectralLaw, e.g. bayes_wishart('1/2') or GOE(1)")
        moments = self.law.moments(2)
        if any(isinstance(value, sp.Expr) and value.free_symbols for value in moments):
            # A symbolic width: thresholds can still be counted, floats cannot be had.
            return
        mean, second = (to_float(value, "moment of the prior") for value in moments)
        if not np.isfinite(second):
            raise AssumptionError(f"{self.law!r} has no finite second moment, so tr S^2 and the MMSE do not exist")
        if second - mean**2 <= 1e-14 * second:
            raise AssumptionError(f"{self.law!r} has no spread: S = {mean:.6g} times the identity is known beforehand")

    @cached_property
    def _moments(self) -> tuple[float, float]:
        mean, second = (to_float(value, "moment of the prior") for value in self.law.moments(2))
        return mean, second

    @property
    def second_moment(self) -> float:
        """``m_2`` of the law."""
        return self._moments[1]

    @property
    def mean_square(self) -> float:
        """``m_1^2`` of the law."""
        return self._moments[0] ** 2

    @property
    def is_fast(self) -> bool:
        """False for a law of many atoms, whose noisy spectrum falls into as many bands, and for a user's density."""
        return self.law.has_fast_denoiser

    @property
    def mmse_error(self) -> float:
        """That of the law: about 1e-13."""
        return self.law.mmse_error

    @property
    def is_gaussian(self) -> bool:
        """True for a GOE."""
        return self.law.is_gaussian

    def as_law_prior(self) -> LawPrior:
        """Itself."""
        return self

    def variance_digits(self, digits: int) -> mp.mpf:
        """From the moments of the law, exact where they are."""
        mean, second = (to_sympy(value) for value in self.law.moments(2))
        return mp.mpf(sp.N(second - mean**2, digits))

    def mmse_digits(self, qhat: mp.mpf, digits: int) -> mp.mpf:
        """By ``spectra.arbitrary_precision``."""
        return mmse_digits(self.law, qhat, digits)

    @property
    def is_exact(self) -> bool:
        """True when the second moment is exact."""
        return is_exact(self.law.second_moment)

    @property
    def mean(self) -> float:
        """``m_1`` of the law."""
        return self._moments[0]

    @property
    def label(self) -> str:
        """The representation of the law."""
        return repr(self.law)

    def mmse(self, qhat: ArrayLike) -> FloatArray:
        """By ``spectra.mmse``."""
        return mmse(self.law, qhat)

    def information(self, qhat: ArrayLike) -> FloatArray:
        """By ``spectra.mutual_information``."""
        return mutual_information(self.law, qhat)

    @property
    def degrees_of_freedom(self) -> sp.Expr:
        """``1 - sum w^2`` over the weights w of the atoms: an atom of weight w leaves its block of w d dimensions free
        to rotate, w^2 d^2/2 parameters. Wishart: ``2 rho - rho^2`` for rho <= 1, 1 beyond.
        """
        return self.law.rotational_freedom


@record("prior-small-width")
@dataclass(frozen=True)
class SmallWidthPrior(Prior):
    """The limit rho -> 0 of ``bayes_wishart(rho)`` at fixed alpha/rho and ``x = qhat/rho`` (= 1/t).

    Few strong directions: Q0 = 1, tr S -> 0, and by the transition of Baik, Ben Arous and Peche

        MMSE = t (2 - t) for t = rho/qhat <= 1,    1 for t >= 1 (nothing is recovered),

    and ``I/rho = x/4`` below x = 1, ``(log x + 1/(2x))/2`` above. Arguments called ``qhat`` are x here.

    >>> SmallWidthPrior().mmse([0.5, 2.0])
    array([1.  , 0.75])
    """

    @property
    def second_moment(self) -> float:
        """1."""
        return 1.0

    @property
    def mean_square(self) -> float:
        """0."""
        return 0.0

    @property
    def mean(self) -> float:
        """0, sqrt(rho) in the limit."""
        return 0.0

    @property
    def label(self) -> str:
        """``small width``."""
        return "small-width limit of Wishart"

    @property
    def alpha_unit(self) -> str:
        """``alpha/width``."""
        return "alpha/width"

    @property
    def is_small_width_limit(self) -> bool:
        """True."""
        return True

    @property
    def kinks(self) -> tuple[float, ...]:
        """1, from where alpha(qhat) of an even channel comes down from infinity."""
        return (1.0,)

    def mmse_digits(self, qhat: mp.mpf, digits: int) -> mp.mpf:  # noqa: ARG002
        """``t (2 - t)`` at the working precision."""
        return mp.mpf(1) if qhat <= 1 else (2 - 1 / qhat) / qhat

    def mmse(self, qhat: ArrayLike) -> FloatArray:
        """``t (2 - t)``, t = 1/x <= 1."""
        t = 1 / np.maximum(np.asarray(qhat, dtype=np.float64), 1.0)
        return np.asarray(t * (2 - t))

    def overlap(self, qhat: ArrayLike) -> FloatArray:
        """``(1 - t)^2``, without the cancellation of 1 - MMSE."""
        return np.asarray((1 - 1 / np.maximum(np.asarray(qhat, dtype=np.float64), 1.0)) ** 2)

    def information(self, qhat: ArrayLike) -> FloatArray:
        """``I/rho``: the integral of MMSE/4."""
        x = np.asarray(qhat, dtype=np.float64)
        above = np.maximum(x, 1.0)
        return np.where(x <= 1, 0.25 * x, 0.5 * np.log(above) + 0.25 / above)

    @property
    def degrees_of_freedom(self) -> sp.Expr:
        """2: a d x rho d factor up to rotations has 2 rho d^2/2 parameters."""
        return sp.Integer(2)


def make_prior(width: object = None, prior: object = None) -> Prior:
    """The prior of [B] at ``width`` rho > 0, its small-width limit at 0, GOE(1) at ``"inf"``, or any law given as
    ``prior``; exactly one of the two.

    >>> make_prior("1/2").degrees_of_freedom
    3/4
    """
    if (width is None) == (prior is None):
        raise InputError("give either width (of the Wishart prior) or prior (a spectral law), not both and not neither")
    if prior is not None:
        return prior if isinstance(prior, Prior) else LawPrior(prior)  # type: ignore[arg-type]
    if isinstance(width, str) and width.strip().lower() in ("inf", "infinity", "oo"):
        return LawPrior(GOE(Fraction(1)))
    rho: Scalar = to_scalar(width, "width")
    if not isinstance(rho, sp.Expr):
        if rho == 0:
            return SmallWidthPrior()
        if rho < 0:
            raise InputError(f"width = {rho} must be > 0 (rho = r/d), or 0 for the small-width limit")
    return LawPrior(bayes_wishart(rho))


__all__ = ["LawPrior", "Prior", "SmallWidthPrior", "make_prior"]
