"""State evolution of several attention matrices seen through one output, one (q_l, qhat_l) each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import root

from aimtheory.bayes.channel import check_alpha
from aimtheory.bayes.fixed_point import CONVERGED, UNCONVERGED
from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.prior import LawPrior, Prior
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, numbers, record
from aimtheory.spectra import SpectralLaw
from aimtheory.spectra.law import FloatArray


@record("bayes-multi-index-fixed-point")
@dataclass(frozen=True, eq=False)
class MultiIndexFixedPoint(Result):
    """Arrays over the matrices: q, mmse, qhat; ``residual`` is the largest relative one of qhat.

    ``coupling`` is the largest |qhat_lm| / sqrt(qhat_ll qhat_mm) off the diagonal: 0 when one (q_l, qhat_l) a matrix is
    exact, otherwise the size of what the diagonal theory leaves out. ``error`` is the relative error of the channel.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("matrix",)

    alpha: float
    q: FloatArray
    mmse: FloatArray
    qhat: FloatArray
    residual: float
    coupling: float
    error: float
    branch: str
    status: str

    def variables(self) -> tuple[Variable, ...]:
        """Over the matrices."""
        over = {"q": "overlap tr(S_hat S)", "mmse": "minimum mean squared error by d", "qhat": "conjugate overlap"}
        return (
            Variable("matrix", np.arange(1, len(self.q) + 1), ("matrix",), "attention matrix"),
            *(Variable(name, getattr(self, name), ("matrix",), what) for name, what in over.items()),
            *numbers(
                self,
                alpha="sample complexity n/d^2",
                residual="largest relative residual of qhat",
                coupling="largest neglected correlation of two matrices",
                error="relative error of the channel",
            ),
        )

    @property
    def ok(self) -> bool:
        """True when the residual is within the tolerance."""
        return self.status == CONVERGED


@record("bayes-multi-index-state-evolution")
@dataclass(frozen=True, init=False)
class MultiIndexStateEvolution:
    """``q_l = Q0_l - MMSE_l(qhat_l)``, ``qhat_l = 2 alpha E sum_ab D_ab (g^l_ab)^2``, the channel seeing all h^l ([B]).

    The omega^l of different matrices are correlated through the known means, E omega^l omega^m = D tr S_l tr S_m, since
    independent rotationally invariant matrices are free. What the posterior adds to that off the diagonal is neglected
    and reported as ``coupling``.
    """

    priors: tuple[Prior, ...]
    channel: GeneralChannel

    def __init__(self, priors: Sequence[SpectralLaw | Prior], channel: GeneralChannel) -> None:
        if not isinstance(channel, GeneralChannel):
            raise InputError(f"channel = {channel!r} must be a GeneralChannel")
        if len(priors) != channel.indices:
            raise InputError(f"the channel sees {channel.indices} matrices, but {len(priors)} priors were given")
        laws = tuple(prior if isinstance(prior, Prior) else LawPrior(prior) for prior in priors)
        object.__setattr__(self, "priors", laws)
        object.__setattr__(self, "channel", channel)

    def _variances(self, qhat: FloatArray) -> FloatArray:
        return np.array([float(prior.mmse(value)) for prior, value in zip(self.priors, qhat, strict=True)])

    def signal(self, variances: FloatArray) -> tuple[FloatArray, float]:
        """The matrix ``qhat_lm / alpha`` at given V, and its largest relative error."""
        means = np.array([prior.mean for prior in self.priors])
        top = np.array([prior.second_moment for prior in self.priors])
        overlaps = np.outer(means, means)
        np.fill_diagonal(overlaps, top - variances)
        measured = self.channel.signal_matrix(overlaps, variances)
        scale = np.diagonal(measured.value).max()
        return measured.value, float(np.diagonal(measured.error).max() / scale) if scale > 0 else 0.0

    def solve(
        self, alpha: float, branch: str = "uninformed", tolerance: float = 1e-8, steps: int = 200
    ) -> MultiIndexFixedPoint:
        """From the prior means, or from nearly the true matrices (``branch="informed"``).

        The undamped map is iterated, in log qhat, until steps are small, then finished by Powell's hybrid method on the
        undamped residual; the status says whether that residual is below ``tolerance``.
        """
        rate = float(check_alpha(alpha))
        if branch not in ("uninformed", "informed"):
            raise InputError(f"branch = {branch!r} must be 'uninformed' or 'informed'")
        spread = np.array([prior.second_moment - prior.mean_square for prior in self.priors])
        variances = spread if branch == "uninformed" else 1e-3 * spread
        matrix, error = self.signal(variances)
        qhat = rate * np.diagonal(matrix)
        if rate == 0 or np.any(qhat <= 0):
            return self._result(rate, np.zeros(len(spread)), spread, matrix, 0.0, error, branch, tolerance)
        for _ in range(steps):
            matrix, error = self.signal(self._variances(qhat))
            fresh = rate * np.diagonal(matrix)
            change = float(np.max(np.abs(np.log(fresh / qhat))))
            qhat = fresh
            if change < 1e-3:
                break

        def residual(log_qhat: FloatArray) -> FloatArray:
            values = np.exp(np.clip(log_qhat, -40, 40))
            return np.asarray(log_qhat - np.log(rate * np.diagonal(self.signal(self._variances(values))[0])))

        found = root(residual, np.log(qhat), method="hybr", options={"xtol": 1e-12})
        final = np.exp(found.x)
        variances = self._variances(final)
        matrix, error = self.signal(variances)
        left = float(np.max(np.abs(rate * np.diagonal(matrix) / final - 1)))
        return self._result(rate, final, variances, matrix, left, error, branch, tolerance)

    def _result(
        self,
        rate: float,
        qhat: FloatArray,
        variances: FloatArray,
        matrix: FloatArray,
        residual: float,
        error: float,
        branch: str,
        tolerance: float,
    ) -> MultiIndexFixedPoint:
        top = np.array([prior.second_moment for prior in self.priors])
        root_diagonal = np.sqrt(np.diagonal(matrix))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.abs(matrix) / np.outer(root_diagonal, root_diagonal)
        np.fill_diagonal(ratio, 0.0)
        status = CONVERGED if residual <= tolerance else UNCONVERGED
        coupling = float(np.nan_to_num(ratio).max())
        return MultiIndexFixedPoint(rate, top - variances, variances, qhat, residual, coupling, error, branch, status)


__all__ = ["MultiIndexFixedPoint", "MultiIndexStateEvolution"]
