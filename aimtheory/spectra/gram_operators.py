"""Compressed operators of any joint law: the span of the words of bounded length, orthonormalized.

Words of length <= m applied to the vacuum span a space on which every letter acts after projection. From moments
alone it is found through their Gram matrix tr(u^T v), in extended precision since that matrix is badly conditioned;
from given matrices the words are vectors of d^2 entries under tr(A^T B).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from aimtheory.errors import AssumptionError, InputError
from aimtheory.scalars import to_sympy
from aimtheory.spectra.joint_law import JointLaw
from aimtheory.spectra.law import FloatArray, check_words


@dataclass(frozen=True)
class GramOperators:
    """Letters compressed to the words of length <= ``depth``: ``operators[letter]`` is (dimension, dimension), the
    vacuum is vector 0.

    ``<vacuum, word vacuum>`` is the trace of every word of length <= 2 depth + 1. ``words`` counts the words looked
    at, of which ``dimension`` are independent.
    """

    depth: int
    operators: Mapping[str, FloatArray]
    dimension: int
    words: int

    @property
    def state(self) -> FloatArray:
        """The vacuum vector."""
        vector = np.zeros(self.dimension)
        vector[0] = 1.0
        return vector


def gram_operators_of_moments(
    law: JointLaw, depth: int, transpose: Callable[[str], str] = lambda letter: letter, digits: int = 50
) -> GramOperators:
    """Compress the letters of a law known by its moments up to length 2 depth + 1.

    ``transpose`` names the transpose of a letter (itself for self-adjoint ones). Cholesky decomposition with
    ``digits`` digits; a word whose residual is below 10^(-digits/2) of its norm depends on the earlier ones and is
    left out (floats carry 16 digits: their limit is 1e-7). Raises ``AssumptionError`` when a residual is negative: no
    matrices have such moments.
    """
    letters = law.letters
    check_words(int(float(len(letters)) ** min(depth, 64)), depth)
    words = [w for length in range(depth + 1) for w in itertools.product(letters, repeat=length)]
    exact: dict[tuple[str, ...], Any] = {}

    def moment(word: tuple[str, ...]) -> Any:
        if word not in exact:
            exact[word] = mpmath.mpf(1) if not word else _precise(law.moment(word))
        return exact[word]

    def adjoint(word: Sequence[str]) -> tuple[str, ...]:
        return tuple(transpose(letter) for letter in reversed(word))

    floats = any(isinstance(law.moment((letter,)), float) for letter in letters)
    tolerance = 1e-7 if floats else float(mpmath.mpf(10) ** (-digits // 2))
    with mpmath.workdps(digits):
        kept: list[tuple[str, ...]] = []
        rows: list[list[Any]] = []
        for word in words:
            # One more row of the Cholesky factor of the Gram matrix of the words kept.
            entries: list[Any] = []
            for other, row in zip(kept, rows, strict=True):
                inner = mpmath.fsum(a * b for a, b in zip(row[: len(entries)], entries, strict=True))
                entries.append((moment(adjoint(other) + word) - inner) / row[len(entries)])
            norm = moment(adjoint(word) + word)
            rest = norm - mpmath.fsum(a * a for a in entries)
            if rest < -tolerance * max(norm, 1):
                raise AssumptionError(
                    f"the moments belong to no matrices: the word {' '.join(word)} has squared distance "
                    f"{mpmath.nstr(rest, 5)} from the shorter ones; check the values given"
                )
            if rest > tolerance * max(norm, mpmath.mpf(10) ** -digits):
                rows.append([*entries, mpmath.sqrt(rest)])
                kept.append(word)
        size = len(kept)
        factor = mpmath.matrix(size, size)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                factor[i, j] = value
        inverse = factor**-1
        operators = {}
        for letter in letters:
            middle = mpmath.matrix(size, size)
            for i, left in enumerate(kept):
                for j, right in enumerate(kept):
                    middle[i, j] = moment((*adjoint(left), letter, *right))
            compressed = inverse * middle * inverse.T
            operators[letter] = np.array([[float(compressed[i, j]) for j in range(size)] for i in range(size)])
    return GramOperators(depth, operators, size, len(words))


def _precise(value: Any) -> Any:
    """A moment as an mpmath number at the working precision."""
    return mpmath.mpf(value) if isinstance(value, float) else to_sympy(value)._to_mpmath(mpmath.mp.prec)


def gram_operators_of_matrices(matrices: Mapping[str, FloatArray], depth: int) -> GramOperators:
    """Compress given d x d matrices, closed under transposition, to the span of their words of length <= depth in
    tr(A^T B).

    Gram-Schmidt with reorthogonalization in float64; a word whose residual is below 1e-8 of its norm is left out.
    Memory d^2 times the number of words. Raises ``InputError`` for shapes that differ.
    """
    arrays = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in matrices.items()}
    shapes = {matrix.shape for matrix in arrays.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or len(set(next(iter(shapes)))) != 1:
        raise InputError(f"given matrices have shapes {sorted(shapes)}; they must be square and of one size")
    dim = next(iter(shapes))[0]
    check_words(int(float(len(arrays)) ** min(depth, 64)), depth)
    basis = np.zeros((0, dim * dim))
    level: list[FloatArray] = [np.eye(dim)]
    looked = 0
    for length in range(depth + 1):
        kept_level = []
        for matrix in level:
            looked += 1
            vector = matrix.ravel() / np.sqrt(dim)
            norm = float(np.linalg.norm(vector))
            rest = vector
            for _ in range(2):
                rest = rest - basis.T @ (basis @ rest)
            size = float(np.linalg.norm(rest))
            if norm > 0 and size > 1e-8 * norm:
                basis = np.vstack([basis, rest[None] / size])
                # The direction itself, not the word, is carried on: the same span, better conditioned.
                kept_level.append((rest / size * np.sqrt(dim)).reshape(dim, dim))
        if length < depth:
            level = [array @ matrix for array in arrays.values() for matrix in kept_level]
    frames = basis.reshape(-1, dim, dim)
    operators = {name: basis @ np.matmul(array, frames).reshape(len(basis), -1).T for name, array in arrays.items()}
    return GramOperators(depth, operators, len(basis), looked)


__all__ = ["GramOperators", "gram_operators_of_matrices", "gram_operators_of_moments"]
