"""Untied attention (fast means, slow moments), direct optimization, and factorizations beyond both."""

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.dynamics.coupling_values import CouplingValues
from aimtheory.dynamics.fast_mean import FastMean, critical_points
from aimtheory.hierarchy import closure, views
from aimtheory.hierarchy.closures import ClosureProblem
from aimtheory.hierarchy.initial_moments import initial_law, matrix_family
from aimtheory.model import direct, written
from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential
from aimtheory.words import Letter, Polynomial

TIMES = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
# q1_12 on paths of degree <= m, from an independent dense prototype of the Fock-space closure, four digits.
PROTOTYPE = {7: [0.2037, 0.3207, 0.3926, 0.4345, 0.4581], 9: [0.2039, 0.3219, 0.3951, 0.4388, 0.4643]}


def untied_hermite2(mean=0, width=1):
    return aim.AttentionModel.teacher_student(
        tokens=1,
        activation="hermite2",
        parameterization="untied",
        student=aim.GaussianFactors(width=width, left=1, right="1/2"),
        teacher=aim.Ginibre(variance=1, mean=mean),
    )


def low_rank_adaptation(frozen=()):
    S0, U, V = Letter("S0"), Letter("U1", "d", "r1"), Letter("V1", "d", "r1")
    laws = {
        "S0": aim.Ginibre(1),
        "U1": aim.GaussianEntries(width="1/4", trace="1/4"),
        "V1": aim.GaussianEntries(width="1/4", trace="1/8"),
    }
    trained = tuple({"S0", "U1", "V1"} - set(frozen))
    return aim.AttentionModel.of(
        written("S1", Polynomial.word(S0) + Polynomial.word(U, V.T), laws, trained=trained),
        direct(2, aim.Ginibre(1), trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
    )


def deep():
    W1, W2 = Letter("W1", "d", "r1"), Letter("W2", "r1", "r2")
    laws = {"W1": aim.GaussianEntries(width=1, trace=1), "W2": aim.GaussianEntries(width="1/2", trace="1/4")}
    return aim.AttentionModel.of(
        written("S1", Polynomial.word(W1, W2, W2.T, W1.T), laws),
        direct(2, aim.Wishart(1, 1), trained=False, symmetric=True),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
    )


@pytest.mark.parametrize("degree", [7, pytest.param(9, marks=pytest.mark.slow)])
def test_untied_linear_against_the_prototype(degree):
    run = aim.solve(
        aim.models.load("untied-linear"),
        degree=degree,
        times=TIMES,
        observables=["q1_12"],
        check=False,
        rtol=1e-7,
        atol=1e-9,
        dense=False,
    )
    assert np.abs(run["q1_12"][1:] - PROTOTYPE[degree]).max() < 6e-5


@pytest.mark.parametrize(
    "name",
    [
        "untied-linear",
        "low rank",
        "frozen low rank",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("narrow", "deep")),
    ],
)
def test_gns_agrees_with_the_matrix_flow(name):
    """Five flows at d = 120; five standard errors of the mean plus 3/d for its bias, and the truncation error of
    degree 7.
    """
    model = {
        "untied-linear": lambda: aim.models.load("untied-linear"),
        "narrow": lambda: untied_hermite2(mean=1, width="1/2"),
        "low rank": low_rank_adaptation,
        "frozen low rank": lambda: low_rank_adaptation(("S0",)),
        "deep": deep,
    }[name]()
    times = [0.0, 0.05, 0.1]
    overlap = "p_12"
    theory = aim.solve(
        model, degree=5 if "low" in name else 7, times=times, observables=[overlap], check=False, rtol=1e-7, atol=1e-9
    )
    flows = [
        aim.solve(
            model,
            degree=2,
            closure="matrix",
            dim=120,
            seed=s,
            times=times,
            observables=[overlap],
            check=False,
            rtol=1e-7,
        )
        for s in range(5)
    ]
    values = np.array([flow[overlap] for flow in flows])
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert theory[overlap][2] > 0.03
    assert (np.abs(theory[overlap] - mean) < 5 * error + 3 / 120).all()


