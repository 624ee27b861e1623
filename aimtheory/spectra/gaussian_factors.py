"""Gaussian matrices that are not self-adjoint: a square Ginibre matrix, and the pair of factors of an untied head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra.initial_law import InitialLaw, MatrixLaw
from aimtheory.spectra.law import FloatArray, check_dimension, positive_scalar, to_float
from aimtheory.spectra.wishart import GaussianEntries, columns_of_width


@dataclass(frozen=True)
class Ginibre(InitialLaw):
    """A d x d matrix of iid N(0, s/d) entries plus (m/sqrt d) 1: ``tr S S^T = s``, ``tr S^2 = 0``, ``Tr S/sqrt d = m``.

    ``mean`` is m, the mean of the uncentred form x^T S x/sqrt(d); it changes no moment in the limit. Tr S/sqrt(d) of a
    sample fluctuates around m with variance s/d.

    >>> Ginibre(variance=2).sample(3, np.random.default_rng(0)).shape
    (3, 3)
    """

    law_name: ClassVar[str] = "ginibre"

    variance: Scalar = Fraction(1)
    mean: Scalar = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive_scalar(self.variance, "variance"))
        object.__setattr__(self, "mean", to_scalar(self.mean, "mean"))

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """A (dim, dim) float64 matrix."""
        return self.draw(dim, dim, dim, rng)

    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:
        """A (dim, dim) float64 matrix."""
        if rows != columns:
            raise InputError(f"{self!r} is the law of a square matrix; it cannot be drawn as {rows} x {columns}")
        scale = math.sqrt(to_float(self.variance, "variance") / check_dimension(dim))
        matrix = rng.standard_normal((dim, dim)) * scale
        matrix[np.diag_indices(dim)] += to_float(self.mean, "mean") / math.sqrt(dim)
        return matrix

    def free_letter(self) -> Scalar:
        """The variance."""
        return self.variance

    @property
    def scaled_trace(self) -> Scalar:
        """The mean m."""
        return self.mean


@dataclass(frozen=True)
class GaussianFactors(MatrixLaw):
    """``S = U V^T`` with independent U, V in R^{d x rho d} of iid entries N(0, left/d) and N(0, right/d).

    Then ``tr U U^T = rho left``, ``tr V V^T = rho right``, ``tr S S^T = rho left right``, ``tr S^2 = 0`` in the limit.

    >>> u, v = GaussianFactors(width="1/2").sample_factors(4, np.random.default_rng(0)); u.shape
    (4, 2)
    """

    law_name: ClassVar[str] = "gaussian_factors"

    width: Scalar
    left: Scalar = Fraction(1)
    right: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("width", "left", "right"):
            object.__setattr__(self, name, positive_scalar(getattr(self, name), name))

    def columns(self, dim: int) -> int:
        """The number round(rho d) of columns; ``AssumptionError`` when it is 0."""
        return columns_of_width(self.width, dim)

    def factor_pair(self) -> tuple[GaussianEntries, GaussianEntries]:
        """U and V of independent Gaussian entries."""
        left, right = (GaussianEntries(self.width, self.width * scale) for scale in (self.left, self.right))
        return left, right

    def sample_factors(self, dim: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """U and V, each (dim, round(rho dim)) float64, U drawn first."""
        count = self.columns(dim)
        left = rng.standard_normal((dim, count)) * math.sqrt(to_float(self.left, "left") / dim)
        right = rng.standard_normal((dim, count)) * math.sqrt(to_float(self.right, "right") / dim)
        return left, right

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """``U V^T``, (dim, dim)."""
        left, right = self.sample_factors(dim, rng)
        return left @ right.T


__all__ = ["GaussianFactors", "Ginibre"]
