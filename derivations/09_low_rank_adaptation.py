"""9. Low-rank adaptation, S = S_0 + U V^T: a factorization beyond the papers, by the same three steps.

Result. The gradient by S is the same for every factorization; its pull-back to the parameters changes. A trained S_0
moves along the gradient itself, as under direct optimization, U and V as in untied attention; a frozen S_0 enters the
gradient alone. The mean m = Tr S/sqrt(d) relaxes at the speed t^A + t^B, plus 1 when S_0 is trained, and the bias with
it. Dropping S_0 gives derivation 5 back, dropping U and V the direct flow with a mean.
"""

from __future__ import annotations

import sympy as sp
from document import Derivation, Step, check, main
from trace_words import (
    ONE,
    Polynomial,
    along,
    gradient,
    library_drift,
    matrix,
    plus,
    product,
    symbol,
    times,
    trace,
    transpose,
)

import aimtheory as aim
from aimtheory.hierarchy.latex import equation_latex
from aimtheory.model import direct, written
from aimtheory.model.losses import MeanSquaredError
from aimtheory.words import Letter
from aimtheory.words import Polynomial as LibraryPolynomial

GAMMA, BETA = symbol("gamma"), symbol("beta_1")
S0, U, V, TEACHER = matrix("S0"), matrix("U1"), matrix("V1"), matrix("M2")
ADAPTER = product(U, transpose(V))
A, B = product(U, transpose(U)), product(V, transpose(V))


