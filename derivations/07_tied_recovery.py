"""7. Tied attention escapes an uninformative start (Corollary 3, (349)-(358) of [D], arXiv:2609.03858).

Result. The overlap of the traceless parts, p_12 = q_12 - t_1 t_2, of a student and a fixed teacher follows

    dp_12/dt = -2 g_11 (c_112 + 2 t_1 p_12) - 2 g_12 (c_122 + t_2 p_12 + t_1 p_22) - (gamma/2) p_12

with c the centred moments, and leaves p_12 = 0 with velocity -2 g_12 t_1 p_22. The equations of q_12 and t_1 are taken
from the library's hierarchy; the centring is done here, on letters that do not commute.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main
from trace_words import Polynomial, along, canonical, gradient, plus, product, symbol, times, trace

import aimtheory as aim
from aimtheory.hierarchy.latex import equation_latex
from aimtheory.model import tied
from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential

GAMMA = symbol("gamma")
S1: Polynomial = {(("S1", "="),): sp.S.One}
S2: Polynomial = {(("S2", "="),): sp.S.One}


def moment(*indices: int) -> sp.Expr:
    """mu_(k1 ... kw) as a symbol named by its canonical word."""
    word = canonical(tuple((f"S{k}", "=") for k in indices))
    return symbol("mu_" + "".join(name[1] for name, _ in word))


def number(term: Polynomial) -> sp.Expr:
    """A combination of traces as an expression in the symbols mu; the empty word is tr 1 = 1."""
    return sp.Add(*(v * (moment(*(int(n[1]) for n, _ in w)) if w else 1) for w, v in trace(term).items()))


def equations() -> dict[str, sp.Expr]:
    """dq_12/dt and dt_1/dt from the library, weight decay a symbol, in the symbols mu and g."""
    law = aim.Wishart(width=1, trace=1)
    model = aim.AttentionModel.of(
        tied(1, law),
        tied(2, law, trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
        weight_decay=GAMMA,
    )
    hierarchy = aim.derive(model, 2)
    result = {}
    for name, text in (("q_12", "tr(S1 S2)"), ("t_1", "tr(S1)")):
        total = sp.S.Zero
        for (coupling, target), value in hierarchy.drift(text).items():
            indices = [int(letter.name[1:]) for letter in target]
            total += sp.Rational(value.numerator, value.denominator) * coupling.symbol * moment(*indices)
        result[name] = total
    return result


def own_equations() -> dict[str, sp.Expr]:
    """The same from dS_1/dt = -(H S_1 + S_1 H) - (gamma/2) S_1, H = g_11 S_1 + g_12 S_2 (derivation 3)."""
    H = plus(times(gradient("g", 0, 0), S1), times(gradient("g", 0, 1), S2))
    flow = {"S1": plus(times(-1, product(H, S1)), times(-1, product(S1, H)), times(-GAMMA / 2, S1))}
    return {name: number(along(term, flow)) for name, term in (("q_12", product(S1, S2)), ("t_1", S1))}


def centred(*indices: int) -> sp.Expr:
    """tr of the product of S_k - t_k 1."""
    letters = {1: S1, 2: S2}
    factors = [plus(letters[k], times(-moment(k), {(): sp.S.One})) for k in indices]
    return sp.expand(number(product(*factors)))


def centring() -> None:
    """(354) and (355), and p_kl = q_kl - t_k t_l, as identities between moments."""
    t1, t2 = moment(1), moment(2)
    p = {(k, l): centred(k, l) for k, l in ((1, 1), (1, 2), (2, 2))}
    check(sp.expand(p[1, 2] - (moment(1, 2) - t1 * t2)) == 0, "(349)")
    first = moment(1, 1, 2) - t2 * moment(1, 1) - (centred(1, 1, 2) + 2 * t1 * p[1, 2])
    second = moment(1, 2, 2) - t2 * moment(1, 2) - (centred(1, 2, 2) + t2 * p[1, 2] + t1 * p[2, 2])
    check(sp.expand(first) == 0, "(354)")
    check(sp.expand(second) == 0, "(355)")


def velocity_in_the_library() -> str:
    """(17) with numbers: the recovery report against the gradient, for an activation without a polynomial."""
    law = aim.Wishart(width="1/2", trace="3/2")
    model = aim.AttentionModel.teacher_student(
        tokens=2, activation="softmax", parameterization="tied", student=aim.Wishart(width=1, trace=1), teacher=law
    )
    # q_11 = 2, q_12 = 3/2, tr S_2^2 = (3/2)^2 (1 + 1/width) = 27/4, p_22 = 9/2.
    slope, _ = potential(model.loss, 2).tied_gradient(np.array([[2, 1.5], [1.5, 6.75]]))
    report = aim.recovery(model, follow=False)
    check(abs(report.velocity + 2 * slope[0, 1] * 4.5) < 1e-8, "the library's velocity is (17)")
    check(report.recovers and report.samples == "N = T d/(4 alpha_d)", "the library's verdict")
    return f"{report.velocity:.4f}"


def contraction() -> None:
    """(392)-(394): for (G_1 - G_2)^2, Phi = 2 tr X^2 and -dPhi/dt = 16 tr S_1 X^2, X = S_1 - S_2: c = 4 c_0."""
    hierarchy = aim.derive(aim.models.load("exact-linear"), 2)
    constants = {gradient("g", 0, 0): 2, gradient("g", 0, 1): -2}
    slope = sp.S.Zero
    for text, weight in (("tr(S1 S1)", 2), ("tr(S1 S2)", -4)):
        for (coupling, target), value in hierarchy.drift(text).items():
            indices = [int(letter.name[1:]) for letter in target]
            slope += weight * sp.Rational(value.numerator, value.denominator) * coupling.symbol * moment(*indices)
    X = plus(S1, times(-1, S2))
    check(sp.expand(slope.subs(constants) + 16 * number(product(S1, X, X))) == 0, "dPhi/dt = -16 tr S_1 X^2")


def derive() -> Derivation:
    """The steps, each asserted."""
    found = equations()
    for name, mine in own_equations().items():
        check(sp.expand(found[name] - mine) == 0, f"the equation of {name}")
    g11, g12 = gradient("g", 0, 0), gradient("g", 0, 1)
    t1, t2, q12 = moment(1), moment(2), moment(1, 2)
    by_hand = {
        "q_12": -2 * g11 * moment(1, 1, 2) - 2 * g12 * moment(1, 2, 2) - GAMMA / 2 * q12,
        "t_1": -2 * g11 * moment(1, 1) - 2 * g12 * q12 - GAMMA / 2 * t1,
    }
    for name, formula in by_hand.items():
        check(sp.expand(found[name] - formula) == 0, "(350), (351)")
    centring()
    p12, p22 = centred(1, 2), centred(2, 2)
    slope = sp.expand(found["q_12"] - t2 * found["t_1"])
    closed = (
        -2 * g11 * (centred(1, 1, 2) + 2 * t1 * p12)
        - 2 * g12 * (centred(1, 2, 2) + t2 * p12 + t1 * p22)
        - GAMMA / 2 * p12
    )
    check(sp.expand(slope - closed) == 0, "(356)")
    # The uninformative manifold: p_12 = 0 and both centred third moments zero fix three moments.
    unknowns = [moment(1, 2), moment(1, 1, 2), moment(1, 2, 2)]
    (start,) = sp.solve([p12, centred(1, 1, 2), centred(1, 2, 2)], unknowns, dict=True)
    check(sp.expand(slope.subs(start) + 2 * g12 * t1 * (moment(2, 2) - t2**2)) == 0, "(358)")
    number_shown = velocity_in_the_library()
    contraction()
    left, right = equation_latex(aim.derive(aim.models.load("tied-linear"), 2), _word("tr(S1 S2)"))
    ring = r"\mathring\mu"
    return Derivation(
        "Tied attention escapes an uninformative start",
        (
            Step("For one student and a fixed teacher the library's hierarchy gives (350),", f"{left} = {right}"),
            Step(
                "and (351); weight decay adds $-\\tfrac\\gamma2$ times the moment to each.",
                r"\frac{dt_1}{dt} = -2[\nabla\Phi]_{11}\,q_{11} - 2[\nabla\Phi]_{12}\,q_{12} - \frac\gamma2 t_1",
            ),
            Step(
                "Alignment is the overlap of the traceless parts $\\mathring S_k = S_k - t_k$. On letters that do not "
                "commute, with $\\mathring\\mu$ the moments of $\\mathring S$, (354) and (355):",
                rf"\mu_{{112}} - t_2 q_{{11}} = {ring}_{{112}} + 2t_1p_{{12}},\qquad "
                rf"\mu_{{122}} - t_2 q_{{12}} = {ring}_{{122}} + t_2p_{{12}} + t_1p_{{22}}",
            ),
            Step(
                "so that $\\dot p_{12} = \\dot q_{12} - t_2\\dot t_1$ is (356):",
                rf"\frac{{dp_{{12}}}}{{dt}} = -2[\nabla\Phi]_{{11}}\big({ring}_{{112}} + 2t_1p_{{12}}\big)"
                rf" - 2[\nabla\Phi]_{{12}}\big({ring}_{{122}} + t_2p_{{12}} + t_1p_{{22}}\big)"
                r" - \frac\gamma2 p_{12}",
            ),
            Step(
                "At an uninformative start, $p_{12} = \\mathring\\mu_{112} = \\mathring\\mu_{122} = 0$, one term is "
                "left, (358): the trace $t_1 > 0$ of a positive matrix couples the student to the teacher.",
                r"\frac{dp_{12}}{dt}\bigg|_0 = -2\,[\nabla\Phi(q(0))]_{12}\,t_1(0)\,p_{22}",
            ),
            Step(
                "For a softmax of two tokens, a student of unit trace and width 1 and a teacher of trace $3/2$ and "
                f"width $1/2$, this is ${number_shown}$, as the library reports. A threshold $|p_{{12}}| \\ge c$ is "
                "reached at a time $T(c)$ of order one, after",
                r"N = \frac{T d}{4\alpha_d} = \Theta(d^2\log d),\qquad \alpha_d = \Theta\Big(\frac{1}{d\log d}\Big)",
            ),
            Step(
                "Past recovery, for the loss $(G_1-G_2)^2$ of (392), the library's hierarchy dissipates through "
                "$X = S_1 - S_2$ weighted by $S_1$, so that $S_1 \\succeq c_0$ makes the loss contract at rate "
                "$2c = 8c_0$.",
                r"\Phi = 2\operatorname{tr}X^2,\qquad -\frac{d\Phi}{dt} = 16\operatorname{tr}(S_1X^2)"
                r" \ge 8c_0\,\Phi",
            ),
        ),
    )


def _word(text: str) -> object:
    return aim.derive(aim.models.load("tied-linear"), 2).views.parse(text)


if __name__ == "__main__":
    main(derive)
