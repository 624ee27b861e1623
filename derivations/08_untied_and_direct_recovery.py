"""8. Weak recovery of untied and of direct attention (Corollaries 4 and 7 of [D], arXiv:2609.03858).

Equations (42), (48) and (916)-(922).

Result. Untied, student free from the teacher, m at m*:

    dq_12/dtau = -2 (t^A + t^B) Q_2 g_12,   Q_2 = [[q1_22, q2_22], [q2_22, q1_22]];

direct, t_1 = p_12 = 0: dp+-_12/dt = -2 g+- a+-. Where the cross-gradients vanish on the whole uninformative manifold
the flow stays on it. Equations come from the library's hierarchy; freeness and traces are worked out here.
"""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main
from trace_words import Polynomial, Product, canonical, gradient, library_drift, of_library, symbol

import aimtheory as aim
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential
from aimtheory.population.closed_forms import gradient_by_pairs

STUDENT = ("U1", "V1")
TEACHER = "M2"


def blocks(word: Product) -> list[Product]:
    """A cyclic word cut into its maximal blocks of student letters and of teacher letters."""
    owners = [name in STUDENT for name, _ in word]
    start = next((n for n in range(len(word)) if owners[n] != owners[n - 1]), 0)
    turned, owners = word[start:] + word[:start], owners[start:] + owners[:start]
    return [
        tuple(factor for factor, _ in group)
        for _, group in itertools.groupby(zip(turned, owners, strict=True), key=lambda pair: pair[1])
    ]


def free_trace(word: Product, names: dict[Product, sp.Expr]) -> sp.Expr:
    """tr of a word when student and teacher are free: tr(a b) = tr a tr b for one block each.

    Centring gives it: a = a' + tr a, b = b' + tr b, and tr a' b' = 0. More blocks do not occur in the equations used.
    """
    parts = blocks(word)
    check(len(parts) <= 2, "at most one block of each")
    value = sp.S.One
    for part in parts:
        key = canonical(part)
        value *= names.setdefault(key, symbol("tr(" + " ".join(a + b for a, b in key) + ")"))
    return value


def symbols_of_the_start() -> dict[Product, sp.Expr]:
    """Names of what a free start knows: t^A, t^B, the teacher's overlaps; tr M_2 = O(d^{-1/2}) is zero."""
    return {
        canonical((("U1", ""), ("U1", "^T"))): symbol("t_A"),
        canonical((("V1", ""), ("V1", "^T"))): symbol("t_B"),
        canonical(((TEACHER, ""),)): sp.S.Zero,
        canonical(((TEACHER, ""), (TEACHER, "^T"))): symbol("q1_22"),
        canonical(((TEACHER, ""), (TEACHER, ""))): symbol("q2_22"),
    }


def free_value(term: Polynomial, names: dict[Product, sp.Expr]) -> sp.Expr:
    return sp.expand(sp.Add(*(value * free_trace(word, names) for word, value in term.items())))


def untied_velocity() -> dict[str, sp.Expr]:
    """(917)-(922): the library's equations of q1_12 and q2_12 at a free start."""
    model = aim.models.load("untied-hermite2")
    hierarchy = aim.derive(model, 2)
    parse = hierarchy.views.parse
    names = symbols_of_the_start()
    total = symbol("t_A") + symbol("t_B")
    q1, q2 = symbol("q1_22"), symbol("q2_22")
    # (917)-(919), word by word.
    for text, expected in (
        ("tr(A1 M2^T)", 0),
        ("tr(B1 M2^T)", 0),
        ("tr(M1 B1 M2^T)", 0),
        ("tr(A1 M1^T M2^T)", 0),
    ):
        check(free_trace(_expand(hierarchy, text), names) == expected, f"(917) {text}")
    for words, expected in (
        (("tr(M2 B1 M2^T)", "tr(A1 M2 M2^T)"), total * q1),
        (("tr(M2^T B1 M2^T)", "tr(A1 M2^T M2^T)"), total * q2),
    ):
        value = sum(free_trace(_expand(hierarchy, text), names) for text in words)
        check(sp.expand(value - expected) == 0, f"(918), (919) {words}")
    a1, a2 = gradient("g1", 0, 1), gradient("g2", 0, 1)
    slopes = {}
    for name, text in (("q1", "tr(M1 M2^T)"), ("q2", "tr(M1 M2)")):
        _, drift = library_drift(hierarchy, parse(text))
        slopes[name] = free_value(drift, names)
    expected = -2 * total * sp.Matrix([[q1, q2], [q2, q1]]) * sp.Matrix([a1, a2])
    check(sp.expand(slopes["q1"] - expected[0]) == 0, "(920)")
    check(sp.expand(slopes["q2"] - expected[1]) == 0, "(921)")
    # The bias does not act on a free start, nor do the student's own gradients: (922) has cross-gradients alone.
    check(all(s.free_symbols <= {a1, a2, q1, q2, *total.free_symbols} for s in slopes.values()), "(922)")

    # The moments that the library computes for Gaussian factors are those of freeness.
    law = initial_law(model, hierarchy.views)
    numbers = {symbol("t_A"): 1.0, symbol("t_B"): 0.5, q1: 1.0, q2: 0.0}
    for text in ("tr(M2 B1 M2^T)", "tr(A1 M2^T M2^T)", "tr(A1 M2 M2^T)", "tr(M1 B1 M2^T)"):
        moment = float(law.moment([str(x) for x in parse(text)]))
        found = sp.sympify(free_trace(_expand(hierarchy, text), names)).subs(numbers)
        check(abs(moment - float(found)) < 1e-12, f"the library's {text} at the start")
    return slopes


