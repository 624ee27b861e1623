"""The LaTeX document: well formed, complete, in the source's notation."""

import re

import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy.latex import trace_latex
from aimtheory.report import derivation_latex


def check_well_formed(text):
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert text.count("$") % 2 == 0
    assert len(re.findall(r"\\left\b", text)) == len(re.findall(r"\\right\b", text))
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    assert text.startswith(r"\documentclass")


@pytest.mark.parametrize("name", aim.models.names())
def test_documents_are_well_formed_and_hold_every_moving_word(name):
    hierarchy = aim.derive(aim.models.load(name), 2)
    text = derivation_latex(hierarchy)
    check_well_formed(text)
    for word, constant in zip(hierarchy.words, hierarchy.constant, strict=True):
        assert (rf"\frac{{d}}{{dt}} {trace_latex(word)} &=" in text) == (not constant)
    for word in hierarchy.missing:
        assert f"${trace_latex(word)}$" in text


def test_equation_and_potential_in_the_sources_notation():
    q11, q12, q22 = sp.symbols("q_11 q_12 q_22")
    hierarchy = aim.derive(aim.models.load("exact-linear"), 2)
    text = derivation_latex(hierarchy, 2 * q11 - 4 * q12 + 2 * q22)
    assert (
        r"\frac{d}{dt} \operatorname{tr}(S_{1}) &= - 2 [\nabla\Phi]_{11} \operatorname{tr}(S_{1} S_{1}) "
        r"- 2 [\nabla\Phi]_{12} \operatorname{tr}(S_{1} S_{2})"
    ) in text
    assert r"\Phi = 2 q_{11} - 4 q_{12} + 2 q_{22}" in text
    assert r"\left(G_{111} - G_{112}\right)^{2}" in text
    assert r"S_{1} = W_{1} W_{1}^{\top}" in text
    assert "t = 4 n" in text


def test_long_equations_are_broken_into_lines():
    text = derivation_latex(aim.derive(aim.models.load("untied-linear"), 3))
    check_well_formed(text)
    assert text.count(r"&\quad") > 50


def test_names_are_escaped():
    model = aim.AttentionModel.teacher_student(
        tokens=2, activation="softmax", parameterization="tied", loss="cross_entropy",
        name="50%_of {it} & ~ \\input{x}",
        student=aim.Wishart(width=1, trace=1), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    text = derivation_latex(aim.derive(model, 2))
    check_well_formed(text)
    assert r"50\%\_of \{it\} \& \~{}" in text
    assert r"\input{x}" not in text
