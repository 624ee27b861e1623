"""The noiseless softmax channel: y fixes every form up to one common constant, whatever the inverse temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.token_pairs import as_matrix, check_forms, check_tokens, token_pairs
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
@dataclass(frozen=True)
class SoftmaxChannel(Channel):
    """``y_ab = exp(beta h_ab) / sum_c exp(beta h_ac)``, rows over b, no noise.

    ``qhat = alpha K_T / V`` with ``K_T = T^2 + T - 2``, exactly and for every beta ([B]; derived in derivation 12).
    Z is the density of the P - 1 log ratios ``beta (h_ab - h_TT)``; then

        Psi_out = -(K_T/4) log(2 pi e beta^2 V) - (1/2) log(2^{T-1} T^2).

    >>> float(SoftmaxChannel(tokens=2).qhat(q=0.5, variance=0.25, alpha=0.1))
    1.6
    """

    tokens: int = 2
    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", check_tokens(self.tokens))
        beta = float(self.inverse_temperature)
        if not math.isfinite(beta) or beta <= 0:
            raise InputError(f"inverse_temperature = {beta} must be finite and > 0; at 0 the output holds nothing")
        object.__setattr__(self, "inverse_temperature", beta)

    @property
    def name(self) -> str:
        """``softmax``."""
        return "softmax"

    @property
    def exact_directions(self) -> float:
        """``K_T``."""
        return float(softmax_directions(self.tokens))

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``K_T / V``, infinite at V = 0."""
        _, spread = check_overlap(q, variance)
        with np.errstate(divide="ignore"):
            return closed_form(self.exact_directions / spread)

    def uninformed_signal(self) -> sp.Expr:
        """``K_T``."""
        return sp.Integer(softmax_directions(self.tokens))

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``-(K_T/4) log(2 pi e beta^2 V) - (1/2) log(2^{T-1} T^2)``."""
        _, spread = check_split(q, second_moment)
        shift = 0.5 * ((self.tokens - 1) * math.log(2) + 2 * math.log(self.tokens))
        with np.errstate(divide="ignore"):
            log = np.log(2 * math.pi * math.e * self.inverse_temperature**2 * spread)
        return closed_form(-0.25 * self.exact_directions * log - shift)

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:  # noqa: ARG002
        """The softmax matrices (..., T, T) of forms (..., P); ``rng`` is not used."""
        scores = self.inverse_temperature * as_matrix(check_forms(forms, self.tokens, "forms"), self.tokens)
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
        """Log density of the log ratios: Gaussian with mean A omega and covariance V A D A^T, A the differences."""
        spread = check_variance(variance)
        residual, weight = self._residual(outputs, omega)
        quadratic = (weight * residual**2).sum(axis=-1)
        shift = (self.tokens - 1) * math.log(2) + 2 * math.log(self.tokens)
        count = 0.5 * self.exact_directions
        logs = count * math.log(2 * math.pi * spread * self.inverse_temperature**2) + shift
        return np.asarray(-0.5 * quadratic / spread - 0.5 * logs)

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``g_ab = (r_ab - r_bar) / (D_ab V)``: r = h - omega up to a constant, r_bar its mean with weights 1/D."""
        residual, weight = self._residual(outputs, omega)
        return np.asarray(weight * residual / check_variance(variance))

    def _residual(self, outputs: ArrayLike, omega: ArrayLike) -> tuple[FloatArray, FloatArray]:
        center = check_forms(omega, self.tokens, "omega")
        weight = 1 / self.multiplicity
        residual = self.differences(outputs) - center
        mean = (weight * residual).sum(axis=-1, keepdims=True) / weight.sum()
        return residual - mean, weight


__all__ = ["SoftmaxChannel", "softmax_directions"]
