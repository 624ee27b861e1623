"""A joint law of matrices with numbers beside it: words of numbers are products, and never mix with matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aimtheory.scalars import Scalar
from aimtheory.spectra.joint_law import CodeArray, JointLaw, pack
from aimtheory.spectra.law import FloatArray


@dataclass(frozen=True, init=False)
class ScalarsBeside(JointLaw):
    """The letters of ``base`` and numbers ``values``, in the order of ``letters``; the trace of a number is itself.

    >>> from aimtheory.spectra import FreeFamily, Wishart
    >>> law = ScalarsBeside(FreeFamily({"S": Wishart(1, 1)}), {"a": 0.5}, ("S", "a"))
    >>> law.moment(["a", "a"]), law.moment(["S", "S"])
    (0.25, Fraction(2, 1))
    """

    base: JointLaw
    values: tuple[tuple[str, float], ...]
    order: tuple[str, ...]

    def __init__(self, base: JointLaw, values: Mapping[str, float], letters: Sequence[str]) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "values", tuple(values.items()))
        object.__setattr__(self, "order", tuple(letters))

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters, in order."""
        return self.order

    @property
    def matrix_part(self) -> JointLaw:
        """``base``."""
        return self.base

    def moment(self, word: Sequence[str]) -> Scalar:
        """The product of a word of numbers, the trace of a word of matrices."""
        values = dict(self.values)
        if word and all(letter in values for letter in word):
            return float(np.prod([values[letter] for letter in word]))
        self.indices(word)
        return self.base.moment(word)

    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """Moments of packed words of one length; a word is one of numbers or one of matrices."""
        digits = self.check_codes(codes, length)
        values = dict(self.values)
        flat = digits.reshape(-1, length)
        if not flat.size:
            return np.ones(digits.shape[:-1])
        known = np.array([values.get(letter, np.nan) for letter in self.order])
        result = known[flat].prod(axis=1)
        matrices = np.flatnonzero(np.isnan(result))
        if len(matrices):
            place = {letter: n for n, letter in enumerate(self.base.letters)}
            number = np.array([place.get(letter, 0) for letter in self.order], dtype=np.int64)
            result[matrices] = self.base.moments_of_codes(pack(number[flat[matrices]], self.base.bits), length)
        return result.reshape(digits.shape[:-1])


__all__ = ["ScalarsBeside"]
