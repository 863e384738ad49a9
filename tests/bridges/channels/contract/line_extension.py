"""The line channel as an extension that somebody installed: `channels.line` switches it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.house.tree import ROOT
from tests.runtime.extensions.packages import install

_CODE = """
from nacre.bridges.contracts.channel import AccountSettings, Channel, Secret, NO_SECRET


class LineSettings(AccountSettings):
    port: int
    password: Secret = NO_SECRET
    needs: str = ""


def make(home, settings):
    if settings.needs:
        __import__(settings.needs)
    if settings.port < 0:
        raise ValueError("port is below zero")
    from tests.bridges.line_channel import LineBridge

    return LineBridge(settings.port, account=home.account)


CHANNEL = Channel(name="line", settings=LineSettings, make=make)
"""


def install_line(site: Path, code: str = _CODE, manifest: Any = None) -> str:
    """Installs it into a folder; what `PYTHONPATH` must be for a program that is to have it."""
    install(site, "line", code, manifest=manifest or {"kind": "channel"}, entry="CHANNEL")
    return f"{site}:{ROOT}"
