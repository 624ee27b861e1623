"""Mixed moments of free families: exact recursion, Fock vectors and random matrices."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.errors import InputError
from aimtheory.spectra import GOE, Atomic, Empirical, FreeFamily, MatrixFamily, Wishart
from aimtheory.spectra.joint_law import all_codes, bracelet, pack, unpack

PAIR = {"A": Wishart("1/2", 2), "B": GOE("3/2")}
MIXED = {"A": Wishart(1), "B": Atomic([0, 1], ["1/3", "2/3"]), "C": GOE(1)}
words = st.lists(st.sampled_from("ABC"), min_size=0, max_size=9)


@given(words)
@settings(max_examples=80, deadline=None)
def test_exact_recursion_equals_compressed_operators(word):
    family = FreeFamily(MIXED)
    assert family.operators(5).moment(word) == pytest.approx(float(family.moment(word)), rel=1e-12, abs=1e-12)


@given(words, st.integers(0, 8))
@settings(max_examples=50, deadline=None)
def test_trace_is_invariant_under_rotation_and_reversal(word, shift):
    family = FreeFamily(MIXED)
    shift %= len(word) or 1
    assert family.moment(word) == family.moment(word[shift:] + word[:shift]) == family.moment(word[::-1])
    # The same on the operators, which do not know it.
    system = family.operators(5)
    assert system.moment(word) == pytest.approx(system.moment(word[shift:] + word[:shift]), rel=1e-11, abs=1e-11)


def test_low_words_have_the_textbook_values():
    family = FreeFamily(PAIR)
    a1, a2 = PAIR["A"].moments(2)
    b2 = PAIR["B"].second_moment
    # tr(ABAB) = m(A^2) m(B)^2 + m(A)^2 m(B^2) - m(A)^2 m(B)^2, and tr(AABB) = m(A^2) m(B^2).
    assert family.moment("ABAB") == a1**2 * b2
    assert family.moment("AABB") == a2 * b2
    assert family.moment("") == 1


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 2)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_alternating_centred_products_vanish(blocks):
    # Voiculescu freeness, the definition: tr((A^n - m)(B^k - m)...) = 0 when neighbours differ.
    blocks = [block for index, block in enumerate(blocks) if index == 0 or block[0] != blocks[index - 1][0]]
    family = FreeFamily(MIXED)
    total = Fraction(0)
    for kept in itertools.product([True, False], repeat=len(blocks)):
        term, word = Fraction(1), ""
        for keep, (letter, count) in zip(kept, blocks, strict=True):
            if keep:
                word += letter * count
            else:
                term *= -family.moment(letter * count)
        total += term * family.moment(word)
    assert total == 0


def test_sum_of_free_letters_has_added_cumulants():
    # Independent route to additivity: expand tr (A + B)^n in words, against the cumulants of the sum.
    family = FreeFamily({"A": Wishart("1/2", 1), "B": Wishart("3/2", 3)})
    total = Wishart(2, 4).moments(6)
    for n in range(1, 7):
        assert sum(family.moment(word) for word in itertools.product("AB", repeat=n)) == total[n - 1]


def test_operator_basis_dimension_and_order():
    system = FreeFamily({"A": Wishart(1), "B": Wishart(2)}).operators(5)
    assert system.dimension == 2**6 - 1
    assert system.basis[0] == ()
    assert system.basis[1:3] == ((("A", 1),), (("B", 1),))
    assert len(set(system.basis)) == system.dimension
    assert [sum(n for _, n in element) for element in system.basis] == system.degrees.tolist()
    for matrix in system.operators.values():
        assert abs(matrix - matrix.T).max() == 0


def test_terminating_laws_leave_out_the_blocks_they_cannot_fill():
    # Two free symmetries generate the infinite dihedral group: 1 + 2 depth elements.
    signs = Atomic([-1, 1])
    system = FreeFamily({"A": signs, "B": signs}).operators(6)
    assert system.dimension == 13
    assert all(count == 1 for element in system.basis for _, count in element)
    square = system.operators["A"] @ system.operators["A"]
    inner = np.flatnonzero(system.degrees < 6)
    assert abs(square - np.eye(13))[np.ix_(inner, inner)].max() < 1e-14


def test_scalar_letter():
    family = FreeFamily({"A": Atomic([3]), "B": Wishart(1)})
    assert family.moment("ABAB") == 9 * Wishart(1).second_moment
    assert family.operators(3).moment("ABAB") == pytest.approx(18, rel=1e-14)
    assert family.operators(0).moment("AB") == pytest.approx(3.0)


@pytest.mark.parametrize("laws", [PAIR, MIXED], ids=["two", "three"])
def test_table_of_all_words(laws):
    family = FreeFamily(laws)
    letters = family.letters
    tables = family.moment_table(6)
    for length, table in enumerate(tables):
        assert table.shape == (1 << (family.bits * length),)
        codes = all_codes(len(letters), family.bits, length)
        exact = [float(family.moment([letters[i] for i in row])) for row in unpack(codes, family.bits, length)]
        assert table[codes] == pytest.approx(exact, rel=1e-12, abs=1e-12)
        assert family.moments_of_codes(codes, length) == pytest.approx(table[codes], rel=1e-13, abs=1e-13)
        assert np.isnan(table).sum() == len(table) - len(codes)


def test_long_words_keep_relative_accuracy():
    family = FreeFamily({"A": Wishart(1), "B": Wishart("1/2")})
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 2, size=(20, 18))
    values = family.moments_of_codes(pack(digits, 1), 18)
    exact = [float(family.moment(["AB"[i] for i in row])) for row in digits]
    assert values == pytest.approx(exact, rel=1e-12)


def test_free_moments_of_sampled_matrices():
    rng = np.random.default_rng(11)
    dim, draws = 120, 30
    family = FreeFamily(PAIR)
    chosen = ["AB", "ABAB", "AABB", "AABAB", "ABBABB", "AABABB"]
    values = np.array(
        [
            [MatrixFamily({n: law.sample(dim, rng) for n, law in PAIR.items()}).moment(word) for word in chosen]
            for _ in range(draws)
        ]
    )
    error = values.std(axis=0, ddof=1) / math.sqrt(draws)
    exact = np.array([float(family.moment(word)) for word in chosen])
    # 5 s.e. plus a 1/d bias of one real ensemble, at most a few times the moment itself.
    assert np.all(np.abs(values.mean(axis=0) - exact) < 5 * error + 6 * (1 + np.abs(exact)) / dim)


def test_symbolic_family_specializes_to_the_rational_one():
    rho, t = sp.symbols("rho t", positive=True)
    symbolic = FreeFamily({"A": Wishart(rho, t), "B": Wishart(1)}).moment("AABAB")
    exact = FreeFamily({"A": Wishart("2/3", 5), "B": Wishart(1)}).moment("AABAB")
    value = symbolic.subs({rho: sp.Rational(2, 3), t: 5})
    assert Fraction(int(value.p), int(value.q)) == exact


def test_empirical_letters():
    rng = np.random.default_rng(2)
    law = Empirical(rng.standard_normal(40))
    family = FreeFamily({"A": law, "B": Wishart(1)})
    assert family.operators(4).moment("AABABB") == pytest.approx(float(family.moment("AABABB")), rel=1e-10)


@given(st.lists(st.integers(0, 2), max_size=8))
def test_bracelet_is_the_least_of_the_orbit(word):
    word = tuple(word)
    orbit = {w[k:] + w[:k] for w in (word, word[::-1]) for k in range(max(1, len(word)))}
    assert bracelet(word) == min(orbit)


def test_bad_words_and_families_are_named():
    family = FreeFamily(PAIR)
    with pytest.raises(InputError, match="unknown letter 'C'"):
        family.moment("ABC")
    with pytest.raises(InputError, match="at least one letter"):
        FreeFamily({})
    with pytest.raises(InputError, match="not a SpectralLaw"):
        FreeFamily({"A": 3})
    with pytest.raises(InputError, match="does not fit"):
        family.moments_of_codes(np.array([9]), 2)
    with pytest.raises(InputError, match="letter 3"):
        FreeFamily(MIXED).moments_of_codes(np.array([3]), 1)
    with pytest.raises(InputError, match="length = -1"):
        family.operators(-1)
