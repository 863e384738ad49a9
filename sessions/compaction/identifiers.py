"""Exact names that a summary must not lose: addresses, paths, hashes, issues, hosts with ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_IDENTIFIER_CHARS = 200
MAX_READ_CHARS = 20_000
"""Of a longer text only its beginning and its end are read: nobody typed it."""

_PATTERNS = re.compile(
    r"https?://[^\s<>\"'`)\]}“”‘’«»]+"
    r"|(?<![\w-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])"
    r"|(?<![\w/.~-])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+/?"
    r"|(?<![\w/.@+-])[\w.@+-]+(?:/[\w.@+-]+)*/[\w@+-]+\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/])"
    r"|(?<![\w.-])[\w-]+\.(?:py|md|js|ts|json|json5|toml|yaml|yml|txt|sql|sqlite|csv|sh|rs|go|html|css"
    r"|pdf|env)(?!\w)"
    r"|(?<![\w#&])#\d{1,7}(?!\w)"
    r"|(?<![\w-])[A-Z][A-Z0-9]{1,9}-\d{1,7}(?![\w-])"
    r"|(?<![\w.:-])[A-Za-z0-9][\w.-]{0,80}:\d{2,5}(?![\w:])"
    r"|(?<![\w.-])v?\d+\.\d+\.\d+(?:[-+][\w.]+)?(?![\w.])",
    re.ASCII,
)
_SIGNS = re.compile(r"/|\.\w|#\d|[A-Z0-9]-\d|:\d\d|[0-9a-f]{7}", re.ASCII)
"""One of these stands in every name, so that most texts are passed over at once."""
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?![\w-])", re.ASCII)
"""Words of hexadecimal signs with at least one letter and one digit, so that no word or number is one."""


def identifiers(newest_first: Iterable[str], *, most: int) -> list[str]:
    """The `most` exact names that were mentioned last, each once, the last one at the end.

    Texts are read only until there are so many.

    >>> identifiers(["See https://example.org/a, commit 9fceb02 in src/app.py (#41)."], most=9)
    ['https://example.org/a', '9fceb02', 'src/app.py', '#41']
    """
    found: dict[str, None] = {}
    for text in newest_first:
        for name in reversed(_names(_ends(text))):
            found.setdefault(name)
        if len(found) >= most:
            break
    return list(found)[:most][::-1]


def _names(text: str) -> list[str]:
    """The names in a text in their order."""
    if not _SIGNS.search(text):
        return []
    spans = [match.span() for match in _PATTERNS.finditer(text)]
    hashes = [match.span() for match in _HASH.finditer(text)]
    free = [span for span in hashes if not any(start <= span[0] < end for start, end in spans)]
    return [name for start, end in sorted(spans + free) if (name := _name(text[start:end]))]


def has_identifier(text: str) -> bool:
    """Whether there is such a name in a text."""
    return bool(_names(_ends(text)))


def _name(found: str) -> str:
    """What was found without the marks behind it; empty for what is no name."""
    name = found.rstrip(".,;:!?")
    return name if 1 < len(name) <= MAX_IDENTIFIER_CHARS else ""


def _ends(text: str) -> str:
    if len(text) <= MAX_READ_CHARS:
        return text
    return f"{text[: MAX_READ_CHARS * 3 // 4]}\n{text[-MAX_READ_CHARS // 4 :]}"
