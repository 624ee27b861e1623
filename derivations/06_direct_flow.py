"""6. Direct optimization of S closes on first and second moments (Theorem 4, (402)-(404) of [D], arXiv:2609.03858).

Result. SGD on S_k itself, forms centred, time t = n alpha_d/d:

    dS_k/dt = -2 sum_m ([grad_Omega Phi]_km S_m + [grad_Psi Phi]_km S_m^T) - gamma S_k,

with Omega_kl = tr(S_k S_l^T), Psi_kl = tr(S_k S_l). A letter is replaced by letters, so that no longer word is called.
Symmetric and skew parts decouple. The library's hierarchy is held to both the flow and the published equations.
"""

from __future__ import annotations

import itertools

import sympy as sp
from document import Derivation, Step, check, main
from trace_words import (
    Polynomial,
    along,
    canonical,
    gradient,
    library_drift,
    matrix,
    of_library,
    plus,
    product,
    symbol,
    times,
    trace,
    transpose,
)

import aimtheory as aim
from aimtheory.model import direct
from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential
from aimtheory.population.closed_forms import gradient_by_pairs

TRAINED = (0, 1)
INDICES = 3
GAMMA = symbol("gamma")


def chain_rule(dim: int) -> None:
    """d x (gradient of Phi by S_k) = 2 sum_m (gO_km S_m + gP_km S_m^T), entry by entry.

    The centred form Tr[S (x_j x_i^T - C_ij 1)]/sqrt(d) has mean zero, and the covariance of the form with a mean.
    """
    S = [sp.Matrix(dim, dim, lambda i, j, k=k: symbol(f"s{k}_{i}{j}")) for k in range(2)]
    phi = sp.S.Zero
    for k, l in itertools.product(range(2), repeat=2):
        phi += gradient("g1", k, l) * (S[k] * S[l].T).trace() / dim + gradient("g2", k, l) * (S[k] * S[l]).trace() / dim
    for k in range(2):
        by_entry = S[k].applyfunc(lambda entry: dim * sp.diff(phi, entry))
        rule = sp.zeros(dim, dim)
        for m in range(2):
            rule += 2 * (gradient("g1", k, m) * S[m] + gradient("g2", k, m) * S[m].T)
        check((by_entry - rule).applyfunc(sp.expand).is_zero_matrix is True, "the gradient by S_k")


def letter(k: int) -> Polynomial:
    return matrix(f"S{k + 1}")


def flow() -> dict[str, Polynomial]:
    """S_k' for the trained indices; g1 stands for the gradient by Omega, g2 for the one by Psi."""
    result = {}
    for k in TRAINED:
        pulls = [times(-GAMMA, letter(k))]
        for m in range(INDICES):
            pulls += [
                times(-2 * gradient("g1", k, m), letter(m)),
                times(-2 * gradient("g2", k, m), transpose(letter(m))),
            ]
        result[f"S{k + 1}"] = plus(*pulls)
    return result


def order_parameter(kind: str, k: int, l: int = 0) -> Polynomial:
    """t_k, Omega_kl or Psi_kl as a trace."""
    if kind == "t":
        return trace(letter(k))
    return trace(product(letter(k), transpose(letter(l)) if kind == "Omega" else letter(l)))


def published(kind: str, k: int, l: int = 0) -> Polynomial:
    """The right-hand sides of (402)-(404) as they stand, chi_k = 1 for trained indices and 0 for the teacher."""
    chi = [sp.Integer(int(n in TRAINED)) for n in range(INDICES)]
    terms: list[Polynomial] = []
    if kind == "t":
        for m in range(INDICES):
            total = gradient("g1", k, m) + gradient("g2", k, m)
            terms.append(times(-2 * chi[k] * total, order_parameter("t", m)))
        return plus(*terms, times(-GAMMA * chi[k], order_parameter("t", k)))
    other = "Omega" if kind == "Psi" else "Psi"
    for m in range(INDICES):
        terms += [
            times(-2 * chi[k] * gradient("g1", k, m), order_parameter(kind, m, l)),
            times(-2 * chi[k] * gradient("g2", k, m), order_parameter(other, m, l)),
            times(-2 * chi[l] * gradient("g1", l, m), order_parameter(kind, k, m)),
            times(-2 * chi[l] * gradient("g2", l, m), order_parameter(other, k, m)),
        ]
    return plus(*terms, times(-GAMMA * (chi[k] + chi[l]), order_parameter(kind, k, l)))


def channels() -> None:
    """The symmetric and skew parts follow dS+-/dt = -2 sum (gO +- gP) S+- - gamma S+-, each by itself."""
    moving = flow()

    def part(k: int, sign: int) -> Polynomial:
        return times(sp.Rational(1, 2), plus(letter(k), times(sign, transpose(letter(k)))))

    for k, sign in itertools.product(TRAINED, (1, -1)):
        expected = [times(-GAMMA, part(k, sign))]
        for m in range(INDICES):
            expected.append(times(-2 * (gradient("g1", k, m) + sign * gradient("g2", k, m)), part(m, sign)))
        check(plus(along(part(k, sign), moving), times(-1, plus(*expected))) == {}, "the channels decouple")


