"""``aimtheory bayes``: the best possible error, its thresholds, and its diagram over widths."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimtheory.cli.channel_options import add_channel, channel_options
from aimtheory.cli.options import Subparsers, command, read_range
from aimtheory.cli.session import INTERRUPTED_CODE, Progress, Session, suffix_of
from aimtheory.errors import InputError
from aimtheory.files import RESULT_SUFFIXES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aimtheory.bayes import BranchCurve, Channel, PhaseDiagram, Threshold

_FIGURES = (".png", ".pdf", ".svg")
_MOST_DIGITS = 10_000
_NOTEWORTHY = 1e-7
"""Relative error of a channel's integrals that is remarked on."""


def register(subparsers: Subparsers) -> None:
    """Add the group and its commands."""
    group = subparsers.add_parser(
        "bayes",
        help="Bayes-optimal learning: error, thresholds, phase diagram",
        description="Bayes-optimal learning of an attention matrix S = W W^T/sqrt(r d), r = rho d, from n = alpha d^2 "
        "outputs.",
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)

    parser = command(
        commands,
        "curve",
        "compute the minimum mean squared error by alpha",
        "  aimtheory bayes curve --channel softmax --tokens 2 --width 0.5 --alpha 0:0.1875:256 -o curve.png\n"
        "  aimtheory bayes curve --channel hardmax --width 1/2 --alpha 0.1,0.31,1.1 --json\n"
        "  aimtheory bayes curve --width 1/2 --alpha 0.089711 --digits 30",
        output="save the curve to FILE (.nc or .json for 'aimtheory plot', .csv .parquet, or .png .pdf .svg)",
    )
    add_channel(parser)
    _add_width(parser)
    _add_alpha(parser)
    _add_branch(parser)
    parser.add_argument("--digits", type=int, metavar="N", help="MMSE to N digits too (softmax and linear channels)")
    parser.set_defaults(run=run_curve)

    parser = command(
        commands,
        "threshold",
        "find the alpha of perfect or weak recovery, exact where a closed form exists",
        "  aimtheory bayes threshold --channel softmax --kind perfect --tokens 2 --width 1/2 --digits 30\n"
        "  aimtheory bayes threshold --channel hardmax --kind weak --width 0 --digits 25",
        output="save the threshold to FILE (.nc .json .csv .parquet)",
    )
    add_channel(parser)
    _add_width(parser)
    parser.add_argument("--kind", default="perfect", choices=("perfect", "weak"), help="default %(default)s")
    parser.add_argument("--digits", type=int, default=20, metavar="N", help="digits printed (default %(default)s)")
    parser.set_defaults(run=run_threshold)

    parser = command(
        commands,
        "diagram",
        "compute the minimum mean squared error over widths and alphas",
        "  aimtheory bayes diagram --channel softmax --width 0.05:1.5:60 --alpha 0:0.3:60 -o diagram.png",
        output="save the diagram to FILE (.nc or .json for 'aimtheory plot', .csv .parquet, or .png .pdf .svg)",
    )
    add_channel(parser)
    parser.add_argument(
        "--width", required=True, metavar="A:B:N", help="N widths rho = r/d > 0 from A to B, or a list such as 1/2,1,2"
    )
    _add_alpha(parser)
    _add_branch(parser)
    parser.set_defaults(run=run_diagram)


