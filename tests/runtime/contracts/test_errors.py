"""The drawing in `docs/engineering/errors.md` is the whole error tree, and a true one."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

from tests.house.tree import HOUSE

INTERNAL = {
    "ProviderAnswered": "never leaves its room: it becomes EmbeddingFailed there",
    "NotAPage": "never leaves its room: it becomes AnswerBroken there",
    "NotSent": "never leaves the Telegram bridge: it becomes NotDelivered there",
    "Ignored": "never leaves its bridge: it becomes a line of the log there",
    "FileTooLarge": "never leaves its bridge: it becomes the problem of an attachment there",
    "Refused": "never leaves the page: it becomes a page with its status there",
    "UnverifiedSender": "never leaves the e-mail bridge: it becomes a line of the log there",
    "LineTooLong": "never leaves the transport of a server: it becomes the server's last words there",
    "InvalidChoice": "never leaves its room: it becomes the answer to a chat command there",
}
DRAWING = Path(__file__).parents[3] / "docs" / "engineering" / "errors.md"


def _drawn() -> dict[str, str]:
    """Each drawn error with the one above it; `""` for the top of a tree."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in (
        DRAWING.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0].splitlines()
    ):
        match = re.match(r"(?P<bars>[│├└─ ]*)(?P<name>\w+) +\S", line)
        if match is None:
            assert not line.strip(), f"no error and who reacts: {line}"
            continue
        depth = len(match["bars"]) // 4
        above[depth:] = [match["name"]]
        found[match["name"]] = above[depth - 1] if depth else ""
    return found


def _defined() -> dict[str, str]:
    """Each public exception of the house with the one it is a kind of, if that is ours."""
    named = [
        pair for source in HOUSE for pair in re.findall(r"^class (\w+)\((\w+)", source.text, re.MULTILINE)
    ]
    above = dict(named)
    found: dict[str, str] = {}
    for name, base in above.items():
        top = base
        while top in above:
            top = above[top]
        if isinstance(kind := getattr(builtins, top, None), type) and issubclass(kind, Exception):
            found[name] = base if base in above else ""
    return {name: base for name, base in found.items() if not name.startswith("_")}


def test_the_error_tree_is_drawn_once_and_is_true() -> None:
    """Each error stands under the one that it is a kind of, with who reacts, and none is left out."""
    defined = {name: base for name, base in _defined().items() if name not in INTERNAL}

    assert _drawn() == defined


def test_the_drawing_stands_nowhere_else() -> None:
    """The modules refer to the drawing instead of drawing a part of it again."""
    assert [
        source.path for source in HOUSE if re.search(r"├── \w+(Error|Unusable|Corrupt)", source.text)
    ] == []
