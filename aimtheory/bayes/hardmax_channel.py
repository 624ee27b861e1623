"""The hardmax channel: of every row of forms, only the place of the largest is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from aimtheory.bayes.channel import check_overlap, check_split, check_variance
from aimtheory.bayes.hardmax_chain import answer_chain, chain_moments, height_tables
from aimtheory.bayes.hardmax_forest import all_rows, forest_moments
from aimtheory.bayes.hardmax_rows import TINY, uniform_points
from aimtheory.bayes.hardmax_table import default_points, hardmax_table
from aimtheory.bayes.hardmax_two_tokens import two_token_integrals, two_token_table
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.noise import flip_probability, pair_variances
from aimtheory.bayes.noisy_two_tokens import noisy_two_tokens, two_token_posterior
from aimtheory.bayes.scale_free import RatioTable, ScaleFreeChannel, check_ratio
from aimtheory.bayes.token_pairs import as_matrix, check_forms, check_tokens, pair_index
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_MOST_TOKENS = 16
"""Above, minutes of sampling become hours."""

_CHAINED = 4
"""Tokens up to which the posterior of an answer is integrated exactly."""

_INNER = 128


@record("channel-hardmax")
@dataclass(frozen=True, init=False)
class HardmaxChannel(ScaleFreeChannel):
    """``y_a = argmax_b (h_ab + noise)`` for every row a (the softmax channel at infinite inverse temperature).

    T = 2: exact orthant probabilities (Owen) and deterministic quadrature, to about 1e-13. 3 <= T <= 16: a table over
    q/V built at the first use (see ``hardmax_table``) from ``points`` Sobol points a node and randomization, a power of
    two; its stated error is 3.5 standard errors and the change under one more degree, a few 1e-4 at T = 3 in seconds,
    below 1e-3 at T = 4; more tokens take minutes.

    ``matrix_noise`` Delta, or a ``noise`` matrix proportional to 1 + delta_ab, acts like V + Delta: exact for every T.
    Other ``noise`` (a number is one variance for all forms), and ``flips``, the probability that a row's answer is
    replaced by one of the others, are offered at T = 2, by quadrature. Source: [B]; the derivative of the orthant, not
    its density, enters.

    >>> round(float(HardmaxChannel(tokens=2).qhat(q=0.0, variance=1.0, alpha=1.0)), 9)
    2.478863788
    >>> float(HardmaxChannel(2, matrix_noise=0.5).signal(0.5, 0.25)) == float(HardmaxChannel(2).signal(0.5, 0.75))
    True
    """

    tokens: int
    noise: tuple[float, ...]
    flips: float
    points: int
    seed: int

    def __init__(
        self,
        tokens: int = 2,
        noise: ArrayLike = 0.0,
        matrix_noise: float = 0.0,
        flips: float = 0.0,
        points: int | None = None,
        seed: int = 0,
    ) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        if self.tokens > _MOST_TOKENS:
            raise InputError(f"tokens = {self.tokens} is above {_MOST_TOKENS}, the most the hardmax channel samples")
        object.__setattr__(self, "noise", pair_variances(noise, matrix_noise, self.tokens))
        object.__setattr__(self, "flips", flip_probability(flips, self.tokens))
        if self.tokens > 2 and math.isnan(self._common_noise):
            raise InputError(
                f"hardmax of T = {self.tokens} >= 3 takes noise whose variances are proportional to 1 + delta_ab "
                "(matrix_noise=), which leaves one ratio q/(V + Delta); other variances are offered at T = 2"
            )
        if self.tokens > 2 and self.flips:
            raise InputError(
                f"flips = {self.flips} at T = {self.tokens}: a flipped answer mixes the orthants of all T^T answers; "
                "offered at T = 2"
            )
        chosen = default_points(self.tokens) if points is None else points
        if isinstance(chosen, bool) or not isinstance(chosen, int) or chosen < 4 or chosen & (chosen - 1):
            raise InputError(f"points = {chosen!r} must be a power of two >= 4 (Sobol points come in powers of two)")
        object.__setattr__(self, "points", chosen)
        object.__setattr__(self, "seed", seed)

    def to_record(self) -> dict[str, object]:
        """Tokens, the symmetric matrix of noise variances, flips, and how the table is sampled."""
        noise = np.array(self.noise)[pair_index(self.tokens)]
        return {"tokens": self.tokens, "noise": noise, "flips": self.flips, "points": self.points, "seed": self.seed}

    @property
    def name(self) -> str:
        """``hardmax``."""
        return "hardmax"

    @property
    def is_fast(self) -> bool:
        """False for the noise that has no table."""
        return self._is_scale_free

    @property
    def _common_noise(self) -> float:
        """Delta where the variances are ``Delta (1 + delta_ab)``, else NaN."""
        each = np.array(self.noise) / self.multiplicity
        return float(each[0]) if np.allclose(each, each[0], rtol=1e-12, atol=0) else math.nan

    @property
    def _is_scale_free(self) -> bool:
        return not math.isnan(self._common_noise) and self.flips == 0

    def uninformed_signal(self) -> sp.Expr | None:
        """``2E = (16/p_+ + 8/p_-)/(12 pi)``, ``p_+- = 1/4 +- asin(1/3)/(2 pi)`` at T = 2; None beyond and with flips.

        With matrix noise Delta it is divided by 1 + Delta.
        """
        if self.tokens != 2 or not self._is_scale_free:
            return None
        angle = sp.asin(sp.Rational(1, 3)) / (2 * sp.pi)
        quarter = sp.Rational(1, 4)
        value = (16 / (quarter + angle) + 8 / (quarter - angle)) / (12 * sp.pi)
        noise = self._common_noise
        return value / (1 + (sp.Integer(int(noise)) if noise == int(noise) else sp.Float(noise, 17)))

    @property
    def table(self) -> RatioTable:
        """G and psi without noise: exact at T = 2, by cubature beyond."""
        return two_token_table() if self.tokens == 2 else hardmax_table(self.tokens, self.points, self.seed)

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``G(q/(V + Delta))/(V + Delta)``; by quadrature with other noise or flips."""
        overlap, spread = check_overlap(q, variance)
        if self._is_scale_free:
            return super().signal(overlap, spread + self._common_noise)
        return self._quadrature(overlap, spread)[0]

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """Mean log probability of an answer, at most 0."""
        overlap, spread = check_split(q, second_moment)
        if self._is_scale_free:
            return super().psi_out(overlap, second_moment + self._common_noise)
        return self._quadrature(overlap, spread)[1]

    def _quadrature(self, overlap: FloatArray, spread: FloatArray) -> tuple[Measured, Measured]:
        rows = [
            noisy_two_tokens(float(a), float(b), self.noise, self.flips)
            for a, b in zip(overlap.flat, spread.flat, strict=True)
        ]
        table = np.array(rows).reshape(*overlap.shape, 4)
        pairs = [Measured(table[..., k], table[..., k + 1], "quadrature") for k in (0, 2)]
        return pairs[0], pairs[1]

    def direct(self, ratio: ArrayLike, refinement: int = 0) -> Measured:
        """G(r) at T = 2 without interpolation; the step is halved at each refinement. The table beyond."""
        values = check_ratio(ratio)
        shape = np.shape(ratio)
        if self.tokens > 2:
            value = self.table.signal(values).reshape(shape)
            return Measured(value, np.abs(value) * self.table.relative_error, self.table.method)
        result = two_token_integrals(values, refinement)[0]
        finer = two_token_integrals(values, refinement + 1)[0]
        return Measured(result.reshape(shape), (np.abs(finer - result) + 1e-15).reshape(shape), "quadrature")

    def direct_psi(self, ratio: ArrayLike, refinement: int = 0) -> FloatArray:
        """psi(r) = E log Z at T = 2 by quadrature of Phi_2 log Phi_2, independent of the table."""
        if self.tokens != 2:
            raise InputError(f"direct_psi is offered at T = 2 only; got T = {self.tokens}: use psi_out")
        return two_token_integrals(check_ratio(ratio), refinement)[1].reshape(np.shape(ratio))

    def sample(self, forms: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """The place of the largest form of each row, integers (..., T); ``rng`` is used where there is noise."""
        clean = check_forms(forms, self.tokens, "forms")
        if rng is None and (self.flips or any(self.noise)):
            raise InputError("this hardmax channel is noisy: pass a Generator as rng")
        if any(self.noise):
            assert rng is not None
            clean = clean + np.sqrt(np.array(self.noise)) * rng.standard_normal(clean.shape)
        answers = as_matrix(clean, self.tokens).argmax(axis=-1)
        if self.flips:
            assert rng is not None
            other = rng.integers(1, self.tokens, answers.shape)
            answers = np.where(rng.random(answers.shape) < self.flips, (answers + other) % self.tokens, answers)
        return np.asarray(answers)

    def _answers(self, outputs: ArrayLike) -> NDArray[np.int64]:
        answers = np.asarray(outputs)
        if answers.shape[-1:] != (self.tokens,) or answers.dtype.kind not in "iu":
            raise InputError(f"hardmax outputs must be integers of shape (..., {self.tokens}); got {answers.shape}")
        if np.any(answers < 0) or np.any(answers >= self.tokens):
            raise InputError(f"a hardmax output lies outside 0..{self.tokens - 1}")
        return answers.astype(np.int64)

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``log P(answer | omega)``: exact up to T = 4, by 128 Sobol points over the winners beyond."""
        return self._evaluate(outputs, omega, variance)[0]

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> FloatArray:
        """``d log P(answer | omega)/d omega_ab``, as :meth:`log_partition`."""
        return self._evaluate(outputs, omega, variance)[1]

    def _evaluate(self, outputs: ArrayLike, omega: ArrayLike, variance: float) -> tuple[FloatArray, FloatArray]:
        answers = self._answers(outputs)
        center = check_forms(omega, self.tokens, "omega")
        scale = np.sqrt(self.multiplicity * check_variance(variance) + np.array(self.noise))
        if answers.shape[:-1] != center.shape[:-1]:
            raise InputError(f"outputs {answers.shape} and omega {center.shape} must share their leading axes")
        if self.tokens == 2:
            return two_token_posterior(answers, center, scale**2, self.flips)
        flat, rows = center.reshape(-1, self.pairs), answers.reshape(-1, self.tokens)
        z, mean = _chained(rows, flat, scale) if self.tokens <= _CHAINED else _sampled(rows, flat, scale, self.seed)
        return np.log(z).reshape(center.shape[:-1]), mean.reshape(center.shape)


def _chained(answers: NDArray[np.int64], omega: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    tokens = answers.shape[1]
    z, mean = np.empty(len(omega)), np.empty(omega.shape)
    codes = answers @ (tokens ** np.arange(tokens))
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        answer = tuple(answers[mine[0]].tolist())
        chain = answer_chain(answer)
        if chain is None:
            raise InputError(f"the hardmax answer {answer} is impossible: its rows form a cycle")
        for part in np.array_split(mine, max(1, len(mine) // 256)):
            tables = height_tables(omega[part], scale, tokens, 64)
            value, slope = chain_moments(chain, tables, omega[part], scale)
            z[part] = np.maximum(value, TINY)
            mean[part] = slope / z[part, None]
    return z, mean


def _sampled(
    answers: NDArray[np.int64], omega: FloatArray, scale: FloatArray, seed: int
) -> tuple[FloatArray, FloatArray]:
    tokens = answers.shape[1]
    points = uniform_points(tokens, _INNER, seed).T
    z, mean = np.empty(len(omega)), np.empty(omega.shape)
    for part in np.array_split(np.arange(len(omega)), max(1, len(omega) * tokens**2 // 6000)):
        rows = all_rows(omega[part], scale, tokens)
        value, moment = forest_moments(answers[part], omega[part], scale, rows, points)
        z[part] = np.maximum(value[0], TINY)
        mean[part] = moment[0] / z[part, None] / scale
    return z, mean


__all__ = ["HardmaxChannel"]
