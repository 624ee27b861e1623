"""The exactly solvable case of [D], appendix D.3: potential, Riccati flow, its solution, and its Taylor truncations."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp
from document import Derivation, Step, check, main

import aimtheory as aim
from aimtheory.hierarchy import Coupling
from aimtheory.hierarchy.moments import moment_symbol

ORDER = 5
"""Orders of time to which noncommutative power series are compared."""

TIME = sp.Symbol("t", positive=True)
Word = tuple[int, ...]


def potential() -> tuple[sp.Expr, sp.Matrix]:
    """Phi = E (G_1 - G_2)^2 with Cov(G_k, G_l) = 2 q_kl (one token), and its gradient by Price's theorem."""
    q11, q12, q22 = sp.symbols("q_11 q_12 q_22", real=True)
    q = sp.Matrix([[q11, q12], [q12, q22]])
    G = sp.symbols("G_1 G_2", real=True)
    loss = (G[0] - G[1]) ** 2
    hessian = sp.hessian(loss, G)  # constant, so that its expectation is itself
    value = sp.expand(sum(hessian[k, l] * 2 * q[k, l] for k in range(2) for l in range(2)) / 2)
    check(value == 2 * q11 + 2 * q22 - 4 * q12, "the potential")
    # d Phi = 1/2 sum E[Hessian_kl] d Cov_kl with d Cov_kl = 2 dq_kl.
    gradient = hessian
    for shared in (q11, q12, q22):
        differential = sum(gradient[k, l] * sp.diff(q[k, l], shared) for k in range(2) for l in range(2))
        check(differential == sp.diff(value, shared), "d Phi = sum_kl gradient_kl dq_kl")
    return value, gradient


def noncommutative_series(dim_free_order: int) -> None:
    """X = S_1^{-1} solves dX/dt = 4 - 2 (S_2 X + X S_2): order by order in t, with symbols that do not commute."""
    A, X0 = sp.symbols("A X_0", commutative=False)
    exponential = [(-2 * A) ** n / sp.factorial(n) for n in range(dim_free_order + 2)]

    def coefficient(n: int) -> sp.Expr:
        """Of t^n in exp(-2At) X_0 exp(-2At) + A^{-1} (1 - exp(-4At))."""
        first = sum(exponential[a] * X0 * exponential[n - a] for a in range(n + 1))
        # A^{-1} (1 - exp(-4At)) has the coefficient -(-4)^n A^{n-1}/n! for n >= 1 and none at n = 0.
        second = -(sp.Integer(-4) ** n) * A ** (n - 1) / sp.factorial(n) if n else 0
        return sp.expand(first + second)

    check(coefficient(0) == X0, "the initial value")
    for n in range(dim_free_order + 1):
        right = -2 * (A * coefficient(n) + coefficient(n) * A) + (4 if n == 0 else 0)
        check(sp.expand((n + 1) * coefficient(n + 1) - right) == 0, f"the linear flow at order t^{n}")
    # d(X^{-1})/dt = -X^{-1} X' X^{-1} turns it into the Riccati flow of S = X^{-1}.
    S = sp.Symbol("S", commutative=False)
    linear = 4 - 2 * (A * S**-1 + S**-1 * A)
    riccati = sp.expand(-S * linear * S)
    check(sp.expand(riccati - (2 * (S * A + A * S) - 4 * S**2)) == 0, "the Riccati flow of the inverse")


def matrix_series(S1: sp.Matrix, S2: sp.Matrix, order: int) -> list[sp.Matrix]:
    """Taylor coefficients of S_1(t) from the Riccati flow, exact rational matrices."""
    series = [S1]
    for n in range(order):
        square = sum((series[a] * series[n - a] for a in range(n + 1)), sp.zeros(*S1.shape))
        series.append((2 * (series[n] * S2 + S2 * series[n]) - 4 * square) / (n + 1))
    return series


