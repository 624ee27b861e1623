"""10. A Wishart matrix plus GOE noise: the cubic for the Stieltjes transform and the quartic of its edges ([B]).

Result. For S = W Wᵀ/√(rd) and R = S + √Δ Z the transform g(z) = tr (z − R)⁻¹ solves

    (Δ/√ρ) g³ − (z/√ρ + Δ) g² + (z + 1/√ρ − √ρ) g − 1 = 0,

and the band edges are roots of its discriminant, a quartic in z. Free cumulants give the cubic; the library, which
solves no cubic, must have its density on the imaginary part of a root and its bands at roots of the quartic.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.spectra import SemicircleConvolution, bayes_wishart

RHO, DELTA = sp.symbols("rho Delta", positive=True)
Z, G = sp.symbols("z g")


def r_transform() -> sp.Expr:
    """R(g) = Σ κ_n g^{n−1} of S, from the cumulants of the library, summed as a geometric series."""
    cumulants = bayes_wishart(RHO).free_cumulants(6)
    closed = sp.sqrt(RHO) / (1 - G / sp.sqrt(RHO))
    series = sp.series(closed, G, 0, 6).removeO()
    for n, cumulant in enumerate(cumulants):
        check(sp.simplify(series.coeff(G, n) - cumulant) == 0, f"kappa_{n + 1} is a coefficient of R")
    return closed


def cubic(closed: sp.Expr) -> sp.Expr:
    """z = R(g) + Δ g + 1/g, cleared of denominators."""
    equation = closed + DELTA * G + 1 / G - Z
    polynomial = sp.expand(sp.simplify(-equation * G * (1 - G / sp.sqrt(RHO))))
    root = sp.sqrt(RHO)
    published = DELTA / root * G**3 - (Z / root + DELTA) * G**2 + (Z + 1 / root - root) * G - 1
    check(sp.simplify(polynomial - published) == 0, "the cubic of [B]")
    return published


def edges(polynomial: sp.Expr) -> sp.Poly:
    """The discriminant in g: quartic in z, its roots double roots of g, where bands begin and end."""
    discriminant = sp.Poly(sp.expand(sp.discriminant(polynomial, G)), Z)
    check(discriminant.degree() == 4, "the discriminant is a quartic in z")
    return discriminant


def hold_the_library(polynomial: sp.Expr, discriminant: sp.Poly) -> None:
    """Bands and density at (ρ, Δ) = (1/2, 1/100) with its narrow gap, and (2, 1/10)."""
    for rho, delta, count in ((sp.Rational(1, 2), sp.Rational(1, 100), 2), (sp.Integer(2), sp.Rational(1, 10), 1)):
        values = {RHO: rho, DELTA: delta}
        quartic = [float(sp.N(c.subs(values), 30)) for c in discriminant.all_coeffs()]
        roots = np.roots(quartic)
        real = np.sort(roots.real[np.abs(roots.imag) < 1e-9])
        law = SemicircleConvolution(bayes_wishart(rho), delta)
        ends = np.array(law.support).ravel()
        check(len(law.support) == count and len(real) == 2 * count, f"{count} bands at rho = {rho}")
        check(bool(np.allclose(ends, real, atol=1e-7)), "the bands end at roots of the discriminant")
        inside = np.linspace(ends[0], ends[1], 7)[1:-1]
        for point in inside:
            coefficients = [
                float(c.subs(values).subs(Z, sp.Float(point, 20))) for c in sp.Poly(polynomial, G).all_coeffs()
            ]
            height = np.roots(coefficients).imag.max() / np.pi
            check(abs(float(law.density(point)) - height) < 1e-9, "the density is the imaginary part of a root")


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    closed = r_transform()
    polynomial = cubic(closed)
    discriminant = edges(polynomial)
    hold_the_library(polynomial, discriminant)
    leading = sp.factor(discriminant.LC())
    return Derivation(
        "The spectrum of a noisy Wishart matrix",
        (
            Step(
                "$S = W W^\\top/\\sqrt{rd}$ with a standard Gaussian $W$ of width $\\rho = r/d$ has free cumulants "
                "$\\kappa_n = \\rho^{1 - n/2}$, so its R-transform is a geometric series.",
                rf"R_S(g) = \sum_{{n \ge 1}} \rho^{{1 - n/2}} g^{{n-1}} = {sp.latex(closed)}",
            ),
            Step(
                "Noise $\\sqrt{\\Delta} Z$ is free of $S$ and adds $\\Delta g$: $g(z)$ inverts the sum.",
                r"z = R_S(g) + \Delta g + \frac{1}{g}",
            ),
            Step(
                "Cleared of denominators it is the cubic of [B].",
                r"\frac{\Delta}{\sqrt\rho} g^3 - \left( \frac{z}{\sqrt\rho} + \Delta \right) g^2 + \left( z + "
                r"\frac{1}{\sqrt\rho} - \sqrt\rho \right) g - 1 = 0",
            ),
            Step(
                "At an edge two roots $g$ meet: the discriminant in $g$, a quartic in $z$, vanishes. The "
                "library's bands end "
                "at its real roots, and its density is the imaginary part of a root, at $(\\rho, \\Delta) = "
                "(1/2, 1/100)$, where a narrow gap separates two bands, and at $(2, 1/10)$.",
                rf"\operatorname{{disc}}_g = {sp.latex(leading)} \, z^4 + \dots = 0",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
