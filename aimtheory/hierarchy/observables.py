"""Observables: the named quantities of a trajectory or a simulation, as values that say what they need and are read.

Names: ``t_1`` = tr S_1; ``q_12`` = tr(S_1 S_2); ``q1_12`` = tr(S_1 S_2^T); ``q2_12`` = tr(S_1 S_2); ``p_12`` = q_12 -
t_1 t_2, the structural overlap; ``m_1``, the mean of a form; ``loss`` = Phi; the explicit traces of the model by their
names; and any word, ``tr(S1 S2)``. A name is read once, by ``observable``, and spelled here alone; simulations and
theories evaluate the same objects.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aimtheory.arrays import FloatArray
from aimtheory.errors import InputError
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.words import Polynomial, Word, canonical_trace, leibniz, read_pair, spelled_indices, trace_name

Moments = Callable[[Sequence[Word]], FloatArray]
"""From words to their normalized traces, words on the last axis."""

_INDEXED = re.compile(r"(t|m|q|q1|q2|p)_(\d+(?:,\d+)?)")


class Reading(Protocol):
    """What an observable is evaluated on: a state of a theory, or the matrices of a simulation."""

    def moments(self, words: Sequence[Word]) -> FloatArray:
        """Normalized traces of words, shape (len(words),)."""

    def mean(self, k: int) -> float:
        """The mean m_k = Tr S_k/sqrt(d) of a form, of order one where tr S_k vanishes; k counts from 0."""

    def loss(self) -> float:
        """The population loss Phi."""


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

    def __call__(self, moments: Moments) -> Any:
        """The value, given a function from words to moments (words on the last axis), in the numbers it gives."""
        if not self.words:
            return self.constant
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
        return _words_of([*self.traces, *(p for row in (*self.transposed, *self.plain) for p in row)])


def _words_of(polynomials: Iterable[TracePolynomial]) -> tuple[Word, ...]:
    return tuple(dict.fromkeys(word for polynomial in polynomials for word in polynomial.words))


def _overlap_words(views: Views) -> tuple[Word, ...]:
    """What the couplings, and with them the loss and the slaved means, read of a state."""
    reader = OverlapReader.of(views)
    rows = [p for row in (*reader.transposed, *reader.plain) for p in row]
    return _words_of([*rows, *(TracePolynomial.of(trace) for trace in named_traces(views).values())])


@dataclass(frozen=True)
class Observable(ABC):
    """A named number of a state: ``words`` are the traces it needs, ``evaluate`` reads it.

    ``solve`` takes a subclass of your own beside names: a frozen dataclass with these two methods.

    >>> import aimtheory as aim
    >>> from aimtheory.hierarchy import views
    >>> model = aim.models.load("tied-softmax")
    >>> overlap = observable("p_12", model, views(model))
    >>> overlap.name, [str(word) for word in overlap.words]
    ('p_12', ['S1 S2', 'S1', 'S2'])
    """

    name: str

    @property
    @abstractmethod
    def words(self) -> tuple[Word, ...]:
        """Words whose moments a state must hold for the observable to be read."""

    @abstractmethod
    def evaluate(self, reading: Reading) -> Any:
        """The value at a state: a number of the kind that the reading gives, float or of more digits."""


@dataclass(frozen=True)
class TraceOf(Observable):
    """A linear function of traces: tr of a word or of a polynomial of letters."""

    trace: TracePolynomial

    @classmethod
    def word(cls, word: Word, name: str | None = None) -> TraceOf:
        """tr(word), called ``tr(S1 S2)`` unless it has a name."""
        return cls(trace_name(word) if name is None else name, TracePolynomial.of(Polynomial({word: 1})))

    @classmethod
    def form(cls, views: Views, k: int) -> TraceOf:
        """t_k = tr S_k; k counts from 0."""
        return cls(f"t_{spelled_indices(k)}", TracePolynomial.of(views.matrices[k]))

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of the trace."""
        return self.trace.words

    def evaluate(self, reading: Reading) -> Any:
        """The trace at a state."""
        return self.trace(reading.moments)


