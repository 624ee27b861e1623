"""15. The exact dynamics of tied attention: from the flow of W to one scalar equation, and to every moment (ours).

Result. For W' = −(g S + Σ_l g_l f_l(X) + γ/4) W, S = W Wᵀ with S(0) = A free from X and g(t), g_l(t) any functions,

    S = E (A⁻¹ + Y)⁻¹ E,   E = exp(−Σ_l f_l(X) ∫g_l − γt/4),   Y = 2 ∫ g E²,

    tr S f(X) = tr E² f R,   R = 1/(Y + ω),   tr R = tr A(1 + ω'A)⁻¹ = 1/(ω + ω'),

    tr(S f S h) = tr E⁴ f h R² − c tr(E² f R²) tr(E² h R²),   c = η/(D + r η),   η = 1 − D/(tr R)²,

with D = tr A²(1 + ω'A)⁻² and r = tr R². Symbols that do not commute give the first line, free cumulants the second,
differentiation the third; the library must agree with each.
"""

from __future__ import annotations

import mpmath
import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.spectra import Atomic, FreeFamily, Wishart
from aimtheory.spectra.dressed_inverse import DressedInverse, StartRule

ORDER = 3
"""Order in Y to which the scalar equation is compared with the mixed moments of free matrices."""


def flow_solved() -> None:
    """S = E N E with N = (A⁻¹ + Y)⁻¹ obeys S' = −2g S² − (aS + Sa), a = Σ g_l f_l + γ/4, when a and E commute."""
    E, N, a = sp.symbols("E N a", commutative=False)
    g = sp.Symbol("g", real=True)
    change_E = -a * E
    change_Y = 2 * g * E**2
    change_N = -N * change_Y * N
    left = change_E * N * E + E * change_N * E + E * N * (-E * a)
    S = E * N * E
    right = -2 * g * S**2 - a * S - S * a
    check(sp.expand(left - right) == 0, "the Riccati flow of S")


def stable_variables() -> None:
    """On an eigenvalue of X: B = Y/E² and Z = Y/(1 + E²) obey equations whose coefficients stay bounded."""
    t = sp.Symbol("t", positive=True)
    a, g = sp.Function("a")(t), sp.Function("g")(t)
    Y, L = sp.Function("Y")(t), sp.Function("L")(t)  # L = −2 log E

    def flow(expression: sp.Expr) -> sp.Expr:
        return expression.diff(t).subs({Y.diff(t): 2 * g * sp.exp(-L), L.diff(t): 2 * a})

    B, Z = Y * sp.exp(L), Y / (1 + sp.exp(-L))
    check(sp.simplify(flow(B) - 2 * g - 2 * a * B) == 0, "B' = 2g + 2aB")
    weight = sp.exp(-L) / (1 + sp.exp(-L))
    check(sp.simplify(flow(Z) - weight * (2 * g + 2 * a * Z)) == 0, "Z' = E²/(1 + E²) (2g + 2aZ)")


def subordination() -> None:
    """R-transforms add: with G_X(0) = −g, G_P(−ω') = −g, G_Y(−ω) = −g for X = P + Y, the arguments add to 1/g."""
    g, first, second = sp.symbols("g R_P R_Y")
    # K = R + 1/g' at g' = −g is the point where the transform takes that value.
    omega_prime, omega = -(first - 1 / g), -(second - 1 / g)
    at_zero = first + second - 1 / g  # R_X(−g) − 1/g, which must vanish
    check(sp.simplify(omega + omega_prime - 1 / g + at_zero) == 0, "ω + ω' = 1/g")


