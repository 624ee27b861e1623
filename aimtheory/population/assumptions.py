"""Monitors of the assumptions behind the Gaussian law: extensive rank, and finite means.

Theorem 1 of [D] asks that ‖S‖_op/‖S‖_F → 0 (Assumption 1.1) and that Tr S/√d, tr(S S'ᵀ), tr(S S') have finite limits.
The ratio controls the higher cumulants: the skewness of xᵀSx, S symmetric, is at most 2√2 ‖S‖_op/‖S‖_F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.errors import AssumptionError, InputError


@dataclass(frozen=True)
class ExtensiveRank:
    """‖S‖_op, ‖S‖_F and their ratio; ``effective_rank`` = (‖S‖_F/‖S‖_op)² is at most the rank."""

    operator_norm: float
    frobenius_norm: float
    dim: int

    @property
    def ratio(self) -> float:
        """‖S‖_op/‖S‖_F, between d^{-1/2} and 1."""
        return self.operator_norm / self.frobenius_norm

    @property
    def effective_rank(self) -> float:
        """The inverse square of the ratio."""
        return self.ratio**-2

    @property
    def skewness_bound(self) -> float:
        """2√2 times the ratio: a bound on |skewness| of xᵀSx, S symmetric and x standard Gaussian."""
        return 2 * np.sqrt(2) * self.ratio


def extensive_rank(matrix: ArrayLike) -> ExtensiveRank:
    """The norms of Assumption 1.1 for a d×d matrix, or for a one-dimensional array of its singular values/eigenvalues.

    Raises ``InputError`` for a zero or non-finite matrix.

    >>> round(extensive_rank(np.eye(100)).effective_rank, 9)
    100.0
    """
    array = np.asarray(matrix, dtype=float)
    if array.ndim not in (1, 2) or array.size == 0 or (array.ndim == 2 and array.shape[0] != array.shape[1]):
        raise InputError(f"shape {array.shape} is neither a d×d matrix nor a list of singular values")
    if not np.isfinite(array).all():
        raise InputError("the matrix has an entry that is not finite")
    if not array.any():
        raise InputError("the matrix is zero: ‖S‖_op/‖S‖_F is undefined")
    operator = float(np.abs(array).max()) if array.ndim == 1 else float(np.linalg.norm(array, 2))
    return ExtensiveRank(operator, float(np.linalg.norm(array)), array.shape[0])


def check_extensive_rank(matrix: ArrayLike, limit: float = 0.5, name: str = "S") -> ExtensiveRank:
    """Raise ``AssumptionError`` when ‖S‖_op/‖S‖_F > ``limit``: Assumption 1.1 of [D] is far from holding.

    At finite d the ratio is never zero; MP(c=1) has √8/√d. The default flags an effective rank below 4.

    >>> check_extensive_rank(np.diag([1.0, 0.0, 0.0, 0.0]))
    Traceback (most recent call last):
        ...
    aimtheory.errors.AssumptionError: S has ‖S‖_op/‖S‖_F = 1 (effective rank 1 in d = 4), above the limit 0.5; \
Assumption 1.1 of [D] needs extensive rank, ‖S‖_op/‖S‖_F → 0: use a width proportional to d
    """
    found = extensive_rank(matrix)
    if found.ratio > limit:
        raise AssumptionError(
            f"{name} has ‖S‖_op/‖S‖_F = {found.ratio:.3g} (effective rank {found.effective_rank:.3g} in d = "
            f"{found.dim}), above the limit {limit:g}; Assumption 1.1 of [D] needs extensive rank, ‖S‖_op/‖S‖_F → 0: "
            "use a width proportional to d"
        )
    return found


def check_finite_mean(normalized_trace: float, centred: bool, name: str = "S") -> None:
    """Raise ``AssumptionError`` when forms are not centred though tr S ≠ 0: their mean Tr S/√d = √d tr S diverges.

    >>> check_finite_mean(0.0, centred=False)
    """
    if not np.isfinite(normalized_trace):
        raise InputError(f"tr {name} = {normalized_trace} is not finite")
    if not centred and normalized_trace != 0:
        raise AssumptionError(
            f"tr {name} = {normalized_trace:g} with forms that are not centred: their mean Tr {name}/√d grows like √d, "
            "and Theorem 1 of [D] needs a finite limit; use the centred forms Tr[S(x_j x_iᵀ − C_ij 1)]/√d (Corollary 5)"
        )


__all__ = ["ExtensiveRank", "check_extensive_rank", "check_finite_mean", "extensive_rank"]
