"""From one SGD step on tied attention, [D] (7), to the moment hierarchy, [D] (11)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

import sympy as sp
from document import Derivation, Step, check, main

import aimtheory as aim
from aimtheory.hierarchy.latex import equation_latex

INDICES = 3
"""K: index 0 and 1 are trained, index 2 is a teacher."""

TRAINED = (0, 1)
GAMMA = sp.Symbol("gamma", real=True)

Word = tuple[int, ...]
"""tr(S_{k_1} ... S_{k_w}) as the tuple of its indices."""


def gradient_symbol(k: int, l: int) -> sp.Symbol:
    """[grad Phi]_kl, one symbol a pair."""
    return sp.Symbol(f"g_{min(k, l) + 1}{max(k, l) + 1}", real=True)


def covariance_of_forms(dim: int) -> None:
    """Cov(G_k, G_l) = 2 tr(S_k S_l) for one token: Isserlis' theorem on x^T S x, at any dimension and exactly."""

    def symmetric(name: str) -> sp.Matrix:
        return sp.Matrix(dim, dim, lambda i, j: sp.Symbol(f"{name}_{min(i, j)}{max(i, j)}", real=True))

    S, R = symmetric("s"), symmetric("r")
    delta = sp.KroneckerDelta
    moment = sum(
        S[a, b] * R[c, e] * (delta(a, b) * delta(c, e) + delta(a, c) * delta(b, e) + delta(a, e) * delta(b, c))
        for a, b, c, e in itertools.product(range(dim), repeat=4)
    )
    covariance = (moment - S.trace() * R.trace()) / dim
    check(sp.expand(covariance - 2 * (S * R).trace() / dim) == 0, "the covariance of two forms is 2 tr(S R)")


def gaussian_mean(polynomial: sp.Poly, covariance: sp.Matrix) -> sp.Expr:
    """E of a polynomial of centred Gaussian variables by Stein's lemma, E[x_k f] = sum_l Cov_kl E[df/dx_l]."""
    total = sp.S.Zero
    for powers, coefficient in polynomial.terms():
        first = next((k for k, power in enumerate(powers) if power), None)
        if first is None:
            total += coefficient
            continue
        lowered = [power - (k == first) for k, power in enumerate(powers)]
        rest = sp.Poly({tuple(lowered): coefficient}, *polynomial.gens)
        for l, variable in enumerate(polynomial.gens):
            total += covariance[first, l] * gaussian_mean(rest.diff(variable), covariance)
    return sp.expand(total)


def price_theorem() -> None:
    """[grad Phi]_kl = E d^2 L/dG_k dG_l for one token, where Cov(G_k, G_l) = 2 q_kl, on a loss of degree 6."""
    q11, q12, q22 = sp.symbols("q11 q12 q22", real=True)
    q = sp.Matrix([[q11, q12], [q12, q22]])
    G = sp.symbols("G1 G2", real=True)
    loss = (G[0] ** 3 - 2 * G[0] * G[1] + G[1] ** 2) ** 2 / 2
    mean = gaussian_mean(sp.Poly(loss, *G), 2 * q)
    gradient = sp.Matrix(2, 2, lambda k, l: gaussian_mean(sp.Poly(sp.diff(loss, G[k], G[l]), *G), 2 * q))
    for shared in (q11, q12, q22):
        differential = sum(gradient[k, l] * sp.diff(q[k, l], shared) for k in range(2) for l in range(2))
        check(sp.expand(sp.diff(mean, shared) - differential) == 0, "Price's theorem")


