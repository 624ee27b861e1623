"""A sign that is seen through flips and Gaussian noise: one binary input, known up to Phi(k).

The clean sign is +1 with probability Phi(k). With flips epsilon it is P = epsilon + (1 - 2 epsilon) Phi(k), and

    information   (dP/dk)^2 J(P),  J(P) = sum over or integral of (f_+ - f_-)^2 / (P f_+ + (1 - P) f_-),

f_+- the law of what is seen of +1 and -1: the label itself (J = 1/(P (1 - P))), or it plus Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

from aimtheory.arrays import real_array
from aimtheory.bayes.noise import flip_probability
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray

_LOG_TWO_PI = math.log(2 * math.pi)
_END, _KNOTS = 9.5, 381
_LEAST_NOISE = 1e-2


@dataclass(frozen=True)
class SeenSign:
    """Flips of probability ``flips`` < 1/2, then Gaussian noise of variance ``output_noise`` (0: the label itself).

    With output noise both functions of k are splines through integrals over y, to about 1e-9.
    """

    flips: float = 0.0
    output_noise: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "flips", flip_probability(self.flips, 2))
        noise = real_array(self.output_noise, "output_noise")
        if noise.ndim or not (float(noise) == 0 or float(noise) >= _LEAST_NOISE):
            raise InputError(
                f"output_noise = {self.output_noise!r} must be 0 or at least {_LEAST_NOISE}: below, the label is seen"
            )
        object.__setattr__(self, "output_noise", float(noise))

    @property
    def is_clean(self) -> bool:
        """True when the sign itself is seen."""
        return self.flips == 0 and self.output_noise == 0

    @property
    def error(self) -> float:
        """Relative error of ``information`` and ``negative_entropy``."""
        return 1e-8 if self.output_noise else 1e-15

    def _log_chances(self, k: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``log P`` and ``log (1 - P)``."""
        plus, minus = log_ndtr(k), log_ndtr(-k)
        if self.flips:
            kept, flipped = math.log1p(-self.flips), math.log(self.flips)
            plus, minus = np.logaddexp(kept + plus, flipped + minus), np.logaddexp(kept + minus, flipped + plus)
        return plus, minus

    def information(self, k: FloatArray) -> FloatArray:
        """``(dP/dk)^2 J(P)``."""
        if self.output_noise:
            return np.asarray(np.exp(_splines(self)[0](np.clip(np.abs(k), 0, _END))))
        plus, minus = self._log_chances(k)
        return np.asarray((1 - 2 * self.flips) ** 2 * np.exp(-(k**2) - _LOG_TWO_PI - plus - minus))

    def negative_entropy(self, k: FloatArray) -> FloatArray:
        """``E log p(seen)``: a probability, or with output noise a density."""
        if self.output_noise:
            return np.asarray(_splines(self)[1](np.clip(np.abs(k), 0, _END)))
        plus, minus = self._log_chances(k)
        return np.asarray(np.exp(plus) * plus + np.exp(minus) * minus)

    def log_partition(self, seen: FloatArray, k: FloatArray) -> FloatArray:
        """``log p(seen | k)``."""
        plus, minus = self._log_chances(k)
        one, two = self._log_laws(seen)
        return np.asarray(np.logaddexp(plus + one, minus + two))

    def slope(self, seen: FloatArray, k: FloatArray) -> FloatArray:
        """``d log p(seen | k)/dk``, by logarithms so that no tail underflows."""
        total = self.log_partition(seen, k)
        one, two = self._log_laws(seen)
        density = -0.5 * k**2 - 0.5 * _LOG_TWO_PI
        return np.asarray((1 - 2 * self.flips) * (np.exp(density + one - total) - np.exp(density + two - total)))

    def _log_laws(self, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.output_noise:
            shift = -0.5 * (_LOG_TWO_PI + math.log(self.output_noise))
            one = shift - (seen - 1) ** 2 / (2 * self.output_noise)
            return one, shift - (seen + 1) ** 2 / (2 * self.output_noise)
        with np.errstate(divide="ignore"):
            return np.log((seen == 1) * 1.0), np.log((seen == -1) * 1.0)

    def sample(self, clean: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """What is seen of signs +-1."""
        if self.is_clean:
            return clean
        if rng is None:
            raise InputError("this sign channel is noisy: pass a Generator as rng")
        seen = np.where(rng.random(clean.shape) < self.flips, -clean, clean) if self.flips else clean
        return seen + math.sqrt(self.output_noise) * rng.standard_normal(clean.shape) if self.output_noise else seen


@lru_cache(maxsize=32)
def _splines(seen: SeenSign) -> tuple[CubicSpline, CubicSpline]:
    """Log information and entropy of |k|, both even in k."""
    k = np.linspace(0, _END, _KNOTS)
    plus, minus = seen._log_chances(k)
    width = math.sqrt(seen.output_noise)
    count = 2 * math.ceil((1 + 9 * width) / (0.15 * width)) + 1
    y = np.linspace(-1 - 9 * width, 1 + 9 * width, count)
    one, two = seen._log_laws(y)
    log_z = np.logaddexp(plus[:, None] + one, minus[:, None] + two)
    step = y[1] - y[0]
    jump = np.exp(one - 0.5 * log_z) - np.exp(two - 0.5 * log_z)
    log_slope = math.log(1 - 2 * seen.flips) - 0.5 * k**2 - 0.5 * _LOG_TWO_PI
    information = 2 * log_slope + np.log((jump**2).sum(axis=1) * step)
    entropy = (np.exp(log_z) * log_z).sum(axis=1) * step
    ends = ((1, 0.0), "not-a-knot")
    return CubicSpline(k, information, bc_type=ends), CubicSpline(k, entropy, bc_type=ends)


__all__ = ["SeenSign"]
