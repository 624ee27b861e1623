"""Alphabets: an ordered set of letters closed under transposition, numbered so that words become integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aimtheory.errors import InputError
from aimtheory.words.letters import Letter
from aimtheory.words.word import Word, parse_word

MAX_BITS = 62
"""A packed word must fit a signed 64-bit integer."""


@dataclass(frozen=True)
class Alphabet:
    """Letters numbered 0..n-1, with the permutation that transposition makes of them.

    A word X_1...X_w is packed into one integer, first letter most significant, ``bits`` bits a letter: codes compare as
    words do, and rotation is a shift.

    >>> S1, S2 = Letter("S1", symmetric=True), Letter("S2", symmetric=True)
    >>> alphabet = Alphabet.of([S1, S2])
    >>> alphabet.bits, alphabet.pack(Word.of(S2, S1)), str(alphabet.unpack(2, 2))
    (1, 2, 'S2 S1')
    """

    letters: tuple[Letter, ...]

    @classmethod
    def of(cls, letters: Iterable[Letter]) -> Alphabet:
        """The alphabet of these letters and their transposes, sorted as ``canonical_trace`` sorts them.

        Raises ``InputError`` without letters, and when two different letters share a name: text could not tell them
        apart.
        """
        distinct = {form for letter in letters for form in (letter, letter.T)}
        if not distinct:
            raise InputError("an alphabet needs at least one letter")
        named: dict[str, Letter] = {}
        for form in sorted(distinct):
            other = named.setdefault(str(form), form)
            if other != form:
                raise InputError(
                    f"two different letters are called {form.name!r}: one {other.rows} x {other.columns}, "
                    f"one {form.rows} x {form.columns}"
                    f" (symmetric: {other.symmetric}, {form.symmetric}); rename one"
                )
        return cls(tuple(sorted(distinct)))

    def __len__(self) -> int:
        return len(self.letters)

    @cached_property
    def index(self) -> dict[Letter, int]:
        """Number of each letter."""
        return {letter: number for number, letter in enumerate(self.letters)}

    @cached_property
    def transposition(self) -> np.ndarray:
        """``transposition[a]`` is the number of the transpose of letter ``a``."""
        return np.array([self.index[letter.T] for letter in self.letters], dtype=np.int64)

    @property
    def bits(self) -> int:
        """Bits a letter: ceil(log2(number of letters)), at least one."""
        return max(1, (len(self.letters) - 1).bit_length())

    @property
    def max_length(self) -> int:
        """The longest word that can be packed."""
        return MAX_BITS // self.bits

    @cached_property
    def is_untyped(self) -> bool:
        """True when all letters live on one space, so that every sequence is a word."""
        return len({space for letter in self.letters for space in (letter.rows, letter.columns)}) == 1

    def check_length(self, length: int) -> None:
        """Raise ``InputError`` when words of this length cannot be packed."""
        if length > self.max_length:
            raise InputError(
                f"words of length {length} over {len(self)} letters need {length * self.bits} bits; at most "
                f"{MAX_BITS} are supported (length {self.max_length}): lower the degree"
            )

    def pack(self, word: Word) -> int:
        """The integer code of a word; ``InputError`` names a foreign letter."""
        self.check_length(len(word))
        code = 0
        for letter in word:
            if letter not in self.index:
                raise InputError(
                    f"letter {letter} of word {word} is not in the alphabet {', '.join(map(str, self.letters))}"
                )
            code = code << self.bits | self.index[letter]
        return code

    def unpack(self, code: int, length: int) -> Word:
        """The word of a code."""
        mask = (1 << self.bits) - 1
        numbers = [int(code) >> self.bits * (length - 1 - i) & mask for i in range(length)]
        return Word(tuple(self.letters[n] for n in numbers))

    def parse(self, text: str) -> Word:
        """Read a word such as ``"tr(S1 S2)"``; ``InputError`` names an unknown letter."""
        return parse_word(text, self.letters)

    def numbers(self, letters: Sequence[Letter]) -> tuple[int, ...]:
        """Numbers of several letters."""
        return tuple(self.index[letter] for letter in letters)


__all__ = ["MAX_BITS", "Alphabet"]
