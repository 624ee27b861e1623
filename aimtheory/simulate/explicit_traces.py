"""The order parameters that a loss reads explicitly, at finite d: their values and the gradient through them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aimtheory.model import AttentionModel
from aimtheory.simulate.attention_forms import add_trace_gradient, trace
from aimtheory.simulate.gaussian_tokens import FloatArray
from aimtheory.words import SCALARS, Polynomial


def _polynomials(model: AttentionModel) -> list[Polynomial]:
    named = {each.name: each.matrix for each in model.traces}
    return [named[name] for name in model.loss.traces]


def trace_values(model: AttentionModel, parameters: Mapping[str, FloatArray], dim: int) -> list[float]:
    """R = Tr P/d of the traces that the loss reads (P itself, of numbers), in the order of ``loss.traces``."""
    return [trace(P, parameters, dim) / (1 if P.rows == SCALARS else dim) for P in _polynomials(model)]


def add_traces(
    model: AttentionModel,
    parameters: Mapping[str, FloatArray],
    dim: int,
    moving: frozenset[str],
    slopes: FloatArray,
    gradients: dict[str, FloatArray],
) -> None:
    """Add the gradient through the traces, ``slopes`` being d loss/d R.

    Tr P/d has the gradient D Tr P / d by a matrix. A number moves with learning rate alpha_d/d, the time scale of the
    moments, which is the same factor 1/d.
    """
    for P, slope in zip(_polynomials(model), np.asarray(slopes, dtype=np.float64).tolist(), strict=True):
        add_trace_gradient(P, parameters, dim, moving, slope / dim, gradients)


__all__ = ["add_traces", "trace_values"]
