"""The generated Python source: runs with numpy alone and is the hierarchy, by two routes."""

import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.dynamics.coupling_values import CouplingValues
from aimtheory.hierarchy import closure, views
from aimtheory.hierarchy.closures import ClosureProblem
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


def closed_system(model, degree):
    """The closed system of ``solve`` and the couplings it evaluates, as a function of a state."""
    system = closure("zero").close(ClosureProblem(model, views(model), degree, None))
    return system, CouplingValues(model, views(model))


@pytest.mark.parametrize("name", aim.models.names())
def test_every_built_in_model_has_its_drift(name):
    """At random states and couplings, and with its own couplings where they are formulas, to 1e-12 of the system's."""
    model = aim.models.load(name)
    degree = 3 if model.centred else 2
    hierarchy = aim.derive(model, degree)
    system, values = closed_system(model, degree)
    module = build(hierarchy)
    start, rng = system.initial, np.random.default_rng(5)
    assert module["COUPLINGS"] == tuple(coupling.name for coupling in hierarchy.views.couplings)
    given = rng.normal(size=len(module["COUPLINGS"]))
    for n in range(4):
        state = start * (1 + 0.02 * n * rng.normal(size=len(start)))
        found = module["drift"](given, state)
        assert np.allclose(found, system.drift(given, state), rtol=1e-12, atol=1e-12)
        found = values.evaluate(lambda words, state=state: system.moments(words, state))
        expected = found.couplings
        if model.centred:
            couplings, right = module["couplings"](state), module["rhs"](0.0, state)
        else:
            mean = found.branch.mean
            couplings, right = module["couplings"](state, mean), module["rhs"](0.0, state, mean)
            assert module["settle"](state, mean + np.array([1e-3, 0])) == pytest.approx(mean, abs=1e-8)
        assert np.allclose(couplings, expected, rtol=1e-12, atol=1e-12)
        # rhs settles the mean anew; both go on with Newton steps to rounding.
        assert np.allclose(right, system.drift(expected, state), rtol=1e-12, atol=1e-12)


def test_a_state_outside_the_cone_is_projected_as_in_the_library():
    for name in ("tied-hermite2", "direct-hermite2"):
        model = aim.models.load(name)
        system, values = closed_system(model, 2)
        module = build(aim.derive(model, 2))
        state = system.initial.copy()
        state[module["WORDS"].index("tr(S1 S2)")] = 9.0
        expected = values.evaluate(lambda words, state=state, system=system: system.moments(words, state)).couplings
        assert np.allclose(module["couplings"](state), expected, rtol=1e-12, atol=1e-12)
        assert np.linalg.eigvalsh(np.array(module["order_parameters"](state)))[..., 0].min() > -1e-9 or name[0] == "d"


def test_the_identity_moves_the_moments():
    """Direct optimization of forms with a mean: d tr(S_1)/dt = -beta_1 tr 1 + ..., by hand for the linear model."""
    law = aim.Ginibre(variance=1)
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="direct", student=law, teacher=law, centred=False
    )
    hierarchy = aim.derive(model, 2)
    module = build(hierarchy)
    position = {name: n for n, name in enumerate(module["WORDS"])}
    couplings = dict.fromkeys(module["COUPLINGS"], 0.0) | {"beta_1": 0.7}
    state = np.arange(1.0, 1 + len(hierarchy))
    found = module["drift"]([couplings[name] for name in module["COUPLINGS"]], state)
    # dS_1/dt = -beta_1 1, so each word moves by what is left when one S_1 is taken out.
    assert found[position["tr(S1)"]] == pytest.approx(-0.7)
    assert found[position["tr(S1 S1)"]] == pytest.approx(-1.4 * state[position["tr(S1)"]])
    assert found[position["tr(S1 S2)"]] == pytest.approx(-0.7 * state[position["tr(S2)"]])
    system, values = closed_system(model, 2)
    assert np.allclose(found, system.drift(np.array([couplings[n] for n in module["COUPLINGS"]]), state), atol=1e-12)
    # With its own bias the trace stands still: that is what the bias is.
    start = system.initial
    mean = values.order_parameters(lambda words: system.moments(words, start)).mean
    assert module["rhs"](0.0, start, mean)[position["tr(S1)"]] == pytest.approx(0.0, abs=1e-12)


def test_the_exported_system_integrates_to_the_trajectory():
    """Runge-Kutta of order four on the exported right-hand side, against ``solve``; weight decay and projection too."""
    model = aim.AttentionModel.teacher_student(
        tokens=2, activation="hermite2", parameterization="tied", weight_decay=0.5,
        student=aim.Wishart(width=1, trace=1), teacher=aim.Wishart(width=2, trace=1),
    )  # fmt: skip
    hierarchy = aim.derive(model, 4)
    module = build(hierarchy, initial=initial_moments(hierarchy))
    state, steps, end = np.array(module["INITIAL"]), 200, 0.002
    h = end / steps
    for _ in range(steps):
        a = module["rhs"](0, state)
        b = module["rhs"](0, state + h / 2 * a)
        c = module["rhs"](0, state + h / 2 * b)
        d = module["rhs"](0, state + h * c)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
    run = aim.solve(model, degree=4, times=[0, end], closure="zero", check=False, observables=["tr(S1 S2)", "t_1"])
    values = dict(zip(module["WORDS"], state, strict=True))
    assert values["tr(S1 S2)"] == pytest.approx(run["tr(S1 S2)"][-1], rel=1e-8)
    assert values["tr(S1)"] == pytest.approx(run["t_1"][-1], rel=1e-8)


def test_the_command_exports_a_closed_system_with_its_mean(capsys):
    assert main(["derive", "untied-hermite2", "--degree", "2", "--format", "python"]) == 0
    module = {}
    exec(compile(capsys.readouterr().out, "generated", "exec"), module)
    settled = module["settle"](module["INITIAL"], module["MEAN"])
    assert settled == pytest.approx(np.array(module["MEAN"]), abs=1e-8)
    assert module["rhs"](0.0, module["INITIAL"], module["MEAN"]).shape == (len(module["WORDS"]),)
