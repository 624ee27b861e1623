"""The spectral measure of a symmetric operator at a vector: Gauss quadrature of a compressed operator's law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike
from scipy.special import ndtr

from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, record
from aimtheory.spectra.law import FloatArray


@record("spectral-measure")
@dataclass(frozen=True, eq=False)
class SpectralMeasure(Result):
    """``sum_k weights_k delta_{nodes_k}``, nodes ascending, weights > 0 (total = squared norm of the state).

    It is the Gauss rule of the true spectral measure, so moments are exact as far as the compression is, and the
    density is known only after smoothing: ``density`` states the bandwidth through ``resolution``.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("eigenvalue",)

    nodes: FloatArray
    weights: FloatArray

    def variables(self) -> tuple[Variable, ...]:
        """Weights over the nodes."""
        return (
            Variable("eigenvalue", self.nodes, ("eigenvalue",), "eigenvalue"),
            Variable("weight", self.weights, ("eigenvalue",), "weight"),
        )

    def summary(self) -> dict[str, Any]:
        """``nodes``, ``weights``, ``mass``."""
        return {"nodes": self.nodes, "weights": self.weights, "mass": self.mass}

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    def moment(self, order: int) -> float:
        """``sum_k weights_k nodes_k^n``."""
        return float(self.weights @ self.nodes**order)

    @property
    def resolution(self) -> float:
        """Default bandwidth: the weighted mean distance between neighbouring nodes; finer detail is not in the data."""
        if len(self.nodes) < 2:
            return float(max(1.0, abs(self.nodes[0]))) * 1e-2 if len(self.nodes) else 1.0
        gaps = np.diff(self.nodes)
        local = 0.5 * (np.append(gaps, gaps[-1]) + np.insert(gaps, 0, gaps[0]))
        return float(local @ self.weights / self.weights.sum())

    def density(self, points: ArrayLike, resolution: float | None = None, kernel: str = "gaussian") -> FloatArray:
        """Density smoothed by a kernel of bandwidth ``resolution`` (standard deviation, or Lorentzian half width).

        Lorentzian smoothing is -Im g(x + i eta)/pi. Same shape as ``points``; integrates to ``mass``.
        """
        width = self._bandwidth(resolution)
        offset = (np.asarray(points, dtype=np.float64)[..., None] - self.nodes) / width
        if kernel == "gaussian":
            values = np.exp(-0.5 * offset**2) / math.sqrt(2 * math.pi)
        elif kernel == "lorentzian":
            values = 1 / (math.pi * (1 + offset**2))
        else:
            raise InputError(f"kernel = {kernel!r} is unknown; use 'gaussian' or 'lorentzian'")
        return values @ self.weights / width

    def cdf(self, points: ArrayLike, resolution: float | None = None) -> FloatArray:
        """Mass at or below each point: a step function, or its Gaussian smoothing when ``resolution`` is given."""
        x = np.asarray(points, dtype=np.float64)
        if resolution is None:
            cumulative = np.concatenate([[0.0], np.cumsum(self.weights)])
            return cumulative[np.searchsorted(self.nodes, x, side="right")]
        return ndtr((x[..., None] - self.nodes) / self._bandwidth(resolution)) @ self.weights

    def _bandwidth(self, resolution: float | None) -> float:
        width = self.resolution if resolution is None else float(resolution)
        if not width > 0 or not math.isfinite(width):
            raise InputError(f"resolution = {resolution} must be a finite number > 0")
        return width


def spectral_measure(
    operator: ArrayLike | sparse.sparray | sparse.spmatrix,
    state: ArrayLike | None = None,
    steps: int | None = None,
) -> SpectralMeasure:
    """Spectral measure of a symmetric (n, n) ``operator`` at ``state`` (default: the first basis vector).

    With ``steps = None`` by full diagonalization (n^3), every node kept whose weight exceeds 1e-15 of the mass. With
    ``steps = k`` by k Lanczos steps with full reorthogonalization (k products and k^2 n): the k-node Gauss rule, whose
    moments are exact up to order 2k - 1. Raises ``InputError`` for asymmetric or non-finite input or a zero state.

    >>> spectral_measure([[0.0, 1.0], [1.0, 0.0]]).nodes
    array([-1.,  1.])
    """
    is_sparse = sparse.issparse(operator)
    matrix = sparse.csr_array(operator) if is_sparse else np.asarray(operator, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the operator must be square; got shape {matrix.shape}")
    size = matrix.shape[0]
    vector = np.eye(1, size)[0] if state is None else np.asarray(state, dtype=np.float64)
    if vector.shape != (size,):
        raise InputError(f"the state must have shape ({size},); got {vector.shape}")
    data = matrix.data if is_sparse else matrix
    if not np.all(np.isfinite(data)) or not np.all(np.isfinite(vector)):
        raise InputError("the operator or the state has a NaN or infinite entry")
    mass = float(vector @ vector)
    if mass == 0:
        raise InputError("the state is the zero vector, which has no spectral measure")
    gap = float(abs(matrix - matrix.T).max()) if size else 0.0
    if gap > 1e-10 * max(1.0, float(np.max(np.abs(data), initial=0.0))):
        raise InputError(f"the operator is not symmetric: max |A - A^T| = {gap:.3g}")
    if steps is None:
        nodes, vectors = np.linalg.eigh(sparse.csr_array(matrix).toarray() if is_sparse else np.asarray(matrix))
        weights = (vector @ vectors) ** 2
    else:
        nodes, weights = _lanczos_rule(matrix, vector / math.sqrt(mass), int(steps))
        weights = weights * mass
    kept = weights > 1e-15 * mass
    return SpectralMeasure(nodes[kept], weights[kept])


def _lanczos_rule(
    matrix: FloatArray | sparse.csr_array, start: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray]:
    if steps < 1:
        raise InputError(f"steps = {steps} must be >= 1")
    size = min(steps, len(start))
    basis = np.zeros((size, len(start)))
    basis[0] = start
    diagonal, offdiagonal = [], []
    scale = 0.0
    for k in range(size):
        residual = matrix @ basis[k]
        scale = max(scale, float(np.linalg.norm(residual)))
        diagonal.append(float(basis[k] @ residual))
        for _ in range(2):
            residual = residual - basis[: k + 1].T @ (basis[: k + 1] @ residual)
        norm = float(np.linalg.norm(residual))
        if k + 1 == size or norm <= 1e-13 * scale * math.sqrt(len(start)):
            break
        offdiagonal.append(norm)
        basis[k + 1] = residual / norm
    index = np.arange(len(offdiagonal))
    tridiagonal = np.diag(diagonal)
    tridiagonal[index, index + 1] = tridiagonal[index + 1, index] = offdiagonal
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return nodes, vectors[0] ** 2


__all__ = ["SpectralMeasure", "spectral_measure"]
