"""One step of online stochastic gradient descent of an attention-indexed model at finite d ([D] (7))."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aimtheory.model import AttentionModel
from aimtheory.simulate.explicit_traces import add_traces, trace_values
from aimtheory.simulate.gaussian_tokens import FloatArray, float_type
from aimtheory.simulate.parameters import Matrices, WorkingBasis, build_forms, model_letters, moving_letters

Samples = FloatArray | Sequence[FloatArray]
"""Tokens (batch, L, d), one array a context."""

_CHUNK_ROWS = 1 << 12
"""Tokens that go through the matrix products at once; larger batches are summed over chunks: memory does not grow."""


class OnlineSgd:
    """The state of one run: parameters theta that step by -learning_rate (grad of the batch mean loss) -
    (learning_rate gamma / d) theta.

    ``step(samples)`` makes one step on one array of tokens (batch, L, d) a context of the model (the array itself when
    there is one context), given in the working basis; ``parameters`` are the matrices there, changed in place. Explicit
    traces are those of the parameters before the step; numbers move with learning rate alpha_d/d. Flops a step:
    ``flops_per_sample`` x batch.
    """

    def __init__(
        self, model: AttentionModel, parameters: Matrices, dim: int, learning_rate: float, batch: int, dtype: object
    ) -> None:
        self.model = model
        self.dim = dim
        self.dtype = float_type(dtype)
        self.letters = model_letters(model)
        self.moving = moving_letters(model)
        self.basis = WorkingBasis.of(model, parameters, dim)
        rotated = self.basis.enter(parameters, self.letters)
        self.parameters: dict[str, FloatArray] = {
            name: np.ascontiguousarray(matrix, dtype=self.dtype) for name, matrix in rotated.items()
        }
        self.chunks = [max(1, min(batch, _CHUNK_ROWS // context.tokens)) for context in model.contexts]
        self.covariances = [context.covariance_matrix for context in model.contexts]
        self.forms = [
            build_forms(model, self.parameters, dim, chunk * context.tokens, self.dtype, self.basis, context)
            for chunk, context in zip(self.chunks, model.contexts, strict=True)
        ]
        self.learning_rate = learning_rate
        self.decay = 1 - learning_rate * float(model.weight_decay) / dim

    @property
    def flops_per_sample(self) -> float:
        """Flops of the matrix products that a sample takes, on average over the contexts."""
        pairs = zip(self.forms, self.model.contexts, strict=True)
        return sum(forms.flops_per_row * context.tokens * float(context.weight) for forms, context in pairs)

    def gradient(self, samples: Samples) -> tuple[dict[str, FloatArray], bool]:
        """Gradient of the batch mean loss by every moving letter, and whether all forms were finite."""
        samples = _by_context(samples)
        batch = sum(map(len, samples))
        loss = self.model.loss
        values = trace_values(self.model, self.parameters, self.dim) if loss.traces else []
        slopes = np.zeros(len(values))
        total: dict[str, FloatArray] = {}
        for tokens, machine, chunk, covariance in zip(samples, self.forms, self.chunks, self.covariances, strict=True):
            here = loss.at(values, covariance)
            for start in range(0, len(tokens), chunk):
                forms = machine.forward(tokens[start : start + chunk])
                if not np.isfinite(forms).all():
                    return total, False
                cotangent = here.gradient(forms)
                cotangent *= self.dtype.type(1 / batch)
                if values:
                    slopes += loss.trace_gradient(forms, values, covariance).sum(axis=0, dtype=np.float64) / batch
                for name, term in machine.backward(cotangent).items():
                    if name in total:
                        total[name] += term
                    else:
                        total[name] = term
        if values:
            add_traces(self.model, self.parameters, self.dim, self.moving, slopes, total)
        return total, True

    def step(self, samples: Samples) -> bool:
        """One step; False, with nothing changed, when a form was not finite."""
        gradient, finite = self.gradient(samples)
        if finite:
            for name in self.moving:
                matrix = self.parameters[name]
                if self.decay != 1:
                    matrix *= self.dtype.type(self.decay)
                if name in gradient:
                    term = gradient[name]
                    term *= self.dtype.type(self.learning_rate)
                    matrix -= term
        return finite

    def mean_loss(self, samples: Samples) -> float:
        """The loss averaged over tokens of shape (samples, L, d) of every context, contexts by their weights."""
        samples = _by_context(samples)
        values = trace_values(self.model, self.parameters, self.dim) if self.model.loss.traces else []
        total = 0.0
        for tokens, machine, chunk, covariance, context in zip(
            samples, self.forms, self.chunks, self.covariances, self.model.contexts, strict=True
        ):
            here = self.model.loss.at(values, covariance)
            parts = [
                here.value(machine.forward(tokens[start : start + chunk])) for start in range(0, len(tokens), chunk)
            ]
            total += float(context.weight) * float(np.concatenate(parts).mean(dtype=np.float64))
        return total

    def original(self) -> Matrices:
        """The parameter matrices in the basis in which they were given, float64."""
        return self.basis.leave({name: self.parameters[name] for name in self.letters}, self.letters)


def _by_context(samples: Samples) -> Sequence[FloatArray]:
    return [samples] if isinstance(samples, np.ndarray) else samples


__all__ = ["OnlineSgd"]
