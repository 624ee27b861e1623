"""Functions of Gaussian features and their jets: what the potential needs of an activation.

A site of the loss (an entry or a row of the attention matrix) sees an index through p linear *features* u of its
forms: the entry G_ij itself, or the differences G_ij − G_ii of a row on which its softmax depends. A feature function
maps u (p numbers) to o outputs, with first and second derivatives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import sympy as sp

from aimtheory.model.activations import ElementwiseActivation


class FeatureFunction(ABC):
    """o functions of p features; ``jet`` gives F (N, o), dF (N, p, o) and d²F (N, p, p, o) at points (N, p)."""

    @abstractmethod
    def value(self, points: np.ndarray) -> np.ndarray:
        """F, shape (N, o)."""

    @abstractmethod
    def jet(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, dF, d²F)."""

    @abstractmethod
    def radial_jet(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, dF R, Δ_R F): derivatives along the r columns of R (N, r, o), and the sum of second ones (N, o)."""

    @abstractmethod
    def expressions(self, feature: sp.Expr) -> tuple[sp.Expr, ...]:
        """The outputs as formulas of the feature, for a function of one."""


@dataclass(frozen=True)
class EntryFunction(FeatureFunction):
    """An elementwise activation on p entries at once (p = 1 for one entry of the matrix)."""

    activation: ElementwiseActivation
    count: int = 1

    def value(self, points: np.ndarray) -> np.ndarray:
        """f(u_o)."""
        return self.activation(points)

    def jet(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Diagonal derivatives."""
        size, p = points.shape
        first, second = np.zeros((size, p, p)), np.zeros((size, p, p, p))
        diagonal = np.arange(p)
        first[:, diagonal, diagonal] = self.activation.derivative(points)
        second[:, diagonal, diagonal, diagonal] = self.activation.second_derivative(points)
        return self.activation(points), first, second

    def radial_jet(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f' R and f'' (R R^T)_oo."""
        first = self.activation.derivative(points)[:, None, :] * factor.T
        second = self.activation.second_derivative(points) * (factor * factor).sum(axis=1)
        return self.activation(points), first, second

    def expressions(self, feature: sp.Expr) -> tuple[sp.Expr, ...]:
        """f."""
        return (self.activation.scalar_expression(feature),)


@dataclass(frozen=True)
class RowSoftmax(FeatureFunction):
    """Softmax of (0, u_1, …, u_p) at inverse temperature beta: o = p + 1 probabilities, the reference entry first."""

    inverse_temperature: float
    count: int

    def value(self, points: np.ndarray) -> np.ndarray:
        """The probabilities."""
        return self._probabilities(points)

    def _probabilities(self, points: np.ndarray) -> np.ndarray:
        logits = np.zeros((points.shape[0], points.shape[1] + 1))
        np.multiply(points, self.inverse_temperature, out=logits[:, 1:])
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits

    def _responses(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p (N, o) and e_ao = δ_oa − p_a (N, p, o)."""
        probabilities = self._probabilities(points)
        indicator = np.eye(self.count + 1)[1:]
        return probabilities, indicator - probabilities[:, 1:, None]

    def jet(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """∂_a p_o = β p_o e_ao, ∂_a∂_b p_o = β² p_o (e_ao e_bo − p_a(δ_ab − p_b))."""
        beta = self.inverse_temperature
        probabilities, response = self._responses(points)
        first = beta * probabilities[:, None, :] * response
        fisher = probabilities[:, 1:, None] * response[:, :, 1:].transpose(0, 2, 1)
        second = response[:, :, None, :] * response[:, None, :, :] - fisher[..., None]
        second *= beta**2 * probabilities[:, None, None, :]
        return probabilities, first, second

    def _deviations(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """p, y_o = R_o − Σ_j p_j R_j (N, r, o) with R_reference = 0, and |y_o|²."""
        probabilities = self._probabilities(points)
        rows = np.vstack([np.zeros((1, factor.shape[1])), factor]).T
        deviation = rows - (probabilities @ rows.T)[:, :, None]
        return probabilities, deviation, np.einsum("nro,nro->no", deviation, deviation)

    def radial_jet(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """β p_o y_o and β² p_o (|y_o|² − Σ_j p_j |y_j|²)."""
        beta = self.inverse_temperature
        probabilities, deviation, squares = self._deviations(points, factor)
        mean_square = np.einsum("no,no->n", probabilities, squares)
        second = beta**2 * probabilities * (squares - mean_square[:, None])
        return probabilities, beta * probabilities[:, None, :] * deviation, second

    def expressions(self, feature: sp.Expr) -> tuple[sp.Expr, ...]:
        """(1 ∓ tanh(βu/2))/2."""
        half = sp.tanh(sp.Float(self.inverse_temperature) * feature / 2) / 2
        return sp.Rational(1, 2) - half, sp.Rational(1, 2) + half


@dataclass(frozen=True)
class RowSurprise(RowSoftmax):
    """−log softmax of (0, u_1, …, u_p): the surprise that cross entropy averages."""

    def value(self, points: np.ndarray) -> np.ndarray:
        """log Σ_j exp(β u_j) − β u_o."""
        logits = np.zeros((points.shape[0], points.shape[1] + 1))
        np.multiply(points, self.inverse_temperature, out=logits[:, 1:])
        largest = logits.max(axis=1, keepdims=True)
        return np.asarray(largest + np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)) - logits)

    def jet(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """∂_a = −β e_ao, ∂_a∂_b = β² p_a (δ_ab − p_b) for every output."""
        beta = self.inverse_temperature
        probabilities, response = self._responses(points)
        fisher = probabilities[:, 1:, None] * response[:, :, 1:].transpose(0, 2, 1)
        second = np.repeat(beta**2 * fisher[..., None], self.count + 1, axis=3)
        return self.value(points), -beta * response, second

    def radial_jet(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """−β y_o and β² Σ_j p_j |y_j|²."""
        beta = self.inverse_temperature
        probabilities, deviation, squares = self._deviations(points, factor)
        mean_square = np.einsum("no,no->n", probabilities, squares)
        second = np.repeat(beta**2 * mean_square[:, None], self.count + 1, axis=1)
        return self.value(points), -beta * deviation, second

    def expressions(self, feature: sp.Expr) -> tuple[sp.Expr, ...]:
        """log 2cosh(βu/2) ± βu/2."""
        half = sp.Float(self.inverse_temperature) * feature / 2
        both = sp.log(2 * sp.cosh(half))
        return both + half, both - half


@dataclass(frozen=True, eq=False)
class MixedOutputs(FeatureFunction):
    """F(u) M: the outputs of a function mixed by a matrix, such as the root of a token covariance."""

    function: FeatureFunction
    mixing: np.ndarray

    def value(self, points: np.ndarray) -> np.ndarray:
        """F M."""
        return self.function.value(points) @ self.mixing

    def jet(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F M and its derivatives."""
        value, first, second = self.function.jet(points)
        return value @ self.mixing, first @ self.mixing, second @ self.mixing

    def radial_jet(self, points: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F M and its derivatives along the columns of a factor."""
        value, first, second = self.function.radial_jet(points, factor)
        return value @ self.mixing, first @ self.mixing, second @ self.mixing

    def expressions(self, feature: sp.Expr) -> tuple[sp.Expr, ...]:
        """F M."""
        return tuple(sp.Matrix([self.function.expressions(feature)]) * sp.Matrix(self.mixing))


__all__ = ["EntryFunction", "FeatureFunction", "MixedOutputs", "RowSoftmax", "RowSurprise"]
