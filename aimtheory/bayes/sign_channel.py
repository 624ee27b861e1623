"""One bit for every form: y_ab = sign(h_ab - tau_ab)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.token_pairs import check_forms, check_tokens, pair_index, token_pairs
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_NODES = 240
_REACH = 9.0
_LOG_TWO_PI = math.log(2 * math.pi)


@record("channel-sign")
@dataclass(frozen=True, init=False)
class SignChannel(Channel):
    """``y_ab = sign(h_ab - tau_ab)`` for a <= b. With ``k = (omega - tau)/sqrt(D V) ~ N(-tau/sqrt(D V), q/V)``,

        qhat = (2 alpha / V) sum_{a<=b} E[ phi(k)^2 / (Phi(k) Phi(-k)) ],
        Psi_out = sum_{a<=b} E[ Phi(k) log Phi(k) + Phi(-k) log Phi(-k) ],

    closed one-dimensional integrals (the generalized linear model of a probit, applied to each form). ``thresholds`` is
    one tau or a symmetric (T, T) matrix. The trapezoid rule spans the narrower of the two factors, so it stays
    converged for q << V as for V << q; the error is its change when every other node is left out.

    >>> round(float(SignChannel(tokens=2).qhat(q=0.0, variance=1.0, alpha=1.0)), 12)     # 2T(T+1)/pi
    3.819718634205
    """

    tokens: int
    thresholds: tuple[float, ...]

    def __init__(self, tokens: int = 2, thresholds: ArrayLike = 0.0) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        values = real_array(thresholds, "thresholds")
        if values.ndim == 0:
            flat = np.full(self.pairs, float(values))
        elif values.shape == (self.tokens, self.tokens) and np.array_equal(values, values.T):
            flat = np.array([values[a, b] for a, b in token_pairs(self.tokens)])
        else:
            raise InputError(f"thresholds must be a number or a symmetric ({tokens}, {tokens}) matrix")
        object.__setattr__(self, "thresholds", tuple(flat.tolist()))

    def to_record(self) -> dict[str, object]:
        """Tokens, and the symmetric matrix over them."""
        return {"tokens": self.tokens, "thresholds": np.array(self.thresholds)[pair_index(self.tokens)]}

    @property
    def name(self) -> str:
        """``sign``."""
        return "sign"

    @property
    def exact_directions(self) -> float:
        """0: signs never fix h."""
        return 0.0

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``(2/V) sum E[phi^2 / (Phi Phi)]``."""
        overlap, spread = check_overlap(q, variance)
        if np.any((overlap == 0) & (spread == 0)):
            raise InputError("q = V = 0: the matrix would vanish")
        fine, coarse = self._integrals(overlap, spread, _information)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(spread > 0, 2 * fine / spread, np.inf)
            error = np.where(spread > 0, 2 * np.abs(fine - coarse) / spread + 1e-15 * np.abs(value), np.inf)
        return Measured(value, error, "quadrature")

    def uninformed_signal(self) -> sp.Expr:
        """``2 sum phi(k)^2/(Phi(k) Phi(-k))`` at k = tau/sqrt(D); ``2 T (T+1)/pi`` without thresholds."""
        total = sp.Integer(0)
        for scale, value in zip(self.multiplicity, self.thresholds, strict=True):
            tau = sp.Integer(int(value)) if value == int(value) else sp.Float(value, 17)
            k = tau / sp.sqrt(int(scale))
            tail = sp.erfc(sp.Abs(k) / sp.sqrt(2))
            total += 4 * sp.exp(-(k**2)) / (sp.pi * tail * (2 - tail))
        return total

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """Mean log probability of an answer, at most 0."""
        overlap, spread = check_split(q, second_moment)
        fine, coarse = self._integrals(overlap, spread, _negative_entropy)
        return Measured(fine, np.abs(fine - coarse) + 1e-15 * np.abs(fine), "quadrature")

    def _integrals(self, overlap: FloatArray, spread: FloatArray, bracket: object) -> tuple[FloatArray, FloatArray]:
        """Sum over pairs of E[bracket(k)], on all nodes and on every other one."""
        fine, coarse = np.zeros(overlap.shape), np.zeros(overlap.shape)
        kinds: dict[tuple[float, float], int] = {}
        for scale, threshold in zip(self.multiplicity, self.thresholds, strict=True):
            kinds[scale if threshold else 1.0, threshold] = kinds.get((scale if threshold else 1.0, threshold), 0) + 1
        live = (spread > 0) & (overlap > 0)
        still = (spread > 0) & (overlap == 0)
        for (scale, threshold), count in kinds.items():
            if np.any(still):
                point = bracket(-threshold / np.sqrt(scale * spread[still]))  # type: ignore[operator]
                fine[still] += count * point
                coarse[still] += count * point
            if not np.any(live):
                continue
            sigma = np.sqrt(overlap[live] / spread[live])
            center = -threshold / np.sqrt(scale * spread[live])
            low = np.clip(center - _REACH * sigma, -_REACH, _REACH)
            high = np.clip(center + _REACH * sigma, -_REACH, _REACH)
            unit = np.arange(_NODES + 1) / _NODES
            k = low[:, None] + (high - low)[:, None] * unit
            density = np.exp(-0.5 * ((k - center[:, None]) / sigma[:, None]) ** 2)
            density *= ((high - low) / (sigma * math.sqrt(2 * math.pi) * _NODES))[:, None]
            terms = density * bracket(k)  # type: ignore[operator]
            fine[live] += count * terms.sum(axis=1)
            coarse[live] += count * 2 * terms[:, ::2].sum(axis=1)
        return fine, coarse

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:  # noqa: ARG002
        """Signs +-1 of shape (..., P); ``rng`` is not used."""
        clean = check_forms(forms, self.tokens, "forms")
        return np.where(clean >= np.array(self.thresholds), 1.0, -1.0)

    def _margin(
        self, outputs: ArrayLike, omega: ArrayLike, variance: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        signs = check_forms(outputs, self.tokens, "outputs")
        if not np.all(np.abs(signs) == 1):
            raise InputError("sign outputs must be +1 or -1")
        center = check_forms(omega, self.tokens, "omega")
        scale = np.sqrt(self.multiplicity * check_variance(variance))
        return signs, signs * (center - np.array(self.thresholds)) / scale, scale

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``sum log Phi(y_ab (omega_ab - tau_ab)/sqrt(D_ab V))``."""
        return np.asarray(log_ndtr(self._margin(outputs, omega, variance)[1]).sum(axis=-1))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``y phi(k) / (Phi(k) sqrt(D V))``, by logarithms so that no tail underflows."""
        signs, margin, scale = self._margin(outputs, omega, variance)
        return np.asarray(signs * np.exp(-0.5 * margin**2 - 0.5 * _LOG_TWO_PI - log_ndtr(margin)) / scale)


def _information(k: FloatArray) -> FloatArray:
    return np.exp(-(k**2) - _LOG_TWO_PI - log_ndtr(k) - log_ndtr(-k))


def _negative_entropy(k: FloatArray) -> FloatArray:
    return np.asarray(ndtr(k) * log_ndtr(k) + ndtr(-k) * log_ndtr(-k))


__all__ = ["SignChannel"]
