"""Canonical traces: one representative for all words that have the same trace."""

from __future__ import annotations

from functools import lru_cache

from aimtheory.errors import InputError
from aimtheory.words.word import Word


@lru_cache(maxsize=200_000)
def canonical_trace(word: Word) -> Word:
    """The canonical representative of the trace of a closed word.

    Since Tr(XY) = Tr(YX) and Tr(X) = Tr(X^T), words are equal under rotation and under transposition (reversal with
    every letter transposed). The representative is the least of all these, letters being ordered by name and
    orientation. The normalized trace is always Tr/d whatever the space in which the word starts, so that rotation is
    exact.

    >>> from aimtheory.words.letters import Letter
    >>> S1, S2 = Letter("S1", symmetric=True), Letter("S2", symmetric=True)
    >>> str(canonical_trace(Word.of(S2, S1, S1)))
    'S1 S1 S2'

    Raises ``InputError`` for an open or empty word.
    """
    if not word.letters:
        raise InputError("the trace of the empty word is 1 by normalization; it is not an order parameter")
    if not word.is_closed:
        raise InputError(
            f"word {word} maps {word.columns!r} to {word.rows!r} and has no trace; rows must equal columns"
        )
    rotations = [form.rotate(step) for form in (word, word.T) for step in range(len(word))]
    return min(rotations, key=lambda form: form.letters)


def trace_name(word: Word) -> str:
    """The name of the order parameter tr(word) as results use it: ``tr(S1 S2)``."""
    return f"tr({word})"


__all__ = ["canonical_trace", "trace_name"]
