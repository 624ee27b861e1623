"""The softmax channel: y fixes every form, or the form with noise, up to one constant, whatever the temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.noise import pair_variances
from aimtheory.bayes.token_pairs import as_matrix, check_forms, check_tokens, pair_index, token_pairs
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

Number = TypeVar("Number")


def softmax_directions(tokens: Number) -> Number:
    """``K_T = T^2 + T - 2``, twice the number of independent differences of forms; also for a sympy symbol.

    >>> softmax_directions(2)
    4
    """
    return tokens**2 + tokens - 2  # type: ignore[operator]


@record("channel-softmax")
@dataclass(frozen=True, init=False)
class SoftmaxChannel(Channel):
    """``y_ab = exp(beta h_ab) / sum_c exp(beta h_ac)``, rows over b; h with Gaussian noise of variances Delta_ab, or
    none.

    Without noise ``qhat = alpha K_T / V`` with ``K_T = T^2 + T - 2``, exactly and for every beta ([B]; derived in
    derivation 12). y gives ``h + noise`` up to a constant, so with ``S_ab = D_ab V + Delta_ab``

        qhat = 2 alpha [ sum D_ab/S_ab - (sum D_ab/S_ab^2) / (sum 1/S_ab) ]        (sums over a <= b; ours).

    ``noise`` (one variance or a symmetric matrix) and ``matrix_noise`` (variances ``Delta (1 + delta_ab)``: V + Delta
    for V) act on the forms, before the softmax. Noise on the outputs has no closed form: see ``GeneralChannel``. Z is
    the density of the P - 1 log ratios ``beta (h_ab - h_TT)``; with N = P - 1

        Psi_out = -(N/2) log(2 pi e beta^2) - (1/2) log( prod S_ab sum 1/S_ab ).

    >>> float(SoftmaxChannel(tokens=2).qhat(q=0.5, variance=0.25, alpha=0.1))
    1.6
    >>> float(SoftmaxChannel(tokens=2, matrix_noise=0.25).qhat(q=0.5, variance=0.25, alpha=0.1))
    0.8
    """

    tokens: int
    inverse_temperature: float
    noise: tuple[float, ...]

    def __init__(
        self,
        tokens: int = 2,
        inverse_temperature: float = 1.0,
        noise: ArrayLike = 0.0,
        matrix_noise: float = 0.0,
    ) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        beta = float(real_array(inverse_temperature, "inverse_temperature"))
        if beta <= 0:
            raise InputError(f"inverse_temperature = {beta} must be finite and > 0; at 0 the output holds nothing")
        object.__setattr__(self, "inverse_temperature", beta)
        object.__setattr__(self, "noise", pair_variances(noise, matrix_noise, self.tokens))

    def to_record(self) -> dict[str, object]:
        """Tokens, inverse temperature, and the symmetric matrix of noise variances."""
        noise = np.array(self.noise)[pair_index(self.tokens)]
        return {"tokens": self.tokens, "inverse_temperature": self.inverse_temperature, "noise": noise}

    @property
    def name(self) -> str:
        """``softmax``."""
        return "softmax"

    @property
    def exact_directions(self) -> float:
        """``K_T`` without noise: twice the number of forms seen exactly, less one."""
        return 2.0 * max(sum(value == 0 for value in self.noise) - 1, 0)

    def _total(self, spread: FloatArray) -> FloatArray:
        """``S_ab``, shape (..., P)."""
        return np.asarray(self.multiplicity * spread[..., None] + np.array(self.noise))

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``K_T / V`` without noise; infinite at V = 0 where two forms have none."""
        _, spread = check_overlap(q, variance)
        if not any(self.noise):
            with np.errstate(divide="ignore"):
                return closed_form(self.exact_directions / spread)
        live = np.where(spread > 0, spread, 1.0)
        inverse = 1 / self._total(live)
        # 1 - (1/S_ab)/(sum 1/S), summed without a difference that would cancel.
        others = inverse @ (1 - np.eye(self.pairs)) / inverse.sum(axis=-1, keepdims=True)
        value = 2 * (self.multiplicity * inverse * others).sum(axis=-1)
        return closed_form(np.where(spread > 0, value, self._without_variance()))

    def _without_variance(self) -> float:
        """The signal at V = 0, where one form without noise is the reference of all others."""
        noise = np.array(self.noise)
        exact = noise == 0
        if exact.sum() > 1:
            return math.inf
        if exact.sum() == 1:
            return float(2 * ((self.multiplicity[~exact] + self.multiplicity[exact]) / noise[~exact]).sum())
        inverse = 1 / noise
        return float(2 * ((self.multiplicity * inverse).sum() - (self.multiplicity * inverse**2).sum() / inverse.sum()))

    def uninformed_signal(self) -> sp.Expr:
        """The signal at V = 1: ``K_T`` without noise; exact for integer variances, with sympy Floats else."""
        if not any(self.noise):
            return sp.Integer(softmax_directions(self.tokens))
        scales = [int(scale) for scale in self.multiplicity]
        noises = [sp.Integer(int(v)) if v == int(v) else sp.Float(v, 17) for v in self.noise]
        inverse = [1 / (scale + noise) for scale, noise in zip(scales, noises, strict=True)]
        first = sum(scale * value for scale, value in zip(scales, inverse, strict=True))
        second = sum(scale * value**2 for scale, value in zip(scales, inverse, strict=True))
        return 2 * (first - second / sum(inverse))

    def signal_digits(self, variance: mp.mpf) -> mp.mpf:
        """``K_T / V``, with noise the sum over pairs, to the working precision."""
        if not any(self.noise):
            return mp.mpf(self.exact_directions) / variance
        pairs = zip(self.multiplicity, self.noise, strict=True)
        both = [(mp.mpf(scale), 1 / (mp.mpf(scale) * variance + mp.mpf(noise))) for scale, noise in pairs]
        total = mp.fsum(inverse for _, inverse in both)
        squares = mp.fsum(scale * inverse**2 for scale, inverse in both)
        return 2 * (mp.fsum(scale * inverse for scale, inverse in both) - squares / total)

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``-(N/2) log(2 pi e beta^2) - (1/2) log(prod S sum 1/S)``, N = P - 1; +inf where V = 0 fixes two forms."""
        _, spread = check_split(q, second_moment)
        return closed_form(-0.5 * (self.pairs - 1) - 0.5 * self._log_normalization(spread))

    def _log_normalization(self, spread: FloatArray) -> FloatArray:
        """``log det(2 pi beta^2 A S A^T)``, A the differences to the last form."""
        total = self._total(spread)
        count = self.pairs - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(total).sum(axis=-1) + np.log((1 / total).sum(axis=-1))
            # One form without noise at V = 0: the product of the others.
            smallest = total.min(axis=-1)
            others = np.log(np.sort(total, axis=-1)[..., 1:]).sum(axis=-1)
        logs = np.where(smallest > 0, logs, others)
        return np.asarray(count * math.log(2 * math.pi * self.inverse_temperature**2) + logs)

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:
        """The softmax matrices (..., T, T) of forms (..., P); ``rng`` is used where there is noise."""
        seen = check_forms(forms, self.tokens, "forms")
        if any(self.noise):
            if rng is None:
                raise InputError("this softmax channel is noisy: pass a Generator as rng")
            seen = seen + np.sqrt(np.array(self.noise)) * rng.standard_normal(seen.shape)
        scores = self.inverse_temperature * as_matrix(seen, self.tokens)
        scores = scores - scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def differences(self, outputs: ArrayLike) -> FloatArray:
        """``h_ab - h_TT`` of all pairs, (..., P), read back from softmax matrices (..., T, T) with entries > 0."""
        matrices = np.asarray(outputs, dtype=np.float64)
        if matrices.shape[-2:] != (self.tokens, self.tokens):
            raise InputError(
                f"softmax outputs must have shape (..., {self.tokens}, {self.tokens}); got {matrices.shape}"
            )
        if not np.all(np.isfinite(matrices)) or np.any(matrices <= 0):
            raise InputError("a softmax output is 0, negative or not finite: its logarithm, which holds h, is lost")
        logs = np.log(matrices) / self.inverse_temperature
        last = self.tokens - 1
        # Row a gives h_ab - h_aL; the last row ties h_aL to h_LL.
        column = logs[..., last, :] - logs[..., last, last, None]
        full = logs - logs[..., :, last, None] + column[..., :, None]
        pairs = token_pairs(self.tokens)
        return np.stack([full[..., a, b] for a, b in pairs], axis=-1)

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """Log density of the log ratios: Gaussian with mean A omega and covariance A S A^T, A the differences."""
        spread = np.asarray(check_variance(variance))
        residual, weight = self._residual(outputs, omega, spread)
        quadratic = (weight * residual**2).sum(axis=-1)
        return np.asarray(-0.5 * quadratic - 0.5 * self._log_normalization(spread))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``g_ab = (r_ab - r_bar) / S_ab``: r = h - omega up to a constant, r_bar its mean with weights 1/S."""
        residual, weight = self._residual(outputs, omega, np.asarray(check_variance(variance)))
        return np.asarray(weight * residual)

    def _residual(self, outputs: ArrayLike, omega: ArrayLike, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        center = check_forms(omega, self.tokens, "omega")
        weight = 1 / self._total(spread)
        residual = self.differences(outputs) - center
        mean = (weight * residual).sum(axis=-1, keepdims=True) / weight.sum()
        return residual - mean, weight


__all__ = ["SoftmaxChannel", "softmax_directions"]
