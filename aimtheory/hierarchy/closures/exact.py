"""The exact closure: one trained tied matrix free from functions of one fixed matrix, any potential, no truncation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import NO_TRUNCATION, ClosedSystem, Closure, ClosureProblem, FloatArray
from aimtheory.hierarchy.initial_moments import joint_law
from aimtheory.hierarchy.system_source import array_text, embedded
from aimtheory.hierarchy.views import Views
from aimtheory.spectra import DressedSpectrum, SpectralLaw, SpectralMeasure
from aimtheory.spectra.dressed_inverse import CONSTANTS, PARTS, DressedInverse, StartRule
from aimtheory.spectra.law_quadrature import LawQuadrature, law_quadrature, upper_quantile
from aimtheory.words import Letter, Word

ELSEWHERE = "solve with closure='gns' (any parameterization and start) or closure='matrix' (finite d)"
"""What a refusal of the exact closure ends with."""

_FEWEST = 8


@dataclass(frozen=True)
class CommutingFlow:
    """W' = -sum_c c (quadratic_c S + sum_n powers_cn X^n) W, S = W W^T, X the fixed matrix: which couplings do what.

    ``quadratic`` has shape (C,), ``powers`` (C, N), C the couplings of the views in their order; ``fixed`` is None when
    no fixed matrix enters.
    """

    student: Letter
    fixed: Letter | None
    quadratic: FloatArray
    powers: FloatArray

    @classmethod
    def of(cls, views: Views) -> CommutingFlow:
        """Read the drift of the views; ``InputError`` says what stands in the way of the exact closure."""
        letters = views.alphabet.letters
        moving = views.trainable_letters
        if len(moving) != 1:
            names = ", ".join(map(str, moving)) or "none"
            raise InputError(
                f"closure 'exact' needs one trained matrix that moves by itself, S = W W^T; here {len(moving)} move "
                f"({names}); {ELSEWHERE}"
            )
        (student,) = moving
        expansion = views.expansion[student]
        if not student.symmetric or len(expansion) != 2:
            raise InputError(
                f"closure 'exact' needs a tied trained matrix S = W W^T; {student} = {expansion} is not; {ELSEWHERE}"
            )
        others = [letter for letter in letters if letter.base != student]
        if len(others) > 1 or not all(letter.symmetric for letter in others):
            raise InputError(
                f"closure 'exact' needs fixed forms that are polynomials of one fixed symmetric matrix; here "
                f"{', '.join(map(str, others))} are fixed, which do not commute; {ELSEWHERE}"
            )
        fixed = others[0] if others else None
        size = 1 + max(
            (len(word) - 1 for polynomial in views.drift[student].values() for word, _ in polynomial), default=0
        )
        quadratic, powers = np.zeros(len(views.couplings)), np.zeros((len(views.couplings), size))
        for number, coupling in enumerate(views.couplings):
            terms = {word.letters: float(c) for word, c in views.drift[student].get(coupling, {})}
            for word, coefficient in terms.items():
                place = [n for n, letter in enumerate(word) if letter == student]
                power = len(word) - len(place)
                mirrored = terms.get(tuple(reversed(word)))
                if len(word) == len(place) == 2:
                    quadratic[number] = -coefficient / 2
                elif len(place) == 1 and place[0] in (0, len(word) - 1) and mirrored == coefficient:
                    powers[number, power] = -coefficient / (2 if power == 0 else 1)
                else:
                    raise InputError(
                        f"closure 'exact' needs the drift of {student} to be -(H {student} + {student} H), H linear in "
                        f"{student}; the term {Word(word)} of {coupling.name} is not; {ELSEWHERE}"
                    )
        return cls(student, fixed, quadratic, powers)


@dataclass(frozen=True)
class Exact(Closure):
    """The limit d -> infinity without truncation (ours): one trained tied S = W W^T whose start is free from one fixed
    symmetric matrix X, and fixed forms that are polynomials of X (or none).

    For any potential and weight decay W' = -(g_11 S + sum_l g_1l f_l(X) + gamma/4) W is solved by

        S(t) = E (S_0^{-1} + Y)^{-1} E,  E = exp(-sum_l f_l(X) int g_1l - gamma t/4),  Y = 2 int g_11 E^2,

    and freeness gives every moment from one scalar equation. ``nodes`` are those of a quadrature of the law of X (and
    of S_0) a band of its spectrum; a second run with three quarters of them tells the error. The degree plays no part.
    Exact up to that quadrature: to rounding, unless weight decay cuts the bulk of X at late times.
    """

    nodes: int = 64
    name: ClassVar[str] = "exact"
    needs_degree: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (
            isinstance(self.nodes, bool)
            or not isinstance(self.nodes, int | np.integer)
            or not _FEWEST <= self.nodes <= 4096
        ):
            raise InputError(f"nodes = {self.nodes!r} of closure 'exact' must be an integer from {_FEWEST} to 4096")

    @property
    def options(self) -> Mapping[str, Any]:
        """The number of nodes."""
        return {"nodes": int(self.nodes)}

    def second_rule(self) -> Exact:
        """Three quarters of the nodes; twice as many where that would be fewer than 8."""
        fewer = (3 * int(self.nodes)) // 4
        return Exact(fewer if fewer >= _FEWEST else 2 * int(self.nodes))

    def coarser_degree(self, degree: int) -> int | None:  # noqa: ARG002
        """None: nothing is truncated."""
        return None

    def close(self, problem: ClosureProblem) -> ExactSystem:
        """Read flow and laws; ``InputError`` names what the exact solution does not cover and what to use instead."""
        flow = CommutingFlow.of(problem.views)
        law = joint_law(problem.model, problem.views, problem.initial)
        laws = law.free_laws
        if laws is None:
            raise InputError(
                f"closure 'exact' needs a start that is free from the fixed matrix, with laws of its own; "
                f"{type(law).__name__} may be correlated with it; {ELSEWHERE}"
            )
        fixed = None if flow.fixed is None else laws[str(flow.fixed)]
        return ExactSystem(flow, laws[str(flow.student)], fixed, int(self.nodes))


class ExactSystem(ClosedSystem):
    """State: the integrals of the couplings of f_l(X) and of the weight decay, then Z = Y/(1 + E^2) at the nodes.

    Words of any length in S and X can be read.
    """

    is_exact = True

    def __init__(self, flow: CommutingFlow, start: SpectralLaw, fixed: SpectralLaw | None, nodes: int) -> None:
        self.exact_degree = NO_TRUNCATION
        self.flow, self.start_law, self.fixed_law = flow, start, fixed
        self.rules = _Rules.of(start, fixed, nodes)
        lowest = float(self.rules.fixed.nodes.min())
        if lowest < 0:
            self.notes = (
                f"{flow.fixed} has eigenvalues below 0, down to about {lowest:.3g}, where {flow.student} = W W^T has "
                "none: it can come to the positive part of it at most",
            )
        self._linear = np.flatnonzero(flow.powers.any(axis=1))
        #: h_c(x) at the nodes, one row a coupling that drives E
        self._drivers = flow.powers[self._linear] @ self.rules.fixed.nodes ** np.arange(flow.powers.shape[1])[:, None]
        self._powers: dict[int, FloatArray] = {}
        self._known: dict[Word, int | tuple[int, ...]] = {}

    @property
    def initial(self) -> FloatArray:
        """Zero: E = 1 and Y = 0."""
        return np.zeros(len(self._linear) + self._drivers.shape[1])

    def drift(self, couplings: FloatArray, state: FloatArray) -> FloatArray:
        """A_c' = c and Z' = E^2/(1 + E^2) (2 g_11 + 2 (sum_l g_1l f_l + gamma/4) Z)."""
        count = len(self._linear)
        driving = couplings[self._linear]
        log_kernel = 2 * (state[:count] @ self._drivers)
        rate = 2 * (driving @ self._drivers)
        change = expit(-log_kernel) * (2 * float(couplings @ self.flow.quadratic) + rate * state[count:])
        return np.concatenate([driving, change])

    def student(self, state: FloatArray) -> DressedInverse:
        """S(t) = E (S_0^{-1} + Y)^{-1} E at a state, on the nodes of this rule."""
        count = len(self._linear)
        log_kernel = 2 * (state[:count] @ self._drivers)
        return DressedInverse(self.rules.fixed.weights, log_kernel, state[count:], self.rules.start)

    def spectrum(self, letter: Letter, state: FloatArray) -> DressedSpectrum:
        """The law of S(t) at a state: density, atoms, edges, quantiles; ``InputError`` for another letter."""
        if letter.base != self.flow.student:
            raise InputError(f"closure 'exact' has the spectrum of {self.flow.student}; {letter} keeps the law it has")
        count = len(self._linear)
        exponent = 2 * (state[:count] @ self.flow.powers[self._linear]) if count else np.zeros(1)
        return DressedSpectrum(self.student(state), self.rules.fixed, self.rules.start_law, exponent)

    def spectral_law(self, letter: Letter, state: FloatArray) -> DressedSpectrum | SpectralMeasure:
        """The limiting law of S(t); the nodes of a fixed matrix."""
        moves = letter.base == self.flow.student
        return self.spectrum(letter, state) if moves else self.spectral_measure(letter, state)

    def spectral_measure(self, letter: Letter, state: FloatArray) -> SpectralMeasure:
        """S(t) by atoms and nodes on its bands, which the exact density weighs; a fixed matrix by its quadrature."""
        if letter.base == self.flow.student:
            return self.spectrum(letter, state).measure()
        if letter.base == self.flow.fixed:
            order = np.argsort(self.rules.fixed.nodes)
            return SpectralMeasure(self.rules.fixed.nodes[order], self.rules.fixed.weights[order])
        raise InputError(f"closure 'exact' has no matrix {letter}; it has {self.flow.student} and {self.flow.fixed}")

    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Any word in S and X; ``InputError`` for one with another letter."""
        student = self.student(state)
        values = []
        for word in words:
            exponents = self._known[word] if word in self._known else self._exponents(word)
            if isinstance(exponents, int):
                values.append(float(self.rules.fixed.weights @ self._power(exponents)))
            else:
                values.append(student.word([self._power(n) for n in exponents]))
        return np.array(values)

    def source(self, words: Sequence[Word], couplings: Sequence[str]) -> list[str]:
        """The quadratures, the scalar equation of subordination as it stands in the library, and the drift."""
        count = len(self._linear)
        reads = []
        for word in words:
            exponents = self._exponents(word)
            if isinstance(exponents, int):
                reads.append(f"float(WEIGHTS @ NODES**{exponents})")
            else:
                reads.append(f"student.word([{', '.join(f'NODES**{n}' for n in exponents)}])")
        start = self.rules.start
        driving = ", ".join(couplings[int(n)] for n in self._linear)
        quadratic = " + ".join(
            f"{float(c)!r} * {name}" for c, name in zip(self.flow.quadratic, couplings, strict=True) if c
        )
        return [
            "import math",
            "from collections.abc import Sequence",
            "from dataclasses import dataclass",
            "from functools import cached_property",
            "",
            "",
            "class NumericsError(ArithmeticError):",
            '    """The scalar equation has no solution: the flow has blown up."""',
            "",
            "",
            "class AssumptionError(ValueError):",
            '    """The start is no W W^T."""',
            "",
            "",
            "def expit(x):",
            '    """1/(1 + exp(-x))."""',
            "    return np.exp(-np.logaddexp(0.0, -x))",
            "",
            "",
            *(f"{name} = {value!r}" for name, value in CONSTANTS.items()),
            *embedded(*PARTS),
            "",
            "",
            "# The law of the fixed matrix and that of the start, by nodes and weights.",
            f"NODES = {array_text(self.rules.fixed.nodes)}",
            f"WEIGHTS = {array_text(self.rules.fixed.weights)}",
            f"START = StartRule({array_text(start.nodes)}, {array_text(start.weights)}, {start.kernel!r})",
            "# How the couplings drive log E at the nodes.",
            f"DRIVERS = {array_text(self._drivers)}",
            f"INITIAL = np.zeros({len(self.initial)})",
            "",
            "",
            "def moments(state):",
            '    """The traces of WORDS at a state."""',
            "    state = np.asarray(state, dtype=float)",
            f"    student = DressedInverse(WEIGHTS, 2 * (state[:{count}] @ DRIVERS), state[{count}:], START)",
            f"    return np.array([{', '.join(reads)}])",
            "",
            "",
            "def drift(couplings, state):",
            '    """The time derivative of the state: integrals of couplings, then Z = Y/(1 + E^2) at the nodes."""',
            f"    ({', '.join(couplings)}{',' if couplings else ''}) = couplings",
            "    state = np.asarray(state, dtype=float)",
            f"    driving = np.array([{driving}], dtype=float)",
            f"    rate = 2 * (driving @ DRIVERS) * state[{count}:]",
            f"    change = expit(-2 * (state[:{count}] @ DRIVERS)) * (2 * ({quadratic or '0.0'}) + rate)",
            "    return np.concatenate([driving, change])",
        ]

    def _exponents(self, word: Word) -> int | tuple[int, ...]:
        """(n_1, ..., n_p) of S X^{n_1} ... S X^{n_p}, or n of X^n."""
        known = {self.flow.student, *(() if self.flow.fixed is None else (self.flow.fixed,))}
        for letter in word:
            if letter.base not in known:
                raise InputError(
                    f"closure 'exact' reads words in {', '.join(sorted(map(str, known)))}, and tr({word}) holds "
                    f"{letter}; solve with closure='matrix', which reads any word"
                )
        places = [n for n, letter in enumerate(word) if letter.base == self.flow.student]
        found: int | tuple[int, ...] = len(word)
        if places:
            found = tuple(int(gap) - 1 for gap in np.diff([*places, places[0] + len(word)]))
        self._known[word] = found
        return found

    def _power(self, exponent: int) -> FloatArray:
        if exponent not in self._powers:
            self._powers[exponent] = self.rules.fixed.nodes**exponent
        return self._powers[exponent]


@dataclass(frozen=True, eq=False)
class _Rules:
    """The quadratures of one resolution."""

    fixed: LawQuadrature
    start: StartRule
    start_law: LawQuadrature

    @classmethod
    def of(cls, start: SpectralLaw, fixed: SpectralLaw | None, nodes: int) -> _Rules:
        start_law = law_quadrature(start, nodes)
        rule = StartRule.of(start_law.nodes, start_law.weights)
        if fixed is None:
            return cls(LawQuadrature(np.zeros(1), np.ones(1), 1, (), (), 0.0), rule, start_law)
        # A student of low rank ends as the top of the spectrum of X: its edge there sharpens like 1/t.
        cut = upper_quantile(fixed, rule.rank) if rule.kernel > 0 else None
        return cls(law_quadrature(fixed, nodes, cut), rule, start_law)


__all__ = ["ELSEWHERE", "CommutingFlow", "Exact", "ExactSystem"]
