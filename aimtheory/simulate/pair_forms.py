"""The forms h_ab = (x_a^T S x_b - delta_ab Tr S)/sqrt(d) of a block of tokens and their adjoint, as matrix products.

The sensing matrices sym(x_a x_b^T) are never built: both maps cost 2 n T d^2 flops and read the tokens once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes.token_pairs import token_pairs
from aimtheory.simulate.gaussian_tokens import FloatArray

Float64Array = NDArray[np.float64]


def pair_forms(block: FloatArray, matrix: FloatArray) -> Float64Array:
    """Centred forms, float64 of shape (c, P) in the order of ``token_pairs``, of a block (T, c, d) and S (d, d).

    Products are made in the dtype of the block.

    >>> pair_forms(np.ones((2, 1, 4)), np.eye(4))
    array([[0., 2., 0.]])
    """
    tokens, count, dim = block.shape
    product = (block.reshape(-1, dim) @ matrix.astype(block.dtype, copy=False)).reshape(block.shape)
    forms = np.empty((count, tokens * (tokens + 1) // 2))
    trace = float(np.trace(matrix))
    for place, (a, b) in enumerate(token_pairs(tokens)):
        forms[:, place] = np.vecdot(product[a], block[b])
        if a == b:
            forms[:, place] -= trace
    forms /= math.sqrt(dim)
    return forms


def weighted_outer_sum(block: FloatArray, weights: Float64Array) -> FloatArray:
    """``sum_mu sum_{a<=b} g_ab sym(x_a x_b^T)``, (d, d) in the dtype of the block, of weights g (c, P).

    One matrix product X^T Y with Y_a = g_aa x_a + (1/2) sum_{b != a} g_ab x_b. The centring -delta_ab g_ab 1 is left to
    the caller: it is the sum of the diagonal weights times the identity.
    """
    tokens, _, dim = block.shape
    halves: dict[tuple[int, int], Any] = {}
    for place, (a, b) in enumerate(token_pairs(tokens)):
        column = (weights[:, place] if a == b else 0.5 * weights[:, place]).astype(block.dtype, copy=False)
        halves[a, b] = halves[b, a] = column[:, None]
    mixed = np.empty_like(block)
    scratch = np.empty_like(block[0])
    for a in range(tokens):
        np.multiply(halves[a, 0], block[0], out=mixed[a])
        for b in range(1, tokens):
            np.multiply(halves[a, b], block[b], out=scratch)
            mixed[a] += scratch
    total = block.reshape(-1, dim).T @ mixed.reshape(-1, dim)
    return np.asarray(0.5 * (total + total.T))


__all__ = ["pair_forms", "weighted_outer_sum"]
