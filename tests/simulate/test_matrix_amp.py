"""AMP of several matrices and of cross-attention against their state evolution."""

import numpy as np
import pytest

from aimtheory.bayes import (
    CrossSign,
    CrossSoftmax,
    LinearHeads,
    RectangularPrior,
    SignHeads,
    Specialization,
)
from aimtheory.errors import InputError
from aimtheory.simulate import amp
from aimtheory.spectra import GOE, RectangularFactors, Wishart


def agrees(run, dim):
    """Within 4 standard errors over seeds and a bias O(1/d)."""
    mean, error = np.ravel(run.mean("mse")[-1]), np.ravel(run.standard_error("mse")[-1])
    scale = max(prior.second_moment for prior in run.priors)
    return bool(np.all(np.abs(mean - np.ravel(run.theory)) < 4 * error + 3 * scale / dim))


def test_linear_heads():
    run = amp(LinearHeads(2, [[1.0, 1.0]], 1.0), prior=[GOE(1), GOE(1)], alpha=0.3, dim=40, seeds=range(3))
    assert run.status.ok
    assert agrees(run, 40)


def test_one_wishart_beside_a_goe():
    run = amp(LinearHeads(2, [[1.0, 0.5]], 0.5), prior=[Wishart("1/2", 1), GOE(1)], alpha=0.3, dim=40, seeds=range(3))
    assert run.status.ok
    assert agrees(run, 40)


@pytest.mark.parametrize(
    ("channel", "law"),
    [(CrossSoftmax(2, 2), RectangularFactors("1/2", "3/2")), (CrossSign(2, 2), RectangularFactors(1, "1/2"))],
)
def test_cross_attention(channel, law):
    run = amp(channel, prior=RectangularPrior(law), alpha=0.2, dim=40, seeds=range(3))
    assert run.status.ok
    assert agrees(run, 40)


@pytest.mark.slow
def test_cross_attention_at_dimension_120():
    run = amp(
        CrossSoftmax(2, 2), prior=RectangularPrior(RectangularFactors("1/2", 2)), alpha=0.4, dim=120, seeds=range(3)
    )
    assert run.status.ok
    assert agrees(run, 120)


@pytest.mark.slow
def test_specialization_at_dimension_150():
    """Two sign heads at three times the threshold: AMP leaves the symmetric solution for the specialized one."""
    alpha = 1.0
    pair = Specialization(SignHeads(2, 2))
    symmetric, special = pair.fixed_points(alpha)
    run = amp(
        SignHeads(2, 2), prior=[GOE(1), GOE(1)], alpha=alpha, dim=150, seeds=[0, 1], iterations=150, predict=False
    )
    errors = run.final("mse").mean(axis=1)
    assert np.all(np.abs(errors - special.mmse) < 0.1 * (symmetric.mmse - special.mmse))


def test_bad_input_is_named():
    with pytest.raises(InputError, match="must be a RectangularLaw"):
        amp(CrossSoftmax(2, 2), prior=GOE(1), alpha=0.1, dim=10)
    with pytest.raises(InputError, match="sees 2 matrices"):
        amp(SignHeads(2, 2), prior=[GOE(1)] * 3, alpha=0.1, dim=10)
