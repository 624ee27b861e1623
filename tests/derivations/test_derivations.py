"""Every derivation is carried out, and every formula in it, and in the library, is LaTeX that renders.

With the environment variable ``AIMTHEORY_KATEX`` naming the folder of the katex module of Node, formulas are rendered
by KaTeX; without it their structure is checked: balanced braces, environments, left and right, known commands only.
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aimtheory as aim
from aimtheory.words import Letter, Polynomial

ROOT = Path(aim.__file__).parent.parent
FOLDER = ROOT / "derivations"
SCRIPTS = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
KATEX = os.environ.get("AIMTHEORY_KATEX")

COMMANDS = set(
    re.findall(
        r"[A-Za-z]+",
        """
        frac tfrac dfrac sqrt sum prod int iint lim log exp sin cos tan tanh erf det min max sup inf arcsin arctan sinh
        cosh ln arg ker dim deg Pr operatorname mathrm mathbb mathcal mathbf mathsf mathring mathscr mathfrak mathit
        text textbf textit tilde bar hat dot ddot widetilde widehat overline underline vec boldsymbol left right middle
        big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr begin end quad qquad cdot cdots ldots dots vdots ddots times
        otimes odot oplus boxplus boxtimes circ bullet star ast top dagger perp parallel partial nabla infty emptyset
        pm mp le leq ge geq neq ne equiv approx sim simeq cong propto to mapsto gets rightarrow leftarrow Rightarrow
        Leftarrow Leftrightarrow leftrightarrow longrightarrow Longrightarrow iff implies uparrow downarrow in notin ni
        subset subseteq setminus cup cap vee wedge forall exists neg mid colon prime ell Re Im langle rangle lfloor
        rfloor lceil rceil lvert rvert lVert rVert vert Vert substack underbrace overbrace underset overset stackrel
        binom choose succeq preceq succ prec gg ll displaystyle limits nolimits not phantom hspace tag color hline
        alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho
        varrho sigma varsigma tau upsilon phi varphi chi psi omega
        Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
        """,
    )
)
ENVIRONMENTS = {"aligned", "matrix", "pmatrix", "bmatrix", "cases", "gathered", "array", "split", "smallmatrix"}


def structural_error(formula):
    """What is wrong with the structure of a formula, None when nothing is."""
    stack = []
    for match in re.finditer(
        r"\\begin\{(\w+\*?)\}|\\end\{(\w+\*?)\}|\\left(?![a-z])|\\right(?![a-z])|\\.|[{}]", formula
    ):
        token = match[0]
        if match[1]:
            if match[1] not in ENVIRONMENTS:
                return f"unknown environment {match[1]}"
            stack.append(match[1])
        elif match[2]:
            if not stack or stack.pop() != match[2]:
                return f"end of {match[2]} without its begin"
        elif token in ("{", r"\left"):
            stack.append(token)
        elif token in ("}", r"\right"):
            opening = {"}": "{", r"\right": r"\left"}[token]
            if not stack or stack.pop() != opening:
                return f"{token} without {opening}"
    if stack:
        return f"{stack[-1]} is never closed"
    unknown = sorted(set(re.findall(r"\\([A-Za-z]+)", formula)) - COMMANDS)
    if unknown:
        return f"unknown command {unknown[0]}"
    if re.search(r"[\^_]\s*[\^_&}]|[\^_]\s*$", formula):
        return "a sub- or superscript is empty"
    if "$" in formula:
        return "a dollar inside a formula"
    return None


def katex_errors(formulas):
    checker = Path(__file__).parent / "katex_check.mjs"
    run = subprocess.run(
        [shutil.which("node") or "node", str(checker)],
        input=json.dumps(formulas), capture_output=True, text=True, check=True, timeout=120, encoding="utf-8",
    )  # fmt: skip
    return json.loads(run.stdout)


def assert_renders(formulas):
    assert formulas
    for formula in formulas:
        assert structural_error(formula) is None, formula
    if KATEX:
        failures = [pair for pair in zip(formulas, katex_errors(formulas), strict=True) if pair[1] is not None]
        assert not failures


@pytest.fixture
def carry_out(monkeypatch):
    """Load a script by its path, beside the module that all scripts share, and carry out its derivation."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(path):
        name = f"derivation_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return run