def model(frozen: bool, decay: object) -> aim.AttentionModel:
    """S_0, U, V Gaussian, width 1/4, and a Ginibre teacher; forms with a mean."""
    letters = Letter("S0"), Letter("U1", "d", "r1"), Letter("V1", "d", "r1")
    first, left, right = letters
    M, AA, BB = (LibraryPolynomial.word(x, y.T) for x, y in ((left, right), (left, left), (right, right)))
    laws = {
        "S0": aim.Ginibre(variance=1),
        "U1": aim.GaussianEntries(width="1/4", trace="1/4"),
        "V1": aim.GaussianEntries(width="1/4", trace="1/8"),
    }
    trained = ("U1", "V1") if frozen else True
    return aim.AttentionModel.of(
        written("S1", LibraryPolynomial.word(first) + M, laws, trained=trained),
        direct(2, aim.Ginibre(variance=1), name="M", trained=False),
        names=(("M1", M), ("A1", AA), ("B1", BB)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
        weight_decay=decay,
        centred=False,
    )


def pull() -> Polynomial:
    """sum_lr g^r_1l S_l^(r), S_1 = S_0 + U V^T and S_2 the teacher."""
    terms = []
    for l, form in enumerate((plus(S0, ADAPTER), TEACHER)):
        terms += [times(gradient("g1", 0, l), form), times(gradient("g2", 0, l), transpose(form))]
    return plus(*terms)


def chain_rule(dim: int, width: int) -> None:
    """d x gradient by S_0, U, V of Phi = b m + sum g q, entry by entry: G, G V, G^T U with G = sqrt(d) b 1 + 2 H."""
    entries = {
        name: sp.Matrix(dim, columns, lambda i, j, name=name: symbol(f"{name}_{i}{j}"))
        for name, columns in (("s", dim), ("u", width), ("v", width), ("t", dim))
    }
    S = entries["s"] + entries["u"] * entries["v"].T
    b = symbol("b")
    forms = (S, entries["t"])
    phi = b * S.trace() / sp.sqrt(dim)
    for k, first in enumerate(forms):
        for l, second in enumerate(forms):
            phi += gradient("g1", k, l) * (first * second.T).trace() / dim
            phi += gradient("g2", k, l) * (first * second).trace() / dim
    G = sp.sqrt(dim) * b * sp.eye(dim)
    for l, form in enumerate(forms):
        G += 2 * (gradient("g1", 0, l) * form + gradient("g2", 0, l) * form.T)
    for name, rule in (("s", G), ("u", G * entries["v"]), ("v", G.T * entries["u"])):
        by_entry = entries[name].applyfunc(lambda entry: dim * sp.diff(phi, entry))
        check((by_entry - rule).applyfunc(sp.expand).is_zero_matrix is True, f"the gradient by {name}")


def flow(frozen: bool, decay: sp.Expr) -> dict[str, Polynomial]:
    """The slow flow of the parameters."""
    H = pull()
    moving = {
        "U1": times(-1, plus(times(BETA, V), times(2, product(H, V)), times(decay, U))),
        "V1": times(-1, plus(times(BETA, U), times(2, product(transpose(H), U)), times(decay, V))),
    }
    if not frozen:
        moving["S0"] = times(-1, plus(times(BETA, ONE), times(2, H), times(decay, S0)))
    return moving


def speed(frozen: bool) -> Polynomial:
    """What -beta multiplies in d tr S_1/dtau: t^A + t^B, and tr 1 = 1 for a trained S_0."""
    return trace(plus(A, B) if frozen else plus(A, B, ONE))


def psi(frozen: bool) -> Polynomial:
    """The rest of -d tr S_1/dtau: (27) with S_l in place of M_l, and 2 sum g tr S_l for a trained S_0.

    The last is of order d^{-1/2}, as the means are of order one, and is dropped from the bias.
    """
    H = pull()
    terms = [product(H, B), product(A, H)]
    return trace(times(2, plus(*terms) if frozen else plus(*terms, H)))


def against_the_library(frozen: bool, degree: int) -> int:
    """All words up to a degree, and the bias."""
    hierarchy = aim.derive(model(frozen, GAMMA), degree)
    moving = flow(frozen, GAMMA)
    for word in hierarchy.words:
        mine, theirs = library_drift(hierarchy, word)
        check(trace(along({mine: sp.S.One}, moving)) == theirs, f"the drift of tr({word})")
    parts = [library_drift(hierarchy, hierarchy.views.parse(text)) for text in ("tr(S0)", "tr(M1)")]
    total = plus(*(drift for _, drift in parts))
    decays = plus(times(2 * GAMMA, trace(ADAPTER)), {} if frozen else times(GAMMA, trace(S0)))
    check(plus(total, decays, times(BETA, speed(frozen)), psi(frozen)) == {}, "d tr(S_1)/dtau")
    return len(hierarchy)


def special_cases() -> None:
    """Without S_0, U and V follow the untied equations; without U and V, S_0 follows the direct ones."""

    def without(term: Polynomial, *names: str) -> Polynomial:
        return {word: value for word, value in term.items() if not any(name in names for name, _ in word)}

    untied = aim.derive(aim.models.load("untied-linear"), 3)
    moving = flow(frozen=True, decay=sp.S.Zero)
    for word in untied.words:
        mine, theirs = library_drift(untied, word)
        mine_drift = without(trace(along({mine: sp.S.One}, moving)), "S0")
        check(mine_drift == theirs, f"without S_0 tr({word}) follows the untied equation")
    # direct-linear is centred; its letters are S1 and S2.
    straight = aim.derive(aim.models.load("direct-linear"), 3)
    moving = flow(frozen=False, decay=sp.S.Zero)
    renamed = {"S1": "S0", "S2": "M2"}
    for word in straight.words:
        mine, theirs = library_drift(straight, word)
        own = tuple((renamed[name], mark) for name, mark in mine)
        found = without(trace(along({own: sp.S.One}, moving)), "U1", "V1")
        unbiased = {w: v.subs(BETA, 0) for w, v in found.items() if v.subs(BETA, 0) != 0}
        expected = trace({tuple((renamed[n], m) for n, m in w): v for w, v in theirs.items()})
        check(unbiased == expected, f"without U and V tr({word}) follows the direct equation")


def start(frozen: bool) -> sp.Expr:
    """The velocity of q1_12 when S_0, U, V are free from the teacher; one block of each gives a product of traces."""
    drift = trace(along(product(plus(S0, ADAPTER), transpose(TEACHER)), flow(frozen, sp.S.Zero)))
    known = {
        trace_key(A): symbol("t_A"),
        trace_key(B): symbol("t_B"),
        trace_key(product(TEACHER, transpose(TEACHER))): symbol("q1_22"),
        trace_key(product(TEACHER, TEACHER)): symbol("q2_22"),
    }
    total = sp.S.Zero
    for word, value in drift.items():
        own = tuple(factor for factor in word if factor[0] != "M2")
        other = tuple(factor for factor in word if factor[0] == "M2")
        if len(other) == 1:
            continue  # tr(own) tr(M_2), and tr M_2 is of order d^{-1/2}
        total += value * (known[trace_key({own: sp.S.One})] if own else 1) * known[trace_key({other: sp.S.One})]
    g1, g2 = gradient("g1", 0, 1), gradient("g2", 0, 1)
    rate = symbol("t_A") + symbol("t_B") + (0 if frozen else 1)
    check(sp.expand(total + 2 * rate * (g1 * symbol("q1_22") + g2 * symbol("q2_22"))) == 0, "the velocity at the start")
    # Numbers: t^A = 1/4, t^B = 1/8, q1_22 = 1, q2_22 = 0, and -1/2 for both cross-gradients of the linear loss.
    value = total.subs({symbol("t_A"): sp.Rational(1, 4), symbol("t_B"): sp.Rational(1, 8), symbol("q1_22"): 1})
    value = value.subs({symbol("q2_22"): 0, g1: -sp.Rational(1, 2), g2: -sp.Rational(1, 2)})
    report = aim.recovery(model(frozen, 0), follow=False)
    check(abs(report.velocity - float(value)) < 1e-9, "the library's velocity")
    return value


def trace_key(term: Polynomial) -> tuple:
    """The canonical word of a monomial."""
    (word,) = trace(term)
    return word


def derive(degree: int = 3) -> Derivation:
    """The steps, each asserted, for a frozen and for a trained S_0."""
    chain_rule(2, 1)
    words = [against_the_library(frozen, degree) for frozen in (True, False)]
    special_cases()
    frozen, trained = start(frozen=True), start(frozen=False)
    hierarchy = aim.derive(model(True, 0), 2)
    left, right = equation_latex(hierarchy, hierarchy.views.parse("tr(A1)"))
    sum_lr = r"\sum_{l,r}[\nabla_{q^{(r)}}\Phi]_{1l}"
    return Derivation(
        "Low-rank adaptation",
        (
            Step(
                "$S_1 = S_0 + UV^\\top$ with $U, V \\in \\mathbb R^{d\\times r}$, one teacher $S_2$. The forms see "
                "$S_1$ alone, so the potential and the gradient by $S_1$ are those of derivation 5:",
                r"G = d\,\frac{\partial\Phi}{\partial S_1} = \sqrt d\,\frac{\partial\Phi}{\partial m_1} + 2H,"
                r"\qquad H = " + sum_lr + r" S_l^{(r)}",
            ),
            Step(
                "Pulled back to the parameters (verified entry by entry), with $\\beta = "
                "\\sqrt d\\,\\partial\\Phi/\\partial m_1$ on the slow scale; $\\chi_0 = 1$ when $S_0$ is trained, 0 "
                "when it is frozen:",
                r"\begin{aligned} \dot U &= -(\beta V + 2HV + \gamma U) \\ \dot V &= -(\beta U + 2H^\top U + "
                r"\gamma V) \\ \dot S_0 &= -\chi_0(\beta + 2H + \gamma S_0) \end{aligned}",
            ),
            Step(
                f"The library's hierarchy agrees for all {words[0]} words up to degree {degree} in $S_0$, $M = "
                "UV^\\top$, $A = UU^\\top$, $B = VV^\\top$ and the teacher, frozen and trained. Without $S_0$ it is "
                "the untied hierarchy, without $U$ and $V$ the direct one. For instance, $S_0$ frozen:",
                f"{left} = {right}",
            ),
            Step(
                "The mean $m_1 = \\operatorname{Tr}S_1/\\sqrt d$ is fast again. A trained $S_0$ adds the trace of the "
                "identity to its speed:",
                r"\frac{dm_1}{dt} = -(t^A + t^B + \chi_0)\,\frac{\partial\Phi}{\partial m_1},\qquad t = n\alpha_d",
            ),
            Step(
                "and what holds $\\operatorname{tr}S_1$ in place on the slow scale is the bias",
                r"\beta = -\frac{2}{t^A + t^B + \chi_0}\," + sum_lr + r"\operatorname{tr}\big(S_l^{(r)}(A + B)\big)",
            ),
            Step(
                "At a start free from the teacher the overlap leaves zero with a velocity that $t^A + t^B$, of order "
                "$r/d$, makes small for a narrow adapter. $V = 0$ at the start, the usual choice, leaves $t^A$ of it.",
                r"\frac{dq^{(1)}_{12}}{d\tau}\bigg|_0 = -2(t^A + t^B + \chi_0)\Big("
                r"[\nabla_{q^{(1)}}\Phi]_{12}\,q^{(1)}_{22} + [\nabla_{q^{(2)}}\Phi]_{12}\,q^{(2)}_{22}\Big)",
            ),
            Step(
                f"With width $1/4$, entry variances 1 and $1/2$ and a linear loss this is ${sp.latex(frozen)}$ for a "
                f"frozen $S_0$ and ${sp.latex(trained)}$ for a trained one, as the library reports. A frozen $S_0$ "
                "keeps its own overlap with the teacher, so that the adapter alone moves it:",
                r"q^{(1)}_{12}(\tau) = \operatorname{tr}(S_0S_2^\top) + \operatorname{tr}(M(\tau)S_2^\top)",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
