"""The forward pass of a network at finite d, as a program would run it: tokens through the layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aimtheory.errors import InputError
from aimtheory.networks.architecture import Architecture
from aimtheory.networks.parameters import attention_factors, value_name
from aimtheory.networks.unrolling import Path, Unrolling


def attention_matrix(
    network: Architecture, parameters: Mapping[str, np.ndarray], level: int, head: int, tag: str = ""
) -> np.ndarray:
    """S of one head, d x d, from its factors."""
    names = [name for name, _ in attention_factors(network, level, head, tag)]
    if network.parameterization == "direct":
        return parameters[names[0]]
    return parameters[names[0]] @ parameters[names[-1]].T


def forward(
    network: Architecture,
    X: np.ndarray,
    parameters: Mapping[str, np.ndarray],
    *,
    covariance: np.ndarray | None = None,
    tag: str = "",
) -> np.ndarray:
    """The output at tokens X (..., L, d): (..., L, L) for the read-out of attention, (..., L, d) for that of tokens.

    With ``covariance`` C the scores are centred, as those of tied attention must be to have a limit: each form
    x_i^T N x_j / sqrt(d) of an effective matrix N loses C_ij Tr N / sqrt(d).
    """
    dim = X.shape[-1]
    unrolled = Unrolling(network)
    tokens = X
    weights = [np.broadcast_to(np.eye(X.shape[-2]), (*X.shape[:-1], X.shape[-2]))]

    def score(level: int, head: int) -> np.ndarray:
        matrix = attention_matrix(network, parameters, level, head, tag)
        result = tokens @ matrix @ np.swapaxes(tokens, -1, -2) / np.sqrt(dim)
        if covariance is None:
            return result
        products = [path_product(parameters, path, dim, tag) for path in unrolled.levels[level]]
        for left, p in zip(weights, products, strict=True):
            for right, q in zip(weights, products, strict=True):
                mean = np.vdot(p @ matrix, q) / np.sqrt(dim)
                result = result - mean * (left @ covariance @ np.swapaxes(right, -1, -2))
        return result

    for level in range(network.layers):
        maps = [network.attention_map(score(level, head)) for head in range(network.heads)]
        moved = tokens if network.residual else np.zeros_like(tokens)
        for head, attended in enumerate(maps):
            each = attended @ tokens
            moved = moved + (each @ parameters[value_name(level, head, tag)] if network.values else each)
        if covariance is not None:
            new = [np.zeros_like(weights[0]) for _ in unrolled.levels[level + 1]]
            for step in unrolled.steps[level]:
                source = weights[step.source]
                new[step.target] = new[step.target] + (source if step.head is None else maps[step.head] @ source)
            weights = new
        tokens = moved
    if network.readout == "tokens":
        return tokens
    return network.output_map(score(network.layers, 0))


def path_product(parameters: Mapping[str, np.ndarray], path: Path, dim: int, tag: str = "") -> np.ndarray:
    """B of a path, d x d."""
    result = np.eye(dim)
    for level, head in path:
        result = result @ parameters[value_name(level, head, tag)]
    return result


def checked_tokens(X: np.ndarray, dim: int) -> np.ndarray:
    """The tokens as floats (..., L, d); ``InputError`` for another dimension."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim < 2 or array.shape[-1] != dim:
        raise InputError(f"X has shape {array.shape}; the tokens of parameters at d = {dim} are (..., L, {dim})")
    return array


__all__ = ["attention_matrix", "checked_tokens", "forward", "path_product"]
