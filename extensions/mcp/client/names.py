"""What a server's tool is called in a turn. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

MOST_CHARS = 64
"""What OpenAI and Anthropic allow; both take letters, digits, `_` and `-`."""
BETWEEN = "__"
"""No tool of Nacre's own has two underscores, so that none can be mistaken for a server's."""

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


def tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """The name of a server's tool, `server__tool`.

    What providers do not allow becomes `_`. A name that is too long, or `taken`, ends in a digest of both
    names, so that it is the same at each start.
    """
    plain = _NOT_ALLOWED.sub("_", f"{server}{BETWEEN}{tool}")
    if len(plain) <= MOST_CHARS and plain not in taken:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: MOST_CHARS - _DIGEST_CHARS - 1]}_{digest}"
