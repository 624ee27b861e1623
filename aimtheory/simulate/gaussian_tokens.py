"""Fresh Gaussian tokens: x_1..x_L in R^d with E[x_ia x_jb] = C_ij delta_ab, as a reproducible stream of batches."""

from __future__ import annotations

import math
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError

FloatArray = NDArray[np.floating[Any]]

_PAIRS = 1 << 14
"""Box-Muller pairs a block: the block and its scratch stay in a core's cache."""

_BLOCK = 1 << 16
"""Numbers drawn at once when a batch is smaller: several batches share the overhead of one draw."""

_FLOATS: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


def float_type(dtype: object) -> np.dtype[Any]:
    """``float32`` or ``float64`` as a numpy dtype, else ``InputError``."""
    try:
        name = "None" if dtype is None else np.dtype(dtype).name  # type: ignore[call-overload]
    except TypeError:
        name = str(dtype)
    if name not in _FLOATS:
        raise InputError(f"dtype = {dtype!r} must be one of {', '.join(_FLOATS)}")
    return np.dtype(_FLOATS[name])


def fill_normal(out: FloatArray, bits: np.random.BitGenerator) -> None:
    """Fill a contiguous array of even size with independent N(0, 1) numbers.

    float64: numpy's ziggurat. float32: Box-Muller on 32-bit integers, about three times faster because logarithm,
    sine and cosine are vectorised; its radius ends at sqrt(64 log 2) = 6.66, beyond which a normal number falls with
    probability 3e-11.
    """
    flat = out.reshape(-1)
    if out.dtype != np.float32:
        np.random.Generator(bits).standard_normal(out=flat)
        return
    scale, minus_two = np.float32(2.0**-31), np.float32(-2 * math.log(2))
    for start in range(0, flat.size, 2 * _PAIRS):
        pairs = min(2 * _PAIRS, flat.size - start) // 2
        integers = bits.random_raw(pairs).view(np.int32)
        first, second = flat[start : start + pairs], flat[start + pairs : start + 2 * pairs]
        # |integer| + 1/2 in units of 2^31 is uniform on (0, 1] and fine near 0, where the logarithm needs it.
        radius = integers[:pairs].astype(np.float32)
        np.abs(radius, out=radius)
        radius += np.float32(0.5)
        radius *= scale
        np.log2(radius, out=radius)
        radius *= minus_two
        # -2 log u >= 0, and -0 where u rounds to 1.
        np.abs(radius, out=radius)
        np.sqrt(radius, out=radius)
        second[:] = integers[pairs:]
        second *= np.float32(math.pi * 2.0**-31)
        np.cos(second, out=first)
        np.sin(second, out=second)
        first *= radius
        second *= radius


def covariance_factor(covariance: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """F of shape (L, rank) with F F^T = C, from the eigenvectors of C, so that a singular C is fine; None for the
    identity.
    """
    if np.array_equal(covariance, np.eye(len(covariance))):
        return None
    eigenvalues, vectors = np.linalg.eigh(covariance)
    kept = eigenvalues > 1e-12 * max(float(eigenvalues[-1]), 0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


def spare_thread() -> bool:
    """True when a thread that draws numbers would not take a core from the matrix products: more than two cores, not
    told to use one.
    """
    asked = [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 2 and "1" not in asked


class GaussianTokens:
    """A stream of fresh batches of tokens, arrays of shape (batch, L, d).

    x_i = sum_a F_ia y_a with C = F F^T and y_a ~ N(0, 1_d). The numbers depend on the seed sequence, the batch size
    and the dtype alone. With ``background`` the next batch is drawn by a thread while the last one is in use (numpy
    releases the interpreter lock); the numbers are the same. A batch is a view of the stream's own buffer: it is
    valid until the next one is asked for. Memory O(batch x L x d).

    >>> tokens = GaussianTokens(dim=3, covariance=np.eye(2), batch=5, dtype="float32", seed=np.random.SeedSequence(0))
    >>> tokens().shape, tokens().dtype.name
    ((5, 2, 3), 'float32')
    """

    def __init__(
        self,
        dim: int,
        covariance: NDArray[np.float64],
        batch: int,
        dtype: object,
        seed: np.random.SeedSequence,
        background: bool = False,
    ) -> None:
        kind = float_type(dtype)
        factor = covariance_factor(covariance)
        self.factor = None if factor is None else factor.astype(kind)
        sources = len(covariance) if factor is None else factor.shape[1]
        self._bits = np.random.SFC64(seed)
        size = batch * sources * dim
        self._count = max(1, _BLOCK // max(size, 1))
        total = self._count * size
        self._shape = (self._count, batch, sources, dim)
        self._buffers = [np.empty(total + total % 2, dtype=kind) for _ in range(2 if background else 1)]
        self._batches = self._buffers[0][:total].reshape(self._shape)
        self._mixed = None if factor is None else np.empty((batch, len(covariance), dim), dtype=kind)
        self._next = self._count
        self._executor = ThreadPoolExecutor(1) if background else None
        self._pending: Future[None] | None = None

    def _refill(self) -> None:
        if self._executor is None:
            fill_normal(self._buffers[0], self._bits)
        else:
            if self._pending is None:
                self._pending = self._executor.submit(fill_normal, self._buffers[0], self._bits)
            self._pending.result()
            # The buffer in hand goes to the back: the thread fills the other one, in the order of the stream.
            self._buffers.reverse()
            self._pending = self._executor.submit(fill_normal, self._buffers[0], self._bits)
        full = self._buffers[-1]
        self._batches = full[: math.prod(self._shape)].reshape(self._shape)
        self._next = 0

    def __call__(self) -> FloatArray:
        """The next batch."""
        if self._next == self._count:
            self._refill()
        batch = self._batches[self._next]
        self._next += 1
        if self._mixed is None or self.factor is None:
            return batch
        np.matmul(self.factor, batch, out=self._mixed)
        return self._mixed


__all__ = ["FloatArray", "GaussianTokens", "covariance_factor", "fill_normal", "float_type", "spare_thread"]
