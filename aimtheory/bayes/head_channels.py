"""Outputs of several attention heads at once: linear mixtures, and sums of signs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, wofz

from aimtheory.arrays import real_array
from aimtheory.bayes.bivariate_normal import orthant
from aimtheory.bayes.joint_channel import JointChannel, check_joint_forms, check_matrices, check_noise
from aimtheory.bayes.measured import Measured, closed_form
from aimtheory.bayes.token_pairs import check_tokens
from aimtheory.errors import InputError, NumericsError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_REACH = 7.5
_STEP = 0.45
"""Grid step in units of the narrower of omega's spread and the posterior's."""

_MOST = {0: 1, 1: 3000, 2: 320, 3: 44}
"""Nodes an axis, at most, by the number of axes on which omega is not 0."""

_SHARP = 0.97
_GAUSS = 1 / math.sqrt(2 * math.pi)


@record("channel-linear-heads")
@dataclass(frozen=True, init=False)
class LinearHeads(JointChannel):
    """``y_ab = W h_ab + sqrt(Delta) z_ab`` with a known mixing W of shape (m, K), for every pair a <= b:

        qhat = 2 alpha sum_ab D_ab W^T (D_ab W V W^T + Delta)^{-1} W,    Psi_out = -(1/2) sum log det 2 pi e (...).

    ``noise`` Delta >= 0; without noise the rows of W must be independent. ``W = [[1, 1]]`` shows the sum of two heads.

    >>> LinearHeads(2, [[1.0, 1.0]], noise=1.0).signal_matrix(np.zeros((2, 2)), np.eye(2)).value.round(12)
    array([[2.26666667, 2.26666667],
           [2.26666667, 2.26666667]])
    """

    tokens: int
    mixing: tuple[tuple[float, ...], ...]
    noise: float

    def __init__(self, tokens: int, mixing: ArrayLike, noise: float = 0.0) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        matrix = real_array(mixing, "mixing", 2)
        object.__setattr__(self, "mixing", tuple(map(tuple, matrix.tolist())))
        object.__setattr__(self, "noise", check_noise(noise))
        if not self.noise and np.linalg.matrix_rank(matrix) < len(matrix):
            raise InputError("without noise the rows of mixing must be linearly independent; give noise > 0")

    @property
    def heads(self) -> int:  # type: ignore[override]
        """K."""
        return len(self.mixing[0])

    @property
    def exchangeable(self) -> bool:
        """True when every row of W weighs all heads alike."""
        return bool(all(len(set(row)) == 1 for row in self.mixing))

    @property
    def exact_directions(self) -> float:
        """Twice the number of outputs without noise."""
        return 0.0 if self.noise else 2.0 * self.pairs * len(self.mixing)

    def _totals(self, spread: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        w = np.array(self.mixing)
        seen = w @ spread @ w.T
        return w, [scale * seen + self.noise * np.eye(len(w)) for scale in self.multiplicity]

    def signal_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 sum D W^T (D W V W^T + Delta)^{-1} W``."""
        w, totals = self._totals(check_matrices(q, variance, self.heads)[1])
        terms = zip(self.multiplicity, totals, strict=True)
        return closed_form(sum(2 * scale * w.T @ np.linalg.solve(total, w) for scale, total in terms))

    def psi_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """The negative entropy of y given omega, a density by Lebesgue measure."""
        _, totals = self._totals(check_matrices(q, variance, self.heads)[1])
        return closed_form(-0.5 * sum(float(np.linalg.slogdet(2 * np.pi * np.e * total)[1]) for total in totals))

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Outputs (N, m, P)."""
        clean = np.einsum("mk,nkp->nmp", np.array(self.mixing), check_joint_forms(forms, self.heads, self.pairs))
        return np.asarray(clean + math.sqrt(self.noise) * rng.standard_normal(clean.shape))

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> FloatArray:
        """``W^T (D W V W^T + Delta)^{-1} (y - W omega)``."""
        w, totals = self._totals(np.asarray(variance, dtype=np.float64))
        residual = np.asarray(outputs) - np.einsum("mk,nkp->nmp", w, np.asarray(omega))
        gains = np.stack([np.linalg.solve(total, w).T for total in totals])
        return np.einsum("pkm,nmp->nkp", gains, residual)


@record("channel-sign-heads")
@dataclass(frozen=True)
class SignHeads(JointChannel):
    """``y_ab = sum_k sign(h^k_ab) (+ sqrt(Delta) z_ab)``, a <= b: a committee whose members cannot be told apart.

    K = 2: bivariate orthants. K >= 3: all V_kl/sqrt(V_kk V_ll) must be equal, as they are for exchangeable priors; the
    orthants are then one integral over a common factor, imaginary where the correlation is negative. omega is
    integrated by a trapezoid rule along the axes of q, at most three that are not 0; the error is its change.

    >>> SignHeads(tokens=2, heads=2).signal_matrix(np.zeros((2, 2)), np.eye(2)).value.round(9)    # 3 * 2 * 2 / pi / 2
    array([[1.90985932, 1.90985932],
           [1.90985932, 1.90985932]])
    """

    tokens: int = 2
    heads: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", check_tokens(self.tokens))
        if isinstance(self.heads, bool) or not isinstance(self.heads, int) or not 2 <= self.heads <= 8:
            raise InputError(f"heads = {self.heads!r} must be an integer between 2 and 8")
        object.__setattr__(self, "noise", check_noise(self.noise))

    @property
    def exchangeable(self) -> bool:
        """True."""
        return True

    def signal_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 P E sum_y p (grad log p)(grad log p)^T``: D_ab drops out, signs have no scale."""
        return self._measure(q, variance)[0]

    def psi_matrix(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``P E sum_y p log p``."""
        return self._measure(q, variance)[1]

    def _measure(self, q: ArrayLike, variance: ArrayLike) -> tuple[Measured, Measured]:
        overlap, spread = check_matrices(q, variance, self.heads)
        results = [self._integrate(overlap, spread, fraction) for fraction in (1.0, 0.75)]
        signal, psi = results[0]
        signal_error = np.abs(signal - results[1][0]) + 1e-14 * np.abs(signal)
        psi_error = np.abs(psi - results[1][1]) + 1e-14 * abs(psi)
        return Measured(signal, signal_error, "quadrature"), Measured(
            np.asarray(psi), np.asarray(psi_error), "quadrature"
        )

    def _integrate(self, overlap: FloatArray, spread: FloatArray, fraction: float) -> tuple[FloatArray, float]:
        omega, weight = _outer_rule(overlap, spread, fraction)
        signal, psi = np.zeros((self.heads, self.heads)), 0.0
        scale = np.sqrt(np.diagonal(spread))
        for part in np.array_split(np.arange(len(omega)), 1 + len(omega) // 20000):
            p, slope = self._count_probabilities(omega[part], spread)
            mass = weight[part, None] * np.ones(p.shape[1])
            if self.noise:
                nodes, width, kernel = self._noise_rule()
                p, slope = p @ kernel, slope @ kernel
                mass = weight[part, None] * np.full(len(nodes), width)
            alive = p > 1e-250
            safe = np.where(alive, p, 1.0)
            psi += float((mass * np.where(alive, p * np.log(safe), 0.0)).sum())
            signal += 2 * np.einsum("kny,lny,ny->kl", slope, slope, np.where(alive, mass / safe, 0.0))
        return self.pairs * signal / np.outer(scale, scale), self.pairs * psi

    def _noise_rule(self) -> tuple[FloatArray, float, FloatArray]:
        """Nodes over y, their weight, and N(y - value, Delta) of shape (K + 1, nodes)."""
        sigma = math.sqrt(self.noise)
        reach = self.heads + 8 * sigma
        nodes = np.linspace(-reach, reach, 2 + math.ceil(2 * reach / min(0.7 * sigma, 0.5)))
        return nodes, float(nodes[1] - nodes[0]), self._kernel(nodes[None, :], self._values[:, None])

    @property
    def _values(self) -> FloatArray:
        return np.arange(-self.heads, self.heads + 1, 2, dtype=np.float64)

    def _kernel(self, outputs: FloatArray, values: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * (outputs - values) ** 2 / self.noise) / math.sqrt(2 * math.pi * self.noise))

    def _count_probabilities(self, omega: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(m of the h are positive), (N, K + 1), and its slopes by omega_k / sqrt(V_kk), (K, N, K + 1)."""
        scale = np.sqrt(np.diagonal(spread))
        correlation = spread / np.outer(scale, scale)
        off = correlation[~np.eye(self.heads, dtype=bool)]
        if np.ptp(off) > 1e-8:
            raise InputError(
                f"with {self.heads} heads all correlations of the errors V must be equal; they span {np.ptp(off):.3g}. "
                "Use equal priors, or two heads"
            )
        u, c = omega / scale, float(off.mean())
        return _count_two(u, c) if self.heads == 2 else _count_by_factor(u, c)

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Outputs (N, P)."""
        clean = np.where(check_joint_forms(forms, self.heads, self.pairs) >= 0, 1.0, -1.0).sum(axis=1)
        return np.asarray(clean + math.sqrt(self.noise) * rng.standard_normal(clean.shape) if self.noise else clean)

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> FloatArray:
        """``d log p(y | omega) / d omega``; tails below 1e-250 give 0."""
        center = np.asarray(omega, dtype=np.float64)
        seen = np.asarray(outputs, dtype=np.float64).ravel()
        spread = np.asarray(variance, dtype=np.float64)
        root = np.sqrt(self.multiplicity)
        flat = (center / root).transpose(0, 2, 1).reshape(-1, self.heads)
        p, slope = self._count_probabilities(flat, spread)
        if self.noise:
            likelihood = self._kernel(seen[:, None], self._values)
            total, slopes = (p * likelihood).sum(axis=1), (slope * likelihood).sum(axis=2)
        else:
            place = np.rint((seen + self.heads) / 2).astype(np.int64)
            if np.any(place < 0) or np.any(place > self.heads) or np.any(self._values[place] != seen):
                raise InputError(f"outputs of {self.heads} sign heads must be among {self._values.tolist()}")
            rows = np.arange(len(seen))
            total, slopes = p[rows, place], slope[:, rows, place]
        g = np.where(total > 1e-250, slopes / np.where(total > 1e-250, total, 1.0), 0.0)
        g = (g / np.sqrt(np.diagonal(spread))[:, None]).T.reshape(len(center), self.pairs, self.heads)
        return np.asarray(g.transpose(0, 2, 1) / root)


def _outer_rule(overlap: FloatArray, spread: FloatArray, fraction: float) -> tuple[FloatArray, FloatArray]:
    """Nodes omega (N, K) of N(0, q) and weights, along the eigenvectors of q."""
    values, vectors = np.linalg.eigh(overlap)
    least = float(np.linalg.eigvalsh(spread)[0])
    live = np.flatnonzero(values > 1e-15 * np.trace(overlap + spread))
    if len(live) not in _MOST:
        raise InputError(
            f"omega has {len(live)} axes; at most three are integrated: use fewer heads, or equal overlaps"
        )
    points, weight = np.zeros((1, len(values))), np.ones(1)
    for axis in live:
        sharp = max(1.0, math.sqrt(values[axis] / least))
        count = round(fraction * min(max(math.ceil(2 * _REACH * sharp / _STEP), 34), _MOST[len(live)]))
        z = np.linspace(-_REACH, _REACH, count)
        mass = np.exp(-0.5 * z**2)
        mass /= mass.sum()
        shift = math.sqrt(values[axis]) * z[:, None] * vectors[:, axis]
        points = (points[:, None, :] + shift).reshape(-1, len(values))
        weight = np.multiply.outer(weight, mass).ravel()
    keep = weight > 1e-15
    return points[keep], weight[keep]


def _count_two(u: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
    """Two heads: every probability a sum of orthants, none a difference."""
    a, b = u[:, 0], u[:, 1]
    both, none = orthant(a, b, c), orthant(-a, -b, c)
    p = np.stack([none, orthant(a, -b, -c) + orthant(-a, b, -c), both], axis=1)
    root = math.sqrt(1 - c * c)
    slopes = np.empty((2, len(u), 3))
    for k, (x, y) in enumerate(((a, b), (b, a))):
        inner = (y - c * x) / root
        up, down, height = ndtr(inner), ndtr(-inner), _GAUSS * np.exp(-0.5 * x**2)
        slopes[k] = np.stack([-height * down, height * (down - up), height * up], axis=1)
    return p, slopes


def _count_by_factor(u: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
    """K heads of equal correlation c: E_t prod_k (Phi(z_k) x + Phi(-z_k)), z_k = (u_k + sqrt(c) t)/sqrt(1 - c), by
    powers of x. For c < 0 the factor is imaginary; its weight is spread over the K factors so that none overflows.
    """
    heads = u.shape[1]
    growth = heads * max(-c, 0.0) / (1 - c)
    if growth > _SHARP:
        raise NumericsError(
            f"the errors of {heads} heads have correlation {c:.6g}, too near -1/(K - 1): the sum is known far better "
            "than the heads, and the orthant integral loses its digits"
        )
    reach = 9 / math.sqrt(1 - growth)
    step = 0.3
    # The integrand at -t is the complex conjugate for c < 0; for c > 0 all of the axis is needed.
    first = 0 if c < 0 else -math.ceil(reach / step)
    nodes = step * np.arange(first, math.ceil(reach / step) + 1)
    weights = np.where((c < 0) & (nodes > 0), 2.0, 1.0) * step * _GAUSS
    damp = np.exp(-0.5 * nodes**2 / heads)
    root = np.sqrt(complex(c))
    p, slopes = np.zeros((len(u), heads + 1)), np.zeros((heads, len(u), heads + 1))
    for t, factor, weight in zip(nodes, damp, weights, strict=True):
        z = (u + root * t) / math.sqrt(1 - c)
        up, down, height = _damped(z, factor, t, heads)
        pieces = [np.stack([down[:, k], up[:, k]]) for k in range(heads)]
        p += weight * _product(pieces).real.T
        for k in range(heads):
            rest = _product([pieces[m] for m in range(heads) if m != k])
            rest = np.concatenate([rest, np.zeros((1, len(u)))])
            shifted = np.concatenate([np.zeros((1, len(u))), rest[:-1]])
            slopes[k] += weight * (height[:, k] * (shifted - rest)).real.T / math.sqrt(1 - c)
    return np.maximum(p, 0.0), slopes


def _damped(
    z: NDArray[np.complex128], factor: float, t: float, heads: int
) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
    """Phi(z), Phi(-z) and phi(z), each times exp(-t^2/(2K)), without overflow at large imaginary z."""
    flipped = np.where(z.real > 0, -z, z)
    gauss = np.exp(-0.5 * flipped**2 - 0.5 * t**2 / heads)
    lower = 0.5 * gauss * wofz(-1j * flipped / math.sqrt(2))
    upper = factor - lower
    positive = z.real > 0
    return (
        np.asarray(np.where(positive, upper, lower)),
        np.asarray(np.where(positive, lower, upper)),
        np.asarray(_GAUSS * gauss),
    )


def _product(pieces: list[NDArray[np.complex128]]) -> NDArray[np.complex128]:
    """Coefficients (K + 1, N) of the product of linear polynomials (2, N)."""
    total = pieces[0]
    for piece in itertools.islice(pieces, 1, None):
        grown = np.zeros((len(total) + 1, total.shape[1]), dtype=np.complex128)
        grown[:-1] += total * piece[0]
        grown[1:] += total * piece[1]
        total = grown
    return total


__all__ = ["LinearHeads", "SignHeads"]
