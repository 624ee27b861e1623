"""The attention network as a user writes it: an architecture that compiles into words and runs forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aimtheory.networks.architecture import Architecture
from aimtheory.networks.compilation import CompiledNetwork, compile_network, forward_pass
from aimtheory.spectra import InitialLaw, MatrixLaw


class AttentionNetwork(Architecture):
    """A stack of attention layers: see :class:`Architecture` for its equations and options, ``count`` for K.

    >>> network = AttentionNetwork(layers=2, heads=1)
    >>> print(network)
    2 layers, 1 heads, untied: 21 effective matrices
      layer 1: 1, 1 a head (1 paths)
      layer 2: 4, 4 a head (2 paths)
      read-out: 16 (4 paths)
    >>> len(network.compile().forms)
    21
    """

    def compile(
        self, attention_law: MatrixLaw | None = None, value_law: InitialLaw | None = None, **options: Any
    ) -> CompiledNetwork:
        """Parameters and forms: see :func:`compile_network`."""
        return compile_network(self, attention_law, value_law, **options)

    def forward(self, X: np.ndarray, parameters: Mapping[str, np.ndarray], **options: Any) -> np.ndarray:
        """The output at tokens X (..., L, d), exact at every d: see :func:`forward_pass`."""
        return forward_pass(self, X, parameters, **options)


__all__ = ["AttentionNetwork"]
