"""``aimtheory bayes``: curves, thresholds and diagrams, their files, and misuse."""

import json
import signal

import mpmath as mp
import numpy as np
import pytest

import aimtheory as aim
from aimtheory.bayes import HardmaxChannel, Measured, mmse_curve, phase_diagram
from aimtheory.cli import main
from aimtheory.cli.session import Session
from aimtheory.records import as_data, to_json


@pytest.fixture
def run(capsys):
    """Runs a command that must succeed; returns its stdout."""

    def call(*arguments):
        assert main(["bayes", *arguments]) == 0
        return capsys.readouterr().out

    return call


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def fails(capsys, *arguments):
    """Runs a command that must fail cleanly; returns its message."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("aimtheory: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


# MMSE of the softmax channel by an independent program: the cubic of the noisy Wishart law, Simpson's rule on f^3.
SOFTMAX = [
    (2, "0.5", "0.089711", 0.457619),
    (2, "1/2", "0.16985388", 0.055106),
    (3, "0.3", "0.03", 0.437927),
    (4, "1", "0.02", 0.552242),
    (2, "2", "0.1", 0.550930),
]


@pytest.mark.parametrize(("tokens", "width", "alpha", "expected"), SOFTMAX)
def test_softmax_curve_has_the_known_values(run, tokens, width, alpha, expected):
    record = strict(run("curve", "--tokens", str(tokens), "--width", width, "--alpha", alpha, "--json"))
    assert record["alpha"] == [float(alpha)]
    assert record["mmse"] == [pytest.approx(expected, abs=1e-6)]
    # tr S^2 = 1 + rho for the prior of [B].
    rho = 0.5 if width == "1/2" else float(width)
    assert record["q"][0] + record["mmse"][0] == pytest.approx(1 + rho, abs=1e-12)


def test_hardmax_curve_has_the_known_values(run):
    record = strict(run("curve", "--channel", "hardmax", "--width", "0.5", "--alpha", "0.1,0.31,1.1", "--json"))
    # From a trapezoid rule of 200 to 800 squared nodes of an independent program.
    assert record["mmse"] == pytest.approx([0.7451104, 0.3625945, 0.0676668], abs=2e-7)
    assert record["perfect"] is None
    assert record["status"] == "complete"


def test_a_range_includes_both_ends_and_perfect_recovery(run):
    record = strict(run("curve", "--width", "1/2", "--alpha", "0:3/16:6", "--json"))
    assert record["alpha"] == np.linspace(0, 0.1875, 6).tolist()
    assert record["mmse"][0] == pytest.approx(1.0, abs=1e-14)
    assert record["mmse"][-1] == 0.0
    assert record["qhat"][-1] is None
    assert record["point_status"][-1] == "perfect recovery"
    assert record["mmse"] == sorted(record["mmse"], reverse=True)
    assert record["perfect"] == 0.1875
    text = run("curve", "--width", "1/2", "--alpha", "0:3/16:6")
    assert f"{record['mmse'][2]:.9f}" in text
    assert "perfect recovery at alpha = 0.1875" in text


def test_small_width_is_in_units_of_alpha_over_width(run):
    record = strict(run("curve", "--width", "0", "--alpha", "0.1,0.3,0.45,0.5", "--json"))
    assert record["unit"] == "alpha/width"
    # Theory: with t = rho/qhat the MMSE is t(2 - t), and alpha/rho = (1/t) t (2 - t)/K_T = (2 - t)/4 at T = 2.
    t = 2 - 4 * np.array([0.3, 0.45])
    assert record["mmse"] == pytest.approx([1.0, *(t * (2 - t)), 0.0], abs=1e-9)
    finite = strict(run("curve", "--width", "1/1000", "--alpha", "3/10000,45/100000", "--json"))
    assert finite["mmse"] == pytest.approx(t * (2 - t), abs=0.05)


def test_the_goe_limit_is_a_straight_line(run):
    record = strict(run("curve", "--width", "inf", "--tokens", "3", "--alpha", "0:0.1:5", "--json"))
    # Theory: MMSE = 1 - alpha K_T, K_3 = 10.
    assert record["mmse"] == pytest.approx([1, 0.75, 0.5, 0.25, 0], abs=1e-9)


def test_the_error_of_a_channel_is_told(capsys, monkeypatch):
    arguments = ["bayes", "curve", "--channel", "hardmax", "--width", "1", "--alpha", "0.1", "--json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert strict(captured.out)["channel_error"] < 1e-10
    assert captured.err == ""
    # The same channel with a rule of known error: 1% of the signal.
    exact = HardmaxChannel.signal
    monkeypatch.setattr(
        HardmaxChannel, "signal", lambda *of: Measured((m := exact(*of)).value, 0.01 * m.value, "cubature")
    )
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert strict(captured.out)["channel_error"] == pytest.approx(0.01)
    assert "0.01" in captured.err


def test_options_of_a_channel_reach_it(run):
    noisy = strict(run("curve", "--channel", "linear", "--noise", "1/2", "--width", "1", "--alpha", "0.1", "--json"))
    assert noisy["mmse"] == mmse_curve("linear", 2, 1, [0.1], noise=0.5).tolist()
    biased = strict(
        run("curve", "--channel", "sign", "--thresholds", "0.7", "--width", "1", "--alpha", "0.1", "--json")
    )
    assert biased["mmse"] == mmse_curve("sign", 2, 1, [0.1], thresholds=0.7).tolist()
    assert biased["mmse"] != mmse_curve("sign", 2, 1, [0.1]).tolist()


def test_more_digits_agree_with_floats_and_with_each_other(run):
    arguments = ("curve", "--width", "1/2", "--alpha", "0.02:0.1:2", "--json")
    fewer, more = (strict(run(*arguments, "--digits", digits)) for digits in ("25", "34"))
    for value, short, long in zip(more["mmse"], fewer["mmse_digits"], more["mmse_digits"], strict=True):
        assert float(long) == pytest.approx(value, abs=1e-10)
        with mp.workdps(40):
            assert abs(mp.mpf(short) - mp.mpf(long)) < mp.mpf(10) ** -24
    assert fewer["mmse_digits"][0] in run("curve", "--width", "0.5", "--alpha", "1/50", "--digits", "25")


def test_thresholds_are_exact_or_say_that_they_are_not(run):
    """A decimal on the command line is the number that is written."""
    record = strict(run("threshold", "--kind", "perfect", "--width", "1/2", "--digits", "30", "--json"))
    assert record["exact"] == "3/16"
    assert record["threshold"].startswith("0.1875")
    assert float(record["interval"][0]) <= 0.1875 <= float(record["interval"][1])
    assert (record["recovery"], record["unit"], record["width"]) == ("perfect", "alpha", "1/2")
    decimal = strict(run("threshold", "--width", "0.3", "--digits", "30", "--json"))
    assert (decimal["exact"], decimal["threshold"]) == ("51/400", "0.127500000000000000000000000000")
    as_float = strict(
        run("threshold", "--kind", "weak", "--channel", "sign", "--width", "0", "--thresholds", "0.5", "--json")
    )
    assert as_float["exact"] is None
    assert "alpha = 3/16 = 0.1875" in run("threshold", "--width", "1/2")


def test_hardmax_weak_threshold_to_25_digits(run, tmp_path):
    path = tmp_path / "threshold.json"
    record = strict(
        run(
            "threshold", "--channel", "hardmax", "--kind", "weak", "--width", "0", "--digits", "25", "--json",
            "-o", str(path),
        )
    )  # fmt: skip
    with mp.workdps(40):
        # alpha/rho = 1/(2E), E = (16/p+ + 8/p-)/(24 pi), p+- = 1/4 +- asin(1/3)/(2 pi).
        angle = mp.asin(mp.mpf(1) / 3) / (2 * mp.pi)
        expected = 12 * mp.pi / (16 / (mp.mpf(1) / 4 + angle) + 8 / (mp.mpf(1) / 4 - angle))
        assert abs(mp.mpf(record["threshold"]) - expected) < mp.mpf(10) ** -25
    assert record["unit"] == "alpha/width"
    assert {**strict(path.read_text()), "record": None} == {**record, "record": None}


@pytest.mark.parametrize("channel", ["softmax", "hardmax", "linear"])
def test_diagram_rows_are_curves(run, channel):
    arguments = ("--channel", channel, *(("--noise", "0.3") if channel == "linear" else ()))
    record = strict(run("diagram", *arguments, "--width", "1/4:1:3", "--alpha", "0:0.2:4", "--json"))
    assert record["width"] == [0.25, 0.625, 1.0]
    assert np.shape(record["mmse"]) == (3, 4)
    for width, row in zip(record["width"], record["mmse"], strict=True):
        curve = strict(run("curve", *arguments, "--width", str(width), "--alpha", "0:0.2:4", "--json"))
        assert row == pytest.approx(curve["mmse"], abs=1e-10)
    if channel == "softmax":
        rho = np.array(record["width"])
        assert record["perfect"] == pytest.approx((2 * rho - rho**2) / 4, abs=1e-14)
    else:
        assert record["perfect"] == [None, None, None]
    text = run("diagram", *arguments, "--width", "1/4:1:3", "--alpha", "0:0.2:4")
    assert f"{record['mmse'][1][2]:.5f}" in text


def test_files_hold_the_result_and_are_drawn(run, tmp_path, capsys):
    for command, extra in (("curve", ("--width", "1/2")), ("diagram", ("--width", "0.3:1:3"))):
        arguments = (command, *extra, "--alpha", "0:0.2:5")
        record = strict(run(*arguments, "--json"))
        for suffix in (".json", ".nc", ".png", ".pdf" if command == "curve" else ".svg"):
            run(*arguments, "-o", str(tmp_path / f"{command}{suffix}"))
        stored = strict((tmp_path / f"{command}.json").read_text())
        assert stored.pop("record")["kind"] == record["kind"]
        assert stored == record
        found = [aim.load(tmp_path / f"{command}{suffix}") for suffix in (".json", ".nc")]
        assert found[0] == found[1]
        table = strict(to_json(as_data(found[1])))
        assert table == record
        run(*arguments, "-o", str(tmp_path / f"{command}.csv"))
        assert len((tmp_path / f"{command}.csv").read_text().splitlines()) == 1 + np.size(record["mmse"])
        assert (tmp_path / f"{command}.png").read_bytes().startswith(b"\x89PNG")
        source, figure = tmp_path / f"{command}{'.json' if command == 'curve' else '.nc'}", tmp_path / f"{command}2.png"
        assert main(["plot", str(source), "-o", str(figure)]) == 0
        assert figure.read_bytes() == (tmp_path / f"{command}.png").read_bytes()
        capsys.readouterr()
    both = tmp_path / "both.png"
    assert main(["plot", str(tmp_path / "curve.json"), str(tmp_path / "curve.nc"), "-o", str(both)]) == 0
    capsys.readouterr()
    fails(capsys, "plot", str(tmp_path / "curve.json"), str(tmp_path / "diagram.json"), "-o", str(tmp_path / "no.png"))
    assert not (tmp_path / "no.png").exists()


def test_xarray_reads_the_files(run, tmp_path):
    xarray = pytest.importorskip("xarray")
    run("diagram", "--width", "0.3:1:3", "--alpha", "0:0.2:5", "-o", str(tmp_path / "diagram.nc"))
    with xarray.open_dataset(tmp_path / "diagram.nc", engine="h5netcdf") as data:
        expected = phase_diagram("softmax", 2, width=np.linspace(0.3, 1, 3), alpha=np.linspace(0, 0.2, 5)).mmse
        assert np.array_equal(data["mmse"].transpose("width", "alpha").values, expected)
        assert data.attrs["channel"] == "softmax"
        assert data["mmse"].sel(alpha=0.1, width=1.0, method="nearest") == expected[2, 2]


def test_existing_files_are_kept_until_forced(capsys, tmp_path):
    for command, suffix in (("curve", ".json"), ("curve", ".nc"), ("curve", ".png"), ("threshold", ".json")):
        path = tmp_path / f"{command}{suffix}"
        path.write_text("precious")
        arguments = ["bayes", command, "--width", "1/2", *(["--alpha", "0,0.1"] if command == "curve" else [])]
        assert "--force" in fails(capsys, *arguments, "-o", str(path))
        assert path.read_text() == "precious"
        assert main([*arguments, "-o", str(path), "--force"]) == 0
        assert path.read_bytes() != b"precious"
        capsys.readouterr()


@pytest.mark.parametrize("extra", [(), ("--json",)])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["curv"], "invalid choice: 'curv'"),
        (["curve", "--alpha", "0.1"], "--width"),
        (["curve", "--width", "1/2"], "--alpha"),
        (["curve", "--width", "-1", "--alpha", "0.1"], "width = -1 must be > 0"),
        (["curve", "--width", "nan", "--alpha", "0.1"], "width = 'nan' is not a number"),
        (["curve", "--width", "1/0", "--alpha", "0.1"], "divides by zero"),
        (["curve", "--width", "__import__('os')", "--alpha", "0.1"], "is not a number"),
        (["curve", "--width", "1/2", "--alpha", "-0.1"], "alpha = -0.1 must be >= 0"),
        (["curve", "--width", "1/2", "--alpha", "0:0.1"], "not A:B:N"),
        (["curve", "--width", "1/2", "--alpha", "0:0.1:1"], "N = 1 points"),
        (["curve", "--width", "1/2", "--alpha", "inf"], "not a number"),
        (["curve", "--width", "1/2", "--alpha", "0.1", "--tokens", "1"], "1"),
        (["curve", "--width", "1/2", "--alpha", "0.1", "--tokens", "two"], "--tokens"),
        (["curve", "--width", "1/2", "--alpha", "0.1", "--channel", "sotfmax"], "invalid choice: 'sotfmax'"),
        (
            ["curve", "--width", "1/2", "--alpha", "0.1", "--flips", "0.1"],
            "--flips belongs to the hardmax and sign channel",
        ),
        (["curve", "--width", "1", "--alpha", "0.1", "--channel", "linear", "--noise", "-1"], "noise variance -1"),
        (["curve", "--width", "1", "--alpha", "0.1", "--channel", "linear", "--noise", "nan"], "not a number"),
        (
            ["curve", "--width", "1", "--alpha", "0.1", "--channel", "hardmax", "--thresholds", "1"],
            "--thresholds belongs",
        ),
        (["curve", "--width", "1", "--alpha", "0.1", "--digits", "0"], "--digits 0"),
        (["curve", "--width", "1", "--alpha", "0.1", "--digits", "9", "--channel", "sign"], "--digits is offered"),
        (["curve", "--width", "1", "--alpha", "0.1", "-o", "curve.txt"], ".txt"),
        (["curve", "--width", "1", "--alpha", "0.1", "-o", "no/curve.json"], "does not exist"),
        (["threshold", "--width", "1/2", "--kind", "strong"], "invalid choice: 'strong'"),
        (["threshold", "--width", "1/2", "--digits", "0"], "digits = 0"),
        (["threshold", "--width", "1/2", "--channel", "hardmax"], "never recovers perfectly"),
        (["threshold", "--width", "1/2", "--kind", "weak"], "no weak-recovery transition"),
        (["threshold", "--width", "1/2", "-o", "threshold.png"], ".png"),
        (["diagram", "--width", "0:1:5", "--alpha", "0:1:5"], "width = 0.0 must be > 0"),
        (["diagram", "--width", "1", "--alpha", "0:1:5", "-o", "d.png"], "at least two widths"),
    ],
)
def test_misuse_is_named(capsys, tmp_path, monkeypatch, arguments, message, extra):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, "bayes", *arguments, *(extra if arguments else ()))
    assert not list(tmp_path.iterdir())


def interrupting(monkeypatch, after):
    """Ctrl-C from inside the computation, at the first report of progress past a fraction."""

    def progress(self, label):
        def update(done, total):
            if done > after * total:
                self._interrupt(signal.SIGINT, None)

        return update

    monkeypatch.setattr(Session, "progress", progress)


def test_an_interrupted_diagram_saves_its_rows(monkeypatch, capsys, tmp_path):
    interrupting(monkeypatch, 0.4)
    path = tmp_path / "diagram.json"
    arguments = ["bayes", "diagram", "--width", "0.2:1:5", "--alpha", "0:0.2:3", "--json", "-o", str(path)]
    assert main(arguments) == 130
    captured = capsys.readouterr()
    record = strict(captured.out)
    assert record["status"] == "interrupted"
    assert "interrupted" in captured.err
    whole = phase_diagram("softmax", 2, width=np.linspace(0.2, 1, 5), alpha=np.linspace(0, 0.2, 3)).mmse
    assert record["mmse"][:3] == whole[:3].tolist()
    assert record["mmse"][3:] == [[None] * 3] * 2
    assert {**strict(path.read_text()), "record": None} == {**record, "record": None}


def test_interrupted_digits_keep_what_is_done(monkeypatch, capsys):
    interrupting(monkeypatch, 0.4)
    assert main(["bayes", "curve", "--width", "1", "--alpha", "0.05,0.1", "--digits", "20", "--json"]) == 130
    record = strict(capsys.readouterr().out)
    assert record["status"] == "interrupted"
    assert record["mmse"] == pytest.approx(mmse_curve(width=1, alpha=[0.05, 0.1]), abs=1e-12)
    done, missing = record["mmse_digits"]
    assert float(done) == pytest.approx(record["mmse"][0], abs=1e-10)
    assert missing is None


def test_saved_curves_come_back_and_damaged_ones_are_refused(run, tmp_path, capsys):
    record = strict(run("curve", "--width", "1/2", "--alpha", "0:0.25:4", "--json"))
    path = tmp_path / "curve.json"
    run("curve", "--width", "1/2", "--alpha", "0:0.25:4", "-o", str(path))
    back = aim.load(path)
    assert back.curve.mmse.tolist() == record["mmse"]
    assert np.isinf(back.curve.qhat[-1])
    assert back.perfect == 0.1875
    stored = json.loads(path.read_text())
    arrays = stored["record"]["values"]["curve"]["values"]
    short = {"$array": {"dtype": "f8", "shape": [3], "data": [0, 0, 0]}}
    for damage in ({"mmse": short}, {"q": None}, {"status": {"$tuple": ["fine"] * 3}}, {"alpha": "soon"}):
        changed = json.loads(json.dumps(stored))
        changed["record"]["values"]["curve"]["values"] = arrays | damage
        path.write_text(json.dumps(changed))
        assert "damaged" in fails(capsys, "plot", str(path))
    path.write_text(run("threshold", "--width", "1/2", "--json"))
    assert "save with -o FILE" in fails(capsys, "plot", str(path))


def test_help_is_offered(capsys):
    for command in ((), ("curve",), ("threshold",), ("diagram",)):
        assert main(["bayes", *command, "--help"]) == 0
        assert "usage: aimtheory bayes" in capsys.readouterr().out
