"""The silent token: when an answer is to stay unsaid, and how none of it ever shows.

One place for every sink. A reply that is only the token is silence; a token before or after real
text is cut off; a mention inside a sentence stays. Rules: spec sessions §10.
"""

from __future__ import annotations

import re

SILENT_TOKEN = "NO_REPLY"

_WRAP = r"[\s*_`\"'{}\[\]().!:-]*"
_EXACT = re.compile(rf"{_WRAP}{SILENT_TOKEN}{_WRAP}", re.IGNORECASE)
_TRAILING = re.compile(rf"(?:\s+|(?<=[.!?。！？]))[*_`\"(\[]*{SILENT_TOKEN}[*_`\")\].!]*\s*$")
_LEADING_LINE = re.compile(rf"^\s*[*_`]*{SILENT_TOKEN}[*_`.!]*[ \t]*\n+")
_LEADING_GLUED = re.compile(rf"^\s*{SILENT_TOKEN}(?=[A-Z][a-z])")
_THINKING = re.compile(r"<think(?:ing)?\b[^>]*>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_TAIL = re.compile(r"(?:\s|[*_`\"(\[])+$")


def is_silent(text: str) -> bool:
    """Whether the whole answer, apart from reasoning, white space and markup, is the token."""
    return bool(_EXACT.fullmatch(_THINKING.sub("", text)))


def without_token(text: str) -> str:
    """The text to deliver: empty for a silent answer, else without a token at its start or end.

    >>> without_token("Noted.\\n\\nNO_REPLY")
    'Noted.'
    >>> without_token("Answer NO_REPLY when nothing is left to say.")
    'Answer NO_REPLY when nothing is left to say.'
    """
    if is_silent(text):
        return ""
    text = _LEADING_LINE.sub("", text)
    text = _LEADING_GLUED.sub("", text)
    return _TRAILING.sub("", text)


class SilenceFilter:
    """Passes a streamed answer on, holding back whatever may still turn out to be the token.

    What `feed` returned, joined with what `finish` returns, is `without_token` of the whole answer
    (white space at the cut aside), and no part of a silent answer is ever returned.
    """

    def __init__(self) -> None:
        self._held = ""
        self._shown_any = False

    def feed(self, delta: str) -> str:
        """Takes the next characters; returns those that are safe to show now."""
        self._held += delta
        safe_chars = self._safe_chars()
        shown, self._held = self._held[:safe_chars], self._held[safe_chars:]
        self._shown_any = self._shown_any or bool(shown)
        return shown

    def finish(self) -> str:
        """The answer is complete: returns what was held back and is to be shown."""
        if not self._shown_any:
            return without_token(self._held)
        # The held tail begins with the white space or markup before a possible token; a sentence
        # end that was already shown stands for itself.
        return _TRAILING.sub("", "." + self._held)[1:]

    def _safe_chars(self) -> int:
        if not self._shown_any and _may_become_leading(self._held):
            return 0
        start = _possible_token_start(self._held)
        head = self._held[:start]
        tail = _OPEN_TAIL.search(head)
        return tail.start() if tail else start


def _may_become_leading(text: str) -> bool:
    """Whether `text`, at the very start of an answer, may still grow into a leading token."""
    bare = re.sub(r"^[\s*_`\"'{\[(]+", "", _THINKING.sub("", text))
    upper = bare.upper()
    if not bare or SILENT_TOKEN.startswith(upper) or "<THINK".startswith(upper[:6]):
        return True
    if not upper.startswith(SILENT_TOKEN):
        return False
    # After the token: held until a second line or enough of a sentence says what it is.
    rest = bare[len(SILENT_TOKEN) :]
    return len(rest.strip()) < 2


def _possible_token_start(text: str) -> int:
    """Index of the first place from which the rest of `text` may be a token that ends the answer."""
    for match in re.finditer(r"N", text):
        rest = text[match.start() :]
        if SILENT_TOKEN.startswith(rest) or re.fullmatch(rf"{SILENT_TOKEN}[*_`\")\].!]*\s*", rest):
            return match.start()
    return len(text)
