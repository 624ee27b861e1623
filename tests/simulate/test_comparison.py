"""The comparison of theory and simulation: its statistics, its pairing by seed, and what it refuses."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import aimtheory as aim
from aimtheory.simulate import SgdRun, compare, sgd
from aimtheory.status import Status


@dataclass(frozen=True)
class Line:
    """A theory that is a straight line in time for every name; ``at`` reads it anywhere in its range."""

    times: np.ndarray
    slope: float
    offset: float = 0.0

    def __getitem__(self, name):
        return self.offset + self.slope * self.times

    def at(self, times, names):
        return {name: self.offset + self.slope * np.asarray(times) for name in names}


class Points:
    """A theory without dense output."""

    def __init__(self, line):
        self.times, self._line = line.times, line

    def __getitem__(self, name):
        return self._line[name]


TIMES = np.array([0.0, 1.0, 2.0])


def run_with(values, status="complete"):
    table = np.asarray(values, dtype=float)
    return SgdRun(
        model=aim.models.load("tied-softmax"),
        dim=100,
        learning_rate=0.25,
        batch=1,
        dtype="float64",
        seeds=tuple(range(len(table))),
        times=TIMES,
        steps=np.array([0, 100, 200]),
        values={"p_12": table},
        status=Status(status),
        loss_samples=1,
        concentration={},
    )


def noisy(seeds, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return 0.3 * TIMES + offset + 0.1 * rng.standard_normal((seeds, 3))


def test_sigmas_have_the_tail_of_student_t():
    values = noisy(5, offset=0.2)
    result = compare(Line(TIMES, 0.3), run_with(values))
    test = stats.ttest_1samp(values - 0.3 * TIMES, 0.0, axis=0)
    np.testing.assert_allclose(result.standard_error[0], values.std(axis=0, ddof=1) / np.sqrt(5), rtol=1e-12)
    # The same two-sided probability under a Gaussian.
    np.testing.assert_allclose(2 * stats.norm.sf(np.abs(result.sigmas[0])), test.pvalue, rtol=1e-8)
    assert (np.sign(result.sigmas[0]) == np.sign(test.statistic)).all()
    assert result.largest == np.abs(result.sigmas).max()
    assert result.worst == ("p_12", TIMES[np.abs(result.sigmas[0]).argmax()])


def test_few_seeds_are_not_overrated():
    """With 3 seeds a ratio of 10 standard errors has t probability 0.00985 (2 degrees of freedom): 2.58 sigmas."""
    values = np.array([[9.0] * 3, [10.0] * 3, [11.0] * 3])
    error = 1 / np.sqrt(3)
    result = compare(Line(TIMES, 0.0, offset=10 - 10 * error), run_with(values))
    assert result.sigmas[0, 0] == pytest.approx(stats.norm.isf(stats.t.sf(10, 2)), rel=1e-9)
    assert result.passes()
    assert not result.passes(sigmas=2.5)


def test_right_theory_passes_and_wrong_theory_fails():
    values = noisy(20, seed=1)
    assert compare(Line(TIMES, 0.3), run_with(values)).passes()
    assert not compare(Line(TIMES, 0.45), run_with(values)).passes()
    far = compare(Line(TIMES, 300.0), run_with(values))
    assert far.largest > 10
    assert np.isfinite(far.largest)


def test_false_alarms_are_as_rare_as_stated():
    """Under the null the p-values of the sigmas are uniform: 2-sigma exceedances are binomial with p = 0.0455."""
    rng = np.random.default_rng(5)
    hits = sum(
        int((np.abs(compare(Line(TIMES, 0.0), run_with(rng.standard_normal((3, 3)))).sigmas) > 2).sum())
        for _ in range(300)
    )
    p = 2 * stats.norm.sf(2)
    assert abs(hits - 900 * p) < 4 * np.sqrt(900 * p * (1 - p))


def test_pairing_removes_the_spread_of_the_start():
    rng = np.random.default_rng(2)
    start = rng.standard_normal(6)
    noise = 1e-3 * rng.standard_normal((6, 3))
    run = run_with(start[:, None] + 0.3 * TIMES + noise)
    theories = [Line(TIMES, 0.3, offset=value) for value in start]
    paired, single = compare(theories, run), compare(Line(TIMES, 0.3), run)
    assert paired.passes()
    assert paired.standard_error.max() < 2e-3 < 0.1 < single.standard_error.min()
    np.testing.assert_allclose(paired.theory[0], start.mean() + 0.3 * TIMES)
    shifted = [Line(TIMES, 0.32, offset=value) for value in start]
    assert not compare(shifted, run).passes()
    with pytest.raises(aim.InputError, match="5 theories for 6 seeds"):
        compare(theories[:5], run)


def test_finite_size_allowance_adds_in_quadrature():
    values = noisy(4, offset=0.3, seed=3)
    plain, eased = (compare(Line(TIMES, 0.3), run_with(values), finite_size=size) for size in (0.0, 0.4))
    np.testing.assert_allclose(eased.standard_error**2, plain.standard_error**2 + 0.16, rtol=1e-9)
    assert eased.largest < 1.5
    one = compare(Line(TIMES, 0.3), run_with(values[:1]), finite_size=0.1)
    # A stated allowance is a Gaussian standard deviation.
    np.testing.assert_allclose(one.sigmas[0], (values[0] - 0.3 * TIMES) / 0.1, rtol=1e-9)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(aim.InputError, match="finite_size"):
            compare(Line(TIMES, 0.3), run_with(values), finite_size=bad)


def test_one_run_has_no_standard_error():
    for seeds in (1, 2):
        with pytest.raises(aim.InputError, match="at least 3 seeds"):
            compare(Line(TIMES, 0.3), run_with(noisy(seeds)))


def test_times_must_match_or_be_readable():
    run = run_with(noisy(4))
    coarse = Line(np.array([0.0, 2.0]), 0.3)
    np.testing.assert_allclose(compare(coarse, run).theory[0], 0.3 * TIMES)
    with pytest.raises(aim.InputError, match=r"solve with times=simulation\.times"):
        compare(Points(coarse), run)
    with pytest.raises(aim.InputError, match=r"times \(0..1\)"):
        compare(Line(np.array([0.0, 1.0]), 0.3), run)
    # Half a step (4 x 0.25 / 100 / 2 = 0.005) is the same time; more is not.
    assert compare(Points(Line(np.add(TIMES, [0, 0.004, 0]), 0.3)), run).theory[0, 1] == pytest.approx(0.3 * 1.004)
    with pytest.raises(aim.InputError, match="cannot be read between"):
        compare(Points(Line(np.add(TIMES, [0, 0.02, 0]), 0.3)), run)


def test_missing_values_do_not_pass():
    values = noisy(4)
    values[2:, 2] = np.nan
    interrupted = compare(Line(TIMES, 0.3), run_with(values, "interrupted"))
    assert np.isfinite(interrupted.sigmas[0, 2])
    values[:, 2] = np.nan
    gone = compare(Line(TIMES, 0.3), run_with(values, "interrupted"))
    assert np.isnan(gone.sigmas[0, 2])
    assert not gone.passes()
    values[:, 2] = 0.6
    values[0, 2] = np.nan
    diverged = compare(Line(TIMES, 0.3), run_with(values, "diverged"))
    assert np.isnan(diverged.sigmas[0, 2])
    assert any("diverged" in note for note in diverged.notes)


def test_exact_agreement_is_no_difference():
    values = np.tile(0.3 * TIMES, (3, 1))
    result = compare(Line(TIMES, 0.3), run_with(values))
    assert result.largest == 0
    assert result.passes(0.1)


def test_table_and_names():
    run = run_with(noisy(4))
    text = str(compare(Line(TIMES, 0.3), run))
    assert text.splitlines()[0].split() == ["observable", "t", "theory", "simulation", "std.", "error", "sigmas"]
    assert len(text.splitlines()) == 5
    assert "4 seeds; largest difference" in text
    with pytest.raises(aim.InputError, match="was not measured"):
        compare(Line(TIMES, 0.3), run, ["q_12"])
    with pytest.raises(aim.InputError, match="one name"):
        compare(Line(TIMES, 0.3), run, "p_12")
    with pytest.raises(aim.InputError, match="empty"):
        compare(Line(TIMES, 0.3), run, [])
    both = replace(run, values={"loss": run.values["p_12"], "p_12": run.values["p_12"]})
    assert compare(Line(TIMES, 0.3), both).observables == ("p_12",)


def test_a_theory_of_another_model_is_said():
    run = sgd(aim.models.load("tied-linear"), dim=30, learning_rate=0.02, batch=8, times=[0, 0.1], seeds=range(3))
    theory = aim.solve(aim.models.load("tied-erf"), degree=5, times=run.times, check=False)
    assert any("another model" in note for note in compare(theory, run, ["t_1"]).notes)
    same = aim.solve(aim.models.load("tied-linear"), degree=5, times=run.times, check=False)
    assert not any("another model" in note for note in compare(same, run, ["t_1"]).notes)
    assert not any("different units" in note for note in compare(theory, run, ["t_1"]).notes)
    direct = aim.solve(aim.models.load("direct-linear"), degree=5, times=run.times, check=False)
    notes = compare(direct, run, ["t_1"]).notes
    assert any("4 n alpha_d/d in the simulation" in note and "n alpha_d/d in the theory" in note for note in notes)