def test_frozen_letters_stay():
    moving, frozen = views(low_rank_adaptation()), views(low_rank_adaptation(("S0",)))
    assert {str(x) for x in moving.flow.drift} == {"S0", "U1", "V1"}
    assert {str(x) for x in frozen.flow.drift} == {"U1", "V1"}
    with pytest.raises(aim.InputError, match="trained letter 'S9' is not a letter of S1"):
        written("S1", Polynomial.word(Letter("S0")), trained=("S9",))


@pytest.mark.parametrize("name", ["untied-linear", "low rank", "deep"])
def test_fock_moments_against_matrices(name):
    """Moments of all words of degree <= 3 in the limit against one draw at d = 500: fluctuations and bias of order
    1/d.
    """
    model = {"untied-linear": lambda: aim.models.load("untied-linear"), "low rank": low_rank_adaptation, "deep": deep}[
        name
    ]()
    hierarchy = aim.derive(model, 2)
    law = initial_law(model, hierarchy.views)
    sampled = model.sample(500, np.random.default_rng(2))
    parameters = dict(sampled)
    for word in hierarchy.words:
        exact = law.moment([str(x) for x in word])
        if word.rows == "d" and not hierarchy.views.by_parameters:
            found = matrix_family(hierarchy.views, parameters).moment([str(x) for x in word])
        else:
            product = np.eye(parameters["W1"].shape[0] if word.rows == "d" else parameters["W2"].shape[0])
            for x in hierarchy.views.expand(word):
                product = product @ (parameters[x.name].T if x.transposed else parameters[x.name])
            found = np.trace(product) / 500
        assert abs(exact - found) < 0.06 * max(1.0, abs(exact)), str(word)


def test_fock_moments_in_batches_equal_single_ones():
    model = aim.models.load("untied-linear")
    hierarchy = aim.derive(model, 4, observables=["q1_12", "tr(A1)"])
    law = initial_law(model, hierarchy.views)
    for n, codes in enumerate(hierarchy.codes):
        batch = law.moments_of_codes(codes, n + 1)
        single = [law.moment([str(x) for x in hierarchy.views.alphabet.unpack(c, n + 1)]) for c in codes[:40]]
        assert np.abs(batch[:40] - single).max(initial=0.0) < 1e-12


def test_gns_of_factors_is_exact_to_twice_its_depth():
    model = aim.models.load("untied-linear")
    seen = views(model)
    law = initial_law(model, seen)
    system = closure("gns").close(ClosureProblem(model, seen, 5, None))
    hierarchy = aim.derive(model, system.exact_degree, observables=["tr(A1)", "tr(B1)", "q1_12", "q2_12"])
    values = system.moments(hierarchy.words, system.initial)
    assert np.abs(values - [law.moment([str(x) for x in w]) for w in hierarchy.words]).max() < 1e-12


def test_bias_equals_equation_30():
    """beta_1 = -psi_1/(t^A + t^B) with psi of (27), at random overlaps of given matrices."""
    model = aim.models.load("untied-linear")
    seen = views(model)
    rng = np.random.default_rng(1)
    parameters = {name: rng.standard_normal((5, 5)) for name in ("U1", "V1", "M2")}
    family = matrix_family(seen, parameters)

    def moments(words):
        return np.array([family.moment([str(x) for x in w]) for w in words])

    values = CouplingValues(model, seen)
    couplings = dict(zip(seen.couplings, values.evaluate(moments).couplings, strict=True))
    U, V, M2 = (parameters[n] for n in ("U1", "V1", "M2"))
    M, A, B = U @ V.T, U @ U.T, V @ V.T
    gradients = values.potential.gradients(
        *(getattr(values.order_parameters(moments), f) for f in ("mean", "q1", "q2"))
    )
    psi = 0.0
    for l, matrix in enumerate((M, M2)):
        for g, form in ((gradients.q1[0, l], matrix), (gradients.q2[0, l], matrix.T)):
            psi += 2 * g * (np.trace(form @ B) + np.trace(A @ form)) / 5
    beta = next(value for c, value in couplings.items() if c.kind == "bias")
    assert abs(beta + psi / ((np.trace(A) + np.trace(B)) / 5)) < 1e-12 * max(1, abs(psi))


