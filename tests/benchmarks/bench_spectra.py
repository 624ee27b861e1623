"""Speed of free moments and of the semicircle convolution, beside baselines measured in the same run."""

import numpy as np

from aimtheory.spectra import FreeFamily, Wishart
from aimtheory.spectra.joint_law import bracelet, pack, unpack_dense

PAIR = FreeFamily({"A": Wishart(1), "B": Wishart("1/2")})


def test_operators_depth_10(benchmark):
    assert benchmark(PAIR.operators, 10).dimension == 2047


def test_table_of_two_million_words(benchmark):
    assert len(benchmark(PAIR.moment_table, 20)[20]) == 1 << 20


def test_canonical_words_by_fock_vectors(benchmark):
    digits = unpack_dense(2, 12)
    codes = pack(np.array(sorted({bracelet(tuple(row)) for row in digits.tolist()})), 1)
    assert len(benchmark(PAIR.moments_of_codes, codes, 12)) == len(codes)


def test_canonical_words_by_exact_recursion_baseline(benchmark):
    digits = unpack_dense(2, 12)
    words = sorted({bracelet(tuple(row)) for row in digits.tolist()})

    def run():
        family = FreeFamily({"A": Wishart(1), "B": Wishart("1/2")})
        return [family.moment(["AB"[index] for index in word]) for word in words]

    assert len(benchmark.pedantic(run, rounds=1)) == len(words)
