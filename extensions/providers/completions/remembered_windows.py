"""Windows that overflows taught, over restarts. Edge: one file of the state folder."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import locked, read_plain, replace_file

log = logging.getLogger(__name__)

WINDOWS_FILE = "model-windows.json"
VERSION = 1


class RememberedWindows:
    """Tokens by model and address. `path` need not exist; a file that cannot be read holds nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, model_name: str, address: str) -> int | None:
        """What was learned of a model at an address, if anything was."""
        try:
            return self._stored().get(_key(model_name, address))
        except SessionError as error:
            log.warning("what was learned of windows cannot be read: %s", error)
            return None

    async def keep(self, model_name: str, address: str, tokens: int) -> None:
        """Keeps what an overflow taught."""
        try:
            await asyncio.to_thread(self._keep, _key(model_name, address), tokens)
        except SessionError as error:
            log.warning("the window of %s is not remembered: %s", model_name, error)

    def _keep(self, key: str, tokens: int) -> None:
        with locked(self._path):
            windows = {**self._stored(), key: tokens}
            text = json.dumps({"version": VERSION, "windows": windows}, indent=2)
            replace_file(self._path, text.encode("utf-8"))

    def _stored(self) -> dict[str, int]:
        found = read_plain(self._path)
        try:
            raw = json.loads(found[0]) if found else {"windows": {}}
            return {key: value for key, value in raw["windows"].items() if isinstance(value, int)}
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("%s holds no windows that can be read", self._path)
            return {}


def _key(model_name: str, address: str) -> str:
    return f"{model_name} {address}".strip()
