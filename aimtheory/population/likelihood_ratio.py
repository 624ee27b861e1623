"""An independent check of the potential: Monte Carlo with the likelihood-ratio gradient, which needs no derivative of
the loss.

Cubature can miss a feature of the loss that is narrower than its nodes and still agree with itself. Random samples do
not: with whitened rows Y ~ N(0, q) of the forms,

    dPhi/dq = E[ L (q^{-1} Y^T Y q^{-1} - r q^{-1}) ]/2,   r the number of rows,

whatever L is. The symmetric and antisymmetric combinations of (i, j) are the rows of q1 + q2 and of q1 - q2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.model.losses import Loss

FloatArray = NDArray[np.float64]

_BATCH = 1 << 14
_MOST_TOKENS = 8


@dataclass(frozen=True)
class SampledPotential:
    """Phi and its gradients by Monte Carlo, each with its standard error; ``plus`` is by q1 + q2, ``minus`` by q1 -
    q2.
    """

    value: float
    value_error: float
    plus: FloatArray
    plus_error: FloatArray
    minus: FloatArray
    minus_error: FloatArray


def sampled_potential(
    loss: Loss,
    token_covariance: FloatArray,
    mean: FloatArray,
    q1: FloatArray,
    q2: FloatArray,
    *,
    samples: int = 1 << 17,
    seed: int = 0,
) -> SampledPotential | None:
    """Phi and dPhi/d(q1 +- q2) from random forms; None when an overlap matrix is too singular for the ratio to exist.

    Standard errors fall like samples^{-1/2}; the gradient's are of the size of the spread of the loss over q. None too
    beyond 8 tokens: the noise of the ratio grows with the number of forms.
    """
    tokens, count = len(token_covariance), len(mean)
    if tokens > _MOST_TOKENS:
        return None
    pair = np.kron(token_covariance, token_covariance)
    swap = np.eye(tokens**2).reshape(tokens, tokens, tokens, tokens).transpose(1, 0, 2, 3).reshape(tokens**2, -1)
    parts = []
    for sign, overlap in ((1.0, q1 + q2), (-1.0, q1 - q2)):
        projector = (np.eye(tokens**2) + sign * swap) / 2
        values, vectors = np.linalg.eigh(projector @ pair @ projector)
        kept = values > 1e-10 * max(1.0, float(values[-1]))
        scale = max(float(np.abs(np.diagonal(overlap)).max()), 1e-300)
        if not kept.any() or float(np.abs(overlap).max()) < 1e-12:
            parts.append((np.zeros((tokens**2, 0)), np.zeros((count, count)), np.zeros((count, count))))
            continue
        eigenvalues, basis = np.linalg.eigh(overlap)
        if eigenvalues[0] < 1e-3 * scale:
            return None
        root = (basis * np.sqrt(eigenvalues)) @ basis.T
        parts.append((vectors[:, kept] * np.sqrt(values[kept]), root, (basis / eigenvalues) @ basis.T))
    rng = np.random.default_rng(seed)
    shift = token_covariance[:, :, None] * mean
    losses: list[FloatArray] = []
    scores: list[list[FloatArray]] = [[], []]
    for start in range(0, samples, _BATCH):
        size = min(_BATCH, samples - start)
        forms = np.broadcast_to(shift, (size, *shift.shape)).copy()
        for number, (frame, root, inverse) in enumerate(parts):
            rows = rng.standard_normal((size, frame.shape[1], count)) @ root
            forms += np.einsum("pr,srk->spk", frame, rows).reshape(size, tokens, tokens, count)
            whitened = rows @ inverse
            scores[number].append(np.einsum("srk,srl->skl", whitened, whitened) - frame.shape[1] * inverse)
        with np.errstate(over="ignore", invalid="ignore"):
            losses.append(np.asarray(loss.value(forms), dtype=np.float64))
    found = np.concatenate(losses)
    centred = found - found.mean()
    gradients = []
    for part in scores:
        # Rows of q1 +- q2 carry each q once: dPhi/d(q1 + q2) with dq1 = dq2 changes nothing else.
        terms = 0.5 * centred[:, None, None] * np.concatenate(part)
        gradients.append((terms.mean(axis=0), terms.std(axis=0, ddof=1) / np.sqrt(len(found))))
    error = float(found.std(ddof=1) / np.sqrt(len(found)))
    return SampledPotential(float(found.mean()), error, *gradients[0], *gradients[1])


__all__ = ["SampledPotential", "sampled_potential"]
