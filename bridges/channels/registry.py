"""The channels by name: those of Nacre, and those that others install. A channel's library is imported last.

One of Nacre's own is a row here, an extra in pyproject.toml, and a folder `bridges/channels/<name>/` whose
`channel.py` has a `CHANNEL`. One of others is an extension whose manifest has the kind `channel`: its id is
the channel's name, and its entry point names the `Channel`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nacre.bridges.contracts.channel import Channel
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.runtime.extensions.discovery import Installed, installed_extensions
from nacre.runtime.settings.sections.plugins import PluginsSettings

log = logging.getLogger(__name__)

BUILT_IN: Mapping[str, str] = {
    "discord": "discord",
    "email": "email",
    "irc": "irc",
    "matrix": "matrix",
    "slack": "slack",
    "telegram": "telegram",
    "xmpp": "xmpp",
}
"""Nacre's own channels: the extra that brings the library of each; empty where it needs none."""


def channel_named(name: str, plugins: PluginsSettings) -> tuple[Channel[Any], str]:
    """The channel of this name, and what an owner installs when its library is missing.

    Raises:
        ChannelUnusable: there is no such channel, it is switched off, or it is broken.
    """
    if name in BUILT_IN:
        channel: Channel[Any] = import_module(f"nacre.bridges.channels.{name}.channel").CHANNEL
        extra = BUILT_IN[name]
        return channel, f"nacre[{extra}]" if extra else "nacre"
    found = {item.id: item for item in installed_extensions() if _brings_a_channel(item)}
    if name not in found:
        known = ", ".join(sorted({*BUILT_IN, *found})) or "none"
        raise ChannelUnusable(f"There is no channel {name!r}. Installed channels: {known}.")
    return _loaded(found[name], plugins), found[name].package


def _brings_a_channel(item: Installed) -> bool:
    return item.manifest is not None and item.manifest.kind == "channel"


def _loaded(item: Installed, plugins: PluginsSettings) -> Channel[Any]:
    if not plugins.enabled or item.id in plugins.deny:
        raise ChannelUnusable(f"The channel {item.id!r} is an extension, and plugins switches it off.")
    if item.problem:
        raise ChannelUnusable(f"The channel {item.id!r} cannot be used. {item.problem}")
    try:
        channel = item.entry_point.load()
    except (Exception, SystemExit) as error:
        log.exception("the channel %s failed to load", item.id)
        raise ChannelUnusable(
            f"The channel {item.id!r} could not be loaded: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(channel, Channel) or channel.name != item.id:
        raise ChannelUnusable(
            f"The entry point of the channel {item.id!r} names no Channel of this name "
            "(nacre.bridges.contracts.channel)."
        )
    return channel
