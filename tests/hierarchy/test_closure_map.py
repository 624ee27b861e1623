"""A closure map, a word above the degree as a function of those kept: one right-hand side by every route."""

import mpmath
import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy.closure_map import check_closure_map
from aimtheory.hierarchy.compiled import compile_hierarchy
from aimtheory.hierarchy.initial_moments import initial_moments
from aimtheory.hierarchy.lambdified import lambdified_drift
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.report import python_source
from aimtheory.words import canonical_trace


def splitting(h):
    """tr(u v) -> tr(u) tr(v) for the halves of every missing word that are closed and kept, else zero."""
    kept = set(h.words)
    result = {}
    for word in h.missing:
        for cut in range(1, len(word)):
            u, v = type(word)(word.letters[:cut]), type(word)(word.letters[cut:])
            if u.is_closed and v.is_closed and {canonical_trace(u), canonical_trace(v)} <= kept:
                result[word] = moment_symbol(canonical_trace(u)) * moment_symbol(canonical_trace(v))
                break
    return result


@pytest.mark.parametrize(
    ("name", "degree"), [("tied-softmax", 4), ("untied-linear", 2), ("direct-linear", 3), ("tied-softmax-values", 2)]
)
def test_all_routes_take_the_same_map(name, degree):
    h = aim.derive(aim.models.load(name), degree)
    closure = splitting(h)
    assert h.closes or closure
    rng = np.random.default_rng(degree)
    couplings, moments = rng.standard_normal(len(h.views.couplings)), rng.standard_normal(len(h))
    compiled = compile_hierarchy(h, closure).drift(couplings, moments)
    assert compiled == pytest.approx(lambdified_drift(h, "numpy", closure)(couplings, moments), rel=1e-12, abs=1e-12)
    exact = lambdified_drift(h, "mpmath", closure)([mpmath.mpf(c) for c in couplings], [mpmath.mpf(m) for m in moments])
    assert compiled == pytest.approx([float(x) for x in exact], rel=1e-12, abs=1e-12)
    space = {}
    exec(python_source(h, closure=closure), space)
    assert space["drift"](couplings, moments) == pytest.approx(compiled, rel=1e-12, abs=1e-12)
    # Word by word from the Leibniz rule, the missing moments put in by hand.
    values = dict(zip(map(moment_symbol, h.words), moments, strict=True))
    for n, word in enumerate(h.words):
        total = 0.0
        for (coupling, target), coefficient in h.drift(word).items():
            place = dict(zip(h.words, moments, strict=True)).get(target)
            if place is None:
                place = 1.0 if not len(target) else float(sp.sympify(closure.get(target, 0)).subs(values))
            total += float(coefficient) * couplings[h.views.couplings.index(coupling)] * place
        assert compiled[n] == pytest.approx(total, rel=1e-10, abs=1e-10)


def test_the_empty_map_is_the_zero_closure():
    h = aim.derive(aim.models.load("tied-softmax"), 4)
    rng = np.random.default_rng(0)
    couplings, moments = rng.standard_normal(len(h.views.couplings)), rng.standard_normal(len(h))
    assert (compile_hierarchy(h, {}).drift(couplings, moments) == compile_hierarchy(h).drift(couplings, moments)).all()
    assert all(value == 0 for value in check_closure_map(h, None).values())


def test_the_right_missing_words_make_the_first_steps_exact():
    """Given the true third moments of time zero, degree 2 has the derivative of every word exactly at time zero."""
    model = aim.models.load("exact-linear")
    low, high = aim.derive(model, 2), aim.derive(model, 4)
    start = initial_moments(high)
    closure = {word: sp.Float(start[high.index(word)], 17) for word in low.missing}
    couplings = np.array([2.0, -2.0])
    whole = compile_hierarchy(high).drift(couplings, start)
    closed = compile_hierarchy(low, closure).drift(couplings, initial_moments(low))
    assert closed == pytest.approx([whole[high.index(word)] for word in low.words], rel=1e-14)


def test_many_digits_take_a_map():
    model = aim.models.load("exact-linear")
    h = aim.derive(model, 2)
    closure = splitting(h)
    run = aim.solve_to_digits(model, degree=2, times=["1/10"], digits=30, observables=["tr(S1)"], closure=closure)
    system = compile_hierarchy(h, closure)
    from scipy.integrate import solve_ivp

    rough = solve_ivp(
        lambda _, y: system.drift(np.array([2.0, -2.0]), y), (0, 0.1), initial_moments(h), rtol=1e-12, atol=1e-14
    )
    assert float(run["tr(S1)"][0]) == pytest.approx(rough.y[0, -1], rel=1e-10)
    zero = aim.solve_to_digits(model, degree=2, times=["1/10"], digits=30, observables=["tr(S1)"])
    assert abs(float(run["tr(S1)"][0] - zero["tr(S1)"][0])) > 1e-4


def test_bad_maps():
    h = aim.derive(aim.models.load("exact-linear"), 2)
    with pytest.raises(aim.InputError, match=r"gives tr\(S1\), which no equation of degree 2 calls"):
        check_closure_map(h, {h.words[0]: sp.S.One})
    with pytest.raises(aim.InputError, match="by z, which is not a moment that is kept"):
        check_closure_map(h, {h.missing[0]: sp.Symbol("z")})
