"""2. Price's theorem and the gradient of the mean squared error (equations (22) and (23) of [D], arXiv:2609.03858).

Result. ∂Φ/∂Cov_ab = ½E ∂²𝓛/∂G_a∂G_b over ordered pairs. For ½‖F(G_1) − F(G_2)‖², tied, B the covariance of the forms
at q = 1:

    [∇Φ]_12 = −½ E⟨∇F(G_1)B^{1/2}, ∇F(G_2)B^{1/2}⟩ = −½ Σ_ν ρ^|ν| ‖(∇F B^{1/2})_ν‖²   (q_11 = q_22),

every term a square: negative for ρ > 0 unless ∇F vanishes. The Gaussian law comes from derivation 1; the gradient is
derived symbolically here, and the potential of ``aimtheory.population`` is asserted to agree. Run it: it prints LaTeX.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.model.activations import Hermite, Polynomial, Softmax
from aimtheory.model.losses import FORMS, MeanSquaredError
from aimtheory.population import potential
from aimtheory.population.closed_forms import gradient_by_pairs, isserlis, tied_symbols
from aimtheory.population.sites import pairwise_sites


def heat_equation() -> str:
    """The Gaussian density solves ∂p/∂Σ_11 = ½∂²p/∂x_1² and, for the shared entry, ∂p/∂Σ_12 = ∂²p/∂x_1∂x_2."""
    x, y = sp.symbols("x y", real=True)
    a, b, c = sp.symbols("a b c", positive=True)
    covariance = sp.Matrix([[a, c], [c, b]])
    point = sp.Matrix([x, y])
    density = sp.exp(-(point.T * covariance.inv() * point)[0] / 2) / (2 * sp.pi * sp.sqrt(covariance.det()))
    diagonal = sp.diff(density, a) - sp.diff(density, x, 2) / 2
    shared = sp.diff(density, c) - sp.diff(density, x, y)
    check(sp.simplify(diagonal / density) == 0, "the density solves the heat equation in a variance")
    check(sp.simplify(shared / density) == 0, "the density solves the heat equation in a covariance")
    return (
        r"\frac{\partial p}{\partial\Sigma_{ab}} = \frac12\frac{\partial^2p}{\partial x_a\partial x_b}"
        r"\quad\Longrightarrow\quad "
        r"\frac{\partial\Phi}{\partial\Sigma_{ab}} = \frac12\,E\,\frac{\partial^2\mathcal L}{\partial G_a\partial G_b}"
    )


def cross_hessian() -> str:
    """∂²𝓛/∂G_1∂G_2 = −∇F(G_1)ᵀ∇F(G_2), checked on the softmax of two tokens, all 16 entries."""
    loss = MeanSquaredError("softmax").expression(2)
    softmax = Softmax()
    pairs = [(i, j) for i in range(2) for j in range(2)]
    jacobians = []
    for k in range(2):
        outputs = list(softmax.expression(sp.Matrix(2, 2, lambda i, j, k=k: FORMS[i, j, k])))
        jacobians.append(sp.Matrix(4, 4, lambda o, a, outputs=outputs, k=k: outputs[o].diff(FORMS[(*pairs[a], k)])))
    product = -jacobians[0].T * jacobians[1]
    rng = np.random.default_rng(0)
    for a in range(4):
        for b in range(4):
            gap = loss.diff(FORMS[(*pairs[a], 0)]).diff(FORMS[(*pairs[b], 1)]) - product[a, b]
            # An identity between rational functions of exponentials; random rational points decide it.
            for _ in range(2):
                values = {form: sp.Rational(int(rng.integers(-9, 9)), 7) for form in gap.atoms(sp.Indexed)}
                check(abs(gap.subs(values).evalf(40)) < sp.Float("1e-35", 40), "the mixed Hessian factorizes")
    return (
        r"\frac{\partial^2\mathcal L}{\partial G_1\,\partial G_2} = -\nabla F(G_1)^\top\nabla F(G_2),\qquad"
        r"[\nabla\Phi]_{12} = -\frac12\,E\left\langle\nabla F(G_1)B^{1/2},\,\nabla F(G_2)B^{1/2}\right\rangle_F"
    )


def hermite_series() -> tuple[str, sp.Expr]:
    """(23) at L = 1 for a generic quartic F: Isserlis on one side, Hermite coefficients on the other."""
    coefficients = sp.symbols("a_0:5", real=True)
    q, rho, x, y, z = sp.symbols("q rho x y z", positive=True)
    slope = sum(n * c * x ** (n - 1) for n, c in enumerate(coefficients) if n)
    # B = 2 at L = 1 (C_ii'C_jj' + C_ij'C_ji'), so Var G = 2q and Cov(G_1, G_2) = 2qρ.
    law = 2 * q * sp.Matrix([[1, rho], [rho, 1]])
    product = sp.Poly(sp.expand(slope * slope.subs(x, y)), x, y)
    average = sum(c * isserlis(powers, (0, 0), law) for powers, c in product.terms())
    direct = sp.expand(-sp.Rational(1, 2) * 2 * average)

    gaussian = sp.Matrix([[1]])

    def coefficient(n: int) -> sp.Expr:
        integrand = sp.Poly(
            sp.expand(slope.subs(x, sp.sqrt(2 * q) * z) * sp.sqrt(2) * Hermite(n).scalar_expression(z)), z
        )
        return sum(c * isserlis(powers, (0,), gaussian) for powers, c in integrand.terms())

    series = -sp.Rational(1, 2) * sum(rho**n * coefficient(n) ** 2 for n in range(4))
    check(sp.expand(direct - series) == 0, "Isserlis and the Hermite series agree")

    # The library's potential, with exact coefficients in place of symbols.
    numbers = [sp.Rational(n, d) for n, d in ((1, 3), (-2, 1), (1, 2), (3, 5), (1, 7))]
    symbols = tied_symbols(2)
    phi = potential(MeanSquaredError(Polynomial(numbers)), 1).symbolic_tied_value()
    gradient = gradient_by_pairs(phi, symbols)[0, 1]
    on_line = gradient.subs({symbols[0, 0]: q, symbols[1, 1]: q, symbols[0, 1]: q * rho})
    expected = direct.subs(dict(zip(coefficients, numbers, strict=True)))
    check(sp.expand(on_line - expected) == 0, "the library's potential has this gradient")
    formula = (
        r"[\nabla\Phi]_{12} = -\frac12\sum_\nu\rho^{|\nu|}\,\left\|\left(\nabla F\,B^{1/2}\right)_\nu\right\|^2,"
        r"\qquad (f)_\nu = E\,f(G)\,h_\nu(z)"
    )
    return formula, series


def logistic_reduction() -> str:
    """Two tokens: rows have equal law, a row is a logistic of u = G_12 − G_11 with Var u = 3q."""
    _, sites = pairwise_sites(MeanSquaredError("softmax").output_products, np.eye(2))
    (site,) = sites
    check(site.multiplicity == 2 and site.sizes == (1, 1), "two equal rows, one difference each")
    # By hand, at C = 1: Cov(G_1j, G_1j') = (δ_11 δ_jj' + δ_1j' δ_j1) q, and u = G_12 − G_11.
    row = sp.Matrix(2, 2, lambda j, k: int(j == k) + int(k == 0) * int(j == 0))
    variance = (sp.Matrix([[-1, 1]]) * row * sp.Matrix([-1, 1]))[0]
    check(variance == 3, "Var u = 3q")
    check(bool(np.all(site.law.first + site.law.second == 3.0)), "the library has the same variance")
    s1, s2 = sp.symbols("s_1 s_2")
    two_rows_two_columns = sp.Rational(1, 2) * 2 * ((s1 - s2) ** 2 + ((1 - s1) - (1 - s2)) ** 2)
    check(sp.expand(two_rows_two_columns - 2 * (s1 - s2) ** 2) == 0, "four squares are twice one")
    return (
        r"\Phi(q) = 2\,E\,(s(u_1)-s(u_2))^2,\quad \mathrm{Cov}(u_k,u_l) = 3q_{kl},\qquad "
        r"[\nabla\Phi]_{12} = -6\,E\,s'(u_1)s'(u_2)"
    )


def logistic_gradient() -> None:
    """The library's softmax gradient against −6 E s'(u_1)s'(u_2), summed on an independent grid."""
    q = np.array([[1.2, 0.5], [0.5, 0.8]])
    x = np.linspace(-10, 10, 401)
    weights = np.exp(-(x**2) / 2)
    weights /= weights.sum()
    root = np.linalg.cholesky(3 * q)
    first = root[0, 0] * x[:, None]
    second = root[1, 0] * x[:, None] + root[1, 1] * x[None, :]
    slope = lambda u: 1 / (4 * np.cosh(u / 2) ** 2)  # noqa: E731
    expected = -6 * weights @ (slope(first) * slope(second)) @ weights
    gradient, _ = potential(MeanSquaredError("softmax"), 2).tied_gradient(q)
    check(abs(gradient[0, 1] - expected) < 1e-9, "the library's softmax gradient is the logistic integral")