def test_slow_flow_keeps_the_trace_at_zero():
    """tr M = O(d^{-1/2}): on matrices made traceless the flow with the bias does not change the trace at time zero."""
    model = untied_hermite2(mean=1)
    rng = np.random.default_rng(3)
    u, v, teacher = rng.standard_normal((3, 30, 30)) / np.sqrt(30)
    v -= u * np.vdot(u, v) / np.vdot(u, u)
    run = aim.solve(
        model,
        degree=2,
        closure="matrix",
        initial={"U1": u, "V1": v, "M2": teacher},
        times=[0, 0.05, 0.1],
        observables=["t_1"],
        check=False,
    )
    assert np.abs(run["t_1"]).max() < 1e-9


def test_several_attracting_means_are_said():
    """h_2 with a shifted teacher: Phi is even in m_1, so +-m* attract and m = 0, where the start lies, does not."""
    model = untied_hermite2(mean=1)
    run = aim.solve(model, degree=3, times=[0, 0.02], check=False)
    assert any("2 attracting means" in note for note in run.status.notes)
    assert any("unstable critical point" in note for note in run.status.notes)
    assert run["m_1"][0] > 0
    mirrored = aim.solve(model, degree=3, times=[0, 0.02], check=False, initial_mean=[-0.5, 1])
    assert np.allclose(mirrored["m_1"], -run["m_1"], atol=1e-9)
    # The teacher keeps its sign, so the overlap grows towards the other side.
    assert np.allclose(mirrored["p_12"], -run["p_12"], atol=1e-8)


def test_critical_points_against_the_closed_form():
    """Phi(m_1) for h_2, L = 1 is a quartic; its critical points are roots of a cubic, found by sympy."""
    phi = potential(MeanSquaredError("hermite2"), 1)
    q1, q2 = np.array([[0.5, 0.1], [0.1, 1.0]]), np.array([[0.1, 0.05], [0.05, 0.2]])
    start = np.array([0.0, 0.8])
    points = critical_points(FastMean(phi, np.array([True, False]), start), q1, q2)
    m = sp.Symbol("m", real=True)
    value = phi.symbolic_value([m, sp.Rational(4, 5)], sp.Matrix(q1.tolist()), sp.Matrix(q2.tolist()))
    roots = sorted(float(r) for r in sp.Poly(sp.nsimplify(sp.diff(value, m)), m).nroots() if abs(sp.im(r)) < 1e-12)
    assert np.allclose(sorted(p.mean[0] for p in points), roots, atol=1e-8)
    for point in points:
        assert abs(point.curvature - float(sp.diff(value, m, 2).subs(m, point.mean[0]))) < 1e-8
        assert point.stable == (point.curvature > 0)


def test_fast_flow_ends_where_newton_ends():
    phi = potential(MeanSquaredError("softmax"), 2)
    q = np.array([[0.5, 0.1], [0.1, 1.0]])
    fast = FastMean(phi, np.array([True, False]), np.array([0.7, 0.4]))
    end = fast.relax(q, 0.1 * q, np.array([1.5, np.inf]))
    assert abs(phi.gradients(end.branch.mean, q, 0.1 * q).mean[0]) < 1e-7
    assert end.branch.mean[1] == 0.4
    assert end.curvature > 0
    assert not end.kicked


