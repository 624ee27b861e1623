"""What an observation y = g(h) of the attention forms tells about them: the scalar side of state evolution.

With h_ab = (x_a^T S x_b - delta_ab Tr S)/sqrt(d), D_ab = 1 + delta_ab, q = tr(S_hat S) and V = tr S^2 - q:

    omega_ab ~ N(0, D_ab q),    h | omega ~ N(omega, D_ab V),    Z(y, omega, V) = E[p(y | h) | omega],
    qhat    = 2 alpha E sum_{a<=b} D_ab (d log Z / d omega_ab)^2,        Psi_out(q) = E log Z,   q + V = Q0,

and ``qhat/4 = alpha Psi_out'(q)``: the same function twice. Source: [B], state evolution and free entropy.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.seen_forms import SeenForms
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray


class Channel(SeenForms):
    """An observation channel of one attention matrix; subclasses are frozen dataclasses with a field ``tokens``.

    Forms are arrays (..., P) over the P = T(T+1)/2 pairs a <= b in the order of ``token_pairs``. ``q`` and
    ``variance`` (V) are scalars or arrays of one shape, and everything is vectorised over them.
    """

    @property
    def is_fast(self) -> bool:
        """True when ``signal`` costs microseconds a point, so that a curve may be scanned densely."""
        return True

    @property
    @abstractmethod
    def exact_directions(self) -> float:
        """``lim V qhat/alpha`` as V -> 0: twice the number of combinations of h that y fixes exactly (K_T for softmax).

        Zero when no finite alpha gives perfect recovery.
        """

    @abstractmethod
    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``qhat / alpha = 2 E sum_{a<=b} D_ab (d log Z/d omega_ab)^2`` at overlap q >= 0 and variance V > 0."""

    @abstractmethod
    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``Psi_out(q) = E log Z(y, omega, Q0 - q)``, Q0 = ``second_moment``, 0 <= q <= Q0.

        For continuous outputs Z is a density, by the reference measure that the channel's class states.
        """

    def uninformed_signal(self) -> sp.Expr | None:
        """``signal(0, 1)`` as an exact sympy number, None when no closed form is known."""
        return None

    def signal_digits(self, variance: mp.mpf) -> mp.mpf:  # noqa: ARG002
        """``qhat/alpha`` at V to the working precision, where it depends on V alone; ``InputError`` for the others."""
        raise InputError(f"digits are offered for the softmax and linear channels, not {self.name}; use mmse_curve")

    @abstractmethod
    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> Any:
        """Outputs y of forms (..., P)."""

    @abstractmethod
    def log_partition(self, outputs: Any, omega: ArrayLike, variance: float) -> FloatArray:
        """``log Z(y, omega, V)``, shape (...)."""

    @abstractmethod
    def gradient(self, outputs: Any, omega: ArrayLike, variance: float) -> FloatArray:
        """``g_ab = d log Z / d omega_ab``, shape (..., P)."""

    def qhat(self, q: ArrayLike, variance: ArrayLike, alpha: ArrayLike) -> Measured:
        """``qhat(q) = alpha * signal``: the conjugate overlap at sample complexity alpha = n/d^2 >= 0."""
        return self.signal(q, variance).scaled(check_alpha(alpha))


def check_alpha(alpha: ArrayLike) -> FloatArray:
    """Sample complexities as floats, finite and >= 0, else ``InputError``."""
    values = real_array(alpha, "alpha")
    if np.any(values < 0):
        bad = values[values < 0].ravel()[0]
        raise InputError(f"alpha = {bad} must be >= 0 (alpha = n/d^2, samples by squared dimension)")
    return values


def check_overlap(q: ArrayLike, variance: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """``(q, V)`` broadcast; q >= 0 and V >= 0 finite, else ``InputError``."""
    overlap, spread = np.broadcast_arrays(np.asarray(q, dtype=np.float64), np.asarray(variance, dtype=np.float64))
    if not (np.all(np.isfinite(overlap)) and np.all(np.isfinite(spread))):
        raise InputError("q or V is NaN or infinite; give finite numbers with q >= 0 and V >= 0")
    if np.any(overlap < 0):
        raise InputError(f"q = {overlap.min()} must be >= 0 (it lies between (tr S)^2 and tr S^2)")
    if np.any(spread < 0):
        raise InputError(f"V = {spread.min()} must be >= 0 (V = tr S^2 - q, the mean squared error)")
    return overlap, spread


def check_split(q: ArrayLike, second_moment: float) -> tuple[FloatArray, FloatArray]:
    """``(q, Q0 - q)`` for 0 <= q <= Q0, else ``InputError``."""
    overlap = np.asarray(q, dtype=np.float64)
    if not np.isfinite(second_moment) or second_moment <= 0:
        raise InputError(f"second_moment = {second_moment} must be finite and > 0 (Q0 = tr S^2)")
    if not np.all(np.isfinite(overlap)) or np.any(overlap < 0) or np.any(overlap > second_moment):
        bad = overlap[~(np.isfinite(overlap) & (overlap >= 0) & (overlap <= second_moment))].ravel()[0]
        raise InputError(f"q = {bad} lies outside [0, Q0] = [0, {second_moment:.9g}]")
    return overlap, second_moment - overlap


def check_variance(variance: float) -> float:
    """V as a finite float > 0, else ``InputError``."""
    value = float(variance)
    if not np.isfinite(value) or value <= 0:
        raise InputError(f"V = {variance} must be finite and > 0")
    return value


__all__ = ["Channel", "check_alpha", "check_overlap", "check_split", "check_variance"]
