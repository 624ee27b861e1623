"""Contexts: how many tokens a sample has and how they are correlated, one kind of sample a context."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.errors import InputError
from aimtheory.model.token_covariance import validate_token_covariance
from aimtheory.scalars import Scalar, to_scalar


@dataclass(frozen=True, init=False)
class Context:
    """Samples of L ``tokens`` with covariance C (``token_covariance``, None for the identity), drawn with ``weight``.

    E[x_ia x_jb] = C_ij delta_ab. The population loss of a mixture is the weighted sum over its contexts, [D] (58).

    >>> Context(2).covariance_matrix
    array([[1., 0.],
           [0., 1.]])
    """

    tokens: int
    token_covariance: tuple[tuple[float, ...], ...] | None
    weight: Scalar

    def __init__(self, tokens: int, token_covariance: ArrayLike | None = None, weight: object = Fraction(1)) -> None:
        if isinstance(tokens, bool) or not isinstance(tokens, int | np.integer) or tokens < 1:
            raise InputError(f"tokens = {tokens!r} must be an integer of at least 1")
        frozen = None
        if token_covariance is not None:
            matrix = validate_token_covariance(token_covariance, int(tokens))
            frozen = None if np.array_equal(matrix, np.eye(int(tokens))) else tuple(map(tuple, matrix.tolist()))
        scalar = to_scalar(weight, "weight of a context")
        if not float(scalar) > 0:
            raise InputError(f"weight = {scalar} of a context of {tokens} tokens must be positive")
        object.__setattr__(self, "tokens", int(tokens))
        object.__setattr__(self, "token_covariance", frozen)
        object.__setattr__(self, "weight", scalar)

    @property
    def covariance_matrix(self) -> np.ndarray:
        """The token covariance C as an L x L array."""
        return np.eye(self.tokens) if self.token_covariance is None else np.array(self.token_covariance)


__all__ = ["Context"]
