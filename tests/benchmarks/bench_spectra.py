"""Speed of free moments and of the semicircle convolution, beside baselines measured in the same run."""

import numpy as np
import pytest

from aimtheory.spectra import (
    Empirical,
    FreeFamily,
    SemicircleConvolution,
    Wishart,
    bayes_wishart,
    mmse,
    mmse_digits,
    mutual_information,
)
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


PRIOR = bayes_wishart(0.5)
NOISY = SemicircleConvolution(PRIOR, 0.1)
POINTS = np.linspace(-1.0, 5.0, 200)


def test_density_at_200_points(benchmark):
    assert benchmark(NOISY.density, POINTS).shape == (200,)


def test_density_by_companion_roots_baseline(benchmark):
    def run():
        s, noise = 0.5**-0.5, 0.1
        return [np.roots([s * noise, -(s * x + noise), x + s - 1 / s, -1]).imag.max() / np.pi for x in POINTS]

    assert np.array(benchmark(run)) == pytest.approx(NOISY.density(POINTS), abs=1e-8)


def test_mmse_of_256_precisions(benchmark):
    qhat = np.geomspace(1e-3, 1e6, 256)
    assert benchmark(mmse, PRIOR, qhat).shape == (256,)


def test_mutual_information_of_256_precisions(benchmark):
    qhat = np.geomspace(1e-3, 1e6, 256)
    assert benchmark(mutual_information, PRIOR, qhat).shape == (256,)


def test_mmse_of_an_empirical_law(benchmark):
    law = Empirical.from_matrix(PRIOR.sample(200, np.random.default_rng(0)))
    assert float(benchmark(mmse, law, 5.0)) > 0


def test_mmse_to_30_digits(benchmark):
    assert benchmark(mmse_digits, PRIOR, 100, 30) > 0
