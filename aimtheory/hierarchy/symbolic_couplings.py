"""The couplings of the drift as formulas of the order parameters, or as averages over two Gaussian features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.moments import MomentHierarchy
from aimtheory.hierarchy.observables import OverlapReader, TracePolynomial, trace_drift
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.model.losses import trace_symbol
from aimtheory.population import PopulationLoss, population_loss
from aimtheory.population.closed_forms import gradient_by_pairs, order_symbols, tied_symbols
from aimtheory.words import Word


@dataclass(frozen=True, eq=False)
class FeatureProducts:
    """A piece of Phi: weight R_trace (1/2) sum_st W_st E <F_s(u_s), F_t(u_t)> (no R without a ``trace``).

    ``combination`` is a (slots x K), ``coupling`` W, ``functions`` the outputs of a slot as formulas of ``FEATURE``;
    the features have the means ``mean`` (a m) and the covariance ``first`` a q1 a^T + ``second`` a q2 a^T.
    """

    weight: float
    trace: str | None
    combination: NDArray[np.float64]
    coupling: NDArray[np.float64]
    functions: tuple[tuple[sp.Expr, ...], ...]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    mean: NDArray[np.float64]


FEATURE = sp.Symbol("x", real=True)
"""The symbol of a feature in ``FeatureProducts``."""


@dataclass(frozen=True)
class SymbolicCouplings:
    """What the couplings are made of.

    ``gradients`` are the formulas of g_kl, g1_kl, g2_kl and of dPhi/dR in the order parameters, ``mean`` those of
    dPhi/dm_k and ``curvature`` Phi'' over the ``trained`` means, empty for centred forms; ``symbols`` are (m, q1, q2),
    with q1 = q2 = q when every S_k is symmetric (``tied``). Where Phi has no closed form, ``products`` are its pieces
    and the formulas are empty. ``overlaps`` reads the order parameters off the moments, ``explicit`` the traces that
    Phi reads, by name, and ``trace_drifts[k][c]`` what a coupling c carries of d tr S_k/dt, from which the biases
    follow.
    """

    tied: bool
    symbols: tuple[tuple[sp.Symbol, ...], sp.Matrix, sp.Matrix]
    gradients: Mapping[Coupling, sp.Expr]
    mean: tuple[sp.Expr, ...]
    curvature: sp.Matrix
    trained: tuple[int, ...]
    overlaps: OverlapReader
    explicit: Mapping[str, TracePolynomial]
    trace_drifts: Mapping[int, Mapping[Coupling, TracePolynomial]]
    decay: float
    products: tuple[FeatureProducts, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """The words that the order parameters are read off."""
        pairs = [p for table in (self.overlaps.plain, self.overlaps.transposed) for row in table for p in row]
        rest = (p for row in self.trace_drifts.values() for p in row.values())
        needed = (*pairs, *self.explicit.values(), *rest)
        return tuple(dict.fromkeys(word for p in needed for word in p.words))


def symbolic_couplings(hierarchy: MomentHierarchy) -> SymbolicCouplings | None:
    """The couplings of a hierarchy as formulas: exact, by differentiating the closed form of Phi ([D] (10), (30)).

    None where ``coupling_formulas`` has none, or when the order parameters are no words of the hierarchy.

    >>> import aimtheory as aim
    >>> found = symbolic_couplings(aim.derive(aim.models.load("tied-hermite2"), 2))
    >>> {coupling.name: formula for coupling, formula in found.gradients.items()}
    {'g_11': 6*q_11 - 2*q_22, 'g_12': -4*q_12}
    """
    found = coupling_formulas(hierarchy.model, hierarchy.views)
    return found if found is not None and set(found.words) <= set(hierarchy.words) else None


def coupling_formulas(model: AttentionModel, views: Views) -> SymbolicCouplings | None:
    """The couplings of a model as formulas where Phi has a closed form, else as averages over two features.

    None when Phi has neither: a softmax over three tokens or more, a loss given by an expression that is no polynomial.
    """
    count = len(views.matrices)
    tied = all(matrix.is_symmetric for matrix in views.matrices)
    population = population_loss(model)
    means, q1, q2 = order_symbols(count)
    if tied:
        q1 = q2 = tied_symbols(count)
    value = population.symbolic_value([0] * count if tied or model.centred else means, q1, q2)
    products = feature_products(population) if value is None else ()
    if value is None and products is None:
        return None
    biased = [coupling for coupling in views.couplings if coupling.kind == "bias"]
    drifts = {c.k: {other: trace_drift(views, views.matrices[c.k], other) for other in views.couplings} for c in biased}
    trained = tuple(c.k for c in biased)
    gradients: dict[Coupling, sp.Expr] = {}
    mean: tuple[sp.Expr, ...] = ()
    if value is not None:
        by_kind = {
            "gradient": gradient_by_pairs(value, q1),
            "gradient_transposed": gradient_by_pairs(value, q1),
            "gradient_plain": gradient_by_pairs(value, q2),
        }
        gradients = {c: sp.expand(by_kind[c.kind][c.k, c.l]) for c in views.couplings if c.kind in by_kind}
        gradients |= {c: sp.diff(value, trace_symbol(c.trace)) for c in views.couplings if c.kind == "trace"}
        mean = tuple(sp.diff(value, means[k]) for k in trained)
    return SymbolicCouplings(
        tied,
        (means, q1, q2),
        gradients,
        mean,
        sp.Matrix(len(mean), len(mean), lambda i, j: sp.diff(mean[i], means[trained[j]])),
        trained,
        OverlapReader.of(views),
        {name: TracePolynomial.of(views.traces[name]) for name in model.loss.traces},
        drifts,
        float(model.weight_decay),
        () if products is None else products,
    )


def feature_products(population: PopulationLoss) -> tuple[FeatureProducts, ...] | None:
    """The pieces of Phi when all of them are averages of products of functions of one Gaussian feature; else None."""
    found: list[FeatureProducts] = []
    for weight, terms in population.terms:
        if terms is None:
            return None
        for trace, part in terms:
            pieces = part.single_feature_sites
            if pieces is None:
                return None
            slots, sites = pieces
            for site in sites:
                law = site.law
                found.append(
                    FeatureProducts(
                        weight * site.multiplicity,
                        trace,
                        slots.combination,
                        site.coupling,
                        tuple(function.expressions(FEATURE) for function in site.functions),
                        law.first,
                        law.second,
                        law.mean,
                    )
                )
    return tuple(found)


__all__ = [
    "FEATURE",
    "FeatureProducts",
    "SymbolicCouplings",
    "coupling_formulas",
    "feature_products",
    "symbolic_couplings",
]
