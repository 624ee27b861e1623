"""Observables: the named quantities of a trajectory, as functions of traces of words.

Names: ``t_1`` = tr S_1; ``q_12`` = tr(S_1 S_2); ``q1_12`` = tr(S_1 S_2^T); ``q2_12`` = tr(S_1 S_2); ``p_12`` = q_12 -
t_1 t_2, the structural overlap; ``loss`` = Phi; and any word, ``tr(S1 S2)``. Simulations and theories evaluate the same
objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.words import Polynomial, Word, canonical_trace, leibniz

FloatArray = NDArray[np.float64]

_MEAN = re.compile(r"m_(\d+)")
_NAMED = re.compile(r"(t)_(\d+)|(q|q1|q2|p)_(?:(\d)(\d)?|(\d+),(\d+))")


@dataclass(frozen=True)
class TracePolynomial:
    """constant + sum_n coefficients[n] tr(words[n]): a linear function of the moments."""

    words: tuple[Word, ...]
    coefficients: tuple[float, ...]
    constant: float = 0.0

    @classmethod
    def of(cls, polynomial: Polynomial) -> TracePolynomial:
        """tr(P) of a square polynomial in views, canonical words merged; tr 1 = 1."""
        merged: dict[Word, float] = {}
        constant = 0.0
        for word, coefficient in polynomial:
            if len(word) == 0:
                constant += float(coefficient)
            else:
                key = canonical_trace(word)
                merged[key] = merged.get(key, 0.0) + float(coefficient)
        return cls(tuple(merged), tuple(merged.values()), constant)

    def __call__(self, moments: Callable[[Sequence[Word]], FloatArray]) -> FloatArray:
        """The value, given a function from words to moments (words on the last axis)."""
        return moments(self.words) @ np.array(self.coefficients) + self.constant


def trace_drift(views: Views, polynomial: Polynomial, coupling: Coupling) -> TracePolynomial:
    """What one coupling carries of d tr P/dt, for a polynomial in views, as a trace polynomial (Leibniz rule)."""
    return TracePolynomial.of(leibniz(polynomial, lambda letter: views.drift.get(letter, {}).get(coupling)))


@dataclass(frozen=True)
class OverlapReader:
    """The order parameters of Theorem 1 as traces: t_k = tr S_k, q1_kl = tr(S_k S_l^T), q2_kl = tr(S_k S_l)."""

    traces: tuple[TracePolynomial, ...]
    transposed: tuple[tuple[TracePolynomial, ...], ...]
    plain: tuple[tuple[TracePolynomial, ...], ...]

    @classmethod
    def of(cls, views: Views) -> OverlapReader:
        """Read the overlaps of the model's attention matrices."""
        matrices = views.matrices
        return cls(
            tuple(TracePolynomial.of(S) for S in matrices),
            tuple(tuple(TracePolynomial.of(S * R.T) for R in matrices) for S in matrices),
            tuple(tuple(TracePolynomial.of(S * R) for R in matrices) for S in matrices),
        )

    def words(self) -> tuple[Word, ...]:
        """All words that the order parameters need, each once."""
        rows = [*self.traces, *(p for row in (*self.transposed, *self.plain) for p in row)]
        return tuple(dict.fromkeys(word for polynomial in rows for word in polynomial.words))


@dataclass(frozen=True)
class NamedObservable:
    """value = first - second x third (the last two absent for a plain trace), in trace polynomials.

    A mean m_k = Tr S_k/sqrt(d) = sqrt(d) tr S_k is ``per_root_dim``: a matrix of finite d has it, moments in the
    limit do not (it is of order one while tr S_k vanishes; theories slave it to the overlaps).
    """

    name: str
    first: TracePolynomial
    second: TracePolynomial | None = None
    third: TracePolynomial | None = None
    per_root_dim: bool = False

    @property
    def words(self) -> tuple[Word, ...]:
        """Words whose moments the observable needs."""
        parts = [part for part in (self.first, self.second, self.third) if part is not None]
        return tuple(dict.fromkeys(word for part in parts for word in part.words))

    def __call__(self, moments: Callable[[Sequence[Word]], FloatArray], dim: int | None = None) -> FloatArray:
        """The value, given a function from words to moments (words on the last axis); ``dim`` is d, for a mean."""
        value = self.first(moments)
        if self.second is not None and self.third is not None:
            value = value - self.second(moments) * self.third(moments)
        if self.per_root_dim:
            if dim is None:
                raise InputError(f"observable {self.name!r} is a mean, of order one where moments vanish: give dim=")
            value = value * np.sqrt(dim)
        return value


