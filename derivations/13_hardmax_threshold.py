"""13. The hardmax channel of two tokens and its exact weak-recovery threshold.

Result. The answers s₁ = sign(h₁₁ − h₁₂), s₂ = sign(h₂₂ − h₁₂) have Z = Φ₂(κ₁, κ₂; s₁s₂/3) with
κ_a = s_a(ω_aa − ω₁₂)/√(3V), and for ρ → 0 the matrix is first seen at

    α/ρ = 1/(2E),  E = (16/p₊ + 8/p₋)/(24π),  p± = 1/4 ± asin(1/3)/(2π):  0.403410629037599304517470…

The derivative ∂_aΦ₂ of the orthant probability enters E; the bivariate density in its place gives a wrong curve.
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.bayes import HardmaxChannel, SmallWidthPrior, StateEvolution, orthant, threshold

V = sp.Symbol("V", positive=True)
C = sp.Symbol("c", real=True)
THIRD = sp.Rational(1, 3)


def correlation() -> sp.Matrix:
    """Cov of (h₁₁ − h₁₂, h₂₂ − h₁₂) given ω, from Var h_ab = (1 + δ_ab) V."""
    basis = sp.Matrix([[1, -1, 0], [0, -1, 1]])
    covariance = basis * sp.diag(2 * V, V, 2 * V) * basis.T
    check(covariance == V * sp.Matrix([[3, 1], [1, 3]]), "the covariance of the two comparisons")
    return covariance


def orthant_at_the_origin() -> sp.Expr:
    """Plackett: ∂_c Φ₂ is the density; at the origin 1/(2π√(1−c²)), and Φ₂(0, 0; 0) = 1/4."""
    c = sp.Symbol("u", positive=True)
    value = sp.Rational(1, 4) + sp.integrate(1 / (2 * sp.pi * sp.sqrt(1 - c**2)), (c, 0, C))
    check(sp.simplify(value - sp.Rational(1, 4) - sp.asin(C) / (2 * sp.pi)) == 0, "the orthant probability")
    for sign in (1, -1):
        check(abs(float(value.subs(C, sign * THIRD)) - float(orthant(0, 0, sign / 3))) < 1e-14, "the library's orthant")
    return value


def energy(probability: sp.Expr) -> sp.Expr:
    """E = Σ_answers Z Σ D g² at ω = 0, V = 1; ∂_aΦ₂(0, 0) = φ(0) Φ(0) = 1/(2√(2π))."""
    slope = 1 / (2 * sp.sqrt(2 * sp.pi))
    total = sp.S.Zero
    for first in (1, -1):
        for second in (1, -1):
            z = probability.subs(C, first * second * THIRD)
            g11, g22 = (sign * slope / z / sp.sqrt(3) for sign in (first, second))
            g12 = -(g11 + g22)
            total += z * (2 * g11**2 + 2 * g22**2 + g12**2)
    angle = sp.asin(THIRD) / (2 * sp.pi)
    plus, minus = sp.Rational(1, 4) + angle, sp.Rational(1, 4) - angle
    closed = (16 / plus + 8 / minus) / (24 * sp.pi)
    check(sp.simplify(total - closed) == 0, "E in closed form")
    check(abs(float(2 * closed) - float(HardmaxChannel(2).direct(0.0).value)) < 1e-12, "the library's quadrature")
    return closed


def slope_of_the_orthant() -> None:
    """∂_h ∫_{−∞}^h φ(x) Φ((k − cx)/√(1−c²)) dx = φ(h) Φ((k − ch)/√(1−c²)): Φ, not φ, in the second factor."""
    for h, k, c in ((0.3, -0.8, 1 / 3), (-1.1, 0.4, -1 / 3)):
        step = 1e-3
        values = orthant([h - 2 * step, h - step, h + step, h + 2 * step], [k] * 4, c)
        numeric = float(values @ np.array([1, -8, 8, -1])) / (12 * step)
        t = math.sqrt(1 - c * c)
        density = math.exp(-h * h / 2) / math.sqrt(2 * math.pi)
        check(
            abs(numeric - density * 0.5 * math.erfc(-(k - c * h) / t / math.sqrt(2))) < 1e-10, "the derivative of Phi_2"
        )
        bivariate = math.exp(-(h * h - 2 * c * h * k + k * k) / (2 * t * t)) / (2 * math.pi * t)
        check(abs(numeric - bivariate) > 1e-2, "it is not the bivariate density")


def weak_threshold(closed: sp.Expr) -> tuple[sp.Expr, str]:
    """q leaves 0 at t = 1: α/ρ = 1/(2E); the library's exact value, and its numeric branch."""
    value = 1 / (2 * closed)
    found = threshold("hardmax", "weak", 2, width=0, digits=40)
    check(sp.simplify(found.exact - value) == 0, "the library's exact threshold")
    check(abs(sp.N(value, 50) - sp.Float(found.digits, 50)) < sp.Float(10) ** -39, "its digits")
    branch = StateEvolution(SmallWidthPrior(), HardmaxChannel(2))
    check(branch.solve(float(value) * (1 - 1e-7)).q == 0, "below it nothing is learned")
    check(branch.solve(float(value) * (1 + 1e-7)).q > 0, "above it something is")
    return value, found.digits


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    covariance = correlation()
    probability = orthant_at_the_origin()
    slope_of_the_orthant()
    closed = energy(probability)
    _, digits = weak_threshold(closed)
    return Derivation(
        "The hardmax channel of two tokens",
        (
            Step(
                "The answer is the pair of signs of $h_{11} - h_{12}$ and $h_{22} - h_{12}$, whose covariance "
                "given $\\omega$ is",
                sp.latex(covariance).replace("\\\\", "\\\\ ") + r", \qquad c = \frac{s_1 s_2}{3}",
            ),
            Step(
                "so that $Z$ is an orthant probability of two normals of correlation $c$.",
                r"Z = \Phi_2(\kappa_1, \kappa_2; c), \qquad \kappa_a = \frac{s_a (\omega_{aa} - "
                r"\omega_{12})}{\sqrt{3 V}}",
            ),
            Step(
                "Its derivative has a distribution function as second factor; the gradient follows, with "
                "$g_{12} = -(g_{11} + g_{22})$.",
                r"\partial_1 \Phi_2 = \varphi(\kappa_1) \, \Phi\left( \frac{\kappa_2 - c \kappa_1}{\sqrt{1 - "
                r"c^2}} \right), \qquad g_{aa} = \frac{s_a}{\sqrt{3V}} \frac{\partial_a \Phi_2}{\Phi_2}",
            ),
            Step(
                "At $\\omega = 0$ Plackett's identity gives the probabilities,",
                r"p_\pm = \Phi_2(0, 0; \pm \tfrac13) = \frac14 \pm \frac{\arcsin(1/3)}{2 \pi}",
            ),
            Step(
                "and the four answers add up to",
                r"E = \sum_s Z \left( 2 g_{11}^2 + 2 g_{22}^2 + g_{12}^2 \right) = \frac{1}{24 \pi} \left( "
                r"\frac{16}{p_+} + \frac{8}{p_-} \right)",
            ),
            Step(
                "For $\\rho \\to 0$ the overlap leaves zero where $\\hat q = 2 \\alpha E$ reaches $\\rho$.",
                rf"\left. \frac{{\alpha}}{{\rho}} \right|_{{\mathrm{{weak}}}} = \frac{{1}}{{2E}} = {digits} \dots",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
