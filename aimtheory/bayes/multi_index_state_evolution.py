"""State evolution of several attention matrices seen through one output: K x K overlaps.

    V = Q0 - q = MMSE(qhat) of the joint prior,    qhat_kl = 2 alpha E sum_{a<=b} D_ab g^k_ab g^l_ab,

both gradients of the free entropy

    f(q, qhat) = Tr qhat (Q0 - q)/4 - I(qhat) + alpha Psi_out(q).

One (q_k, qhat_k) a matrix is enough only where qhat is diagonal. Source: [B] for the scalar case; the matrices, ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import root

from aimtheory.arrays import real_array
from aimtheory.bayes.channel import check_alpha
from aimtheory.bayes.fixed_point import CONVERGED, UNCONVERGED
from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.joint_channel import JointChannel, as_joint_channel
from aimtheory.bayes.joint_prior import JointPrior, check_joint_prior
from aimtheory.bayes.prior import Prior
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, numbers, record
from aimtheory.spectra import SpectralLaw
from aimtheory.spectra.law import FloatArray

APPROXIMATION = "approximation"
"""The output couples matrices that are not Gaussian: the error is that of the best linear estimate, an upper bound."""

_ADVICE = {
    CONVERGED: "the residual of the matrix equations is within the tolerance, and the prior side is exact",
    UNCONVERGED: "the residual is above the tolerance: do not use this value",
    APPROXIMATION: "the output couples two matrices that are not Gaussian, for which no exact denoiser is known: the "
    "error is that of the best linear estimate, reached by AMP and hence above the Bayes-optimal one",
}


@record("bayes-multi-index-fixed-point")
@dataclass(frozen=True, eq=False)
class MultiIndexFixedPoint(Result):
    """A solution at one alpha: matrices ``q``, ``error_matrix`` V and ``qhat`` of shape (K, K), ``mmse`` = diag V.

    ``residual`` is the largest |qhat - alpha signal| by the largest entry of qhat. ``coupling`` is the largest
    |qhat_kl| / sqrt(qhat_kk qhat_ll) off the diagonal. ``error`` is the relative error of the channel. ``status`` is
    ``converged``, ``approximation`` (an upper bound, see ``advice``) or ``not converged``.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("matrix",)

    alpha: float
    q: FloatArray
    error_matrix: FloatArray
    qhat: FloatArray
    residual: float
    coupling: float
    error: float
    free_entropy: float
    branch: str
    status: str

    def variables(self) -> tuple[Variable, ...]:
        """Over the matrices, and over pairs of them."""
        pairs = {"q": "overlap tr(S_hat_k S_hat_l)", "error_matrix": "error matrix by d", "qhat": "conjugate overlap"}
        places = np.arange(1, len(self.q) + 1)
        return (
            Variable("matrix", places, ("matrix",), "attention matrix"),
            Variable("other", places, ("other",), "the other attention matrix of a pair"),
            Variable("mmse", self.mmse, ("matrix",), "minimum mean squared error by d"),
            *(Variable(name, getattr(self, name), ("matrix", "other"), what) for name, what in pairs.items()),
            *numbers(
                self,
                alpha="sample complexity n/d^2",
                residual="largest residual of qhat by its largest entry",
                coupling="largest correlation of two matrices in qhat",
                error="relative error of the channel",
                free_entropy="free entropy",
            ),
        )

    @property
    def mmse(self) -> FloatArray:
        """``V_kk``, shape (K,)."""
        return np.diagonal(self.error_matrix).copy()

    @property
    def ok(self) -> bool:
        """True when the residual is within the tolerance and the prior side is exact."""
        return self.status == CONVERGED

    @property
    def advice(self) -> str:
        """What the status means."""
        return _ADVICE[self.status]


