"""Sites: the independent pieces E f(u) into which a population loss splits, and the features u each depends on.

Φ = Σ_sites multiplicity · E f_site(u), u = linear features of the forms. With *slots* s (combinations Σ_k a_sk G_k of
the indices) the features of a site are jointly Gaussian with

    E u_a = t_a m_s(a),     Cov(u_a, u_b) = A1_ab q1_s(a)s(b) + A2_ab q2_s(a)s(b)

where A1 = T (C⊗C) Tᵀ, A2 = T (C⊗C) P Tᵀ, t = T vec C, P the swap (i,j) → (j,i): theory of [D], equation (4). By
Price's theorem every gradient is a contraction of the mean gradient and Hessian of f over the site.

Sites with the same law are merged: for C = 1 all rows of the attention matrix are one site, and all entries off the
diagonal are one site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aimtheory.errors import InputError
from aimtheory.model.activations import Activation
from aimtheory.model.losses import OutputProducts
from aimtheory.population.closed_forms import entry_laws
from aimtheory.population.features import EntryFunction, FeatureFunction, MixedOutputs, RowSoftmax, RowSurprise


@dataclass(frozen=True)
class FeatureLaw:
    """How mean and covariance of the P features of a site follow from (m, q1, q2) of the slots."""

    slots: np.ndarray
    first: np.ndarray
    second: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, maps: Sequence[tuple[int, np.ndarray]], covariance: np.ndarray) -> FeatureLaw:
        """The law of features given as (slot, T) with T of shape (p, L²) acting on row-major forms."""
        tokens = covariance.shape[0]
        outer = np.kron(covariance, covariance)
        swap = np.arange(tokens * tokens).reshape(tokens, tokens).T.ravel()
        feature_map = np.concatenate([matrix for _, matrix in maps])
        slots = np.concatenate([np.full(matrix.shape[0], slot) for slot, matrix in maps])
        return cls(
            slots=slots,
            first=feature_map @ outer @ feature_map.T,
            second=feature_map @ outer[:, swap] @ feature_map.T,
            mean=feature_map @ covariance.ravel(),
        )

    def moments(self, mean: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the features."""
        pick = np.ix_(self.slots, self.slots)
        return self.mean * mean[self.slots], self.first * q1[pick] + self.second * q2[pick]

    def key(self) -> tuple[bytes, ...]:
        """Equal for equal laws."""
        rounded = [np.round(array, 12) + 0.0 for array in (self.first, self.second, self.mean)]
        return (self.slots.tobytes(), *[array.tobytes() for array in rounded])


@dataclass(frozen=True)
class PairwiseSite:
    """f(u) = ½ Σ_st W_st ⟨F_s(u_s), F_t(u_t)⟩, which needs only two-slot expectations."""

    functions: tuple[FeatureFunction, ...]
    sizes: tuple[int, ...]
    coupling: np.ndarray
    law: FeatureLaw
    multiplicity: int = 1

    @property
    def polynomial(self) -> bool:
        """Whether every function is a polynomial, for which Gauss–Hermite rules are exact."""
        return all(isinstance(f, EntryFunction) and f.activation.polynomial_degree is not None for f in self.functions)

    def block(self, slot: int) -> slice:
        """The features of a slot."""
        start = sum(self.sizes[:slot])
        return slice(start, start + self.sizes[slot])


