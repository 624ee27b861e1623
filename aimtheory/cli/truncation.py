"""``aimtheory truncation``: how the error of a closure depends on its degree, and until when a larger degree helps."""

from __future__ import annotations

import argparse

from aimtheory.cli.options import (
    Subparsers,
    add_model,
    add_observables,
    add_times,
    command,
    read_integers,
    read_names,
    read_times,
)
from aimtheory.cli.session import Session, suffix_of
from aimtheory.files import RESULT_SUFFIXES


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "truncation",
        "measure the truncation error of a closure by degree and time",
        "  aimtheory truncation exact-linear --degrees 4,6,8,10 --closure zero --times 0.05,0.1,0.2,0.5 -o study.json",
        output="save the study to FILE (.nc or .json for 'aimtheory plot', .csv or .parquet)",
    )
    add_model(parser)
    parser.add_argument(
        "--degrees", default="4,6,8,10", metavar="LIST", help="increasing truncation degrees (default %(default)s)"
    )
    parser.add_argument("--closure", default="zero", help="closure to study (default %(default)s)")
    parser.add_argument(
        "--reference",
        default="auto",
        choices=("auto", "exact", "gns", "next"),
        help="what the errors are measured against (default %(default)s)",
    )
    add_times(parser, "0.05,0.1,0.2,0.5")
    add_observables(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Study, print, save."""
    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)
    degrees, times = read_integers(arguments.degrees, "--degrees"), read_times(arguments.times)

    from aimtheory import library
    from aimtheory.dynamics import truncation_study
    from aimtheory.records import as_data

    study = truncation_study(
        library.load(arguments.model),
        degrees=degrees,
        times=times,
        closure=arguments.closure,
        observables=read_names(arguments.observables),
        reference=arguments.reference,
        progress=session.progress("truncation study"),
    )
    if target is not None:
        session.save(study, target)
    session.say(study.table())
    session.emit(as_data(study))
    return 0


__all__ = ["register", "run"]
