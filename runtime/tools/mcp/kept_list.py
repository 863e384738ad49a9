"""A server's list of tools on disk, under a name that changes with the server's settings. Edge."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path

from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.mcp.listed_tool import ToolList, tool_list
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import read_plain, replace_file
from nacre.sessions.disk.reported import make_folder

log = logging.getLogger(__name__)


class KeptList:
    """The file with the last list of one server. A list that cannot be kept is asked for at each start."""

    def __init__(self, folder: Path, name: str, server: McpServer) -> None:
        asked = [
            *(name, server.command, list(server.args), server.cwd, server.url),
            *(sorted(server.env.items()), sorted(server.headers.items())),
        ]
        digest = hashlib.sha256(json.dumps(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._file = folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{digest}.json"

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
