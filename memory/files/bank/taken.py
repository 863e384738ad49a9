"""`bank/.taken`: which lines of the logs were put on pages, and where each stood then. Pure.

A line each: the digest of what was retained, a blank, its link. An item that the owner rewrote or took off a
page is not put there again, and a link follows its line when others come or go above it. Without the file,
items are known by their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nacre.memory.contracts.notes import BANK_FOLDER

NAME = f"{BANK_FOLDER}/.taken"

_LINE = re.compile(r"([0-9a-f]{16}) (\S.*)")


def taken(text: str) -> dict[str, str]:
    """The link of each digest; what is no such line is passed over."""
    return {found[1]: found[2] for line in text.splitlines() if (found := _LINE.fullmatch(line.strip()))}


def written(links: Mapping[str, str]) -> str:
    """The file's text."""
    return "".join(f"{digest} {link}\n" for digest, link in links.items())
