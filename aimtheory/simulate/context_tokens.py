"""Tokens of a batch in every context of a model."""

from __future__ import annotations

import numpy as np

from aimtheory.model import AttentionModel
from aimtheory.simulate.gaussian_tokens import FloatArray, GaussianTokens


class ContextTokens:
    """Fresh tokens a call: one array (n_c, L_c, d) a context, the n_c of a mixture multinomial with sum ``batch``.

    With ``everywhere`` each context gets ``batch`` samples instead, for averages by weight. Same seed, same numbers.
    """

    def __init__(
        self,
        model: AttentionModel,
        dim: int,
        batch: int,
        dtype: object,
        stream: np.random.SeedSequence,
        *,
        everywhere: bool = False,
        background: bool = False,
    ) -> None:
        self.batch = batch
        self.weights = np.array([float(context.weight) for context in model.contexts])
        self.everywhere = everywhere or len(self.weights) == 1
        count = len(self.weights)
        streams = [stream] if count == 1 else [_child(stream, n) for n in range(count + 1)]
        self._choice = np.random.default_rng(streams[-1])
        self._sources = [
            GaussianTokens(dim, context.covariance_matrix, batch, dtype, each, background=background and count == 1)
            for context, each in zip(model.contexts, streams, strict=False)
        ]

    def __call__(self) -> list[FloatArray]:
        """The tokens of the next batch."""
        if self.everywhere:
            return [source() for source in self._sources]
        counts = self._choice.multinomial(self.batch, self.weights / self.weights.sum())
        return [source()[:count] for source, count in zip(self._sources, counts, strict=True)]


def _child(stream: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(stream.entropy, spawn_key=(*stream.spawn_key, number))


__all__ = ["ContextTokens"]