def closed_form_series(S1: sp.Matrix, S2: sp.Matrix, order: int) -> list[sp.Matrix]:
    """Taylor coefficients of the inverse of exp(-2 S2 t) S1^{-1} exp(-2 S2 t) + S2^{-1} (1 - exp(-4 S2 t))."""
    exponential = [(-2 * S2) ** n / sp.factorial(n) for n in range(order + 1)]
    start = S1.inv()
    inverse = []
    for n in range(order + 1):
        term = sum((exponential[a] * start * exponential[n - a] for a in range(n + 1)), sp.zeros(*S1.shape))
        if n:
            term -= (-4) ** n * S2 ** (n - 1) / sp.factorial(n)
        inverse.append(term)
    series = [S1]
    for n in range(1, order + 1):  # sum_a X_a S_{n-a} = 0
        rest = sum((inverse[a] * series[n - a] for a in range(1, n + 1)), sp.zeros(*S1.shape))
        series.append(-S1 * rest)
    return series


def compare_series() -> None:
    """The solution against the flow: numbers, and rational matrices that do not commute, to order t^4 and exactly."""
    pairs = [
        (sp.Matrix([[sp.Rational(1, 3)]]), sp.Matrix([[2]])),
        (sp.Matrix([[2, 1], [1, 3]]), sp.Matrix([[1, sp.Rational(-1, 2)], [sp.Rational(-1, 2), 4]])),
        (sp.Matrix([[1, 0, 1], [0, 2, 1], [1, 1, 3]]), sp.Matrix([[2, 1, 0], [1, 1, 0], [0, 0, 1]])),
    ]
    for S1, S2 in pairs:
        check(closed_form_series(S1, S2, 4) == matrix_series(S1, S2, 4), "the closed form solves the matrix flow")


def eigenvalue_flow() -> sp.Expr:
    """With S_2 = c 1 every eigenvalue follows dl/dt = 4 c l - 4 l^2 ([D] (347)-(348))."""
    c, start = sp.symbols("c lambda_0", positive=True)
    solution = c * start / (start + (c - start) * sp.exp(-4 * c * TIME))
    check(sp.simplify(sp.diff(solution, TIME) - 4 * c * solution + 4 * solution**2) == 0, "the flow of an eigenvalue")
    check(sp.simplify(solution.subs(TIME, 0) - start) == 0, "its initial value")
    check(sp.limit(solution, TIME, sp.oo) == c, "its limit")
    inverse = sp.exp(-4 * c * TIME) / start + (1 - sp.exp(-4 * c * TIME)) / c
    check(sp.simplify(1 / inverse - solution) == 0, "it is the closed form at S_2 = c 1")
    return solution


def bracelet(word: Word) -> Word:
    """Traces of symmetric matrices are equal under rotation and reversal."""
    return min(form[n:] + form[:n] for form in (word, word[::-1]) for n in range(len(word)))


def along_flow(combination: Mapping[Word, sp.Expr]) -> dict[Word, sp.Expr]:
    """d/dt of a combination of traces, each letter 1 replaced by 2 (12 + 21) - 4 (11)."""
    total: dict[Word, sp.Expr] = {}
    for word, coefficient in combination.items():
        for position, letter in enumerate(word):
            if letter != 1:
                continue
            for product, factor in (((1, 2), 2), ((2, 1), 2), ((1, 1), -4)):
                target = bracelet((*word[:position], *product, *word[position + 1 :]))
                total[target] = total.get(target, 0) + factor * coefficient
    return {word: value for word, value in total.items() if value != 0}


def symbol_of(word: Word) -> sp.Symbol:
    return sp.Symbol(f"tr({' '.join(f'S{k}' for k in word)})", real=True)


def taylor(word: Word, degree: int) -> sp.Expr:
    """The Taylor polynomial of tr(word) along the exact flow, moments up to ``degree``: order degree - |word|."""
    total, current = sp.S.Zero, {bracelet(word): sp.S.One}
    for n in range(degree - len(word) + 1):
        total += sum(value * symbol_of(w) for w, value in current.items()) * TIME**n / sp.factorial(n)
        current = along_flow(current)
    return sp.expand(total)


def zero_closure(degree: int) -> dict[Word, sp.Expr]:
    """The library's hierarchy with longer words set to zero, integrated exactly from the longest words down."""
    hierarchy = aim.derive(aim.models.load("exact-linear"), degree)
    constants = {Coupling("gradient", 0, 0).symbol: sp.Integer(2), Coupling("gradient", 0, 1).symbol: sp.Integer(-2)}
    known: dict[sp.Symbol, sp.Expr] = {moment_symbol(word): sp.S.Zero for word in hierarchy.missing}
    result: dict[Word, sp.Expr] = {}
    for word in reversed(hierarchy.words):
        start = moment_symbol(word)
        right = sp.expand(hierarchy.equations[word].xreplace(constants).xreplace(known))
        known[start] = sp.expand(start + sp.integrate(right, (TIME, 0, TIME)))
        result[tuple(int(letter.name[1:]) for letter in word)] = known[start]
    return result


