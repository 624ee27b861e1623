"""A joint law given by its table of moments, and the test that some matrices can have a set of moments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from aimtheory.errors import AssumptionError, InputError
from aimtheory.records import record
from aimtheory.scalars import Scalar, is_exact, to_scalar
from aimtheory.spectra.joint_law import CodeArray, JointLaw, bracelet
from aimtheory.spectra.law import FloatArray, to_float


@record("joint-moments")
@dataclass(frozen=True, init=False)
class JointMoments(JointLaw):
    """Traces of words as given by the user, e.g. measured on a trained network.

    ``values`` maps words (tuples of letters) to numbers. A letter ``X`` is a symmetric matrix, unless ``X^T`` is a
    letter too. Words equal under rotation or transposition share one value; giving two different values for them, or a
    value that is not finite, is an ``InputError``. A word that was not given raises ``InputError`` naming it.
    ``check_realizable`` tests that matrices with these moments can exist.

    >>> JointMoments({("A",): 1, ("A", "A"): 2}).moment(["A", "A"])
    Fraction(2, 1)
    >>> table = JointMoments({("X", "X^T", "A"): 2, ("X^T", "X", "A"): 3})
    >>> table.moment(["A", "X", "X^T"]), table.moment(["A", "X^T", "X"])
    (Fraction(2, 1), Fraction(3, 1))
    """

    _letters: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], Scalar], ...]
    _table: dict[tuple[int, ...], Scalar] = field(init=False, repr=False, compare=False)

    def __init__(self, values: Mapping[Sequence[str], object], letters: Sequence[str] | None = None) -> None:
        words = [tuple(word) for word in values]
        found = tuple(sorted({letter for word in words for letter in word}))
        names = tuple(letters) if letters is not None else found
        if not names:
            raise InputError("a table of moments needs at least one letter; got none")
        object.__setattr__(self, "_letters", names)
        table: dict[tuple[int, ...], Scalar] = {}
        origin: dict[tuple[int, ...], tuple[str, ...]] = {}
        for word, value in zip(words, values.values(), strict=True):
            scalar = to_scalar(value, f"moment of {' '.join(word) or 'the empty word'}")
            key = bracelet(self.indices(word), self.adjoints)
            if key in table and not _agree(table[key], scalar):
                raise InputError(
                    f"words {origin[key]} and {word} have one trace (rotation, transposition) but were given "
                    f"{table[key]} and {scalar}"
                )
            table[key], origin[key] = scalar, word
        if () in table and not _agree(table[()], 1.0):
            raise InputError(f"the empty word has trace 1; got {table[()]}")
        object.__setattr__(self, "values", tuple((origin[key], value) for key, value in table.items()))
        object.__setattr__(self, "_table", table)

    def to_record(self) -> dict[str, object]:
        """The table and the letters."""
        return {"values": dict(self.values), "letters": self._letters}

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters: as given, or sorted by name."""
        return self._letters

    @property
    def degree(self) -> int:
        """The largest length up to which *every* word was given."""
        length = 0
        while all(
            bracelet(word, self.adjoints) in self._table
            for word in itertools.product(range(len(self._letters)), repeat=length + 1)
        ):
            length += 1
        return length

    def moment(self, word: Sequence[str]) -> Scalar:
        """The value given for the word's class; ``InputError`` when there is none."""
        indices = self.indices(word)
        if not indices:
            return to_scalar(1)
        key = bracelet(indices, self.adjoints)
        if key not in self._table:
            raise InputError(
                f"no moment was given for the word {tuple(word)}; words up to length {self.degree} are complete"
            )
        return self._table[key]

    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """Float64 values of packed words of one ``length``."""
        digits = self.check_codes(codes, length)
        if length == 0 or not digits.size:
            return np.ones(digits.shape[:-1])
        flat = digits.reshape(-1, length)
        words = [[self._letters[index] for index in row] for row in flat.tolist()]
        return np.array([to_float(self.moment(word), f"moment of {word}") for word in words]).reshape(digits.shape[:-1])

    @property
    def complete_length(self) -> int:
        """``degree``."""
        return self.degree

    def check_possible(self) -> None:
        """``check_realizable``."""
        self.check_realizable()

    def check_realizable(self, tolerance: float = 1e-10) -> float:
        """``check_realizable(self, degree // 2)``: the smallest Gram eigenvalue, or ``AssumptionError``."""
        return check_realizable(self, self.degree // 2, tolerance)


def gram_matrix(law: JointLaw, degree: int) -> FloatArray:
    """``G[u, v] = tr(u^* v)`` over all words u, v of length <= ``degree``, shortest first then lexicographic.

    Hankel matrix when there is one letter. Needs the moments up to length 2 ``degree``; float64.
    """
    words = [word for length in range(degree + 1) for word in itertools.product(range(len(law.letters)), repeat=length)]
    keys = [[tuple(law.adjoints[letter] for letter in left[::-1]) + right for right in words] for left in words]
    values: dict[tuple[int, ...], float] = {}
    for length in range(2 * degree + 1):
        wanted = sorted({word for row in keys for word in row if len(word) == length})
        if wanted:
            digits = np.array(wanted, dtype=np.int64).reshape(len(wanted), length)
            codes = np.zeros(len(wanted), dtype=np.int64)
            for position in range(length):
                codes = (codes << law.bits) | digits[:, position]
            values.update(zip(wanted, law.moments_of_codes(codes, length).tolist(), strict=True))
    return np.array([[values[word] for word in row] for row in keys])


def check_realizable(law: JointLaw, degree: int, tolerance: float = 1e-10) -> float:
    """The smallest eigenvalue of the Gram matrix of words of length <= ``degree``, scaled to unit diagonal.

    A state on matrices has ``tr(X^* X) >= 0``, so the matrix must be positive semidefinite. Below -``tolerance`` the
    moments belong to no matrices and ``AssumptionError`` names the eigenvalue. The converse (enough moments) is not
    tested, and cannot be from finitely many.
    """
    gram = gram_matrix(law, degree)
    if not np.all(np.isfinite(gram)):
        raise InputError("a moment is NaN or infinite")
    diagonal = np.diagonal(gram)
    if np.any(diagonal < 0):
        raise AssumptionError(
            f"a squared norm tr(u^* u) = {diagonal.min():.6g} is negative: no matrices have these moments"
        )
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    smallest = float(np.linalg.eigvalsh(gram / np.outer(scale, scale))[0])
    if smallest < -tolerance:
        raise AssumptionError(
            f"the moments up to length {2 * degree} belong to no matrices: the Gram matrix of words, scaled to unit "
            f"diagonal, has smallest eigenvalue {smallest:.6g} < -{tolerance:g}; check the values given"
        )
    return smallest


def _agree(first: Scalar, second: Scalar) -> bool:
    if is_exact(first) and is_exact(second):
        return bool(sp.simplify(first - second) == 0) if isinstance(first - second, sp.Expr) else first == second
    return bool(abs(float(first) - float(second)) <= 1e-12 * max(1.0, abs(float(first))))


__all__ = ["JointMoments", "check_realizable", "gram_matrix"]
