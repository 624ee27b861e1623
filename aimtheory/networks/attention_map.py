"""The attention map F(A) of the scores of one head, behind a mask, and its vector-Jacobian product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.model.activations import Activation

Mask = str | tuple[tuple[int, ...], ...] | None


def checked_mask(mask: str | Sequence[Sequence[int]] | np.ndarray | None) -> Mask:
    """None, ``"causal"``, or a square tuple of 0 and 1 in which every token sees one at least; else ``InputError``.

    >>> checked_mask([[1, 0], [1, 1]])
    ((1, 0), (1, 1))
    """
    if mask is None or mask == "causal":
        return mask  # type: ignore[return-value]
    if isinstance(mask, str):
        raise InputError(f"mask = {mask!r} of a network must be None, 'causal', or rows of 0 and 1")
    rows = np.asarray(mask)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or not np.isin(rows, (0, 1)).all():
        raise InputError(f"mask = {mask!r} of a network must be a square of 0 and 1, a row a token")
    hidden = np.flatnonzero(~rows.any(axis=1))
    if hidden.size:
        raise InputError(
            f"mask hides every token from token {hidden[0] + 1}; a row of attention needs at least one that it sees"
        )
    return tuple(tuple(int(entry) for entry in row) for row in rows)


@dataclass(frozen=True)
class AttentionMap:
    """F of the visible scores, zero at the others; the softmax normalizes over the visible ones.

    >>> from aimtheory.model.activations import activation
    >>> AttentionMap(activation("softmax"), "causal")(np.zeros((2, 2)))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    function: Activation
    mask: Mask = None

    def visible(self, tokens: int) -> np.ndarray | None:
        """Which scores count, (L, L) of bool, or None for all; ``InputError`` when the mask has another size."""
        if self.mask is None:
            return None
        if self.mask == "causal":
            return np.tri(tokens, dtype=bool)
        allowed = np.array(self.mask, dtype=bool)
        if len(allowed) != tokens:
            raise InputError(f"the mask is written for {len(allowed)} tokens, not for {tokens}")
        return allowed

    def _shown(self, scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        hidden = scores.dtype.type(-np.inf if self.function.entrywise is None else 0.0)
        return np.where(allowed, scores, hidden)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """F, shape (..., L, L)."""
        allowed = self.visible(scores.shape[-1])
        if allowed is None:
            return self.function(scores)
        return np.where(allowed, self.function(self._shown(scores, allowed)), scores.dtype.type(0))

    def vector_jacobian(self, scores: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        """The gradient of sum(cotangent * F(scores)) by the scores."""
        allowed = self.visible(scores.shape[-1])
        if allowed is None:
            return self.function.vector_jacobian(scores, cotangent)
        zero = scores.dtype.type(0)
        pulled = self.function.vector_jacobian(self._shown(scores, allowed), np.where(allowed, cotangent, zero))
        return np.where(allowed, pulled, zero)

    def expression(self, scores: sp.Matrix) -> sp.Matrix:
        """F of a matrix of expressions, row by row over the visible entries."""
        tokens = scores.rows
        allowed = self.visible(tokens)
        if allowed is None:
            return self.function.expression(scores)
        result = sp.zeros(tokens, tokens)
        for i in range(tokens):
            seen = [j for j in range(tokens) if allowed[i, j]]
            # A square of equal rows: the function acts on rows, and takes square matrices.
            row = self.function.expression(sp.Matrix([[scores[i, j] for j in seen]] * len(seen)))
            for n, j in enumerate(seen):
                result[i, j] = row[0, n]
        return result


__all__ = ["AttentionMap", "Mask", "checked_mask"]
