"""The matrix flow: letters as matrices that move by their own drift polynomial.

Shared by the closures that carry operators: compressed ones (gns) and sampled d x d matrices (matrix). The letters
are either the views (S_k of tied attention) or the parameters themselves (U_k, V_k), whichever moves fewer matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.flow import CoupledPolynomial
from aimtheory.hierarchy.system_source import array_text, indented, matrix_names
from aimtheory.hierarchy.views import Views
from aimtheory.spectra import SpectralMeasure, spectral_measure
from aimtheory.words import EMBEDDING, Letter, Representation, Word

FloatArray = NDArray[np.float64]
Matrix = Any
"""A dense float64 array, or a scipy sparse array for a letter that does not move."""


@dataclass(frozen=True)
class Level:
    """The letters that are carried as matrices: how they move and how a view is a product of them."""

    drift: Mapping[Letter, CoupledPolynomial]
    expand: Callable[[Word], Word]

    @classmethod
    def of_views(cls, views: Views) -> Level:
        """The views themselves."""
        return cls(views.drift, lambda word: word)

    @classmethod
    def of_parameters(cls, views: Views) -> Level:
        """The parameters, of which views are products."""
        return cls(views.flow.drift, views.expand)


@dataclass(frozen=True)
class Term:
    """One term of a matrix polynomial: coupling number, coefficient, letters."""

    coupling: int
    coefficient: float
    word: tuple[Letter, ...]


@dataclass(frozen=True)
class _Node:
    """A sum of terms: plain letters, and products of a letter with the sum of what is left when it is split off.

    ``identity`` and ``letters`` are leaves, (term number[, letter]); ``left`` are (X, rest) for X x rest, ``right``
    (X, rest) for rest x X.
    """

    identity: tuple[int, ...]
    letters: tuple[tuple[int, Letter], ...]
    left: tuple[tuple[Letter, _Node], ...]
    right: tuple[tuple[Letter, _Node], ...]
    monomial: tuple[int, tuple[Letter, ...]] | None


class Sizes:
    """What products cost: dimensions of the spaces of the letters, and stored entries of the sparse ones."""

    def __init__(self, matrices: Mapping[Letter, Matrix]) -> None:
        self.rows = {letter: matrix.shape[0] for letter, matrix in matrices.items()}
        self.columns = {letter: matrix.shape[1] for letter, matrix in matrices.items()}
        self.entries = {letter: matrix.nnz if sps.issparse(matrix) else None for letter, matrix in matrices.items()}

    def shape(self, letter: Letter) -> tuple[int, int]:
        """Rows and columns of an oriented letter."""
        shape = (self.rows[letter.base], self.columns[letter.base])
        return shape[::-1] if letter.transposed else shape

    def product(self, letter: Letter, other: int) -> float:
        """Multiplications of a letter by a dense matrix with ``other`` rows or columns."""
        entries = self.entries[letter.base]
        rows, columns = self.shape(letter)
        return float(rows * columns if entries is None else entries) * other


def _plan(terms: Sequence[tuple[int, tuple[Letter, ...]]], sizes: Sizes) -> tuple[float, _Node]:
    """The cheaper of splitting off first letters and splitting off last letters, at every level."""
    identity = tuple(number for number, word in terms if not word)
    letters = tuple((number, word[0]) for number, word in terms if len(word) == 1)
    longer = [(number, word) for number, word in terms if len(word) > 1]
    monomial = terms[0] if len(terms) == 1 else None
    if not longer:
        return 0.0, _Node(identity, letters, (), (), monomial)
    best: tuple[float, _Node] | None = None
    for from_left in (True, False):
        groups: dict[Letter, list[tuple[int, tuple[Letter, ...]]]] = {}
        for number, word in longer:
            split, rest = (word[0], word[1:]) if from_left else (word[-1], word[:-1])
            groups.setdefault(split, []).append((number, rest))
        cost, branches = 0.0, []
        for split, rests in groups.items():
            inner, node = _plan(rests, sizes)
            rest = rests[0][1]
            cost += inner + sizes.product(split, sizes.shape(rest[-1])[1] if from_left else sizes.shape(rest[0])[0])
            branches.append((split, node))
        if best is None or cost < best[0]:
            split_left = tuple(branches) if from_left else ()
            split_right = () if from_left else tuple(branches)
            best = (cost, _Node(identity, letters, split_left, split_right, monomial))
    assert best is not None
    return best


class MatrixPolynomial:
    """sum_t c[coupling_t] coefficient_t word_t as a program of few matrix products.

    Words that share a first or last letter share its product, whichever grouping costs fewer multiplications for the
    shapes and sparsity at hand. For a symmetric result only half of the terms are multiplied out: P + P^T with the
    words of P chosen to end alike, so that the tied drift -(H S + S H) takes one product whatever the number of
    indices.
    """

    def __init__(self, terms: Sequence[Term], symmetric: bool, sizes: Sizes, shape: tuple[int, int]) -> None:
        self.symmetric = symmetric
        self.shape = shape
        self.terms = _half(terms) if symmetric else tuple(terms)
        self._root = _plan([(n, term.word) for n, term in enumerate(self.terms)], sizes)[1]
        self._coupling = np.array([term.coupling for term in self.terms], dtype=np.int64)
        self._coefficient = np.array([term.coefficient for term in self.terms])

    def __call__(self, couplings: FloatArray, matrices: Products) -> FloatArray:
        """Evaluate at the couplings, on the matrices of one state."""
        weights = (couplings[self._coupling] * self._coefficient).tolist()
        value = _evaluate(self._root, weights, matrices, self.shape[0])
        if sps.issparse(value):
            value = value.toarray()
        return np.asarray(value + value.T if self.symmetric else value)


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


class Products(Representation[Letter]):
    """The letters of one state as matrices, with products in the order of a plan."""

    def monomial(self, word: tuple[Letter, ...], node: _Node) -> Matrix:
        """The product of a word in the order its plan says; a product and its transpose are one computation."""
        if len(word) == 1:
            return self[word[0]]
        if word not in self.known:
            mirrored = self.mirrored(word)
            if mirrored in self.known:
                self.known[word] = self.known[mirrored].T
            elif node.left:
                (letter, rest), *_ = node.left
                self.known[word] = self[letter] @ self.monomial(word[1:], rest)
            else:
                (letter, rest), *_ = node.right
                self.known[word] = self.monomial(word[:-1], rest) @ self[letter]
        return self.known[word]


def _evaluate(node: _Node, weights: Sequence[float], products: Products, rows: int) -> Matrix:
    if node.monomial is not None and node.monomial[1]:
        number, word = node.monomial
        return weights[number] * products.monomial(word, node)
    total: Matrix = None
    if node.identity:
        total = sum(weights[n] for n in node.identity) * sps.eye_array(rows, format="csr")
    for number, letter in node.letters:
        piece = weights[number] * products[letter]
        total = piece if total is None else total + piece
    for letter, rest in node.left:
        matrix = products[letter]
        piece = matrix @ _evaluate(rest, weights, products, matrix.shape[1])
        total = piece if total is None else total + piece
    for letter, rest in node.right:
        piece = _evaluate(rest, weights, products, rows) @ products[letter]
        total = piece if total is None else total + piece
    return total


class OperatorSystem(ClosedSystem):
    """Letters as matrices, moments as the state of their products.

    ``matrices`` holds every untransposed letter of the level, dense where it moves. The state is that of the ``vacuum``
    vector for compressed operators, and the trace normalized by ``dim`` without one.
    """

    def __init__(
        self,
        level: Level,
        couplings: Sequence[Coupling],
        matrices: Mapping[Letter, Matrix],
        exact_degree: int,
        *,
        vacuum: FloatArray | None = None,
        dim: int = 1,
    ) -> None:
        self.exact_degree = exact_degree
        self.couplings = tuple(couplings)
        self.level = level
        self.vacuum = vacuum
        self.dim = dim
        self.moving = tuple(level.drift)
        dense = {
            letter: np.asarray(
                matrices[letter].todense() if sps.issparse(matrices[letter]) else matrices[letter], dtype=np.float64
            )
            for letter in self.moving
        }
        self.fixed = {
            letter: matrix for letter, matrix in matrices.items() if letter not in dense and not letter.transposed
        }
        self.shapes = [dense[letter].shape for letter in self.moving]
        self._initial = (
            np.concatenate([dense[letter].ravel() for letter in self.moving]) if self.moving else np.zeros(0)
        )
        number = {coupling: n for n, coupling in enumerate(couplings)}
        sizes = Sizes({**self.fixed, **dense})
        self._programs = [
            MatrixPolynomial(
                [
                    Term(number[coupling], float(coefficient), word.letters)
                    for coupling, polynomial in level.drift[letter].items()
                    for word, coefficient in polynomial
                ],
                letter.symmetric,
                sizes,
                shape,
            )
            for letter, shape in zip(self.moving, self.shapes, strict=True)
        ]

    @property
    def initial(self) -> FloatArray:
        """The moving letters at time zero, flattened one after another."""
        return self._initial

    def matrices(self, state: FloatArray) -> Products:
        """Every letter as a matrix at a state."""
        result: dict[Letter, Matrix] = dict(self.fixed)
        position = 0
        for letter, shape in zip(self.moving, self.shapes, strict=True):
            size = shape[0] * shape[1]
            result[letter] = state[position : position + size].reshape(shape)
            position += size
        return Products(result, vacuum=self.vacuum, dim=self.dim)

    def drift(self, couplings: FloatArray, state: FloatArray) -> FloatArray:
        """The drift of each moving letter, evaluated as a matrix polynomial."""
        if not self.moving:
            return np.zeros(0)
        matrices = self.matrices(state)
        return np.concatenate([program(couplings, matrices).ravel() for program in self._programs])

    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Any word; words of one call share their halves."""
        matrices = self.matrices(state)
        values = []
        for view in words:
            word = self.level.expand(view)
            if all(letter.is_scalar for letter in word):
                values.append(float(np.prod([matrices[letter][0, 0] for letter in word])))
                continue
            values.append(matrices.trace(self._at_base(word)))
        return np.array(values)

    @staticmethod
    def _at_base(word: Word) -> Word:
        """The closed word rotated to start in the embedding space, where the state lives."""
        if word.rows == EMBEDDING:
            return word
        start = next((n for n, letter in enumerate(word) if letter.rows == EMBEDDING), None)
        if start is None:
            raise InputError(
                f"tr({word}) never visits the embedding space, on which the operators of this closure act; "
                "use closure='zero' to read it"
            )
        return word.rotate(start)

    def matrix(self, letter: Letter, state: FloatArray) -> FloatArray:
        """A view as a dense matrix at a state."""
        product = self.matrices(state).product(self.level.expand(Word.of(letter)))
        return np.asarray(product.toarray() if sps.issparse(product) else product)

    def source(self, words: Sequence[Word], couplings: Sequence[str]) -> list[str]:
        """The matrices that stand still, the layout of those that move, and products of both."""
        names = matrix_names([*self.fixed, *self.moving])
        fixed = {names[x]: m.toarray() if sps.issparse(m) else np.asarray(m) for x, m in self.fixed.items()}
        lines = [f"{name} = {array_text(matrix)}" for name, matrix in fixed.items()]
        lines.append(f"INITIAL = {array_text(self._initial)}")
        if self.vacuum is not None:
            lines.append(f"VACUUM = {array_text(self.vacuum)}")
        layout, place = [], 0
        for letter, (rows, columns) in zip(self.moving, self.shapes, strict=True):
            layout.append(f"{names[letter]} = state[{place}:{place + rows * columns}].reshape({rows}, {columns})")
            place += rows * columns
        layout.insert(0, "state = np.asarray(state, dtype=float)")

        def product(letters: Sequence[Letter]) -> str:
            return " @ ".join(names[x.base] + (".T" if x.transposed else "") for x in letters)

        def trace(view: Word) -> str:
            word = self.level.expand(view)
            if all(letter.is_scalar for letter in word):
                return " * ".join(f"{names[letter.base]}[0, 0]" for letter in word)
            letters = self._at_base(word).letters
            if self.vacuum is None:
                half = len(letters) // 2
                left = product([letter.T for letter in reversed(letters[:half])])
                return (
                    f"np.vdot({left}, {product(letters[half:])}) / {self.dim}"
                    if half
                    else f"np.trace({product(letters)}) / {self.dim}"
                )
            # Vectors, not matrices, are multiplied.
            half = len(letters) // 2
            sides = [[letter.T for letter in reversed(letters[:half])], list(letters[half:])]
            applied = [" @ (".join([*(product([x]) for x in side), "VACUUM"]) + ")" * len(side) for side in sides]
            return f"({applied[0]}) @ ({applied[1]})"

        lines += [
            "",
            "",
            "def moments(state):",
            '    """The traces of WORDS at a state."""',
            *indented(layout),
            f"    return np.array([{', '.join(trace(word) for word in words)}])",
            "",
            "",
            "def drift(couplings, state):",
            '    """The time derivative of the state."""',
            f"    ({', '.join(couplings)}{',' if couplings else ''}) = couplings",
            *indented(layout),
        ]
        number = dict(zip(self.couplings, couplings, strict=True))
        for letter, (rows, _) in zip(self.moving, self.shapes, strict=True):
            terms = [
                f"{float(coefficient)!r} * {number[coupling]} * "
                + (f"({product(word.letters)})" if word.letters else f"np.eye({rows})")
                for coupling, polynomial in self.level.drift[letter].items()
                for word, coefficient in polynomial
            ]
            lines += [f"    change_{names[letter]} = (", *(f"        + {term}" for term in terms), "    )"]
            if not terms:
                lines[-2:] = [f"    change_{names[letter]} = np.zeros_like({names[letter]})"]
        changes = ", ".join(f"change_{names[letter]}.ravel()" for letter in self.moving)
        return [*lines, f"    return np.concatenate([{changes}])" if changes else "    return np.zeros(0)"]

    def spectral_measure(self, letter: Letter, state: FloatArray) -> SpectralMeasure:
        """Spectral measure of a self-adjoint view at a state."""
        matrix = self.matrix(letter, state)
        if self.vacuum is not None:
            return spectral_measure(matrix, self.vacuum)
        nodes: FloatArray = np.linalg.eigvalsh(matrix).astype(np.float64)
        return SpectralMeasure(nodes, np.full(len(nodes), 1 / len(nodes)))


__all__ = ["Level", "MatrixPolynomial", "OperatorSystem", "Products", "Sizes", "Term"]
