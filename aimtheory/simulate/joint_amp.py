"""AMP of several matrices seen through one output: the algorithm whose state evolution is matrix-valued.

    omega^k_ab = Tr(X_ab S_hat_k) - D_ab sum_l V_kl g^l_ab,    g = grad log Z(y, omega, V),
    qhat_kl    = 2 alpha < sum_{a<=b} D_ab g^k_ab g^l_ab >,
    T_k        = sum_l qhat_kl S_hat_l + (2/d) sum_mu sum_{a<=b} g^k_ab X_ab,    S_hat = E[S | T],   V = MMSE(qhat),

with the joint denoiser of ``JointPrior``: exact, or the best linear one where its class says so. Heads that the output
cannot tell apart start from slightly different matrices, or they would stay equal for ever.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import JointPrior, LawPrior, MultiIndexStateEvolution
from aimtheory.bayes.joint_channel import as_joint_channel
from aimtheory.simulate.amp_state import AmpState
from aimtheory.simulate.pair_forms import pair_forms, weighted_outer_sum
from aimtheory.simulate.token_blocks import TokenBlocks
from aimtheory.spectra import GOE

FloatArray = NDArray[np.float64]

_SPLIT = 0.003
"""Norm e of the first estimates of equal heads, in units of the prior's by d. Their overlap m with the teachers is a
fluctuation e/d, their own norm q = e^2, and both grow at one rate: below 1/d, m > q almost surely; above it the start
is noise that the algorithm, which assumes m = q, takes for signal.
"""

_START = 1e-3
"""The difference from which state evolution starts for such heads."""


class JointAmpState(AmpState):
    """``AmpState`` of K >= 2 matrices: ``errors`` is V (K, K), ``conjugate`` qhat (K, K).

    For exchangeable heads qhat is averaged over permutations, as it is in the limit, and ``measure`` matches estimates
    to teachers by the assignment of largest overlap: the order of such heads means nothing.
    """

    def __init__(
        self,
        channel: Any,
        priors: Sequence[LawPrior],
        tokens: TokenBlocks,
        outputs: Any,
        damping: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(channel, priors, tokens, outputs, damping)
        self.joint = as_joint_channel(channel)
        self.prior = JointPrior(priors)
        self.errors = self.prior.spread
        self.used_errors = self.errors.copy()
        self.conjugate = np.zeros_like(self.errors)
        self.symmetric = self.joint.exchangeable and self.prior.exchangeable
        if self.symmetric:
            noise = np.random.default_rng(0) if rng is None else rng
            scale = math.sqrt(self.errors[0, 0])
            start = [_SPLIT / self.dim * scale * GOE(1).sample(self.dim, noise) for _ in priors]
            self.estimates = self.estimates + np.stack(start)

    def step(self) -> bool:
        """One iteration; False, with the estimates unchanged, when a number was not finite."""
        count, dim, samples = len(self.priors), self.dim, self.tokens.samples
        multiplicity = self.joint.multiplicity
        keep = self.damping if self._started else 0.0
        used = keep * self.used_errors + (1 - keep) * self.errors
        scale = multiplicity * self.second_moment[:, None]
        sums = np.zeros((count, dim, dim))
        energy, diagonal = np.zeros((count, count)), np.zeros(count)
        moved = 0.0
        for rows, block in self.tokens:
            omega = np.stack([pair_forms(block, estimate) for estimate in self.estimates], axis=1)
            omega -= multiplicity * np.einsum("kl,nlp->nkp", self.errors, self.gradient[rows])
            if not np.isfinite(omega).all():
                return False
            moved += float(((omega - self.omega[rows]) ** 2 / scale).sum())
            omega = keep * self.omega[rows] + (1 - keep) * omega
            with np.errstate(over="ignore", invalid="ignore"):
                gradient = self.joint.gradient(self.outputs[rows], omega, used)
            if not np.isfinite(gradient).all():
                return False
            self.omega[rows], self.gradient[rows] = omega, gradient
            energy += np.einsum("p,nkp,nlp->kl", multiplicity, gradient, gradient)
            diagonal += gradient[:, :, multiplicity == 2].sum(axis=(0, 2))
            for k in range(count):
                sums[k] += weighted_outer_sum(block, gradient[:, k])
        qhat = 2 * energy / dim**2
        if self.symmetric:
            off = qhat[~np.eye(count, dtype=bool)].mean()
            qhat = np.full_like(qhat, off) + (np.trace(qhat) / count - off) * np.eye(count)
        sums[:, np.arange(dim), np.arange(dim)] -= diagonal[:, None]
        observed = np.tensordot(qhat, self.estimates, axes=1) + (2 / dim**1.5) * sums
        if not np.isfinite(observed).all():
            return False
        fresh, errors = self.prior.denoise(qhat, observed), self.prior.error_matrix(qhat)
        if not (np.isfinite(fresh).all() and np.all(np.diagonal(errors) > 0)):
            return False
        self.estimates, self.errors, self.used_errors, self.conjugate = fresh, errors, used, qhat
        self.variance, self.qhat = np.diagonal(errors).copy(), np.diagonal(qhat).copy()
        if self._started:
            self.change = math.sqrt(moved / (samples * count * self.joint.pairs))
        self._started = True
        return True

    def measure(self, teachers: FloatArray) -> dict[str, FloatArray]:
        """The values of ``AmpRun`` against teachers (count, d, d), each of shape (count,)."""
        if self.symmetric:
            overlap = np.einsum("kij,lij->kl", teachers, self.estimates)
            places = range(len(teachers))
            best = max(itertools.permutations(places), key=lambda order: sum(overlap[k, order[k]] for k in places))
            own, self.estimates = self.estimates, self.estimates[list(best)]
            result = super().measure(teachers)
            self.estimates = own
            return result
        return super().measure(teachers)


def joint_state_evolution(
    channel: Any, priors: Sequence[LawPrior], alpha: float, steps: int, damping: float
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Overlap, MMSE and qhat of every matrix at iterations 0..steps, and the MMSE of the fixed point.

    Heads that the output cannot tell apart start with a small difference, as ``JointAmpState`` does: where the
    symmetric solution is unstable the specialized one is reached.
    """
    evolution = MultiIndexStateEvolution(priors, channel)
    spread = evolution.prior.spread
    split = evolution.channel.exchangeable and evolution.prior.exchangeable
    variance = used = (1 - _START) * spread if split else spread
    start = variance
    variances, qhats = [np.diagonal(spread)], [np.zeros(len(spread))]
    for step in range(steps):
        used = damping * used + (1 - damping) * variance if step else variance
        qhat = alpha * evolution.signal(used)[0]
        variance = evolution.prior.error_matrix(qhat)
        variances.append(np.diagonal(variance))
        qhats.append(np.diagonal(qhat))
    mse, top = np.array(variances), np.diagonal(evolution.prior.second_moment)
    theory = evolution.solve(alpha, start=start if split else None).mmse
    return {"overlap": top - mse, "mse": mse, "qhat": np.array(qhats)}, theory


__all__ = ["JointAmpState", "joint_state_evolution"]
