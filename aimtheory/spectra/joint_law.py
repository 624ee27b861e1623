"""What every joint law of several letters can be asked: moments of words, one at a time or a whole length at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar
from aimtheory.spectra.law import FloatArray

if TYPE_CHECKING:
    from aimtheory.spectra.fock_space import FockOperators
    from aimtheory.spectra.free_product import CompressedOperators
    from aimtheory.spectra.law import SpectralLaw

CodeArray = NDArray[np.int64]


class JointLaw(ABC):
    """Normalized traces ``tr(X_{i_1} ... X_{i_w})`` of words in finitely many letters.

    A word of length w is packed into the integer ``sum_j i_j 2^{bits (w-j)}`` (first letter most significant), i_j the
    position of the letter in ``letters`` and ``bits = max(1, ceil(log2(number of letters)))``.
    """

    @property
    @abstractmethod
    def letters(self) -> tuple[str, ...]:
        """The letters, in the order that the packed codes use."""

    @abstractmethod
    def moment(self, word: Sequence[str]) -> Scalar:
        """``tr`` of the product of the letters, in order; 1 for the empty word."""

    @abstractmethod
    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """The float64 moments of packed words, all of the same ``length``; same shape as ``codes``."""

    @cached_property
    def adjoints(self) -> tuple[int, ...]:
        """The position of each letter's transpose: of ``X^T`` for ``X`` and back, where both are letters; else its own,
        as of a symmetric matrix.
        """
        position = {letter: index for index, letter in enumerate(self.letters)}
        others = (letter.removesuffix("^T") if letter.endswith("^T") else f"{letter}^T" for letter in self.letters)
        return tuple(position.get(other, index) for index, other in enumerate(others))

    # What a law may know beyond moments, by which a closure starts from it.

    @property
    def matrix_part(self) -> JointLaw:
        """The joint law of the matrices alone, numbers left out."""
        return self

    @property
    def given_matrices(self) -> Mapping[str, FloatArray] | None:
        """The matrices by letter, when the law is that of given ones; else None."""
        return None

    @property
    def free_laws(self) -> Mapping[str, SpectralLaw] | None:
        """The law of each letter, when the letters are free of each other; else None."""
        return None

    @property
    def complete_length(self) -> int | None:
        """The length up to which every word has a moment; None when all have."""
        return None

    def check_possible(self) -> None:  # noqa: B027  # only a table has something to check
        """Raise ``AssumptionError`` when no matrices have these moments, as only a given table can."""

    def word_operators(self, depth: int) -> CompressedOperators | None:  # noqa: ARG002
        """The letters as operators on alternating words of length <= ``depth``, of free letters; else None."""
        return None

    def path_operators(self, depth: int) -> FockOperators | None:  # noqa: ARG002
        """The factors of the letters as operators on paths of degree <= ``depth``, of products of free factors; else
        None."""
        return None

    @property
    def bits(self) -> int:
        """Bits a letter takes in a packed word."""
        return max(1, (len(self.letters) - 1).bit_length())

    def moment_table(self, length: int) -> list[FloatArray]:
        """Moments of *all* words: entry w is an array indexed by the packed code of a word of length w <= ``length``.

        Codes that use no letter (when the number of letters is not a power of 2) hold NaN.
        """
        tables = []
        for size in range(check_length(length) + 1):
            codes = all_codes(len(self.letters), self.bits, size)
            table = np.full(1 << (self.bits * size), np.nan)
            table[codes] = self.moments_of_codes(codes, size)
            tables.append(table)
        return tables

    def indices(self, word: Sequence[str]) -> tuple[int, ...]:
        """The letters of a word as positions in ``letters``; ``InputError`` names an unknown one."""
        position = {letter: index for index, letter in enumerate(self.letters)}
        unknown = [letter for letter in word if letter not in position]
        if unknown:
            raise InputError(
                f"unknown letter {unknown[0]!r} in word {tuple(word)}; known letters: {list(self.letters)}"
            )
        return tuple(position[letter] for letter in word)

    def check_codes(self, codes: CodeArray, length: int) -> CodeArray:
        """Digits of the packed words, shape codes.shape + (length,); ``InputError`` for a code that is no word."""
        digits = unpack(np.asarray(codes), self.bits, check_length(length))
        if digits.size and int(digits.max()) >= len(self.letters):
            raise InputError(
                f"a packed word uses letter {int(digits.max())}; there are only {len(self.letters)} letters"
            )
        if np.any(np.asarray(codes) >> (self.bits * length)) or np.any(np.asarray(codes) < 0):
            raise InputError(f"a packed word does not fit in length {length} at {self.bits} bits a letter")
        return digits


def check_length(length: int) -> int:
    """A word length as an int >= 0, else ``InputError``."""
    if isinstance(length, bool) or int(length) != length or length < 0:
        raise InputError(f"length = {length!r} must be an integer >= 0")
    return int(length)


def unpack(codes: CodeArray, bits: int, length: int) -> CodeArray:
    """Letter positions of packed words: shape codes.shape + (length,), first letter first."""
    shifts = np.arange(length - 1, -1, -1, dtype=np.int64) * bits
    return (np.asarray(codes, dtype=np.int64)[..., None] >> shifts) & ((1 << bits) - 1)


def pack(digits: CodeArray, bits: int) -> CodeArray:
    """Inverse of ``unpack``: digits of shape (..., length) to codes of shape (...)."""
    codes = np.zeros(digits.shape[:-1], dtype=np.int64)
    for position in range(digits.shape[-1]):
        codes = (codes << bits) | digits[..., position]
    return codes


def dense(digits: CodeArray, letters: int) -> CodeArray:
    """Digits of shape (..., length) as base-``letters`` integers, first letter most significant."""
    codes = np.zeros(digits.shape[:-1], dtype=np.int64)
    for position in range(digits.shape[-1]):
        codes = codes * letters + digits[..., position]
    return codes


def unpack_dense(letters: int, length: int) -> CodeArray:
    """Digits of all words of one length in lexicographic order: shape (letters ** length, length)."""
    codes = np.arange(letters**length, dtype=np.int64)
    powers = letters ** np.arange(length - 1, -1, -1, dtype=np.int64)
    return (codes[:, None] // powers) % letters


def all_codes(letters: int, bits: int, length: int) -> CodeArray:
    """Packed codes of all words of one length, in lexicographic order."""
    codes = np.zeros(1, dtype=np.int64)
    for _ in range(length):
        codes = ((codes[:, None] << bits) | np.arange(letters, dtype=np.int64)).ravel()
    return codes


def bracelet(word: tuple[int, ...], adjoints: Sequence[int] | None = None) -> tuple[int, ...]:
    """The least word among the rotations of a word and of its adjoint: traces of real matrices are equal on it.

    The adjoint is the reversed word with every letter x replaced by ``adjoints[x]``; None for symmetric letters.
    """
    if len(word) < 2 and adjoints is None:
        return word
    best = word
    for start in (word, word[::-1] if adjoints is None else tuple(adjoints[letter] for letter in word[::-1])):
        doubled = start + start
        for shift in range(len(word)):
            candidate = doubled[shift : shift + len(word)]
            if candidate < best:
                best = candidate
    return best


__all__ = ["CodeArray", "JointLaw"]
