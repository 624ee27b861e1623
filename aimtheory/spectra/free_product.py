"""Jointly free self-adjoint letters: exact mixed moments, and the compressed operators on their Fock space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.sparse as sparse

from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.scalars import Scalar
from aimtheory.spectra.cumulants import tidy
from aimtheory.spectra.joint_law import CodeArray, JointLaw, all_codes, bracelet, check_length, dense, unpack_dense
from aimtheory.spectra.law import FloatArray, SpectralLaw, check_words
from aimtheory.words import Representation

Block = tuple[str, int]


@dataclass(frozen=True)
class CompressedOperators:
    """Letters compressed to the span of the words of degree <= ``depth`` applied to the vacuum.

    ``operators[letter]`` is a symmetric CSR matrix over an orthonormal basis whose element ``vacuum`` (0) is the state:
    ``<vacuum, word vacuum>`` equals the trace of every word of length <= 2 depth + 1. ``degrees`` ascends. Element k is
    ``basis[k] = ((letter, n), ...)``, the product of orthonormal polynomials p_n of alternating letters.
    """

    letters: tuple[str, ...]
    depth: int
    operators: Mapping[str, sparse.csr_array]
    degrees: CodeArray
    codes: CodeArray
    vacuum: int = 0

    @property
    def dimension(self) -> int:
        """The number of basis elements."""
        return len(self.degrees)

    @cached_property
    def basis(self) -> tuple[tuple[Block, ...], ...]:
        """Basis elements as alternating blocks (letter, degree); the vacuum is the empty tuple."""
        elements = []
        for code, degree in zip(self.codes.tolist(), self.degrees.tolist(), strict=True):
            blocks: list[tuple[int, int]] = []
            for _ in range(degree):
                code, letter = divmod(code, len(self.letters))
                if blocks and blocks[-1][0] == letter:
                    blocks[-1] = (letter, blocks[-1][1] + 1)
                else:
                    blocks.append((letter, 1))
            elements.append(tuple((self.letters[letter], count) for letter, count in reversed(blocks)))
        return tuple(elements)

    @property
    def state(self) -> FloatArray:
        """The vacuum vector."""
        vector = np.zeros(self.dimension)
        vector[self.vacuum] = 1.0
        return vector

    def moment(self, word: Sequence[str]) -> float:
        """``<vacuum, word vacuum>``; equals the trace of the word up to length 2 depth + 1."""
        return Representation(self.operators, vacuum=self.state, adjoint=str).trace(word)


@record("free-family")
@dataclass(frozen=True, init=False)
class FreeFamily(JointLaw):
    """Freely independent self-adjoint letters with given spectral laws, S_1, S_2, ... independent and Haar rotated.

    Mixed free cumulants vanish (Voiculescu freeness), so a word's trace is a sum over non-crossing partitions whose
    blocks hold one letter each. Exact when the laws are exact, symbolic when their parameters are.

    >>> from aimtheory.spectra import Wishart
    >>> FreeFamily({"S1": Wishart(1), "S2": Wishart("1/2")}).moment(["S1", "S2", "S1", "S2"])
    Fraction(4, 1)
    """

    laws: tuple[tuple[str, SpectralLaw], ...]
    _memo: dict[tuple[int, ...], Scalar] = field(init=False, repr=False, compare=False)
    _cumulants: dict[int, tuple[Scalar, ...]] = field(init=False, repr=False, compare=False)

    def __init__(self, laws: Mapping[str, SpectralLaw]) -> None:
        if not laws:
            raise InputError("a free family needs at least one letter; got none")
        for name, law in laws.items():
            if not isinstance(law, SpectralLaw):
                raise InputError(f"letter {name!r} has {law!r}, which is not a SpectralLaw of a self-adjoint matrix")
        object.__setattr__(self, "laws", tuple(laws.items()))
        object.__setattr__(self, "_memo", {})
        object.__setattr__(self, "_cumulants", {})

    def to_record(self) -> dict[str, object]:
        """The laws by letter."""
        return {"laws": dict(self.laws)}

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters in the order given."""
        return tuple(name for name, _ in self.laws)

    @property
    def free_laws(self) -> Mapping[str, SpectralLaw]:
        """The law of each letter."""
        return dict(self.laws)

    def word_operators(self, depth: int) -> CompressedOperators:
        """``operators(depth)``."""
        return self.operators(depth)

    def moment(self, word: Sequence[str]) -> Scalar:
        """``tr(word)``, by the recursion over the block that holds the first letter.

            m(w) = sum over 1 = j_1 < ... < j_s with equal letters of kappa_s m(gap_1) ... m(gap_s)

        Exact. Memoised on bracelet classes; O(n^3) products for each of the O(n^2) gaps of a new word of length n.
        """
        return self._moment(self.indices(word))

    def _moment(self, word: tuple[int, ...]) -> Scalar:
        if not word:
            return Fraction(1)
        key = bracelet(word)
        if key not in self._memo:
            self._memo[key] = self._partition_sum(key)
        return self._memo[key]

    def _partition_sum(self, word: tuple[int, ...]) -> Scalar:
        # Start at the rarest letter: its block has the fewest possible partners.
        rarest = min(set(word), key=word.count)
        shift = word.index(rarest)
        word = word[shift:] + word[:shift]
        places = [index for index, letter in enumerate(word) if letter == rarest]
        kappa = self._kappa(rarest, len(places))
        # chains[k][s-1]: sum over blocks with s elements, last at places[k], of the moments of their inner gaps.
        chains: list[list[Scalar]] = [[Fraction(1)]]
        total: Scalar = kappa[0] * self._moment(word[1:])
        for k in range(1, len(places)):
            row: list[Scalar] = [Fraction(0)] * (k + 1)
            for earlier in range(k):
                gap = self._moment(word[places[earlier] + 1 : places[k]])
                if gap == 0:
                    continue
                for s, value in enumerate(chains[earlier]):
                    row[s + 1] = row[s + 1] + value * gap
            row = [tidy(value) for value in row]
            chains.append(row)
            tail = self._moment(word[places[k] + 1 :])
            for s in range(1, k + 1):
                total = total + kappa[s] * row[s] * tail
        return tidy(total)

    def _kappa(self, letter: int, count: int) -> tuple[Scalar, ...]:
        known = self._cumulants.get(letter, ())
        if len(known) < count:
            known = self.laws[letter][1].free_cumulants(max(count, 2 * len(known)))
            self._cumulants[letter] = known
        return known

    def operators(self, depth: int) -> CompressedOperators:
        """Each letter compressed to the alternating-word basis of degree <= ``depth``, float64 CSR.

        Basis: alternating products p_{n_1}(X_{i_1}) p_{n_2}(X_{i_2}) ..., i_j != i_{j+1}, sum n_j <= depth; that is,
        all words over the letters (a run of n equal letters is p_n); 2^{depth+1} - 1 elements for two letters without
        finite support, and a run never outgrows the number of atoms less one. X_i acts on a leading run of its own
        letter by its Jacobi matrix (a_n, b_n) and creates a run of length 1 with b_0 before another letter, with a_0 on
        the diagonal. Source: free product of Hilbert spaces (Voiculescu); used as in the GNS closure.
        """
        depth = check_length(depth)
        check_words(depth, depth)
        count = len(self.laws)
        coefficients = [law.jacobi(depth + 1).floats() for _, law in self.laws]
        # Per level: base-`count` codes of the surviving words, and each word's leading letter and run length.
        codes = [np.zeros(1, dtype=np.int64)]
        leading = [np.full(1, -1, dtype=np.int64)]
        runs = [np.zeros(1, dtype=np.int64)]
        offsets = [0, 1]
        entries: list[list[tuple[CodeArray, CodeArray, FloatArray]]] = [[] for _ in range(count)]
        for level in range(depth + 1):
            size = len(codes[level])
            here = offsets[level] + np.arange(size)
            fresh_codes, fresh_leading, fresh_runs = [], [], []
            created = offsets[level + 1]
            for letter, (diagonal, offdiagonal) in enumerate(coefficients):
                run = np.where(leading[level] == letter, runs[level], 0)
                entries[letter].append((here, here, diagonal[run]))
                if level == depth:
                    continue
                step = offdiagonal[run]
                alive = step > 0
                target = created + np.arange(int(alive.sum()))
                entries[letter].append((target, here[alive], step[alive]))
                entries[letter].append((here[alive], target, step[alive]))
                created += len(target)
                fresh_codes.append(codes[level][alive] + letter * count**level)
                fresh_leading.append(np.full(len(target), letter, dtype=np.int64))
                fresh_runs.append(run[alive] + 1)
            check_words(created, depth)
            if level < depth:
                codes.append(np.concatenate(fresh_codes))
                leading.append(np.concatenate(fresh_leading))
                runs.append(np.concatenate(fresh_runs))
                offsets.append(created)
        dimension = offsets[-1] if depth else 1
        matrices = {}
        for (name, _), parts in zip(self.laws, entries, strict=True):
            rows, columns, values = (np.concatenate([part[index] for part in parts]) for index in range(3))
            kept = values != 0
            shape = (dimension, dimension)
            matrices[name] = sparse.coo_array((values[kept], (rows[kept], columns[kept])), shape=shape).tocsr()
        degrees = np.concatenate([np.full(len(level_codes), level) for level, level_codes in enumerate(codes)])
        return CompressedOperators(self.letters, depth, matrices, degrees, np.concatenate(codes))

    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """Float64 moments of packed words of one ``length`` as inner products of Fock vectors of half the length.

        ``tr(u v) = <u^* vacuum, v vacuum>`` with u^* the reversal, so only the p^{ceil(length/2)} vectors of half words
        are built (p letters), each supported on degrees <= half. Relative accuracy about 1e-14. Two letters at length
        20: 16 MB of vectors.
        """
        digits = self.check_codes(codes, length)
        shape = digits.shape[:-1]
        if length == 0 or not digits.size:
            return np.ones(shape)
        flat = digits.reshape(-1, length)
        short = length // 2
        vectors_short, vectors_long = self._vectors(short, length - short)
        count = len(self.letters)
        left = dense(flat[:, :short][:, ::-1], count)
        right = dense(flat[:, short:], count)
        return _pair_products(vectors_short, vectors_long, left, right).reshape(shape)

    def moment_table(self, length: int) -> list[FloatArray]:
        """Moments of *all* words up to ``length``, as in ``JointLaw``: one matrix product a length.

        Two letters at length 20 (two million words): under a second and 50 MB.
        """
        length, count = check_length(length), len(self.letters)
        tables = [np.ones(1)]
        rows = [np.ones((1, 1))]
        system = self.operators((length + 1) // 2)
        vectors = system.state[:, None]
        for size in range(1, length + 1):
            if size % 2:
                vectors = np.hstack([system.operators[letter] @ vectors for letter in self.letters])
                kept = int(np.searchsorted(system.degrees, (size + 1) // 2, side="right"))
                rows.append(np.ascontiguousarray(vectors[:kept].T))
            short, long = rows[size // 2], rows[size - size // 2]
            mirror = dense(unpack_dense(count, size // 2)[:, ::-1], count)
            values = (short[mirror] @ long[:, : short.shape[1]].T).ravel()
            if count == 1 << self.bits:
                tables.append(values)
                continue
            table = np.full(1 << (self.bits * size), np.nan)
            table[all_codes(count, self.bits, size)] = values
            tables.append(table)
        return tables

    def _vectors(self, short: int, long: int) -> tuple[FloatArray, FloatArray]:
        """Rows ``word vacuum`` for all words of length ``short`` and ``long``, on the degrees <= ``short``."""
        system = self.operators(long)
        dimension = int(np.searchsorted(system.degrees, short, side="right"))
        vectors = np.zeros((system.dimension, 1))
        vectors[0, 0] = 1.0
        kept = vectors
        for size in range(1, long + 1):
            vectors = np.hstack([system.operators[letter] @ vectors for letter in self.letters])
            if size == short:
                kept = vectors
        return np.ascontiguousarray(kept[:dimension].T), np.ascontiguousarray(vectors[:dimension].T)


def _pair_products(first: FloatArray, second: FloatArray, left: CodeArray, right: CodeArray) -> FloatArray:
    """``result[k] = first[left[k]] . second[right[k]]``: one matrix product a block of rows where pairs are dense."""
    result = np.empty(len(left))
    order = np.argsort(left, kind="stable")
    rows, starts = np.unique(left[order], return_index=True)
    bounds = np.append(starts, len(left))
    block = max(1, (1 << 22) // max(1, len(second)))
    for low in range(0, len(rows), block):
        high = min(low + block, len(rows))
        members = order[bounds[low] : bounds[high]]
        if 4 * len(members) > (high - low) * len(second):
            gram = first[rows[low:high]] @ second.T
            result[members] = gram[np.searchsorted(rows[low:high], left[members]), right[members]]
            continue
        for row in range(low, high):
            one = order[bounds[row] : bounds[row + 1]]
            result[one] = second[right[one]] @ first[rows[row]]
    return result


__all__ = ["CompressedOperators", "FreeFamily"]
