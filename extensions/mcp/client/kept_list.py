"""What Nacre keeps of a server on disk: its last list of tools, and which of them the owner approved.

The first list of a server is approved when it arrives, because the owner has just put the server into the
settings. A tool that is new or changed later is withheld until the owner approves it in a terminal.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from nacre.extensions.mcp.client.listed_tool import ListedTool, ToolList, tool_list
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import make_folder, read_plain, replace_file
from nacre.sessions.disk.locks import locked

log = logging.getLogger(__name__)

_VERSION = 1


class KeptList:
    """The file with the last list of one server. A list that cannot be kept is asked for at each start."""

    def __init__(self, folder: Path, name: str, server: McpServer) -> None:
        more = [sorted(server.env.items()), sorted(server.headers.items())]
        self._file = folder / f"{_file_name(name, server, *more)}.json"

    def read(self) -> ToolList | None:
        """The list, `None` where there is none that can be read."""
        try:
            found = read_plain(self._file)
        except (SessionError, OSError) as error:
            log.warning("%s cannot be read: %s", self._file, error)
            return None
        return tool_list(found[0]) if found else None

    def write(self, listed: ToolList) -> None:
        """Puts a list in the place of the last one."""
        try:
            make_folder(self._file.parent)
            replace_file(self._file, listed.to_json())
        except (SessionError, OSError) as error:
            log.warning("%s cannot be written: %s", self._file, error)


class ApprovedTools:
    """The digests of a server's tools that may be offered, by the server's names for them.

    They belong to its command or address: new keys in `env` or `headers` keep them, another program begins
    anew. An approval by another process counts at the next question. A file that cannot be read approves
    nothing.
    """

    def __init__(self, folder: Path, name: str, server: McpServer) -> None:
        self._file = folder / "approved" / f"{_file_name(name, server)}.json"
        self._seen: tuple[tuple[int, int], Mapping[str, str]] | None = None

    def digests(self) -> Mapping[str, str] | None:
        """The approved digests; `None` while no list of the server was approved yet."""
        try:
            facts = self._file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s", self._file, error)
            return {}
        mark = (facts.st_mtime_ns, facts.st_size)
        if self._seen is None or self._seen[0] != mark:
            self._seen = mark, self._read()
        return self._seen[1]

    def approve(self, tools: Iterable[ListedTool], *, is_first: bool = False) -> None:
        """Approves tools as they are; with `is_first` only if nothing of the server was approved before.

        Raises:
            SessionError, OSError: the system refused.
        """
        make_folder(self._file.parent.parent)
        make_folder(self._file.parent)
        with locked(self._file):
            known = self.digests()
            if is_first and known is not None:
                return
            digests = {**(known or {}), **{tool.name: tool.digest for tool in tools}}
            text = json.dumps({"version": _VERSION, "tools": digests}, indent=1)
            replace_file(self._file, f"{text}\n".encode())
            self._seen = None

    def _read(self) -> Mapping[str, str]:
        try:
            found = read_plain(self._file)
            raw = json.loads(found[0]) if found else {}
            digests = raw["tools"]
            if raw["version"] == _VERSION and all(isinstance(value, str) for value in digests.values()):
                return dict(digests)
        except (SessionError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        log.warning("%s cannot be understood: no tool of the server is approved", self._file)
        return {}


def _file_name(name: str, server: McpServer, *more: object) -> str:
    asked = [name, server.command, list(server.args), server.cwd, server.url, *more]
    digest = hashlib.sha256(json.dumps(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{digest}"
