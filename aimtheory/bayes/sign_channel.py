"""One bit for every form: y_ab = sign(h_ab - tau_ab), clean or seen through noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.noise import pair_variances
from aimtheory.bayes.seen_sign import SeenSign
from aimtheory.bayes.token_pairs import check_forms, check_tokens, pair_index, token_pairs
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_NODES = 240
_REACH = 9.0


@record("channel-sign")
@dataclass(frozen=True, init=False)
class SignChannel(Channel):
    """``y_ab = sign(h_ab + noise - tau_ab)`` for a <= b, flipped with probability ``flips``, plus ``output_noise``.

    With ``S_ab = D_ab V + Delta_ab`` and ``k = (omega - tau)/sqrt(S) ~ N(-tau/sqrt(S), D q/S)``,

        qhat = 2 alpha sum_{a<=b} (D/S) E[ I(k) ],      I = phi(k)^2 / (Phi(k) Phi(-k))    when the sign is seen,
        Psi_out = sum_{a<=b} E[ Phi(k) log Phi(k) + Phi(-k) log Phi(-k) ]                  (likewise),

    closed one-dimensional integrals (the generalized linear model of a probit, applied to each form); I and the entropy
    of what is seen of a sign otherwise are those of ``SeenSign``. ``thresholds`` is one tau or a symmetric (T, T)
    matrix, ``noise`` (one variance Delta or a matrix) and ``matrix_noise`` (variances Delta (1 + delta_ab)) act
    before the sign, ``flips`` and ``output_noise`` (a variance) after it. The trapezoid rule spans the narrower of
    the two factors, so it stays converged for q << V as for V << q; the error is its change when every other node is
    left out.

    >>> round(float(SignChannel(tokens=2).qhat(q=0.0, variance=1.0, alpha=1.0)), 12)     # 2T(T+1)/pi
    3.819718634205
    >>> round(float(SignChannel(2, flips=0.1).signal(0.0, 1.0)) / 3.819718634205, 12)    # (1 - 2 flips)^2
    0.64
    """

    tokens: int
    thresholds: tuple[float, ...]
    noise: tuple[float, ...]
    seen: SeenSign

    def __init__(
        self,
        tokens: int = 2,
        thresholds: ArrayLike = 0.0,
        noise: ArrayLike = 0.0,
        matrix_noise: float = 0.0,
        flips: float = 0.0,
        output_noise: float = 0.0,
    ) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        values = real_array(thresholds, "thresholds")
        if values.ndim == 0:
            flat = np.full(self.pairs, float(values))
        elif values.shape == (self.tokens, self.tokens) and np.array_equal(values, values.T):
            flat = np.array([values[a, b] for a, b in token_pairs(self.tokens)])
        else:
            raise InputError(f"thresholds must be a number or a symmetric ({tokens}, {tokens}) matrix")
        object.__setattr__(self, "thresholds", tuple(flat.tolist()))
        object.__setattr__(self, "noise", pair_variances(noise, matrix_noise, self.tokens))
        object.__setattr__(self, "seen", SeenSign(flips, output_noise))

    def to_record(self) -> dict[str, object]:
        """Tokens, the symmetric matrices of thresholds and of noise variances, flips and output noise."""
        index = pair_index(self.tokens)
        matrices = {"thresholds": np.array(self.thresholds)[index], "noise": np.array(self.noise)[index]}
        seen = {"flips": self.seen.flips, "output_noise": self.seen.output_noise}
        return {"tokens": self.tokens, **matrices, **seen}

    @property
    def name(self) -> str:
        """``sign``."""
        return "sign"

    @property
    def exact_directions(self) -> float:
        """0: signs never fix h."""
        return 0.0

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 sum (D/S) E[I(k)]``."""
        overlap, spread = check_overlap(q, variance)
        fine, coarse = self._integrals(overlap, spread, self.seen.information, weighted=True)
        with np.errstate(invalid="ignore"):
            error = np.where(np.isfinite(fine), np.abs(fine - coarse), np.inf)
        return Measured(fine, error + self.seen.error * np.abs(fine), "quadrature")

    def uninformed_signal(self) -> sp.Expr | None:
        """``2 sum (D/S) phi(k)^2/(Phi(k) Phi(-k))`` at k = tau/sqrt(S), V = 1; ``2 T (T+1)/pi`` when clean.

        With flips ``Phi Phi`` is replaced by P(1 - P); None with output noise.
        """
        if self.seen.output_noise:
            return None
        total = sp.Integer(0)
        flips = _exact(self.seen.flips)
        keep = 1 - 2 * flips
        for scale, value, noise in zip(self.multiplicity, self.thresholds, self.noise, strict=True):
            variance = int(scale) + _exact(noise)
            k = _exact(value) / sp.sqrt(variance)
            # Twice the smaller chance, so that 4 P (1 - P) does not cancel.
            low = 2 * flips + keep * sp.erfc(sp.Abs(k) / sp.sqrt(2))
            total += 4 * int(scale) / variance * keep**2 * sp.exp(-(k**2)) / (sp.pi * low * (2 - low))
        return total

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """Mean log probability of an answer, at most 0; a density with output noise."""
        overlap, spread = check_split(q, second_moment)
        fine, coarse = self._integrals(overlap, spread, self.seen.negative_entropy, weighted=False)
        return Measured(fine, np.abs(fine - coarse) + self.seen.error * np.abs(fine), "quadrature")

    def _integrals(
        self, overlap: FloatArray, spread: FloatArray, bracket: Callable[[FloatArray], FloatArray], weighted: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Sum over pairs of E[bracket(k)], times 2 D/S if ``weighted``, on all nodes and on every other one."""
        fine, coarse = np.zeros(overlap.shape), np.zeros(overlap.shape)
        kinds: dict[tuple[float, float, float], int] = {}
        for kind in zip(self.multiplicity.tolist(), self.thresholds, self.noise, strict=True):
            if kind[1] == kind[2] == 0:
                kind = (1.0, 0.0, 0.0)
            kinds[kind] = kinds.get(kind, 0) + 1
        for (scale, threshold, noise), count in kinds.items():
            total = scale * spread + noise
            if np.any((total == 0) & (overlap == 0)):
                raise InputError("q = V = 0: the matrix would vanish")
            with np.errstate(divide="ignore"):
                factor = count * (2 * scale / total if weighted else np.ones(total.shape))
            still, live = (total > 0) & (overlap == 0), (total > 0) & (overlap > 0)
            if weighted:
                fine[total == 0] = coarse[total == 0] = np.inf
            else:
                # At V = 0 without noise every sign is known; what remains is the entropy of its output noise.
                certain = bracket(np.full(1, 40.0))[0]
                fine[total == 0] += count * certain
                coarse[total == 0] += count * certain
            point = bracket(-threshold / np.sqrt(total[still]))
            fine[still] += factor[still] * point
            coarse[still] += factor[still] * point
            if not np.any(live):
                continue
            sigma = np.sqrt(scale * overlap[live] / total[live])
            center = -threshold / np.sqrt(total[live])
            reach = _REACH if weighted or (not self.seen.output_noise and not self.seen.flips) else np.inf
            low = np.clip(center - _REACH * sigma, -reach, reach)
            high = np.clip(center + _REACH * sigma, -reach, reach)
            unit = np.arange(_NODES + 1) / _NODES
            k = low[:, None] + (high - low)[:, None] * unit
            density = np.exp(-0.5 * ((k - center[:, None]) / sigma[:, None]) ** 2)
            density *= ((high - low) / (sigma * math.sqrt(2 * math.pi) * _NODES))[:, None]
            terms = density * bracket(k)
            fine[live] += factor[live] * terms.sum(axis=1)
            coarse[live] += factor[live] * 2 * terms[:, ::2].sum(axis=1)
        return fine, coarse

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:
        """Signs +-1 of shape (..., P), or real numbers with output noise; ``rng`` is used where there is noise."""
        clean = check_forms(forms, self.tokens, "forms")
        if any(self.noise):
            if rng is None:
                raise InputError("this sign channel is noisy: pass a Generator as rng")
            clean = clean + np.sqrt(np.array(self.noise)) * rng.standard_normal(clean.shape)
        return self.seen.sample(np.where(clean >= np.array(self.thresholds), 1.0, -1.0), rng)

    def _margin(
        self, outputs: ArrayLike, omega: ArrayLike, variance: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        seen = check_forms(outputs, self.tokens, "outputs")
        if not self.seen.output_noise and not np.all(np.abs(seen) == 1):
            raise InputError("sign outputs must be +1 or -1")
        center = check_forms(omega, self.tokens, "omega")
        scale = np.sqrt(self.multiplicity * check_variance(variance) + np.array(self.noise))
        return seen, (center - np.array(self.thresholds)) / scale, scale

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``sum log p(y_ab | k_ab)``; clean: ``sum log Phi(y_ab k_ab)``."""
        seen, k, _ = self._margin(outputs, omega, variance)
        return np.asarray(self.seen.log_partition(seen, k).sum(axis=-1))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``d log p(y_ab | k_ab)/dk / sqrt(S)``; clean: ``y phi(k) / (Phi(y k) sqrt(S))``."""
        seen, k, scale = self._margin(outputs, omega, variance)
        return np.asarray(self.seen.slope(seen, k) / scale)


def _exact(value: float) -> sp.Expr:
    """An integer as such, another float with its digits."""
    return sp.Integer(int(value)) if value == int(value) else sp.Float(value, 17)


__all__ = ["SignChannel"]
