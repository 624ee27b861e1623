"""One data set under approximate message passing: the state of ``amp`` and its iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import Channel, LawPrior
from aimtheory.errors import InputError
from aimtheory.simulate.pair_forms import pair_forms, weighted_outer_sum
from aimtheory.simulate.token_blocks import TokenBlocks
from aimtheory.spectra import denoise_matrix

FloatArray = NDArray[np.float64]

_ROUNDING = 1e3
"""Multiples of the machine epsilon to which the forms are trusted: below its square V means exact recovery."""

_BLIND = 1e-12
"""qhat Q0 up to which the output is taken to say nothing."""


class AmpState:
    """AMP on one data set: ``step()`` makes an iteration; works on data without a teacher.

    With ``damping`` c, omega and the V that enters the channel are c old + (1 - c) new: the fixed point is the same.
    ``estimates`` S_hat has shape (count, d, d), ``variance`` V and ``qhat`` shape (count,), ``omega`` and ``gradient``
    shape (n, count, P). ``change`` is the root mean square over samples of (new omega - old omega)/sqrt(D Q0), new
    omega taken before damping; infinite before the second iteration.
    """

    def __init__(
        self,
        channel: Channel,
        priors: Sequence[LawPrior],
        tokens: TokenBlocks,
        outputs: Any,
        damping: float = 0.0,
    ) -> None:
        if tokens.tokens != channel.tokens:
            raise InputError(f"the data has {tokens.tokens} tokens a sample, the channel {channel.tokens}")
        if len(outputs) != tokens.samples:
            raise InputError(f"{len(outputs)} outputs were given for {tokens.samples} samples")
        if not 0 <= damping < 1:
            raise InputError(f"damping = {damping} must lie in [0, 1): the weight of the old omega")
        self.channel, self.priors, self.tokens, self.outputs = channel, tuple(priors), tokens, outputs
        self.damping = float(damping)
        dim = tokens.dim
        self.estimates = np.stack([prior.mean * np.eye(dim) for prior in priors])
        self.variance = np.array([prior.second_moment - prior.mean_square for prior in priors])
        self.used_variance = self.variance.copy()
        self.second_moment = np.array([prior.second_moment for prior in priors])
        self.qhat = np.zeros(len(priors))
        shape = (tokens.samples, len(priors), channel.pairs)
        self.omega = np.zeros(shape)
        self.gradient = np.zeros(shape)
        self.change = math.inf
        self._started = False

    @property
    def dim(self) -> int:
        """d."""
        return self.tokens.dim

    def step(self) -> bool:
        """One iteration; False, with the estimates unchanged, when a number was not finite."""
        count, dim, samples = len(self.priors), self.dim, self.tokens.samples
        multiplicity = self.channel.multiplicity
        keep = self.damping if self._started else 0.0
        used = keep * self.used_variance + (1 - keep) * self.variance
        onsager = multiplicity * self.variance[:, None]
        scale = multiplicity * self.second_moment[:, None]
        sums = np.zeros((count, dim, dim))
        energy, diagonal = np.zeros(count), np.zeros(count)
        moved = 0.0
        for rows, block in self.tokens:
            omega = np.stack([pair_forms(block, estimate) for estimate in self.estimates], axis=1)
            omega -= onsager * self.gradient[rows]
            if not np.isfinite(omega).all():
                return False
            moved += float(((omega - self.omega[rows]) ** 2 / scale).sum())
            if keep:
                omega *= 1 - keep
                omega += keep * self.omega[rows]
            gradient = self._channel_gradient(rows, omega, used)
            if not np.isfinite(gradient).all():
                return False
            self.omega[rows], self.gradient[rows] = omega, gradient
            energy += (multiplicity * gradient**2).sum(axis=(0, 2))
            diagonal += gradient[:, :, multiplicity == 2].sum(axis=(0, 2))
            for k in range(count):
                sums[k] += weighted_outer_sum(block, gradient[:, k])
        qhat = 2 * energy / dim**2
        if not np.isfinite(qhat).all():
            return False
        fresh = np.empty_like(self.estimates)
        variance = np.empty_like(self.variance)
        for k, prior in enumerate(self.priors):
            if qhat[k] * self.second_moment[k] <= _BLIND:
                # The output says nothing yet, up to rounding: the posterior is the prior.
                fresh[k] = prior.mean * np.eye(dim)
                variance[k] = prior.second_moment - prior.mean_square
                continue
            sums[k][np.diag_indices(dim)] -= diagonal[k]
            observed = self.estimates[k] + (2 / (dim**1.5 * qhat[k])) * sums[k]
            if not np.isfinite(observed).all():
                return False
            fresh[k] = denoise_matrix(prior.law, float(qhat[k]), observed)
            variance[k] = float(prior.mmse(qhat[k]))
        if not (np.isfinite(fresh).all() and np.all(variance > 0)):
            return False
        self.estimates, self.variance, self.used_variance, self.qhat = fresh, variance, used, qhat
        if self._started:
            self.change = math.sqrt(moved / (samples * count * self.channel.pairs))
        self._started = True
        return True

    def _channel_gradient(self, rows: slice, omega: FloatArray, variance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported, not warned about
            if self.channel.indices == 1:
                return self.channel.gradient(self.outputs[rows], omega[:, 0], float(variance[0]))[:, None]
            return np.asarray(self.channel.gradient(self.outputs[rows], omega, variance))  # type: ignore[arg-type]

    @property
    def exact(self) -> bool:
        """True when every V is below what the rounding of the forms can resolve."""
        floor = (_ROUNDING * float(np.finfo(self.tokens.dtype).eps)) ** 2
        return bool(np.all(self.variance <= floor * self.second_moment))

    @property
    def counts_enough(self) -> bool:
        """True when the exactly known combinations of forms are as many as the parameters, so that V = 0 can be true.

        Below, V = 0 means that the algorithm fell for a matrix that fits the data without being the teacher.
        """
        known = self.tokens.samples / self.dim**2 * self.channel.exact_directions
        return known >= 0.98 * sum(float(prior.degrees_of_freedom) for prior in self.priors)

    def measure(self, teachers: FloatArray) -> dict[str, FloatArray]:
        """The values of ``AmpRun`` against teachers (count, d, d), each of shape (count,)."""
        dim = self.dim
        count = len(self.priors)
        return {
            "overlap": np.einsum("kij,kij->k", teachers, self.estimates) / dim,
            "self_overlap": np.einsum("kij,kij->k", self.estimates, self.estimates) / dim,
            "mse": ((self.estimates - teachers) ** 2).sum(axis=(1, 2)) / dim,
            "variance": self.variance.copy(),
            "qhat": self.qhat.copy(),
            "change": np.full(count, self.change if math.isfinite(self.change) else np.nan),
        }


__all__ = ["AmpState"]
