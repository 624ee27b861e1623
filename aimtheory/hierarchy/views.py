"""Views: the letters in which traces are read, with the drift of each.

Traces of parameters close into products that start and end in the embedding space. Tied attention reads its traces in
S_k = W_k W_k^T, untied attention in M_k, M_k^T, A_k, B_k, direct optimization in S_k and S_k^T. When the products that
return to the embedding space for the first time are finitely many, they are the letters; otherwise the parameters
themselves are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.frozen import Uncached
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.flow import CoupledPolynomial, ParameterFlow, parameter_flow
from aimtheory.model import AttentionModel
from aimtheory.words import EMBEDDING, Alphabet, Letter, Polynomial, Word, canonical_trace, leibniz
from aimtheory.words.packed import Codes, letters_at


@dataclass(frozen=True)
class Views(Uncached):
    """The alphabet in which the moments of a model are written, with what each letter is made of and how it moves.

    ``expansion[a]`` is letter ``a`` as a word in the parameters; ``drift[a]`` its time derivative as polynomials in
    views, one a coupling, for untransposed letters that move. ``matrices`` are the S_k, ``traces`` the explicit order
    parameters by name, in views. Views have degree one; when the parameters themselves are
    the letters (``by_parameters``), they have fractions such that the shortest term of S_k has degree one.
    """

    alphabet: Alphabet
    expansion: Mapping[Letter, Word]
    drift: Mapping[Letter, CoupledPolynomial]
    couplings: tuple[Coupling, ...]
    matrices: tuple[Polynomial, ...]
    traces: Mapping[str, Polynomial]
    parameter_degrees: Mapping[Letter, Fraction]
    by_parameters: bool
    flow: ParameterFlow

    @cached_property
    def trainable_letters(self) -> tuple[Letter, ...]:
        """Untransposed letters that move."""
        return tuple(self.drift)

    @cached_property
    def unit(self) -> Fraction:
        """The largest degree of which the degree of every letter is a multiple: 1 when all letters have degree one."""
        return Fraction(1, lcm(*(self.letter_degree(letter).denominator for letter in self.alphabet.letters)))

    @cached_property
    def weights(self) -> np.ndarray:
        """Degrees of the letters of the alphabet in multiples of ``unit``, as integers."""
        return np.array([int(self.letter_degree(a) / self.unit) for a in self.alphabet.letters], dtype=np.int64)

    def letter_degree(self, letter: Letter) -> Fraction:
        """Degree of a letter: the sum over the parameters it is made of."""
        word = self.expansion[letter.base]
        return sum((self.parameter_degree(factor) for factor in word), Fraction(0))

    def degree(self, word: Word) -> Fraction:
        """Degree of a word: the sum over its letters."""
        return sum((self.letter_degree(letter) for letter in word), Fraction(0))

    def code_weights(self, codes: Codes, length: int) -> NDArray[np.int64]:
        """Degrees of packed words of one length, in multiples of ``unit``."""
        if (self.weights == 1).all():
            return np.full(len(codes), length, dtype=np.int64)
        total = np.zeros(len(codes), dtype=np.int64)
        for position in range(length):
            total += self.weights[letters_at(codes, length, position, self.alphabet.bits)]
        return total

    def longest(self, degree: int) -> int:
        """Number of letters of the longest word of at most this degree."""
        return int(degree / self.unit) // int(self.weights.min())

    @cached_property
    def parameters(self) -> tuple[Letter, ...]:
        """The parameter letters, untransposed, in order of appearance."""
        found: dict[Letter, None] = {}
        for word in self.expansion.values():
            for letter in word:
                found.setdefault(letter.base)
        return tuple(found)

    def parameter_degree(self, letter: Letter) -> Fraction:
        """Degree of a parameter letter: a half for a step into or out of an inner space, one within the embedding
        space, or, when the parameters are the letters, its share of the shortest term of an S_k."""
        return self.parameter_degrees[letter.base]

    def moves(self, k: int) -> bool:
        """True when S_k, k counted from 0, contains a letter that moves."""
        return any(letter in self.drift for letter in self.matrices[k].letters)

    def is_constant(self, word: Word) -> bool:
        """True when no letter of the word moves, as for words of the teacher alone."""
        return all(letter.base not in self.drift for letter in word)

    def expand(self, word: Word) -> Word:
        """A word in views as a word in parameters."""
        if word not in self._expanded:
            result = Word((), word.rows)
            for letter in word:
                result = result * (self.expansion[letter.T].T if letter.transposed else self.expansion[letter])
            self._expanded[word] = result
        return self._expanded[word]

    @cached_property
    def _expanded(self) -> dict[Word, Word]:
        return {}

    def read(self, word: Word) -> Word:
        """A word in parameters as a word in views; closed words are rotated to start in the embedding space if need
        be."""
        by_expansion = self._by_expansion
        if word.rows != EMBEDDING and not self.by_parameters and not all(letter.is_scalar for letter in word):
            start = next((n for n, letter in enumerate(word) if letter.rows == EMBEDDING), None)
            if start is None:
                raise InputError(f"word {word} never visits the embedding space; it is not a trace of this model")
            word = word.rotate(start)
        letters: list[Letter] = []
        pending: tuple[Letter, ...] = ()
        for letter in word:
            pending += (letter,)
            if pending in by_expansion:
                letters.append(by_expansion[pending])
                pending = ()
        if pending:
            raise InputError(f"word {word} is not a product of {', '.join(map(str, self.alphabet.letters))}")
        return Word(tuple(letters), word.rows)

    @cached_property
    def _by_expansion(self) -> dict[tuple[Letter, ...], Letter]:
        table: dict[tuple[Letter, ...], Letter] = {}
        for letter, word in self.expansion.items():
            table[word.letters] = letter
            table[word.T.letters] = letter.T
        return table

    def parse(self, text: str) -> Word:
        """A canonical trace from text, in views or in parameters: ``"tr(S1 S2)"`` or ``"tr(W1 W1^T S2)"``.

        Raises ``InputError`` when a letter is unknown or the word has no trace.
        """
        try:
            return canonical_trace(self.alphabet.parse(text))
        except InputError:
            parameters = {letter for word in self.expansion.values() for letter in word}
            mixed = Alphabet.of([*self.alphabet.letters, *parameters])
            try:
                word = mixed.parse(text)
            except InputError as error:
                raise InputError(str(error)) from None
            known = set(self.alphabet.letters)
            expanded = Word((), word.rows)
            for letter in word:
                expanded = expanded * (self.expand(Word.of(letter)) if letter in known else Word.of(letter))
            return canonical_trace(self.read(expanded))


def views(model: AttentionModel) -> Views:
    """The views of a model and their drift by the Leibniz rule; see the module's text for which letters they are."""
    flow = parameter_flow(model)
    parameters = list(model.letters.values())
    named = [*((form.name, form.matrix) for form in model.forms), *model.names]
    names = {word: name for name, polynomial in named for word in _monomial(polynomial)}
    finite = all(letter.is_scalar or EMBEDDING in (letter.rows, letter.columns) for letter in parameters)
    expansion = _first_returns(parameters, names) if finite else {letter: Word.of(letter) for letter in parameters}
    degrees = _parameter_degrees(model, parameters, finite)
    bare = Views(Alphabet.of(expansion), expansion, {}, flow.couplings, (), {}, degrees, not finite, flow)
    drift: dict[Letter, CoupledPolynomial] = {}
    for letter, word in expansion.items():
        change: dict[Coupling, Polynomial] = {}
        for coupling in flow.couplings:

            def moving(parameter: Letter, coupling: Coupling = coupling) -> Polynomial | None:
                return flow.drift.get(parameter, {}).get(coupling)

            derivative = leibniz(Polynomial({word: 1}), moving)
            if derivative.terms:
                change[coupling] = _read_polynomial(bare, derivative)
        if change:
            drift[letter] = change
    matrices = tuple(_read_polynomial(bare, form.matrix) for form in model.forms)
    traces = {trace.name: _read_trace(bare, trace.matrix) for trace in model.traces}
    return Views(bare.alphabet, expansion, drift, flow.couplings, matrices, traces, degrees, not finite, flow)


