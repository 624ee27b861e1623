"""Numbers with their error: the value of the potential, and its gradients."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A number and how far it may be off.

    ``error`` compares two rules of a cubature (``method="grid"``) or two grids of the integrals over softmax rows
    (``"rows"``), or is one standard error over independent randomizations (``"sobol"``); a closed form has the error of
    floating point.
    """

    value: float
    error: float
    method: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.12g} ± {self.error:.1g} ({self.method})"


@dataclass(frozen=True)
class PotentialGradients:
    """Gradients of Phi(m, q1, q2; R): dPhi = Σ_k mean_k dm_k + Σ_kl (q1_kl dq1_kl + q2_kl dq2_kl) + Σ_r traces_r dR_r,
    all ordered pairs.

    An off-diagonal entry is half the derivative by the shared variable q_kl = q_lk. Shapes (K,), (K, K), (K, K), (R,).
    ``error`` bounds the error of any entry in the sense of :class:`Estimate`.
    """

    mean: np.ndarray
    q1: np.ndarray
    q2: np.ndarray
    error: float
    method: str
    traces: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def tied(self) -> np.ndarray:
        """The gradient by q on the tied line q1 = q2 = q: ``q1 + q2``."""
        return self.q1 + self.q2


__all__ = ["Estimate", "PotentialGradients"]
