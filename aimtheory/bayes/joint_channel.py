"""What an output y = g(h^1, ..., h^K) of the forms of several matrices tells about them.

With q and V = Q0 - q now K x K matrices and D_ab = 1 + delta_ab,

    omega_ab ~ N(0, D_ab q),    h_ab | omega ~ N(omega_ab, D_ab V),    Z(y, omega, V) = E[p(y | h) | omega],
    qhat_kl = 2 alpha E sum_{a<=b} D_ab g^k_ab g^l_ab,   g^k_ab = d log Z / d omega^k_ab,
    Psi_out = E log Z,    dPsi_out/dq_kl = qhat_kl / (4 alpha)      (both (k, l) and (l, k) counted).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.seen_forms import SeenForms
from aimtheory.bayes.two_axis_quadrature import axis_grids, measure_two_axes
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray


class JointChannel(SeenForms):
    """An observation channel of K attention matrices; subclasses are frozen, with fields ``tokens`` and ``heads`` (K).

    Forms are arrays (..., K, P) over the pairs a <= b. ``q`` and ``variance`` (V) are symmetric (K, K) matrices.
    """

    heads: int

    @property
    def indices(self) -> int:
        """K."""
        return self.heads

    @property
    def is_joint(self) -> bool:
        """True."""
        return True

    @property
    def exchangeable(self) -> bool:
        """True when the output is the same after any permutation of the matrices."""
        return False

    @property
    def exact_directions(self) -> float:
        """Twice the number of combinations of all h that y fixes exactly."""
        return 0.0

    @abstractmethod
    def signal_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``qhat / alpha``, (K, K), at overlaps q (positive semidefinite) and errors V (positive definite)."""

    @abstractmethod
    def psi_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``Psi_out = E log Z`` at q and V, a number."""

    @abstractmethod
    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Outputs (N, ...) of forms (N, K, P)."""

    @abstractmethod
    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> FloatArray:
        """``d log Z / d omega``, (N, K, P), at one V (K, K)."""


@dataclass(frozen=True, eq=False)
class CoupledChannel(JointChannel):
    """A ``GeneralChannel`` of several matrices at any V: whitened so that Q0 = B B^T and V = B diag(v) B^T.

    In the coordinates B^{-1} h the axes are independent again, which is what its rule needs. The likelihood is
    tabulated anew for each V, so this costs more than a channel that knows its structure.
    """

    channel: GeneralChannel

    def __post_init__(self) -> None:
        if not isinstance(self.channel, GeneralChannel):
            raise InputError(f"channel = {self.channel!r} must be a GeneralChannel")
        object.__setattr__(self, "tokens", self.channel.tokens)
        object.__setattr__(self, "heads", self.channel.indices)

    @property
    def name(self) -> str:
        """The label of the channel."""
        return self.channel.name

    @property
    def exact_directions(self) -> float:
        """As stated by the user of the channel."""
        return self.channel.exact_directions

    def signal_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """By ``GeneralChannel.signal_matrix`` in whitened coordinates."""
        overlap, spread = check_matrices(q, variance, self.heads)
        if _is_diagonal(spread) and self._axes > 2:
            return self.channel.signal_matrix(overlap, np.diagonal(spread))
        back, values = _whitened(overlap, spread)
        measured = self._measure(back, values)[0]
        inverse = np.linalg.inv(back)
        error = np.abs(inverse.T) @ measured.error @ np.abs(inverse)
        return Measured(inverse.T @ measured.value @ inverse, error, measured.method)

    def psi_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """By ``GeneralChannel.psi_of`` in whitened coordinates."""
        overlap, spread = check_matrices(q, variance, self.heads)
        if _is_diagonal(spread) and self._axes > 2:
            return self.channel.psi_of(overlap, np.diagonal(spread))
        return self._measure(*_whitened(overlap, spread))[1]

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """By the channel."""
        return self.channel.sample(forms, rng)

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> FloatArray:
        """By the channel; where V is not diagonal, Q0 is irrelevant and V alone is whitened."""
        spread = np.asarray(variance, dtype=np.float64)
        if _is_diagonal(spread):
            return self.channel.gradient(outputs, omega, np.diagonal(spread))
        back = np.asarray(np.linalg.cholesky(spread), dtype=np.float64)
        inverse = np.linalg.inv(back)
        centre = np.einsum("kl,nlp->nkp", inverse, np.asarray(omega, dtype=np.float64))
        inner = self._transformed(back).gradient(outputs, centre, np.ones(self.heads))
        return np.einsum("lk,nlp->nkp", inverse, inner)

    @property
    def _axes(self) -> int:
        return self.heads * len(self.channel.directions)

    def _measure(self, back: FloatArray, values: FloatArray) -> tuple[Measured, Measured]:
        """Signal and psi in the coordinates B^{-1} h, in which q = 1 - v and V = v are diagonal."""
        if self._axes == 2:
            scale = math.sqrt(float((self.channel.multiplicity * self.channel.directions[0] ** 2).sum()))
            grids = axis_grids(np.ones(2))
            mesh = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1)
            forms = scale * np.einsum("lm,...m->...l", back, mesh)[..., None, :, None]
            table = np.exp(np.asarray(self.channel.log_likelihood(self.channel.outputs, forms), dtype=np.float64))
            return measure_two_axes(grids, table, self.channel.weights, 1 - values, values)
        channel = self._transformed(back)
        overlaps = np.diag(1 - values)
        return channel.signal_matrix(overlaps, values), channel.psi_of(overlaps, values)

    def _transformed(self, back: FloatArray) -> GeneralChannel:
        given = self.channel

        def log_likelihood(outputs: FloatArray, forms: FloatArray) -> FloatArray:
            return given.log_likelihood(outputs, np.einsum("lm,...mk->...lk", back, forms))

        return GeneralChannel(
            given.tokens,
            log_likelihood,
            given.outputs,
            weights=given.weights,
            directions=given.directions,
            count=self.heads,
            label=given.label,
            tolerance=1.0,  # the channel itself has been checked
        )


