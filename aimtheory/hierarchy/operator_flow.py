"""The matrix flow: every view as a matrix, moving by its own drift polynomial.

Shared by the closures that carry operators: compressed ones (gns) and sampled d x d matrices (matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.hierarchy.closed_system import ClosedSystem
from aimtheory.hierarchy.views import Views
from aimtheory.spectra import SpectralMeasure, spectral_measure
from aimtheory.words import Letter, Word

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """One term of a matrix polynomial: coupling number, coefficient, letters."""

    coupling: int
    coefficient: float
    word: tuple[Letter, ...]


class MatrixPolynomial:
    """sum_t c[coupling_t] coefficient_t word_t as a program of as few matrix products as grouping by the last letter
    gives.

    For a symmetric result only half of the terms are multiplied out: P + P^T with the words of P chosen to end alike,
    so that the tied drift -(H S + S H) takes one product whatever the number of indices.
    """

    def __init__(self, terms: Sequence[Term], symmetric: bool) -> None:
        self.symmetric = symmetric
        self.terms = _half(terms) if symmetric else tuple(terms)

    def __call__(self, couplings: FloatArray, matrices: Mapping[Letter, FloatArray]) -> FloatArray:
        """Evaluate on matrices, one a letter, transposes included."""
        weighted = [(couplings[t.coupling] * t.coefficient, t.word) for t in self.terms]
        value = _evaluate(weighted, matrices)
        return value + value.T if self.symmetric else value


def _half(terms: Sequence[Term]) -> tuple[Term, ...]:
    endings: dict[Letter, int] = {}
    for term in terms:
        if term.word:
            endings[term.word[-1]] = endings.get(term.word[-1], 0) + 1
    chosen: dict[tuple[int, tuple[Letter, ...]], float] = {}
    for term in terms:
        mirrored = tuple(letter.T for letter in reversed(term.word))
        pair = sorted((term.word, mirrored), key=lambda w: (-endings[w[-1]] if w and w[-1] in endings else 0, w))
        # Each of a word and its mirror image contributes half of its own term to P, so that P + P^T is their sum.
        key = (term.coupling, pair[0])
        chosen[key] = chosen.get(key, 0.0) + term.coefficient / 2
    return tuple(Term(coupling, coefficient, word) for (coupling, word), coefficient in chosen.items())


def _evaluate(terms: Sequence[tuple[float, tuple[Letter, ...]]], matrices: Mapping[Letter, FloatArray]) -> FloatArray:
    groups: dict[Letter, list[tuple[float, tuple[Letter, ...]]]] = {}
    total: FloatArray | None = None
    for weight, word in terms:
        if len(word) == 0:
            piece = weight * np.eye(len(next(iter(matrices.values()))))
            total = piece if total is None else total + piece
        elif len(word) == 1:
            piece = weight * matrices[word[0]]
            total = piece if total is None else total + piece
        else:
            groups.setdefault(word[-1], []).append((weight, word[:-1]))
    for last, prefixes in groups.items():
        piece = _evaluate(prefixes, matrices) @ matrices[last]
        total = piece if total is None else total + piece
    assert total is not None  # a drift polynomial has at least one term
    return total


class OperatorSystem(ClosedSystem):
    """Views as matrices of one size, moments as a state functional of their products.

    ``functional`` maps (left, right) to the state of left^T right, where both are products of views applied to
    ``start``: for the gns state ``start`` is the vacuum column, for the normalized trace it is the identity.
    """

    def __init__(
        self,
        views: Views,
        matrices: Mapping[Letter, FloatArray],
        start: FloatArray,
        functional: Callable[[FloatArray, FloatArray], float],
        exact_degree: int,
    ) -> None:
        self.views = views
        self.exact_degree = exact_degree
        self.start = start
        self.functional = functional
        self.moving = views.trainable_letters
        self.fixed = dict(matrices)
        self.shapes = [matrices[letter].shape for letter in self.moving]
        self._initial = (
            np.concatenate([np.asarray(matrices[letter], dtype=np.float64).ravel() for letter in self.moving])
            if self.moving
            else np.zeros(0)
        )
        number = {coupling: n for n, coupling in enumerate(views.couplings)}
        self._programs = [
            MatrixPolynomial(
                [
                    Term(number[coupling], float(coefficient), word.letters)
                    for coupling, polynomial in views.drift[letter].items()
                    for word, coefficient in polynomial
                ],
                letter.symmetric,
            )
            for letter in self.moving
        ]
        self._cached_state: FloatArray | None = None
        self._cached: dict[tuple[Letter, ...], FloatArray] = {}

    @property
    def initial(self) -> FloatArray:
        """The moving views at time zero, flattened one after another."""
        return self._initial

    def matrices(self, state: FloatArray) -> dict[Letter, FloatArray]:
        """Every letter of the alphabet as a matrix at a state."""
        result = dict(self.fixed)
        position = 0
        for letter, shape in zip(self.moving, self.shapes, strict=True):
            size = shape[0] * shape[1]
            matrix = state[position : position + size].reshape(shape)
            position += size
            result[letter] = matrix
            if not letter.symmetric:
                result[letter.T] = matrix.T
        return result

    def drift(self, couplings: FloatArray, state: FloatArray) -> FloatArray:
        """The drift of each moving view, evaluated as a matrix polynomial."""
        matrices = self.matrices(state)
        if not self.moving:
            return np.zeros(0)
        return np.concatenate([program(couplings, matrices).ravel() for program in self._programs])

    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Any word: split in the middle, tr(uv) = <u^T start, v start>; half products are shared between words of one
        state."""
        if self._cached_state is not state:
            self._cached_state, self._cached = state, {(): self.start}
        matrices = self.matrices(state)
        return np.array(
            [
                self.functional(
                    self._product(word.T.letters[len(word) - len(word) // 2 :], matrices),
                    self._product(word.letters[len(word) // 2 :], matrices),
                )
                for word in words
            ]
        )

    def _product(self, letters: tuple[Letter, ...], matrices: Mapping[Letter, FloatArray]) -> FloatArray:
        if letters not in self._cached:
            rest = self._product(letters[1:], matrices)
            whole = rest.ndim == 2 and len(letters) == 1
            self._cached[letters] = matrices[letters[0]] if whole else matrices[letters[0]] @ rest
        return self._cached[letters]

    def spectral_measure(self, letter: Letter, state: FloatArray) -> SpectralMeasure:
        """Spectral measure of a self-adjoint view at a state."""
        matrix = self.matrices(state)[letter]
        if self.start.ndim == 1:
            return spectral_measure(matrix, self.start)
        nodes: FloatArray = np.linalg.eigvalsh(matrix).astype(np.float64)
        return SpectralMeasure(nodes, np.full(len(nodes), 1 / len(nodes)))


__all__ = ["MatrixPolynomial", "OperatorSystem", "Term"]
