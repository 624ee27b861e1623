"""Trace order parameters out of Wick contractions, against equation (4), the log-MGF, cyclic orders and Monte Carlo."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.population import QuadraticForm, gaussian_limit, joint_cumulant, moment
from aimtheory.population.wick import covariance_symbol, pairings
from aimtheory.words import Letter, Word, canonical_trace

DIM, TOKENS = 4, 3


def _setting(seed, count, symmetric=False):
    rng = np.random.default_rng(seed)
    letters = [Letter(f"S{n + 1}", symmetric=symmetric) for n in range(count)]
    matrices = {}
    for letter in letters:
        matrix = rng.standard_normal((DIM, DIM))
        matrices[letter.name] = matrix + matrix.T if symmetric else matrix
    root = rng.standard_normal((TOKENS, TOKENS)) / 2
    tokens = rng.integers(0, TOKENS, (count, 2))
    forms = [QuadraticForm(int(i), int(j), letter) for (i, j), letter in zip(tokens, letters, strict=True)]
    return forms, matrices, root @ root.T + np.eye(TOKENS) / 4


def _symmetrized(form, matrices):
    """The matrix A of G = Xᵀ A X/√d on the L·d dimensional X."""
    block = np.zeros((TOKENS, TOKENS))
    block[form.row, form.column] = 1
    full = np.kron(block, matrices[form.matrix.name])
    return (full + full.T) / 2


def test_first_two_cumulants_are_equation_4():
    a, b = Letter("A"), Letter("B")
    (mean, _), covariance = gaussian_limit([QuadraticForm(0, 1, a), QuadraticForm(2, 3, b)])
    (term,) = mean.terms
    # E G = C_12 Tr A/√d = C_12 d^{1/2} tr A.
    assert (term.coefficient, term.words, term.power) == (covariance_symbol(0, 1), (Word.of(a),), sp.Rational(1, 2))
    found = {t.words[0]: (t.coefficient, t.power) for t in covariance[0][1].terms}
    # C_ii' C_jj' tr(A Bᵀ) + C_ij' C_ji' tr(A B).
    assert found == {
        canonical_trace(Word.of(a, b.T)): (covariance_symbol(0, 2) * covariance_symbol(1, 3), 0),
        canonical_trace(Word.of(a, b)): (covariance_symbol(0, 3) * covariance_symbol(1, 2), 0),
    }


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("symmetric", [False, True])
def test_cumulants_are_sums_over_cyclic_orders(count, symmetric):
    forms, matrices, c = _setting(count, count, symmetric)
    sigma = np.kron(c, np.eye(DIM))
    factors = [_symmetrized(form, matrices) @ sigma for form in forms]
    total = 0.0
    for order in itertools.permutations(range(1, count)):
        product = factors[0]
        for n in order:
            product = product @ factors[n]
        total += np.trace(product)
    expected = 2 ** (count - 1) * total / DIM ** (count / 2)
    assert joint_cumulant(forms).evaluate(matrices, c) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_cumulants_are_derivatives_of_the_log_mgf(count):
    forms, matrices, c = _setting(10 + count, count)
    with mp.workdps(60):
        sigma = mp.matrix(np.kron(c, np.eye(DIM)).tolist())
        products = [sigma * mp.matrix(_symmetrized(form, matrices).tolist()) / mp.sqrt(DIM) for form in forms]
        size = TOKENS * DIM

        def log_mgf(weights):
            total = mp.eye(size)
            for weight, product in zip(weights, products, strict=True):
                total -= 2 * weight * product
            return -mp.log(mp.det(total)) / 2

        step = mp.mpf(10) ** -12
        derivative = mp.mpf(0)
        for signs in itertools.product((1, -1), repeat=count):
            derivative += math.prod(signs) * log_mgf([s * step for s in signs])
        derivative /= (2 * step) ** count
    assert joint_cumulant(forms).evaluate(matrices, c) == pytest.approx(float(derivative), rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_cumulants_carry_one_trace_and_the_power_of_d(count):
    forms, _, _ = _setting(20 + count, count)
    terms = joint_cumulant(forms).terms
    assert {term.power for term in terms} == {1 - sp.Rational(count, 2)}
    assert all(len(term.words) == 1 and len(term.words[0]) == count for term in terms)
    # (2m−2)!! connected pairings; every C_ij at 1 counts them.
    ones = sum(term.coefficient.subs(dict.fromkeys(term.coefficient.free_symbols, 1)) for term in terms)
    assert ones == 2 ** (count - 1) * math.factorial(count - 1)


def _set_partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for chosen in itertools.combinations(rest, size):
            for partition in _set_partitions([n for n in rest if n not in chosen]):
                yield [[first, *chosen], *partition]


@pytest.mark.parametrize("centred", [False, True])
def test_moments_are_partitions_into_cumulants(centred):
    forms, matrices, c = _setting(31, 4)
    forms = [QuadraticForm(f.row, f.column, f.matrix, centred) for f in forms]
    total = sum(
        math.prod(joint_cumulant([forms[n] for n in block]).evaluate(matrices, c) for block in partition)
        for partition in _set_partitions([0, 1, 2, 3])
    )
    assert moment(forms).evaluate(matrices, c) == pytest.approx(total, rel=1e-11)


def test_centring_removes_the_mean_alone():
    forms, matrices, c = _setting(32, 2)
    centred = [QuadraticForm(f.row, f.column, f.matrix, True) for f in forms]
    assert joint_cumulant([centred[0]]).terms == ()
    assert joint_cumulant(centred) == joint_cumulant(forms)
    assert moment(centred).evaluate(matrices, c) == pytest.approx(
        joint_cumulant(forms).evaluate(matrices, c), rel=1e-12
    )


def test_moments_agree_with_monte_carlo():
    forms, matrices, c = _setting(33, 3)
    rng = np.random.default_rng(34)
    root = np.linalg.cholesky(c)
    tokens = np.einsum("ij,njd->nid", root, rng.standard_normal((400_000, TOKENS, DIM)))
    product = np.ones(len(tokens))
    for form in forms:
        x, y = tokens[:, form.row], tokens[:, form.column]
        product *= np.einsum("nd,nd->n", x @ matrices[form.matrix.name], y) / np.sqrt(DIM)
    standard_error = product.std() / np.sqrt(len(product))
    assert abs(product.mean() - moment(forms).evaluate(matrices, c)) < 4 * standard_error


def test_number_of_pairings_is_the_double_factorial():
    for m in range(1, 6):
        found = list(pairings(tuple(range(2 * m))))
        assert len(set(found)) == len(found) == math.prod(range(1, 2 * m, 2))


def test_input_errors():
    with pytest.raises(InputError, match="must act on the embedding space"):
        QuadraticForm(0, 0, Letter("W", "d", "r"))
    with pytest.raises(InputError, match="tokens count from 0"):
        QuadraticForm(-1, 0, Letter("S"))
    with pytest.raises(InputError, match="for 1 to"):
        moment([])