def test_there_are_derivations():
    assert {path.name[:2] for path in SCRIPTS} >= {"03", "04"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_derivation(path, carry_out):
    module = carry_out(path)
    assert module.__doc__
    derivation = module.derive()
    assert derivation.title
    assert len(derivation.steps) >= 2
    assert all(step.text for step in derivation.steps)
    assert_renders(derivation.formulas())
    # Text holds formulas between single dollars.
    inline = [part for step in derivation.steps for part in step.text.split("$")[1::2]]
    assert all(step.text.count("$") % 2 == 0 for step in derivation.steps)
    if inline:
        assert_renders(inline)
    article = derivation.latex()
    assert article.startswith(r"\documentclass")
    assert article.rstrip().endswith(r"\end{document}")
    for formula in derivation.formulas():
        assert formula in article


def test_a_script_prints_and_writes_its_latex(tmp_path, monkeypatch):
    script = FOLDER / "04_exactly_solvable.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

    def run(*options):
        return subprocess.run(
            [sys.executable, str(script), *options], capture_output=True, text=True, check=True, env=environment
        ).stdout

    target = tmp_path / "article.tex"
    assert run("-o", str(target)) == ""
    assert r"\begin{document}" in target.read_text(encoding="utf-8")
    printed = io.StringIO()
    monkeypatch.setattr(sys, "argv", [str(script)])
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_path(str(script), run_name="__main__")
    assert target.read_text(encoding="utf-8") == printed.getvalue()


def test_a_derivation_notices_a_wrong_library(carry_out, monkeypatch):
    """A hierarchy with another sign is not accepted: the scripts do compare."""
    module = carry_out(FOLDER / "03_hierarchy_from_sgd.py")
    monkeypatch.setattr(
        module, "gradient_symbol", lambda k, l: -aim.hierarchy.Coupling.gradient("gradient", k, l).symbol
    )
    with pytest.raises(AssertionError, match="the derivation fails"):
        module.derive(2)
    module = carry_out(FOLDER / "04_exactly_solvable.py")
    monkeypatch.setattr(module, "taylor", lambda *_: 0)
    with pytest.raises(AssertionError, match="Taylor polynomial"):
        module.derive()


@pytest.mark.parametrize("name", ["tied-softmax", "untied-hermite2", "direct-linear"])
def test_equations_of_the_library_render(name):
    h = aim.derive(aim.models.load(name), 2)
    assert_renders([h.latex()])
    assert h._repr_latex_().strip("$\n") == h.latex()


def test_words_and_polynomials_render():
    letters = [Letter("W1", "d", "r"), Letter("S_12"), Letter("query"), Letter("U1_V2"), Letter("M10")]
    P = Polynomial.word(letters[1], letters[1].T) * "-3/2" + Polynomial.word(letters[3].T) + Polynomial.identity()
    assert_renders([*(letter.latex for letter in letters), *(letter.T.latex for letter in letters), P.latex])


def test_the_structural_check_sees_mistakes():
    for wrong in (
        r"\frac{1}{2", r"a}", r"\begin{aligned} a", r"\begin{align} a \end{align}", r"\left( a", r"a \right)", r"\foo",
        r"a^", r"x_ ^2", r"\begin{aligned} { \end{aligned} }", "$a$",
    ):  # fmt: skip
        assert structural_error(wrong) is not None, wrong
    for right in (r"\{ a \}", r"\left\{ a \right\}", r"\begin{aligned} a &= b \\ c &= d \end{aligned}", r"x_{1}^{2}"):
        assert structural_error(right) is None, right


@pytest.mark.skipif(not KATEX, reason="AIMTHEORY_KATEX does not name a katex module")
def test_katex_sees_mistakes():
    assert katex_errors([r"\frac{1}{2}", r"\frac{1}{", r"\unknowncommand"])[0] is None
    assert all(katex_errors([r"\frac{1}{", r"\unknowncommand", r"a_"]))
