"""Traces of words on d x d matrices: the observables of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.hierarchy import Views
from aimtheory.words import Letter, Word

FloatArray = NDArray[np.float64]


class WordTraces:
    """Reads tr(X_1 ... X_w) = Tr/d off parameter matrices, in float64.

    A word is split in the middle, tr(u v) = <u^T, v>_F / d, so that words of two letters cost d^2; half products are
    shared between the words of one state, and those of letters that do not move are kept for the whole run.
    """

    def __init__(self, views: Views, moving: frozenset[str], dim: int) -> None:
        self.views = views
        self.dim = dim
        self._moving = frozenset(
            letter for letter, word in views.expansion.items() if any(factor.base.name in moving for factor in word)
        )
        self._fixed: dict[tuple[Letter, ...], FloatArray] = {}
        self._current: dict[tuple[Letter, ...], FloatArray] = {}
        self._parameters: Mapping[str, NDArray[Any]] = {}

    def load(self, parameters: Mapping[str, NDArray[Any]]) -> None:
        """Take the parameters of a new state."""
        self._parameters = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in parameters.items()}
        self._current = {}

    def matrix(self, letter: Letter) -> FloatArray:
        """A view as a d x d matrix."""
        return self._product((letter,))

    def __call__(self, words: Sequence[Word]) -> FloatArray:
        """Normalized traces, shape (len(words),)."""
        return np.array([self._trace(word) for word in words])

    def _trace(self, word: Word) -> float:
        letters = word.letters
        if all(letter.is_scalar for letter in letters):
            return float(np.prod([self._parameter(letter)[0, 0] for letter in letters]))
        if len(letters) == 1:
            (letter,) = letters
            expansion = self.views.expansion[letter.base]
            if len(expansion) == 2:
                # tr(W W^T) is a Frobenius product: the d x d matrix is not needed.
                first, second = (self._parameter(factor) for factor in expansion)
                return float(np.vdot(first, second.T)) / self.dim
            return float(np.trace(self.matrix(letter))) / self.dim
        half = len(letters) // 2
        right = tuple(letter.T for letter in reversed(letters[half:]))
        return float(np.vdot(self._product(letters[:half]), self._product(right))) / self.dim

    def _parameter(self, factor: Letter) -> FloatArray:
        matrix = self._parameters[factor.name]
        return matrix.T if factor.transposed else matrix

    def _product(self, letters: tuple[Letter, ...]) -> FloatArray:
        moves = any(letter.base in self._moving for letter in letters)
        table = self._current if moves else self._fixed
        if letters not in table:
            if len(letters) > 1:
                table[letters] = self._product(letters[:-1]) @ self._product(letters[-1:])
            else:
                (letter,) = letters
                word = self.views.expansion[letter.base]
                word = word.T if letter.transposed else word
                product = self._parameter(word.letters[0])
                for factor in word.letters[1:]:
                    product = product @ self._parameter(factor)
                table[letters] = product
        return table[letters]


__all__ = ["WordTraces"]
