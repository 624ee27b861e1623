"""Misuse: one message on stderr that names the thing, nothing on stdout, exit code 2, nothing done."""

import pytest

import aimtheory as aim
from aimtheory.cli import main

LAW = 'law = "wishart"\nwidth = 1\ntrace = 1\n'
MODEL = f'tokens = 1\nparameterization = "tied"\n{{body}}\n[student]\n{LAW}[teacher]\n{LAW}'


def fails(capsys, *arguments):
    """Runs a command that must fail cleanly; returns its message."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("aimtheory: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("extra", [(), ("--json",)])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "tied-sofmax"], "did you mean 'tied-softmax'"),
        (["derive", "nothing-like-it"], "no model 'nothing-like-it'"),
        (["solve", "tied-softmax", "--closure", "padee"], "unknown closure 'padee'; choose one of "),
        (["solve", "tied-softmax", "--degree", "1"], "degree = 1 must be an integer of at least 2"),
        (["solve", "tied-softmax", "--degree", "-3"], "degree = -3"),
        (["solve", "tied-softmax", "--degree", "2.5"], "--degree"),
        (["derive", "tied-softmax", "--degree", "200"], "lower the degree"),
        (["solve", "tied-softmax", "--times", "0,2,1"], "times must increase, but times[2] = 1.0 follows 2.0"),
        (["solve", "tied-softmax", "--times", "nan,1"], "'nan' is not a number"),
        (["solve", "tied-softmax", "--rtol", "0"], "must be above 0"),
        (["solve", "tied-softmax", "--observables", "p_13"], "p_13"),
        (["solve", "tied-softmax", "--observables", "magic"], "unknown observable 'magic'"),
        (["solve", "tied-softmax", "--observables", "tr(S1 S7)"], "S7"),
        (["solve", "tied-softmax", "--events", "p_12"], "not OBSERVABLE=LEVEL"),
        (["solve", "tied-softmax", "--dim", "20"], "closure 'auto' does not take the options dim"),
        (["truncation", "exact-linear", "--degrees", "8,4"], "increasing"),
        (["truncation", "exact-linear", "--degrees", "4"], "at least two"),
        (["truncation", "exact-linear", "--reference", "oracle"], "invalid choice"),
        (["simulate", "sgd", "tied-softmax", "--dim", "1"], "dim = 1"),
        (["simulate", "sgd", "tied-softmax", "--batch", "0"], "batch = 0"),
        (["simulate", "sgd", "tied-softmax", "--learning-rate", "nan"], "not a number"),
        (["simulate", "sgd", "tied-softmax", "--seed", "1", "--seeds", "1,2"], "not both"),
        (["simulate", "annealing", "tied-softmax"], "invalid choice: 'annealing'"),
        (["models", "--show", "tied-sofmax"], "did you mean"),
        (["plot", "missing.nc"], "there is no file missing.nc"),
        (["solve"], "required: MODEL"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["solve", "tied-softmax", "--frobnicate"], "--frobnicate"),
        (["solve", "tied-softmax", "-o", "no/such/folder/run.nc"], "does not exist"),
        (["solve", "tied-softmax", "-o", "run.pickle"], ".pickle"),
    ],
)
def test_misuse_is_named(capsys, tmp_path, monkeypatch, arguments, message, extra):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, *arguments, *extra)
    assert not list(tmp_path.iterdir())


def test_no_command_at_all(capsys):
    assert "COMMAND" in fails(capsys)


def test_formats_that_need_a_file(capsys):
    assert "-o FILE" in fails(capsys, "derive", "tied-softmax", "--json", "--format", "latex")
    assert "-o graph.png" in fails(capsys, "derive", "tied-softmax", "--format", "figure")


@pytest.mark.parametrize(
    "arguments",
    [
        ("derive", "tied-softmax", "--degree", "2"),
        ("solve", "tied-softmax", "--degree", "3", "--times", "0,0.1"),
        ("truncation", "exact-linear", "--degrees", "4,6"),
        ("models",),
        (
            "simulate",
            "sgd",
            "tied-softmax",
            "--dim",
            "12",
            "--batch",
            "4",
            "--times",
            "0,0.1",
            "--learning-rate",
            "0.1",
        ),
    ],
)
def test_existing_output_is_kept_until_forced(capsys, tmp_path, arguments):
    path = tmp_path / "output.json"
    path.write_text("precious")
    message = fails(capsys, *arguments, "-o", str(path))
    assert str(path) in message
    assert "--force" in message
    assert path.read_text() == "precious"
    assert main([*arguments, "-o", str(path), "--force"]) == 0
    assert path.read_text() != "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_existing_trajectory_and_figure_are_kept_until_forced(capsys, tmp_path):
    run, figure = tmp_path / "run.nc", tmp_path / "run.png"
    arguments = ("solve", "tied-softmax", "--degree", "3", "--times", "0,0.1", "-o", str(run))
    assert main(list(arguments)) == 0
    before = run.read_bytes()
    capsys.readouterr()
    fails(capsys, *arguments)
    assert run.read_bytes() == before
    figure.write_text("precious")
    fails(capsys, "plot", str(run))
    assert figure.read_text() == "precious"
    assert main([*arguments, "--force"]) == 0
    assert main(["plot", str(run), "--force"]) == 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_output_that_is_a_folder(capsys, tmp_path):
    assert "is a folder" in fails(capsys, "models", "-o", str(tmp_path), "--force")


@pytest.mark.parametrize(
    "body",
    [
        "activation = \"expression\"\nactivation_expression = \"__import__('os').system('touch {mark}')\"",
        "loss = \"expression\"\nexpression = \"__import__('os').system('touch {mark}')\"",
        'loss = "expression"\nexpression = "(lambda: exec(\'open(chr(47))\'))()"',
        'loss = "expression"\nexpression = "G.__class__.__mro__"',
        'loss = "expression"\nexpression = "G[0, 0, 0]**G[0, 0, 1]**99999999"',
    ],
)
@pytest.mark.parametrize("command", [("derive",), ("solve", "--times", "0,0.1"), ("models", "--show")])
def test_code_in_a_model_file_is_refused_and_not_run(capsys, tmp_path, body, command):
    mark, path = tmp_path / "pwned", tmp_path / "evil.toml"
    path.write_text(MODEL.format(body=body.format(mark=mark)))
    fails(capsys, *command[:1], *((*command[1:], str(path)) if "--show" in command else (str(path), *command[1:])))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('activation = "sofmax"', "softmax"),
        ('activation = "linear"\nweight_decay = nan', "weight_decay"),
        ('activation = "linear"\nweight_decay = -1', "weight_decay = -1"),
        ('activation = "linear"\ncentred = false', "centred"),
        ('activation = "linear"\nlearning_rate = 1', "unknown key 'learning_rate'"),
        ('activation = "linear"\ntoken_covariance = [[nan]]', "token_covariance"),
        ('activation = "linear"\nloss = "hinge"', "unknown loss 'hinge'"),
        ("activation = ", "not TOML"),
    ],
)
def test_bad_model_files_name_the_key(capsys, tmp_path, body, message):
    path = tmp_path / "bad.toml"
    path.write_text(MODEL.format(body=body))
    assert message in fails(capsys, "derive", str(path), "--degree", "2")


PARAMETERS = '[parameters.W]\ncolumns = "r"\nlaw = "gaussian_entries"\nwidth = 1\n[parameters.V]\nlaw = "goe"\n'


def test_bad_general_model_files_name_the_file_and_the_thing(capsys, tmp_path):
    """What does not fit together is refused by every command that reads a model, with the name of the file."""
    path = tmp_path / "bad.toml"
    for forms, message in {
        '[forms]\nS1 = "W V"\nS2 = "V"': "neighbouring letters must share a space",
        '[forms]\nS1 = "W"\nS2 = "V"': "it must map the embedding space",
        '[forms]\nS1 = "W W^T"\nS2 = "V"\n[traces]\nR = "W"': "its words must be closed",
        '[forms]\nS1 = "W W^T"\nS2 = "W W^T W W^T"': "parameter V is trained, but no form",
        '[forms]\nS1 = "W W^T"\nS2 = "V"\n[forsm]\n': "did you mean 'forms'",
    }.items():
        path.write_text(f'tokens = 1\nactivation = "linear"\n{PARAMETERS}{forms}')
        for command in (["derive", str(path)], ["solve", str(path)], ["models", "--show", str(path)]):
            error = fails(capsys, *command)
            assert message in error
            assert str(path) in error


def test_files_that_are_not_results(capsys, tmp_path):
    text, binary, foreign = tmp_path / "a.json", tmp_path / "b.nc", tmp_path / "c.json"
    text.write_text("{")
    binary.write_bytes(b"\x00\x01\x02")
    foreign.write_bytes(b"\xff\xfe\x00")
    assert "no JSON" in fails(capsys, "plot", str(text))
    assert "is no NetCDF file" in fails(capsys, "plot", str(binary))
    assert "not text" in fails(capsys, "plot", str(foreign))
    derivation = tmp_path / "d.json"
    assert main(["derive", "tied-softmax", "--degree", "2", "-o", str(derivation)]) == 0
    capsys.readouterr()
    assert main(["plot", str(derivation)]) == 0
    capsys.readouterr()


def test_a_derivation_is_not_written_into_a_file_of_another_kind(capsys, tmp_path):
    table = tmp_path / "d.csv"
    assert main(["derive", "tied-softmax", "--degree", "2", "-o", str(table)]) == 0
    assert table.read_text().splitlines()[:2] == ["term,word,coefficient,coupling,target", "0,tr(S1),-2,g_11,tr(S1 S1)"]
    capsys.readouterr()
    unknown = str(tmp_path / "d.xyz")
    assert "the suffix chooses the format" in fails(capsys, "derive", "tied-softmax", "--degree", "2", "-o", unknown)
    other = str(tmp_path / "e.csv")
    assert "--format latex" in fails(capsys, "derive", "tied-softmax", "--format", "latex", "-o", other)


def test_spectra_that_are_not_there(capsys, tmp_path):
    run = tmp_path / "run.nc"
    aim.solve(aim.models.load("tied-softmax"), degree=4, times=[0, 0.1], closure="zero").save(run)
    assert "closure='gns'" in fails(capsys, "plot", str(run), "--spectrum", "0.1")
    aim.solve(aim.models.load("tied-softmax"), degree=5, times=[0, 0.1]).save(run, overwrite=True)
    assert "leave the solved range" in fails(capsys, "plot", str(run), "--spectrum", "7")
    assert "S9" in fails(capsys, "plot", str(run), "--spectrum", "0.1", "--matrix", "S9")
    assert "not a number" in fails(capsys, "plot", str(run), "--spectrum", "soon")


def test_help_and_version(capsys):
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert aim.__version__ in capsys.readouterr().out
    for command in ("demo", "derive", "solve", "truncation", "simulate", "plot", "models"):
        assert main([command, "--help"]) == 0
        assert "usage: aimtheory" in capsys.readouterr().out