def run_curve(arguments: argparse.Namespace, session: Session) -> int:
    """Compute, print, save."""
    target = session.target()
    suffix = None if target is None else suffix_of(target, (*RESULT_SUFFIXES, *_FIGURES))
    if arguments.digits is not None and not 1 <= arguments.digits <= _MOST_DIGITS:
        raise InputError(f"--digits {arguments.digits} must lie between 1 and {_MOST_DIGITS}")
    alpha = read_range(arguments.alpha, "--alpha")

    from aimtheory.bayes import LearningCurve, StateEvolution, make_prior

    channel = _channel(arguments)
    if arguments.digits is not None and arguments.channel not in ("softmax", "linear"):
        raise InputError(
            f"--digits is offered for the softmax and linear channels, not {arguments.channel}; leave it out"
        )
    evolution = StateEvolution(make_prior(arguments.width), channel)
    curve = evolution.curve(alpha, arguments.branch)
    digits = () if arguments.digits is None else _more_digits(arguments, channel, session.progress("digits"))
    result = LearningCurve(
        curve,
        channel.name,
        channel.tokens,
        _width_name(arguments.width, evolution.prior.alpha_unit),
        evolution.fixed_point_curve.perfect,
        evolution.first_order_transitions(),
        digits,
        _channel_error(channel, curve),
    )
    from aimtheory.records import as_data

    beside: dict[str, Any] = {}
    if session.interrupted:
        beside["status"] = "interrupted"

    def figure() -> Figure:
        from aimtheory.report import mmse_plot

        return mmse_plot(result)

    _save(session, target, suffix, result, figure, **beside)
    session.say(_curve_text(result.label, curve, result.perfect, digits))
    session.emit(as_data(result, **beside))
    if result.channel_error > _NOTEWORTHY:
        session.remark(f"the channel's integrals give qhat within {result.channel_error:.1g} of its value, not better")
    if not curve.ok:
        failed = sum(status == "not converged" for status in curve.status)
        session.remark(f"{failed} of {len(curve.status)} points did not converge; they are missing (NaN, null)")
    return INTERRUPTED_CODE if session.interrupted else 0


def run_threshold(arguments: argparse.Namespace, session: Session) -> int:
    """Find, print, save."""
    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)

    from aimtheory.bayes import threshold
    from aimtheory.records import as_data

    found = threshold(channel=_channel(arguments), kind=arguments.kind, width=arguments.width, digits=arguments.digits)
    width = _width_name(arguments.width, found.unit)
    if target is not None:
        session.save(found, target, width=width)
    session.say(_threshold_text(found))
    session.emit(as_data(found, width=width))
    return 0


def run_diagram(arguments: argparse.Namespace, session: Session) -> int:
    """Compute, print, save; the widths that were done before Ctrl-C are saved too."""
    target = session.target()
    suffix = None if target is None else suffix_of(target, (*RESULT_SUFFIXES, *_FIGURES))
    widths, alphas = read_range(arguments.width, "--width"), read_range(arguments.alpha, "--alpha")
    if suffix in _FIGURES and min(len(widths), len(alphas)) < 2:
        raise InputError("a figure needs at least two widths and two alphas; 'aimtheory bayes curve' draws one width")

    from aimtheory.bayes import phase_diagram
    from aimtheory.records import as_data

    diagram = phase_diagram(
        _channel(arguments),
        width=widths,
        alpha=alphas,
        branch=arguments.branch,
        progress=session.progress("diagram"),
    )

    def figure() -> Figure:
        from aimtheory.report import phase_diagram_plot

        return phase_diagram_plot(diagram)

    _save(session, target, suffix, diagram, figure)
    session.say(_diagram_text(diagram))
    session.emit(as_data(diagram))
    if diagram.status != "complete":
        session.remark(f"{diagram.status}; missing points are NaN, null in JSON")
    return INTERRUPTED_CODE if diagram.status == "interrupted" else 0


def _add_width(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--width",
        required=True,
        metavar="RHO",
        help="rho = r/d: 1/2 is exact, 0.5 a float; 0 is the small-width limit, alpha then in units of rho; inf is GOE",
    )


def _add_alpha(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--alpha",
        required=True,
        metavar="A:B:N",
        help="N sample complexities n/d^2 from A to B, both included, or a list such as 0.1,0.31",
    )


def _add_branch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--branch",
        default="equilibrium",
        choices=("equilibrium", "uninformed", "informed"),
        help="Bayes-optimal, reached from the prior (AMP), or from the true matrix (default %(default)s)",
    )


def _channel(arguments: argparse.Namespace) -> Channel:
    """The channel asked for; ``InputError`` for an option of another channel."""
    from aimtheory.bayes import make_channel

    return make_channel(arguments.channel, arguments.tokens, **channel_options(arguments))


def _channel_error(channel: Channel, curve: BranchCurve) -> float:
    """The largest relative error of qhat along the curve that comes from the channel's integrals."""
    import numpy as np

    inside = np.isfinite(curve.q) & (curve.mmse > 0)
    if not inside.any():
        return 0.0
    measured = channel.signal(np.maximum(curve.q[inside], 0.0), curve.mmse[inside])
    informed = measured.value > 0
    return float(np.max(measured.error[informed] / measured.value[informed], initial=0.0))


def _width_name(text: str, unit: str) -> str:
    """The width as it was written, in one spelling for the two limits."""
    name = text.strip()
    if unit == "alpha/width":
        return "0"
    return "inf" if name.lower() in ("inf", "infinity", "oo") else name


