"""One thing, one name: options alike in every command, and the arguments and defaults of Python."""

import argparse
import inspect
import json

import pytest

import aimtheory as aim
from aimtheory.bayes import PhaseDiagram, mmse_curve
from aimtheory.cli import main
from aimtheory.cli.channel_options import CHANNELS, OWN_OPTIONS
from aimtheory.cli.entry import build_parser
from aimtheory.simulate import amp, gradient_descent, sgd


def commands(parser=None, name=""):
    """Every command with its options."""
    parser = parser or build_parser()
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield name.strip(), parser
    for group in groups:
        for word, child in group.choices.items():
            yield from commands(child, f"{name} {word}")


COMMANDS = dict(commands())

DIFFERENT = {"--alpha", "--width", "--output", "--level", "--steps", "-o", "--learning-rate"}
"""Options that may differ: one number in a simulation and a range in a diagram, files of different formats."""


def test_an_option_reads_the_same_in_every_command():
    seen, different = {}, []
    for name, parser in COMMANDS.items():
        for action in parser._actions:
            for option in {*action.option_strings} - DIFFERENT:
                kind = (action.metavar, getattr(action.type, "__name__", None), type(action).__name__)
                first, known = seen.setdefault(option, (name, kind))
                if known != kind:
                    different.append(f"{option}: {known} in {first!r}, {kind} in {name!r}")
    assert different == []


@pytest.mark.parametrize(
    ("command", "function"),
    [
        ("simulate sgd", sgd),
        ("simulate amp", amp),
        ("simulate gd", gradient_descent),
        ("solve", aim.solve),
        ("recovery", aim.recovery),
        ("truncation", aim.truncation_study),
        ("bayes threshold", aim.bayes.threshold),
        ("bayes diagram", aim.bayes.phase_diagram),
        ("bayes curve", aim.bayes.bayes_curve),
    ],
)
def test_options_are_arguments_with_the_same_default(command, function):
    """Where both have a default and neither is None, which stands for a choice made inside."""
    ours = {action.dest: action.default for action in COMMANDS[command]._actions}
    theirs = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    shared = {
        name
        for name in ours.keys() & theirs.keys()
        if ours[name] is not None and theirs[name] not in (None, inspect.Parameter.empty)
    }
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_the_options_of_a_channel_are_the_arguments_of_its_class():
    assert tuple(aim.bayes.CHANNELS) == CHANNELS
    for name, owners in OWN_OPTIONS.items():
        for channel in owners:
            assert name in inspect.signature(aim.bayes.CHANNELS[channel]).parameters


@pytest.mark.parametrize(
    ("channel", "option", "text", "value"),
    [
        ("linear", "noise", "1/2", 0.5),
        ("sign", "thresholds", "3/10", 0.3),
        ("softmax", "inverse_temperature", "2", 2.0),
    ],
)
def test_every_command_reads_the_options_of_channels_alike(channel, option, text, value, capsys):
    given = ["--channel", channel, f"--{option.replace('_', '-')}", text]
    assert main(["bayes", "curve", *given, "--width", "1", "--alpha", "1/5", "--json"]) == 0
    curve = json.loads(capsys.readouterr().out)
    assert curve["mmse"] == mmse_curve(channel, 2, 1, [0.2], **{option: value}).tolist()
    short = ["--width", "1", "--alpha", "1/5", "--dim", "12"]
    assert main(["simulate", "amp", *given, *short, "--iterations", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["channel_options"][option] in (value, [value] * 3)


@pytest.mark.parametrize("arguments", [["bayes", "curve", "--tau", "1"], ["simulate", "amp", "--threshold", "1"]])
def test_former_names_are_gone(arguments, capsys):
    assert main([*arguments, "--width", "1", "--alpha", "0.1", "--channel", "sign"]) == 2
    assert "unrecognized arguments" in capsys.readouterr().err


def test_progress_of_a_diagram_counts_like_all_progress():
    seen = []
    diagram = aim.bayes.phase_diagram(
        "softmax", 2, width=[0.5, 1], alpha=[0.1], progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 2), (2, 2)]
    assert isinstance(diagram, PhaseDiagram)
