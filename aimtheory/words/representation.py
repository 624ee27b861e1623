"""Words on matrices: a representation of letters, its products of words and their traces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

L = TypeVar("L", bound=Hashable)
Matrix = Any
"""A numpy array (of mpmath numbers too) or a scipy sparse array."""


def transposed(letter: Any) -> Any:
    """X^T of a ``Letter`` X."""
    return letter.T


class Representation(Generic[L]):
    """Letters as matrices. A letter that is not given is the transpose of its ``adjoint``, X^T unless said otherwise.

    The state of words is tr(X_1 ... X_w) = <v, X_1 ... X_w v> with a ``vacuum`` v, and Tr(X_1 ... X_w)/``dim`` without.
    Words are split in the middle, tr(u w) = <u^T v, w v> or <u^T, w>_F/dim, and every product is computed once, so that
    words of one representation share their halves. Products of letters that are all ``fixed`` are kept in ``known``,
    which may serve the next representation. Cost of a word of 2n letters: n products of matrices, or of a matrix and a
    vector.

    >>> from aimtheory.words import Letter
    >>> X = Letter("X")
    >>> words = Representation({X: np.array([[0.0, 1.0], [0.0, 0.0]])}, dim=2)
    >>> words.trace([X, X.T]), words.trace([X, X])
    (0.5, 0.0)
    """

    def __init__(
        self,
        matrices: Mapping[L, Matrix],
        *,
        vacuum: NDArray[Any] | None = None,
        dim: int = 1,
        adjoint: Callable[[L], L] | None = transposed,
        fixed: Collection[L] = (),
        known: dict[tuple[L, ...], Matrix] | None = None,
    ) -> None:
        self.matrices = matrices
        self.vacuum = vacuum
        self.dim = dim
        self.adjoint = adjoint
        self.fixed = fixed
        self.known = {} if known is None else known
        self._products: dict[tuple[L, ...], Matrix] = {}
        self._applied: dict[tuple[L, ...], NDArray[Any]] = {} if vacuum is None else {(): vacuum}

    def __getitem__(self, letter: L) -> Matrix:
        if self.adjoint is None or letter in self.matrices:
            return self.matrices[letter]
        return self.product((self.adjoint(letter),)).T

    def product(self, word: Iterable[L]) -> Matrix:
        """X_1 ... X_w; the identity of dimension ``dim`` for no letters. Products from the left are kept."""
        letters = tuple(word)
        if not letters:
            kinds = [getattr(matrix, "dtype", None) for matrix in self.matrices.values()]
            return np.eye(self.dim, dtype=kinds[0] if kinds else None)
        table = self.known if self.fixed and all(letter in self.fixed for letter in letters) else self._products
        if letters not in table:
            whole = len(letters) == 1
            table[letters] = self[letters[0]] if whole else self.product(letters[:-1]) @ self.product(letters[-1:])
        return table[letters]

    def applied(self, word: Iterable[L]) -> NDArray[Any]:
        """X_1 ... X_w v; every tail is kept."""
        letters = tuple(word)
        if letters not in self._applied:
            self._applied[letters] = self[letters[0]] @ self.applied(letters[1:])
        return self._applied[letters]

    def trace(self, word: Iterable[L]) -> float:
        """The state of a word that maps the space of the vacuum (or its first space) to itself; 1 for no letters."""
        letters = tuple(word)
        if not letters:
            return 1.0
        half = len(letters) // 2
        if self.vacuum is not None:
            return float(self.applied(self.mirrored(letters[:half])) @ self.applied(letters[half:]))
        if not half:
            return float(self[letters[0]].trace()) / self.dim
        left, right = letters[:half], letters[half:]
        if self.adjoint is None:
            return float(np.vdot(self.product(left).T, self.product(right))) / self.dim
        # Both halves begin in the same space, so that they are products of the same kind.
        return float(np.vdot(self.product(left), self.product(self.mirrored(right)))) / self.dim

    def mirrored(self, letters: tuple[L, ...]) -> tuple[L, ...]:
        """The letters of (X_1 ... X_w)^T."""
        assert self.adjoint is not None  # only a normalized trace can do without
        return tuple(self.adjoint(letter) for letter in reversed(letters))


__all__ = ["Representation", "transposed"]