def chain_rule(dim: int, widths: tuple[int, ...]) -> None:
    """d x (gradient of Phi by W_k) = 4 sum_l [grad Phi]_kl S_l W_k, entry by entry on matrices of symbols.

    Phi enters only through its differential, so that it may be taken linear in q: Phi = sum_kl g_kl q_kl.
    """
    W = [
        sp.Matrix(dim, width, lambda i, j, k=k: sp.Symbol(f"w{k}_{i}{j}", real=True)) for k, width in enumerate(widths)
    ]
    S = [factor * factor.T for factor in W]
    pairs = list(itertools.product(range(len(W)), repeat=2))
    potential = sum(gradient_symbol(k, l) * (S[k] * S[l]).trace() / dim for k, l in pairs)
    for k, factor in enumerate(W):
        by_entry = factor.applyfunc(lambda entry: dim * sp.diff(potential, entry))
        by_rule = sum((4 * gradient_symbol(k, l) * S[l] * factor for l in range(len(W))), sp.zeros(*factor.shape))
        check((by_entry - by_rule).applyfunc(sp.expand).is_zero_matrix is True, "the gradient by W_k")


def flow_of_attention_matrix(k: int) -> dict[Word, sp.Expr]:
    """dS_k/dt = W' W^T + W W'^T with W' = -sum_l g_kl S_l W - (gamma/4) W: {product of S: coefficient}."""
    velocity: dict[Word, sp.Expr] = {(l,): -gradient_symbol(k, l) for l in range(INDICES)}  # left factors of W_k
    velocity[()] = -GAMMA / 4
    flow: dict[Word, sp.Expr] = {}
    for left, coefficient in velocity.items():
        for product in ((*left, k), (k, *left)):  # W' W^T = P W W^T = P S_k, and its transpose S_k P
            flow[product] = flow.get(product, 0) + coefficient
    return flow


def bracelet(word: Word) -> Word:
    """tr is cyclic, and equal on a product of symmetric matrices and its reversal."""
    return min(form[n:] + form[:n] for form in (word, word[::-1]) for n in range(len(word)))


def drift(word: Word) -> Mapping[Word, sp.Expr]:
    """Leibniz: one letter of the word after another is replaced by its flow."""
    total: dict[Word, sp.Expr] = {}
    for position, k in enumerate(word):
        if k not in TRAINED:
            continue
        for product, coefficient in flow_of_attention_matrix(k).items():
            target = bracelet((*word[:position], *product, *word[position + 1 :]))
            total[target] = total.get(target, 0) + coefficient
    return {target: sp.expand(value) for target, value in total.items() if value != 0}


def model() -> aim.AttentionModel:
    """Two trained tied matrices and one teacher, weight decay a symbol."""
    from aimtheory.model import tied
    from aimtheory.model.losses import MeanSquaredError

    law = aim.Wishart(width=1, trace=1)
    return aim.AttentionModel.of(
        *(tied(k + 1, law, trained=k in TRAINED) for k in range(INDICES)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=TRAINED, teachers=(2,)),
        weight_decay=GAMMA,
    )


