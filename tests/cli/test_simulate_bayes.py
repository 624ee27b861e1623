"""``simulate amp`` and ``simulate gd``: what they print and save is what the library returns, and misuse is named."""

import json

import numpy as np
import pytest

from aimtheory.cli import main
from aimtheory.simulate import amp, gradient_descent

AMP = ["simulate", "amp", "--channel", "softmax", "--width", "1/2", "--alpha", "0.2", "--dim", "20"]
GD = ["simulate", "gd", "--width", "0.5", "--alpha", "0.2", "--dim", "16", "--initializations", "2", "--steps", "10"]


def test_amp_is_the_run_of_the_library(capsys, tmp_path):
    path = tmp_path / "amp.json"
    assert main([*AMP, "--seeds", "0,3", "--iterations", "6", "--json", "-o", str(path)]) == 0
    printed = capsys.readouterr().out
    record = json.loads(printed)
    saved = json.loads(path.read_text())
    assert saved.pop("record")["kind"] == "amp"
    assert saved == record
    run = amp("softmax", width="1/2", alpha=0.2, dim=20, seeds=[0, 3], iterations=6)
    np.testing.assert_allclose(record["seed_values"]["mse"], run.values["mse"])
    assert record["theory"] == run.theory
    assert record["mse"] == run.mse
    assert record["status"] == run.status.code
    assert record["predicted"]["mse"] == run.predicted["mse"].tolist()
    assert (record["kind"], record["channel"], record["alpha"], record["seeds"]) == ("amp", "softmax", 0.2, [0, 3])


def test_gradient_descent_is_the_run_of_the_library(capsys):
    assert main([*GD, "--seed", "4", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    run = gradient_descent("softmax", width=0.5, alpha=0.2, dim=16, initializations=2, steps=10, seed=4)
    assert record["single"] == run.single.tolist()
    assert record["averaged"] == run.averaged.tolist()
    assert record["averaged_mse"] == run.averaged_mse
    assert record["averaged_mse_error"] is None
    assert record["status"] == "complete"


def test_text_shows_measurement_beside_prediction(capsys):
    assert main([*AMP, "--iterations", "3"]) == 0
    captured = capsys.readouterr()
    assert "predicted" in captured.out
    assert "not converged" in captured.err
    assert main(GD) == 0
    assert "mse, averaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*AMP, "--width", "-1"], "width = -1"),
        ([*AMP, "--width", "0"], "width > 0"),
        ([*AMP, "--alpha", "nan"], "not a number"),
        ([*AMP, "--alpha", "-1"], "alpha = -1"),
        ([*AMP, "--tokens", "1"], "tokens = 1"),
        ([*AMP, "--channel", "relu"], "invalid choice: 'relu'"),
        ([*AMP, "--flips", "0.1"], "--flips belongs to the hardmax and sign channel, not to softmax"),
        ([*AMP, "--channel", "linear", "--noise", "-1"], "noise variance -1"),
        ([*AMP, "--damping", "1"], "damping = 1"),
        ([*AMP, "--dim", "1"], "dim = 1"),
        ([*AMP, "--seed", "1", "--seeds", "1,2"], "not both"),
        ([*AMP, "-o", "run.txt"], ".json"),
        ([*GD, "--channel", "hardmax"], "differentiable"),
        ([*GD, "--steps", "0"], "steps = 0"),
    ],
)
def test_misuse_is_named(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