def _parameter_degrees(model: AttentionModel, parameters: list[Letter], finite: bool) -> dict[Letter, Fraction]:
    """Views have degree one when they are finitely many; otherwise the shortest term of an S_k shares one among its
    letters.
    """
    if finite:
        return {x: Fraction(1) if x.rows == x.columns else Fraction(1, 2) for x in parameters}
    words = [word for form in model.forms for word, _ in form.matrix]
    lengths = {x: [len(word) for word in words if x in word.letters or x.T in word.letters] for x in parameters}
    return {x: Fraction(1, min(found)) if found else Fraction(1) for x, found in lengths.items()}


def _monomial(polynomial: Polynomial) -> tuple[Word, ...]:
    """The word of a monomial with coefficient one, else nothing."""
    return tuple(word for word, coefficient in polynomial if len(polynomial) == 1 and coefficient == 1)


def _read_polynomial(bare: Views, polynomial: Polynomial) -> Polynomial:
    terms: dict[Word, object] = {}
    for word, coefficient in polynomial:
        view = bare.read(word)
        terms[view] = terms[view] + coefficient if view in terms else coefficient  # type: ignore[operator]
    return Polynomial(terms, polynomial.rows, polynomial.columns)


def _read_trace(bare: Views, polynomial: Polynomial) -> Polynomial:
    """A polynomial of the same trace in views: words out of an inner space are rotated into the embedding space."""
    total: Polynomial | None = None
    for word, coefficient in polynomial:
        term = Polynomial({bare.read(word) if len(word) else Word((), EMBEDDING): coefficient})
        total = term if total is None else total + term
    assert total is not None  # a trace has at least one term
    return total


def _first_returns(parameters: list[Letter], names: Mapping[Word, str]) -> dict[Letter, Word]:
    """Products that start in the embedding space and end at their first return to it, one letter a transposed pair."""
    words: list[Word] = []
    leaving: dict[str, list[Letter]] = {}
    for letter in parameters:
        if letter.rows == letter.columns:
            words.append(Word.of(letter))
        else:
            outward = letter if letter.rows == EMBEDDING else letter.T
            leaving.setdefault(outward.columns, []).append(outward)
    for outwards in leaving.values():
        for number, left in enumerate(outwards):
            words.extend(Word.of(left, right.T) for right in outwards[number:])
    result: dict[Letter, Word] = {}
    for word in words:
        oriented = word.T if word.T in names and word not in names else word
        if len(oriented) == 1:
            view = oriented.letters[0]
        else:
            automatic = "_".join(letter.name for letter in oriented)
            view = Letter(names.get(oriented, automatic), symmetric=oriented == oriented.T)
        if view in result:
            raise InputError(f"{view} names both {result[view]} and {oriented}; rename a parameter or a view")
        result[view] = oriented
    return result


__all__ = ["Views", "views"]
