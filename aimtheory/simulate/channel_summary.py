"""What a run says of its channel."""

from __future__ import annotations

from typing import Any

from aimtheory.bayes import Channel


def channel_summary(channel: Channel) -> dict[str, Any]:
    """``channel`` (its name), ``tokens`` and ``channel_options``, those that are numbers or text."""
    fields = getattr(channel, "__dataclass_fields__", {})
    plain = {
        name: getattr(channel, name)
        for name in fields
        if name != "tokens" and isinstance(getattr(channel, name), int | float | str | tuple)
    }
    return {"channel": channel.name, "tokens": channel.tokens, "channel_options": plain}


__all__ = ["channel_summary"]
