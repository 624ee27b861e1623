"""The squared error (sum over outputs of (y_hat - y)^2) of a student's forms, and its gradient by the forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch

import numpy as np

from aimtheory.bayes import Channel, LinearChannel, SoftmaxChannel
from aimtheory.bayes.token_pairs import as_matrix
from aimtheory.errors import InputError
from aimtheory.model.activations import Activation, activation
from aimtheory.simulate.gaussian_tokens import FloatArray


class OutputLoss(ABC):
    """``value_and_cotangent(forms (c, T, T), rows)``: loss summed over the samples of ``rows``, and dloss/dforms."""

    @abstractmethod
    def value_and_cotangent(self, forms: FloatArray, rows: slice) -> tuple[float, FloatArray]:
        """The loss, and its gradient (c, T, T) by every entry of the forms as if they were independent."""


class SoftmaxLoss(OutputLoss):
    """``sum_ab (softmax(beta h)_ab - y_ab)^2`` over all T^2 outputs ([B])."""

    def __init__(self, channel: SoftmaxChannel, outputs: FloatArray, dtype: np.dtype) -> None:
        self.activation: Activation = activation("softmax", inverse_temperature=channel.inverse_temperature)
        self.outputs = np.asarray(outputs, dtype=dtype)

    def value_and_cotangent(self, forms: FloatArray, rows: slice) -> tuple[float, FloatArray]:
        """Through the activation's vector-Jacobian product."""
        residual = self.activation(forms) - self.outputs[rows]
        value = float((residual * residual).sum(dtype=np.float64))
        residual *= forms.dtype.type(2)
        return value, self.activation.vector_jacobian(forms, residual)


class LinearLoss(OutputLoss):
    """``sum_{a<=b} (h_ab - y_ab)^2``: each observed pair once."""

    def __init__(self, channel: LinearChannel, outputs: FloatArray, dtype: np.dtype) -> None:
        self.outputs = as_matrix(np.asarray(outputs, dtype=dtype), channel.tokens)
        # Off the diagonal half of the gradient goes to (a, b) and half to (b, a).
        self.weight = (0.5 + 0.5 * np.eye(channel.tokens)).astype(dtype)

    def value_and_cotangent(self, forms: FloatArray, rows: slice) -> tuple[float, FloatArray]:
        """Weighted residuals."""
        residual = forms - self.outputs[rows]
        weighted = residual * self.weight
        value = float((residual * weighted).sum(dtype=np.float64))
        weighted *= forms.dtype.type(2)
        return value, weighted


@singledispatch
def output_loss(channel: Channel, outputs: FloatArray, dtype: np.dtype) -> OutputLoss:  # noqa: ARG001
    """The loss of a channel with a differentiable output, which registers it here; ``InputError`` for the others."""
    raise InputError(
        f"gradient descent needs a differentiable output, which the {channel.name} channel has not: "
        "choose softmax or linear, or learn it by amp"
    )


output_loss.register(SoftmaxChannel, SoftmaxLoss)
output_loss.register(LinearChannel, LinearLoss)

__all__ = ["LinearLoss", "OutputLoss", "SoftmaxLoss", "output_loss"]
