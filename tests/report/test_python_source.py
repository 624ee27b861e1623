"""The generated Python source: runs with numpy alone and is the hierarchy, by two routes."""

import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy.compiled import compile_hierarchy
from aimtheory.hierarchy.initial_moments import initial_moments
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.report import python_source


def build(hierarchy, **options):
    space = {}
    exec(compile(python_source(hierarchy, **options), "generated", "exec"), space)
    return space


@pytest.mark.parametrize(("name", "degree"), [("tied-softmax", 5), ("untied-linear", 3), ("direct-hermite2", 3)])
def test_source_equals_operators_and_equations(name, degree):
    hierarchy = aim.derive(aim.models.load(name), degree)
    module = build(hierarchy)
    assert module["WORDS"] == hierarchy.names
    rng = np.random.default_rng(3)
    couplings, moments = rng.normal(size=len(module["COUPLINGS"])), rng.normal(size=len(hierarchy))
    found = module["drift"](couplings, moments)
    assert np.allclose(found, compile_hierarchy(hierarchy).drift(couplings, moments), rtol=1e-12, atol=1e-12)
    # By sympy, for some words, missing ones set to zero.
    values = {c.symbol: v for c, v in zip(hierarchy.views.couplings, couplings, strict=True)}
    values |= {moment_symbol(w): v for w, v in zip(hierarchy.words, moments, strict=True)}
    values |= {moment_symbol(w): 0 for w in hierarchy.missing}
    for n in rng.choice(len(hierarchy), size=5, replace=False):
        assert float(sp.sympify(hierarchy.equations[hierarchy.words[n]]).subs(values)) == pytest.approx(found[n])


def test_source_takes_weight_decay_and_many_states_at_once():
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="tied", weight_decay="1/3",
        student=aim.Wishart(width=1, trace=1), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    module = build(aim.derive(model, 2))
    couplings = dict.fromkeys(module["COUPLINGS"], 0.0) | {"gamma": 0.5}
    states = np.arange(15.0).reshape(5, 3)
    found = module["drift"]([couplings[name] for name in module["COUPLINGS"]], states)
    # Theory (11): -(gamma/2) x (number of trained letters) x moment; words tr S1, tr S2, tr S1 S1, tr S1 S2, tr S2 S2.
    assert np.allclose(found, -0.25 * np.array([1, 0, 2, 1, 0])[:, None] * states)
    with pytest.raises(ValueError, match="5 moments"):
        module["drift"]([0.0, 0.0, 0.0], np.zeros(4))


STANDALONE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("equations", sys.argv[1])
equations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(equations)
import numpy as np
state, h, steps = np.array(equations.INITIAL), 1e-4, 500
for _ in range(steps):  # Runge-Kutta of order four
    f = lambda y: equations.drift([2.0, -2.0], y)
    a = f(state); b = f(state + h / 2 * a); c = f(state + h / 2 * b); d = f(state + h * c)
    state = state + h / 6 * (a + 2 * b + 2 * c + d)
names = equations.WORDS
print(repr({name: float(value) for name, value in zip(names, state)}))
print([name for name in sys.modules if name.startswith(("aimtheory", "sympy", "scipy"))])
"""


def test_source_runs_alone_and_gives_the_taylor_polynomials_of_the_exact_case(tmp_path):
    """[D] D.3, degree 3: mu_1(t) = mu_1 - 4t(q_11 - q_12) + 8t^2(2 mu_111 - 3 mu_112 + mu_122).

    And q_11(t) = q_11 - 8t(mu_111 - mu_112).
    """
    hierarchy = aim.derive(aim.models.load("exact-linear"), 3)
    start = initial_moments(hierarchy)
    path = tmp_path / "equations.py"
    path.write_text(python_source(hierarchy, start))
    done = subprocess.run(
        [sys.executable, "-c", STANDALONE, str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    values, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    final = eval(values, {"__builtins__": {}})
    mu = {name.removeprefix("tr(").removesuffix(")"): m for name, m in zip(hierarchy.names, start, strict=True)}
    t = 0.05
    first = (
        mu["S1"]
        - 4 * t * (mu["S1 S1"] - mu["S1 S2"])
        + 8 * t**2 * (2 * mu["S1 S1 S1"] - 3 * mu["S1 S1 S2"] + mu["S1 S2 S2"])
    )
    assert final["tr(S1)"] == pytest.approx(first, rel=1e-10)
    assert final["tr(S1 S1)"] == pytest.approx(mu["S1 S1"] - 8 * t * (mu["S1 S1 S1"] - mu["S1 S1 S2"]), rel=1e-10)


def test_a_malicious_name_stays_inside_the_docstring():
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="tied", name='x"""\nraise SystemExit\n"""\\',
        student=aim.Wishart(width=1, trace=1), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    assert callable(build(aim.derive(model, 2))["drift"])
