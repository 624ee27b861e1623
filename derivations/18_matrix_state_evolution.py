"""18. Several matrices and rectangular ones (ours, after [B] and the committee machine).

Result. Overlaps q and conjugates q̂ of K matrices are K × K, both gradients of f = Tr q̂(Q₀ − q)/4 − I(q̂) + αΨ(q).
Gaussian priors give V = (C⁻¹ + q̂)⁻¹; one other matrix beside them sees the Schur complement. Equal heads
have a symmetric solution, which repels once αC² lim F_⊥/q_⊥ > 1. Between two sequences the noise is isotropic, and
the singular values of UVᵀ + √Δ Z solve xP = m(m + δ − 1), m = 1 + ΔP + ρtP/(1 − tP).
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.bayes import JointPrior, LinearHeads, MultiIndexStateEvolution, RectangularPrior
from aimtheory.spectra import GOE, NoisySingularValues, RectangularFactors, Wishart, mmse

A, B, C, X = sp.symbols("a b c x", positive=True)
DELTA, NOISE, RHO, T, Z, G1, G2 = sp.symbols("delta Delta rho t z g_1 g_2", positive=True)


def gaussian_pair() -> sp.Expr:
    """Two GOEs of variance C and q̂ = x·11ᵀ: only the sum is learned."""
    ones = sp.ones(2, 2)
    error = (sp.eye(2) / C + X * ones).inv()
    check(sp.simplify(error - C * sp.eye(2) + C**2 * X / (1 + 2 * C * X) * ones) == sp.zeros(2, 2), "V of a sum")
    symbols = sp.Matrix([[A, B], [B, 2 * A]])
    information = sp.log((sp.eye(2) + C * symbols).det()) / 4
    matrix = (sp.eye(2) / C + symbols).inv()
    # B stands for two entries, A for the first and twice for the last.
    check(sp.simplify(sp.diff(information, B) - matrix[0, 1] / 2) == 0, "dI/dqhat off the diagonal")
    check(sp.simplify(sp.diff(information, A) - (matrix[0, 0] + 2 * matrix[1, 1]) / 4) == 0, "dI/dqhat on it")
    return sp.simplify(error[0, 0])


def example(error: sp.Expr) -> sp.Expr:
    """y = h¹₁₂ + h²₁₂ + N(0, 1), α = ½: x = 2α/(V_sum + 1), V_sum = 2/(1 + 2x): x = ½, V = ¾."""
    total = 2 / (1 + 2 * X)
    root = next(value for value in sp.solve(X * (total + 1) - 1, X) if value.is_positive)
    value = error.subs({C: 1, X: root})
    check(value == sp.Rational(3, 4), "the error of one head of the sum")
    prior = JointPrior([GOE(1), GOE(1)])
    found = prior.error_matrix(float(root) * np.ones((2, 2)))
    check(abs(found[0, 0] - 0.75) < 1e-14, "the library's error matrix")
    point = MultiIndexStateEvolution(prior, LinearHeads(2, [[1, 1]], noise=1.0)).solve(0.2)
    v = float(np.ones(2) @ point.error_matrix @ np.ones(2))
    qhat = 0.4 * (4 / (2 * v + 1) + 1 / (v + 1))
    check(abs(v - 2 / (1 + 2 * qhat)) < 1e-9, "the library's fixed point")
    return value


def one_other_matrix() -> sp.Expr:
    """Integrate a Gaussian S₂ out of exp(−½ sᵀq̂s + sᵀT − s₂²/2C): S₁ keeps the Schur complement of q̂."""
    s1, s2, t1, t2, q11, q12, q22 = sp.symbols("s_1 s_2 t_1 t_2 q_11 q_12 q_22")
    exponent = -(q11 * s1**2 + 2 * q12 * s1 * s2 + q22 * s2**2) / 2 + s1 * t1 + s2 * t2 - s2**2 / (2 * C)
    best = sp.solve(sp.diff(exponent, s2), s2)[0]
    left = sp.expand(exponent.subs(s2, best))
    reduced = sp.simplify(-sp.diff(left, s1, 2))
    schur = q11 - q12**2 / (q22 + 1 / C)
    check(sp.simplify(reduced - schur) == 0, "the precision left to the other matrix")
    check(sp.simplify(sp.diff(best, s1) + q12 / (q22 + 1 / C)) == 0, "the response of the Gaussian one")
    law, qhat = Wishart("1/2", 1), np.array([[2.0, 0.9], [0.9, 1.1]])
    found = JointPrior([law, GOE(1)]).error_matrix(qhat)
    scalar = float(mmse(law, float(schur.subs({q11: 2.0, q12: 0.9, q22: 1.1, C: 1}))))
    check(abs(found[0, 0] - scalar) < 1e-13, "the library's Schur complement")
    check(abs(found[0, 1] + 0.9 / 2.1 * scalar) < 1e-13, "the library's error across")
    return schur


def specialization() -> sp.Expr:
    """V_⊥ = C/(1 + C q̂_⊥): q_⊥ = C² q̂_⊥ to first order, and q̂_⊥ = α F'q_⊥: the factor of one step."""
    small, slope, alpha = sp.symbols("epsilon F' alpha", positive=True)
    qhat = alpha * slope * small
    grown = sp.series(C - C / (1 + C * qhat), small, 0, 2).removeO()
    factor = sp.simplify(grown / small)
    check(sp.simplify(factor - alpha * C**2 * slope) == 0, "the growth of a difference")
    return factor


