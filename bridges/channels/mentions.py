"""Whether a message speaks to the assistant, where a channel has no sign for that but the name. Pure."""

from __future__ import annotations

import re


def addressed(text: str, name: str) -> tuple[str, bool]:
    """The text without the name in front of it, and whether the name stands in it as a word, in any case."""
    if not name:
        return text, False
    word = re.escape(name)
    if found := re.match(rf"@?{word}\s*[:,]\s*", text, re.IGNORECASE):
        return text[found.end() :] or text, True
    return text, re.search(rf"(?<![\w-]){word}(?![\w-])", text, re.IGNORECASE) is not None
