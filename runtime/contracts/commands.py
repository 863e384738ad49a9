"""Which text is a chat command: the word that it begins with, and what stands behind it. Pure.

What there is to call, and what it does, is `runtime/commands/`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

RESET_TRIGGERS = ("/new", "/reset")
"""What begins a fresh session unless the owner says otherwise."""

_RECORDED = ("/new", "/reset", "/resume", "/compact", "/rewind", "/fork", "/label", "/status", "/help")
"""A command is not recorded as words today; transcripts of others and of earlier versions have some."""

_ADDRESSED = re.compile(r"(?:<@!?\w+>|@[\w.-]+)[,:]?\s+(?=/)|(/[A-Za-z][\w-]*)@\w+")
_WORD_ENDS = re.compile(r"\s*:|\s|$")

_SLASH_WORD = re.compile(r"(/[A-Za-z][A-Za-z0-9_-]{0,31})(?=\s*:|\s|$)\s*(.*)", re.DOTALL)


def called_word(text: str, words: Collection[str]) -> tuple[str, str] | None:
    """Which of `words`, in lower case, a message begins with, and what stands behind it.

    In any case, alone or before more text; what addresses the assistant in a group (`@name /new`,
    `/new@name`) does not count. The longest word wins.
    """
    text = _unaddressed(text)
    for length in sorted(set(map(len, words)), reverse=True):
        word = text[:length].lower()
        if word in words and _WORD_ENDS.match(text, length):
            return word, re.sub(r"^\s*:", "", text[length:]).strip()
    return None


def slash_word(text: str) -> tuple[str, str] | None:
    """A message's first word, with its slash, and what stands behind it; `None` without a slash word."""
    match = _SLASH_WORD.fullmatch(_unaddressed(text))
    return None if match is None else (match[1], match[2])


def was_command(text: str) -> bool:
    """Whether words of a transcript were a command, or a slip that looked like one."""
    slip = slash_word(text)
    return called_word(text, _RECORDED) is not None or (slip is not None and not slip[1])


def _unaddressed(text: str) -> str:
    text = text.strip()
    match = _ADDRESSED.match(text)  # at the beginning alone: a search would read all of a long message
    return text if match is None else (match[1] or "") + text[match.end() :]
