"""A derivation as a LaTeX document: model, potential, equations."""

from __future__ import annotations

import re

import sympy as sp

from aimtheory.hierarchy import MomentHierarchy
from aimtheory.hierarchy.latex import equation_latex, trace_latex
from aimtheory.model import AttentionModel
from aimtheory.model.activations import Activation, ElementwiseActivation
from aimtheory.model.losses import FORMS, CrossEntropy, ExpressionLoss, Loss, MeanSquaredError
from aimtheory.scalars import to_sympy

_WIDE = 130
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "^": r"\^{}",
    "~": r"\~{}",
}


def derivation_latex(hierarchy: MomentHierarchy, potential: sp.Expr | None = None) -> str:
    """A document that compiles by itself (article, amsmath): the model, the Gaussian law, the potential, the hierarchy.

    ``potential`` is the closed form of Phi when there is one. Equations are open: the words that a closure must supply
    are listed at the end.
    """
    model = hierarchy.model
    moving = [word for word, fixed in zip(hierarchy.words, hierarchy.constant, strict=True) if not fixed]
    parts = [
        r"\documentclass[11pt]{article}",
        r"\usepackage[margin=2cm]{geometry}",
        r"\usepackage{amsmath,amssymb}",
        r"\allowdisplaybreaks",
        r"\begin{document}",
        rf"\section*{{Moment hierarchy of \texttt{{{_escape(model.name)}}}, degree {hierarchy.degree}}}",
        r"\subsection*{Model}",
        _model_latex(model),
        r"\subsection*{Potential}",
        _potential_latex(model, potential),
        r"\subsection*{Equations}",
        rf"{len(hierarchy)} order parameters, {len(hierarchy) - len(moving)} of them constant, "
        rf"$\operatorname{{tr}} = \operatorname{{Tr}}/d$, time "
        rf"${_time(model)}$:",
        r"\begin{align*}",
        " \\\\\n".join(_equation(hierarchy, word) for word in moving),
        r"\end{align*}",
    ]
    if hierarchy.missing:
        parts += [
            rf"A closure must supply the {len(hierarchy.missing)} words above degree {hierarchy.degree}:",
            r"\begin{flushleft}",
            ",\n".join(f"${trace_latex(word)}$" for word in hierarchy.missing) + ".",
            r"\end{flushleft}",
        ]
    return "\n".join([*parts, r"\end{document}", ""])


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)


def _time(model: AttentionModel) -> str:
    factor = sp.latex(to_sympy(model.time_factor))
    return rf"t = {'' if model.time_factor == 1 else factor + ' '}n \alpha_d / d"


def _equation(hierarchy: MomentHierarchy, word: object) -> str:
    left, right = equation_latex(hierarchy, word)  # type: ignore[arg-type]
    if len(right) <= _WIDE:
        return f"{left} &= {right}"
    pieces = re.split(r" (?=[+-] (?:\\tfrac\S+ |\d+ )?(?:\[\\nabla|\\beta|\\gamma))", right)
    return f"{left} &= " + " \\\\\n&\\quad ".join(pieces)


def _model_latex(model: AttentionModel) -> str:
    covariance = (
        r"C_{ij}\delta_{ab}, \quad C_{ij} = \delta_{ij}"
        if model.token_covariance is None
        else r"C_{ij}\delta_{ab}, \quad C = " + sp.latex(sp.Matrix(model.covariance_matrix))
    )
    forms = (
        r"G_{ijk} = \frac{x_i^\top S_k x_j"
        + (r" - C_{ij}\operatorname{Tr} S_k" if model.centred else "")
        + r"}{\sqrt d}"
    )
    lines = [
        rf"Tokens $x_1, \dots, x_L$ with $L = {model.tokens}$, Gaussian, "
        rf"$\mathbb{{E}}\, x_{{ia}} x_{{jb}} = {covariance}$; forms ${forms}$.",
        r"\begin{itemize}",
    ]
    for k, index in enumerate(model.indices):
        state = "trained" if index.trainable else "fixed"
        law = _escape(re.sub(r"Fraction\((-?\d+), (\d+)\)", _ratio, repr(index.law)))
        name, made = rf"S_{{{k + 1}}}", index.factorization.polynomial.latex
        equal = "" if made == name else f" = {made}"
        lines.append(rf"\item ${name}{equal}$, {state}, initial law \texttt{{{law}}}.")
    lines.append(r"\end{itemize}")
    loss, where = _loss_latex(model.loss, model.tokens)
    lines.append(
        rf"Loss $\displaystyle \mathcal L = {loss}${where}. "
        rf"Weight decay $\gamma = {sp.latex(to_sympy(model.weight_decay))}$."
    )
    return "\n".join(lines)


