"""A channel given by the user: any likelihood of the forms, or any random rule with finitely many answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from aimtheory.bayes.channel import Channel, check_overlap, check_split, check_variance
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.one_axis import find_jumps, one_axis_integrals, posterior_nodes
from aimtheory.bayes.token_pairs import check_tokens, pair_multiplicity
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray

Likelihood = Callable[[FloatArray, FloatArray], FloatArray]
_INNER = {1: 1602, 2: 162, 3: 54, 4: 24, 5: 18, 6: 12}
"""Nodes an axis of the grid on which the likelihood is tabulated, by the number of axes: midpoints, an even number, so
that a jump at 0 falls between two nodes; every third one is again a grid of midpoints."""
_OUTER = {1: 160, 2: 48}
_REACH, _CUT = 7.5, 1e-11
_SHARP = 1e-8
"""The relative error of one axis that needs no second rule."""
_RANDOMIZATIONS, _SOBOL = 4, 256


@dataclass(frozen=True, eq=False)
class GeneralChannel(Channel):
    """``p(y | u)``, u = A h the combinations of forms that matter, of one or several attention matrices.

    ``log_likelihood(outputs, forms)`` is vectorised: outputs (..., m) and forms (..., k), or (..., indices, k) when
    ``count`` > 1 matrices are seen, broadcast against each other; it returns log p(y | u) of the broadcast shape.
    ``outputs`` (Y, m) lists all answers, or the nodes of a quadrature over y with ``weights`` (Y,) (default 1).
    ``directions`` A has shape (k, P) over the pairs a <= b (default: the identity, k = P); keep k * count <= 6, and
    small: T = 2 with k = 1 or 2 is fast and sharp.

    The likelihood is tabulated once on a grid of u and convolved axis by axis; omega is integrated by a tensor rule
    up to two axes and by randomized Sobol points beyond; one axis alone is also integrated by panels that follow the
    jumps of the likelihood and V -> 0 (``one_axis``). The error of the table compares it with every third node, and the
    outer rules among themselves: jumps in several axes, or V much below the grid step squared, show in it.
    Raises ``InputError`` when ``sum_y weight p(y | u)`` is not 1 within ``tolerance``.

    For several matrices the state is the matrix q_{lm}, of which state evolution follows the diagonal, with the
    off-diagonal at its prior value tr S_l tr S_m; see ``signal_matrix``.

    >>> sign = GeneralChannel(2, lambda y, u: np.log(np.where(y[..., 0] * u[..., 0] > 0, 1.0, 1e-300)),
    ...                       outputs=[[-1.0], [1.0]], directions=[[0.0, 1.0, 0.0]])
    >>> sign.signal(0.5, 0.5).value.round(2)                  # a third of the sign channel's, which has three such bits
    np.float64(1.92)
    """

    tokens: int
    log_likelihood: Likelihood
    outputs: FloatArray
    weights: FloatArray
    directions: FloatArray
    count: int
    label: str
    recovers_exactly: float
    _mixing: FloatArray = field(repr=False)
    _cache: dict[Any, Any] = field(repr=False)
    _jumps: dict[float, FloatArray] = field(repr=False)

    def __init__(
        self,
        tokens: int,
        log_likelihood: Likelihood,
        outputs: ArrayLike,
        weights: ArrayLike | None = None,
        directions: ArrayLike | None = None,
        count: int = 1,
        label: str = "general",
        recovers_exactly: float = 0.0,
        tolerance: float = 1e-6,
    ) -> None:
        object.__setattr__(self, "tokens", check_tokens(tokens))
        object.__setattr__(self, "log_likelihood", log_likelihood)
        values = np.asarray(outputs, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) == 0 or not np.all(np.isfinite(values)):
            raise InputError(f"outputs must be a finite array of shape (Y, m), Y >= 1; got shape {values.shape}")
        mass = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
        if mass.shape != (len(values),) or not np.all(np.isfinite(mass)) or np.any(mass <= 0):
            raise InputError(f"weights must be {len(values)} finite numbers > 0, one an output")
        matrix = np.eye(self.pairs) if directions is None else np.asarray(directions, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.pairs or not np.all(np.isfinite(matrix)):
            raise InputError(f"directions must have shape (k, {self.pairs}); got {matrix.shape}")
        covariance = (matrix * pair_multiplicity(self.tokens)) @ matrix.T
        if np.linalg.matrix_rank(covariance) < len(matrix):
            raise InputError("the rows of directions are linearly dependent; drop the redundant ones")
        if not isinstance(count, int) or count < 1 or count * len(matrix) not in _INNER:
            raise InputError(
                f"count * k = {count} * {len(matrix)} must lie between 1 and {max(_INNER)}: the likelihood is "
                "tabulated on a grid with that many axes; give directions with fewer rows"
            )
        object.__setattr__(self, "outputs", values)
        object.__setattr__(self, "weights", mass)
        object.__setattr__(self, "directions", matrix)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "recovers_exactly", float(recovers_exactly))
        object.__setattr__(self, "_mixing", np.linalg.cholesky(covariance))
        object.__setattr__(self, "_cache", {})
        object.__setattr__(self, "_jumps", {})
        rng = np.random.default_rng(0)
        trial = rng.standard_normal((64, count, len(matrix))) @ self._mixing.T
        total = self._probabilities(trial) @ mass
        worst = int(np.argmax(np.abs(total - 1)))
        if abs(total[worst] - 1) > tolerance:
            raise InputError(
                f"the likelihood does not normalize: sum over outputs is {total[worst]:.9g} at forms "
                f"{np.round(trial[worst], 3).tolist()}; it must be 1 within {tolerance}. Check the density, its "
                "weights, and that the outputs cover all that can be seen"
            )

    @classmethod
    def from_sampler(
        cls,
        tokens: int,
        sampler: Callable[[FloatArray, np.random.Generator], ArrayLike],
        answers: int,
        repeats: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> GeneralChannel:
        """From ``sampler(forms, rng) -> integer answers in range(answers)``, vectorised over forms (N, k) or
        (N, indices, k). A deterministic rule needs ``repeats = 1``; a random one is averaged over ``repeats`` draws,
        and its Monte-Carlo noise is then part of the likelihood.
        """
        if not isinstance(answers, int) or answers < 2:
            raise InputError(f"answers = {answers!r} must be an integer >= 2: one answer says nothing")

        def log_likelihood(outputs: FloatArray, forms: FloatArray) -> FloatArray:  # noqa: ARG001
            rng = np.random.default_rng(seed)
            flat = np.ascontiguousarray(forms.reshape(-1, *forms.shape[-_axes(options) :]))
            frequency = np.zeros((len(flat), answers))
            for _ in range(repeats):
                seen = np.asarray(sampler(flat, rng))
                if seen.shape != (len(flat),) or seen.dtype.kind not in "iub":
                    raise InputError(f"the sampler must return {len(flat)} integers; got {seen.dtype} {seen.shape}")
                if np.any(seen < 0) or np.any(seen >= answers):
                    raise InputError(f"the sampler returned an answer outside 0..{answers - 1}")
                frequency[np.arange(len(flat)), seen.astype(np.int64)] += 1 / repeats
            with np.errstate(divide="ignore"):
                return np.log(frequency).reshape(*forms.shape[: -_axes(options) - 1], answers)

        return cls(tokens, log_likelihood, np.arange(float(answers)), **options)

    @property
    def name(self) -> str:
        """The label given."""
        return self.label

    @property
    def is_fast(self) -> bool:
        """False: every point is an integral over tables."""
        return False

    @property
    def indices(self) -> int:
        """The number of attention matrices."""
        return self.count

    @property
    def exact_directions(self) -> float:
        """``recovers_exactly``, which the user states (0 unless a density is infinitely sharp)."""
        return self.recovers_exactly

    def _probabilities(self, forms: FloatArray) -> FloatArray:
        """p(y | u) at forms (N, count, k), shape (N, Y); ``InputError`` on NaN or +inf."""
        inner = forms[:, None, 0, :] if self.count == 1 else forms[:, None]
        logs = np.asarray(self.log_likelihood(self.outputs[None], inner), dtype=np.float64)
        if logs.shape != (len(forms), len(self.outputs)):
            raise InputError(
                f"log_likelihood must return shape {(len(forms), len(self.outputs))} for outputs "
                f"{self.outputs[None].shape} and forms {inner.shape}; got {logs.shape}"
            )
        if np.any(np.isnan(logs)) or np.any(logs == np.inf):
            raise InputError("log_likelihood returned NaN or +inf")
        return np.exp(logs)

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 E |m|^2 / V``, m = E[z | y, omega] the posterior mean of the whitened noise; arrays point by point.

        For several matrices q and V have shape (count,) and so has the result.
        """
        overlap, spread = check_overlap(q, variance)
        if self.count > 1:
            if overlap.shape != (self.count,):
                raise InputError(f"q and V must have shape ({self.count},), one number a matrix; got {overlap.shape}")
            full = self.signal_matrix(np.diag(overlap), spread)
            return Measured(np.diagonal(full.value).copy(), np.diagonal(full.error).copy(), full.method)
        points = [
            self.signal_matrix(np.array([[a]]), np.array([b])) for a, b in zip(overlap.flat, spread.flat, strict=True)
        ]
        value = np.array([float(point.value[0, 0]) for point in points]).reshape(overlap.shape)
        error = np.array([float(point.error[0, 0]) for point in points]).reshape(overlap.shape)
        return Measured(value, error, points[0].method if points else "quadrature")

    def signal_matrix(self, overlaps: ArrayLike, variance: ArrayLike) -> Measured:
        """``2 E sum_ab D_ab g^l_ab g^m_ab``, shape (count, count), for overlaps q_lm and variances V_l.

        Its diagonal is qhat_l / alpha. A non-zero off-diagonal means that the posterior ties the matrices together, and
        state evolution with one (q_l, qhat_l) a matrix is then an approximation.
        """
        return self._evaluate(overlaps, variance)[0]

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``E log Z`` at one matrix; see ``psi_of`` for several."""
        overlap, spread = check_split(q, second_moment)
        if self.count > 1:
            raise InputError("with several matrices call psi_of(overlaps, variances)")
        points = [self.psi_of([[a]], [b]) for a, b in zip(overlap.flat, spread.flat, strict=True)]
        value = np.array([float(point.value) for point in points]).reshape(overlap.shape)
        error = np.array([float(point.error) for point in points]).reshape(overlap.shape)
        return Measured(value, error, points[0].method if points else "quadrature")

    def psi_of(self, overlaps: ArrayLike, variance: ArrayLike) -> Measured:
        """``E log Z`` for overlaps (count, count) and variances (count,)."""
        return self._evaluate(overlaps, variance)[1]

    def _evaluate(self, overlaps: ArrayLike, variance: ArrayLike) -> tuple[Measured, Measured]:
        cross = np.asarray(overlaps, dtype=np.float64)
        spread = np.asarray(variance, dtype=np.float64)
        if cross.shape != (self.count, self.count) or spread.shape != (self.count,):
            raise InputError(f"overlaps must be ({self.count}, {self.count}) and variances ({self.count},)")
        if not np.all(np.isfinite(cross)) or np.any(spread <= 0) or not np.all(np.isfinite(spread)):
            raise InputError("overlaps must be finite and every variance > 0")
        if float(np.linalg.eigvalsh(cross).min()) < -1e-12 * float(np.abs(cross).max()):
            raise InputError("the matrix of overlaps is not positive semidefinite")
        axes = self.count * len(self.directions)
        if axes == 1:
            return self._one_axis(float(cross[0, 0]), float(spread[0]))
        return self._tabulated(cross, spread)

    def _one_axis(self, q: float, variance: float) -> tuple[Measured, Measured]:
        """By panels; where they are not sharp (a likelihood of fine structure) by the better of panels and table."""

        def panels() -> tuple[Measured, Measured]:
            signal, psi = one_axis_integrals(self._density, self.weights, jumps, q, variance)
            return Measured(signal.value.reshape(1, 1), signal.error.reshape(1, 1), signal.method), psi

        def table() -> tuple[Measured, Measured]:
            return self._tabulated(np.array([[q]]), np.array([variance]))

        jumps = self._jumps_within(q + variance)
        first = panels()
        if float(first[0].error[0, 0]) <= _SHARP * float(first[0].value[0, 0]):
            return first
        pairs = zip(first, table(), strict=True)
        signal, psi = (min(pair, key=lambda item: float(item.error.ravel()[0])) for pair in pairs)
        return signal, psi

    def _density(self, points: FloatArray) -> FloatArray:
        """p(y | u) at points (N,) of one whitened axis."""
        return self._probabilities(points[:, None, None] * self._mixing)

    def _jumps_within(self, total: float) -> FloatArray:
        """Jumps of the likelihood on one whitened axis; found again for a larger ``total``, which sets the scan."""
        if not self._jumps or total > 1.001 * max(self._jumps):
            self._jumps[total] = find_jumps(self._density, total)
        return self._jumps[max(self._jumps)]

    def _tabulated(self, cross: FloatArray, spread: FloatArray) -> tuple[Measured, Measured]:
        axes = self.count * len(self.directions)
        total = np.diag(cross) + spread
        # Rounded, so that q + V = Q0 finds the table of its Q0.
        grids, table = self._table(tuple(float(f"{value:.11e}") for value in total))
        signals: list[list[FloatArray]] = []
        psis: list[list[FloatArray]] = []
        for omega, weight in self._outer(cross, axes):
            signals.append([])
            psis.append([])
            for stride in (1, 3):
                signal, psi = self._contract(omega, weight, spread, grids, table, stride)
                signals[-1].append(signal)
                psis[-1].append(psi)
        signal_array, psi_array = np.array(signals), np.array(psis)
        inner = np.abs(signal_array[:, 0] - signal_array[:, 1]).max(axis=0)
        inner_psi = np.abs(psi_array[:, 0] - psi_array[:, 1]).max(axis=0)
        if axes in _OUTER:
            # Two tensor rules: the second is the finer one.
            outer = np.abs(signal_array[1, 0] - signal_array[0, 0])
            outer_psi = np.abs(psi_array[1, 0] - psi_array[0, 0])
            value, psi_value, method = signal_array[1, 0], psi_array[1, 0], "quadrature"
        else:
            rounds = len(signal_array)
            outer = signal_array[:, 0].std(axis=0, ddof=1) / math.sqrt(rounds)
            outer_psi = psi_array[:, 0].std(axis=0, ddof=1) / math.sqrt(rounds)
            value, psi_value, method = signal_array[:, 0].mean(axis=0), psi_array[:, 0].mean(axis=0), "cubature"
        # The grids end at 7.5 standard deviations.
        signal_error = inner + outer + _CUT * np.abs(value)
        psi_error = inner_psi + outer_psi + _CUT * np.abs(psi_value)
        return Measured(value, signal_error, method), Measured(psi_value, psi_error, method)

    def _table(self, total: tuple[float, ...]) -> tuple[list[FloatArray], FloatArray]:
        """Grids of whitened u an axis, and p(y | u) on their product, shape (n, ..., n, Y)."""
        if total not in self._cache:
            k = len(self.directions)
            axes = self.count * k
            unit = _REACH * ((2 * np.arange(_INNER[axes]) + 1) / _INNER[axes] - 1)
            grids = [unit * math.sqrt(total[axis // k]) for axis in range(axes)]
            mesh = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, self.count, k)
            parts = [
                self._probabilities(part @ self._mixing.T) for part in np.array_split(mesh, 1 + len(mesh) // 200000)
            ]
            self._cache.clear()
            self._cache[total] = (grids, np.concatenate(parts).reshape(*[_INNER[axes]] * axes, -1))
        result: tuple[list[FloatArray], FloatArray] = self._cache[total]
        return result

    def _outer(self, cross: FloatArray, axes: int) -> list[tuple[FloatArray, FloatArray]]:
        """Whitened omega (N, axes) and weights, for two tensor rules or for several randomized ones."""
        k = len(self.directions)
        values, vectors = np.linalg.eigh(cross)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        rules = []
        if axes in _OUTER:
            for count in (_OUTER[axes] * 3 // 4, _OUTER[axes]):
                line = np.linspace(-_REACH, _REACH, count)
                mass = np.exp(-0.5 * line**2)
                mass /= mass.sum()
                normal = np.stack(np.meshgrid(*[line] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
                weight = mass
                for _ in range(axes - 1):
                    weight = np.multiply.outer(weight, mass)
                rules.append((normal, weight.ravel()))
        else:
            from scipy.stats import qmc

            for seed in range(_RANDOMIZATIONS):
                normal = ndtri(np.clip(qmc.Sobol(axes, seed=seed).random(_SOBOL), 1e-15, 1 - 1e-15))
                rules.append((normal, np.full(_SOBOL, 1 / _SOBOL)))
        return [(np.einsum("lm,nmk->nlk", root, z.reshape(-1, self.count, k)).reshape(-1, axes), w) for z, w in rules]

    def _contract(
        self,
        omega: FloatArray,
        weight: FloatArray,
        spread: FloatArray,
        grids: list[FloatArray],
        table: FloatArray,
        stride: int,
    ) -> tuple[FloatArray, FloatArray]:
        """Signal matrix and E log Z with every ``stride``-th node of the grid (1 or 3)."""
        axes, k = len(grids), len(self.directions)
        values = table[tuple([slice(stride // 2, None, stride)] * axes)]
        signal = np.zeros((self.count, self.count))
        psi = 0.0
        size = values.size // values.shape[0]
        for part in np.array_split(np.arange(len(omega)), max(1, len(omega) * size // (1 << 22))):
            if not len(part):
                continue
            kernels, slopes = [], []
            for axis in range(axes):
                grid = grids[axis][stride // 2 :: stride]
                sigma = math.sqrt(spread[axis // k])
                z = (grid[None] - omega[part, axis, None]) / sigma
                kernel = np.exp(-0.5 * z**2) * ((grid[1] - grid[0]) / (sigma * math.sqrt(2 * math.pi)))
                kernels.append(kernel)
                slopes.append(kernel * z)
            moments = _contract_axes(values, kernels, slopes)
            z0 = moments[0]
            safe = np.where(z0 > 1e-280, z0, 1.0)
            alive = z0 > 1e-280
            mass = weight[part, None] * self.weights
            psi += float((mass * np.where(alive, z0 * np.log(safe), 0.0)).sum())
            means = np.stack(moments[1:]).reshape(self.count, k, *z0.shape)
            scaled = np.where(alive, mass / safe, 0.0)
            signal += 2 * np.einsum("lkny,mkny,ny->lm", means, means, scaled)
        return signal / np.sqrt(np.outer(spread, spread)), np.asarray(psi)

    def sample(self, forms: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Outputs (N, m) drawn with probability ``weight * p(y | u)`` at forms (N, P) or (N, count, P)."""
        index = self._draw(self._features(forms), rng)
        return self.outputs[index]

    def _features(self, forms: ArrayLike) -> FloatArray:
        array = np.asarray(forms, dtype=np.float64)
        array = array[:, None, :] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[1:] != (self.count, self.pairs) or not np.all(np.isfinite(array)):
            raise InputError(f"forms must be finite, of shape (N, {self.count}, {self.pairs}); got {array.shape}")
        return np.asarray(array @ self.directions.T)

    def _draw(self, features: FloatArray, rng: np.random.Generator) -> FloatArray:
        cumulative = np.cumsum(self._probabilities(features) * self.weights, axis=1)
        uniform = rng.random((len(features), 1)) * cumulative[:, -1:]
        return np.asarray(np.minimum((cumulative < uniform).sum(axis=1), len(self.outputs) - 1))

    def log_partition(self, outputs: ArrayLike, omega: ArrayLike, variance: float | ArrayLike) -> FloatArray:
        """``log Z`` (N,) at outputs (N, m) and omega (N, P) or (N, count, P), on the tabulated grid."""
        return self._posterior(outputs, omega, variance)[0]

    def gradient(self, outputs: ArrayLike, omega: ArrayLike, variance: float | ArrayLike) -> FloatArray:
        """``d log Z / d omega``, the shape of ``omega``."""
        return self._posterior(outputs, omega, variance)[1]

    def _posterior(self, outputs: ArrayLike, omega: ArrayLike, variance: Any) -> tuple[FloatArray, FloatArray]:
        center = self._features(omega)
        spread = np.array(
            [check_variance(v) for v in np.broadcast_to(np.asarray(variance, dtype=float), (self.count,))]
        )
        seen = np.asarray(outputs, dtype=np.float64).reshape(len(center), -1)
        if self.count * len(self.directions) == 1:
            return self._posterior_on_one_axis(seen, center[:, 0, 0], float(spread[0]), np.shape(omega))
        k = len(self.directions)
        # The trapezoid rule: for likelihoods sharper than the noise it converges faster than Gauss-Hermite.
        nodes = np.linspace(-_REACH, _REACH, min(241, max(9, round(60000 ** (1 / (self.count * k))))))
        gauss = np.exp(-0.5 * nodes**2)
        mesh = np.stack(np.meshgrid(*[nodes] * (self.count * k), indexing="ij"), axis=-1).reshape(-1, self.count, k)
        weight = np.ones(1)
        for _ in range(self.count * k):
            weight = np.multiply.outer(weight, gauss / gauss.sum()).ravel()
        mixing_inverse = np.linalg.inv(self._mixing)
        log_z, gradient = np.empty(len(center)), np.empty((len(center), self.count, self.pairs))
        for part in np.array_split(np.arange(len(center)), max(1, len(center) * len(mesh) // 400000)):
            noise = mesh * np.sqrt(spread)[:, None]
            forms = center[part, None] + noise @ self._mixing.T
            inner = forms[:, :, 0, :] if self.count == 1 else forms
            logs = np.asarray(self.log_likelihood(seen[part, None], inner))
            p = np.exp(logs) * weight
            z0 = np.maximum(p.sum(axis=1), 1e-290)
            log_z[part] = np.log(z0)
            mean = np.einsum("nq,qlk->nlk", p / z0[:, None], mesh) / np.sqrt(spread)[:, None]
            gradient[part] = mean @ mixing_inverse @ self.directions
        return log_z, gradient.reshape(np.asarray(omega).shape)

    def _posterior_on_one_axis(
        self, seen: FloatArray, center: FloatArray, variance: float, shape: tuple[int, ...]
    ) -> tuple[FloatArray, FloatArray]:
        unit = float(self._mixing[0, 0])
        jumps = self._jumps_within(variance + float(np.max((center / unit) ** 2, initial=0.0)))
        log_z, mean = np.empty(len(center)), np.empty(len(center))
        for part in np.array_split(np.arange(len(center)), max(1, len(center) // 4000)):
            z, mass = posterior_nodes(jumps, center[part] / unit, variance)
            forms = center[part, None] + unit * math.sqrt(variance) * z
            p = np.exp(np.asarray(self.log_likelihood(seen[part, None], forms[..., None]))) * mass
            total = np.maximum(p.sum(axis=1), 1e-290)
            log_z[part], mean[part] = np.log(total), (p * z).sum(axis=1) / total
        gradient = mean[:, None] / (math.sqrt(variance) * unit) * self.directions[0]
        return log_z, gradient.reshape(shape)


def _contract_axes(values: FloatArray, kernels: list[FloatArray], slopes: list[FloatArray]) -> list[FloatArray]:
    """``[Z, E z_1 p, ..., E z_n p]`` of shape (N, Y): the grid summed against one kernel an axis, or a slope on one."""
    axes = len(kernels)
    shape = values.shape
    count = len(kernels[0])
    flat = values.reshape(shape[0], -1)
    states = [(kernels[0] @ flat), (slopes[0] @ flat)]
    for axis in range(1, axes):
        size = shape[axis]
        views = [state.reshape(count, size, -1) for state in states]
        kernel, slope = kernels[axis][:, None, :], slopes[axis][:, None, :]
        fresh = [np.matmul(kernel, view)[:, 0] for view in views]
        fresh.append(np.matmul(slope, views[0])[:, 0])
        states = fresh
    return [state.reshape(count, -1) for state in states]


def _axes(options: dict[str, Any]) -> int:
    return 1 if options.get("count", 1) == 1 else 2


__all__ = ["GeneralChannel"]
