"""The drift of a word: the Leibniz rule on traces, one word at a time (symbolic) and a whole degree at a time
(vectorised)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.views import Views
from aimtheory.scalars import Scalar
from aimtheory.words import Polynomial, Word, canonical_trace, leibniz
from aimtheory.words.packed import Codes, canonical_codes, letters_at, replace_letter


def word_drift(word: Word, views: Views) -> dict[tuple[Coupling, Word], Scalar]:
    """The drift of tr(word) as {(coupling, canonical word): coefficient}, by the Leibniz rule in the word algebra.

    d tr(X_1..X_w)/dt = sum_i tr(X_1..dX_i/dt..X_w). The empty word stands for tr 1 = 1. Exact, slow and readable; the
    vectorised route is held equal to it by a test.
    """
    total: dict[tuple[Coupling, Word], Scalar] = {}
    for coupling in views.couplings:
        change = leibniz(Polynomial({word: 1}), lambda letter, c=coupling: views.drift.get(letter, {}).get(c))  # type: ignore[misc]
        for target, coefficient in change:
            key = (coupling, canonical_trace(target) if len(target) else target)
            total[key] = total.get(key, Fraction(0)) + coefficient
    return {key: value for key, value in total.items() if value != 0}


@dataclass(frozen=True)
class Replacement:
    """One term of the drift of a letter: letter number ``letter`` becomes the packed ``word`` of ``size`` letters."""

    letter: int
    coupling: int
    word: int
    size: int
    weight: int


@dataclass(frozen=True)
class ReplacementTable:
    """The drift of all letters as integer data; the weights of coupling c are over ``denominators[c]``."""

    replacements: tuple[Replacement, ...]
    denominators: tuple[int, ...]

    @classmethod
    def of(cls, views: Views) -> ReplacementTable:
        """Pack the drift of every letter, transposed ones included."""
        denominators = []
        raw: list[tuple[int, int, Word, Fraction]] = []
        for number, coupling in enumerate(views.couplings):
            weights: list[Fraction] = []
            for letter, change in views.drift.items():
                for form in dict.fromkeys((letter, letter.T)):
                    for word, coefficient in _oriented(change, coupling, form.transposed):
                        weights.append(coefficient)
                        raw.append((views.alphabet.index[form], number, word, coefficient))
            denominators.append(lcm(*(weight.denominator for weight in weights)) if weights else 1)
        table = tuple(
            Replacement(letter, c, views.alphabet.pack(word), len(word), int(weight * denominators[c]))
            for letter, c, word, weight in raw
        )
        return cls(table, tuple(denominators))


def _oriented(
    change: Mapping[Coupling, Polynomial], coupling: Coupling, transposed: bool
) -> list[tuple[Word, Fraction]]:
    polynomial = change.get(coupling)
    if polynomial is None:
        return []
    terms = polynomial.T if transposed else polynomial
    pairs = []
    for word, coefficient in terms:
        if not isinstance(coefficient, Fraction):
            raise InputError(
                f"coefficient {coefficient} of {word} is not rational; write the coefficients of S_k as rationals "
                "such as 1/2, or absorb them in the law of a factor"
            )
        pairs.append((word, coefficient))
    return pairs


@dataclass(frozen=True)
class DriftEntries:
    """Sparse drift of a batch of words of one length: source row, coupling, target length and code, integer weight."""

    rows: NDArray[np.int64]
    coupling: NDArray[np.int64]
    lengths: NDArray[np.int64]
    targets: Codes
    weights: NDArray[np.int64]


def drift_entries(views: Views, table: ReplacementTable, codes: Codes, length: int) -> DriftEntries:
    """The drift of every word of a batch at once, targets canonical and equal ones summed."""
    bits = views.alphabet.bits
    pieces: dict[int, list[tuple[NDArray[np.int64], int, Codes, int]]] = {}
    everything = np.arange(len(codes))
    for position in range(length):
        present = letters_at(codes, length, position, bits)
        by_letter: dict[int, NDArray[np.int64]] = {}
        for term in table.replacements:
            if term.letter not in by_letter:
                by_letter[term.letter] = everything[present == term.letter]
            rows = by_letter[term.letter]
            if len(rows):
                new = replace_letter(codes[rows], length, position, bits, term.word, term.size)
                pieces.setdefault(length - 1 + term.size, []).append((rows, term.coupling, new, term.weight))
    merged = [_merge(views, target_length, group) for target_length, group in sorted(pieces.items())]
    if not merged:
        empty = np.zeros(0, dtype=np.int64)
        return DriftEntries(empty, empty, empty, empty, empty)
    return DriftEntries(*(np.concatenate(parts) for parts in zip(*merged, strict=True)))


def _merge(
    views: Views, length: int, group: list[tuple[NDArray[np.int64], int, Codes, int]]
) -> tuple[NDArray[np.int64], ...]:
    rows = np.concatenate([g[0] for g in group])
    coupling = np.repeat([g[1] for g in group], [len(g[0]) for g in group])
    weights = np.repeat([g[3] for g in group], [len(g[0]) for g in group])
    # The same unreduced word arises many times; canonicalize each once.
    distinct, inverse = np.unique(np.concatenate([g[2] for g in group]), return_inverse=True)
    targets = canonical_codes(views.alphabet, distinct, length)[inverse]
    order = np.lexsort((targets, coupling, rows))
    rows, coupling, targets, weights = rows[order], coupling[order], targets[order], weights[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (coupling[1:] != coupling[:-1]) | (targets[1:] != targets[:-1])
    starts = np.flatnonzero(first)
    summed = np.add.reduceat(weights, starts)
    keep = summed != 0
    starts = starts[keep]
    return rows[starts], coupling[starts], np.full(len(starts), length), targets[starts], summed[keep]


__all__ = ["DriftEntries", "Replacement", "ReplacementTable", "drift_entries", "word_drift"]
