"""The linear channel with Gaussian noise: y_ab = h_ab + sqrt(Delta_ab) z_ab."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.noise import pair_variances
from aimtheory.bayes.token_pairs import check_forms, check_tokens, pair_index
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray


@record("channel-linear")
@dataclass(frozen=True, init=False)
class LinearChannel(Channel):
    """``y_ab = h_ab + sqrt(Delta_ab) z_ab`` for a <= b: ``qhat = 2 alpha sum D_ab / (D_ab V + Delta_ab)`` ([B]).

    ``noise`` is one variance for all pairs, or a symmetric (T, T) matrix of variances Delta_ab >= 0 (0: seen exactly);
    ``matrix_noise`` adds ``Delta (1 + delta_ab)``, the noise of a fresh GOE matrix in S at every sample.
    ``Psi_out = -(1/2) sum log(2 pi e (D_ab V + Delta_ab))``, the density of y by Lebesgue measure.

    >>> float(LinearChannel(tokens=2, noise=1.0).qhat(q=0.5, variance=0.5, alpha=1.0))
    5.333333333333333
    """

    tokens: int
    noise: tuple[float, ...]

    def __init__(self, tokens: int = 2, noise: ArrayLike = 0.0, matrix_noise: float = 0.0) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        object.__setattr__(self, "noise", pair_variances(noise, matrix_noise, self.tokens))

    def to_record(self) -> dict[str, object]:
        """Tokens, and the symmetric matrix over them."""
        return {"tokens": self.tokens, "noise": np.array(self.noise)[pair_index(self.tokens)]}

    @property
    def name(self) -> str:
        """``linear``."""
        return "linear"

    @property
    def exact_directions(self) -> float:
        """Twice the number of pairs without noise."""
        return 2.0 * sum(value == 0 for value in self.noise)

    def _total(self, spread: FloatArray) -> FloatArray:
        return np.asarray(self.multiplicity * spread[..., None] + np.array(self.noise))

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 sum D_ab / (D_ab V + Delta_ab)``; infinite at V = 0 when a pair has no noise."""
        _, spread = check_overlap(q, variance)
        with np.errstate(divide="ignore"):
            return closed_form((2 * self.multiplicity / self._total(spread)).sum(axis=-1))

    def uninformed_signal(self) -> sp.Expr:
        """``2 sum D_ab / (D_ab + Delta_ab)``; exact for integer variances, with sympy Floats else."""
        total = sp.Integer(0)
        for scale, value in zip(self.multiplicity, self.noise, strict=True):
            delta = sp.Integer(int(value)) if value == int(value) else sp.Float(value, 17)
            total += 2 * sp.Integer(int(scale)) / (int(scale) + delta)
        return total

    def signal_digits(self, variance: mp.mpf) -> mp.mpf:
        """``2 sum D_ab / (D_ab V + Delta_ab)`` to the working precision."""
        pairs = zip(self.multiplicity, self.noise, strict=True)
        return mp.fsum(2 * mp.mpf(scale) / (mp.mpf(scale) * variance + mp.mpf(noise)) for scale, noise in pairs)

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``-(1/2) sum log(2 pi e (D_ab V + Delta_ab))``."""
        _, spread = check_split(q, second_moment)
        with np.errstate(divide="ignore"):
            return closed_form(-0.5 * np.log(2 * np.pi * np.e * self._total(spread)).sum(axis=-1))

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Noisy forms (..., P)."""
        clean = check_forms(forms, self.tokens, "forms")
        return np.asarray(clean + np.sqrt(np.array(self.noise)) * rng.standard_normal(clean.shape))

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``sum log N(y_ab; omega_ab, D_ab V + Delta_ab)``."""
        residual = check_forms(outputs, self.tokens, "outputs") - check_forms(omega, self.tokens, "omega")
        total = self._total(np.asarray(check_variance(variance)))
        return np.asarray(-0.5 * (residual**2 / total + np.log(2 * np.pi * total)).sum(axis=-1))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``(y_ab - omega_ab) / (D_ab V + Delta_ab)``."""
        residual = check_forms(outputs, self.tokens, "outputs") - check_forms(omega, self.tokens, "omega")
        return np.asarray(residual / self._total(np.asarray(check_variance(variance))))


__all__ = ["LinearChannel"]
