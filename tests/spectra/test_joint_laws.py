"""Given matrices and given moments as joint laws; realizability."""

import itertools

import numpy as np
import pytest

from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import GOE, FreeFamily, JointMoments, MatrixFamily, Wishart, check_realizable, gram_matrix
from aimtheory.spectra.joint_law import all_codes, unpack

RNG = np.random.default_rng(4)
MATRICES = {"A": RNG.standard_normal((7, 7)), "B": RNG.standard_normal((7, 7)), "C": RNG.standard_normal((7, 7))}


def brute_trace(word):
    product = np.eye(7)
    for letter in word:
        product = product @ MATRICES[letter]
    return np.trace(product) / 7


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5])
def test_matrix_moments_of_all_codes(length):
    family = MatrixFamily(MATRICES)
    codes = all_codes(3, family.bits, length)
    words = [["ABC"[i] for i in row] for row in unpack(codes, family.bits, length)]
    expected = [brute_trace(word) for word in words]
    assert family.moments_of_codes(codes, length) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    assert [family.moment(word) for word in words] == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_matrix_moments_of_few_long_codes(monkeypatch):
    # A tiny cache makes the walk over prefixes do the work.
    monkeypatch.setattr("aimtheory.spectra.matrix_family._BUDGET", 1000)
    family = MatrixFamily(MATRICES)
    digits = RNG.integers(0, 3, size=(12, 9))
    codes = np.array([sum(int(d) << (2 * (8 - k)) for k, d in enumerate(row)) for row in digits])
    expected = [brute_trace(["ABC"[i] for i in row]) for row in digits]
    assert family.moments_of_codes(codes, 9) == pytest.approx(expected, rel=1e-10)


def test_matrix_family_table_matches_moments():
    family = MatrixFamily({"A": MATRICES["A"], "B": MATRICES["B"]})
    table = family.moment_table(4)
    for index, word in enumerate(itertools.product("AB", repeat=4)):
        assert table[4][index] == pytest.approx(brute_trace(word), rel=1e-11)


def test_matrix_family_refuses_bad_matrices():
    with pytest.raises(InputError, match="not finite"):
        MatrixFamily({"A": [[np.nan]]})
    with pytest.raises(InputError, match="square"):
        MatrixFamily({"A": np.ones((2, 3))})
    with pytest.raises(InputError, match="shape"):
        MatrixFamily({"A": np.ones((2, 2)), "B": np.ones((3, 3))})


def free_table(degree):
    family = FreeFamily({"A": Wishart(1), "B": GOE(1)})
    words = (word for n in range(1, degree + 1) for word in itertools.product("AB", repeat=n))
    return {word: family.moment(word) for word in words}


def test_moments_of_free_matrices_are_realizable():
    table = JointMoments(free_table(6))
    assert table.degree == 6
    assert table.check_realizable() > 0
    assert table.moment("BBA") == table.moment("ABB") == 1


def test_gram_matrix_is_the_gram_matrix_of_matrices():
    symmetric = {name: value + value.T for name, value in MATRICES.items()}
    family = MatrixFamily(symmetric)
    words = [word for n in range(3) for word in itertools.product("ABC", repeat=n)]
    vectors = []
    for word in words:
        product = np.eye(7)
        for letter in word:
            product = product @ symmetric[letter]
        vectors.append(product.ravel())
    stacked = np.array(vectors)
    assert gram_matrix(family, 2) == pytest.approx(stacked @ stacked.T / 7, rel=1e-10, abs=1e-10)
    assert check_realizable(family, 2) > -1e-12


def test_unrealizable_moments_are_refused_with_the_eigenvalue():
    # tr(AB) = 2 breaks Cauchy-Schwarz with tr A^2 = tr B^2 = 1: the Gram block [[1, 2], [2, 1]] has eigenvalue -1.
    values = {"A": 0, "B": 0, "AA": 1, "BB": 1, "AB": 2}
    with pytest.raises(AssumptionError, match=r"smallest eigenvalue -1\b"):
        JointMoments(values).check_realizable()
    with pytest.raises(AssumptionError, match="negative"):
        JointMoments({"A": 0, "AA": -1}).check_realizable()


def test_moment_tables_are_checked():
    with pytest.raises(InputError, match="one trace"):
        JointMoments({"AB": 1, "BA": 2})
    with pytest.raises(InputError, match="not finite"):
        JointMoments({"A": float("nan")})
    with pytest.raises(InputError, match="no moment was given"):
        JointMoments({"A": 1, "AA": 1}).moment("AAA")
    with pytest.raises(InputError, match="empty word"):
        JointMoments({"": 2, "A": 1})
    table = JointMoments({"A": 0.5, "AA": 1.0}).moment_table(2)
    assert [table[1][0], table[2][0]] == [0.5, 1.0]


def test_letters_with_transposes():
    """tr(X X^T A) and tr(X^T X A) are two numbers; each equals its rotations and transposes, as matrices say."""
    rng = np.random.default_rng(4)
    x, a = rng.standard_normal((2, 5, 5))
    family = MatrixFamily({"A": a + a.T, "X": x, "X^T": x.T})
    names = family.letters
    words = [word for n in range(1, 5) for word in itertools.product(names, repeat=n)]
    whole = JointMoments({word: family.moment(word) for word in words})
    assert whole.degree == 4
    assert len(whole.values) < len(words) / 4
    for word in words:
        assert whole.moment(word) == pytest.approx(family.moment(word), rel=1e-12, abs=1e-12)
    assert gram_matrix(whole, 2) == pytest.approx(gram_matrix(family, 2), rel=1e-12, abs=1e-12)
    products = [np.linalg.multi_dot([np.eye(5), *map(family.matrix, word), np.eye(5)]) for word in words[:12]]
    stacked = np.array([np.eye(5), *products]).reshape(13, 25)
    assert gram_matrix(family, 2) == pytest.approx(stacked @ stacked.T / 5, rel=1e-12, abs=1e-12)
    assert whole.check_realizable() > -1e-12
    with pytest.raises(InputError, match="no moment was given"):
        JointMoments({("X", "X^T", "A"): 1.0}).moment(("X^T", "X", "A"))
    with pytest.raises(InputError, match="one trace"):
        JointMoments({("X", "X^T", "A"): 1, ("A", "X", "X^T"): 2})
