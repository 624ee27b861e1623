"""The generated source of closed models: any closure, couplings included, is ``closed.rhs`` without the library."""

import subprocess
import sys

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem
from aimtheory.report import closed_source

LAW = aim.Wishart(width=1, trace=1)


def build(closed):
    space = {}
    exec(compile(closed_source(closed), "generated", "exec"), space)
    return space


def agree(closed, module, states=2, cubature=False):
    """``rhs`` and ``moments`` at states along an Euler path, ``drift`` at couplings of no meaning.

    To 1e-12, or within the error that the library's own cubature states.
    """
    state, rng = closed.initial, np.random.default_rng(2)
    assert np.array_equal(module["INITIAL"], state)
    words = closed.couplings.words
    names = [f"tr({word})" for word in words]
    branch = closed.initial_branch
    for _ in range(states):
        expected = closed.rhs(0.0, state, branch)
        mean = () if branch is None else (branch.mean,)
        size = np.abs(expected).max()
        stated = closed.evaluate(state, branch)[1].diagnostics.cubature_error if cubature else 0.0
        assert stated <= 1e-8
        assert np.abs(module["rhs"](0.0, state, *mean) - expected).max() <= (1e-12 + stated) * size
        found = dict(zip(module["WORDS"], module["moments"](state), strict=True))
        assert [found[name] for name in names] == pytest.approx(
            list(closed.moments(words, state)), rel=1e-12, abs=1e-14
        )
        given = rng.normal(size=len(module["COUPLINGS"]))
        drift = closed.system.drift(given, state)
        assert np.allclose(module["drift"](given, state), drift, rtol=1e-12, atol=1e-12 * np.abs(drift).max())
        state = state + 2e-3 / max(1.0, size) * expected
        branch = closed.branch(state, branch)


CLOSURES = {"zero": {}, "gns": {}, "matrix": {"dim": 24}, "exact": {}}


@pytest.mark.parametrize("name", aim.models.names())
def test_every_built_in_model_under_every_closure(name):
    model = aim.models.load(name)
    for closure, options in CLOSURES.items():
        degree = {"zero": 4 if model.centred else 2, "gns": 5 if model.centred else 4}.get(closure)
        closed = aim.close(model, closure=closure, degree=degree, **options)
        if (
            closure == "exact"
            and (not name.startswith("tied") or name == "tied-softmax-values")
            and name != "exact-linear"
        ):
            with pytest.raises(InputError, match="closure 'exact' needs"):
                closed_source(closed)
            continue
        agree(closed, build(closed))


def model(**options):
    return aim.AttentionModel.teacher_student(
        **({"parameterization": "tied", "student": LAW, "teacher": LAW} | options)
    )


OTHERS = {
    "cross entropy with weight decay": (
        {"tokens": 2, "activation": "softmax", "loss": "cross_entropy", "weight_decay": 0.3},
        "exact",
    ),
    "own activation": ({"tokens": 3, "activation": "tanh(2*x)"}, "gns"),
    "erf against tanh": ({"tokens": 1, "activation": "erf", "teacher_activation": "tanh(x)"}, "exact"),
    "correlated tokens": (
        {"tokens": 2, "activation": "tanh(x)", "token_covariance": [[1, 0.3], [0.3, 1]]},
        "exact",
    ),
    "a mean on the branch": (
        {
            "tokens": 2,
            "activation": "sin(x)+x",
            "parameterization": "untied",
            "student": aim.GaussianFactors(width=1, left=1, right=1),
            "teacher": aim.GaussianFactors(width=1, left=1, right=1),
        },
        "gns",
    ),
    "low rank": (
        {
            "tokens": 2,
            "activation": "softmax",
            "student": aim.Wishart(width="1/5", trace=1),
            "teacher": aim.Wishart(width="1/2", trace=2),
        },
        "exact",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_couplings_without_a_closed_form(name):
    options, closure = OTHERS[name]
    closed = aim.close(model(**options), closure=closure, **({"degree": 5} if closure == "gns" else {}))
    agree(closed, build(closed), cubature=True)


def test_a_softmax_of_three_tokens_leaves_its_couplings_to_the_user():
    closed = aim.close(model(tokens=3, activation="softmax"))
    module = build(closed)
    assert "rhs" not in module
    assert "couplings must be supplied" in module["__doc__"]
    state = closed.initial + 0.1
    given = np.array([0.3, -0.2])
    assert np.allclose(module["drift"](given, state), closed.system.drift(given, state), rtol=1e-13)


ALONE = """
import sys
space = {}
exec(open(sys.argv[1]).read(), space)
import numpy as np
state, h, steps = space["INITIAL"], 0.02, 25
for _ in range(steps):  # Runge-Kutta of order four
    a = space["rhs"](0, state)
    b = space["rhs"](0, state + h / 2 * a)
    c = space["rhs"](0, state + h / 2 * b)
    d = space["rhs"](0, state + h * c)
    state = state + h / 6 * (a + 2 * b + 2 * c + d)
print(dict(zip(space["WORDS"], space["moments"](state).tolist())))
print([name for name in sys.modules if name.startswith(("aimtheory", "sympy", "scipy"))])
"""


def test_it_runs_with_numpy_alone_and_integrates_to_the_trajectory(tmp_path):
    chosen = model(tokens=1, activation="erf", student=aim.Wishart(width="1/2", trace=1))
    path = tmp_path / "equations.py"
    path.write_text(closed_source(aim.close(chosen)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    values, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    found = eval(values, {"__builtins__": {}})
    run = aim.solve(chosen, times=[0, 0.5], check=False)
    assert found["tr(S1 S2)"] == pytest.approx(run["tr(S1 S2)"][-1], rel=1e-7)
    assert found["tr(S1 S1)"] == pytest.approx(run["tr(S1 S1)"][-1], rel=1e-7)


def test_a_closure_of_ones_own_that_writes_nothing_says_what_to_do():
    system = aim.close(model(tokens=1, activation="linear"), closure="zero", degree=2).system
    with pytest.raises(InputError, match="give it a method source"):
        ClosedSystem.source(system, (), ())


def test_the_command_writes_any_closure(capsys, tmp_path):
    path = tmp_path / "equations.py"
    assert main(["derive", "tied-softmax", "--closure", "exact", "--format", "python", "-o", str(path)]) == 0
    space = {}
    exec(path.read_text(encoding="utf-8"), space)
    closed = aim.close(aim.models.load("tied-softmax"))
    assert space["rhs"](0.0, closed.initial) == pytest.approx(closed.rhs(0.0, closed.initial), rel=1e-12)
    capsys.readouterr()
    assert main(["derive", "tied-softmax", "--closure", "gns"]) == 2
    assert "--closure gns goes with --format python" in capsys.readouterr().err
