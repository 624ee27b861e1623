"""The Gaussian law of the forms at given order parameters (equation (4) of [D]), as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.errors import InputError
from aimtheory.model.token_covariance import validate_token_covariance
from aimtheory.population.quadrature import covariance_factor


@dataclass(frozen=True, eq=False)
class OrderParameters:
    """m_k = Tr S_k/√d, q1_kl = tr(S_k S_lᵀ) = Ω, q2_kl = tr(S_k S_l) = Ψ; shapes (K,), (K, K), (K, K)."""

    mean: np.ndarray
    q1: np.ndarray
    q2: np.ndarray


def order_parameters(matrices: Sequence[ArrayLike], centred: bool = False) -> OrderParameters:
    """The order parameters of actual d×d matrices; ``centred`` sets the means to zero.

    >>> order_parameters([np.eye(4), -np.eye(4)]).q1
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    arrays = [np.asarray(matrix, dtype=float) for matrix in matrices]
    if not arrays:
        raise InputError("no matrices; give at least one d×d array")
    dim = arrays[0].shape[0] if arrays[0].ndim == 2 else 0
    for k, array in enumerate(arrays):
        if array.shape != (dim, dim) or dim == 0:
            raise InputError(f"matrix {k} has shape {array.shape}; all must be d×d with the same d")
        if not np.isfinite(array).all():
            raise InputError(f"matrix {k} has an entry that is not finite")
    stack = np.stack(arrays)
    flat, flipped = stack.reshape(len(arrays), -1), stack.transpose(0, 2, 1).reshape(len(arrays), -1)
    mean = np.zeros(len(arrays)) if centred else np.trace(stack, axis1=1, axis2=2) / np.sqrt(dim)
    return OrderParameters(mean, flat @ flat.T / dim, flat @ flipped.T / dim)


@dataclass(frozen=True, eq=False)
class GaussianLaw:
    """Mean (L, L, K) and covariance (L, L, K, L, L, K) of the forms G[i, j, k]."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, parameters: OrderParameters, tokens: int, token_covariance: ArrayLike | None = None) -> GaussianLaw:
        """E G_ijk = C_ij m_k; Cov(G_ijk, G_i'j'l) = C_ii' C_jj' q1_kl + C_ij' C_ji' q2_kl.

        >>> law = GaussianLaw.of(order_parameters([np.eye(4)]), tokens=1)
        >>> law.mean.ravel(), law.covariance.ravel()
        (array([2.]), array([2.]))
        """
        c = validate_token_covariance(np.eye(tokens) if token_covariance is None else token_covariance, tokens)
        covariance = np.einsum("ac,bd,kl->abkcdl", c, c, parameters.q1)
        covariance += np.einsum("ad,bc,kl->abkcdl", c, c, parameters.q2)
        return cls(c[:, :, None] * parameters.mean, covariance)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws of the forms, shape (count, L, L, K); singular covariances are fine."""
        shape = self.mean.shape
        factor = covariance_factor(self.covariance.reshape(self.mean.size, self.mean.size))
        draws = self.mean.ravel() + rng.standard_normal((count, factor.shape[1])) @ factor.T
        return np.asarray(draws.reshape(count, *shape))


__all__ = ["GaussianLaw", "OrderParameters", "order_parameters"]
