"""One step of online stochastic gradient descent of an attention-indexed model at finite d ([D] (7))."""

from __future__ import annotations

import numpy as np

from aimtheory.model import AttentionModel
from aimtheory.simulate.gaussian_tokens import FloatArray, float_type
from aimtheory.simulate.parameters import Matrices, WorkingBasis, build_forms, model_letters

_CHUNK_ROWS = 1 << 12
"""Tokens that go through the matrix products at once; larger batches are summed over chunks: memory does not grow."""


class OnlineSgd:
    """The state of one run: parameters theta that step by -learning_rate (grad of the batch mean loss) -
    (learning_rate gamma / d) theta.

    ``step(tokens)`` makes one step on tokens of shape (batch, L, d) given in the working basis; ``parameters`` are
    the matrices there, changed in place. Flops a step: ``forms.flops_per_row`` x batch x L.
    """

    def __init__(
        self, model: AttentionModel, parameters: Matrices, dim: int, learning_rate: float, batch: int, dtype: object
    ) -> None:
        self.model = model
        self.dtype = float_type(dtype)
        self.letters = model_letters(model)
        self.basis = WorkingBasis.of(model, parameters, dim)
        rotated = self.basis.enter(parameters, self.letters)
        self.parameters: dict[str, FloatArray] = {
            name: np.ascontiguousarray(matrix, dtype=self.dtype) for name, matrix in rotated.items()
        }
        self.chunk = max(1, min(batch, _CHUNK_ROWS // model.tokens))
        self.forms = build_forms(model, self.parameters, dim, self.chunk * model.tokens, self.dtype, working=self.basis)
        self.learning_rate = learning_rate
        self.decay = 1 - learning_rate * float(model.weight_decay) / dim

    def gradient(self, tokens: FloatArray) -> tuple[dict[str, FloatArray], bool]:
        """Gradient of the batch mean loss by every moving letter, and whether all forms were finite."""
        batch = len(tokens)
        total: dict[str, FloatArray] = {}
        for start in range(0, batch, self.chunk):
            forms = self.forms.forward(tokens[start : start + self.chunk])
            if not np.isfinite(forms).all():
                return total, False
            cotangent = self.model.loss.gradient(forms)
            cotangent *= self.dtype.type(1 / batch)
            for name, term in self.forms.backward(cotangent).items():
                if name in total:
                    total[name] += term
                else:
                    total[name] = term
        return total, True

    def step(self, tokens: FloatArray) -> bool:
        """One step; False, with nothing changed, when a form was not finite."""
        gradient, finite = self.gradient(tokens)
        if finite:
            for name, term in gradient.items():
                matrix = self.parameters[name]
                if self.decay != 1:
                    matrix *= self.dtype.type(self.decay)
                term *= self.dtype.type(self.learning_rate)
                matrix -= term
        return finite

    def mean_loss(self, tokens: FloatArray) -> float:
        """The loss averaged over tokens of shape (samples, L, d)."""
        parts = [
            self.model.loss.value(self.forms.forward(tokens[start : start + self.chunk]))
            for start in range(0, len(tokens), self.chunk)
        ]
        return float(np.concatenate(parts).mean(dtype=np.float64))

    def original(self) -> Matrices:
        """The parameter matrices in the basis in which they were given, float64."""
        return self.basis.leave({name: self.parameters[name] for name in self.letters}, self.letters)


__all__ = ["OnlineSgd"]
