"""5. From one SGD step on untied attention, [D] (25), to its fast-slow limit, [D] (27)-(32) (arXiv:2609.03858).

Result. S_k = U_k V_k^T = M_k with forms that are not centred. In the time n alpha_d the means relax at frozen moments,

    dm_k/dt = -(t^A_k + t^B_k) dPhi/dm_k,

and in tau = n alpha_d/d they are slaved to m*(q), while what is left of the gradient by the mean is a bias
beta_k = -psi_k/(t^A_k + t^B_k) in the flow of the moments. The derivation goes over U and V entry by entry; the
library's hierarchy, made from cyclic derivatives, is held to it word by word.
"""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main
from trace_words import (
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
from aimtheory.dynamics.fast_mean import FastMean
from aimtheory.hierarchy.latex import equation_latex
from aimtheory.model import direct, untied
from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential

TRAINED = (0, 1)
INDICES = 3
"""Indices 0 and 1 are trained, index 2 is a teacher."""

GAMMA = symbol("gamma")
DIM = sp.Symbol("d", positive=True)


def law_of_forms(dim: int, tokens: int) -> None:
    """E x_i^T M x_j = C_ij Tr M and Cov = C_ii' C_jj' Tr M R^T + C_ij' C_ji' Tr M R, by Isserlis, any C and exactly."""
    M, R = (sp.Matrix(dim, dim, lambda a, b, n=n: symbol(f"{n}_{a}{b}")) for n in "mr")
    C = sp.Matrix(tokens, tokens, lambda i, j: symbol(f"C_{min(i, j)}{max(i, j)}"))
    for i, j, k, l in itertools.product(range(tokens), repeat=4):
        covariance = sp.S.Zero
        for a, b, c, e in itertools.product(range(dim), repeat=4):
            # E x_ia x_jb x_kc x_le without the pairing (i, j)(k, l), which is the product of the means.
            pairings = C[i, k] * C[j, l] * int(a == c and b == e) + C[i, l] * C[j, k] * int(a == e and b == c)
            covariance += M[a, b] * R[c, e] * pairings
        expected = C[i, k] * C[j, l] * (M * R.T).trace() + C[i, l] * C[j, k] * (M * R).trace()
        check(sp.expand(covariance - expected) == 0, "the covariance of two forms")


def chain_rule(dim: int, widths: tuple[int, ...]) -> None:
    """d x (gradient of Phi by U_k) = sqrt(d) b_k V_k + 2 sum_lr g^r_kl M_l^(r) V_k, and the same for V_k with r barred.

    Phi enters through its differential alone, so it may be taken linear in m, q1 and q2, with coefficients b and g.
    """
    U, V = (
        [sp.Matrix(dim, w, lambda i, j, k=k, n=n: symbol(f"{n}{k}_{i}{j}")) for k, w in enumerate(widths)] for n in "uv"
    )
    M = [u * v.T for u, v in zip(U, V, strict=True)]
    indices = range(len(widths))
    b = [symbol(f"b_{k + 1}") for k in indices]
    phi = sum(b[k] * M[k].trace() / sp.sqrt(dim) for k in indices)
    for k, l in itertools.product(indices, repeat=2):
        phi += gradient("g1", k, l) * (M[k] * M[l].T).trace() / dim + gradient("g2", k, l) * (M[k] * M[l]).trace() / dim
    for k in indices:
        for factor, other, turned in ((U[k], V[k], False), (V[k], U[k], True)):
            by_entry = factor.applyfunc(lambda entry: dim * sp.diff(phi, entry))
            rule = sp.sqrt(dim) * b[k] * other
            for l in indices:
                first, second = (M[l].T, M[l]) if turned else (M[l], M[l].T)
                rule += 2 * (gradient("g1", k, l) * first + gradient("g2", k, l) * second) * other
            check((by_entry - rule).applyfunc(sp.expand).is_zero_matrix is True, "the gradient by a factor")


def attention(k: int) -> Polynomial:
    """M_k in parameters."""
    return product(matrix(f"U{k + 1}"), transpose(matrix(f"V{k + 1}"))) if k in TRAINED else matrix(f"M{k + 1}")


def square(name: str) -> Polynomial:
    return product(matrix(name), transpose(matrix(name)))


def pull(k: int) -> Polynomial:
    """sum_lr g^r_kl M_l^(r)."""
    terms = []
    for l in range(INDICES):
        terms += [times(gradient("g1", k, l), attention(l)), times(gradient("g2", k, l), transpose(attention(l)))]
    return plus(*terms)


def velocity(scalars: dict[int, sp.Expr], decay: sp.Expr) -> dict[str, Polynomial]:
    """U' = -(s V + 2 H V + decay U), V' = -(s U + 2 H^T U + decay V), H = sum g^r M^(r); (M^(r))^T = M^(r barred)."""
    flow = {}
    for k in TRAINED:
        U, V = matrix(f"U{k + 1}"), matrix(f"V{k + 1}")
        for own, other, side in ((U, V, pull(k)), (V, U, transpose(pull(k)))):
            (name,) = own
            flow[name[0][0]] = times(
                -1, plus(times(scalars[k], other), times(2, product(side, other)), times(decay, own))
            )
    return flow


def psi(k: int) -> Polynomial:
    """(27): 2 sum_lr g^r_kl [tr(M_l^(r) B_k) + tr(A_k M_l^(r))]."""
    A, B = square(f"U{k + 1}"), square(f"V{k + 1}")
    return trace(times(2, plus(product(pull(k), B), product(A, pull(k)))))


def mean_step() -> None:
    """One step moves m_k = sqrt(d) tr M_k by -alpha [(t^A + t^B) b_k + psi_k/sqrt(d)]; alpha = 1 and no decay here."""
    slopes = {k: symbol(f"b_{k + 1}") for k in TRAINED}
    # The step is -grad = -(1/d)(sqrt(d) b V + 2 H V): velocity with the scalar sqrt(d) b, over d.
    flow = velocity({k: sp.sqrt(DIM) * slopes[k] for k in TRAINED}, sp.S.Zero)
    for k in TRAINED:
        change = times(sp.sqrt(DIM) / DIM, trace(along(attention(k), flow)))
        speed = trace(plus(square(f"U{k + 1}"), square(f"V{k + 1}")))
        expected = times(-1, plus(times(slopes[k], speed), times(1 / sp.sqrt(DIM), psi(k))))
        check(plus(change, times(-1, expected)) == {}, "the change of the mean in one step")


def boundary_layer() -> tuple[sp.Expr, sp.Expr]:
    """The slow equation of m = m* + x/sqrt(d): x settles where sqrt(d) b = -psi/(t^A + t^B). Returns x and beta."""
    speed, curvature, drive, x = sp.symbols("D Phi'' psi x", real=True)
    # dm/dtau = -d [D b + psi/sqrt(d)] with b = Phi'' x/sqrt(d) + O(1/d): dx/dtau = -d [D Phi'' x + psi].
    rest = sp.solve(speed * curvature * x + drive, x)[0]
    bias = curvature * rest
    check(sp.simplify(bias + drive / speed) == 0, "the bias (30)")
    return rest, bias


def fast_phase() -> tuple[sp.Expr, sp.Expr]:
    """(28) for a linear loss is solved exactly; for h_2 its critical points are those of the library."""
    t, start, target = sp.symbols("t m_0 m_2", real=True)
    speed = sp.Symbol("D", positive=True)
    linear = potential(MeanSquaredError("linear"), 1)
    m1, m2 = symbol("m_1"), symbol("m_2")
    slope = sp.diff(linear.symbolic_value(), m1)
    check(sp.expand(slope - (m1 - m2)) == 0, "the slope of the linear loss by the mean")
    solution = target + (start - target) * sp.exp(-speed * t)
    flow = sp.diff(solution, t) + speed * slope.subs({m1: solution, m2: target})
    check(sp.simplify(flow) == 0, "the mean relaxes exponentially")

    quadratic = potential(MeanSquaredError("hermite2"), 1)
    q1, q2 = (sp.Matrix(2, 2, lambda k, l, n=n: symbol(f"{n}_{min(k, l) + 1}{max(k, l) + 1}")) for n in ("q1", "q2"))
    v1, v2, c = q1[0, 0] + q2[0, 0], q1[1, 1] + q2[1, 1], q1[0, 1] + q2[0, 1]
    by_hand = m1**3 + m1 * (3 * v1 - v2 - m2**2) - 2 * m2 * c
    found = sp.diff(quadratic.symbolic_value(), m1)
    check(sp.expand(found - by_hand) == 0, "the slope of the h_2 loss by the mean")
    # At q_12 = 0, v_1 = 1/2 and v_2 = m_2 = 1 the points are 0 and +-1/sqrt(2); the flow from m_1 = 0.1 goes up.
    fast = FastMean(quadratic, np.array([True, False]), np.array([0.1, 1.0]))
    end = fast.relax(np.diag([0.5, 1.0]), np.zeros((2, 2)), np.array([1.5, np.inf]))
    check(abs(end.branch.mean[0] - np.sqrt(0.5)) < 1e-8 and end.curvature > 0, "the library's fast flow ends at m*")
    return solution, by_hand


def table(k: int) -> dict[str, tuple[Polynomial, Polynomial]]:
    """(31) as it stands: what beta_k and what 2 g^r_kl multiply, for M, M^T, A, B; the second summed over l and r."""
    M, A, B = attention(k), square(f"U{k + 1}"), square(f"V{k + 1}")
    Mt, H = transpose(M), pull(k)
    Ht = transpose(H)
    return {
        "M": (plus(A, B), plus(product(H, B), product(A, H))),
        "M^T": (plus(A, B), plus(product(B, Ht), product(Ht, A))),
        "A": (plus(M, Mt), plus(product(H, Mt), product(M, Ht))),
        "B": (plus(M, Mt), plus(product(Ht, M), product(Mt, H))),
    }


def letters(k: int) -> dict[str, Polynomial]:
    M = attention(k)
    return {"M": M, "M^T": transpose(M), "A": square(f"U{k + 1}"), "B": square(f"V{k + 1}")}


def model() -> aim.AttentionModel:
    """Two trained untied matrices and one teacher, weight decay a symbol, forms with a mean."""
    factors, teacher = aim.GaussianFactors(width=1, left=1, right="1/2"), aim.Ginibre(variance=1)
    return aim.AttentionModel.of(
        *(untied(k + 1, factors) for k in TRAINED),
        direct(3, teacher, name="M", trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=TRAINED, teachers=(2,)),
        weight_decay=GAMMA,
        centred=False,
    )


def derive(degree: int = 3) -> Derivation:
    """Derive (27)-(32) and hold the library's hierarchy to them, word by word up to ``degree``."""
    law_of_forms(2, 2)
    chain_rule(2, (1, 2))
    mean_step()
    boundary_layer()
    relaxation, quadratic_slope = fast_phase()

    biases = {k: symbol(f"beta_{k + 1}") for k in TRAINED}
    flow = velocity(biases, GAMMA)
    for k in TRAINED:
        for name, letter in letters(k).items():
            biased, pulled = table(k)[name]
            expected = times(-1, plus(times(biases[k], biased), times(2, pulled), times(2 * GAMMA, letter)))
            check(plus(along(letter, flow), times(-1, expected)) == {}, f"the substitution of {name} in (31)")

    hierarchy = aim.derive(model(), degree)
    for word in hierarchy.words:
        mine_word, theirs = library_drift(hierarchy, word)
        check(trace(along({mine_word: sp.S.One}, flow)) == theirs, f"the drift of tr({word})")
    for k in TRAINED:
        # (30) out of the library: the bias that keeps tr M_k, and with it the mean, from growing; tr M = O(d^-1/2).
        _, drift = library_drift(hierarchy, hierarchy.views.parse(f"tr(M{k + 1})"))
        still = plus(drift, times(2 * GAMMA, trace(attention(k))))
        speed = trace(plus(square(f"U{k + 1}"), square(f"V{k + 1}")))
        check(plus(still, times(biases[k], speed), psi(k)) == {}, "d tr(M)/dtau = -beta (t^A + t^B) - psi")

    short = aim.derive(aim.models.load("untied-linear"), 2)
    left, right = equation_latex(short, short.views.parse("tr(A1)"))
    overlaps = [x for x in quadratic_slope.free_symbols if x.name[0] == "q"]
    shown = {x: sp.Symbol(f"q^{{({x.name[1]})}}_{{{x.name[3:]}}}") for x in overlaps}
    sum_lr = r"\sum_{l,r} [\nabla_{q^{(r)}}\Phi]_{kl}"
    return Derivation(
        "The fast-slow limit of untied attention from one step of stochastic gradient descent",
        (
            Step(
                "One step of online SGD, [D] (25), on $M_k = U_k V_k^\\top$; the same for $V_k$.",
                r"U_k^{(n+1)} = U_k^{(n)} - \alpha_d \nabla_{U_k} \mathcal{L}(G) - \frac{\alpha_d \gamma}{d} U_k^{(n)},"
                r"\qquad G_{ijk} = \frac{1}{\sqrt d}\, x_i^\top U_k V_k^\top x_j",
            ),
            Step(
                "The forms have a mean of order one; by Isserlis' theorem, at any $d$ and $C$ (verified on matrices of "
                "symbols), with $q^{(1)}_{kl} = \\operatorname{tr}(M_k M_l^\\top)$ and "
                "$q^{(2)}_{kl} = \\operatorname{tr}(M_k M_l)$:",
                r"E\,G_{ijk} = C_{ij} m_k,\quad m_k = \frac{\operatorname{Tr} M_k}{\sqrt d},\qquad "
                r"\operatorname{Cov}(G_{ijk}, G_{i'j'l}) = C_{ii'} C_{jj'} q^{(1)}_{kl} + C_{ij'} C_{ji'} q^{(2)}_{kl}",
            ),
            Step(
                "By the chain rule, entry by entry, with $M^{(1)} = M$, $M^{(2)} = M^\\top$; the first term is larger "
                "than the second by $\\sqrt d$.",
                r"d\,\nabla_{U_k}\Phi = \sqrt d\,\frac{\partial\Phi}{\partial m_k} V_k + 2 "
                + sum_lr
                + r" M_l^{(r)} V_k",
            ),
            Step(
                "So one step moves the mean by $O(\\alpha_d)$, and the moments by $O(\\alpha_d/d)$; with $t^A = "
                "\\operatorname{tr} A$, $A = UU^\\top$, $t^B = \\operatorname{tr} B$, $B = VV^\\top$, and $\\psi$ of "
                "(27):",
                r"\delta m_k = -\alpha_d\Big[(t^A_k + t^B_k)\frac{\partial\Phi}{\partial m_k} + "
                r"\frac{\psi_k}{\sqrt d}\Big],\qquad \psi_k = 2 "
                + sum_lr
                + r"\big[\operatorname{tr}(M_l^{(r)} B_k) + \operatorname{tr}(A_k M_l^{(r)})\big]",
            ),
            Step(
                "Fast phase, $t = n\\alpha_d$: the moments stand still, and the means follow the gradient flow (28) to "
                "a critical point $m^\\star(q)$, attracting where $\\Phi$ is convex in them.",
                r"\frac{dm_k}{dt} = -(t^A_k + t^B_k)\,\frac{\partial\Phi}{\partial m_k}",
            ),
            Step(
                "For the linear loss at $L = 1$ this is an exponential boundary layer, with $D = t^A_1 + t^B_1$:",
                rf"m_1(t) = {sp.latex(relaxation)}",
            ),
            Step(
                "for $h_2$ the slope is a cubic in $m_1$, with up to three critical points:",
                rf"\frac{{\partial\Phi}}{{\partial m_1}} = {sp.latex(quadratic_slope.xreplace(shown))}",
            ),
            Step(
                "Slow phase, $\\tau = n\\alpha_d/d$: around the critical point, $m = m^\\star + x/\\sqrt d$, the "
                "equation of $x$ is stiff, so that $x$ sits where its right-hand side vanishes. What is left of the "
                "slope, times $\\sqrt d$, is the bias (30); it enters the moments at order one.",
                r"\frac{dx_k}{d\tau} = -d\big[(t^A_k+t^B_k)\,\Phi'' x + \psi_k\big] + O(\sqrt d)"
                r"\quad\Longrightarrow\quad "
                r"\beta_k = \sqrt d\,\frac{\partial\Phi}{\partial m_k} \to -\frac{\psi_k}{t^A_k + t^B_k}",
            ),
            Step(
                "The factors follow a closed flow on the slow scale.",
                r"\begin{aligned} \frac{dU_k}{d\tau} &= -\Big(\beta_k V_k + 2 "
                + sum_lr
                + r" M_l^{(r)} V_k + \gamma U_k\Big) \\ \frac{dV_k}{d\tau} &= -\Big(\beta_k U_k + 2 "
                + sum_lr
                + r" M_l^{(\bar r)} U_k + \gamma V_k\Big) \end{aligned}",
            ),
            Step(
                "So every letter of a word is substituted, one after the other: (31)-(32). The library agrees for all "
                f"{len(hierarchy)} words up to degree {degree} over two trained matrices and a teacher, and its "
                "equation of $\\operatorname{tr} M_k$ vanishes at the bias (30).",
                r"\begin{aligned} \dot M_k &= -\beta_k(A_k+B_k) - 2 "
                + sum_lr
                + r"(M_l^{(r)} B_k + A_k M_l^{(r)}) - 2\gamma M_k \\ \dot A_k &= -\beta_k(M_k+M_k^\top) - 2 "
                + sum_lr
                + r"(M_l^{(r)} M_k^\top + M_k M_l^{(\bar r)}) - 2\gamma A_k \\ \dot B_k &= -\beta_k(M_k+M_k^\top) - 2 "
                + sum_lr
                + r"(M_l^{(\bar r)} M_k + M_k^\top M_l^{(r)}) - 2\gamma B_k \end{aligned}",
            ),
            Step("For one student and one teacher the shortest equation is", f"{left} = {right}"),
        ),
    )


if __name__ == "__main__":
    main(derive)
