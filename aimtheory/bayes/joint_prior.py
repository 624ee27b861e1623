"""Several attention matrices denoised together: the prior side of the matrix-valued overlap equations.

K independent matrices are seen through ``T_k = sum_l qhat_kl S_l + (qhat^{1/2} Z)_k``, Z_l independent GOEs, the
effective observation of a channel that mixes them. The error ``V_kl = lim E Tr (S_k - S_hat_k)(S_l - S_hat_l)/d``
is exact

- for Gaussian priors of covariance C (GOEs, correlated or not): ``V = (C^{-1} + qhat)^{-1}``,
  I = (1/4) log det(1 + C qhat);
- for one other matrix n beside Gaussian ones g: integrating those out leaves n with the scalar precision
  ``qhat_nn - qhat_ng V_g qhat_gn``, V_g = (C_g^{-1} + qhat_gg)^{-1}, and then, given S_n, the rest is Gaussian again:
  ``V_nn = MMSE_n``, ``V_gn = -V_g qhat_gn V_nn``, ``V_gg = V_g + V_g qhat_gn V_nn qhat_ng V_g``;
- for any priors in blocks that qhat does not couple.

Where two matrices that are not Gaussian are coupled no exact solution is known. There the best linear estimate is used,
whose error ``(C^{-1} + qhat)^{-1}`` depends on the first two moments only: it is an upper bound, reached by an
algorithm, so that no value is below the Bayes-optimal one. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.prior import LawPrior, Prior
from aimtheory.errors import AssumptionError, InputError
from aimtheory.records import record
from aimtheory.spectra import GOE, SpectralLaw, denoise_matrix
from aimtheory.spectra.law import FloatArray

COUPLED = 1e-12
"""|qhat_kl| / sqrt(qhat_kk qhat_ll) above which two matrices count as coupled."""

_BLIND = 1e-12
"""qhat Q0 up to which an observation is taken to say nothing."""


@dataclass(frozen=True)
class _Block:
    """Matrices that belong together: Gaussian ones, and at most one other when the treatment is exact."""

    gaussian: tuple[int, ...]
    other: int | None
    exact: bool


@record("prior-joint")
@dataclass(frozen=True, init=False)
class JointPrior:
    """K matrices, independent with the given priors, or jointly Gaussian with a covariance.

    ``covariance`` (K, K), positive definite, makes the S_k correlated GOEs, ``tr S_k S_l = C_kl``; priors are then left
    out. Raises ``InputError`` for a covariance that is not symmetric and positive definite.

    >>> both = JointPrior([GOE(1), GOE(1)])
    >>> both.error_matrix([[0.5, 0.5], [0.5, 0.5]])      # only the sum is seen
    array([[ 0.75, -0.25],
           [-0.25,  0.75]])
    """

    priors: tuple[Prior, ...]
    covariance: tuple[tuple[float, ...], ...]

    def __init__(
        self, priors: Sequence[SpectralLaw | Prior] | None = None, covariance: ArrayLike | None = None
    ) -> None:
        if (priors is None) == (covariance is None):
            raise InputError("give either priors or the covariance of Gaussian matrices, not both and not neither")
        if priors is not None:
            laws = tuple(prior if isinstance(prior, Prior) else LawPrior(prior) for prior in priors)
            if not laws:
                raise InputError("priors is empty; give one law a matrix")
            matrix = np.diag([prior.second_moment - prior.mean_square for prior in laws])
        else:
            matrix = real_array(covariance, "covariance", 2)  # type: ignore[arg-type]
            if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0):
                raise InputError(
                    f"covariance of shape {matrix.shape} must be a symmetric (K, K) matrix, C_kl = tr S_k S_l"
                )
            smallest = float(np.linalg.eigvalsh(matrix)[0]) if len(matrix) else 0.0
            if smallest <= 1e-13 * float(np.trace(matrix)):
                raise InputError(f"covariance has the eigenvalue {smallest:.3g}; it must be positive definite")
            laws = tuple(LawPrior(GOE(float(value))) for value in np.diagonal(matrix))
        object.__setattr__(self, "priors", laws)
        object.__setattr__(self, "covariance", tuple(map(tuple, matrix.tolist())))

    def to_record(self) -> dict[str, object]:
        """The arguments of the constructor."""
        spread = self.spread
        independent = np.array_equal(spread, np.diag(np.diagonal(spread)))
        return {"priors": self.priors} if independent else {"covariance": spread}

    @property
    def count(self) -> int:
        """K."""
        return len(self.priors)

    @property
    def spread(self) -> FloatArray:
        """The covariance C of the matrices about their means, (K, K): V at qhat = 0."""
        return np.array(self.covariance)

    @property
    def means(self) -> FloatArray:
        """``tr S_k``, shape (K,)."""
        return np.array([prior.mean for prior in self.priors])

    @property
    def second_moment(self) -> FloatArray:
        """``Q0_kl = lim tr S_k S_l = C_kl + tr S_k tr S_l``: independent rotationally invariant matrices are free."""
        return self.spread + np.outer(self.means, self.means)

    @property
    def exchangeable(self) -> bool:
        """True when the matrices are Gaussian with one variance and one correlation."""
        spread = self.spread
        off = spread[~np.eye(self.count, dtype=bool)]
        same = np.ptp(np.diagonal(spread)) == 0 and (not len(off) or np.ptp(off) == 0)
        return bool(same and all(prior.is_gaussian for prior in self.priors))

    def is_exact(self, qhat: ArrayLike) -> bool:
        """False where two coupled matrices are not Gaussian: the value is then an upper bound."""
        return all(block.exact for block in self._blocks(self._check(qhat)))

    def error_matrix(self, qhat: ArrayLike) -> FloatArray:
        """V(qhat), (K, K); ``qhat`` symmetric and positive semidefinite."""
        precision = self._check(qhat)
        error = np.zeros_like(precision)
        for block in self._blocks(precision):
            places = [*block.gaussian, *([] if block.other is None else [block.other])]
            gaussian = list(block.gaussian)
            inner, coupling = self._gaussian_part(precision, block)
            error[np.ix_(gaussian, gaussian)] = inner
            if block.other is not None:
                scalar = float(self.priors[block.other].mmse(self._reduced(precision, block, coupling)))
                vector = np.append(-coupling, 1.0)
                error[np.ix_(places, places)] += scalar * np.outer(vector, vector)
        return error

    def information(self, qhat: ArrayLike) -> float:
        """``I(qhat) = lim I(S; T)/d^2``, with ``dI/dqhat_kl = V_kl / 4`` (both (k, l) and (l, k) counted).

        With the linear estimate it is the information that a Gaussian prior of the same moments would have.
        """
        precision = self._check(qhat)
        total = 0.0
        for block in self._blocks(precision):
            gaussian = list(block.gaussian)
            root = np.linalg.cholesky(self.spread[np.ix_(gaussian, gaussian)])
            values = np.linalg.eigvalsh(root.T @ precision[np.ix_(gaussian, gaussian)] @ root)
            total += 0.25 * float(np.log1p(np.maximum(values, 0.0)).sum())
            if block.other is not None:
                _, coupling = self._gaussian_part(precision, block)
                total += float(self.priors[block.other].information(self._reduced(precision, block, coupling)))
        return total

    def denoise(self, qhat: ArrayLike, observed: FloatArray) -> FloatArray:
        """``E[S | T]`` of observations T (K, d, d) at large d, or the linear estimate; laws are needed, O(K d^3)."""
        precision = self._check(qhat)
        dim = observed.shape[1]
        identity = np.eye(dim)
        result = np.empty_like(observed)
        for block in self._blocks(precision):
            gaussian = list(block.gaussian)
            inner, coupling = self._gaussian_part(precision, block)
            mean = self.means[gaussian]
            # Only the linear estimate has means here: matrices of a Gaussian block that is exact are centred.
            field = observed[gaussian] - np.multiply.outer(precision[np.ix_(gaussian, gaussian)] @ mean, identity)
            if block.other is not None:
                n = block.other
                prior = self.priors[n]
                reduced = self._reduced(precision, block, coupling)
                law = prior.as_law_prior().law
                if reduced * prior.second_moment <= _BLIND:
                    result[n] = prior.mean * identity
                else:
                    seen = observed[n] - np.tensordot(coupling, observed[gaussian], axes=1)
                    result[n] = denoise_matrix(law, reduced, seen / reduced)
                field = field - np.multiply.outer(precision[gaussian, n], result[n])
            result[gaussian] = np.tensordot(inner, field, axes=1) + np.multiply.outer(mean, identity)
        return result

    def _check(self, qhat: ArrayLike) -> FloatArray:
        matrix = real_array(qhat, "qhat", 2)
        if matrix.shape != (self.count, self.count):
            raise InputError(f"qhat must have shape ({self.count}, {self.count}), one row a matrix; got {matrix.shape}")
        size = float(np.abs(matrix).max(initial=0.0))
        if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-9 * size:
            raise InputError("qhat is not symmetric")
        matrix = 0.5 * (matrix + matrix.T)
        values = np.linalg.eigvalsh(matrix)
        if values[0] < -1e-9 * max(size, 1e-300):
            raise InputError(f"qhat has the eigenvalue {values[0]:.3g}; it must be positive semidefinite")
        return matrix

    def _blocks(self, precision: FloatArray) -> list[_Block]:
        scale = np.sqrt(np.maximum(np.diagonal(precision), 0.0))
        coupled = np.abs(precision) > COUPLED * np.outer(scale, scale)
        linked = coupled | (self.spread != 0)
        left, blocks = set(range(self.count)), []
        while left:
            members, frontier = set(), {min(left)}
            while frontier:
                members |= frontier
                frontier = {m for k in frontier for m in np.flatnonzero(linked[k]).tolist()} - members
            left -= members
            others = [k for k in sorted(members) if not self.priors[k].is_gaussian]
            if len(others) == 1:
                blocks.append(_Block(tuple(sorted(members - set(others))), others[0], True))
            else:
                blocks.append(_Block(tuple(sorted(members)), None, not others))
        return blocks

    def _gaussian_part(self, precision: FloatArray, block: _Block) -> tuple[FloatArray, FloatArray]:
        """``V_g = (C_g^{-1} + qhat_gg)^{-1}`` and ``V_g qhat_gn``."""
        gaussian = list(block.gaussian)
        root = np.linalg.cholesky(self.spread[np.ix_(gaussian, gaussian)])
        whitened = np.eye(len(gaussian)) + root.T @ precision[np.ix_(gaussian, gaussian)] @ root
        raw = np.asarray(root @ np.linalg.solve(whitened, root.T), dtype=np.float64)
        inner = 0.5 * (raw + raw.T)
        coupling = np.zeros(len(gaussian)) if block.other is None else inner @ precision[gaussian, block.other]
        return inner, coupling

    def _reduced(self, precision: FloatArray, block: _Block, coupling: FloatArray) -> float:
        """``qhat_nn - qhat_ng V_g qhat_gn``."""
        n = block.other
        value = float(precision[n, n] - precision[n, list(block.gaussian)] @ coupling)
        return max(value, 0.0)


def check_joint_prior(priors: object, indices: int) -> JointPrior:
    """A ``JointPrior`` of ``indices`` matrices from one, or from a sequence of priors; ``InputError`` else."""
    joint = priors if isinstance(priors, JointPrior) else JointPrior(priors)  # type: ignore[arg-type]
    if joint.count != indices:
        raise InputError(f"the channel sees {indices} matrices, but {joint.count} priors were given")
    if any(prior.second_moment <= prior.mean_square for prior in joint.priors):
        raise AssumptionError("a prior has no spread: its matrix is known beforehand")
    return joint


__all__ = ["JointPrior", "check_joint_prior"]