def show(expression: sp.Expr) -> str:
    """A polynomial in t with moments written as mu with the indices of the word, ascending powers."""
    names = {
        s: sp.Symbol("mu_" + "".join(ch for ch in s.name if ch.isdigit())) for s in expression.free_symbols - {TIME}
    }
    polynomial = sp.Poly(expression.xreplace(names), TIME)
    parts: list[str] = []
    for (power,), coefficient in sorted(polynomial.terms()):
        content, rest = sp.factor_terms(coefficient).as_coeff_Mul()
        sign = "-" if content < 0 else ("+" if parts else "")
        factor = "" if abs(content) == 1 else sp.latex(abs(content))
        time = {0: "", 1: "t"}.get(power, f"t^{{{power}}}")
        body = sp.latex(rest)
        body = rf"\left({body}\right)" if rest.is_Add and (factor or time or sign == "-") else body
        parts.append(f"{sign} {factor} {time} {body}".strip())
    return " ".join(parts)


def derive() -> Derivation:
    """Carry out appendix D.3 and hold the library to it."""
    value, gradient = potential()
    check(gradient == sp.Matrix([[2, -2], [-2, 2]]), "the gradient of the potential")
    noncommutative_series(ORDER)
    compare_series()
    solution = eigenvalue_flow()
    steps = [
        Step(
            "One token, $\\mathcal{L} = (G_1 - G_2)^2$ and $\\operatorname{Cov}(G_k, G_l) = 2 q_{kl}$: the potential "
            "and its gradient (an off-diagonal entry is half the derivative by the shared variable).",
            rf"\Phi(q) = {sp.latex(value)}, \qquad \nabla\Phi = {sp.latex(gradient)}",
        ),
        Step(
            "With $\\gamma = 0$ the flow $dS_1/dt = -(H S_1 + S_1 H)$, $H = 2 S_1 - 2 S_2$, is a matrix "
            "Riccati equation.",
            r"\frac{dS_1}{dt} = 2 (S_1 S_2 + S_2 S_1) - 4 S_1^2",
        ),
        Step(
            f"Its inverse $X = S_1^{{-1}}$ follows a linear equation; the solution is verified to order $t^{ORDER}$ "
            "with letters that do not commute.",
            r"\frac{dX}{dt} = 4 - 2 (S_2 X + X S_2), \qquad X(t) = e^{-2 S_2 t} X(0) \, e^{-2 S_2 t} + S_2^{-1} "
            r"\left( 1 - e^{-4 S_2 t} \right)",
        ),
        Step(
            "So the student is known at all times.",
            r"S_1(t) = \left[ e^{-2 S_2 t} S_1(0)^{-1} e^{-2 S_2 t} + S_2^{-1} \left( 1 - e^{-4 S_2 t} \right) "
            r"\right]^{-1}",
        ),
        Step(
            "With $S_2 = c \\cdot 1$ every eigenvalue follows a logistic curve.",
            rf"\frac{{d\lambda}}{{dt}} = 4 c \lambda - 4 \lambda^2, \qquad \lambda(t) = {sp.latex(solution)}",
        ),
    ]
    for degree in (2, 3, 5):
        closed = zero_closure(degree)
        for word, found in closed.items():
            check(sp.expand(found - taylor(word, degree)) == 0, f"degree {degree} of tr{word} is a Taylor polynomial")
        if degree > 3:
            continue
        moving = [word for word in sorted(closed, key=lambda w: (len(w), w)) if 1 in word and len(word) < degree]
        lines = [rf"\mu_{{{''.join(map(str, word))}}}(t) &= {show(closed[word])}" for word in moving]
        steps.append(
            Step(
                f"Words longer than {degree} set to zero, the hierarchy gives the Taylor polynomials of the exact flow "
                f"([D] ({338 + degree})); longer words stay constant.",
                "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}",
            )
        )
    return Derivation("The exactly solvable case of tied attention", tuple(steps))


if __name__ == "__main__":
    main(derive)