def _ratio(match: re.Match[str]) -> str:
    return match[1] if match[2] == "1" else f"{match[1]}/{match[2]}"


def _loss_latex(loss: Loss, tokens: int) -> tuple[str, str]:
    if isinstance(loss, MeanSquaredError | CrossEntropy):
        shared = loss.student == loss.teacher
        second = "F" if shared else r"F^{\ast}"
        student = _sum("F", loss.students, loss.student_weights)
        teacher = _sum(second, loss.teachers, loss.teacher_weights)
        where = f", {_activation_latex('F', loss.student)}" + (
            "" if shared else f", {_activation_latex(second, loss.teacher)}"
        )
        if isinstance(loss, CrossEntropy):
            logits = _sum("", loss.students, loss.student_weights)  # the students' logits add up before the softmax
            return rf"-\sum_{{ij}} {_bracket(teacher)}_{{ij}} \log F\bigl({logits}\bigr)_{{ij}}", where
        return rf"\tfrac12 \bigl\| {student} - {_bracket(teacher)} \bigr\|_F^2", where
    if isinstance(loss, ExpressionLoss):
        names = {
            FORMS[i, j, k]: sp.Symbol(rf"G_{{{i + 1}{j + 1}{k + 1}}}")
            for i in range(tokens)
            for j in range(tokens)
            for k in range(loss.indices)
        }
        return sp.latex(loss.expression(tokens).xreplace(names)), ""
    return rf"\texttt{{{_escape(repr(loss))}}}", ""


def _sum(function: str, indices: tuple[int, ...], weights: tuple[object, ...]) -> str:
    terms = []
    for index, weight in zip(indices, weights, strict=True):
        front = "" if weight == 1 else sp.latex(to_sympy(weight)) + r"\,"
        forms = f"G_{{{index + 1}}}"
        terms.append(front + (f"{function}({forms})" if function else forms))
    return " + ".join(terms)


def _bracket(terms: str) -> str:
    return rf"\bigl({terms}\bigr)" if " + " in terms else terms


def _activation_latex(symbol: str, activation: Activation) -> str:
    if isinstance(activation, ElementwiseActivation):
        x = sp.Symbol("x")
        return f"${symbol}(x) = {sp.latex(activation.scalar_expression(x))}$ entry by entry"
    options = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in activation.parameters.items())
    return f"${symbol}$ the {_escape(activation.name)} of each row" + (f" ({_escape(options)})" if options else "")


def _potential_latex(model: AttentionModel, potential: sp.Expr | None) -> str:
    mean = "0" if model.centred else r"C_{ij}\, m_k"
    law = (
        r"As $d \to \infty$ the forms are Gaussian, $\mathbb{E}\, G_{ijk} = "
        + mean
        + r"$, $\operatorname{Cov}(G_{ijk}, G_{i'j'l}) = C_{ii'} C_{jj'} q^{(1)}_{kl} + C_{ij'} C_{ji'} q^{(2)}_{kl}$ "
        r"with $q^{(1)}_{kl} = \operatorname{tr}(S_k S_l^\top)$, $q^{(2)}_{kl} = \operatorname{tr}(S_k S_l)$ "
        r"(one and the same $q_{kl}$ for symmetric $S_k$), and $\Phi = \mathbb{E}\,\mathcal L(G)$. Gradients are "
        r"taken as $d\Phi = \sum_{kl} [\nabla\Phi]_{kl}\, dq_{kl}$ over all ordered pairs."
    )
    if potential is None:
        return (
            law
            + "\n\nThere is no closed form of $\\Phi$ here; its gradients are Gaussian expectations, found by cubature."
        )
    return law + " In closed form\n\\[ \\Phi = " + sp.latex(potential) + r" \]"


__all__ = ["derivation_latex"]
