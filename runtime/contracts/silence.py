"""The silent token: an answer that is only the token is not delivered, and no part of the token is ever
shown.

A token before or after other text is cut off; a mention inside a sentence stays. Rules: spec sessions §10.
"""

from __future__ import annotations

import re

SILENT_TOKEN = "NO_REPLY"

_TOKEN = r"(?:(?i:NO\\?_REPLY)|NO[ \-\u2010-\u2015\u2212]?REPLY)"
"""The token and common misspellings. These count in capitals only, because "No reply." is an answer to
"Did Anna write?"."""
_UNSEEN = (
    "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
"""Characters without a glyph: zero-width spaces and joiners, direction marks."""
_ENDS = ".!。．！…"
_CLOSERS = '")]>」』】》”’»）'
_OPENERS = '"([「『【《“‘«（'
_WRAP = rf"[\s\\*_`~'{{}}:;,?|\-–—：；、，？{re.escape(_UNSEEN + _ENDS + _CLOSERS + _OPENERS)}]*"
_FENCE = r"(?:\s*```+[\w+-]*[ \t]*\n)?"
"""The line that opens a block of code, with the name of its language."""
_EXACT = re.compile(rf"{_FENCE}(?:{_WRAP}<?{_TOKEN})+{_WRAP}")
_BEGINNING = re.compile(rf"{_FENCE}(?:{_WRAP}<?{_TOKEN})*{_WRAP}")
_ANY_TOKEN = re.compile(_TOKEN)
_SEPARATOR = re.compile(r"\ANO[ \-\u2010-\u2015\u2212]")
_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {ord(char): None for char in _UNSEEN}
"""Maps full-width characters to narrow ones, and removes characters without a glyph."""
_OPENING_FENCE = re.compile(
    r"\s*```+[\w+-]*[ \t]*(?:<(?:[a-z]{0,8}|think(?:ing)?\b[^>]*(?:>.*)?))?", re.DOTALL | re.IGNORECASE
)
"""The line that opens a block of code as far as it has come, also with reasoning that has not ended."""
_LEADING_LINES = re.compile(rf"(?:\s*[*_`]*{SILENT_TOKEN}[*_`.!]*[ \t]*\n+)+")
_LEADING_GLUED = re.compile(rf"\s*{SILENT_TOKEN}(?=[A-Z][a-z]|[^\W\d_a-zA-Z])")
"""A token directly before a word: a capital and a small letter, or a letter of another alphabet."""
_THINKING = re.compile(r"<think(?:ing)?\b[^>]{0,99}>(?:.*?(</think(?:ing)?>)|.*)", re.DOTALL | re.IGNORECASE)
"""Reasoning. What never ends is matched too, without the group, so that it is looked through once."""
_SPACE = " \t\r\n\f\v*_`" + _UNSEEN
_BEFORE = _SPACE + _OPENERS + "<"
_AFTER = _SPACE + _CLOSERS + _ENDS
_SENTENCE_END = (".", "!", "?", "。", "！", "？")
_TOKENS_TO_THE_END = re.compile(
    rf"(?:{SILENT_TOKEN}[{re.escape(_AFTER + _BEFORE)}]*)*"
    rf"(?:{'|'.join(SILENT_TOKEN[:chars] for chars in range(len(SILENT_TOKEN) - 1, 0, -1))})?\Z"
)


def is_silent(text: str) -> bool:
    """Whether the whole answer, apart from reasoning, white space and markup, is the token."""
    if text.isascii() and "REPLY" not in text.upper():
        return False
    return bool(_EXACT.fullmatch(_plain(text)))


def without_token(text: str) -> str:
    """The text to deliver: empty for a silent answer, else without a token at its start or end.

    >>> without_token("Noted.\\n\\nNO_REPLY")
    'Noted.'
    >>> without_token("Answer NO_REPLY when nothing is left to say.")
    'Answer NO_REPLY when nothing is left to say.'
    """
    return "" if is_silent(text) else _without_trailing(_without_leading(text))


class SilenceFilter:
    """Passes a streamed answer on, holding back what may still be part of the token.

    The results of `feed` and `finish`, joined, are `without_token` of the whole answer, apart from white
    space at the cut; no part of a silent answer is returned.
    """

    def __init__(self) -> None:
        self._held = ""
        self._unread: list[str] = []
        self._last_shown = ""
        self._has_begun = False
        self._is_thinking = False

    def feed(self, delta: str) -> str:
        """Takes the next characters; returns those that are safe to show now."""
        self._unread.append(delta)
        # Only a tag ends reasoning. Reading all of it with each piece would take quadratic time.
        if self._is_thinking and ">" not in delta:
            return ""
        self._take_unread()
        if not self._has_begun:
            if _may_become_leading(self._held):
                found = _THINKING.match(self._held.lstrip())
                self._is_thinking = found is not None and found[1] is None
                return ""
            self._is_thinking = False
            self._held = _without_leading(self._held)
            self._has_begun = True
        safe_chars = _safe_chars(self._held)
        shown, self._held = self._held[:safe_chars], self._held[safe_chars:]
        self._last_shown = shown[-1:] or self._last_shown
        return shown

    def finish(self) -> str:
        """Ends the answer; returns the rest of what is shown."""
        self._take_unread()
        if not self._has_begun:
            return without_token(self._held)
        return _without_trailing(self._last_shown + self._held)[len(self._last_shown) :]

    def _take_unread(self) -> None:
        self._held += "".join(self._unread)
        self._unread.clear()


def _plain(text: str) -> str:
    """The text without reasoning, in narrow characters that have a glyph."""
    return _THINKING.sub(lambda found: " " if found[1] else found[0], text.translate(_PLAIN))


def _without_leading(text: str) -> str:
    lines = _LEADING_LINES.match(text)
    text = text[lines.end() :] if lines else text
    glued = _LEADING_GLUED.match(text)
    return text[glued.end() :] if glued else text


def _without_trailing(text: str) -> str:
    # No regular expression: a model that loops writes white space by the page, and backtracking
    # through that would stop every conversation.
    while (head := text.rstrip(_AFTER)).endswith(SILENT_TOKEN):
        before = head.removesuffix(SILENT_TOKEN).rstrip(_BEFORE.strip())
        if "```" in text[len(head) :]:
            before = _without_opening_fence(before)
        if before == before.rstrip() and not before.endswith(_SENTENCE_END):
            break
        text = before.rstrip()
    return text


def _without_opening_fence(text: str) -> str:
    """The text without a last line that only opens a block of code."""
    start, newline, line = text.rstrip().rpartition("\n")
    return start + newline if line and not line.strip("` \t") else text


def _may_become_leading(text: str) -> bool:
    """Whether `text`, at the start of an answer, may become silence or a leading token."""
    bare = _plain(text)
    if _OPENING_FENCE.fullmatch(bare):
        return True
    beginning = _BEGINNING.match(bare)
    has_token = beginning is not None and _ANY_TOKEN.search(beginning[0]) is not None
    rest = bare[beginning.end() if beginning else 0 :].upper()
    spelled = _SEPARATOR.sub("NO_", rest.removeprefix("<").replace("\\", ""))
    if any(token.startswith(spelled) for token in (SILENT_TOKEN, "NOREPLY")) or "<THINK".startswith(rest[:6]):
        return True
    # Two characters tell a word that is glued to the token from the end of a line.
    return has_token and len(rest) < 2


def _safe_chars(text: str) -> int:
    """How much of `text` can be shown: everything before white space and tokens that may end the answer."""
    if SILENT_TOKEN[0] not in text:
        return len(text.rstrip(_BEFORE))
    places = (match.start() for match in re.finditer(SILENT_TOKEN[0], text))
    start = next((place for place in places if _TOKENS_TO_THE_END.match(text, place)), len(text))
    return len(text[:start].rstrip(_BEFORE))
