"""Cross-attention: outputs of the forms h_ab = x_a^T S z_b/sqrt(d) between two independent sequences.

x_1..x_T are queries in R^d, z_1..z_L keys in R^{delta d}; S is d x delta d. All T L forms are independent given S, of
variance tr S S^T, so that the effective noise on S has independent entries, N(0, 2/(qhat d)) with

    qhat = 2 alpha E sum_ab (d log Z/d omega_ab)^2,    omega_ab ~ N(0, q),    h | omega ~ N(omega, V).

This holds for any prior that rotations from both sides leave as it is (``RectangularPrior``). In *self*-attention S is
seen through x_a^T S x_b with h_ab and h_ba of the same two tokens, and h_aa only through the symmetric part of S: the
symmetric and the antisymmetric part then have different noise, which no rotation from both sides respects. With the
diagonal forms masked and rows answered separately, the posteriors of h_ab and h_ba are independent and the noise is
isotropic again: ``masked_self_attention`` gives that channel. Source: ours, after [B].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.joint_channel import check_noise
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.sign_channel import SignChannel
from aimtheory.errors import AssumptionError, InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray


@dataclass(frozen=True)
class CrossAttentionChannel(Channel):
    """A channel of T queries (``tokens``) and L ``keys``; forms (..., T L), row by row."""

    tokens: int = 2
    keys: int = 2

    def __post_init__(self) -> None:
        for name, value in (("tokens", self.tokens), ("keys", self.keys)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} = {value!r} must be an integer >= 1 (queries are called tokens)")
            object.__setattr__(self, name, int(value))

    @property
    def is_rectangular(self) -> bool:
        """True: its prior is a ``RectangularPrior``."""
        return True

    @property
    def pairs(self) -> int:
        """``T L``."""
        return self.tokens * self.keys

    @property
    def multiplicity(self) -> FloatArray:
        """1 for every form."""
        return np.ones(self.pairs)

    @abstractmethod
    def uninformed_signal(self) -> sp.Expr:
        """``signal(0, 1)``."""

    def _rows(self, forms: ArrayLike, name: str = "forms") -> FloatArray:
        array = np.asarray(forms, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != self.pairs or not np.all(np.isfinite(array)):
            raise InputError(f"{name} must be finite with last axis T L = {self.pairs}; got shape {array.shape}")
        return array.reshape(*array.shape[:-1], self.tokens, self.keys)


@record("channel-cross-linear")
@dataclass(frozen=True)
class CrossLinear(CrossAttentionChannel):
    """``y_ab = h_ab + sqrt(Delta) z_ab``: ``qhat = 2 alpha T L/(V + Delta)``.

    >>> float(CrossLinear(2, 3, noise=0.5).qhat(q=0.5, variance=0.5, alpha=1.0))
    12.0
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "noise", check_noise(self.noise))

    @property
    def name(self) -> str:
        """``cross linear``."""
        return "cross linear"

    @property
    def exact_directions(self) -> float:
        """``2 T L`` without noise."""
        return 0.0 if self.noise else 2.0 * self.pairs

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 T L/(V + Delta)``."""
        _, spread = check_overlap(q, variance)
        with np.errstate(divide="ignore"):
            return closed_form(2 * self.pairs / (spread + self.noise))

    def uninformed_signal(self) -> sp.Expr:
        """``2 T L/(1 + Delta)``."""
        delta = sp.Integer(int(self.noise)) if self.noise == int(self.noise) else sp.Float(self.noise, 17)
        return 2 * sp.Integer(self.pairs) / (1 + delta)

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``-(T L/2) log(2 pi e (V + Delta))``."""
        _, spread = check_split(q, second_moment)
        with np.errstate(divide="ignore"):
            return closed_form(-0.5 * self.pairs * np.log(2 * np.pi * np.e * (spread + self.noise)))

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Noisy forms (..., T L)."""
        clean = self._rows(forms).reshape(np.shape(forms))
        return np.asarray(clean + np.sqrt(self.noise) * rng.standard_normal(clean.shape))

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``sum log N(y; omega, V + Delta)``."""
        residual = self._rows(outputs, "outputs") - self._rows(omega, "omega")
        total = check_variance(variance) + self.noise
        return np.asarray(-0.5 * (residual**2 / total + np.log(2 * np.pi * total)).sum(axis=(-2, -1)))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``(y - omega)/(V + Delta)``."""
        residual = self._rows(outputs, "outputs") - self._rows(omega, "omega")
        return np.asarray(residual.reshape(np.shape(omega)) / (check_variance(variance) + self.noise))


@record("channel-cross-softmax")
@dataclass(frozen=True)
class CrossSoftmax(CrossAttentionChannel):
    """``y_a = softmax_b(beta h_ab)``, noiseless: row differences are seen, ``qhat = 2 alpha T (L - 1)/V`` at any beta.

    >>> CrossSoftmax(2, 3).exact_directions
    8.0
    """

    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _several_keys(self)
        beta = float(self.inverse_temperature)
        if not (np.isfinite(beta) and beta > 0):
            raise InputError(f"inverse_temperature = {self.inverse_temperature!r} must be finite and > 0")

    @property
    def name(self) -> str:
        """``cross softmax``."""
        return "cross softmax"

    @property
    def exact_directions(self) -> float:
        """``2 T (L - 1)``: one constant a row is lost."""
        return 2.0 * self.tokens * (self.keys - 1)

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 T (L - 1)/V``."""
        _, spread = check_overlap(q, variance)
        with np.errstate(divide="ignore"):
            return closed_form(self.exact_directions / spread)

    def uninformed_signal(self) -> sp.Expr:
        """``2 T (L - 1)``."""
        return sp.Integer(2 * self.tokens * (self.keys - 1))

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``-(T/2) [(L - 1) log(2 pi e V) + log L]``, the density of h_ab - h_a1."""
        _, spread = check_split(q, second_moment)
        with np.errstate(divide="ignore"):
            each = (self.keys - 1) * np.log(2 * np.pi * np.e * spread) + np.log(self.keys)
        return closed_form(-0.5 * self.tokens * each)

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:  # noqa: ARG002
        """``log y`` (..., T L), the logarithms so that no entry underflows; ``rng`` is not used."""
        scaled = float(self.inverse_temperature) * self._rows(forms)
        top = scaled.max(axis=-1, keepdims=True)
        logs = scaled - top - np.log(np.exp(scaled - top).sum(axis=-1, keepdims=True))
        return logs.reshape(np.shape(forms))

    def _residual(self, outputs: ArrayLike, omega: ArrayLike) -> FloatArray:
        raw = self._rows(outputs, "outputs") / float(self.inverse_temperature) - self._rows(omega, "omega")
        return np.asarray(raw - raw.mean(axis=-1, keepdims=True))

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """The log density of the row differences."""
        spread = check_variance(variance)
        square = (self._residual(outputs, omega) ** 2).sum(axis=(-2, -1)) / spread
        return np.asarray(
            -0.5 * (square + self.tokens * ((self.keys - 1) * np.log(2 * np.pi * spread) + np.log(self.keys)))
        )

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``(r_ab - mean_b r_ab)/V``, r = log(y)/beta - omega; ``outputs`` are log y."""
        return self._residual(outputs, omega).reshape(np.shape(omega)) / check_variance(variance)


