"""Records of models and of what runs hold beside them."""

import json
import pickle

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory import library
from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    MultiIndexFixedPoint,
    SignChannel,
    SoftmaxChannel,
)
from aimtheory.frozen import same_value
from aimtheory.records import decode, encode
from aimtheory.spectra import FreeFamily, JointMoments, UserDensity, mmse


def through_json(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


@pytest.mark.parametrize("name", library.names())
def test_every_built_in_model_comes_back(name):
    model = aim.models.load(name)
    hash(model)
    for other in (through_json(model), pickle.loads(pickle.dumps(model))):
        assert other == model
        assert hash(other) == hash(model)


def density():
    return UserDensity(lambda x: 0.75 * (1 - x**2), [(-1.0, 1.0)])


LAWS = [
    aim.Wishart(sp.sqrt(2), "1/3"),
    aim.GOE(sp.pi),
    aim.Atomic([1.0, 2.0, 3.0], [0.1, 0.2, 0.7]),
    aim.Atomic([0, sp.sqrt(2)], ["1/3", "2/3"]),
    aim.Empirical(np.random.default_rng(0).normal(size=40)),
    aim.Ginibre(0.3, 1),
    aim.GaussianFactors("1/2", 0.1, sp.Symbol("b", positive=True)),
    density(),
    FreeFamily({"S1": aim.Wishart(1), "S2": density()}),
    aim.MatrixFamily({"A": np.eye(3), "B": np.arange(9.0).reshape(3, 3)}),
    JointMoments({("A",): 1, ("A", "B"): sp.sqrt(3), ("B",): 0.1}),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_every_law_comes_back(law):
    for other in (through_json(law), pickle.loads(pickle.dumps(law))):
        assert other == law
        assert type(other) is type(law)


def test_a_density_of_ones_own_is_kept_by_its_table():
    law, x = density(), np.linspace(-0.99, 0.99, 101)
    other = through_json(law)
    np.testing.assert_allclose(other.density(x), 0.75 * (1 - x**2), rtol=0, atol=1e-14)
    assert np.array_equal(mmse(other, [0.5, 5.0]), mmse(law, [0.5, 5.0]))
    assert other.moments(4) == law.moments(4)
    assert law != UserDensity(lambda x: 0.5 + 0 * x, [(-1.0, 1.0)])
    assert {law: 1}[other] == 1


@pytest.mark.parametrize(
    "channel",
    [
        SoftmaxChannel(3, 0.7),
        HardmaxChannel(2),
        LinearChannel(2, [[1.0, 0.1], [0.1, 0.0]]),
        LinearChannel(3, 0.25),
        SignChannel(2, 0.1),
    ],
    ids=repr,
)
def test_every_channel_comes_back(channel):
    assert through_json(channel) == channel
    assert pickle.loads(pickle.dumps(channel)) == channel


def test_a_channel_that_is_a_function_is_named():
    even = GeneralChannel(
        2, lambda y, u: np.log(np.where(y[..., 0] * u[..., 0] > 0, 1.0, 1e-300)), outputs=[[-1.0], [1.0]],
        directions=[[0.0, 1.0, 0.0]],
    )  # fmt: skip
    with pytest.raises(aim.InputError, match="GeneralChannel cannot be stored"):
        encode({"channel": even})


def test_fixed_points_of_several_matrices(tmp_path):
    two = np.array([0.25, 0.5])
    matrices = np.diag(two), np.eye(2) - np.diag(two), 2 * np.diag(two)
    point = MultiIndexFixedPoint(0.3, *matrices, 1e-9, 0.02, 1e-4, -0.5, "uninformed", "converged")
    for suffix in (".nc", ".json"):
        assert aim.load(point.save(tmp_path / f"p{suffix}")) == point
    assert same_value(point.to_dataframe()["mmse"].to_numpy(), 1 - two)