def mean_index(name: str, model: AttentionModel) -> int | None:
    """The index k (from 0) when the name is a mean ``m_k`` of the forms, else None.

    Raises ``InputError`` for a model whose forms are centred, whose means are zero by definition, or without that
    index.
    """
    match = _MEAN.fullmatch(name.strip())
    if match is None:
        return None
    k = int(match[1]) - 1
    if not 0 <= k < len(model.indices):
        raise InputError(f"observable {name!r} does not fit a model with {len(model.indices)} indices")
    if model.centred:
        raise InputError(
            f"observable {name!r} is the mean of a form, and the forms of this model are centred: their mean is zero; "
            "use centred=False for a model that keeps it"
        )
    return k


def named_observable(name: str, model: AttentionModel, views: Views) -> NamedObservable:
    """The observable of that name; ``InputError`` lists the names that exist. ``loss`` is not one: it is Phi of the
    overlaps."""
    mean = mean_index(name, model)
    if mean is not None:
        return NamedObservable(name, TracePolynomial.of(views.matrices[mean]), per_root_dim=True)
    match = _NAMED.fullmatch(name.strip())
    if match is None:
        if not name.strip().startswith("tr(") or not name.strip().endswith(")"):
            raise InputError(
                f"unknown observable {name!r}; use t_1, q_12, q1_12, q2_12, p_12, m_1, loss, or a trace such as "
                f"tr({' '.join(str(a) for a in views.alphabet.letters[:2])})"
            )
        return NamedObservable(name, TracePolynomial.of(Polynomial({views.parse(name): 1})))
    kind, *digits = [group for group in match.groups() if group is not None]
    indices = [int(digit) - 1 for digit in digits]
    if len(indices) != (1 if kind == "t" else 2) or not all(0 <= k < len(model.indices) for k in indices):
        raise InputError(
            f"observable {name!r} does not fit a model with {len(model.indices)} indices; write t_k with one index and "
            f"q_kl, p_kl with two, from 1 to {len(model.indices)}"
        )
    first = views.matrices[indices[0]]
    if kind == "t":
        return NamedObservable(name, TracePolynomial.of(first))
    second = views.matrices[indices[1]]
    if kind in ("q", "p") and not (first.is_symmetric and second.is_symmetric):
        # For matrices that are not symmetric the overlap that measures alignment is tr(S_k S_l^T).
        product = first * second.T
    else:
        product = first * (second.T if kind == "q1" else second)
    overlap = TracePolynomial.of(product)
    if kind != "p":
        return NamedObservable(name, overlap)
    return NamedObservable(name, overlap, TracePolynomial.of(first), TracePolynomial.of(second))


def observable_words(name: str, model: AttentionModel, views: Views) -> tuple[Word, ...]:
    """The words an observable needs; for ``loss`` and the means ``m_k`` the overlaps that the couplings read."""
    if name == "loss" or mean_index(name, model) is not None:
        reader = OverlapReader.of(views)
        rows = [p for row in (*reader.transposed, *reader.plain) for p in row]
        return tuple(dict.fromkeys(word for polynomial in rows for word in polynomial.words))
    return named_observable(name, model, views).words


def default_observables(model: AttentionModel) -> tuple[str, ...]:
    """The observables shown when none are asked for: traces, overlaps and structural overlaps of the trained indices,
    their means when the forms have one, and the loss."""
    count = len(model.indices)
    separator = "," if count > 9 else ""
    moving = {k + 1 for k, index in enumerate(model.indices) if index.trainable}
    pairs = [(k, l) for k in range(1, count + 1) for l in range(k, count + 1) if k in moving or l in moving]
    symmetric = all(index.factorization.is_symmetric for index in model.indices)
    names = [f"t_{k}" for k in sorted(moving)] if model.centred else [f"m_{k}" for k in sorted(moving)]
    for prefix in ("q", "p") if symmetric else ("q1", "q2", "p"):
        names += [f"{prefix}_{k}{separator}{l}" for k, l in pairs]
    return (*names, "loss")


__all__ = [
    "NamedObservable",
    "OverlapReader",
    "TracePolynomial",
    "default_observables",
    "mean_index",
    "named_observable",
    "observable_words",
    "trace_drift",
]