@dataclass(frozen=True)
class _ProbitChannel(CrossAttentionChannel):
    """Independent bits y = sign(u), u = ``_count`` combinations of forms of norm^2 ``_norm`` each."""

    @property
    def _count(self) -> int:
        raise NotImplementedError

    @property
    def _norm(self) -> float:
        raise NotImplementedError

    def _margins(self, omega: ArrayLike) -> FloatArray:
        """u at omega, (..., count)."""
        raise NotImplementedError

    def _spread_back(self, bits: FloatArray) -> FloatArray:
        """Gradients by u as gradients by the forms."""
        raise NotImplementedError

    @property
    def exact_directions(self) -> float:
        """0: signs never fix h."""
        return 0.0

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``(2/V)`` times the number of bits times E[phi^2/(Phi Phi)]: u and its gradient scale inversely."""
        # SignChannel(2) has three such bits.
        return SignChannel(2).signal(q, variance).scaled(self._count / 3)

    def uninformed_signal(self) -> sp.Expr:
        """``4 count/pi``."""
        return sp.Integer(4 * self._count) / sp.pi

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """Mean log probability of the bits."""
        found = SignChannel(2).psi_out(q, second_moment)
        return Measured(
            np.asarray(found.value * self._count / 3), np.asarray(found.error * self._count / 3), found.method
        )

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> FloatArray:  # noqa: ARG002
        """Bits +-1 (..., count); ``rng`` is not used."""
        return np.where(self._margins(forms) >= 0, 1.0, -1.0)

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``sum log Phi(y u/sqrt(norm V))``."""
        scale = np.sqrt(self._norm * check_variance(variance))
        return np.asarray(log_ndtr(np.asarray(outputs) * self._margins(omega) / scale).sum(axis=-1))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``y phi(k)/(Phi(k) sqrt(norm V))`` along each combination."""
        scale = np.sqrt(self._norm * check_variance(variance))
        signs = np.asarray(outputs, dtype=np.float64)
        if not np.all(np.abs(signs) == 1):
            raise InputError(f"{self.name} outputs must be +1 or -1")
        k = signs * self._margins(omega) / scale
        bits = signs * np.exp(-0.5 * k**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(k)) / scale
        return self._spread_back(bits)


@record("channel-cross-sign")
@dataclass(frozen=True)
class CrossSign(_ProbitChannel):
    """``y_ab = sign(h_ab)``: ``qhat = (2 alpha T L/V) E[phi(k)^2/(Phi(k) Phi(-k))]``, k ~ N(0, q/V).

    >>> round(float(CrossSign(2, 2).qhat(q=0.0, variance=1.0, alpha=1.0)), 12)    # 4 T L/pi
    5.092958178941
    """

    @property
    def name(self) -> str:
        """``cross sign``."""
        return "cross sign"

    @property
    def _count(self) -> int:
        return self.pairs

    @property
    def _norm(self) -> float:
        return 1.0

    def _margins(self, omega: ArrayLike) -> FloatArray:
        return self._rows(omega).reshape(np.shape(omega))

    def _spread_back(self, bits: FloatArray) -> FloatArray:
        return bits


@record("channel-cross-hardmax")
@dataclass(frozen=True)
class CrossHardmax(_ProbitChannel):
    """``argmax_b h_ab`` of two keys: the sign of h_a1 - h_a2, one bit a row; +1 says the first key.

    >>> round(float(CrossHardmax(3, 2).qhat(q=0.0, variance=1.0, alpha=1.0)), 12)    # 4 T/pi
    3.819718634205
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keys != 2:
            raise InputError(f"keys = {self.keys}: hardmax cross-attention is offered for two keys")

    @property
    def name(self) -> str:
        """``cross hardmax``."""
        return "cross hardmax"

    @property
    def _count(self) -> int:
        return self.tokens

    @property
    def _norm(self) -> float:
        return 2.0

    def _margins(self, omega: ArrayLike) -> FloatArray:
        rows = self._rows(omega)
        return np.asarray(rows[..., 0] - rows[..., 1])

    def _spread_back(self, bits: FloatArray) -> FloatArray:
        return np.stack([bits, -bits], axis=-1).reshape(*bits.shape[:-1], self.pairs)


