"""Nacre: an agent runtime whose memory is plain Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nacre.runtime.agent import Agent
    from nacre.runtime.inbound import Attachment, Inbound, Reply

__version__ = "0.1.0"

__all__ = ["Agent", "Attachment", "Inbound", "Reply", "__version__"]

_HOMES = {
    "Agent": "nacre.runtime.agent",
    "Attachment": "nacre.runtime.inbound",
    "Inbound": "nacre.runtime.inbound",
    "Reply": "nacre.runtime.inbound",
}


def __getattr__(name: str) -> Any:
    """Loads a public name on first use, so that `nacre --help` does not pay for the agent."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nacre' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
