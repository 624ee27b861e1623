"""The sum of two softmax heads over two tokens with a causal mask: which head looked where is not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.joint_channel import CoupledChannel, JointChannel, check_joint_forms, check_matrices, check_noise
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.two_axis_quadrature import axis_grids, measure_two_axes
from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray


@record("channel-softmax-heads")
@dataclass(frozen=True)
class SoftmaxHeads(JointChannel):
    """``y = sum_k s(beta u_k) + sqrt(Delta) z``, u_k = h^k_22 - h^k_12 ~ N(0, 3 tr S_k^2), s the logistic, k = 1, 2.

    With a causal mask the last token's attention to itself is the only entry that the mask and the normalization of
    rows do not fix. ``noise`` Delta >= 4e-4. Errors V of exchangeable heads are diagonal in the sum and the difference
    of u; others go through ``CoupledChannel``, which is slower. Quadrature over u, omega and y; the error is the change
    on coarser grids.

    >>> float(SoftmaxHeads(1.0, noise=0.1).signal_matrix(np.zeros((2, 2)), np.eye(2)).value[0, 0].round(4))
    0.5987
    """

    inverse_temperature: float = 1.0
    noise: float = 0.01
    tokens: int = 2
    heads: int = 2

    def __post_init__(self) -> None:
        beta, noise = float(self.inverse_temperature), check_noise(self.noise)
        if not (math.isfinite(beta) and 0 < beta <= 30):
            raise InputError(f"inverse_temperature = {self.inverse_temperature!r} must lie in (0, 30]")
        if noise < 4e-4:
            raise InputError(f"noise = {noise} must be >= 4e-4: below, the grid over y no longer resolves it")
        if (self.tokens, self.heads) != (2, 2):
            raise InputError(
                f"tokens = {self.tokens}, heads = {self.heads}: sums of softmax heads are offered for two heads and "
                "two tokens; give others as a GeneralChannel with count and directions"
            )

    @property
    def exchangeable(self) -> bool:
        """True."""
        return True

    def signal_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``6 E g g^T``, g = d log Z / d omega_u."""
        overlap, spread = check_matrices(q, variance, 2)
        if not _is_exchangeable(overlap, spread):
            return self._coupled.signal_matrix(overlap, spread)
        return self._measure(overlap, spread)[0]

    def psi_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``E log Z``, a density by Lebesgue measure."""
        overlap, spread = check_matrices(q, variance, 2)
        if not _is_exchangeable(overlap, spread):
            return self._coupled.psi_matrix(overlap, spread)
        return self._measure(overlap, spread)[1]

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Outputs (N, 1)."""
        array = check_joint_forms(forms, 2, 3)
        clean = self._mean(array[:, :, 2] - array[:, :, 1]).sum(axis=1, keepdims=True)
        return np.asarray(clean + math.sqrt(self.noise) * rng.standard_normal(clean.shape))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> FloatArray:
        """By quadrature over the posterior of u, V any positive definite matrix."""
        center = np.asarray(omega, dtype=np.float64)
        u = center[:, :, 2] - center[:, :, 1]
        root = np.linalg.cholesky(3 * np.asarray(variance, dtype=np.float64))
        line = np.linspace(-6.5, 6.5, 81)
        grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        mass = np.exp(-0.5 * (grid**2).sum(axis=1))
        grid, mass = grid[mass > 1e-10], mass[mass > 1e-10]
        shift = grid @ root.T
        g = np.empty_like(u)
        seen = np.asarray(outputs, dtype=np.float64).reshape(len(u))
        for part in np.array_split(np.arange(len(u)), 1 + len(u) * len(grid) // 2000000):
            mean = self._mean(u[part, None] + shift).sum(axis=-1)
            exponent = -0.5 * (seen[part, None] - mean) ** 2 / self.noise
            p = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * mass
            g[part] = (p @ grid) / p.sum(axis=1, keepdims=True)
        g = np.linalg.solve(root.T, g.T).T
        return np.stack([np.zeros_like(g), -g, g], axis=-1)

    def _mean(self, u: FloatArray) -> FloatArray:
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * float(self.inverse_temperature) * u))

    def _outputs(self) -> FloatArray:
        sigma = math.sqrt(self.noise)
        return np.linspace(-7 * sigma, 2 + 7 * sigma, 2 + math.ceil((2 + 14 * sigma) / (0.8 * sigma)))

    @property
    def _coupled(self) -> CoupledChannel:
        nodes = self._outputs()

        def log_likelihood(outputs: FloatArray, forms: FloatArray) -> FloatArray:
            mean = self._mean(forms[..., 0]).sum(axis=-1)
            return -0.5 * (outputs[..., 0] - mean) ** 2 / self.noise - 0.5 * math.log(2 * math.pi * self.noise)

        weights = np.full(len(nodes), nodes[1] - nodes[0])
        options = {"weights": weights, "directions": [[0.0, -1.0, 1.0]], "count": 2, "label": "softmax heads"}
        return CoupledChannel(GeneralChannel(2, log_likelihood, nodes, **options))  # type: ignore[arg-type]

    def _measure(self, overlap: FloatArray, spread: FloatArray) -> tuple[Measured, Measured]:
        """The axes are (u_1 +- u_2)/sqrt 2, in units of sqrt 3."""
        q = np.maximum([overlap[0].sum(), overlap[0, 0] - overlap[0, 1]], 0.0)
        v = np.array([spread[0].sum(), spread[0, 0] - spread[0, 1]])
        nodes = self._outputs()
        grids, table = _table(self, tuple(float(f"{value:.13e}") for value in q + v))
        signal, psi = measure_two_axes(grids, table, np.full(len(nodes), nodes[1] - nodes[0]), q, v, even=True)
        turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
        error = np.full((2, 2), np.diagonal(signal.error).max())
        return Measured(turn @ signal.value @ turn, error, signal.method), psi


@lru_cache(maxsize=4)
def _table(channel: SoftmaxHeads, total: tuple[float, ...]) -> tuple[list[FloatArray], FloatArray]:
    """Grids of the two axes and p(y | u) on them, (n, n, Y)."""
    grids = axis_grids(np.array(total))
    first, second = grids[0][:, None] * math.sqrt(1.5), grids[1] * math.sqrt(1.5)
    mean = channel._mean(first + second) + channel._mean(first - second)
    noise = channel.noise
    return grids, np.exp(-0.5 * (channel._outputs() - mean[..., None]) ** 2 / noise) / math.sqrt(2 * math.pi * noise)


def _is_exchangeable(overlap: FloatArray, spread: FloatArray) -> bool:
    return all(abs(m[0, 0] - m[1, 1]) <= 1e-12 * (overlap + spread)[0, 0] for m in (overlap, spread))


__all__ = ["SoftmaxHeads"]