def _more_digits(arguments: argparse.Namespace, channel: Channel, progress: Progress) -> tuple[str | None, ...]:
    """The MMSE at the alphas as they were written, decimals read as exact; Ctrl-C keeps those that are done."""
    import mpmath as mp

    from aimtheory.bayes import bayes_mmse_digits

    alphas = _exact_range(arguments.alpha)
    found: list[str | None] = []
    try:
        for place, alpha in enumerate(alphas):
            value = bayes_mmse_digits(channel, width=arguments.width, alpha=alpha, digits=arguments.digits)
            with mp.workdps(arguments.digits + 10):
                found.append(mp.nstr(value, arguments.digits, strip_zeros=False))
            progress(place + 1, len(alphas))
    except KeyboardInterrupt:
        pass
    return (*found, *[None] * (len(alphas) - len(found)))


def _exact_range(text: str) -> list[Fraction]:
    """The numbers of ``read_range`` as rationals; the text has passed it."""
    from aimtheory.scalars import to_scalar

    numbers = [Fraction(to_scalar(part, "--alpha")) for part in text.replace(":", ",").split(",")]
    if ":" not in text:
        return numbers
    low, high, count = numbers[0], numbers[1], int(numbers[2])
    return [low + (high - low) * step / (count - 1) for step in range(count)]


def _save(session: Session, target: Path | None, suffix: str | None, result: Any, figure: Any, **beside: Any) -> None:
    """Write the result or its figure, by suffix."""
    if target is None:
        return
    if suffix in _FIGURES:
        from aimtheory.report import save_figure

        save_figure(figure(), target)
        session.wrote(target)
    else:
        session.save(result, target, **beside)


def _curve_text(label: str, curve: BranchCurve, perfect: float, digits: tuple[str | None, ...]) -> str:
    import math

    plain = label.replace("$", "").replace(r"\rho", "rho").replace(r"\to", "->").replace(r"\infty", "inf")
    lines = [plain]
    if math.isfinite(perfect):
        lines.append(f"perfect recovery at {curve.unit} = {perfect:.12g}")
    lines.append(f"{curve.unit:>14}  {'MMSE':>14}  {'q':>14}  {'qhat':>12}  {'residual':>9}  status")
    for n, status in enumerate(curve.status):
        lines.append(
            f"{curve.alpha[n]:14.9g}  {curve.mmse[n]:14.9f}  {curve.q[n]:14.9f}  {curve.qhat[n]:12.6g}"
            f"  {curve.residual[n]:9.1e}  {status}"
        )
        if digits:
            lines.append(f"{'':14}  {digits[n] or 'not reached'}")
    return "\n".join(lines)


def _threshold_text(found: Threshold) -> str:
    exact = "" if found.exact is None else f"{found.exact} = "
    certainty = "certified" if found.certified else "estimated"
    return (
        f"{found.kind} recovery, {found.channel}, T = {found.tokens}: {found.unit} = {exact}{found.digits}\n"
        f"  within [{found.interval[0]}, {found.interval[1]}] ({certainty})\n"
        f"  by {found.method}"
    )


def _diagram_text(diagram: PhaseDiagram) -> str:
    """A table of at most eleven rows and eight columns."""
    rows, columns = (_thinned(len(axis), most) for axis, most in ((diagram.width, 11), (diagram.alpha, 8)))
    lines = [
        f"{diagram.channel}, T = {diagram.tokens}: MMSE on {len(diagram.width)} widths x {len(diagram.alpha)} alphas, "
        f"{diagram.status}",
        f"{'rho':>8} {'perfect':>9} | alpha " + " ".join(f"{diagram.alpha[n]:8.4g}" for n in columns),
    ]
    lines += [
        f"{diagram.width[m]:8.4g} {diagram.perfect[m]:9.5g} |       "
        + " ".join(f"{diagram.mmse[m, n]:8.5f}" for n in columns)
        for m in rows
    ]
    return "\n".join(lines)


def _thinned(count: int, most: int) -> list[int]:
    """At most ``most`` places from 0 to count - 1, evenly, the ends included."""
    if count <= most:
        return list(range(count))
    return [round(n * (count - 1) / (most - 1)) for n in range(most)]


__all__ = ["register", "run_curve", "run_diagram", "run_threshold"]