def _expand(hierarchy: aim.hierarchy.MomentHierarchy, text: str) -> Product:

    return of_library(hierarchy.views.expand(hierarchy.views.parse(text)))


def overlap_symbols() -> tuple[list[sp.Symbol], sp.Matrix, sp.Matrix]:
    q1, q2 = (sp.Matrix(2, 2, lambda k, l, n=n: symbol(f"{n}_{min(k, l) + 1}{max(k, l) + 1}")) for n in ("q1", "q2"))
    return [symbol("m_1"), symbol("m_2")], q1, q2


UNCORRELATED = {symbol("q1_12"): 0, symbol("q2_12"): 0}


def cross_gradients() -> dict[str, sp.Expr]:
    """(48): each cross-gradient is -E[sigma'(Z_1)] E[sigma'(Z_2)]/2 in the convention of ordered pairs.

    The derivative by the shared variable q_12, in which (48) is written, is twice that.
    """
    mean, q1, q2 = overlap_symbols()
    x = symbol("x")
    result = {}
    for name, activation in (
        ("linear", x),
        ("hermite2", (x**2 - 1) / sp.sqrt(2)),
        ("hermite3", (x**3 - 3 * x) / sp.sqrt(6)),
    ):
        value = potential(MeanSquaredError(name), 1).symbolic_value(mean, q1, q2)
        slope = sp.Poly(sp.diff(activation, x), x)
        expectations = []
        for k in range(2):
            variance = q1[k, k] + q2[k, k]
            # Moments of N(m, v) to the second: 1, m, m^2 + v.
            moments = (1, mean[k], mean[k] ** 2 + variance)
            expectations.append(sum(c * moments[power] for (power,), c in slope.terms()))
        product = sp.expand(expectations[0] * expectations[1])
        for q in (q1, q2):
            by_pairs = sp.expand(gradient_by_pairs(value, q)[0, 1].subs(UNCORRELATED))
            shared = sp.expand(sp.diff(value, q[0, 1]).subs(UNCORRELATED))
            check(sp.expand(by_pairs + product / 2) == 0, f"the cross-gradient of {name}")
            check(sp.expand(shared + product) == 0, f"(48) for {name}")
        result[name] = sp.factor(-product / 2)
    return result


def direct_velocity() -> None:
    """Corollary 7: dp+-_12/dt = -2 g+- a+- at t_1 = p_12 = 0, from the library's equations of Omega_12, Psi_12, t_1."""
    hierarchy = aim.derive(aim.models.load("direct-hermite2"), 2)
    views = hierarchy.views
    g_plus = gradient("g1", 0, 1) + gradient("g2", 0, 1)
    g_minus = gradient("g1", 0, 1) - gradient("g2", 0, 1)
    t2, omega, psi = symbol("t_2"), symbol("Omega_22"), symbol("Psi_22")
    # On the manifold tr S_1 = 0, Omega_12 = Psi_12 = 0; what remains is the teacher.
    values = {_key(views, text): number for text, number in (
        ("tr(S1)", 0), ("tr(S1 S2^T)", 0), ("tr(S1 S2)", 0),
        ("tr(S2)", t2), ("tr(S2 S2^T)", omega), ("tr(S2 S2)", psi),
    )}  # fmt: skip

    def slope(text: str) -> sp.Expr:
        _, drift = library_drift(hierarchy, views.parse(text))
        return sp.expand(sum(value * values[word] for word, value in drift.items()))

    rate = {name: slope(text) - t2 * slope("tr(S1)") for name, text in (("O", "tr(S1 S2^T)"), ("P", "tr(S1 S2)"))}
    a_plus = (omega + psi) / 2 - t2**2
    a_minus = (omega - psi) / 2
    check(sp.expand((rate["O"] + rate["P"]) / 2 + 2 * g_plus * a_plus) == 0, "the symmetric channel")
    check(sp.expand((rate["O"] - rate["P"]) / 2 + 2 * g_minus * a_minus) == 0, "the skew channel")
    # t_1 moves by -2 g+ t_2 alone: with the cross-gradients zero the manifold is invariant, not only at the start.
    check(sp.expand(slope("tr(S1)") + 2 * g_plus * t2) == 0, "the trace of the student")


