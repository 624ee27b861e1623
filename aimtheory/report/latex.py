"""A derivation as a LaTeX document: model, potential, equations."""

from __future__ import annotations

import re

import sympy as sp

from aimtheory.hierarchy import MomentHierarchy
from aimtheory.hierarchy.couplings import name_latex
from aimtheory.hierarchy.latex import equation_latex, trace_latex
from aimtheory.model import AttentionModel
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
    factor = sp.latex(to_sympy(model.clock))
    return rf"t = {'' if model.clock == 1 else factor + ' '}n \alpha_d / d"


def _equation(hierarchy: MomentHierarchy, word: object) -> str:
    left, right = equation_latex(hierarchy, word)  # type: ignore[arg-type]
    if len(right) <= _WIDE:
        return f"{left} &= {right}"
    pieces = re.split(r" (?=[+-] (?:\\tfrac\S+ |\d+ )?(?:\[\\nabla|\\beta|\\gamma))", right)
    return f"{left} &= " + " \\\\\n&\\quad ".join(pieces)


def _model_latex(model: AttentionModel) -> str:
    forms = (
        r"G_{ijk} = \frac{x_i^\top S_k x_j"
        + (r" - C_{ij}\operatorname{Tr} S_k" if model.centred else "")
        + r"}{\sqrt d}"
    )
    lines = [
        rf"{_contexts_latex(model)}; forms ${forms}$.",
        r"\begin{itemize}",
    ]
    for k, (form, trained) in enumerate(zip(model.forms, model.trained_forms, strict=True)):
        name, made = rf"S_{{{k + 1}}}", form.matrix.latex
        equal = "" if made == name else f" = {made}"
        lines.append(rf"\item ${name}{equal}$, {'trained' if trained else 'fixed'}.")
    for trace in model.traces:
        lines.append(rf"\item ${name_latex(trace.name)} = \operatorname{{tr}}({trace.matrix.latex})$.")
    for parameter in model.parameters:
        law = _escape(re.sub(r"Fraction\((-?\d+), (\d+)\)", _ratio, repr(parameter.law)))
        state = "trained" if parameter.trained else "fixed"
        lines.append(rf"\item ${parameter.letter.latex}$ {state}, initial law \texttt{{{law}}}.")
    lines.append(r"\end{itemize}")
    loss, where = model.loss.latex(model.contexts[0].tokens)
    lines.append(
        rf"Loss $\displaystyle \mathcal L = {loss}${where}. "
        rf"Weight decay $\gamma = {sp.latex(to_sympy(model.weight_decay))}$."
    )
    return "\n".join(lines)


def _contexts_latex(model: AttentionModel) -> str:
    parts = []
    for context in model.contexts:
        covariance = (
            r"C_{ij}\delta_{ab}, \quad C_{ij} = \delta_{ij}"
            if context.token_covariance is None
            else r"C_{ij}\delta_{ab}, \quad C = " + sp.latex(sp.Matrix(context.covariance_matrix))
        )
        weight = "" if len(model.contexts) == 1 else f" (weight {context.weight})"
        parts.append(rf"$L = {context.tokens}$, $\mathbb{{E}}\, x_{{ia}} x_{{jb}} = {covariance}${weight}")
    return r"Gaussian tokens $x_1, \dots, x_L$: " + "; ".join(parts)


def _ratio(match: re.Match[str]) -> str:
    return match[1] if match[2] == "1" else f"{match[1]}/{match[2]}"


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