def test_untied_hermite2_stalls_and_a_mean_shift_frees_it():
    stalled = aim.solve(untied_hermite2(), degree=5, times=[0, 0.5, 1.0], observables=["p_12", "m_1"], check=False)
    assert np.abs(stalled["p_12"]).max() < 1e-12
    free = aim.solve(untied_hermite2(mean=1), degree=5, times=[0, 0.05, 0.1], observables=["p_12", "m_1"], check=False)
    assert abs(free["p_12"][-1]) > 0.1
    assert (np.abs(free["m_1"]) > 0.1).all()


@pytest.mark.parametrize("name", ["direct-hermite2", "direct-hermite3"])
def test_direct_even_and_odd_activations_stay_exactly(name):
    run = aim.solve(aim.models.load(name), degree=2, closure="zero", times=[0, 0.5, 2.0])
    # The drift of p is (symbolically) zero times p; in floats the gradient itself carries rounding of 1e-17.
    assert np.abs(run["p_12"]).max() < 1e-15
    assert np.abs(run["q2_12"]).max() < 1e-15
    assert run.status.code == "complete"
    assert "nothing was truncated" in run.status.advice


def test_direct_linear_against_its_closed_solution():
    """Phi = (v_11 - 2 v_12 + v_22)/2 in v = q1 + q2: with X = S_1 - S_2, dX/dt = -(X + X^T).

    The symmetric part of X decays at rate 2, the antisymmetric part of S_1 stays.
    """
    run = aim.solve(aim.models.load("direct-linear"), degree=2, closure="zero", times=[0, 0.3, 1.0])
    decay = np.exp(-2 * run.times)
    # Ginibre matrices of variance one: symmetric and antisymmetric parts have strength 1/2 each.
    assert np.allclose(run["q1_12"], (1 - decay) / 2, atol=1e-9)
    assert np.allclose(run["q1_11"], 0.5 * (decay**2 + (1 - decay) ** 2) + 0.5, atol=1e-9)
    assert np.allclose(run["loss"], decay**2, atol=1e-9)


def test_tied_flow_is_the_untied_flow_with_equal_factors():
    """U = V: dS/dtau = -2 (H S + S H) with H = sum g_l S_l, twice the tied drift of time t: tau = t/2.

    In steps of SGD the factor is four: dU + dV = 4 dW per unit of n alpha_d/d, U and V taking one each, twice over.
    """
    rng = np.random.default_rng(4)
    w = rng.standard_normal((40, 40)) / np.sqrt(40)
    teacher = rng.standard_normal((40, 40))
    teacher = teacher @ teacher.T / 40
    common = {"tokens": 1, "activation": "hermite2", "centred": True}
    tied = aim.AttentionModel.teacher_student(
        parameterization="tied", student=aim.Wishart(1), teacher=aim.Wishart(1), **common
    )
    untied = aim.AttentionModel.teacher_student(
        parameterization="untied", student=aim.GaussianFactors(1), teacher=aim.Wishart(1), **common
    )
    times = np.array([0.0, 0.02, 0.04])
    first = aim.solve(
        tied,
        degree=2,
        closure="matrix",
        initial={"W1": w, "W2": np.linalg.cholesky(teacher)},
        times=times,
        observables=["p_12"],
        check=False,
    )
    second = aim.solve(
        untied,
        degree=2,
        closure="matrix",
        initial={"U1": w, "V1": w, "M2": teacher},
        times=times / 2,
        observables=["p_12"],
        check=False,
    )
    assert np.allclose(first["p_12"], second["p_12"], atol=1e-8)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({"U1": np.ones((4, 2)), "M2": np.eye(4)}, "no matrix was given for V1"),
        ({"U1": np.ones((4, 2)), "V1": np.ones((4, 3)), "M2": np.eye(4)}, "must fit"),
        ({"U1": np.ones(4), "V1": np.ones((4, 2)), "M2": np.eye(4)}, "rows and columns"),
        ({"U1": np.full((4, 2), np.nan), "V1": np.ones((4, 2)), "M2": np.eye(4)}, "not finite"),
    ],
)
def test_bad_matrices(matrices, message):
    with pytest.raises(aim.InputError, match=message):
        aim.solve(aim.models.load("untied-linear"), degree=3, closure="matrix", initial=matrices, times=[0, 0.1])