def derive() -> Derivation:
    """The steps, each asserted."""
    price = heat_equation()
    cross = cross_hessian()
    formula, series = hermite_series()
    reduction = logistic_reduction()
    logistic_gradient()
    rho = sp.Symbol("rho", positive=True)
    steps = (
        Step(
            "The Gaussian density solves the heat equation in its covariance. Counting $(a,b)$ and $(b,a)$ separately, "
            "integration by parts gives Price's theorem:",
            price,
        ),
        Step(
            "On the tied line $\\mathrm{Cov}(G_{ijk},G_{i'j'l}) = B_{ij,i'j'}\\,q_{kl}$ with "
            "$B = (C\\otimes C)(1+P)$, hence",
            r"[\nabla\Phi]_{kl} = \frac12\sum_{a,b}B_{ab}\,"
            r"E\,\frac{\partial^2\mathcal L}{\partial G_{ak}\,\partial G_{bl}}",
        ),
        Step("For the mean squared error the mixed Hessian factorizes, which is equation (22):", cross),
        Step(
            "At $q_{11}=q_{22}=q$ and $\\rho=q_{12}/q$, Mehler's formula diagonalizes the average, equation (23); "
            "every term is a square, so that the gradient is negative for $\\rho>0$:",
            formula,
        ),
        Step(
            "For $L=1$ and $F = a_0 + a_1x+\\dots+a_4x^4$ the series is",
            rf"[\nabla\Phi]_{{12}} = {sp.latex(sp.collect(sp.expand(series), rho))}",
        ),
        Step("For the softmax of two tokens the sum over two rows and two columns is a logistic integral:", reduction),
    )
    return Derivation("Price's theorem and the gradient of the mean squared error", steps)


if __name__ == "__main__":
    main(derive)
