"""The cone of order parameters: q1 + q2 and q1 − q2 positive semidefinite.

Cov(G) = C⊗C q1 + (C⊗C)P q2 splits on symmetric and antisymmetric combinations of (i, j) into q1 + q2 and q1 − q2; both
are covariances of the traces of S ± Sᵀ. A truncated hierarchy can leave the cone; the potential is not defined there
(unless it is a polynomial), and the flow projects back first.
"""

from __future__ import annotations

import numpy as np

from aimtheory.errors import InputError

_TOLERANCE = 1e-9


def nearest_order_parameters(q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The closest (q1, q2) in Frobenius norm with q1 ± q2 positive semidefinite.

    >>> q1, q2 = nearest_order_parameters(np.array([[1.0]]), np.array([[2.0]]))
    >>> float(q1[0, 0]), float(q2[0, 0])
    (1.5, 1.5)
    """
    plus, minus = nearest_covariance(np.asarray(q1) + q2), nearest_covariance(np.asarray(q1) - q2)
    return (plus + minus) / 2, (plus - minus) / 2


def nearest_covariance(q: np.ndarray) -> np.ndarray:
    """The closest positive semidefinite matrix in Frobenius norm: negative eigenvalues set to zero."""
    q = np.asarray(q, dtype=float)
    eigenvalues, vectors = np.linalg.eigh((q + q.T) / 2)
    if eigenvalues.size == 0 or eigenvalues[0] >= 0:
        return (q + q.T) / 2
    return np.asarray((vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T)


def check_order_parameters(q: np.ndarray, name: str) -> None:
    """Raise ``InputError`` naming the eigenvalue when a matrix of order parameters is not a covariance."""
    if q.shape == (2, 2):
        # The common case inside an integrator: no eigensolver.
        a, b, c = q.item(0), q.item(3), q.item(1)
        scale = max(abs(a), abs(b), 1e-300)
        if a >= -_TOLERANCE * scale and b >= -_TOLERANCE * scale and a * b - c * c >= -_TOLERANCE * scale * scale:
            return
    smallest = float(np.linalg.eigvalsh((q + q.T) / 2)[0])
    if smallest < -_TOLERANCE * max(float(np.abs(q).max()), 1e-300):
        raise InputError(
            f"{name} = {q.tolist()} has the eigenvalue {smallest:.6g}; order parameters are a covariance, with "
            "eigenvalues >= 0: project them with nearest_order_parameters (or nearest_covariance on the tied line)"
        )


__all__ = ["check_order_parameters", "nearest_covariance", "nearest_order_parameters"]
