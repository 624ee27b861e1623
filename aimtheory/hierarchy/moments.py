"""The moment hierarchy of a model: its words up to a degree, their drift, and what closing it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sps
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import FrozenMapping
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.drift import DriftEntries, ReplacementTable, drift_entries
from aimtheory.hierarchy.observables import Loss, Observable, read_observables
from aimtheory.hierarchy.views import Views, views
from aimtheory.hierarchy.word_mapping import WordMapping
from aimtheory.model import AttentionModel, model_summary
from aimtheory.records import Result, Variable, record
from aimtheory.scalars import to_sympy
from aimtheory.words import Word, canonical_trace, trace_name
from aimtheory.words.packed import Codes, canonical_words

if TYPE_CHECKING:
    import networkx as nx


def check_degree(degree: object) -> int:
    """The truncation degree as an integer of at least 2; ``InputError`` otherwise."""
    if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < 2:
        raise InputError(
            f"degree = {degree!r} must be an integer of at least 2: "
            "the loss reads second moments, which degree 1 does not hold"
        )
    return int(degree)


def check_model(model: object) -> None:
    """``InputError`` unless this is a model, with a hint for a name given in its place."""
    if not isinstance(model, AttentionModel):
        hint = f": load it with aim.models.load({model!r})" if isinstance(model, str) else ""
        raise InputError(f"model = {model!r} is not an AttentionModel{hint}")


_MOST_WORDS = 1 << 26
"""Most words of one length that are enumerated: about a minute and 2 GiB."""


@dataclass(frozen=True)
class CouplingOperator:
    """The drift carried by one coupling: scale x (matrix mu + source), integers from words to words.

    ``source`` holds the calls on the empty word, tr 1 = 1; it is zero but for a letter that moves along the identity,
    as S_k does under direct optimization of forms with a mean.
    """

    coupling: Coupling
    scale: Fraction
    matrix: sps.csr_array
    source: np.ndarray


@record("derivation")
@dataclass(frozen=True, eq=False)
class MomentHierarchy(Result):
    """The equations d mu_w/dt = sum_c c(q) sum_v A_c[w, v] mu_v of all canonical words w up to degree M ([D] (11) for
    tied attention).

    ``len(h)`` counts the words; ``h.words`` lists them by degree; ``h.equations`` are sympy, ``h.operators`` sparse
    integers, ``h.graph`` the dependency graph, ``h.missing`` the words of degree above M on which the equations call
    and that a closure must supply. Constant words (those of the teacher alone) are included, with zero drift. Exact; no
    closure has been made.

    >>> import aimtheory as aim
    >>> h = aim.derive(aim.models.load("tied-softmax"), degree=6)
    >>> len(h), str(h.words[3])
    (36, 'S1 S2')
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("term",)

    model: AttentionModel
    degree: int
    views: Views = field(compare=False)
    codes: tuple[Codes, ...] = field(repr=False, compare=False)
    observables: tuple[str, ...] | None = None

    def to_record(self) -> dict[str, Any]:
        """Model, degree and observables, from which the equations follow."""
        return {"model": self.model, "degree": self.degree, "observables": self.observables}

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> MomentHierarchy:
        """Derived anew."""
        return derive(values["model"], values["degree"], values["observables"])

    def variables(self) -> tuple[Variable, ...]:
        """The terms of all equations: word, coefficient, coupling, word on the right."""
        rows = [
            (name, str(coefficient), coupling.name, trace_name(target))
            for name, word in zip(self.names, self.words, strict=True)
            for (coupling, target), coefficient in self.drift(word).items()
        ]
        columns = {
            "word": "word whose derivative this is",
            "coefficient": "exact coefficient",
            "coupling": "coupling, a function of the second moments",
            "target": "word on the right",
        }
        return (
            Variable("term", np.arange(len(rows)), ("term",), "term"),
            *(
                Variable(name, np.array([row[n] for row in rows], dtype=np.str_), ("term",), what)
                for n, (name, what) in enumerate(columns.items())
            ),
        )

    def summary(self) -> dict[str, Any]:
        """``words``, ``equations`` by word, their ``terms`` as [coefficient, coupling, word], ``missing``."""
        names = self.names
        return {
            **model_summary(self.model),
            "degree": self.degree,
            "words": list(names),
            "constant": [name for name, fixed in zip(names, self.constant, strict=True) if fixed],
            "missing": [trace_name(word) for word in self.missing],
            "couplings": [coupling.name for coupling in self.views.couplings],
            "equations": {name: str(self.equations[word]) for name, word in zip(names, self.words, strict=True)},
            "terms": {
                name: [
                    [str(coefficient), coupling.name, trace_name(target)]
                    for (coupling, target), coefficient in self.drift(word).items()
                ]
                for name, word in zip(names, self.words, strict=True)
            },
        }

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of letters of each word, in state order."""
        return np.repeat(np.arange(1, len(self.codes) + 1), [len(c) for c in self.codes])

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The canonical words in state order: by length, then by letters."""
        alphabet = self.views.alphabet
        return tuple(alphabet.unpack(code, n + 1) for n, codes in enumerate(self.codes) for code in codes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the order parameters, ``tr(S1 S2)``, in state order."""
        return tuple(map(trace_name, self.words))

    @cached_property
    def offsets(self) -> np.ndarray:
        """Position in the state of the first word of each length; ``offsets[w]`` for length w + 1."""
        return np.concatenate([[0], np.cumsum([len(c) for c in self.codes])])

    def index(self, word: Word | str) -> int:
        """Position of a word in the state; any rotation or transpose of it will do. ``InputError`` when it is not
        there."""
        if not isinstance(word, str | Word):
            raise InputError(f"word = {word!r} is neither a Word nor text such as 'tr(S1 S2)'")
        canonical = self.views.parse(word) if isinstance(word, str) else canonical_trace(word)
        length = len(canonical)
        if length <= len(self.codes):
            code = self.views.alphabet.pack(canonical)
            position = int(np.searchsorted(self.codes[length - 1], code))
            if position < len(self.codes[length - 1]) and self.codes[length - 1][position] == code:
                return int(self.offsets[length - 1]) + position
        raise InputError(
            f"{trace_name(canonical)} is not a state of this hierarchy of degree {self.degree}"
            + ("" if self.observables is None else f" restricted to {', '.join(self.observables)}")
            + "; raise the degree or derive it with this word among the observables"
        )

    @cached_property
    def constant(self) -> np.ndarray:
        """Boolean mask of words that do not move: those without a trainable letter."""
        mask = np.array([n for a, n in self.views.alphabet.index.items() if a.base in self.views.drift], dtype=np.int64)
        result = []
        for n, codes in enumerate(self.codes):
            moving = np.zeros(len(codes), dtype=bool)
            for position in range(n + 1):
                letter = codes >> self.views.alphabet.bits * position & ((1 << self.views.alphabet.bits) - 1)
                moving |= np.isin(letter, mask)
            result.append(~moving)
        return np.concatenate(result)

    @cached_property
    def _table(self) -> ReplacementTable:
        return ReplacementTable.of(self.views)

    def _entries(self, length: int) -> DriftEntries:
        return drift_entries(self.views, self._table, self.codes[length - 1], length)

    @cached_property
    def operators(self) -> tuple[CouplingOperator, ...]:
        """One sparse integer matrix a coupling, from the words kept to the words kept; calls on missing words are left
        out."""
        blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        sources = np.zeros((len(self.views.couplings), len(self)), dtype=np.int64)
        growth = min((t.size - 1 for t in self._table.replacements), default=0)
        for length in range(1, len(self.codes) + 1):
            # Words so long that every term of their drift is longer than the state need not be looked at.
            if length + growth > len(self.codes):
                continue
            entries = self._entries(length)
            empty = entries.lengths == 0
            sources[entries.coupling[empty], entries.rows[empty] + self.offsets[length - 1]] = entries.weights[empty]
            positions = self._positions(entries)
            inside = positions >= 0
            columns = positions[inside]
            rows = entries.rows[inside] + self.offsets[length - 1]
            blocks.append((rows, entries.coupling[inside], columns, entries.weights[inside]))
        size = len(self)
        rows, coupling, columns, weights = (
            np.concatenate(parts) if blocks else np.zeros(0, dtype=np.int64)
            for parts in (zip(*blocks, strict=True) if blocks else ((), (), (), ()))
        )
        result = []
        for number, name in enumerate(self.views.couplings):
            chosen = coupling == number
            matrix = sps.csr_array(
                (weights[chosen], (rows[chosen], columns[chosen])), shape=(size, size), dtype=np.int64
            )
            scale = Fraction(1, self._table.denominators[number])
            result.append(CouplingOperator(name, scale, matrix, sources[number]))
        return tuple(result)

    @cached_property
    def missing_operators(self) -> tuple[sps.csr_array, ...]:
        """Calls on missing words, one sparse integer matrix a coupling from ``missing`` to the words kept.

        With ``operators`` (words kept, and tr 1 = 1 as source) these are all drift terms: d mu = sum_c c scale_c
        (matrix mu + missing mu_missing + source).
        """
        place = {word: n for n, word in enumerate(self.missing)}
        pieces: list[list[tuple[int, int, int]]] = [[] for _ in self.views.couplings]
        alphabet = self.views.alphabet
        for length in range(1, len(self.codes) + 1):
            entries = self._entries(length)
            absent = np.flatnonzero((self._positions(entries) < 0) & (entries.lengths > 0))
            for n in absent:
                word = alphabet.unpack(int(entries.targets[n]), int(entries.lengths[n]))
                row = int(entries.rows[n]) + int(self.offsets[length - 1])
                pieces[entries.coupling[n]].append((row, place[word], int(entries.weights[n])))
        result = []
        for piece in pieces:
            rows, columns, weights = np.array(piece, dtype=np.int64).reshape(-1, 3).T
            result.append(sps.csr_array((weights, (rows, columns)), shape=(len(self), len(place)), dtype=np.int64))
        return tuple(result)

    def _positions(self, entries: DriftEntries) -> np.ndarray:
        """Places of the targets in the state, -1 for those that are not there."""
        result = np.full(len(entries.targets), -1, dtype=np.int64)
        for length in np.unique(entries.lengths[(entries.lengths > 0) & (entries.lengths <= len(self.codes))]):
            known = self.codes[length - 1]
            if len(known):
                chosen = np.flatnonzero(entries.lengths == length)
                place = np.searchsorted(known, entries.targets[chosen])
                found = known[np.minimum(place, len(known) - 1)] == entries.targets[chosen]
                result[chosen[found]] = self.offsets[length - 1] + place[found]
        return result

    @property
    def closes(self) -> bool:
        """True when no word is missing: no letter's drift is longer than a letter, as for direct optimization."""
        return all(term.size <= 1 for term in self._table.replacements)

    @cached_property
    def missing(self) -> tuple[Word, ...]:
        """Words above degree M that the equations call on: what a closure must supply."""
        found: dict[int, list[Codes]] = {}
        for length in range(1, len(self.codes) + 1):
            entries = self._entries(length)
            absent = (self._positions(entries) < 0) & (entries.lengths > 0)
            for target_length in np.unique(entries.lengths[absent]):
                targets = entries.targets[absent & (entries.lengths == target_length)]
                found.setdefault(int(target_length), []).append(targets)
        return tuple(
            self.views.alphabet.unpack(code, length)
            for length, codes in sorted(found.items())
            for code in np.unique(np.concatenate(codes))
        )

    def drift(self, word: Word | str) -> Mapping[tuple[Coupling, Word], Fraction]:
        """The drift of one word of the state, as {(coupling, word): rational coefficient}."""
        position = self.index(word)
        return FrozenMapping(self._drift_table[position])

    @cached_property
    def _drift_table(self) -> list[dict[tuple[Coupling, Word], Fraction]]:
        table: list[dict[tuple[Coupling, Word], Fraction]] = [{} for _ in range(len(self))]
        alphabet = self.views.alphabet
        for length in range(1, len(self.codes) + 1):
            entries = self._entries(length)
            zipped = zip(entries.rows, entries.coupling, entries.lengths, entries.targets, entries.weights, strict=True)
            for row, c, target_length, code, weight in zipped:
                key = (self.views.couplings[c], alphabet.unpack(int(code), int(target_length)))
                table[int(self.offsets[length - 1] + row)][key] = Fraction(int(weight), self._table.denominators[c])
        return table

    @cached_property
    def equations(self) -> WordMapping[sp.Expr]:
        """The open equations as sympy: word -> its time derivative in symbols mu[...] and g_kl, calls on missing words
        included. A word may also be given by its name, ``h.equations["tr(S1 S2)"]``."""
        return WordMapping(
            {
                word: sp.Add(
                    *(
                        to_sympy(c) * coupling.symbol * (moment_symbol(target) if len(target) else sp.S.One)
                        for (coupling, target), c in self._drift_table[n].items()
                    )
                )
                for n, word in enumerate(self.words)
            },
            self.views,
            "equations of this hierarchy",
        )

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The dependency graph: an edge u -> v means that the drift of u calls on v. See ``moment_graph``."""
        from aimtheory.hierarchy.graph import moment_graph

        return moment_graph(self)

    def report(self) -> str:
        """States by degree, how many are constant, and how many words of which degree are missing."""
        lines = [f"moment hierarchy of degree {self.degree}: {len(self)} words, {int(self.constant.sum())} constant"]
        kept: dict[Fraction, list[int]] = {}
        for word, constant in zip(self.words, self.constant, strict=True):
            kept.setdefault(self.views.degree(word), []).append(int(constant))
        for degree, constants in sorted(kept.items()):
            lines.append(f"  degree {degree}: {len(constants)} words, {sum(constants)} constant")
        absent: dict[Fraction, int] = {}
        for word in self.missing:
            absent[self.views.degree(word)] = absent.get(self.views.degree(word), 0) + 1
        for degree, count in sorted(absent.items()):
            lines.append(f"  missing: {count} words of degree {degree}, to be supplied by a closure")
        if not absent:
            lines.append("  closed: no word is missing")
        return "\n".join(lines)

    def latex(self) -> str:
        """The open equations as LaTeX, one aligned line a word that moves."""
        from aimtheory.hierarchy.latex import hierarchy_latex

        return hierarchy_latex(self)

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def __repr__(self) -> str:
        couplings = ", ".join(coupling.name for coupling in self.views.couplings)
        return f"MomentHierarchy(degree={self.degree}, {len(self)} words, couplings {couplings})"


def moment_symbol(word: Word) -> sp.Symbol:
    """The sympy symbol of an order parameter, named as in results: ``tr(S1 S2)``."""
    return sp.Symbol(trace_name(word), real=True)


def derive(
    model: AttentionModel, degree: int, observables: Iterable[str | Word | Observable] | None = None
) -> MomentHierarchy:
    """Derive the moment hierarchy of a model up to degree M, symbolically and exactly.

    All canonical words up to degree M when ``observables`` is None, else those on which the named observables
    (``"p_12"``, ``"tr(S1 S2)"``, ``"loss"``) and the couplings depend. A word of degree M keeps its equation; what it
    calls above M is ``missing``. Closes nothing: see ``solve``. Raises ``InputError`` for a degree that is not an
    integer of at least 2 or an unknown observable.

    >>> import aimtheory as aim
    >>> h = aim.derive(aim.models.load("exact-linear"), degree=2)
    >>> h.equations[h.words[0]]
    -2*g_11*tr(S1 S1) - 2*g_12*tr(S1 S2)
    """
    check_model(model)
    degree = check_degree(degree)
    seen = views(model)
    longest = seen.longest(degree)
    seen.alphabet.check_length(longest + 1)
    if observables is None:
        return MomentHierarchy(model, degree, seen, _all_words(seen, degree, longest))
    chosen = read_observables(observables, model, seen)
    # The couplings are functions of the second moments, so these always belong to the system.
    wanted = [word for one in (*chosen, Loss.of(seen)) for word in one.words]
    names = tuple(one.name for one in chosen)
    return MomentHierarchy(model, degree, seen, _reachable(seen, wanted, degree, longest), names)


def _all_words(seen: Views, degree: int, longest: int) -> tuple[Codes, ...]:
    """All canonical words of at most a degree, as sorted codes by length."""
    rows = np.array([letter.rows for letter in seen.alphabet.letters])
    columns = np.array([letter.columns for letter in seen.alphabet.letters])
    follows = (columns[:, None] == rows[None, :]).astype(float)
    count = float(np.trace(np.linalg.matrix_power(follows, longest)))
    if count > _MOST_WORDS:
        raise InputError(
            f"degree = {degree} has {count:.2g} words of {longest} letters before equal traces are merged, above "
            f"the {_MOST_WORDS:.2g} that are enumerated; lower the degree, or name the observables you need"
        )
    result = []
    for length in range(1, longest + 1):
        codes = canonical_words(seen.alphabet, length)
        result.append(codes[seen.code_weights(codes, length) * seen.unit.numerator <= degree * seen.unit.denominator])
    return tuple(result)


def _reachable(seen: Views, start: Sequence[Word], degree: int, longest: int) -> tuple[Codes, ...]:
    """Words up to a degree that the drift reaches from the given ones, as sorted codes by length."""
    table = ReplacementTable.of(seen)
    known: list[set[int]] = [set() for _ in range(longest)]
    frontier: dict[int, set[int]] = {}
    for word in start:
        canonical = canonical_trace(word)
        if seen.degree(canonical) > degree:
            raise InputError(
                f"observable {trace_name(canonical)} has degree {seen.degree(canonical)}, above the truncation degree "
                f"{degree}; raise the degree"
            )
        frontier.setdefault(len(canonical), set()).add(seen.alphabet.pack(canonical))
    while frontier:
        following: dict[int, set[int]] = {}
        for length, codes in frontier.items():
            fresh = np.array(sorted(codes - known[length - 1]), dtype=np.int64)
            if not len(fresh):
                continue
            known[length - 1].update(fresh.tolist())
            entries = drift_entries(seen, table, fresh, length)
            for target_length in np.unique(entries.lengths[(entries.lengths > 0) & (entries.lengths <= longest)]):
                targets = np.unique(entries.targets[entries.lengths == target_length])
                weights = seen.code_weights(targets, int(target_length))
                kept = targets[weights * seen.unit.numerator <= degree * seen.unit.denominator]
                following.setdefault(int(target_length), set()).update(kept.tolist())
        frontier = following
    return tuple(np.array(sorted(codes), dtype=np.int64) for codes in known)


__all__ = ["CouplingOperator", "MomentHierarchy", "check_degree", "check_model", "derive", "moment_symbol"]