def test_bad_polynomials():
    W, S = Letter("W", "d", "r"), Letter("S")
    with pytest.raises(aim.InputError, match="must map the embedding space"):
        aim.Form("S1", Polynomial.word(W.T, W)).resolved([W])
    with pytest.raises(aim.InputError, match="neighbouring letters"):
        Polynomial.word(W, S)
    with pytest.raises(aim.InputError, match="is zero"):
        aim.Form("S1", Polynomial.zero()).resolved([W])
    with pytest.raises(aim.InputError, match="width"):
        aim.GaussianEntries(width=0)
    with pytest.raises(aim.InputError, match="trace"):
        aim.GaussianEntries(trace=-1)


def test_vanishing_speed_of_the_mean_is_an_assumption_that_breaks():
    """Without signal and with strong decay U and V die out, and with them t^A + t^B: the status says when."""
    model = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="linear",
        parameterization="untied",
        student=aim.GaussianFactors(width=1, left="1/100", right="1/100"),
        teacher=aim.Ginibre(variance="1/10000"),
        weight_decay=20,
    )
    run = aim.solve(model, degree=3, times=np.linspace(0, 2, 21), observables=["tr(A1)"], check=False)
    assert run.status.code == "assumption broken"
    assert "no longer relaxes" in run.status.advice
    assert 2 < len(run.times) < 21


@pytest.mark.slow
def test_the_untied_limit_from_matrix_flows():
    """q1_12 of the matrix flow at d = 400 over 8 seeds against the limit .204 .322 .396 .440 .467, within four
    standard errors.
    """
    model = aim.models.load("untied-linear")
    values = np.array(
        [
            aim.solve(
                model,
                degree=2,
                closure="matrix",
                dim=400,
                seed=s,
                times=TIMES,
                observables=["q1_12"],
                check=False,
                rtol=1e-6,
                atol=1e-8,
            )["q1_12"]
            for s in range(8)
        ]
    )
    mean, error = values.mean(axis=0)[1:], values.std(axis=0, ddof=1)[1:] / np.sqrt(8)
    assert (error < 3e-3).all()
    assert (np.abs(mean - [0.204, 0.322, 0.396, 0.440, 0.467]) < 4 * error + 5e-4).all()


def test_the_branch_of_the_mean_is_followed_over_a_wide_step():
    """h_2, v_2 = m_2 = 1: at v_1 = .55 m* = .592; at v_1 = .3, c = .1 the slope m^3 - 1.1 m - .2 has its largest

    root at 1.131. At .592 its curvature 3 m^2 - 1.1 is negative, so that one Newton step cannot reach m* = 1.131.
    """
    phi = potential(MeanSquaredError("hermite2"), 1)
    fast = FastMean(phi, np.array([True, False]), np.array([0.5, 1.0]))
    speeds = np.array([1.5, np.inf])
    first = fast.relax(np.diag([0.55, 1.0]), np.zeros((2, 2)), speeds).branch
    assert first.mean[0] == pytest.approx(np.sqrt(2 - 3 * 0.55), rel=1e-8)
    second = fast.follow(np.array([[0.3, 0.1], [0.1, 1.0]]), np.zeros((2, 2)), first)
    assert second.mean[0] == pytest.approx(max(np.roots([1, 0, -1.1, -0.2]).real), rel=1e-8)
    # m^3 - .35 m + .2 has no positive root: the upper branch has ended, and it is said.
    with pytest.raises(aim.AssumptionError, match="branch of the means ends"):
        fast.follow(np.array([[0.55, -0.1], [-0.1, 1.0]]), np.zeros((2, 2)), first)
