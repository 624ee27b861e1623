"""12. The noiseless softmax channel: K_T, the explicit learning curve, and its two thresholds ([B]).

Result. A softmax matrix of T tokens fixes every form up to one constant: m = T(T+1)/2 − 1 directions. Hence q̂ = αK_T/V
with K_T = 2m = T² + T − 2 at every inverse temperature, α = q̂ MMSE(q̂)/K_T, perfect recovery at
α = min(2ρ − ρ², 1)/K_T, and weak recovery, for ρ → 0, at α/ρ = 1/K_T.
"""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.bayes import (
    SmallWidthPrior,
    SoftmaxChannel,
    StateEvolution,
    make_prior,
    pair_multiplicity,
    perfect_recovery_by_counting,
    softmax_directions,
    threshold,
    token_pairs,
)

TOKENS, RHO, V, ALPHA = sp.symbols("T rho V alpha", positive=True)


def differences(tokens: int) -> sp.Matrix:
    """Rows h_ab − h_aa over all a ≠ b: what the logarithms of a softmax matrix hold."""
    pairs = token_pairs(tokens)
    rows = []
    for a, b in itertools.permutations(range(tokens), 2):
        row = [0] * len(pairs)
        row[pairs.index((min(a, b), max(a, b)))] += 1
        row[pairs.index((a, a))] -= 1
        rows.append(row)
    return sp.Matrix(rows)


def directions() -> sp.Expr:
    """The null space is the constant vector alone; the rank is T(T+1)/2 − 1."""
    for tokens in (2, 3, 4, 5):
        matrix = differences(tokens)
        null = matrix.nullspace()
        check(len(null) == 1 and null[0] == null[0][0] * sp.ones(matrix.cols, 1), "one constant is lost")
        check(2 * matrix.rank() == softmax_directions(tokens), f"K_T at T = {tokens}")
    symbolic = sp.expand(2 * (TOKENS * (TOKENS + 1) / 2 - 1))
    check(sp.expand(softmax_directions(TOKENS) - symbolic) == 0, "K_T")
    return symbolic


def information() -> sp.Expr:
    """E Σ D g² = rank/V: g = Aᵀ(V A D Aᵀ)⁻¹(u − Aω) with E(u − Aω)(u − Aω)ᵀ = V A D Aᵀ, for any basis A of
    differences.
    """
    for tokens in (2, 3):
        scale = sp.diag(*[sp.Integer(int(value)) for value in pair_multiplicity(tokens)])
        size = scale.rows
        basis = sp.eye(size - 1).row_join(-sp.ones(size - 1, 1))
        covariance = V * basis * scale * basis.T
        back = basis.T * covariance.inv()
        total = sp.simplify((scale * back * covariance * back.T).trace())
        check(sp.simplify(total - (size - 1) / V) == 0, "the information of the differences")
        determinant = sp.simplify((basis * scale * basis.T).det())
        check(determinant == 2 ** (tokens - 1) * tokens**2, "det A D A^T = 2^{T-1} T^2")
        # The closed gradient of the library: (r - mean)/(D V).
        residual = sp.Matrix(sp.symbols(f"r_0:{size}"))
        weights = [1 / scale[k, k] for k in range(size)]
        mean = sum(w * r for w, r in zip(weights, residual, strict=True)) / sum(weights)
        closed = sp.Matrix([w * (r - mean) / V for w, r in zip(weights, residual, strict=True)])
        check(sp.simplify(back * basis * residual - closed) == sp.zeros(size, 1), "the gradient in closed form")
        value = float(SoftmaxChannel(tokens, 3.7).signal(0.4, 0.25).value)
        check(abs(value - float((2 * total).subs(V, sp.Rational(1, 4)))) < 1e-12, "the library's signal, any beta")
    return softmax_directions(TOKENS) / V


def psi_gradient() -> None:
    """Ψ_out = −(K_T/4) log V + const: q̂ = 4αΨ_out'(q), V = Q₀ − q."""
    q, top = sp.symbols("q Q_0", positive=True)
    psi = -softmax_directions(TOKENS) / 4 * sp.log(top - q)
    check(sp.simplify(4 * sp.diff(psi, q) - softmax_directions(TOKENS) / (top - q)) == 0, "qhat/4 = alpha Psi'")


