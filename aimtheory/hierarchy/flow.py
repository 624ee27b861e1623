"""The flow of the parameters under online SGD, from the cyclic derivative: no case analysis of parameterizations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.model import AttentionModel
from aimtheory.words import Letter, Polynomial, cotangent_pullback

CoupledPolynomial = Mapping[Coupling, Polynomial]
"""sum_c c P_c: a polynomial for each scalar coupling, with rational coefficients."""


@dataclass(frozen=True)
class ParameterFlow:
    """d theta/dt of every trained parameter letter, linear in the couplings; letters that are absent are constant."""

    drift: Mapping[Letter, CoupledPolynomial]
    couplings: tuple[Coupling, ...]


def attention_gradient(model: AttentionModel, k: int) -> CoupledPolynomial:
    r"""H_k = d x dPhi/dS_k, the gradient of the population loss by the attention matrix S_k, of order one.

    The gradient is H_k = beta_k 1 + 2 sum_l (g1_kl S_l + g2_kl S_l^T), the first term only for forms with a mean. When
    every S_l is symmetric, g1 and g2 enter through their sum g_kl = [grad Phi]_kl alone, and H_k = 2 sum_l g_kl S_l.
    Exact as d tends to infinity.
    """
    matrices = [form.matrix for form in model.forms]
    symmetric = model.symmetric
    gradient: dict[Coupling, Polynomial] = {}

    def add(coupling: Coupling, term: Polynomial) -> None:
        gradient[coupling] = gradient[coupling] + term if coupling in gradient else term

    if not model.centred:
        add(Coupling("bias", k), Polynomial.identity())
    for l, matrix in enumerate(matrices):
        if symmetric:
            add(Coupling.gradient("gradient", k, l), matrix * 2)
        else:
            add(Coupling.gradient("gradient_transposed", k, l), matrix * 2)
            add(Coupling.gradient("gradient_plain", k, l), matrix.T * 2)
    return gradient


def parameter_flow(model: AttentionModel) -> ParameterFlow:
    r"""The limiting flow of every trained parameter under online SGD with weight decay.

    d theta/ds = - sum_k D_theta Tr(H_k^T S_k) - sum_R (dPhi/dR) D_theta Tr P_R - gamma theta in slow time s = n alpha_d
    / d, with H_k held fixed, R = tr P_R the explicit order parameters and D the cyclic derivative; for tied attention
    time is t = 4 s and this is dW_k/dt = -sum_l g_kl S_l W_k - (gamma/4) W_k, which gives [D] (11); untied attention
    gives (31)-(32), direct optimization Theorem 4. A letter that several forms and traces share gets the sum. Exact as
    d tends to infinity.
    """
    per_unit = 1 / model.clock
    drift: dict[Letter, dict[Coupling, Polynomial]] = {letter: {} for letter in model.trained_letters}
    pulled: list[tuple[Polynomial, CoupledPolynomial]] = []
    for k, (form, trained) in enumerate(zip(model.forms, model.trained_forms, strict=True)):
        if trained and not form.detached:
            pulled.append((form.matrix, attention_gradient(model, k)))
    for trace in model.traces:
        if trace.name in model.loss.traces:
            space = Polynomial.identity(trace.matrix.rows)
            pulled.append((trace.matrix, {Coupling("trace", trace=trace.name): space}))
    for polynomial, gradient in pulled:
        for letter in model.trained_letters:
            if letter not in polynomial.letters:
                continue
            change = drift[letter]
            for coupling, cotangent in gradient.items():
                term = cotangent_pullback(polynomial, letter, cotangent) * -per_unit
                change[coupling] = change[coupling] + term if coupling in change else term
    if model.weight_decay != 0:
        for letter, change in drift.items():
            change[Coupling("decay")] = Polynomial.word(letter) * -per_unit
    couplings = sorted({coupling for change in drift.values() for coupling, term in change.items() if term.terms})
    return ParameterFlow(drift, tuple(couplings))


def as_symbolic(coupled: CoupledPolynomial, rows: str, columns: str) -> Polynomial:
    """The same polynomial with the couplings as sympy symbols in its coefficients, for reading and for LaTeX."""
    total = Polynomial.zero(rows, columns)
    for coupling, polynomial in coupled.items():
        total = total + polynomial * coupling.symbol
    return total


__all__ = ["CoupledPolynomial", "ParameterFlow", "as_symbolic", "attention_gradient", "parameter_flow"]
