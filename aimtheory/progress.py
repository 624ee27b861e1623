"""How a long computation tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float, float], None]
"""Called with (done, total), in the unit of the computation: time, steps, or points of a grid. May raise
``KeyboardInterrupt`` to end it with what has been reached."""

__all__ = ["Progress"]
