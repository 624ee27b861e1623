"""11. The error of the optimal denoiser and its mutual information ([B]; Bun, Allez, Bouchaud and Potters 2016).

Result. With R = S + √Δ Z, Δ = 1/q̂, density f and Hilbert transform h = Re g,

    MMSE = Δ − (4π²/3) Δ² ∫f³,    I = ½∬ log|x − y| f f + ¼ log q̂ + 1/8,    dI/dq̂ = MMSE/4.

Two identities carry it: ∮ g³ = 0, and the complex Burgers equation ∂_Δ g = −g ∂_z g.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.spectra import GOE, SemicircleConvolution, bayes_wishart, mmse, mutual_information

H, F = sp.symbols("h f", real=True)
DELTA, QHAT, CUBE, SECOND = sp.symbols("Delta qhat F_3 Q_0", positive=True)
X, T = sp.symbols("x t", real=True)


def square_of_the_hilbert_transform() -> sp.Expr:
    """∫h²f = (π²/3)∫f³, from Im g³ integrated along the axis: g³ decays like z⁻³, so ∫ Im g³ = 0."""
    imaginary = sp.expand(sp.im(sp.expand((H - sp.I * sp.pi * F) ** 3)))
    check(sp.expand(imaginary - (sp.pi**3 * F**3 - 3 * sp.pi * H**2 * F)) == 0, "Im g^3")
    solved = sp.solve(sp.pi**3 * CUBE - 3 * sp.pi * sp.Symbol("y"), sp.Symbol("y"))[0]
    check(sp.simplify(solved - sp.pi**2 * CUBE / 3) == 0, "the integral of h^2 f")
    return solved


def error(square: sp.Expr) -> sp.Expr:
    """tr S² − tr Ŝ² with Ŝ = λ − 2Δh, tr R² = Q₀ + Δ, and ∫ λ h f = ½∬ (λ − μ)/(λ − μ) f f = ½."""
    estimate = (SECOND + DELTA) - 4 * DELTA * sp.Rational(1, 2) + 4 * DELTA**2 * square
    result = sp.expand(SECOND - estimate)
    check(sp.simplify(result - (DELTA - 4 * sp.pi**2 / 3 * DELTA**2 * CUBE)) == 0, "the MMSE")
    return result


def burgers() -> None:
    """∂_Δ g = −g ∂_z g for z = R(g) + Δ g + 1/g, any R; its imaginary part moves f along h."""
    g = sp.Function("g")(X, T)
    r = sp.Function("R")
    equation = r(g) + T * g + 1 / g - X
    along_t, along_x = sp.diff(equation, T), sp.diff(equation, X)
    rate = sp.solve(along_t, sp.diff(g, T))[0] / sp.solve(along_x, sp.diff(g, X))[0]
    check(sp.simplify(rate + g) == 0, "the Burgers equation")
    h, f = sp.Function("h", real=True)(X), sp.Function("f", real=True)(X)
    complex_g = h - sp.I * sp.pi * f
    moved = sp.expand(-sp.diff(complex_g**2, X) / 2)
    imaginary = sp.simplify((moved - moved.subs(sp.I, -sp.I)) / (2 * sp.I))
    check(sp.simplify(imaginary - sp.pi * sp.diff(h * f, X)) == 0, "d f/d Delta = -d(h f)/dx")


def information_rate(square: sp.Expr, mean_error: sp.Expr) -> sp.Expr:
    """dI/dq̂ by the chain rule Δ = 1/q̂; the log-energy grows at ∫ h (h f) = ∫h²f."""
    rate = square * sp.diff(1 / QHAT, QHAT) + sp.diff(sp.log(QHAT) / 4, QHAT)
    check(sp.simplify(rate - (mean_error / 4).subs(DELTA, 1 / QHAT)) == 0, "I-MMSE")
    return rate


def gaussian_case() -> sp.Expr:
    """GOE(1): the semicircle of variance v = 1 + Δ has ∫f³ = 3/(4π² v), so MMSE = 1/(1 + q̂), I = log(1 + q̂)/4."""
    v = 1 + DELTA
    angle = sp.Symbol("theta")
    # x = 2 sqrt(v) cos(theta), f = sin(theta)/(pi sqrt(v)).
    cube = sp.integrate((sp.sin(angle) / (sp.pi * sp.sqrt(v))) ** 3 * 2 * sp.sqrt(v) * sp.sin(angle), (angle, 0, sp.pi))
    check(sp.simplify(cube - 3 / (4 * sp.pi**2 * v)) == 0, "the cube of a semicircle")
    value = sp.simplify((DELTA - 4 * sp.pi**2 / 3 * DELTA**2 * cube).subs(DELTA, 1 / QHAT))
    check(sp.simplify(value - 1 / (1 + QHAT)) == 0, "the MMSE of a Gaussian prior")
    check(sp.simplify(sp.diff(sp.log(1 + QHAT) / 4, QHAT) - value / 4) == 0, "its information")
    check(abs(float(mmse(GOE(1), 3.0)) - float(value.subs(QHAT, 3))) < 1e-14, "the library's GOE")
    return value


def hold_the_library() -> None:
    """Wishart: the library's MMSE (a sum of posterior variances) against the cubed density, and dI/dq̂."""
    for width in ("1/2", "1", "2"):
        law = bayes_wishart(width)
        for qhat in (0.4, 5.0, 80.0):
            rule = SemicircleConvolution(law, 1 / qhat).quadrature
            cubed = 1 / qhat - 4 * np.pi**2 / 3 / qhat**2 * float(rule.cubic_density)
            check(abs(cubed - float(mmse(law, qhat))) < 1e-12, "MMSE by the cubed density")
            check(
                abs(float(rule.integrate(rule.points * (rule.points - rule.denoised) * qhat / 2)) - 0.5) < 1e-10, "1/2"
            )
            points = qhat * (1 + 0.01 * np.array([-3, -2, -1, 1, 2, 3]))
            slope = mutual_information(law, points) @ np.array([-1, 9, -45, 45, -9, 1]) / (0.6 * qhat)
            check(abs(slope - float(mmse(law, qhat)) / 4) < 1e-9, "dI/dqhat = MMSE/4")


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    square = square_of_the_hilbert_transform()
    mean_error = error(square)
    burgers()
    information_rate(square, mean_error)
    value = gaussian_case()
    hold_the_library()
    return Derivation(
        "The error of optimal denoising and its mutual information",
        (
            Step(
                "On the axis $g = h - i \\pi f$. Since $g^3$ decays, $\\int \\operatorname{Im} g^3 dx = 0$.",
                r"\operatorname{Im} g^3 = \pi^3 f^3 - 3 \pi h^2 f \quad\Rightarrow\quad \int h^2 f = "
                r"\frac{\pi^2}{3} \int f^3",
            ),
            Step(
                "The optimal denoiser is $\\lambda \\mapsto \\lambda - 2 \\Delta h(\\lambda)$. With $\\int "
                "\\lambda h f = 1/2$, by symmetry, and $\\operatorname{tr} R^2 = Q_0 + \\Delta$,",
                r"\operatorname{tr} \hat S^2 = Q_0 + \Delta - 2 \Delta + 4 \Delta^2 \int h^2 f",
            ),
            Step(
                "and the error is $\\operatorname{tr} S^2 - \\operatorname{tr} \\hat S^2$.",
                r"\mathrm{MMSE} = \Delta - \frac{4 \pi^2}{3} \Delta^2 \int f^3",
            ),
            Step(
                "Noise moves the spectrum by the Burgers equation, for any prior; its imaginary part transports "
                "$f$ along $h$.",
                r"\partial_\Delta g = - g \, \partial_z g, \qquad \partial_\Delta f = - \partial_x (h f)",
            ),
            Step(
                "So the log-energy, whose gradient is $h$, grows at the rate $\\int h^2 f$, and the information "
                "obeys the relation of Guo, Shamai and Verdu.",
                r"I = \frac12 \int\int \log|x - y| f f + \frac14 \log \hat q + \frac18, \qquad \frac{dI}{d\hat q} = "
                r"\frac14 \mathrm{MMSE}",
            ),
            Step(
                "A Gaussian prior of unit variance closes both.",
                rf"\mathrm{{MMSE}} = {sp.latex(value).replace('qhat', chr(92) + 'hat q')}, \qquad "
                r"I = \frac14 \log(1 + \hat q)",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