@record("bayes-multi-index-state-evolution")
@dataclass(frozen=True, init=False)
class MultiIndexStateEvolution:
    """The matrix-valued equations of a ``JointPrior`` (or a sequence of laws) and a channel of several matrices.

    Exact for Gaussian priors, for one other matrix beside Gaussian ones, and for any priors that the output does not
    couple; else the status is ``approximation`` and the error an upper bound (see ``JointPrior``).

    >>> from aimtheory.bayes import LinearHeads
    >>> from aimtheory.spectra import GOE
    >>> only_sum = LinearHeads(tokens=2, mixing=[[1.0, 1.0]], noise=1.0)
    >>> point = MultiIndexStateEvolution([GOE(1), GOE(1)], only_sum).solve(alpha=0.2)
    >>> point.mmse.round(6), point.status
    (array([0.680118, 0.680118]), 'converged')
    """

    prior: JointPrior
    channel: JointChannel

    def __init__(
        self, priors: JointPrior | Sequence[SpectralLaw | Prior], channel: JointChannel | GeneralChannel
    ) -> None:
        joint = as_joint_channel(channel)
        object.__setattr__(self, "prior", check_joint_prior(priors, joint.indices))
        object.__setattr__(self, "channel", joint)

    def to_record(self) -> dict[str, object]:
        """The arguments of the constructor."""
        return {"priors": self.prior, "channel": self.channel}

    def signal(self, variance: ArrayLike) -> tuple[FloatArray, float]:
        """The matrix ``qhat / alpha`` at an error matrix V, and its largest relative error.

        Off-diagonal entries within the error of the channel are set to 0, so that noise of a rule couples nothing.
        """
        spread = real_array(variance, "V", 2)
        measured = self.channel.signal_matrix(_positive(self.prior.second_moment - spread), spread)
        matrix = 0.5 * (measured.value + measured.value.T)
        scale = float(np.diagonal(matrix).max())
        noise = np.minimum(10 * measured.error, 0.01 * scale) + 1e-12 * scale
        off = ~np.eye(len(matrix), dtype=bool) & (np.abs(matrix) <= noise)
        matrix[off] = 0.0
        return matrix, float(measured.error.max() / scale) if scale > 0 else 0.0

    def free_entropy(self, q: ArrayLike, qhat: ArrayLike, alpha: float) -> float:
        """``f(q, qhat)`` at symmetric matrices, on or off a fixed point."""
        overlap, precision = real_array(q, "q", 2), real_array(qhat, "qhat", 2)
        rate = float(check_alpha(alpha))
        spread = self.prior.second_moment - overlap
        value = 0.25 * float((precision * spread).sum()) - self.prior.information(precision)
        if rate > 0:
            value += rate * float(self.channel.psi_matrix(overlap, spread).value)
        return value

    def iterate(self, alpha: float, steps: int, damping: float = 0.0, start: ArrayLike | None = None) -> FloatArray:
        """V at steps 0..steps, (steps + 1, K, K), from the prior (or from V = ``start``): what AMP follows.

        ``damping`` is the weight of the old V where it enters the channel.
        """
        rate = float(check_alpha(alpha))
        variance = self.prior.spread if start is None else real_array(start, "start", 2)
        rows, used = [variance], variance
        for step in range(int(steps)):
            used = damping * used + (1 - damping) * rows[-1] if step else variance
            rows.append(self.prior.error_matrix(_positive(rate * self.signal(used)[0])))
        return np.array(rows)

    def solve(
        self,
        alpha: float,
        branch: str = "uninformed",
        tolerance: float = 1e-8,
        steps: int = 200,
        start: ArrayLike | None = None,
    ) -> MultiIndexFixedPoint:
        """From the prior, from nearly the true matrices (``branch="informed"``), or from V = ``start``.

        The undamped map is iterated; where it has not settled after ``steps`` the equations are solved by Powell's
        hybrid method. The status says whether the undamped residual is below ``tolerance``.
        """
        rate = float(check_alpha(alpha))
        if branch not in ("uninformed", "informed"):
            raise InputError(f"branch = {branch!r} must be 'uninformed' or 'informed'")
        spread = self.prior.spread
        variance = (
            (spread if branch == "uninformed" else 1e-3 * spread) if start is None else real_array(start, "start", 2)
        )
        matrix, error = self.signal(variance)
        if rate == 0 or np.all(matrix <= 0):
            return self._result(rate, np.zeros_like(spread), spread, matrix, 0.0, error, branch, tolerance)
        qhat, change = rate * matrix, np.inf
        for _ in range(steps):
            fresh = rate * self.signal(self.prior.error_matrix(_positive(qhat)))[0]
            change = float(np.abs(fresh - qhat).max() / np.abs(fresh).max())
            qhat = fresh
            if change < 0.1 * tolerance:
                break
        if change > tolerance:
            qhat = self._polished(rate, qhat)
        variance = self.prior.error_matrix(_positive(qhat))
        matrix, error = self.signal(variance)
        left = float(np.abs(rate * matrix - qhat).max() / np.abs(qhat).max())
        return self._result(rate, _positive(qhat), variance, matrix, left, error, branch, tolerance)

    def _polished(self, rate: float, qhat: FloatArray) -> FloatArray:
        """A root of the undamped equations near qhat, or qhat where none better is found."""
        places = np.triu_indices(len(qhat))
        scale = float(np.abs(qhat).max())

        def residual(flat: FloatArray) -> FloatArray:
            trial = _symmetric(flat * scale, places, len(qhat))
            found = rate * self.signal(self.prior.error_matrix(_positive(trial)))[0]
            return np.asarray((trial - found)[places] / scale)

        found = root(residual, qhat[places] / scale, method="hybr", options={"xtol": 1e-12})
        final = _positive(_symmetric(found.x * scale, places, len(qhat)))
        return min((final, _positive(qhat)), key=lambda each: self._residual(rate, each))

    def _residual(self, rate: float, qhat: FloatArray) -> float:
        found = rate * self.signal(self.prior.error_matrix(qhat))[0]
        return float(np.abs(found - qhat).max() / max(np.abs(qhat).max(), 1e-300))

    def _result(
        self,
        rate: float,
        qhat: FloatArray,
        variance: FloatArray,
        matrix: FloatArray,
        residual: float,
        error: float,
        branch: str,
        tolerance: float,
    ) -> MultiIndexFixedPoint:
        size = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
        ratio = np.divide(
            np.abs(matrix), np.outer(size, size), out=np.zeros_like(matrix), where=np.outer(size, size) > 0
        )
        np.fill_diagonal(ratio, 0.0)
        status = CONVERGED if self.prior.is_exact(qhat) else APPROXIMATION
        overlap = _positive(self.prior.second_moment - variance)
        entropy = self.free_entropy(overlap, qhat, rate)
        return MultiIndexFixedPoint(
            rate,
            overlap,
            variance,
            qhat,
            residual,
            float(ratio.max()),
            error,
            entropy,
            branch,
            status if residual <= tolerance else UNCONVERGED,
        )


def _positive(matrix: FloatArray) -> FloatArray:
    """The nearest positive semidefinite matrix; the matrix itself, symmetrized, where it is one."""
    symmetric = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(symmetric)
    if values[0] >= 0:
        return symmetric
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _symmetric(flat: FloatArray, places: tuple[NDArray[np.intp], ...], count: int) -> FloatArray:
    matrix = np.zeros((count, count))
    matrix[places] = flat
    return np.asarray(matrix + np.triu(matrix, 1).T)


__all__ = ["APPROXIMATION", "MultiIndexFixedPoint", "MultiIndexStateEvolution"]
