"""What these tests need: the library of each channel, and its server, which `make channels` brings."""

from __future__ import annotations

from importlib.util import find_spec

LIBRARIES = {
    "email": ("aiosmtpd", "imap_tools"),
    "irc": ("ircstates",),
    "matrix": ("nio",),
    "xmpp": ("slixmpp",),
    "discord": ("discord",),
    "slack": ("slack_sdk",),
    "telegram": ("telegram",),
}

collect_ignore_glob = [f"{name}/*" for name, needed in LIBRARIES.items() if None in map(find_spec, needed)]