def _key(views: aim.hierarchy.Views, text: str) -> Product:

    return canonical(of_library(views.expand(views.parse(text))))


def trapping() -> None:
    """Without cross-gradients no teacher letter enters a word that had none: every mixed trace keeps its free value.

    In a word of a free state the drift of the student's block is again a polynomial in the student, so that freeness
    is kept; here it is seen on q_12, whose velocity vanishes with g_12 at every free state, whatever beta and g_11.
    """
    hierarchy = aim.derive(aim.models.load("untied-hermite2"), 3)
    names = symbols_of_the_start()
    none = {gradient(n, 0, 1): 0 for n in ("g1", "g2")}
    for word in hierarchy.words:
        mine, drift = library_drift(hierarchy, word)
        if {name in STUDENT for name, _ in mine} == {True}:
            kept = {target for target, value in drift.items() if value.subs(none) != 0}
            check(all(name in STUDENT for target in kept for name, _ in target), f"tr({word}) stays a student's word")
    for text in ("tr(M1 M2)", "tr(M1 M2^T)"):
        _, drift = library_drift(hierarchy, hierarchy.views.parse(text))
        check(free_value(drift, names).subs(none) == 0, f"{text} stays zero")


def verdicts() -> tuple[sp.Expr, float]:
    """h_2: with an even teacher m* = 0 or not, the teacher factor sqrt(2) m_2 is zero; a shift of m_2 frees both."""
    mean, q1, q2 = overlap_symbols()
    value = potential(MeanSquaredError("hermite2"), 1).symbolic_value(mean, q1, q2)
    v1, v2 = q1[0, 0] + q2[0, 0], q1[1, 1] + q2[1, 1]
    slope = sp.factor(sp.diff(value, mean[0]).subs(UNCORRELATED))
    square = mean[1] ** 2 + v2 - 3 * v1
    check(sp.expand(slope - mean[0] * (mean[0] ** 2 - square)) == 0, "the critical means of h_2")
    curvature = sp.expand(sp.diff(value, mean[0], 2).subs(UNCORRELATED))
    check(sp.expand(curvature.subs(mean[0], 0) + square) == 0, "m = 0 attracts while 3 v_1 > v_2 + m_2^2")
    check(sp.expand(curvature - (3 * mean[0] ** 2 - square)) == 0, "and +-m* where it does not")

    model = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="hermite2",
        parameterization="untied",
        student=aim.GaussianFactors(width=1, left=1, right="1/2"),
        teacher=aim.Ginibre(variance=1, mean=1),
    )
    free = aim.recovery(model, follow=False)
    # t^A + t^B = 3/2, m* = sqrt(1/2), g_12 = -(sqrt 2 m*)(sqrt 2)/2: velocity 2 (3/2) sqrt(1/2) = 3/sqrt 2.
    check(abs(free.velocity - 3 / np.sqrt(2)) < 1e-8 and free.recovers, "a mean shift frees h_2")
    stalled = aim.recovery(aim.models.load("untied-hermite2"), follow=False)
    check(stalled.velocity == 0 and stalled.vanishing.verdict == "proved", "an even teacher stalls h_2")
    for name in ("direct-hermite2", "direct-hermite3"):
        report = aim.recovery(aim.models.load(name), follow=False)
        check(not report.recovers and report.vanishing.verdict == "proved", f"{name} is trapped")
    linear = aim.recovery(aim.models.load("direct-linear"), follow=False)
    # g+ = -1, g- = 0, a+ = a- = 1/2: p_Omega and p_Psi both start with 2 x 1/2.
    check(abs(linear.channels["plus"] - 1) < 1e-10 and abs(linear.channels["minus"]) < 1e-10, "direct, linear")
    return square, free.velocity