def thresholds() -> sp.Expr:
    """Unknowns by directions, and the limits of the curve."""
    wishart = perfect_recovery_by_counting(make_prior(RHO), SoftmaxChannel(2))
    check(sp.simplify(wishart.subs(RHO, sp.Rational(1, 2)) - sp.Rational(3, 16)) == 0, "T = 2, rho = 1/2")
    # A d x r factor has rd entries, of which r^2/2 are rotations: (2 rho - rho^2) d^2/2; alpha d^2 samples give
    # K_T/2 each.
    freedom = 2 * RHO - RHO**2
    samples, unknowns = sp.symbols("n_d u_d", positive=True)
    solved = sp.solve(samples * softmax_directions(TOKENS) / 2 - unknowns, samples)[0].subs(unknowns, freedom / 2)
    check(sp.simplify(solved - freedom / softmax_directions(TOKENS)) == 0, "counting")
    for width in ("1/3", "1", "2"):
        found = threshold("softmax", "perfect", 3, width=width)
        curve = StateEvolution(make_prior(width), SoftmaxChannel(3))
        check(curve.solve(float(found) * (1 - 1e-5)).mmse > 0, "below the threshold the matrix is not known")
        check(curve.solve(float(found) * (1 + 1e-12)).mmse == 0, "above it is")
    return solved


def small_width() -> sp.Expr:
    """MMSE = t(2 − t), t = ρ/q̂: α/ρ = MMSE/(t K_T) = (2 − t)/K_T; t = 1 is weak, t = 0 perfect recovery."""
    t = sp.Symbol("t", positive=True)
    scaled = sp.simplify(t * (2 - t) / (t * softmax_directions(TOKENS)))
    check(sp.simplify(scaled.subs(t, 1) - 1 / softmax_directions(TOKENS)) == 0, "weak recovery")
    check(threshold("softmax", "weak", 4, width=0).exact == sp.Rational(1, 18), "the library's weak threshold")
    check(sp.simplify(sp.limit(scaled, t, 0) - 2 / softmax_directions(TOKENS)) == 0, "perfect recovery at rho -> 0")
    grid = np.array([0.25, 0.5, 0.9])
    found = StateEvolution(SmallWidthPrior(), SoftmaxChannel(2)).curve((2 - grid) / 4).mmse
    check(bool(np.allclose(found, grid * (2 - grid), atol=1e-10)), "the library's small-width curve")
    return scaled


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    symbolic = directions()
    rate = information()
    psi_gradient()
    perfect = thresholds()
    scaled = small_width()
    return Derivation(
        "The softmax channel",
        (
            Step(
                "$\\log y_{ab} - \\log y_{aa} = \\beta (h_{ab} - h_{aa})$: since $h$ is symmetric, all "
                "differences of forms are seen, and only one common constant is lost.",
                rf"K_T = 2 \operatorname{{rank}} A = 2 \left( \frac{{T(T+1)}}{{2}} - 1 \right) = {sp.latex(symbolic)}",
            ),
            Step(
                "Given $\\omega$ the differences $u = A h$ are Gaussian with covariance $V A D A^\\top$, so "
                "that $g = A^\\top (V A D A^\\top)^{-1} (u - A \\omega)$, and $\\beta$ cancels.",
                rf"\frac{{\hat q}}{{\alpha}} = 2 E \sum_{{a \le b}} D_{{ab}} g_{{ab}}^2 = {sp.latex(rate)}",
            ),
            Step(
                "With $V = \\mathrm{MMSE}(\\hat q)$ the whole learning curve is explicit.",
                r"\alpha = \frac{\hat q \, \mathrm{MMSE}(\hat q)}{K_T}",
            ),
            Step(
                "The matrix is known once the equations are as many as the unknowns $(2\\rho - \\rho^2) d^2/2$, "
                "for $\\rho \\le 1$; this is also the limit of the curve at large $\\hat q$.",
                rf"\alpha_{{\mathrm{{perfect}}}} = {sp.latex(sp.factor(perfect))}",
            ),
            Step(
                "For $\\rho \\to 0$ the error is $t(2 - t)$ with $t = \\rho/\\hat q$, and nothing is learned at "
                "$t \\ge 1$.",
                rf"\frac{{\alpha}}{{\rho}} = {sp.latex(scaled)}, \qquad \left. \frac{{\alpha}}{{\rho}} "
                rf"\right|_{{\mathrm{{weak}}}} = \frac{{1}}{{{sp.latex(symbolic)}}}",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
