"""Gaussian matrices of any aspect: a rectangular Ginibre matrix, and the product of two Gaussian factors.

S has d rows and delta d columns; its law is that of its singular values s_i, i = 1..d. With
``m(x) = (1/d) sum x/(x - s_i^2)`` and ``P = m (m + delta - 1)/x`` both are of the form ``m = 1 + R(P)``, R the
rectangular R-transform, which adds under free addition: R = s P for a Ginibre matrix, rho t P/(1 - t P) for S = U V^T,
t = left right. Derivation: ``derivations/18``; the notion, Benaych-Georges (2009).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import sympy as sp

from aimtheory.errors import AssumptionError
from aimtheory.records import record
from aimtheory.scalars import Scalar, to_sympy
from aimtheory.spectra.law import FloatArray, check_dimension, positive_scalar, to_float


class RectangularLaw(ABC):
    """A law of d x delta d matrices that rotations from the left and from the right leave as it is."""

    aspect: Scalar

    @property
    @abstractmethod
    def second_moment(self) -> Scalar:
        """``lim tr S S^T``, tr = Tr/d."""

    @property
    @abstractmethod
    def coefficients(self) -> tuple[float, float, float]:
        """``(s, rho, t)`` of R(P) = s P + rho t P/(1 - t P)."""

    @property
    @abstractmethod
    def parameters(self) -> sp.Expr:
        """Parameters of S by d^2: ``rho (1 + delta - rho)`` for rank rho d, delta at full rank."""

    @property
    def is_gaussian(self) -> bool:
        """True when the entries are jointly Gaussian, so that linear denoising is optimal."""
        return False

    @abstractmethod
    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """A matrix of ``dim`` rows and round(delta dim) columns."""

    def columns(self, dim: int) -> int:
        """round(delta dim); ``AssumptionError`` when it is 0."""
        return _count(self.aspect, dim, "aspect")


@record("rectangular-ginibre")
@dataclass(frozen=True)
class RectangularGinibre(RectangularLaw):
    """Independent entries N(0, s/d): ``tr S S^T = s delta``.

    >>> RectangularGinibre(aspect=2, variance=1).sample(3, np.random.default_rng(0)).shape
    (3, 6)
    """

    aspect: Scalar = Fraction(1)
    variance: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("aspect", "variance"):
            object.__setattr__(self, name, positive_scalar(getattr(self, name), name))

    @property
    def is_gaussian(self) -> bool:
        """True."""
        return True

    @property
    def second_moment(self) -> Scalar:
        """``s delta``."""
        return self.variance * self.aspect

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """``(s, 0, 0)``."""
        return to_float(self.variance, "variance"), 0.0, 0.0

    @property
    def parameters(self) -> sp.Expr:
        """``delta``."""
        return to_sympy(self.aspect)

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """(dim, round(delta dim)) float64."""
        shape = (check_dimension(dim), self.columns(dim))
        return np.asarray(rng.standard_normal(shape) * np.sqrt(to_float(self.variance, "variance") / dim))


@record("rectangular-factors")
@dataclass(frozen=True)
class RectangularFactors(RectangularLaw):
    """``S = U V^T``, U of shape (d, rho d) and V of shape (delta d, rho d), entries N(0, left/d) and N(0, right/d).

    ``tr S S^T = left right rho delta``. width = rho.

    >>> RectangularFactors(width="1/2", aspect=2).second_moment
    Fraction(1, 1)
    """

    width: Scalar
    aspect: Scalar = Fraction(1)
    left: Scalar = Fraction(1)
    right: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("width", "aspect", "left", "right"):
            object.__setattr__(self, name, positive_scalar(getattr(self, name), name))

    @property
    def second_moment(self) -> Scalar:
        """``left right rho delta``."""
        return self.left * self.right * self.width * self.aspect

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """``(0, rho, left right)``."""
        return 0.0, to_float(self.width, "width"), to_float(self.left, "left") * to_float(self.right, "right")

    @property
    def parameters(self) -> sp.Expr:
        """``rho (1 + delta - rho)`` for rho <= min(1, delta), else delta: a factorization is fixed up to GL(rho d)."""
        rho, delta = to_sympy(self.width), to_sympy(self.aspect)
        return sp.expand(rho * (1 + delta - rho)) if rho <= sp.Min(1, delta) else delta

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """U V^T, (dim, round(delta dim)) float64, U drawn first."""
        rank = _count(self.width, dim, "width")
        left = rng.standard_normal((check_dimension(dim), rank)) * np.sqrt(to_float(self.left, "left") / dim)
        right = rng.standard_normal((self.columns(dim), rank)) * np.sqrt(to_float(self.right, "right") / dim)
        return np.asarray(left @ right.T)


def _count(ratio: Scalar, dim: int, name: str) -> int:
    count = round(to_float(ratio, name) * check_dimension(dim))
    if count < 1:
        raise AssumptionError(f"{name} = {ratio} at dim = {dim} leaves no column; raise dim")
    return count


__all__ = ["RectangularFactors", "RectangularGinibre", "RectangularLaw"]