def rectangular() -> sp.Expr:
    """The self-consistent equations of a linearization of UVᵀ + √ΔZ, with P = δ g₁ g₂ and m = z g₁.

    L has blocks √ΔZ, U, V and −1 between the two copies of the inner space; a Gaussian block of variance v/d adds
    v Σ_j g_j to its row. Inner blocks: Σ₃ = a g₁, Σ₄ = b δ g₂, and −1 between them.
    """
    inner = sp.Matrix([[-A * G1, 1], [1, -B * DELTA * G2]]).inv()
    first = sp.simplify(1 / G1 - Z + NOISE * DELTA * G2 + A * RHO * inner[0, 0])
    second = sp.simplify(1 / G2 - Z + NOISE * G1 + B * RHO * inner[1, 1])
    p = sp.Symbol("P")
    closed = 1 + NOISE * p + RHO * T * p / (1 - T * p)
    # Multiply by g_1 (by delta g_2): z g_1 = m and z delta g_2 = m + delta - 1.
    one = sp.simplify((first * G1).subs(A, T / B).subs(G2, p / (DELTA * G1)) - (closed - Z * G1))
    two = sp.simplify(
        (second * DELTA * G2).subs(A, T / B).subs(G1, p / (DELTA * G2)) - (closed + DELTA - 1 - Z * DELTA * G2)
    )
    check(one == 0, "m = 1 + R(P)")
    check(two == 0, "z delta g_2 = m + delta - 1")
    check(sp.expand((Z * G1) * (Z * DELTA * G2) - Z**2 * DELTA * G1 * G2) == 0, "x P = m (m + delta - 1)")
    hold_spectrum()
    return closed


def denoiser() -> None:
    """Im of xP = m(m + δ − 1) on the real axis: δ − 1 + 2 Re m = x Im P/Im m, so that the two forms of ξ agree."""
    real, imaginary, p_imaginary, x = sp.symbols("u w v x", real=True)
    m = real + sp.I * imaginary
    equation = sp.im(sp.expand(m * (m + DELTA - 1))) - x * p_imaginary
    solved = sp.solve(equation, p_imaginary)[0]
    check(sp.simplify(x * solved / imaginary - (DELTA - 1 + 2 * real)) == 0, "y - xi = y Delta Im P/Im m")


def hold_spectrum() -> None:
    """The library's bands and moments against a sampled matrix's second moment, and I-MMSE."""
    law = RectangularFactors("1/2", 2)
    spectrum = NoisySingularValues(law, 0.2)
    check(spectrum.error < 1e-11, "mass and second moment of the library's spectrum")
    prior, qhat, step = RectangularPrior(law), 3.0, 1e-3
    values = prior.information(qhat + step * np.array([-2, -1, 1, 2]))
    slope = float(values @ np.array([1, -8, 8, -1])) / (12 * step)
    check(abs(slope - float(prior.mmse(qhat)) / 4) < 1e-10, "dI/dqhat = MMSE/4")


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    error = gaussian_pair()
    value = example(error)
    schur = one_other_matrix()
    factor = specialization()
    closed = rectangular()
    denoiser()
    return Derivation(
        "Several matrices, and rectangular ones",
        (
            Step(
                "Overlaps and conjugates of $K$ matrices are $K \\times K$; the equations are the gradients of",
                r"f = \frac14 \operatorname{Tr} \hat q (Q_0 - q) - I(\hat q) + \alpha \Psi(q), \qquad V = Q_0 - q = 4 "
                r"\frac{\partial I}{\partial \hat q}, \qquad \hat q = 4 \alpha \frac{\partial \Psi}{\partial q}",
            ),
            Step(
                "Gaussian matrices of covariance $C$ are denoised together.",
                r"V = (C^{-1} + \hat q)^{-1}, \qquad I = \frac14 \log \det (1 + C \hat q)",
            ),
            Step(
                "A sum of two heads with unit noise, one pair of tokens, $\\alpha = 1/2$: with $\\hat q_{kl} = x$ the "
                "error of one head is $(1 + x)/(1 + 2x)$ at $x = 1/2$.",
                rf"V_{{11}} = {sp.latex(value)}",
            ),
            Step(
                "One matrix of another law beside Gaussian ones: integrating those out leaves it the precision",
                r"\hat q_{11} - \frac{\hat q_{12}^2}{\hat q_{22} + 1/C}" if schur.is_Add else r"\hat q_{11}",
            ),
            Step(
                "Equal heads: a small difference $q_\\perp$ gives $\\hat q_\\perp = \\alpha F' q_\\perp$, and comes "
                "back as $C^2 \\hat q_\\perp$; the symmetric solution repels where the factor passes one.",
                rf"{sp.latex(factor)} > 1",
            ),
            Step(
                "Between two sequences all forms are independent, so the noise on $S$ has independent entries. A "
                "linearization of $U V^\\top + \\sqrt{\\Delta} Z$ gives, with $P = \\delta g_1 g_2$ and $x = z^2$,",
                rf"x P = m (m + \delta - 1), \qquad m = {sp.latex(closed)}",
            ),
            Step(
                "On the axis the imaginary part of the first equation gives both forms of the denoiser.",
                r"\xi(y) = y - \frac{\Delta}{y} (\delta - 1 + 2 \operatorname{Re} m) = y \, \frac{\operatorname{Im} (m "
                r"- \Delta P)}{\operatorname{Im} m}",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
