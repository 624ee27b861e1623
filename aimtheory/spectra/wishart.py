"""Wishart matrices S = W W^T: the law of the Gaussian factor W, and the Marchenko-Pastur law, any width and trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import AssumptionError
from aimtheory.scalars import Scalar, to_sympy
from aimtheory.spectra.cumulants import exact_sqrt, moments_from_free_cumulants, tidy
from aimtheory.spectra.initial_law import InitialLaw
from aimtheory.spectra.law import (
    FloatArray,
    Interval,
    JacobiCoefficients,
    SpectralLaw,
    check_count,
    check_dimension,
    positive_scalar,
    power,
    to_float,
)
from aimtheory.spectra.wishart_convolution import WishartSpectrum, wishart_rules


def columns_of_width(width: Scalar, dim: int) -> int:
    """The number round(width x dim) of columns; ``AssumptionError`` when it is 0."""
    count = round(to_float(width, "width") * check_dimension(dim))
    if count < 1:
        raise AssumptionError(f"width = {width} at dim = {dim} leaves a factor with no column; raise dim")
    return count


@dataclass(frozen=True)
class GaussianEntries(InitialLaw):
    """X with independent centred Gaussian entries, columns = ``width`` x d, such that ``tr X X^T = trace``.

    Entries have variance trace/columns, so that E (X X^T)_ii = trace at every dimension; X X^T of a d x rho d letter
    is ``Wishart(width=rho, trace=t)``. Width one on the embedding space is a Ginibre matrix of variance ``trace``.

    >>> GaussianEntries(width="1/2", trace=2).gram().moments(2)
    (Fraction(2, 1), Fraction(12, 1))
    """

    law_name: ClassVar[str] = "gaussian_entries"

    width: Scalar = Fraction(1)
    trace: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", positive_scalar(self.width, "width"))
        object.__setattr__(self, "trace", positive_scalar(self.trace, "trace"))

    @property
    def column_width(self) -> Scalar:
        """The width."""
        return self.width

    def columns(self, dim: int) -> int:
        """round(width x dim); ``AssumptionError`` when it is 0."""
        return columns_of_width(self.width, dim)

    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:
        """Independent N(0, trace/columns) entries."""
        columns = self.columns(dim) if columns is None else columns
        return rng.standard_normal((rows, columns)) * math.sqrt(to_float(self.trace, "trace") / columns)

    def free_letter(self) -> Scalar:
        """trace/width: entries of variance (trace/width)/d."""
        return self.trace / self.width

    def gram(self) -> Wishart:
        """The Wishart law of this width and trace."""
        return Wishart(width=self.width, trace=self.trace)


@dataclass(frozen=True)
class Wishart(SpectralLaw):
    """``S = W W^T``, W in R^{d x rho d} with iid centred Gaussian entries and ``tr S = t``: S ~ t MP(c), c = 1/rho.

    ``width`` is rho = r/d > 0, ``trace`` is t = lim Tr(S)/d > 0 (entries of variance t/r). Free cumulants
    ``kappa_n = t^n c^{n-1}``; Jacobi ``a_0 = t, a_{n>=1} = t(1+c), b_n = t sqrt(c)``; edges ``t (1 -+ sqrt c)^2``; for
    rho < 1 an atom of weight 1-rho at 0. All these hold for every rho. Both parameters may be sympy symbols.
    Source: Marchenko and Pastur; [D] section 6 for its role, [B] with trace = sqrt(rho) (``bayes_wishart``).

    >>> Wishart(width=1, trace=1).moments(4)
    (Fraction(1, 1), Fraction(2, 1), Fraction(5, 1), Fraction(14, 1))
    """

    law_name: ClassVar[str] = "wishart"

    width: Scalar
    trace: Scalar = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", positive_scalar(self.width, "width"))
        object.__setattr__(self, "trace", positive_scalar(self.trace, "trace"))

    @property
    def is_positive(self) -> bool:
        """True, for symbolic parameters too."""
        return True

    def factor(self) -> GaussianEntries:
        """W of independent Gaussian entries."""
        return GaussianEntries(width=self.width, trace=self.trace)

    @property
    def aspect(self) -> Scalar:
        """The Marchenko-Pastur ratio c = d/r = 1/rho."""
        return 1 / self.width

    def free_cumulants(self, count: int) -> tuple[Scalar, ...]:
        """``kappa_n = t^n c^{n-1}``."""
        return tuple(tidy(power(self.trace, n) * power(self.aspect, n - 1)) for n in range(1, check_count(count) + 1))

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``m_n = t^n sum_k N(n,k) c^{k-1}`` with the Narayana numbers, through the free cumulants."""
        return moments_from_free_cumulants(self.free_cumulants(count))

    def jacobi(self, count: int) -> JacobiCoefficients:
        """``a_0 = t, a_{n>=1} = t(1+c), b_n = t sqrt(c)``."""
        count = check_count(count)
        later = tidy(self.trace * (1 + self.aspect))
        step = tidy(self.trace * exact_sqrt(self.aspect))
        return JacobiCoefficients((self.trace, *[later] * (count - 1))[:count], (step,) * count)

    @property
    def edges(self) -> Interval:
        """The ends ``t (1 - sqrt c)^2, t (1 + sqrt c)^2`` of the continuous part."""
        trace, root = to_float(self.trace, "trace"), math.sqrt(to_float(self.aspect, "1/width"))
        return trace * (1 - root) ** 2, trace * (1 + root) ** 2

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The atom at 0 of weight 1-rho when rho < 1."""
        width = to_float(self.width, "width")
        return ((0.0, 1 - width),) if width < 1 else ()

    @property
    def support(self) -> tuple[Interval, ...]:
        """The bulk, with the atom at 0 before it when rho < 1."""
        return ((0.0, 0.0), self.edges) if self.atoms else (self.edges,)

    def density(self, points: ArrayLike) -> FloatArray:
        """``sqrt((x - x_-)(x_+ - x)) / (2 pi c t x)`` between the edges, 0 elsewhere."""
        x = np.asarray(points, dtype=np.float64)
        low, high = self.edges
        scale = to_float(self.trace, "trace") * to_float(self.aspect, "1/width")
        inside = (x > low) & (x < high) & (x > 0)
        safe = np.where(inside, x, 1.0)
        return np.where(inside, np.sqrt(np.maximum((x - low) * (high - x), 0.0)) / (2 * math.pi * scale * safe), 0.0)

    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``g = (z - t(1-c) - sqrt(z - x_-) sqrt(z - x_+)) / (2 c t z)``, written without cancellation."""
        z = np.asarray(points, dtype=np.complex128)
        trace, aspect = to_float(self.trace, "trace"), to_float(self.aspect, "1/width")
        low, high = self.edges
        root = np.sqrt(z - low) * np.sqrt(z - high)
        # c t z g^2 - (z - t(1-c)) g + 1 = 0: the root that vanishes at infinity is 2 / (linear + root).
        return 2.0 / (z - trace * (1 - aspect) + root)

    def noisy_spectrum(self, noise: float) -> WishartSpectrum:
        """In closed form."""
        return WishartSpectrum(to_float(self.aspect, "1/width"), to_float(self.trace, "trace"), noise)

    def noisy_mmse(self, precision: FloatArray) -> FloatArray:
        """By quadrature in closed form, all precisions at once."""
        trace = to_float(self.trace, "trace")
        result = np.empty(precision.shape)
        for _, rule, index in wishart_rules(to_float(self.aspect, "1/width"), 1 / (trace**2 * precision)):
            result[index] = trace**2 * rule.mmse
        return result

    def noisy_information(self, precision: FloatArray) -> FloatArray:
        """By quadrature in closed form, all precisions at once."""
        noise = 1 / (to_float(self.trace, "trace") ** 2 * precision)
        result = np.empty(precision.shape)
        for _, rule, index in wishart_rules(to_float(self.aspect, "1/width"), noise):
            result[index] = 0.5 * rule.integrate(rule.potential - 0.5 * np.log(noise[index, None])) + 0.125
        return result

    @property
    def has_fast_denoiser(self) -> bool:
        """True."""
        return True

    @property
    def mmse_error(self) -> float:
        """About 1e-13; rounding grows like 1/width where almost all of the spectrum is an atom at 0."""
        return 1e-13 + 2e-17 * to_float(self.aspect, "1/width")

    @property
    def rotational_freedom(self) -> sp.Expr:
        """``2 rho - rho^2`` for rho <= 1, 1 beyond; a Piecewise for a symbolic width."""
        # A float is the binary number it is, so that nothing is rounded here.
        rho = to_sympy(Fraction(self.width) if isinstance(self.width, float) else self.width)
        if rho.free_symbols:
            return sp.Piecewise((2 * rho - rho**2, rho <= 1), (sp.Integer(1), True))
        return sp.expand(2 * rho - rho**2) if rho <= 1 else sp.Integer(1)

    def columns(self, dim: int) -> int:
        """The number r = round(rho d) of columns of a factor; ``AssumptionError`` when it is 0."""
        return columns_of_width(self.width, dim)

    def sample_factor(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """W of shape (dim, round(rho dim)), iid N(0, t/r) entries, so that E tr(W W^T) = t at every dim."""
        count = self.columns(dim)
        return rng.standard_normal((dim, count)) * math.sqrt(to_float(self.trace, "trace") / count)

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """``W W^T`` of a sampled factor."""
        factor = self.sample_factor(dim, rng)
        return factor @ factor.T


def bayes_wishart(width: object) -> Wishart:
    """The prior of [B]: ``S = W W^T / sqrt(r d)``, standard Gaussian W, i.e. sqrt(rho) MP(1/rho); tr S^2 = 1 + rho.

    >>> bayes_wishart("1/4").second_moment
    Fraction(5, 4)
    """
    rho = positive_scalar(width, "width")
    return Wishart(width=rho, trace=exact_sqrt(rho))


__all__ = ["GaussianEntries", "Wishart", "bayes_wishart"]
