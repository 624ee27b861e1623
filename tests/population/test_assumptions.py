"""The monitors name the assumption; the Gaussian law is equation (4) at finite d."""

import numpy as np
import pytest

from aimtheory.errors import AssumptionError, InputError
from aimtheory.population import (
    GaussianLaw,
    check_extensive_rank,
    check_finite_mean,
    extensive_rank,
    nearest_covariance,
    nearest_order_parameters,
    order_parameters,
)


def test_extensive_rank_passes_and_finite_rank_does_not():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((200, 200)) / np.sqrt(200)
    # Marchenko–Pastur with c = 1: ‖S‖_op → 4, ‖S‖_F² = 2d, ratio √8/√d.
    assert check_extensive_rank(factor @ factor.T).ratio == pytest.approx(np.sqrt(8 / 200), rel=0.1)
    for rank in (1, 2, 3):
        vectors = np.linalg.qr(rng.standard_normal((200, rank)))[0]
        with pytest.raises(AssumptionError, match=r"Assumption 1\.1 of \[D\]"):
            check_extensive_rank(vectors @ vectors.T)
        assert extensive_rank(vectors @ vectors.T).effective_rank == pytest.approx(rank)


def test_spectrum_and_matrix_agree():
    values = np.array([3.0, -1.0, 0.5, 2.0])
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    matrix = rotation @ np.diag(values) @ rotation.T
    assert extensive_rank(values).ratio == pytest.approx(extensive_rank(matrix).ratio)


def test_skewness_bound_bounds_the_skewness():
    rng = np.random.default_rng(2)
    for _ in range(20):
        values = rng.standard_normal(6)
        skewness = 8 * (values**3).sum() / (2 * (values**2).sum()) ** 1.5
        assert abs(skewness) <= extensive_rank(values).skewness_bound + 1e-12
    # A single direction attains it: chi-squared has skewness √8.
    assert extensive_rank(np.array([1.0, 0, 0])).skewness_bound == pytest.approx(np.sqrt(8))


def test_uncentred_tied_forms_are_refused():
    with pytest.raises(AssumptionError, match="use the centred forms"):
        check_finite_mean(1.0, centred=False, name="S_1")
    check_finite_mean(1.0, centred=True)
    with pytest.raises(InputError, match="not finite"):
        check_finite_mean(float("nan"), centred=True)


def test_bad_matrices_are_input_errors():
    for bad in (np.zeros((3, 3)), np.ones((2, 3)), np.full((2, 2), np.nan)):
        with pytest.raises(InputError):
            extensive_rank(bad)
    with pytest.raises(InputError, match="matrix 1 has shape"):
        order_parameters([np.eye(3), np.eye(4)])


def test_law_is_the_exact_mean_and_covariance_at_finite_dimension():
    rng = np.random.default_rng(3)
    dim, tokens = 6, 2
    matrices = [rng.standard_normal((dim, dim)) + np.eye(dim) for _ in range(2)]
    c = np.array([[1.0, 0.4], [0.4, 0.8]])
    law = GaussianLaw.of(order_parameters(matrices), tokens, c)
    x = np.einsum("ij,njd->nid", np.linalg.cholesky(c), rng.standard_normal((300_000, tokens, dim)))
    forms = np.stack([np.einsum("nia,ab,njb->nij", x, s, x) / np.sqrt(dim) for s in matrices], axis=-1)
    flat = forms.reshape(len(forms), -1)
    error = flat.std(axis=0) / np.sqrt(len(flat))
    assert (np.abs(flat.mean(axis=0) - law.mean.ravel()) < 4.5 * error).all()
    centred = flat - law.mean.ravel()
    products = np.einsum("na,nb->nab", centred, centred)
    error = products.std(axis=0) / np.sqrt(len(flat))
    covariance = law.covariance.reshape(flat.shape[1], flat.shape[1])
    assert (np.abs(products.mean(axis=0) - covariance) < 4.5 * error).all()


def test_law_samples_have_the_law_even_when_singular():
    parameters = order_parameters([np.eye(5), 2 * np.eye(5)], centred=True)
    draws = GaussianLaw.of(parameters, 2).sample(50_000, np.random.default_rng(4))
    # Symmetric matrices give symmetric forms; the second is twice the first.
    np.testing.assert_allclose(draws, np.swapaxes(draws, 1, 2), atol=1e-6)
    np.testing.assert_allclose(draws[..., 1], 2 * draws[..., 0], atol=1e-6)
    assert draws[:, 0, 0, 0].var() == pytest.approx(2.0, abs=4 * 2 * np.sqrt(2 / 50_000))


def test_projection_to_the_cone_is_the_nearest_point():
    rng = np.random.default_rng(5)
    for _ in range(10):
        q1, q2 = (
            (lambda a: (a + a.T) / 2)(rng.standard_normal((3, 3))),
            (lambda a: (a + a.T) / 2)(rng.standard_normal((3, 3))),
        )
        p1, p2 = nearest_order_parameters(q1, q2)
        for sign in (1, -1):
            assert np.linalg.eigvalsh(p1 + sign * p2)[0] >= -1e-12
        again = nearest_order_parameters(p1, p2)
        np.testing.assert_allclose(again[0], p1, atol=1e-12)
        distance = ((p1 - q1) ** 2 + (p2 - q2) ** 2).sum()
        for _ in range(20):
            w, v = rng.standard_normal((2, 3, 3))
            plus, minus = w @ w.T, v @ v.T
            other = ((plus + minus) / 2, (plus - minus) / 2)
            # The projection onto a convex cone: no point of the cone is closer.
            assert ((other[0] - q1) ** 2 + (other[1] - q2) ** 2).sum() >= distance - 1e-12
        inside = p1 + p2
        np.testing.assert_allclose(nearest_covariance(inside), inside, atol=1e-12)
