"""The published hardmax curve is what the bivariate density in place of the derivative of the orthant gives."""

import importlib.util
from pathlib import Path

import pytest

import aimtheory
from aimtheory.bayes import StateEvolution, make_channel, make_prior

SCRIPT = Path(aimtheory.__file__).parent.parent / "docs" / "hardmax_published_curve.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("hardmax_published_curve", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_density_explains_the_published_data(script):
    """All five rows within their Monte-Carlo uncertainty of 2e-3, while the exact error is lower by 0.03 to 0.26."""
    for _, exact, density, published in script.table(list(script.PUBLISHED)):
        assert density == pytest.approx(published, abs=2e-3)
        assert exact < published - 0.03


def test_the_density_is_not_stationary(script):
    """With the density, qhat differs from 4 alpha Psi_out' by far: it is no saddle point of the free entropy."""
    channel = make_channel("hardmax")
    psi = channel.psi_out([0.749, 0.751], 1.5).value
    slope = 4 * float(psi[1] - psi[0]) / 0.002
    assert float(channel.signal(0.75, 0.75).value) == pytest.approx(slope, rel=1e-5)
    assert script.density_signal(1.0) / 0.75 < 0.8 * slope


def test_the_page_shows_the_numbers_of_the_script(script):
    page = SCRIPT.with_suffix(".md").read_text(encoding="utf-8")
    rows = script.table(list(script.PUBLISHED))
    for alpha, exact, density, published in rows:
        assert f"| {alpha:.5f} | {exact:.7f} | {density:.7f} | {published:.4f} |" in page
    best = StateEvolution(make_prior(0.5), make_channel("hardmax")).solve(1.1).mmse
    assert round(best, 3) == 0.068
