"""Vectorised word arithmetic on integer-coded words: canonical traces, enumeration, replacement of a letter.

A batch is a numpy array of int64 codes of words of one length; see ``Alphabet`` for the packing. Everything here is bit
arithmetic over whole batches, so the million words of length 20 over two letters take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aimtheory.words.alphabet import Alphabet

Codes = NDArray[np.int64]

_CHUNK = 1 << 18


def letters_at(codes: Codes, length: int, position: int, bits: int) -> Codes:
    """The number of the letter at ``position`` (0 = first) of every word."""
    return (codes >> bits * (length - 1 - position)) & ((1 << bits) - 1)


def transpose_codes(alphabet: Alphabet, codes: Codes, length: int) -> Codes:
    """Codes of the transposed words: letters reversed, each replaced by its transpose."""
    bits, mask = alphabet.bits, (1 << alphabet.bits) - 1
    symmetric = bool((alphabet.transposition == np.arange(len(alphabet))).all())
    result = np.zeros_like(codes)
    rest = codes.copy()
    for _ in range(length):
        letter = rest & mask
        result <<= bits
        result |= letter if symmetric else alphabet.transposition[letter]
        rest >>= bits
    return result


def canonical_codes(alphabet: Alphabet, codes: Codes, length: int) -> Codes:
    """The least code among all rotations of each word and of its transpose: equal exactly when the traces are equal.

    Rotations that start in another space are included: the normalized trace does not see where a closed word is cut.
    The cost is 2 x length vector operations on the batch; no table, no sorting.
    """
    alphabet.check_length(length)
    if length == 0:  # the empty word, tr 1 = 1
        return np.zeros_like(codes)
    bits = alphabet.bits
    top = bits * (length - 1)
    mask = (1 << bits) - 1
    best = codes.copy()
    for form in (codes, transpose_codes(alphabet, codes, length)):
        current = form.copy()
        np.minimum(best, current, out=best)
        for _ in range(length - 1):
            current = (current >> bits) | ((current & mask) << top)
            np.minimum(best, current, out=best)
    return best


def canonical_words(alphabet: Alphabet, length: int) -> Codes:
    """All canonical traces of closed words of exactly this length, as sorted codes.

    Over two self-adjoint letters these are binary bracelets: 2, 3, 4, 6, 8, 13, ... for length 1, 2, 3, ...

    >>> from aimtheory.words.letters import Letter
    >>> two = Alphabet.of([Letter("S1", symmetric=True), Letter("S2", symmetric=True)])
    >>> [len(canonical_words(two, w)) for w in range(1, 7)]
    [2, 3, 4, 6, 8, 13]
    """
    alphabet.check_length(length)
    found = [chunk[canonical_codes(alphabet, chunk, length) == chunk] for chunk in _closed_words(alphabet, length)]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _closed_words(alphabet: Alphabet, length: int) -> Iterator[Codes]:
    """All closed words of a length in increasing order of code, in chunks that bound the memory."""
    bits, size = alphabet.bits, len(alphabet)
    if alphabet.is_untyped and size == 1 << bits:
        total = 1 << bits * length
        for start in range(0, total, _CHUNK):
            yield np.arange(start, min(start + _CHUNK, total), dtype=np.int64)
        return
    spaces = {name: n for n, name in enumerate(dict.fromkeys(s for a in alphabet.letters for s in (a.rows, a.columns)))}
    rows = np.array([spaces[a.rows] for a in alphabet.letters])
    columns = np.array([spaces[a.columns] for a in alphabet.letters])
    words = np.arange(size, dtype=np.int64)
    for _ in range(length - 1):
        extended = (words[:, None] << bits) | np.arange(size, dtype=np.int64)[None, :]
        fits = columns[words & ((1 << bits) - 1)][:, None] == rows[None, :]
        words = extended[fits]
    if length:
        first = words >> bits * (length - 1)
        yield words[rows[first] == columns[words & ((1 << bits) - 1)]]


def replace_letter(codes: Codes, length: int, position: int, bits: int, replacement: int, size: int) -> Codes:
    """Every word with its letter at ``position`` replaced by a packed word of ``size`` letters."""
    shift = bits * (length - 1 - position)
    low = codes & ((1 << shift) - 1)
    high = codes >> (shift + bits)
    return (high << (shift + bits * size)) | (replacement << shift) | low


__all__ = ["Codes", "canonical_codes", "canonical_words", "letters_at", "replace_letter", "transpose_codes"]