def scalar_equation_in_powers() -> sp.Expr:
    """tr (A⁻¹ + εY)⁻¹ = Σ (−ε)ⁿ tr A (YA)ⁿ: from the scalar equation, and from non-crossing partitions."""
    eps = sp.Symbol("epsilon", positive=True)
    laws = {"A": Wishart(width=sp.Rational(1, 2), trace=sp.Rational(2, 3)), "Y": Wishart(width=2, trace=1)}
    a = [sp.sympify(m) for m in laws["A"].moments(ORDER + 1)]
    y = [sp.Integer(1), *(sp.sympify(m) for m in laws["Y"].moments(ORDER))]
    unknowns = sp.symbols(f"c_1:{ORDER + 1}")
    other = sum(c * eps**n for n, c in enumerate(unknowns, start=1))

    def cut(expression: sp.Expr) -> sp.Expr:
        polynomial = sp.Poly(sp.expand(expression), eps)
        return sum(polynomial.coeff_monomial(eps**n) * eps**n for n in range(ORDER + 1))

    g = cut(sum((-other) ** n * a[n] for n in range(ORDER + 1)))
    # 1 = g (ω + ω') and g = Σ (−ε)ⁿ yₙ/ω^{n+1}: with p = 1/ω = g/(1 − ω'g).
    inverse = cut(g * sum(cut(other * g) ** n for n in range(ORDER + 1)))
    gap = cut(sum((-eps) ** n * y[n] * cut(inverse ** (n + 1)) for n in range(ORDER + 1)) - g)
    solved: dict[sp.Symbol, sp.Expr] = {}
    for n, unknown in enumerate(unknowns, start=1):
        equation = sp.Poly(sp.expand(sp.Poly(gap, eps).coeff_monomial(eps**n).subs(solved)), unknown)
        check(equation.degree() == 1, f"the order {n} of omega' follows from the lower ones")
        solved[unknown] = -equation.coeff_monomial(1) / equation.coeff_monomial(unknown)
    result = sp.Poly(g, eps)
    family = FreeFamily(laws)
    for n in range(ORDER + 1):
        known = (-1) ** n * sp.sympify(family.moment("A" + "YA" * n))
        check(sp.expand(result.coeff_monomial(eps**n).subs(solved)) == known, f"tr A (YA)^{n}")
    rho, tau = sp.symbols("rho tau", positive=True)
    symbolic = FreeFamily({"A": Wishart(width=rho, trace=tau), "Y": Wishart(width=2, trace=1)})
    return sp.factor(sp.sympify(symbolic.moment("AYAYA")))


def two_point_formula() -> sp.Expr:
    """ω̇ under Y → Y + εφ, from the derivatives of both sides of the scalar equation."""
    g, D, r, e = sp.symbols("g D r e", positive=True)  # e = tr R² φ
    omega, other, change = sp.symbols("omega_dot other_dot g_dot")
    solution = sp.solve(
        [change + e + r * omega, change + D * other, omega + other + change / g**2], [omega, other, change], dict=True
    )
    eta = 1 - D / g**2
    expected = -e * eta / (D + r * eta)
    check(sp.simplify(solution[0][omega] - expected) == 0, "the change of ω")
    return expected


def stieltjes() -> None:
    """(z − S)⁻¹ = 1/z + z⁻² E Q E with Q = (A⁻¹ + Y − E²/z)⁻¹: multiply by z − S."""
    z = sp.Symbol("z")
    E, M, Q = sp.symbols("E M Q", commutative=False)
    # With M = A⁻¹ + Y and (M − E²/z) Q = 1: E² Q = z (M Q − 1).
    product = z * (1 / z + E * Q * E / z**2) - E * M**-1 * E / z - E * M**-1 * (z * (M * Q - 1)) * E / z**2
    check(sp.expand(product - 1) == 0, "the resolvent of S")


