"""Joint laws of products of free letters of a quiver: moments through the Fock space of paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sparse

from aimtheory.errors import InputError
from aimtheory.frozen import FrozenMapping
from aimtheory.records import record
from aimtheory.scalars import Scalar
from aimtheory.spectra.fock_space import FockLetter, FockOperators, fock_operators
from aimtheory.spectra.joint_law import CodeArray, JointLaw
from aimtheory.spectra.law import FloatArray
from aimtheory.words import Representation

Product = tuple[tuple[str, bool], ...]
"""Factors of a letter: (name of the quiver's letter, transposed)."""

_CHUNK = 1 << 14


@record("fock-family")
@dataclass(frozen=True, init=False)
class FockFamily(JointLaw):
    """Letters that are products of free matrices of a quiver, such as M = U V^T, M^T, A = U U^T, B = V V^T.

    ``products[letter]`` lists the factors of each letter of the family in order; every letter maps the base space to
    itself. Moments are vacuum expectations on paths of half the word's degree: exact but for rounding.

    >>> factors = [FockLetter(x, "d", "r", 1.0, Fraction(1, 2)) for x in ("U", "V")]
    >>> family = FockFamily({"M": (("U", False), ("V", True)), "N": (("V", False), ("U", True))}, factors, {"r": 0.5})
    >>> [round(family.moment(word), 12) for word in (["M", "N"], ["M", "M"])]
    [0.5, 0.0]
    """

    products: Mapping[str, Product]
    quiver: tuple[FockLetter, ...]
    widths: Mapping[str, float]
    _systems: dict[tuple[int, str], FockOperators] = field(init=False, repr=False, compare=False)

    def __init__(
        self, products: Mapping[str, Product], quiver: Sequence[FockLetter], widths: Mapping[str, float]
    ) -> None:
        names = {letter.name for letter in quiver}
        for letter, factors in products.items():
            for name, _ in factors:
                if name not in names:
                    raise InputError(
                        f"letter {letter!r} is a product with the unknown factor {name!r}; known: {sorted(names)}"
                    )
        object.__setattr__(self, "products", FrozenMapping(products))
        object.__setattr__(self, "quiver", tuple(quiver))
        object.__setattr__(self, "widths", FrozenMapping(widths))
        object.__setattr__(self, "_systems", {})

    def to_record(self) -> dict[str, object]:
        """Products, quiver and widths."""
        return {"products": dict(self.products), "quiver": self.quiver, "widths": dict(self.widths)}

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the family, in order."""
        return tuple(self.products)

    def degree(self, letter: str) -> Fraction:
        """Degree of a letter: the sum over its factors."""
        degrees = {x.name: x.degree for x in self.quiver}
        return sum((degrees[name] for name, _ in self.products[letter]), Fraction(0))

    def operators(self, depth: Fraction | int, base: str = "d") -> FockOperators:
        """The quiver's letters on paths of degree <= ``depth`` from the vacuum of a space, computed once."""
        twice = 2 * Fraction(depth)
        key = (math.ceil(twice), base)
        if key not in self._systems:
            widths = {space: width / self._width(base) for space, width in self.widths.items()}
            # Relative to another base space, variances s/d are s (base/d)/base.
            quiver = [replace(x, law=x.variance * self._width(base)) if x.spectral is None else x for x in self.quiver]
            widths["d"] = 1.0 / self._width(base)
            self._systems[key] = fock_operators(quiver, widths, Fraction(key[0], 2), base)
        return self._systems[key]

    def path_operators(self, depth: int) -> FockOperators:
        """``operators(depth)``, from the vacuum of the embedding space."""
        return self.operators(depth)

    def _width(self, space: str) -> float:
        return 1.0 if space == "d" else self.widths[space]

    def _rows(self, letter: str) -> str:
        """The space in which a letter starts."""
        name, transposed = self.products[letter][0]
        (factor,) = [x for x in self.quiver if x.name == name]
        return factor.columns if transposed else factor.rows

    def moment(self, word: Sequence[str]) -> Scalar:
        """``Tr(word)/d`` as a float, whatever the space in which the word starts."""
        self.indices(word)
        if not word:
            return 1.0
        base = self._rows(word[0])
        factors = [factor for letter in word for factor in self.products[letter]]
        degrees = {x.name: x.degree for x in self.quiver}
        system = self.operators(sum((degrees[name] for name, _ in factors), Fraction(0)) / 2, base)
        operators = {(name, False): matrix for name, matrix in system.operators.items()}
        words = Representation(operators, vacuum=system.state, adjoint=lambda factor: (factor[0], not factor[1]))
        return words.trace(factors) * self._width(base)

    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """Float64 moments of packed words of one length: inner products of the vectors of their halves."""
        digits = self.check_codes(codes, length)
        shape = digits.shape[:-1]
        if length == 0 or not digits.size:
            return np.ones(shape)
        flat = digits.reshape(-1, length)
        spaces = list(dict.fromkeys(self._rows(letter) for letter in self.letters))
        rows = np.array([spaces.index(self._rows(letter)) for letter in self.letters])
        # Words that pass through the same spaces have half-word vectors in the same Hilbert space.
        patterns, group = np.unique(rows[flat], axis=0, return_inverse=True)
        result = np.empty(len(flat))
        for number, pattern in enumerate(patterns):
            chosen = np.flatnonzero(group.ravel() == number)
            base = spaces[pattern[0]]
            result[chosen] = self._moments_at(flat[chosen], base) * self._width(base)
        return result.reshape(shape)

    def _moments_at(self, flat: CodeArray, base: str) -> FloatArray:
        half = flat.shape[1] // 2
        deepest = max(self.degree(letter) for letter in self.letters) * (flat.shape[1] - half)
        system = self.operators(deepest, base)
        matrices = {letter: self._matrices(letter, system) for letter in self.letters}
        right, right_column = self._vectors(flat[:, half:], matrices, system, adjoint=False)
        left, left_column = self._vectors(flat[:, :half][:, ::-1], matrices, system, adjoint=True)
        result = np.empty(len(flat))
        for low in range(0, len(flat), _CHUNK):
            part = slice(low, low + _CHUNK)
            product = left[:, left_column[part]].multiply(right[:, right_column[part]])
            result[part] = np.asarray(product.sum(axis=0)).ravel()
        return result

    def _matrices(self, letter: str, system: FockOperators) -> tuple[list[sparse.csr_array], list[sparse.csr_array]]:
        """Factors of a letter and of its adjoint, in the order in which they act."""
        factors = [
            system.operators[name].T if transposed else system.operators[name]
            for name, transposed in self.products[letter]
        ]
        return factors[::-1], [matrix.T for matrix in factors]

    def _vectors(
        self,
        digits: CodeArray,
        matrices: Mapping[str, tuple[list[sparse.csr_array], list[sparse.csr_array]]],
        system: FockOperators,
        adjoint: bool,
    ) -> tuple[sparse.csc_array, CodeArray]:
        """Columns ``word vacuum`` of the distinct words of the rows of ``digits``, the last letter acting first; and
        each row's column.

        With ``adjoint`` the letters act by their transposes.
        """
        vectors = sparse.csc_array(system.state[:, None])
        column = np.zeros(len(digits), dtype=np.int64)
        for position in range(digits.shape[1] - 1, -1, -1):
            key = column * len(self.letters) + digits[:, position]
            distinct, column = np.unique(key, return_inverse=True)
            pieces, order = [], []
            for number, letter in enumerate(self.letters):
                chosen = np.flatnonzero(distinct % len(self.letters) == number)
                if len(chosen):
                    piece = vectors[:, distinct[chosen] // len(self.letters)]
                    for matrix in matrices[letter][1 if adjoint else 0]:
                        piece = matrix @ piece
                    pieces.append(sparse.csc_array(piece))
                    order.append(chosen)
            place = np.empty(len(distinct), dtype=np.int64)
            place[np.concatenate(order)] = np.arange(len(distinct))
            vectors = sparse.csc_array(sparse.hstack(pieces, format="csc"))
            column = place[column]
        return vectors, column


__all__ = ["FockFamily", "Product"]
