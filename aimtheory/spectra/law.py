"""The law of a self-adjoint d x d matrix as d -> infinity: what every spectral law can be asked."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import AssumptionError, InputError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra.cumulants import exact_sqrt, free_cumulants_from_moments, jacobi_from_moments
from aimtheory.spectra.initial_law import InitialLaw
from aimtheory.spectra.square_root import SquareRoot

if TYPE_CHECKING:
    from aimtheory.spectra.band_quadrature import NoisySpectrum

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class JacobiCoefficients:
    """The three-term recurrence ``x p_k = b_k p_{k+1} + a_k p_k + b_{k-1} p_{k-1}`` of the orthonormal polynomials.

    ``diagonal`` holds a_0..a_{n-1}, ``offdiagonal`` b_0..b_{n-1} with b_k >= 0. A finitely supported law with k atoms
    has ``b_{k-1} = 0``, and zeros after. Exact entries (``Fraction``, sympy surds) for exact laws, floats otherwise.

    >>> JacobiCoefficients((0, 0), (1, 1)).floats()[1]
    array([1., 1.])
    """

    diagonal: tuple[Scalar, ...]
    offdiagonal: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if len(self.diagonal) != len(self.offdiagonal):
            raise InputError(f"got {len(self.diagonal)} diagonal and {len(self.offdiagonal)} off-diagonal coefficients")

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def rank(self) -> int | None:
        """The number of orthonormal polynomials when the recurrence ends within these coefficients, else ``None``."""
        for index, value in enumerate(self.offdiagonal):
            if value == 0:
                return index + 1
        return None

    def floats(self) -> tuple[FloatArray, FloatArray]:
        """Both sequences as float64 arrays; raises ``InputError`` when a coefficient is symbolic."""
        return _floats(self.diagonal, "Jacobi coefficient"), _floats(self.offdiagonal, "Jacobi coefficient")

    def gauss_quadrature(self) -> tuple[FloatArray, FloatArray]:
        """Nodes and weights of the n-point Gauss rule (Golub-Welsch): exact for polynomials of degree 2n-1."""
        diagonal, offdiagonal = self.floats()
        size = self.rank or len(self)
        matrix = np.diag(diagonal[:size])
        index = np.arange(size - 1)
        matrix[index, index + 1] = matrix[index + 1, index] = offdiagonal[: size - 1]
        nodes, vectors = np.linalg.eigh(matrix)
        return nodes, vectors[0] ** 2


class SpectralLaw(InitialLaw):
    """Law of a self-adjoint random matrix S in the limit d -> infinity, S being free of all that is independent of it.

    Subclasses are frozen dataclasses. Moments are ``m_n = lim Tr(S^n)/d``. Quantities are exact (``Fraction`` or
    sympy) when the parameters are, and floats otherwise.
    """

    is_self_adjoint: ClassVar[bool] = True

    @abstractmethod
    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``(m_1, ..., m_count)``, ``m_n = lim Tr(S^n)/d``."""

    @property
    @abstractmethod
    def support(self) -> tuple[Interval, ...]:
        """The closed intervals that carry the law, ascending; an isolated atom x is the interval (x, x)."""

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Pairs (location, weight) of the point masses; empty for a law with a density."""
        return ()

    @abstractmethod
    def density(self, points: ArrayLike) -> FloatArray:
        """Density of the absolutely continuous part, same shape as ``points`` (atoms are not in it)."""

    @abstractmethod
    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``g(z) = lim tr (z - S)^{-1}``, z off the support; sign convention Im g < 0 for Im z > 0."""

    @abstractmethod
    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """A (dim, dim) symmetric float64 matrix whose spectrum tends to the law and whose eigenvectors are Haar."""

    def free_cumulants(self, count: int) -> tuple[Scalar, ...]:
        """``(kappa_1, ..., kappa_count)``, the coefficients of R(z) = sum kappa_n z^{n-1}."""
        return free_cumulants_from_moments(self.moments(count))

    def jacobi(self, count: int) -> JacobiCoefficients:
        """Jacobi coefficients a_0..a_{n-1}, b_0..b_{n-1}, n = ``count``; exact, from the first 2n moments."""
        diagonal, squares = jacobi_from_moments(self.moments(2 * count))
        return JacobiCoefficients(diagonal, tuple(exact_sqrt(value) for value in squares))

    @property
    def mean(self) -> Scalar:
        """``lim tr S``."""
        return self.moments(1)[0]

    @property
    def second_moment(self) -> Scalar:
        """``lim tr S^2``."""
        return self.moments(2)[1]

    def noisy_spectrum(self, noise: float) -> NoisySpectrum:  # noqa: ARG002
        """The numerics of ``S + sqrt(noise) Z``, Z a GOE of unit variance; ``InputError`` for a law that has none."""
        raise InputError(
            f"no semicircle convolution for a {type(self).__name__}; use Wishart, GOE, Atomic, Empirical or UserDensity"
            ", or give the class noisy_spectrum: UserDensity(self.density, self.support).noisy_spectrum(noise)"
        )

    def noisy_mmse(self, precision: FloatArray) -> FloatArray:
        """``lim E ||S - E[S | S + Z/sqrt(qhat)]||_F^2 / d`` at each qhat > 0 of a flat array."""
        return np.array([self.noisy_spectrum(1 / value).quadrature.mmse for value in precision.tolist()])

    def noisy_information(self, precision: FloatArray) -> FloatArray:
        """``lim I(S; S + Z/sqrt(qhat)) / d^2`` at each qhat > 0 of a flat array."""
        rules = [self.noisy_spectrum(1 / value).quadrature for value in precision.tolist()]
        halves = zip(rules, np.log(precision), strict=True)
        return np.array([0.5 * rule.integrate(rule.potential + 0.5 * log) + 0.125 for rule, log in halves])

    @property
    def has_fast_denoiser(self) -> bool:
        """True when an MMSE costs microseconds; not with many atoms, whose noisy spectrum has as many bands."""
        return 0 < len(self.atoms) <= 16

    @property
    def mmse_error(self) -> float:
        """The relative error of the MMSE in float64."""
        return 1e-13

    @property
    def is_gaussian(self) -> bool:
        """True when S has jointly Gaussian entries, so that linear denoising is optimal."""
        return False

    @property
    def rotational_freedom(self) -> sp.Expr:
        """``lim qhat MMSE(qhat)``: ``1 - sum w^2`` over the weights w of the atoms.

        An atom of weight w leaves its block of w d dimensions free to rotate, w^2 d^2/2 parameters.
        """
        return 1 - sp.Add(*[sp.Float(weight) ** 2 for _, weight in self.atoms])

    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """A symmetric (rows, rows) sample."""
        if rows != columns:
            raise InputError(f"{self!r} is the law of a square matrix; it cannot be drawn as {rows} x {columns}")
        return self.sample(rows, rng)

    def free_letter(self) -> SpectralLaw:
        """The law itself: a self-adjoint letter, free of the others."""
        return self

    @property
    def scaled_trace(self) -> Scalar | None:
        """Zero for a law of zero mean; None otherwise: Tr S/sqrt d diverges."""
        return Fraction(0) if self.mean == 0 else None

    @property
    def is_positive(self) -> bool:
        """True when the law lives on [0, infinity), so that S = W W^T for a real W; taken for granted of symbols."""
        try:
            return self.support[0][0] >= 0
        except InputError:
            return True

    def factor(self) -> InitialLaw | None:
        """The square root of the law as a law of W, None when the law reaches below zero."""
        return SquareRoot(self) if self.is_positive else None

    def sample_factor(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """A (dim, r) matrix W with ``W W^T`` a sample, r the rank; ``AssumptionError`` when the law reaches below 0."""
        lowest = self.support[0][0]
        if lowest < 0:
            raise AssumptionError(
                f"{self!r} has support down to {lowest:.6g} < 0, so no real W has W W^T of this law; "
                "use a direct parameterization or a law on [0, infinity)"
            )
        eigenvalues, vectors = np.linalg.eigh(self.sample(dim, rng))
        kept = eigenvalues > 1e-12 * max(float(eigenvalues[-1]), 0.0)
        return np.ascontiguousarray(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


MOST_WORDS = 1 << 14
"""Most words on which operators are compressed: dense matrices of this size take two gibibytes each."""


def check_words(count: int, depth: Fraction | int) -> None:
    """``InputError`` when compressed operators would keep more than ``MOST_WORDS`` words."""
    if count > MOST_WORDS:
        raise InputError(f"depth {depth}, degree {2 * depth + 1}, keeps more than {MOST_WORDS} words; lower the degree")


def positive_scalar(value: object, name: str) -> Scalar:
    """Read a parameter that must be > 0; a symbol passes unless sympy knows that it is not positive."""
    scalar = to_scalar(value, name)
    if isinstance(scalar, sp.Expr):
        if scalar.is_positive is False:
            raise InputError(f"{name} = {scalar} must be > 0")
        return scalar
    if scalar <= 0:
        raise InputError(f"{name} = {scalar} must be > 0")
    return scalar


def to_float(value: Scalar, name: str) -> float:
    """The scalar as a float; ``InputError`` when it holds a free symbol, naming it."""
    if isinstance(value, sp.Expr) and value.free_symbols:
        symbols = ", ".join(sorted(str(symbol) for symbol in value.free_symbols))
        raise InputError(f"{name} = {value} is symbolic; give a number to {symbols} before asking for floats")
    return float(value)


def check_dimension(dim: int) -> int:
    """The matrix dimension as an int >= 1, else ``InputError``."""
    if isinstance(dim, bool) or int(dim) != dim or dim < 1:
        raise InputError(f"dim = {dim!r} must be an integer >= 1")
    return int(dim)


def check_count(count: int) -> int:
    """A number of moments or coefficients, an int >= 0, else ``InputError``."""
    if isinstance(count, bool) or int(count) != count or count < 0:
        raise InputError(f"count = {count!r} must be an integer >= 0")
    return int(count)


def haar_orthogonal(dim: int, rng: np.random.Generator) -> FloatArray:
    """A Haar-distributed orthogonal matrix: QR of a Gaussian matrix with the signs of R's diagonal moved into Q."""
    factor, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    return factor * np.where(np.diagonal(upper) < 0, -1.0, 1.0)


def rotate(eigenvalues: FloatArray, rng: np.random.Generator) -> FloatArray:
    """``O diag(eigenvalues) O^T`` with Haar O, exactly symmetric."""
    vectors = haar_orthogonal(len(eigenvalues), rng)
    matrix = (vectors * eigenvalues) @ vectors.T
    return 0.5 * (matrix + matrix.T)


def jacobi_of_atoms(locations: FloatArray, weights: FloatArray, count: int) -> JacobiCoefficients:
    """Jacobi coefficients of ``sum_i weights_i delta_{locations_i}`` in float64: Lanczos with full reorthogonalization.

    Unlike the route through moments this is backward stable. A residual below 1e-13 of the spectral radius times the
    number of atoms counts as zero and ends the recurrence.
    """
    kept = weights > 0
    points, start = locations[kept], np.sqrt(weights[kept] / weights[kept].sum())
    size = min(count, len(points))
    scale = float(np.max(np.abs(points), initial=0.0))
    basis = np.zeros((size + 1, len(points)))
    basis[0] = start
    diagonal, offdiagonal = np.zeros(count), np.zeros(count)
    for k in range(size):
        residual = points * basis[k]
        diagonal[k] = basis[k] @ residual
        for _ in range(2):
            residual = residual - basis[: k + 1].T @ (basis[: k + 1] @ residual)
        norm = float(np.linalg.norm(residual))
        if norm <= 1e-13 * scale * math.sqrt(len(points)) or k + 1 == len(points):
            break
        offdiagonal[k] = norm
        basis[k + 1] = residual / norm
    return JacobiCoefficients(tuple(diagonal.tolist()), tuple(offdiagonal.tolist()))


def _floats(values: Sequence[Scalar], name: str) -> FloatArray:
    return np.array([to_float(value, name) for value in values], dtype=np.float64)


def power(base: Scalar, exponent: int) -> Scalar:
    """``base ** exponent`` with 0 ** 0 = 1, exact for exact bases."""
    return Fraction(1) if exponent == 0 else base**exponent


__all__ = ["FloatArray", "Interval", "JacobiCoefficients", "SpectralLaw"]
