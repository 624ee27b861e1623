"""AMP of cross-attention: one matrix between two independent sequences, denoised in its singular values.

omega_ab = x_a^T S_hat z_b/sqrt(d) - V g_ab,    qhat = 2 alpha < sum_ab g_ab^2 >,
R        = S_hat + 2/(d qhat) sum_mu sum_ab g_ab x_a z_b^T/sqrt(d)         (looks like S + sqrt(2/qhat) Z),
S_hat    = E[S | R],   V = MMSE(qhat).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import CrossAttentionChannel, RectangularPrior
from aimtheory.errors import InputError
from aimtheory.simulate.amp_state import AmpState
from aimtheory.simulate.teacher_data import TeacherData, sample_count
from aimtheory.simulate.token_blocks import TokenBlocks
from aimtheory.spectra import denoise_rectangular

FloatArray = NDArray[np.float64]

_BLIND = 1e-12


def cross_forms(left: NDArray[Any], right: NDArray[Any], matrix: FloatArray) -> FloatArray:
    """``x_a^T S z_b/sqrt(d)``, (n, T L), of tokens (n, T, d) and (n, L, delta d)."""
    samples, count, dim = left.shape
    product = (left.reshape(-1, dim) @ matrix.astype(left.dtype, copy=False)).reshape(samples, count, -1)
    return np.asarray(np.matmul(product, right.transpose(0, 2, 1)).reshape(samples, -1) / math.sqrt(dim), dtype=float)


def cross_teacher_data(
    channel: CrossAttentionChannel,
    prior: RectangularPrior,
    *,
    alpha: float,
    dim: int,
    seed: np.random.SeedSequence,
    dtype: object = "float64",
    memory_limit: float = 4.0,
) -> TeacherData:
    """n = round(alpha d^2) samples: S from the prior, queries in R^d and keys in R^{delta d}, y from the channel.

    The tokens of a sample are one row, queries first. Memory O(n (T + delta L) d) up to ``memory_limit`` GiB.
    """
    count = sample_count(alpha, dim)
    streams = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, n)) for n in range(3)]
    teacher = prior.law.sample(dim, np.random.default_rng(streams[0]))
    width = channel.tokens * dim + channel.keys * teacher.shape[1]
    tokens = TokenBlocks(width, 1, count, dtype, streams[1], memory_limit)
    noise = np.random.default_rng(streams[2])
    parts = []
    for _, block in tokens:
        left, right = split_tokens(block.astype(np.float64, copy=False), channel, dim)
        parts.append(channel.sample(cross_forms(left, right, teacher), noise))
    return TeacherData(channel, dim, tokens, np.concatenate(parts), teacher[None])


def split_tokens(block: NDArray[Any], channel: CrossAttentionChannel, dim: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Queries (n, T, d) and keys (n, L, delta d) of a block (1, n, T d + L delta d)."""
    rows, cut = block[0], channel.tokens * dim
    return rows[:, :cut].reshape(len(rows), channel.tokens, dim), rows[:, cut:].reshape(len(rows), channel.keys, -1)


class CrossAmpState(AmpState):
    """``AmpState`` of one rectangular matrix; estimates have shape (1, d, delta d)."""

    def __init__(
        self,
        channel: CrossAttentionChannel,
        prior: RectangularPrior,
        tokens: TokenBlocks,
        outputs: Any,
        dim: int,
        damping: float = 0.0,
    ) -> None:
        columns = (tokens.dim - channel.tokens * dim) // channel.keys
        if columns < 1 or tokens.dim != channel.tokens * dim + channel.keys * columns:
            raise InputError(
                f"{tokens.dim} numbers a sample do not split into {channel.tokens} queries of {dim} and keys"
            )
        if len(outputs) != tokens.samples:
            raise InputError(f"{len(outputs)} outputs were given for {tokens.samples} samples")
        if not 0 <= damping < 1:
            raise InputError(f"damping = {damping} must lie in [0, 1): the weight of the old omega")
        self.channel, self.priors, self.tokens, self.outputs = channel, (prior,), tokens, outputs  # type: ignore[assignment]
        self.damping, self._rows = float(damping), dim
        self.estimates = np.zeros((1, dim, columns))
        self.variance = np.array([prior.second_moment])
        self.used_variance, self.second_moment = self.variance.copy(), self.variance.copy()
        self.qhat = np.zeros(1)
        self.omega = np.zeros((tokens.samples, channel.pairs))
        self.gradient = np.zeros_like(self.omega)
        self.change = math.inf
        self._started = False

    @property
    def dim(self) -> int:
        """d, the rows of S."""
        return self._rows

    def step(self) -> bool:
        """One iteration; False, with the estimate unchanged, when a number was not finite."""
        dim, prior = self.dim, self.priors[0]
        channel: Any = self.channel
        keep = self.damping if self._started else 0.0
        used = keep * self.used_variance + (1 - keep) * self.variance
        total = np.zeros_like(self.estimates[0])
        energy = moved = 0.0
        for rows, block in self.tokens:
            left, right = split_tokens(block, channel, dim)
            omega = cross_forms(left, right, self.estimates[0]) - float(self.variance[0]) * self.gradient[rows]
            if not np.isfinite(omega).all():
                return False
            moved += float(((omega - self.omega[rows]) ** 2).sum() / self.second_moment[0])
            omega = keep * self.omega[rows] + (1 - keep) * omega
            with np.errstate(over="ignore", invalid="ignore"):
                gradient = channel.gradient(self.outputs[rows], omega, float(used[0]))
            if not np.isfinite(gradient).all():
                return False
            self.omega[rows], self.gradient[rows] = omega, gradient
            energy += float((gradient**2).sum())
            weights = gradient.reshape(len(gradient), channel.tokens, channel.keys).astype(left.dtype, copy=False)
            mixed = np.matmul(weights, right)
            total += left.reshape(-1, dim).T @ mixed.reshape(-1, mixed.shape[-1])
        qhat = 2 * energy / dim**2
        if not math.isfinite(qhat) or qhat * self.second_moment[0] <= _BLIND:
            return False
        observed = self.estimates[0] + (2 / (dim**1.5 * qhat)) * total
        if not np.isfinite(observed).all():
            return False
        fresh = denoise_rectangular(prior.law, 2 / qhat, observed)  # type: ignore[arg-type]
        variance = np.atleast_1d(prior.mmse(qhat))
        if not (np.isfinite(fresh).all() and np.all(variance > 0)):
            return False
        self.estimates, self.variance, self.used_variance, self.qhat = fresh[None], variance, used, np.array([qhat])
        if self._started:
            self.change = math.sqrt(moved / self.omega.size)
        self._started = True
        return True


__all__ = ["CrossAmpState", "cross_forms", "cross_teacher_data", "split_tokens"]