def structural_overlaps() -> None:
    """p+-_kl = (p_Omega +- p_Psi)/2: dp+-_kl = -2 chi_k sum_m g+-_km p+-_ml - (k <-> l) - decay, from (402)-(404).

    Products t_k t_l are differentiated as products of numbers, so this is algebra of symbols.
    """
    names: dict[tuple, sp.Symbol] = {}

    def number(term: Polynomial) -> sp.Expr:
        total = sp.S.Zero
        for word, value in term.items():
            names.setdefault(word, sp.Symbol("x" + str(len(names)), real=True))
            total += value * names[word]
        return total

    def overlap(sign: int, k: int, l: int) -> sp.Expr:
        omega, psi = (number(order_parameter(kind, k, l)) for kind in ("Omega", "Psi"))
        tt = number(order_parameter("t", k)) * number(order_parameter("t", l))
        return ((omega - tt) + sign * (psi - tt)) / 2

    for sign, k, l in itertools.product((1, -1), range(INDICES), range(INDICES)):
        tk, tl = number(order_parameter("t", k)), number(order_parameter("t", l))
        dtt = number(published("t", k)) * tl + tk * number(published("t", l))
        slope = (number(published("Omega", k, l)) - dtt + sign * (number(published("Psi", k, l)) - dtt)) / 2
        expected = sp.S.Zero
        for own, fixed in ((k, l), (l, k)):
            if own in TRAINED:
                expected -= GAMMA * overlap(sign, k, l)
                for m in range(INDICES):
                    g = gradient("g1", own, m) + sign * gradient("g2", own, m)
                    expected -= 2 * g * overlap(sign, m, fixed)
        check(sp.expand(slope - expected) == 0, "the structural overlaps close channel by channel")


def linear_case() -> dict[str, sp.Expr]:
    """L = 1, half the squared error of linear forms: the closed solution, put into the library's equations."""
    t = sp.Symbol("t", real=True)
    loss = potential(MeanSquaredError("linear"), 1)
    q1, q2 = (sp.Matrix(2, 2, lambda k, l, n=n: symbol(f"{n}_{min(k, l) + 1}{max(k, l) + 1}")) for n in ("q1", "q2"))
    value = loss.symbolic_value((0, 0), q1, q2)
    slopes = [gradient_by_pairs(value, q) for q in (q1, q2)]
    check(all(s == sp.Matrix([[1, -1], [-1, 1]]) / 2 for s in slopes), "g+ = 1, g- = 0 up to signs")
    # X = S_1 - S_2: the symmetric part decays at rate 2, the skew part stays. a+-_kl = (Omega +- Psi)/2 at time zero.
    plus_, minus_ = ({kl: symbol(f"a{s}_{kl}") for kl in ("11", "12", "22")} for s in ("p", "m"))
    e = sp.exp(-2 * t)
    solved = {
        "12": plus_["22"] + e * (plus_["12"] - plus_["22"]),
        "11": plus_["22"] + 2 * e * (plus_["12"] - plus_["22"]) + e**2 * (plus_["11"] - 2 * plus_["12"] + plus_["22"]),
        "22": plus_["22"],
    }
    state = {f"q1_{kl}": solved[kl] + minus_[kl] for kl in solved} | {
        f"q2_{kl}": solved[kl] - minus_[kl] for kl in solved
    }
    hierarchy = aim.derive(aim.models.load("direct-linear"), 2)
    known = {
        canonical(of_library(hierarchy.views.expand(hierarchy.views.parse(text)))): state[name]
        for name, text in {
            "q1_11": "tr(S1 S1^T)", "q1_12": "tr(S1 S2^T)", "q1_22": "tr(S2 S2^T)",
            "q2_11": "tr(S1 S1)", "q2_12": "tr(S1 S2)", "q2_22": "tr(S2 S2)",
        }.items()
    }  # fmt: skip
    halves = {gradient(n, k, l): sp.Rational(1 if k == l else -1, 2) for n in ("g1", "g2") for k, l in ((0, 0), (0, 1))}
    for text in ("tr(S1 S1^T)", "tr(S1 S2^T)", "tr(S1 S1)", "tr(S1 S2)"):
        word, drift = library_drift(hierarchy, hierarchy.views.parse(text))
        right = sum(value.xreplace(halves) * known[target] for target, value in drift.items())
        check(sp.simplify(sp.diff(known[canonical(word)], t) - right) == 0, f"the linear solution solves {text}")
    return solved


def model() -> aim.AttentionModel:
    """Two trained matrices and one teacher, weight decay a symbol."""
    law = aim.Ginibre(variance=1)
    return aim.AttentionModel.of(
        *(direct(k + 1, law, trained=k in TRAINED) for k in range(INDICES)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=TRAINED, teachers=(2,)),
        weight_decay=GAMMA,
    )