CROSS_CHANNELS = {
    "linear": CrossLinear,
    "softmax": CrossSoftmax,
    "sign": CrossSign,
    "hardmax": CrossHardmax,
}


def make_cross_channel(name: str, queries: int = 2, keys: int = 2, **options: float) -> CrossAttentionChannel:
    """A channel by name: linear (``noise=``), softmax (``inverse_temperature=``), sign, hardmax.

    >>> make_cross_channel("softmax", queries=2, keys=3).exact_directions
    8.0
    """
    if name not in CROSS_CHANNELS:
        raise InputError(f"channel = {name!r} is unknown; cross-attention has {', '.join(CROSS_CHANNELS)}")
    try:
        return CROSS_CHANNELS[name](queries, keys, **options)
    except TypeError:
        raise InputError(f"the {name} channel does not take {', '.join(options)}") from None


def masked_self_attention(name: str, tokens: int, **options: float) -> CrossAttentionChannel:
    """Self-attention with S = U V^T whose diagonal forms are masked: T rows of the T - 1 other tokens.

    Each row is answered separately, so h_ab and h_ba are independent given S in the limit (tr S^2 = 0) and the noise on
    S is isotropic: the same state evolution as T queries on T - 1 keys.

    >>> masked_self_attention("softmax", tokens=3).exact_directions
    6.0
    """
    return make_cross_channel(name, tokens, tokens - 1, **options)


def check_side(prior_is_rectangular: bool, channel_is_rectangular: bool) -> None:
    """``AssumptionError`` where a rectangular prior meets self-attention, or a symmetric one cross-attention."""
    if prior_is_rectangular and not channel_is_rectangular:
        raise AssumptionError(
            "self-attention sees the symmetric and the antisymmetric part of S = U V^T with different noise (h_aa has "
            "the symmetric part alone), so no rotation from both sides solves the prior side; use a "
            "cross-attention channel, or masked_self_attention(...), which leaves the diagonal forms out"
        )
    if channel_is_rectangular and not prior_is_rectangular:
        raise AssumptionError(
            "cross-attention has a d x delta d matrix without symmetry; give "
            "RectangularFactors(width=..., aspect=...) or RectangularGinibre(...) as prior"
        )


def _several_keys(channel: CrossAttentionChannel) -> None:
    if channel.keys < 2:
        raise InputError(f"keys = {channel.keys} must be >= 2: a softmax of one key is 1")


__all__ = [
    "CROSS_CHANNELS",
    "CrossAttentionChannel",
    "CrossHardmax",
    "CrossLinear",
    "CrossSign",
    "CrossSoftmax",
    "check_side",
    "make_cross_channel",
    "masked_self_attention",
]