def hold_the_library() -> None:
    """Two atoms each: the scalar equation in mpmath, the formulas above, against the library."""
    s, u = [mpmath.mpf(1) / 2, mpmath.mpf(2)], [mpmath.mpf(1) / 4, mpmath.mpf(3) / 4]
    x, w = [mpmath.mpf(1) / 3, mpmath.mpf(3)], [mpmath.mpf(2) / 5, mpmath.mpf(3) / 5]
    E2, Y = [mpmath.exp(v / 2) for v in x], [v / 5 + mpmath.mpf(1) / 7 for v in x]

    def tr(*factors: list[mpmath.mpf]) -> mpmath.mpf:
        return mpmath.fsum(weight * mpmath.fprod(values) for weight, *values in zip(w, *factors, strict=True))

    with mpmath.workdps(30):

        def resolvent(omega: mpmath.mpf) -> list[mpmath.mpf]:
            return [1 / (v + omega) for v in Y]

        def gap(omega: mpmath.mpf) -> mpmath.mpf:
            g = tr(resolvent(omega))
            return mpmath.fsum(b * a / (1 + (1 / g - omega) * a) for a, b in zip(s, u, strict=True)) - g

        omega = mpmath.findroot(gap, 1)
        R = resolvent(omega)
        g = tr(R)
        D = mpmath.fsum(b * (a / (1 + (1 / g - omega) * a)) ** 2 for a, b in zip(s, u, strict=True))
        eta = 1 - D / g**2
        response = eta / (D + tr(R, R) * eta)
        trace = tr(E2, R)
        mixed = tr(E2, R, x)
        square = tr(E2, E2, R, R) - response * tr(E2, R, R) ** 2
    weights, kernel = np.array(w, dtype=float), -np.log(np.array(E2, dtype=float))
    scaled = np.array([float(v / (1 + e)) for v, e in zip(Y, E2, strict=True)])
    start = StartRule.of(np.array(s, dtype=float), np.array(u, dtype=float))
    S, one = DressedInverse(weights, kernel, scaled, start), np.ones(2)
    for value, known, name in (
        (S.trace(one), trace, "tr S"),
        (S.trace(np.array(x, dtype=float)), mixed, "tr S X"),
        (S.pair(one, one), square, "tr S²"),
    ):
        check(abs(value - float(known)) < 1e-13 * float(known), f"the library's {name}")
    law = Atomic([1, 2])
    check(abs(StartRule.of_law(law, 8).trace - 1.5) < 1e-15, "the library's rule of an atomic law")


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    flow_solved()
    stable_variables()
    subordination()
    third = scalar_equation_in_powers()
    change = two_point_formula()
    stieltjes()
    hold_the_library()
    return Derivation(
        "The exact dynamics of tied attention",
        (
            Step(
                "One trained tied matrix, fixed forms that are functions of one fixed matrix $X$, couplings that are "
                "any functions of time.",
                r"W' = -\Big(g S + \sum_l g_l f_l(X) + \frac{\gamma}{4}\Big) W, \qquad S = W W^\top, \quad S(0) = A",
            ),
            Step(
                "All but the first term commutes. With $W = E Z$ what is left is $Z' = -g Z Z^\\top E^2 Z$, so "
                "$(Z Z^\\top)^{-1}$ grows by $Y$; a kernel of $A$ stays a kernel.",
                r"S = E (A^{-1} + Y)^{-1} E, \quad E = \exp\Big(-\sum_l f_l(X) \int g_l - \frac{\gamma t}{4}\Big), "
                r"\quad Y = 2 \int g E^2",
            ),
            Step(
                "$A^{-1}$ is free from $Y$. R-transforms add, and the conditional expectation on the algebra of $X$ is "
                "a resolvent of $Y$.",
                r"\mathrm{tr} R = \mathrm{tr} \frac{A}{1 + \omega' A} = \frac{1}{\omega + \omega'}, \quad "
                r"R = \frac{1}{Y + \omega}, \quad \mathrm{tr} S f(X) = \mathrm{tr} E^2 f R",
            ),
            Step(
                "Order by order in $Y$ it gives the mixed moments of free matrices; for two Wishart matrices, the one "
                "of width 2 and unit trace,",
                r"\mathrm{tr} A Y A Y A = " + sp.latex(third),
            ),
            Step(
                r"A second letter $S$ is a derivative along $Y \to Y + \epsilon E^2 f$, under which, with "
                r"$e = \mathrm{tr} R^2 E^2 f$, $r = \mathrm{tr} R^2$ and $D = \mathrm{tr} A^2 (1 + \omega' A)^{-2}$,",
                r"\dot\omega = " + sp.latex(change),
            ),
            Step(
                "so that the overlap of the trained matrix with itself, which closes the potential, is known.",
                r"\mathrm{tr} S f S h = \mathrm{tr} E^4 f h R^2 + \dot\omega\, \mathrm{tr} E^2 h R^2",
            ),
            Step(
                "The same equation with $Y - E^2/z$ for $Y$ gives the spectrum.",
                r"\mathrm{tr} (z - S)^{-1} = \frac{1}{z} + \frac{1}{z^2} \mathrm{tr} \frac{E^2}{Y - E^2/z + \omega_z}",
            ),
            Step(
                "For long times and large weight decay the state is carried in a bounded variable, with "
                "$a = \\sum_l g_l f_l + \\gamma/4$.",
                r"Z = \frac{Y}{1 + E^2}, \qquad Z' = \frac{E^2}{1 + E^2} (2 g + 2 a Z)",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
