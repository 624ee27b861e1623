"""The joint law of given matrices at finite d: normalized traces of their products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.records import record
from aimtheory.spectra.joint_law import CodeArray, JointLaw, dense
from aimtheory.spectra.law import FloatArray
from aimtheory.words import Representation

_BUDGET = 1 << 25
"""Floats that the cached products of one call may take (256 MiB)."""


@record("matrix-family")
@dataclass(frozen=True, init=False, eq=False)
class MatrixFamily(ByValue, JointLaw):
    """Letters that are (d, d) real matrices; ``moment(word) = Tr(product)/d``, exact at this d up to rounding.

    For empirical initial conditions. Matrices need not be symmetric (give a transpose as a letter of its own).
    ``InputError`` when a shape differs or an entry is not finite.

    >>> MatrixFamily({"A": [[0.0, 1.0], [1.0, 0.0]]}).moment(["A", "A"])
    1.0
    """

    names: tuple[str, ...]
    arrays: tuple[FloatArray, ...]

    def __init__(self, matrices: Mapping[str, ArrayLike]) -> None:
        if not matrices:
            raise InputError("a matrix family needs at least one letter; got none")
        arrays: list[FloatArray] = []
        for name, value in matrices.items():
            array = real_array(value, f"letter {name!r}", ndim=2)
            if array.shape[0] != array.shape[1]:
                raise InputError(f"letter {name!r} must be a square matrix; got shape {array.shape}")
            if arrays and array.shape != arrays[0].shape:
                raise InputError(f"letter {name!r} has shape {array.shape}; the others have {arrays[0].shape}")
            array.setflags(write=False)
            arrays.append(array)
        object.__setattr__(self, "names", tuple(matrices))
        object.__setattr__(self, "arrays", tuple(arrays))

    def to_record(self) -> dict[str, object]:
        """The matrices by letter."""
        return {"matrices": dict(zip(self.names, self.arrays, strict=True))}

    def __repr__(self) -> str:
        return f"MatrixFamily({', '.join(self.names)}; dim={self.dim})"

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters in the order given."""
        return self.names

    @property
    def dim(self) -> int:
        """The dimension d."""
        return self.arrays[0].shape[0]

    @property
    def given_matrices(self) -> Mapping[str, FloatArray]:
        """The matrices by letter."""
        return dict(zip(self.names, self.arrays, strict=True))

    def matrix(self, letter: str) -> FloatArray:
        """The matrix of a letter."""
        return self.arrays[self.indices([letter])[0]]

    def moment(self, word: Sequence[str]) -> float:
        """``Tr(X_{i_1} ... X_{i_w})/d``; cost d^3 (w/2 products a half, then one entrywise product)."""
        self.indices(word)
        return Representation(self.given_matrices, dim=self.dim, adjoint=None).trace(word)

    def moments_of_codes(self, codes: CodeArray, length: int) -> FloatArray:
        """``Tr/d`` of packed words of one ``length``.

        A word is split as u v. All products v of a length that fits 256 MiB are cached, the products u are walked depth
        first over the distinct prefixes only, and ``Tr(u v)`` is one entrywise product: cost (number of prefixes) d^3
        + (number of words) d^2.
        """
        digits = self.check_codes(codes, length)
        shape = digits.shape[:-1]
        if length == 0 or not digits.size:
            return np.ones(shape)
        flat = digits.reshape(-1, length)
        count, size = len(self.arrays), self.dim**2
        split = length - 1
        while split > length // 2 and count ** (length - split + 1) * size <= _BUDGET:
            split -= 1
        suffixes = np.stack(self.arrays)
        for _ in range(length - split - 1):
            grown = np.stack(self.arrays)[:, None] @ suffixes[None]
            suffixes = grown.reshape(-1, self.dim, self.dim)
        table = suffixes.reshape(len(suffixes), size)
        right = dense(flat[:, split:], count)
        order = np.lexsort(flat[:, :split].T[::-1]) if split else np.arange(len(flat))
        prefixes, starts = np.unique(flat[order][:, :split], axis=0, return_index=True)
        bounds = np.append(starts, len(flat))
        result = np.empty(len(flat))
        stack: list[FloatArray] = [np.eye(self.dim)]
        previous: list[int] = []
        for row, prefix in enumerate(prefixes.tolist()):
            common = 0
            while common < len(previous) and previous[common] == prefix[common]:
                common += 1
            del stack[common + 1 :]
            for index in prefix[common:]:
                stack.append(stack[-1] @ self.arrays[index] if len(stack) > 1 else self.arrays[index])
            previous = prefix
            members = order[bounds[row] : bounds[row + 1]]
            transposed = np.ascontiguousarray(stack[-1].T).ravel()
            wanted = right[members]
            dense_enough = 2 * len(np.unique(wanted)) > len(table)
            result[members] = (table @ transposed)[wanted] if dense_enough else _rows_dot(table, wanted, transposed)
        return result.reshape(shape) / self.dim


def _rows_dot(table: FloatArray, rows: CodeArray, vector: FloatArray) -> FloatArray:
    """``table[rows] @ vector`` without copying the rows."""
    return np.array([table[row] @ vector for row in rows.tolist()])


__all__ = ["MatrixFamily"]
