"""The command line, ``aimtheory COMMAND``: one module a command, loaded without any numerics until it runs."""

from aimtheory.cli.entry import main as main

__all__ = ["main"]