@dataclass(frozen=True)
class SlotMap:
    """Slots as combinations of indices: ``combination`` a (slots, K), so that q_slots = a q aᵀ, m_slots = a m."""

    combination: np.ndarray

    def push(self, mean: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Order parameters of the slots."""
        a = self.combination
        return a @ mean, a @ q1 @ a.T, a @ q2 @ a.T

    def pull(self, mean: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradients by the indices from gradients by the slots."""
        a = self.combination
        return a.T @ mean, a.T @ q1 @ a, a.T @ q2 @ a


def pairwise_sites(products: OutputProducts, covariance: np.ndarray) -> tuple[SlotMap, tuple[PairwiseSite, ...]]:
    """The sites of a loss that is made of products of outputs.

    Functions that act entry by entry have one site a distinct law of an entry, others one site a distinct law of a row.
    A product that C mixes (and C is not the identity) has one site a row.
    """
    slots = SlotMap(np.array(products.combination, dtype=np.float64))
    coupling = np.array(products.coupling, dtype=np.float64)
    functions, tokens = products.functions, len(covariance)
    mixed = products.mixed and not np.array_equal(covariance, np.eye(tokens))
    if not mixed and all(function.entrywise is not None for function in functions):
        return slots, _merge(_entry_sites(functions, coupling, covariance))
    surprises = (0,) if products.surprise else ()
    sites = [_row_site(row, functions, coupling, covariance, surprises) for row in range(tokens)]
    if not mixed:
        return slots, _merge(sites)
    result = []
    for row, site in enumerate(sites):
        order = _row_order(row, tokens, functions)
        values, vectors = np.linalg.eigh(covariance[np.ix_(order, order)])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        result.append(replace(site, functions=tuple(MixedOutputs(function, root) for function in site.functions)))
    # Rows of equal features may still mix their outputs differently, so they are not merged.
    return slots, tuple(result)


def _row_order(row: int, tokens: int, functions: Sequence[Activation]) -> list[int]:
    """The columns of a row as its features have them: the diagonal first, so that exchangeable rows look alike.

    Under a causal mask they are those up to the row. Raises ``InputError`` when the activations have different masks.
    """
    masks = {None if function.row_softmax is None else function.row_softmax.mask for function in functions}
    if len(masks) > 1:
        raise InputError(
            "the population potential needs one mask for all activations of a loss; here some are causal and some are "
            "not (simulations take such losses)"
        )
    seen = tokens if masks == {None} else row + 1
    return [row, *[column for column in range(seen) if column != row]]


def _entry_sites(functions: Sequence[Activation], coupling: np.ndarray, covariance: np.ndarray) -> list[PairwiseSite]:
    """One site a distinct law of an entry: E G_ij = C_ij m, Cov = C_ii C_jj q1 + C_ij² q2."""
    slots = np.arange(len(functions))
    ones = np.ones((len(functions),) * 2)
    entries = tuple(EntryFunction(f.entrywise) for f in functions if f.entrywise is not None)
    sites = []
    for entry, variance, count in entry_laws(len(covariance), covariance):
        law = FeatureLaw(slots, variance * ones, entry**2 * ones, np.full(len(functions), entry))
        sites.append(PairwiseSite(entries, (1,) * len(functions), coupling, law, count))
    return sites


def _row_site(
    row: int,
    functions: Sequence[Activation],
    coupling: np.ndarray,
    covariance: np.ndarray,
    surprises: Sequence[int],
) -> PairwiseSite:
    tokens = covariance.shape[0]
    order = _row_order(row, tokens, functions)
    entries = np.zeros((len(order), tokens * tokens))
    entries[np.arange(len(order)), [row * tokens + column for column in order]] = 1.0
    differences = entries[1:] - entries[0]
    maps: list[tuple[int, np.ndarray]] = []
    features: list[FeatureFunction] = []
    for slot, function in enumerate(functions):
        if function.row_softmax is not None:
            kind = RowSurprise if slot in surprises else RowSoftmax
            features.append(kind(float(function.row_softmax.inverse_temperature), len(order) - 1))
            maps.append((slot, differences))
        else:
            assert function.entrywise is not None
            features.append(EntryFunction(function.entrywise, len(order)))
            maps.append((slot, entries))
    sizes = tuple(matrix.shape[0] for _, matrix in maps)
    return PairwiseSite(tuple(features), sizes, coupling, FeatureLaw.of(maps, covariance))


def _merge(sites: Sequence[PairwiseSite]) -> tuple[PairwiseSite, ...]:
    merged: dict[tuple[bytes, ...], PairwiseSite] = {}
    for site in sites:
        key = site.law.key()
        known = merged.get(key)
        merged[key] = site if known is None else replace(known, multiplicity=known.multiplicity + site.multiplicity)
    return tuple(merged.values())


__all__ = ["FeatureLaw", "PairwiseSite", "SlotMap", "pairwise_sites"]