@dataclass(frozen=True)
class Overlap(TraceOf):
    """tr(S_k S_l^T) or tr(S_k S_l) of two forms; k and l count from 0.

    ``q1`` is the first, ``q2`` the second and ``q`` the overlap that measures alignment: the first, unless both
    matrices are symmetric and the two are one.
    """

    k: int
    l: int

    @classmethod
    def of(cls, views: Views, k: int, l: int, kind: str = "q") -> Overlap:
        """The overlap of forms k and l; ``kind`` is q, q1 or q2."""
        first, second = views.matrices[k], views.matrices[l]
        plain = kind == "q2" or (kind == "q" and first.is_symmetric and second.is_symmetric)
        trace = TracePolynomial.of(first * (second if plain else second.T))
        return cls(f"{kind}_{spelled_indices(k, l)}", trace, k, l)


@dataclass(frozen=True)
class StructuralOverlap(Observable):
    """p_kl = q_kl - t_k t_l, the overlap of the traceless parts of two forms."""

    overlap: Overlap
    first: TracePolynomial
    second: TracePolynomial

    @classmethod
    def of(cls, views: Views, k: int, l: int) -> StructuralOverlap:
        """The structural overlap of forms k and l, counted from 0."""
        traces = [TracePolynomial.of(views.matrices[n]) for n in (k, l)]
        return cls(f"p_{spelled_indices(k, l)}", Overlap.of(views, k, l), *traces)

    @property
    def words(self) -> tuple[Word, ...]:
        """Those of the overlap and of both traces."""
        return _words_of([self.overlap.trace, self.first, self.second])

    def evaluate(self, reading: Reading) -> Any:
        """The structural overlap at a state."""
        moments = reading.moments
        return self.overlap.trace(moments) - self.first(moments) * self.second(moments)


@dataclass(frozen=True)
class Mean(Observable):
    """m_k = Tr S_k/sqrt(d), the mean of a form, slaved to the overlaps in the limit d -> infinity; k counts from 0."""

    k: int
    overlaps: tuple[Word, ...]

    @classmethod
    def of(cls, views: Views, k: int) -> Mean:
        """The mean of form k."""
        return cls(f"m_{spelled_indices(k)}", k, _overlap_words(views))

    @property
    def words(self) -> tuple[Word, ...]:
        """Those of the overlaps to which it is slaved."""
        return self.overlaps

    def evaluate(self, reading: Reading) -> float:
        """The mean at a state."""
        return reading.mean(self.k)


@dataclass(frozen=True)
class Loss(Observable):
    """Phi, the population loss without the weight decay term."""

    overlaps: tuple[Word, ...]

    @classmethod
    def of(cls, views: Views) -> Loss:
        """The loss of the model of these views."""
        return cls("loss", _overlap_words(views))

    @property
    def words(self) -> tuple[Word, ...]:
        """Those of the order parameters of which it is a function."""
        return self.overlaps

    def evaluate(self, reading: Reading) -> float:
        """Phi at a state."""
        return reading.loss()


def named_traces(views: Views) -> Mapping[str, Polynomial]:
    """Explicit order parameters of the model by name, as polynomials in views."""
    return views.traces


def observable(item: str | Word | Observable, model: AttentionModel, views: Views) -> Observable:
    """The observable of a name, or of a word; an ``Observable`` passes through.

    Indices count from 1, and stand side by side or with a comma between: ``q_12``, ``q_1,10``; digits that mean one
    pair alone do too. Raises ``InputError`` for a name that is none, listing those that exist, for indices that the
    model does not have, and for the mean of forms that are centred.
    """
    if isinstance(item, Observable):
        return item
    if isinstance(item, Word):
        return TraceOf.word(canonical_trace(item), trace_name(item))
    if not isinstance(item, str):
        raise InputError(f"observable {item!r} is neither a name such as 'p_12' nor a word")
    name = item.strip()
    if name == "loss":
        return Loss.of(views)
    if name in named_traces(views):
        return TraceOf(name, TracePolynomial.of(named_traces(views)[name]))
    match = _INDEXED.fullmatch(name)
    if match is not None:
        return _indexed(name, match[1], match[2], model, views)
    if name.startswith("tr(") and name.endswith(")"):
        return TraceOf.word(views.parse(name), name)
    raise InputError(
        f"unknown observable {item!r}; use t_1, q_12, q1_12, q2_12, p_12, m_1, loss, "
        f"{''.join(f'{trace}, ' for trace in named_traces(views))}or a trace such as "
        f"tr({' '.join(str(a) for a in views.alphabet.letters[:2])})"
    )