def derive(degree: int = 4) -> Derivation:
    """Derive (11) and hold the library's hierarchy to it, word by word up to ``degree``."""
    covariance_of_forms(3)
    price_theorem()
    chain_rule(2, (2, 1, 2))
    hierarchy = aim.derive(model(), degree)
    for word in hierarchy.words:
        mine = drift(tuple(int(letter.name[1:]) - 1 for letter in word))
        theirs: dict[Word, sp.Expr] = {}
        for (coupling, target), value in hierarchy.drift(word).items():
            key = bracelet(tuple(int(letter.name[1:]) - 1 for letter in target))
            exact = sp.Rational(Fraction(value).numerator, Fraction(value).denominator)
            theirs[key] = theirs.get(key, 0) + exact * coupling.symbol
        check(mine.keys() == theirs.keys(), f"the words on which tr({word}) depends")
        check(all(sp.expand(mine[key] - theirs[key]) == 0 for key in mine), f"the drift of tr({word})")
    left, right = equation_latex(aim.derive(aim.models.load("tied-linear"), 2), hierarchy.words[0])
    return Derivation(
        "The moment hierarchy of tied attention from one step of stochastic gradient descent",
        (
            Step(
                "One step of online SGD on $W_k$, $S_k = W_k W_k^\\top$, with a fresh sample and weight decay "
                "([D] (7)).",
                r"W_k^{(n+1)} = W_k^{(n)} - \alpha_d \nabla_{W_k} \Big[ \mathcal{L}(G) "
                r"+ \frac{\gamma}{2d} \sum_l \|W_l\|_F^2 \Big], \qquad "
                r"G_{ijk} = \frac{1}{\sqrt d} \operatorname{Tr}\big[ S_k (x_j x_i^\top - C_{ij} I) \big]",
            ),
            Step(
                "The centred forms become jointly Gaussian as $d \\to \\infty$; by Isserlis' theorem their covariance "
                "is (exactly, at any $d$) a function of $q_{kl} = \\operatorname{tr}(S_k S_l)$, so the mean loss is a "
                "function $\\Phi(q)$ of these alone.",
                r"\operatorname{Cov}(G_{ijk}, G_{i'j'l}) = (C_{ii'} C_{jj'} + C_{ij'} C_{ji'}) \, q_{kl}, \qquad "
                r"\mathbb{E} \, \mathcal{L}(G) = \Phi(q)",
            ),
            Step(
                "Price's theorem gives its differential; both $(k,l)$ and $(l,k)$ are counted.",
                r"d\Phi = \sum_{kl} [\nabla \Phi]_{kl} \, dq_{kl}, \qquad [\nabla\Phi]_{kl} = \frac12 \sum_{iji'j'} "
                r"(C_{ii'} C_{jj'} + C_{ij'} C_{ji'}) \, \mathbb{E} \frac{\partial^2 \mathcal{L}}"
                r"{\partial G_{ijk} \, \partial G_{i'j'l}}",
            ),
            Step(
                "By the chain rule, with $dq_{kl} = \\frac1d \\operatorname{Tr}(dS_k S_l + S_k dS_l)$ and "
                "$dS_k = dW_k W_k^\\top + W_k dW_k^\\top$ (verified entry by entry on matrices of symbols):",
                r"d \, \nabla_{W_k} \Phi = 4 \sum_l [\nabla \Phi]_{kl} \, S_l W_k",
            ),
            Step(
                "To first order in $\\alpha_d$ the mean step is a step of length $dt = 4\\alpha_d/d$ along a flow. The "
                "second order and the fluctuations add up to $O(\\alpha_d d)$ over $O(d/\\alpha_d)$ steps and vanish.",
                r"\frac{dW_k}{dt} = - \sum_l [\nabla \Phi]_{kl} \, S_l W_k - \frac{\gamma}{4} W_k, \qquad "
                r"t = n \, \frac{4 \alpha_d}{d}",
            ),
            Step(
                "The attention matrices follow a closed flow.",
                r"\frac{dS_k}{dt} = -(H_k S_k + S_k H_k) - \frac{\gamma}{2} S_k, \qquad "
                r"H_k = \sum_l [\nabla\Phi]_{kl} \, S_l",
            ),
            Step(
                "A trace of a word changes letter by letter; a constant letter (a teacher) gives nothing. This is "
                "[D] (11): $l$ is inserted before, and after, each trained letter, and $|\\alpha|_K$ counts these "
                f"letters. The library's equations agree with it for all {len(hierarchy)} words up to degree {degree} "
                "over two trained matrices and one teacher.",
                r"\frac{d\mu_{k_1 \dots k_w}}{dt} = - \sum_{i} \sum_l [\nabla\Phi]_{k_i l} \big( "
                r"\mu_{\dots l \, k_i \dots} + \mu_{\dots k_i \, l \dots} \big) - \frac{\gamma}{2} |\alpha|_K \, "
                r"\mu_{k_1 \dots k_w}",
            ),
            Step("For one student and one teacher the shortest equation is", f"{left} = {right}"),
        ),
    )


if __name__ == "__main__":
    main(derive)
