"""The couplings of the drift as numbers: the gradients of the potential at the current order parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError, NumericsError
from aimtheory.hierarchy import Views
from aimtheory.hierarchy.observables import OverlapReader, TracePolynomial
from aimtheory.model import AttentionModel
from aimtheory.population import Potential, nearest_covariance, potential
from aimtheory.words import Word

FloatArray = NDArray[np.float64]
Moments = Callable[[Sequence[Word]], FloatArray]


class CouplingValues:
    """Evaluates g_kl, gamma and the loss Phi from the moments of a state.

    The second moments are read off the state as q1_kl = tr(S_k S_l^T), q2_kl = tr(S_k S_l), projected onto the cone
    {q1 +- q2 >= 0} on which the Gaussian law exists (a truncated state may leave it; ``left_cone`` remembers the
    first distance), and handed to the potential.
    """

    def __init__(self, model: AttentionModel, views: Views) -> None:
        if not model.centred:
            raise InputError(
                "the forms of this model have a mean, which moves on a faster time scale than the moments; "
                "solve() integrates centred forms: use centred=True"
            )
        self.model = model
        self.views = views
        self.potential: Potential = potential(model.loss, model.tokens, model.covariance_matrix)
        self.count = len(model.indices)
        self.symmetric = all(matrix.is_symmetric for matrix in views.matrices)
        reader = OverlapReader.of(views)
        pairs = [(k, l) for k in range(self.count) for l in range(self.count)]
        plain = [reader.plain[k][l] for k, l in pairs]
        transposed = [reader.transposed[k][l] for k, l in pairs]
        self.words: tuple[Word, ...] = tuple(dict.fromkeys(w for p in (*plain, *transposed) for w in p.words))
        self._plain = self._linear(plain)
        self._transposed = self._linear(transposed)
        self.left_cone = 0.0

    def _linear(self, polynomials: Sequence[TracePolynomial]) -> tuple[FloatArray, FloatArray]:
        position = {word: n for n, word in enumerate(self.words)}
        matrix = np.zeros((len(polynomials), len(self.words)))
        for row, polynomial in enumerate(polynomials):
            for word, coefficient in zip(polynomial.words, polynomial.coefficients, strict=True):
                matrix[row, position[word]] += coefficient
        return matrix, np.array([p.constant for p in polynomials])

    def overlaps(self, moments: Moments) -> tuple[FloatArray, FloatArray]:
        """(q1, q2), each K x K, projected onto the cone."""
        values = moments(self.words)
        plain = (self._plain[0] @ values + self._plain[1]).reshape(self.count, self.count)
        if self.symmetric:
            plain = self._project(plain)
            return plain, plain
        transposed = (self._transposed[0] @ values + self._transposed[1]).reshape(self.count, self.count)
        plus, minus = self._project(transposed + plain), self._project(transposed - plain)
        return (plus + minus) / 2, (plus - minus) / 2

    def _project(self, matrix: FloatArray) -> FloatArray:
        if not np.isfinite(matrix).all():
            raise NumericsError("the overlaps of the state are not finite: the closed equations blew up")
        projected = nearest_covariance(matrix)
        distance = float(np.abs(projected - matrix).max())
        # Rounding moves a singular overlap slightly; only a true departure is remembered.
        if distance > 1e-10 * max(1.0, float(np.abs(matrix).max())):
            self.left_cone = max(self.left_cone, distance)
        return projected

    def __call__(self, moments: Moments) -> FloatArray:
        """The couplings in the order of ``views.couplings``."""
        first, second = self.overlaps(moments)
        if self.symmetric:
            gradient, _ = self.potential.tied_gradient(first)
            by_kind = {"gradient": gradient}
        else:
            result = self.potential.gradients(np.zeros(self.count), first, second)
            by_kind = {"gradient_transposed": result.q1, "gradient_plain": result.q2}
        decay = float(self.model.weight_decay)
        return np.array(
            [decay if c.kind == "decay" else by_kind[c.kind][c.k, c.l] for c in self.views.couplings], dtype=np.float64
        )

    def loss(self, moments: Moments) -> float:
        """Phi at the state, the population loss without the weight decay term."""
        first, second = self.overlaps(moments)
        if self.symmetric:
            return float(self.potential.tied_value(first).value)
        return float(self.potential.value(np.zeros(self.count), first, second).value)


__all__ = ["CouplingValues"]