def derive() -> Derivation:
    """The steps, each asserted."""
    slopes = untied_velocity()
    crosses = cross_gradients()
    direct_velocity()
    trapping()
    square, _ = verdicts()
    check(len(slopes) == 2, "both overlaps")

    def readable(expression: sp.Expr) -> str:
        names = {
            s: sp.Symbol(f"q^{{({s.name[1]})}}_{{{s.name[3:]}}}") for s in expression.free_symbols if s.name[0] == "q"
        }
        return sp.latex(expression.xreplace(names))

    a1, a2 = r"a^{(1)}_{12}", r"a^{(2)}_{12}"
    return Derivation(
        "Weak recovery of untied and of direct attention",
        (
            Step(
                "Untied, one student and a fixed teacher, $a^{(r)}_{kl} = [\\nabla_{q^{(r)}}\\Phi]_{kl}$ at "
                "$m^\\star$. The equation (916) of $q^{(1)}_{12} = \\operatorname{tr}(M_1M_2^\\top)$ is that of the "
                "library's hierarchy:",
                r"\frac{dq^{(1)}_{12}}{d\tau} = -\beta_1\operatorname{tr}\big((A_1+B_1)M_2^\top\big)"
                r" - 2\sum_{l,r}a^{(r)}_{1l}\operatorname{tr}\big((M_l^{(r)}B_1 + A_1M_l^{(r)})M_2^\top\big)"
                r" - 2\gamma q^{(1)}_{12}",
            ),
            Step(
                "At the start the two algebras are free, so one block of each gives a product of traces, and "
                "$\\operatorname{tr}M_2 = m_2/\\sqrt d \\to 0$: the bias and the student's own terms vanish, (917), "
                "and with $D_1 = t^A_1 + t^B_1$ the teacher's terms are (918)-(919).",
                r"\operatorname{tr}\big((M_2B_1 + A_1M_2)M_2^\top\big) = D_1\,q^{(1)}_{22},\qquad "
                r"\operatorname{tr}\big((M_2^\top B_1 + A_1M_2^\top)M_2^\top\big) = D_1\,q^{(2)}_{22}",
            ),
            Step(
                "So both overlaps leave zero with (920)-(922), which is (42).",
                r"\frac{d}{d\tau}\begin{pmatrix} q^{(1)}_{12} \\ q^{(2)}_{12} \end{pmatrix}\bigg|_0 = -2D_1"
                r"\begin{pmatrix} q^{(1)}_{22} & q^{(2)}_{22} \\ q^{(2)}_{22} & q^{(1)}_{22} \end{pmatrix}"
                rf"\begin{{pmatrix}} {a1} \\ {a2} \end{{pmatrix}}",
            ),
            Step(
                "For $L = 1$ and the squared error the forms are independent at $q_{12} = 0$. The derivative by the "
                "shared variable is (48), and an entry of the gradient, which (42) takes, half of it:",
                r"a^{(r)}_{12} = \frac12\frac{\partial\Phi}{\partial q^{(r)}_{12}} = "
                r"-\frac12\,E[\sigma'(Z_1)]\,E[\sigma_\star'(Z_2)],\qquad "
                r"Z_k \sim \mathcal N\big(m_k,\; q^{(1)}_{kk} + q^{(2)}_{kk}\big)",
            ),
            *(
                Step(f"For $h_{n}$ it is", rf"a^{{(r)}}_{{12}} = {readable(crosses[name])}")
                for n, name in ((2, "hermite2"), (3, "hermite3"))
            ),
            Step(
                "Where the cross-gradients vanish at every free state, no teacher letter enters a word of the student "
                "(checked on all words up to degree 3): freeness persists, $q_{12}$ stays zero, and nothing is "
                "recovered on this scale. For $h_2$ the teacher's factor is $\\sqrt2\\,m_2$; the student's is "
                "$\\sqrt2\\,m^\\star_1$, and the fast mean makes it nonzero where $m_1 = 0$ does not attract:",
                rf"m_1^{{\star\,2}} = {readable(square)} > 0",
            ),
            Step(
                "Direct optimization at $t_1 = \\Omega_{12} = \\Psi_{12} = 0$: the library's equations (derivation 6) "
                "give one velocity a channel, $a_\\pm$ the strengths of the teacher's traceless symmetric and skew "
                "parts (Corollary 7).",
                r"\frac{dp^\pm_{12}}{dt}\bigg|_0 = -2g_\pm a_\pm,\qquad "
                r"g_\pm = [\nabla_\Omega\Phi]_{12} \pm [\nabla_\Psi\Phi]_{12},\qquad "
                r"\frac{dt_1}{dt}\bigg|_0 = -2g_+t_2",
            ),
            Step(
                "For $L = 1$ centred forms have $m = 0$, so that $h_2$ and $h_3$, with $E\\,h_n'(Z) = 0$ at unit "
                "variance for $n = 3$ and at every variance for $n = 2$, leave both cross-gradients zero; for $h_3$ "
                "the teacher's factor is what vanishes, and it stays so.",
                r"E\,h_2'(Z) = 0,\qquad E\,h_3'(Z) = \tfrac{3}{\sqrt6}\,(v - 1),\qquad Z\sim\mathcal N(0, v)",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
