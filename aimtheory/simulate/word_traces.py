"""Traces of words on d x d matrices: the observables of a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.hierarchy import Views
from aimtheory.words import Letter, Representation, Word

FloatArray = NDArray[np.float64]


class WordTraces:
    """Reads tr(X_1 ... X_w) = Tr/d off parameter matrices, in float64.

    A word is split in the middle, tr(u v) = <u^T, v>_F / d, so that words of two letters cost d^2; half products are
    shared between the words of one state, and those of letters that do not move are kept for the whole run.
    """

    def __init__(self, views: Views, moving: frozenset[str], dim: int) -> None:
        self.views = views
        self.dim = dim
        self._fixed = {
            x
            for letter, word in views.expansion.items()
            if not any(factor.base.name in moving for factor in word)
            for x in (letter, letter.T)
        }
        self._known: dict[tuple[Letter, ...], FloatArray] = {}
        self.load({})

    def load(self, parameters: Mapping[str, NDArray[Any]]) -> None:
        """Take the parameters of a new state."""
        matrices = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in parameters.items()}
        given = {letter: matrices[letter.name] for letter in self.views.parameters if letter.name in matrices}
        self._factors = Representation(given, dim=self.dim)
        products = _Products(self.views.expansion, self._factors)
        self._words = Representation(products, dim=self.dim, fixed=self._fixed, known=self._known)

    def matrix(self, letter: Letter) -> FloatArray:
        """A view as a d x d matrix."""
        return np.asarray(self._words.product((letter,)))

    def __call__(self, words: Sequence[Word]) -> FloatArray:
        """Normalized traces, shape (len(words),)."""
        return np.array([self._trace(word) for word in words])

    def _trace(self, word: Word) -> float:
        if all(letter.is_scalar for letter in word):
            return float(np.prod([self._factors[letter][0, 0] for letter in word]))
        if len(word) == 1:
            # tr(W W^T) is a Frobenius product: the d x d matrix is not needed.
            return self._factors.trace(self.views.expansion[word.letters[0].base])
        return self._words.trace(word)


class _Products(Mapping[Letter, FloatArray]):
    """The views as matrices, multiplied when they are asked for."""

    def __init__(self, expansion: Mapping[Letter, Word], factors: Representation[Letter]) -> None:
        self._expansion, self._factors = expansion, factors

    def __getitem__(self, letter: Letter) -> FloatArray:
        return np.asarray(self._factors.product(self._expansion[letter]))

    def __contains__(self, letter: object) -> bool:
        return letter in self._expansion

    def __iter__(self) -> Iterator[Letter]:
        return iter(self._expansion)

    def __len__(self) -> int:
        return len(self._expansion)


__all__ = ["WordTraces"]