def derive(degree: int = 4) -> Derivation:
    """Derive (402)-(404) and hold the library's hierarchy to them."""
    chain_rule(2)
    moving = flow()
    hierarchy = aim.derive(model(), degree)
    for word in hierarchy.words:
        mine, theirs = library_drift(hierarchy, word)
        check(trace(along({mine: sp.S.One}, moving)) == theirs, f"the drift of tr({word})")
        check(all(len(target) == len(word) for target in theirs), "a word calls on words of its own length")
    check(hierarchy.closes and not hierarchy.missing, "nothing is missing at any degree")
    for k, l in itertools.product(range(INDICES), repeat=2):
        for kind in ("t", "Omega", "Psi"):
            found = trace(along(order_parameter(kind, k, l), moving))
            check(plus(found, times(-1, published(kind, k, l))) == {}, f"the equation of {kind}_{k + 1}{l + 1}")
    channels()
    structural_overlaps()
    solved = linear_case()
    shown = {
        x: sp.Symbol(f"a^+_{{{x.name[3:]}}}") for value in solved.values() for x in value.free_symbols if x.name != "t"
    }
    omega, psi = r"[\nabla_\Omega\Phi]", r"[\nabla_\Psi\Phi]"
    return Derivation(
        "Direct optimization of the attention matrix",
        (
            Step(
                "Online SGD on $S_k$ itself, [D] (395)-(396); the centred forms have mean zero and covariance "
                "$C_{ii'}C_{jj'}\\Omega_{kl} + C_{ij'}C_{ji'}\\Psi_{kl}$.",
                r"S_k^{(n+1)} = S_k^{(n)} - \alpha_d\Big(\nabla_{S_k}\mathcal{L}(G) + \frac{\gamma}{d} S_k^{(n)}\Big),"
                r"\qquad \Omega_{kl} = \operatorname{tr}(S_k S_l^\top),\quad \Psi_{kl} = \operatorname{tr}(S_k S_l)",
            ),
            Step(
                "By the chain rule, verified entry by entry, a step is one of length $dt = \\alpha_d/d$ along a flow "
                "that is linear in the matrices:",
                rf"\frac{{dS_k}}{{dt}} = -2\sum_m\big({omega}_{{km}} S_m + {psi}_{{km}} S_m^\top\big) - \gamma S_k",
            ),
            Step(
                "A letter becomes a sum of letters, so a word calls on words of its own length only; the library's "
                f"hierarchy agrees for all {len(hierarchy)} words up to degree {degree} over two trained matrices and "
                "a teacher, and none is missing. Its first and second moments are (402)-(404), with $\\chi_k = 1$ for "
                "trained indices:",
                r"\begin{aligned}"
                rf"\dot t_k &= -2\chi_k\sum_m({omega}_{{km}} + {psi}_{{km}})\,t_m - \gamma\chi_k t_k \\ "
                rf"\dot\Psi_{{kl}} &= -2\chi_k\sum_m({omega}_{{km}}\Psi_{{ml}} + {psi}_{{km}}\Omega_{{ml}})"
                rf" - 2\chi_l\sum_m({omega}_{{lm}}\Psi_{{km}} + {psi}_{{lm}}\Omega_{{km}})"
                r" - \gamma(\chi_k+\chi_l)\Psi_{kl} \\ "
                rf"\dot\Omega_{{kl}} &= -2\chi_k\sum_m({omega}_{{km}}\Omega_{{ml}} + {psi}_{{km}}\Psi_{{ml}})"
                rf" - 2\chi_l\sum_m({omega}_{{lm}}\Omega_{{km}} + {psi}_{{lm}}\Psi_{{km}})"
                r" - \gamma(\chi_k+\chi_l)\Omega_{kl} \end{aligned}",
            ),
            Step(
                "Symmetric and skew parts $S^\\pm = (S \\pm S^\\top)/2$ do not mix:",
                rf"\frac{{dS_k^\pm}}{{dt}} = -2\sum_m g^\pm_{{km}} S_m^\pm - \gamma S_k^\pm,\qquad "
                rf"g^\pm = {omega} \pm {psi}",
            ),
            Step(
                "nor do the structural overlaps $p^\\pm = (p_\\Omega \\pm p_\\Psi)/2$, with $t_k t_l$ taken off "
                "(it belongs to the symmetric channel):",
                r"\dot p^\pm_{kl} = -2\chi_k\sum_m g^\pm_{km}\, p^\pm_{ml} - 2\chi_l\sum_m g^\pm_{lm}\, p^\pm_{km}"
                r" - \gamma(\chi_k+\chi_l)\,p^\pm_{kl}",
            ),
            Step(
                "For linear forms at $L = 1$, $g^+ = \\pm1$ and $g^- = 0$: the symmetric part of $S_1$ reaches the "
                "teacher at rate 2, the skew part never moves. With $a^\\pm = (\\Omega\\pm\\Psi)/2$ at time zero, this "
                "solves the library's equations:",
                rf"a^+_{{12}}(t) = {sp.latex(solved['12'].xreplace(shown))},\qquad "
                rf"a^+_{{11}}(t) = {sp.latex(solved['11'].xreplace(shown))},\qquad a^-_{{kl}}(t) = a^-_{{kl}}",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
