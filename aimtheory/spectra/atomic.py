"""Laws with finitely many atoms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import AssumptionError, InputError
from aimtheory.scalars import Scalar, to_scalar, to_sympy
from aimtheory.spectra.atom_clusters import noisy_atoms
from aimtheory.spectra.cumulants import exact_sqrt, tidy
from aimtheory.spectra.law import (
    FloatArray,
    Interval,
    JacobiCoefficients,
    SpectralLaw,
    check_count,
    check_dimension,
    jacobi_of_atoms,
    power,
    rotate,
    to_float,
)
from aimtheory.spectra.subordination import SubordinatedSpectrum


@dataclass(frozen=True)
class Atomic(SpectralLaw):
    """``sum_i w_i delta_{x_i}``: S = O diag(x) O^T with Haar O and a fraction w_i of eigenvalues at x_i.

    Weights are > 0 and sum to 1 (to 1e-12 for floats, exactly for rationals); equal atoms are merged and sorted.
    Exact atoms give exact moments, and Jacobi coefficients by the exact Stieltjes procedure; floats go by Lanczos.
    Raises ``AssumptionError`` for the zero matrix, which has no extensive rank.

    >>> Atomic([1, -1], ["1/2", "1/2"]).jacobi(3).offdiagonal
    (Fraction(1, 1), Fraction(0, 1), Fraction(0, 1))
    """

    law_name: ClassVar[str] = "atomic"

    locations: tuple[Scalar, ...]
    weights: tuple[Scalar, ...]

    def __init__(self, locations: Iterable[object], weights: Iterable[object] | None = None) -> None:
        points = [to_scalar(value, f"atom {index}") for index, value in enumerate(locations)]
        if not points:
            raise InputError("an atomic law needs at least one atom; got none")
        if weights is None:
            masses: list[Scalar] = [Fraction(1, len(points))] * len(points)
        else:
            masses = [to_scalar(value, f"weight {index}") for index, value in enumerate(weights)]
        if len(points) != len(masses):
            raise InputError(f"got {len(points)} atoms and {len(masses)} weights; they must pair up")
        for index, mass in enumerate(masses):
            if (mass.is_positive is False) if isinstance(mass, sp.Expr) else mass <= 0:
                raise InputError(f"weight {index} = {mass} must be > 0; drop the atom instead")
        total = tidy(sum(masses, Fraction(0)))
        # Weights that sum to one but for rounding stay as they are, so that a law built from its weights is the same.
        if isinstance(total, float) and abs(total - 1) <= 1e-15 * len(masses):
            pass
        elif isinstance(total, float) and abs(total - 1) <= 1e-12:
            masses = [mass / total for mass in masses]
        elif (sp.simplify(total - 1) != 0) if isinstance(total, sp.Expr) else total != 1:
            raise InputError(f"the weights of an atomic law must sum to 1; they sum to {total}")
        merged: dict[Scalar, Scalar] = {}
        for point, mass in zip(points, masses, strict=True):
            merged[point] = merged[point] + mass if point in merged else mass
        if all(not isinstance(point, sp.Expr) or point.is_number for point in merged):
            merged = {point: merged[point] for point in sorted(merged, key=float)}
        if all(point == 0 for point in merged):
            raise AssumptionError("all atoms are at 0: the matrix is zero and breaks the extensive-rank assumption")
        object.__setattr__(self, "locations", tuple(merged))
        object.__setattr__(self, "weights", tuple(merged.values()))

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Pairs (location, weight) as floats."""
        points, masses = self._arrays()
        return tuple(zip(points.tolist(), masses.tolist(), strict=True))

    def _arrays(self) -> tuple[FloatArray, FloatArray]:
        points = np.array([to_float(value, "atom") for value in self.locations])
        return points, np.array([to_float(value, "weight") for value in self.weights])

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``m_n = sum_i w_i x_i^n``."""
        pairs = list(zip(self.locations, self.weights, strict=True))
        return tuple(
            tidy(sum((mass * power(point, n) for point, mass in pairs), Fraction(0)))
            for n in range(1, check_count(count) + 1)
        )

    def jacobi(self, count: int) -> JacobiCoefficients:
        """Stieltjes procedure in exact arithmetic for rational atoms and weights, Lanczos for floats."""
        count = check_count(count)
        values = (*self.locations, *self.weights)
        if all(isinstance(value, Fraction) for value in values):
            return self._exact_jacobi(count)
        if any(isinstance(value, sp.Expr) and value.free_symbols for value in values):
            return super().jacobi(count)
        return jacobi_of_atoms(*self._arrays(), count)

    def _exact_jacobi(self, count: int) -> JacobiCoefficients:
        pairs = [(Fraction(x), Fraction(w)) for x, w in zip(self.locations, self.weights, strict=True)]
        diagonal, squares = [Fraction(0)] * count, [Fraction(0)] * count
        # Values of the monic orthogonal polynomials at the atoms.
        before, now = [Fraction(0)] * len(pairs), [Fraction(1)] * len(pairs)
        norm, square = Fraction(1), Fraction(0)
        for k in range(min(count, len(pairs))):
            diagonal[k] = sum((w * x * v * v for (x, w), v in zip(pairs, now, strict=True)), Fraction(0)) / norm
            following = [(x - diagonal[k]) * v - square * u for (x, _), v, u in zip(pairs, now, before, strict=True)]
            following_norm = sum((w * v * v for (_, w), v in zip(pairs, following, strict=True)), Fraction(0))
            square = squares[k] = following_norm / norm
            if square == 0:
                break
            before, now, norm = now, following, following_norm
        return JacobiCoefficients(tuple(diagonal), tuple(exact_sqrt(value) for value in squares))

    @property
    def support(self) -> tuple[Interval, ...]:
        """One degenerate interval (x, x) an atom."""
        return tuple((point, point) for point in self._arrays()[0].tolist())

    def density(self, points: ArrayLike) -> FloatArray:
        """Zero: the law has no continuous part."""
        return np.zeros(np.shape(points))

    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``sum_i w_i / (z - x_i)``."""
        z = np.asarray(points, dtype=np.complex128)
        locations, masses = self._arrays()
        return (masses / (z[..., None] - locations)).sum(axis=-1)

    def noisy_spectrum(self, noise: float) -> SubordinatedSpectrum:
        """By subordination."""
        return noisy_atoms(self.atoms, noise)

    @property
    def rotational_freedom(self) -> sp.Expr:
        """``1 - sum w^2``, exact for exact weights."""
        return 1 - sp.Add(*[to_sympy(weight) ** 2 for weight in self.weights])

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """Haar-rotated spectrum; the number of eigenvalues at each atom is w_i d rounded by largest remainder."""
        dim = check_dimension(dim)
        points, masses = self._arrays()
        quota = masses * dim
        counts = np.floor(quota + 1e-9).astype(int)
        remainder = np.argsort(-(quota - counts), kind="stable")
        counts[remainder[: dim - int(counts.sum())]] += 1
        return rotate(np.repeat(points, counts), rng)


__all__ = ["Atomic"]
