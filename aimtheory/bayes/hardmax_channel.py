"""The hardmax channel: of every row of forms, only the place of the largest is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray

from aimtheory.bayes.bivariate_normal import log_orthant, log_orthant_derivative
from aimtheory.bayes.channel import check_variance
from aimtheory.bayes.hardmax_cones import (
    answer_code,
    boundary_signal,
    cone_moments,
    cone_points,
    make_cone,
    signal_by_cubature,
)
from aimtheory.bayes.hardmax_two_tokens import two_token_integrals, two_token_table
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.scale_free import RatioTable, ScaleFreeChannel, check_ratio, table_from_series
from aimtheory.bayes.token_pairs import as_matrix, check_forms, check_tokens
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_REPLICATES = 8
_TABLE_POINTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Where a cubature table is fitted, s = sqrt(r)/(1 + sqrt(r))."""


_MOST_TOKENS = 4
"""Seconds at three tokens, minutes at four; each further token multiplies time and memory by ten and more."""


@record("channel-hardmax")
@dataclass(frozen=True)
class HardmaxChannel(ScaleFreeChannel):
    """``y_a = argmax_b h_ab`` for every row a (the softmax channel at infinite inverse temperature).

    T = 2: exact orthant probabilities (Owen) and deterministic quadrature, to about 1e-13. T >= 3: the answer's cone is
    integrated over its winners (see ``hardmax_cones``) with ``points`` outer and ``inner_points`` inner randomized
    Sobol points, 8 replicates; errors are standard errors over the replicates, plus a bias of the inner rule well below
    1%. The first use at T >= 3 builds a table (tens of seconds at T = 3, growing like the number of classes of
    answers). Source: [B]; the derivative of the orthant, not its density, enters.

    >>> round(float(HardmaxChannel(tokens=2).qhat(q=0.0, variance=1.0, alpha=1.0)), 9)
    2.478863788
    """

    tokens: int = 2
    points: int = 512
    inner_points: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", check_tokens(self.tokens))
        if self.tokens > _MOST_TOKENS:
            raise InputError(
                f"tokens = {self.tokens} is above {_MOST_TOKENS}: the orthants are then out of reach of the "
                "cubature in time and memory"
            )
        for name in ("points", "inner_points"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 2 or value & (value - 1):
                raise InputError(f"{name} = {value!r} must be a power of two >= 2 (Sobol points come in powers of two)")

    @property
    def name(self) -> str:
        """``hardmax``."""
        return "hardmax"

    def uninformed_signal(self) -> sp.Expr | None:
        """``2E = (16/p_+ + 8/p_-)/(12 pi)``, ``p_+- = 1/4 +- asin(1/3)/(2 pi)`` at T = 2; None beyond."""
        if self.tokens != 2:
            return None
        angle = sp.asin(sp.Rational(1, 3)) / (2 * sp.pi)
        quarter = sp.Rational(1, 4)
        return (16 / (quarter + angle) + 8 / (quarter - angle)) / (12 * sp.pi)

    @property
    def table(self) -> RatioTable:
        """G and psi: exact at T = 2, by cubature beyond."""
        if self.tokens == 2:
            return two_token_table()
        return _cubature_table(self.tokens, self.points, self.inner_points, self.seed)

    def direct(self, ratio: ArrayLike, refinement: int = 0) -> Measured:
        """G(r) without interpolation; T = 2: step halved at each refinement, T >= 3: four times the outer points."""
        values = check_ratio(ratio)
        shape = np.shape(ratio)
        if self.tokens == 2:
            result = two_token_integrals(values, refinement)[0]
            finer = two_token_integrals(values, refinement + 1)[0]
            return Measured(result.reshape(shape), (np.abs(finer - result) + 1e-15).reshape(shape), "quadrature")
        pairs = [self._cubature(float(value), refinement) for value in values]
        measured = np.array(pairs).reshape(*shape, 2)
        return Measured(measured[..., 0], measured[..., 1], "cubature")

    def _cubature(self, ratio: float, refinement: int) -> tuple[float, float]:
        inner = self.inner_points * 2**refinement * (128 if ratio == 0 else 1)
        return signal_by_cubature(self.tokens, ratio, self.points * 4**refinement, inner, _REPLICATES, self.seed)

    def direct_psi(self, ratio: ArrayLike, refinement: int = 0) -> FloatArray:
        """psi(r) = E log Z at T = 2 by quadrature of Phi_2 log Phi_2, independent of the table."""
        if self.tokens != 2:
            raise InputError(f"direct_psi is offered at T = 2 only; got T = {self.tokens}: use psi_out")
        return two_token_integrals(check_ratio(ratio), refinement)[1].reshape(np.shape(ratio))

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.int64]:  # noqa: ARG002
        """The place of the largest form of each row, integers (..., T); ``rng`` is not used."""
        matrices = as_matrix(check_forms(forms, self.tokens, "forms"), self.tokens)
        return np.asarray(matrices.argmax(axis=-1))

    def _answers(self, outputs: ArrayLike) -> NDArray[np.int64]:
        answers = np.asarray(outputs)
        if answers.shape[-1:] != (self.tokens,) or answers.dtype.kind not in "iu":
            raise InputError(f"hardmax outputs must be integers of shape (..., {self.tokens}); got {answers.shape}")
        if np.any(answers < 0) or np.any(answers >= self.tokens):
            raise InputError(f"a hardmax output lies outside 0..{self.tokens - 1}")
        return answers.astype(np.int64)

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``log P(answer | omega)``; at T >= 3 by the cone rule with ``inner_points`` * 16 points."""
        return self._evaluate(outputs, omega, variance)[0]

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``g_aa = s_a d_a Phi_2 / (Phi_2 sqrt(3V))``, ``g_12 = -g_11 - g_22`` at T = 2; E[z | y]/sigma beyond."""
        return self._evaluate(outputs, omega, variance)[1]

    def _evaluate(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> tuple[FloatArray, FloatArray]:
        answers = self._answers(outputs)
        center = check_forms(omega, self.tokens, "omega")
        spread = check_variance(variance)
        if answers.shape[:-1] != center.shape[:-1]:
            raise InputError(f"outputs {answers.shape} and omega {center.shape} must share their leading axes")
        if self.tokens == 2:
            return _two_token_gradient(answers, center, spread)
        sigma = np.sqrt(self.multiplicity * spread)
        flat, codes = center.reshape(-1, self.pairs), answer_code(answers).ravel()
        rows = answers.reshape(-1, self.tokens)
        log_z, gradient = np.empty(len(flat)), np.empty(flat.shape)
        points = cone_points(self.tokens, 16 * self.inner_points, self.seed)
        for code in np.unique(codes):
            mine = np.flatnonzero(codes == code)
            cone = make_cone(tuple(int(b) for b in rows[mine[0]]))
            if cone is None:
                raise InputError(f"the hardmax answer {tuple(rows[mine[0]])} is impossible: its rows form a cycle")
            for part in np.array_split(mine, max(1, len(mine) * points.shape[-1] // (1 << 20))):
                z, moment = cone_moments(cone, flat[part], sigma, points)
                safe = np.maximum(z, 1e-290)
                log_z[part] = np.log(safe)
                gradient[part] = moment / safe[:, None] / sigma
        return log_z.reshape(center.shape[:-1]), gradient.reshape(center.shape)


def _two_token_gradient(answers: NDArray[np.int64], omega: FloatArray, spread: float) -> tuple[FloatArray, FloatArray]:
    scale = math.sqrt(3 * spread)
    first = np.where(answers[..., 0] == 0, 1.0, -1.0)
    second = np.where(answers[..., 1] == 1, 1.0, -1.0)
    one = first * (omega[..., 0] - omega[..., 1]) / scale
    two = second * (omega[..., 2] - omega[..., 1]) / scale
    log_z, g_one, g_two = (np.empty(one.shape) for _ in range(3))
    for sign in (1.0, -1.0):
        mine = first * second == sign
        h, k, c = one[mine], two[mine], sign / 3
        value = log_orthant(h, k, c)
        log_z[mine] = value
        g_one[mine] = first[mine] * np.exp(log_orthant_derivative(h, k, c) - value) / scale
        g_two[mine] = second[mine] * np.exp(log_orthant_derivative(k, h, c) - value) / scale
    return log_z, np.stack([g_one, -(g_one + g_two), g_two], axis=-1)


@lru_cache(maxsize=8)
def _cubature_table(tokens: int, points: int, inner: int, seed: int) -> RatioTable:
    """H(s) at T >= 3: both ends by their own rules, the T = 2 curve between them, and a weighted fit of the rest.

    H(0) is one inner integral with many points and H(1) is known exactly; the difference of H to the T = 2 curve,
    stretched to these ends, is ``s (1 - s)`` times a cubic, fitted to direct cubatures by their errors. The error is
    that of the fit, enlarged when it misses the data, plus 0.3% for the bias of the inner rule.
    """
    shape = two_token_table()
    ends = chebyshev.chebval(np.array([-1.0, 1.0]), shape.series)
    start, start_error = signal_by_cubature(tokens, 0.0, 1, 128 * inner, _REPLICATES, seed)
    slope = (boundary_signal(tokens) - start) / (ends[1] - ends[0])
    base = slope * shape.series
    base[0] += start - slope * ends[0]
    s = np.array(_TABLE_POINTS)
    ratio = (s / (1 - s)) ** 2
    measured = np.array([signal_by_cubature(tokens, float(r), points, inner, _REPLICATES, seed) for r in ratio])
    value, error = (measured * np.sqrt(1 + ratio)[:, None]).T
    window = s * (1 - s)
    basis = window[:, None] * chebyshev.chebvander(2 * s - 1, 3)
    target = value - chebyshev.chebval(2 * s - 1, base)
    weighted = basis / error[:, None]
    covariance = np.linalg.inv(weighted.T @ weighted)
    fitted = covariance @ (weighted.T @ (target / error))
    misfit = float((((target - basis @ fitted) / error) ** 2).sum()) / (len(s) - 4)
    spread = np.sqrt(np.einsum("ik,kl,il->i", basis, covariance, basis) * max(1.0, misfit))
    # s (1 - s) = (1 - x^2)/4 = (T_0 - T_2)/8 in x = 2s - 1.
    correction = chebyshev.chebmul(np.array([0.125, 0.0, -0.125]), fitted)
    series = chebyshev.chebadd(base, correction)
    relative = max(float(np.max(spread / value)), start_error / start)
    return table_from_series(series, relative + 3e-3, "cubature")


__all__ = ["HardmaxChannel"]
