"""The law of a given spectrum, such as that of a trained or measured matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.arrays import real_array
from aimtheory.errors import AssumptionError, InputError
from aimtheory.scalars import Scalar
from aimtheory.spectra.atom_clusters import noisy_atoms
from aimtheory.spectra.law import (
    FloatArray,
    Interval,
    JacobiCoefficients,
    SpectralLaw,
    check_count,
    check_dimension,
    jacobi_of_atoms,
    rotate,
)
from aimtheory.spectra.subordination import SubordinatedSpectrum


def extensive_rank_limit(dim: int) -> float:
    """The largest ||S||_op/||S||_F that passes for extensive rank at dimension d: max(1/2, 4/sqrt(d))."""
    return max(0.5, 4 / math.sqrt(dim))


@dataclass(frozen=True, repr=False)
class Empirical(SpectralLaw):
    """``(1/d) sum_i delta_{lambda_i}`` of the d eigenvalues given, in float64.

    Raises ``InputError`` for a spectrum that is empty or has an entry that is no finite real number (masked or missing
    ones too), and ``AssumptionError`` when all eigenvalues vanish. ``operator_ratio`` measures the extensive-rank
    assumption of [D] Theorem 1, ||S||_op / ||S||_F -> 0.

    >>> Empirical([1.0, 3.0]).moments(2)
    (2.0, 5.0)
    """

    law_name: ClassVar[str] = "empirical"

    eigenvalues: tuple[float, ...]
    _values: FloatArray = field(init=False, repr=False, compare=False)

    def __init__(self, eigenvalues: ArrayLike) -> None:
        values = np.sort(real_array(eigenvalues, "eigenvalues", ndim=1))
        if not values.size:
            raise InputError("eigenvalues is empty; give at least one")
        if not np.any(values):
            raise AssumptionError("all eigenvalues are 0: the matrix is zero and breaks the extensive-rank assumption")
        values.setflags(write=False)
        object.__setattr__(self, "eigenvalues", tuple(values.tolist()))
        object.__setattr__(self, "_values", values)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Empirical:
        """The spectral law of a symmetric (d, d) matrix; ``InputError`` when it is not symmetric to 1e-10 or finite."""
        array = real_array(matrix, "matrix", ndim=2)
        if array.shape[0] != array.shape[1]:
            raise InputError(f"a spectrum needs a square real matrix; got shape {array.shape}")
        gap = float(np.max(np.abs(array - array.T), initial=0.0))
        if gap > 1e-10 * max(1.0, float(np.max(np.abs(array), initial=0.0))):
            raise InputError(f"the matrix is not symmetric: max |A - A^T| = {gap:.3g}; symmetrize it first")
        return cls(np.linalg.eigvalsh(0.5 * (array + array.T)))

    def __repr__(self) -> str:
        values = self._values
        return f"Empirical({len(values)} eigenvalues in [{values[0]:.6g}, {values[-1]:.6g}])"

    @property
    def dim(self) -> int:
        """The number d of eigenvalues."""
        return len(self.eigenvalues)

    @property
    def operator_ratio(self) -> float:
        """``||S||_op / ||S||_F``, between 1/sqrt(d) and 1; the theory asks that it vanish with d."""
        return float(np.max(np.abs(self._values)) / np.linalg.norm(self._values))

    def check_extensive_rank(self, limit: float | None = None) -> None:
        """Raise ``AssumptionError`` when ``operator_ratio`` exceeds ``limit``: one direction dominates the matrix.

        The default limit is max(1/2, 4/sqrt(d)): less than four effective directions, unless d is so small that spectra
        of extensive rank have no more (Marchenko-Pastur has sqrt(8/d)).
        """
        limit = extensive_rank_limit(len(self._values)) if limit is None else limit
        ratio = self.operator_ratio
        if ratio > limit:
            raise AssumptionError(
                f"||S||_op/||S||_F = {ratio:.4g} exceeds {limit}: the matrix is close to finite rank, and the Gaussian "
                "limit needs extensive rank; remove the spike or raise the rank"
            )

    def moments(self, count: int) -> tuple[Scalar, ...]:
        """``m_n = (1/d) sum_i lambda_i^n``."""
        result, powers = [], np.ones_like(self._values)
        for _ in range(check_count(count)):
            powers = powers * self._values
            result.append(float(powers.mean()))
        return tuple(result)

    def jacobi(self, count: int) -> JacobiCoefficients:
        """By Lanczos on diag(lambda) with full reorthogonalization, not through the moments."""
        return jacobi_of_atoms(self._values, np.full(self.dim, 1 / self.dim), check_count(count))

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Pairs (eigenvalue, multiplicity / d); eigenvalues within 1e-13 of the spectral radius are one atom."""
        values = self._values
        fresh = np.diff(values, prepend=-np.inf) > 1e-13 * np.max(np.abs(values))
        counts = np.diff(np.flatnonzero(np.append(fresh, True)))
        return tuple(zip(values[fresh].tolist(), (counts / self.dim).tolist(), strict=True))

    @property
    def support(self) -> tuple[Interval, ...]:
        """One degenerate interval an eigenvalue."""
        return tuple((point, point) for point, _ in self.atoms)

    def density(self, points: ArrayLike) -> FloatArray:
        """Zero: the law has no continuous part."""
        return np.zeros(np.shape(points))

    def stieltjes(self, points: ArrayLike) -> NDArray[np.complex128]:
        """``(1/d) sum_i 1 / (z - lambda_i)``."""
        z = np.asarray(points, dtype=np.complex128)
        return (1.0 / (z[..., None] - self._values)).mean(axis=-1)

    def noisy_spectrum(self, noise: float) -> SubordinatedSpectrum:
        """By subordination."""
        return noisy_atoms(self.atoms, noise)

    def sample(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """Haar-rotated spectrum; at another dimension than d, the mid-quantiles (i + 1/2)/dim of the law."""
        dim = check_dimension(dim)
        if dim == self.dim:
            return rotate(self._values, rng)
        index = np.minimum(((np.arange(dim) + 0.5) * self.dim / dim).astype(int), self.dim - 1)
        return rotate(self._values[index], rng)


__all__ = ["Empirical", "extensive_rank_limit"]
