"""The exactly solvable case: constant gradients of the potential ([D] appendix D.3).

When Phi is linear in q, as for the squared loss of linear forms, g_11 = a > 0 and g_12 = -b < 0 are constants and the
tied flow is the matrix Riccati equation dS_1/dt = b (S_1 S_2 + S_2 S_1) - 2 a S_1^2. The source has a = b = 2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from aimtheory.errors import InputError
from aimtheory.spectra import SpectralLaw

FloatArray = NDArray[np.float64]


def riccati_solution(
    student: ArrayLike, teacher: ArrayLike, time: float, *, gradient_11: float = 2.0, gradient_12: float = -2.0
) -> FloatArray:
    r"""S_1(t) of the matrix Riccati flow in closed form ([D] (343)), symmetric d x d matrices in and out.

    S_1(t) = [e^{-b S_2 t} S_1(0)^{-1} e^{-b S_2 t} + (a/b) S_2^{-1}(1 - e^{-2 b S_2 t})]^{-1}, a = g_11, b = -g_12,
    evaluated without inverting S_1(0) or S_2, so that both may be singular. Exact. Raises ``InputError`` for shapes
    that differ, for matrices that are not symmetric positive semidefinite, for a negative time and for gradients of
    the wrong sign.

    >>> float(riccati_solution([[0.5]], [[1.0]], 10.0)[0, 0]) > 0.999999
    True
    """
    first, second = (_symmetric(matrix, name) for matrix, name in ((student, "student"), (teacher, "teacher")))
    if first.shape != second.shape:
        raise InputError(f"student is {first.shape} but teacher is {second.shape}; they must have one shape")
    a, b = _rates(gradient_11, gradient_12)
    if not (np.isfinite(time) and time >= 0):
        raise InputError(f"time = {time} must be finite and at least 0")
    eigenvalues, vectors = np.linalg.eigh(second)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    strength, basis = np.linalg.eigh(first)
    factor = vectors.T @ (basis * np.sqrt(np.maximum(strength, 0.0)))
    # The closed form holds from any time to any other. Growth e^{b S_2 t} is kept to a factor e a step, so rounding
    # stays at the level of the precision however long the time.
    steps = max(1, math.ceil(b * float(eigenvalues[-1]) * time))
    width = time / steps
    growth = np.exp(b * eigenvalues * width)[:, None]
    exponent = 2 * b * eigenvalues * width
    damping = 2 * a * width * np.where(exponent > 0, -np.expm1(-exponent) / np.where(exponent > 0, exponent, 1.0), 1.0)
    for _ in range(steps if time > 0 else 0):
        # In the teacher's eigenbasis S_1(t) = A (1 + A^T D A)^{-1} A^T with A = e^{b S_2 t} W and
        # D = (a/b) S_2^{-1} (1 - e^{-2 b S_2 t}); the Cholesky factor of the bracket gives the W of the next step.
        grown = growth * factor
        root = np.linalg.cholesky(np.eye(factor.shape[1]) + grown.T @ (damping[:, None] * grown))
        factor = solve_triangular(root, grown.T, lower=True).T
    rotated = vectors @ factor
    return np.asarray(rotated @ rotated.T)


def eigenvalue_solution(
    eigenvalues: ArrayLike, level: float, time: ArrayLike, *, gradient_11: float = 2.0, gradient_12: float = -2.0
) -> FloatArray:
    r"""lambda(t) when S_2 = c 1 ([D] (347)): c' lambda_0 / (lambda_0 + (c' - lambda_0) e^{-2 b c t}) with c' = b c / a.

    ``eigenvalues`` and ``time`` broadcast. Exact. For the source's a = b = 2 this is c lambda_0/(lambda_0 + (c -
    lambda_0) e^{-4 c t}).

    >>> float(eigenvalue_solution(0.5, 1.0, 0.0))
    0.5
    """
    a, b = _rates(gradient_11, gradient_12)
    start, when = np.asarray(eigenvalues, dtype=np.float64), np.asarray(time, dtype=np.float64)
    if not (np.isfinite(level) and level > 0):
        raise InputError(f"level = {level} must be positive")
    if (start < 0).any() or not np.isfinite(start).all():
        raise InputError("eigenvalues of S_1 = W W^T must be finite and at least 0")
    target = b * level / a
    return np.asarray(target * start / (start + (target - start) * np.exp(-2 * b * level * when)))


def first_moment(
    law: SpectralLaw,
    level: float,
    times: ArrayLike,
    *,
    nodes: int = 400,
    gradient_11: float = 2.0,
    gradient_12: float = -2.0,
) -> FloatArray:
    r"""mu_1(t) = integral of lambda(t) over the law of S_1(0), for S_2 = c 1 ([D] (348)).

    By Gauss quadrature of the law from its Jacobi coefficients: exact to rounding once ``nodes`` resolve the
    integrand, which is analytic around the support.
    """
    points, weights = law.jacobi(nodes).gauss_quadrature()
    values = eigenvalue_solution(
        np.maximum(points, 0.0)[None, :],
        level,
        np.atleast_1d(np.asarray(times, dtype=np.float64))[:, None],
        gradient_11=gradient_11,
        gradient_12=gradient_12,
    )
    return np.asarray(values @ weights)


def _rates(gradient_11: float, gradient_12: float) -> tuple[float, float]:
    if not (np.isfinite(gradient_11) and gradient_11 > 0):
        raise InputError(f"gradient_11 = {gradient_11} must be positive")
    if not (np.isfinite(gradient_12) and gradient_12 < 0):
        raise InputError(f"gradient_12 = {gradient_12} must be negative")
    return float(gradient_11), -float(gradient_12)


def _symmetric(matrix: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"{name} has shape {array.shape}; give a square matrix")
    if not np.isfinite(array).all():
        raise InputError(f"{name} has an entry that is not finite")
    scale = max(1.0, float(np.abs(array).max()))
    if np.abs(array - array.T).max() > 1e-10 * scale:
        raise InputError(f"{name} is not symmetric; S = W W^T equals its transpose")
    smallest = float(np.linalg.eigvalsh(array)[0])
    if smallest < -1e-8 * scale:
        raise InputError(f"{name} has the negative eigenvalue {smallest:.3g}; S = W W^T is positive semidefinite")
    return (array + array.T) / 2


__all__ = ["eigenvalue_solution", "first_moment", "riccati_solution"]
