"""check="matrix": a theory against the flow of sampled matrices, in units of its scatter."""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.dynamics.matrix_check import SCATTERS, MatrixDistance
from aimtheory.hierarchy import closure

SMALL = closure("matrix", dim=60)


def test_scatter_explains_and_does_not():
    """By hand: three samples 1, 2, 3 have standard deviation 1."""
    samples = [np.full(2, x) for x in (1.0, 2.0, 3.0)]
    found = MatrixDistance.of(np.array([2.0 + SCATTERS + 0.5, 2.5]), samples)
    assert found.scatter.tolist() == [1, 1]
    assert found.unexplained == pytest.approx([0.5, 0])
    assert found.farthest == pytest.approx(SCATTERS + 0.5)
    one = MatrixDistance.of(np.array([1.25]), [np.array([1.0])])
    assert one.unexplained.tolist() == [0.25]
    assert np.isnan(one.farthest)


def test_the_exact_dynamics_passes():
    """Six flows at d = 60 by hand give the same mean."""
    model, times = aim.models.load("tied-softmax"), [0, 1, 2]
    run = aim.solve(model, times=times, observables=["p_12", "t_1"], check=SMALL)
    assert run.status.code == "complete"
    assert run.trusted_until == 2
    flows = [
        aim.solve(model, times=times, closure="matrix", dim=60, seed=s, observables=["p_12"], check=False)["p_12"]
        for s in range(6)
    ]
    assert run.errors["p_12"] == pytest.approx(np.abs(run["p_12"] - np.mean(flows, axis=0)), abs=1e-5)
    (note,) = [note for note in run.status.notes if "6 flows of matrices at d = 60" in note]
    assert "scatters from their mean" in note
    assert "a larger dim sees more" in note


def test_a_blown_up_truncation_does_not_pass():
    """Where degrees 8, 6 and 4 might agree or not, the matrices do not."""
    model = aim.models.load("tied-softmax")
    run = aim.solve(model, times=[0, 0.5, 4], degree=8, closure="zero", observables=["p_12"], check=SMALL)
    assert run.status.code == "untrusted"
    assert 0.2 < run.trusted_until < 4
    assert any("trusted_until is that of 'p_12': the flow of matrices is further away" in x for x in run.status.notes)


def test_given_matrices_leave_no_scatter():
    model = aim.models.load("tied-softmax")
    initial = model.sample(20, np.random.default_rng(0))
    run = aim.solve(model, degree=9, closure="gns", times=[0, 0.05], initial=initial, check="matrix")
    assert run.status.code == "complete"
    assert max(float(errors.max()) for errors in run.errors.values()) < 1e-6
    assert any("flow of the given matrices" in note for note in run.status.notes)


def test_bad_checks():
    model = aim.models.load("tied-softmax")
    with pytest.raises(aim.InputError, match=r"check = 'matrices'; use True"):
        aim.solve(model, times=[0, 1], check="matrices")
    with pytest.raises(aim.InputError, match="is that flow"):
        aim.solve(model, times=[0, 1], closure="matrix", dim=10, check="matrix")