def as_joint_channel(channel: object) -> JointChannel:
    """A ``JointChannel``, made of a ``GeneralChannel`` where one is given; ``InputError`` else."""
    if isinstance(channel, JointChannel):
        return channel
    if isinstance(channel, GeneralChannel):
        return CoupledChannel(channel)
    raise InputError(
        f"channel = {channel!r} must be a JointChannel such as LinearHeads(2, [[1, 1]], noise=1), or a GeneralChannel"
    )


def check_matrices(q: ArrayLike, variance: ArrayLike, count: int) -> tuple[FloatArray, FloatArray]:
    """q positive semidefinite and V positive definite, (count, count), symmetric and finite, else ``InputError``."""
    checked = []
    for name, given, least in (("q", q, -1e-10), ("V", variance, 0.0)):
        matrix = real_array(given, name, 2)
        if matrix.shape != (count, count):
            raise InputError(f"{name} must have shape ({count}, {count}); got {matrix.shape}")
        size = float(np.abs(matrix).max())
        if np.abs(matrix - matrix.T).max() > 1e-9 * size:
            raise InputError(f"{name} is not symmetric")
        matrix = 0.5 * (matrix + matrix.T)
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        if smallest < least * size or (name == "V" and smallest <= 0):
            kind = "positive definite" if name == "V" else "positive semidefinite"
            raise InputError(f"{name} has the eigenvalue {smallest:.3g}; it must be {kind}")
        checked.append(matrix)
    return checked[0], checked[1]


def check_noise(noise: object) -> float:
    """A finite variance >= 0, else ``InputError``."""
    try:
        value = float(noise)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"noise = {noise!r} is not a number; give a variance >= 0") from None
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"noise = {noise!r} must be a finite variance >= 0")
    return value


def check_joint_forms(forms: ArrayLike, heads: int, pairs: int) -> FloatArray:
    """Finite forms of shape (N, heads, pairs), else ``InputError``."""
    array = np.asarray(forms, dtype=np.float64)
    if array.ndim != 3 or array.shape[1:] != (heads, pairs) or not np.all(np.isfinite(array)):
        raise InputError(f"forms must be finite, of shape (N, {heads}, {pairs}); got {array.shape}")
    return array


def _whitened(overlap: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """B and v with Q0 = B B^T and V = B diag(v) B^T."""
    size, vectors = np.linalg.eigh(overlap + spread)
    root = (vectors * np.sqrt(size)) @ vectors.T
    inverse = (vectors / np.sqrt(size)) @ vectors.T
    values, turn = np.linalg.eigh(inverse @ spread @ inverse)
    return root @ turn, np.where(values > 1 - 1e-13, 1.0, np.maximum(values, 1e-300))


def _is_diagonal(matrix: FloatArray) -> bool:
    off = np.abs(matrix - np.diag(np.diagonal(matrix))).max()
    return bool(off <= 1e-14 * np.diagonal(matrix).max())


__all__ = [
    "CoupledChannel",
    "JointChannel",
    "as_joint_channel",
    "check_joint_forms",
    "check_matrices",
    "check_noise",
]