def _indexed(name: str, kind: str, digits: str, model: AttentionModel, views: Views) -> Observable:
    count = len(views.matrices)
    if kind in ("t", "m"):
        k = int(digits) - 1 if digits.isdigit() else -1
        if not 0 <= k < count:
            raise _misfit(name, count)
        if kind == "t":
            return TraceOf.form(views, k)
        if model.centred:
            raise InputError(
                f"observable {name!r} is the mean of a form, and the forms of this model are centred: their mean is "
                "zero; use centred=False for a model that keeps it"
            )
        return Mean.of(views, k)
    pair = read_pair(digits, count)
    if pair is None:
        raise _misfit(name, count)
    return StructuralOverlap.of(views, *pair) if kind == "p" else Overlap.of(views, *pair, kind)


def _misfit(name: str, count: int) -> InputError:
    comma = ", with a comma between them where one has two digits" if count > 9 else ""
    return InputError(
        f"observable {name!r} does not fit a model with {count} indices; write t_k with one index and q_kl, p_kl with "
        f"two, from 1 to {count}{comma}"
    )


def read_observables(
    items: Iterable[str | Word | Observable] | None, model: AttentionModel, views: Views
) -> tuple[Observable, ...]:
    """Observables from a list of names and words, each once; the default ones of the model for None.

    Raises ``InputError`` for one name in place of a list, for an empty list and as ``observable``.
    """
    if items is None:
        return default_observables(model, views)
    if isinstance(items, str | Word | Observable):
        shown = str(items) if isinstance(items, str | Word) else items.name
        raise InputError(f"observables = {shown!r} is one name; put it in a list: give a list such as [{shown!r}]")
    found = [observable(item, model, views) for item in items]
    if not found:
        raise InputError("observables is empty; name at least one, or leave it out for the default ones")
    return tuple({one.name: one for one in found}.values())


def default_observables(model: AttentionModel, views: Views) -> tuple[Observable, ...]:
    """The observables shown when none are asked for: traces, overlaps and structural overlaps of the trained forms,
    their means when the forms have one, the explicit traces, and the loss."""
    forms = range(len(views.matrices))
    moving = [k for k in forms if views.moves(k)]
    pairs = [(k, l) for k in forms for l in forms[k:] if k in moving or l in moving]
    kinds = ("q",) if all(matrix.is_symmetric for matrix in views.matrices) else ("q1", "q2")
    return (
        *(TraceOf.form(views, k) if model.centred else Mean.of(views, k) for k in moving),
        *(Overlap.of(views, k, l, kind) for kind in kinds for k, l in pairs),
        *(StructuralOverlap.of(views, k, l) for k, l in pairs),
        *(TraceOf(name, TracePolynomial.of(trace)) for name, trace in named_traces(views).items()),
        Loss.of(views),
    )


def driving_observables(model: AttentionModel, views: Views) -> tuple[Observable, ...]:
    """The order parameters that drive the flow: overlaps q (q1 of forms that are not symmetric, whose q2 stays small
    beside it) of the trained forms, and explicit traces. Whatever is read of a state depends on them.
    """
    named = named_traces(views)
    found = []
    for one in default_observables(model, views):
        if one.name in named or (isinstance(one, Overlap) and not one.name.startswith("q2")):
            found.append(one)
    return tuple(found)


__all__ = [
    "Loss",
    "Mean",
    "Moments",
    "Observable",
    "Overlap",
    "OverlapReader",
    "Reading",
    "StructuralOverlap",
    "TraceOf",
    "TracePolynomial",
    "default_observables",
    "driving_observables",
    "named_traces",
    "observable",
    "read_observables",
    "trace_drift",
]
