"""Whether a model's answer can stand for a history; if not, why, in words for a second try. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from nacre.records.record import Record
from nacre.sessions.contracts.messages import StopReason

HEADINGS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
PREFIX_HEADINGS = ("Original Request", "Early Progress", "Context for Suffix")

_MIN_LETTERS = 80
_MAX_SIGNS = 8_000
_MAIN_SHARE = 0.6
_PRESENT_SHARE = 0.15
_WRITINGS = {"CJK": "HAN", "HIRAGANA": "HAN", "KATAKANA": "HAN"}
"""Japanese mixes them, and so each counts for the other."""


class Defect(Record):
    """What is wrong with a summary. One that is not `fatal` is better than no summary at all."""

    problem: str
    is_fatal: bool


def summary_defect(
    text: str, stop_reason: StopReason, *, writing: str | None, summary_tokens: int
) -> Defect | None:
    """The first thing that is wrong with a summary of a conversation in `writing`, or `None`.

    Fatal: no text, an answer that was cut off at `summary_tokens`, a text with none of the asked
    headings, such as a refusal or an answer to the conversation itself. Not fatal: a summary in
    another writing than the conversation's.
    """
    if not text:
        return Defect(problem="The summary was empty.", is_fatal=True)
    if stop_reason == "length":
        return Defect(problem=f"The summary was cut off at {summary_tokens} tokens.", is_fatal=True)
    if not any(has_heading(text, heading) for heading in (*HEADINGS, *PREFIX_HEADINGS)):
        return Defect(problem="The answer was no summary: it had none of the headings.", is_fatal=True)
    shares = _shares(text)
    if writing is not None and shares and shares.get(writing, 0.0) < _PRESENT_SHARE:
        return Defect(problem="The summary was not in the language of the conversation.", is_fatal=False)
    return None


def has_heading(text: str, heading: str) -> bool:
    """Whether a line is the heading, as Markdown or in bold."""
    return bool(re.search(rf"^\s*(?:#{{1,6}}\s*|\*\*){re.escape(heading)}", text, re.MULTILINE))


def main_writing(text: str) -> str | None:
    """The writing that most of a text is in, such as `CYRILLIC`; `None` for Latin, a mixture or a few words.

    Languages that share a writing are not told apart, so a German conversation may be summarised in
    English without anybody noticing here.
    """
    shares = _shares(text)
    found = next((name for name, share in shares.items() if share >= _MAIN_SHARE), None)
    return None if found == "LATIN" else found


def _shares(text: str) -> dict[str, float]:
    """The share of each writing in the letters of a text, empty when there are too few of them."""
    sample = text[:: max(1, len(text) // _MAX_SIGNS)]
    names = [unicodedata.name(sign, "?").partition(" ")[0] for sign in sample if sign.isalpha()]
    if len(names) < _MIN_LETTERS:
        return {}
    counts = Counter(_WRITINGS.get(name, name) for name in names)
    return {name: count / len(names) for name, count in counts.items()}
