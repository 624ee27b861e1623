"""Gaussian tokens of a fixed data set, block by block: kept in memory, or drawn anew from their seeds at every pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.errors import InputError
from aimtheory.simulate.gaussian_tokens import FloatArray, fill_normal, float_type

GIBIBYTE = 2**30
_BLOCK_NUMBERS = 1 << 20
"""Numbers of a block: large enough for matrix products, small enough that its few copies do not count."""


class TokenBlocks:
    """``samples`` samples of T tokens x ~ N(0, 1_d), iterated as ``(rows, block)``, block of shape (T, len(rows), d).

    Every block has a seed of its own, so the numbers depend on the seed, d, T and the dtype alone. When all tokens take
    more than ``memory_limit`` GiB they are drawn again at each pass instead of being kept: a random number costs little
    beside the 4 d flops that a pass spends on it. Memory O(min(n T d, limit)) plus one block.

    >>> blocks = TokenBlocks(dim=10, tokens=2, samples=7, dtype="float64", seed=np.random.SeedSequence(0))
    >>> [(rows, block.shape) for rows, block in blocks]
    [(slice(0, 7, None), (2, 7, 10))]
    """

    def __init__(
        self,
        dim: int,
        tokens: int,
        samples: int,
        dtype: object,
        seed: np.random.SeedSequence,
        memory_limit: float = 4.0,
    ) -> None:
        self.dim, self.tokens, self.samples = dim, tokens, samples
        self.dtype = float_type(dtype)
        self.kept = samples * tokens * dim * self.dtype.itemsize <= memory_limit * GIBIBYTE
        self._seed = seed
        self._rows = max(1, min(samples, _BLOCK_NUMBERS // (tokens * dim)))
        self._blocks: list[FloatArray] | None = None
        if self.kept:
            self._blocks = [self._draw(number) for number in range(len(self))]

    @classmethod
    def of(cls, tokens: ArrayLike) -> TokenBlocks:
        """Given tokens of shape (n, T, d), float32 or float64, copied into blocks; ``InputError`` when not finite."""
        array = np.asarray(tokens)
        if array.ndim != 3 or 0 in array.shape:
            raise InputError(f"tokens must have shape (samples, T, d) with no axis of length 0; got {array.shape}")
        array = array.astype(float_type(array.dtype if array.dtype.kind == "f" else "float64"), copy=False)
        if not np.isfinite(array).all():
            raise InputError("tokens have a NaN or infinite entry")
        samples, count, dim = array.shape
        blocks = cls(dim, count, samples, array.dtype, np.random.SeedSequence(0), memory_limit=-1)
        blocks.kept = True
        blocks._blocks = [
            np.ascontiguousarray(array[rows].transpose(1, 0, 2)) for rows in map(blocks._slice, range(len(blocks)))
        ]
        return blocks

    def __len__(self) -> int:
        """The number of blocks."""
        return -(-self.samples // self._rows)

    def __iter__(self) -> Iterator[tuple[slice, FloatArray]]:
        for number in range(len(self)):
            yield self._slice(number), self._draw(number) if self._blocks is None else self._blocks[number]

    def _slice(self, number: int) -> slice:
        return slice(number * self._rows, min((number + 1) * self._rows, self.samples))

    def _draw(self, number: int) -> FloatArray:
        rows = self._slice(number)
        count = self.tokens * (rows.stop - rows.start) * self.dim
        seed = np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, number))
        buffer = np.empty(count + count % 2, dtype=self.dtype)
        fill_normal(buffer, np.random.SFC64(seed))
        return buffer[:count].reshape(self.tokens, -1, self.dim)


__all__ = ["TokenBlocks"]
