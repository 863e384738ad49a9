"""A model's Markdown as Slack's mrkdwn, and what people write there as text. Pure.

Of `&`, `<` and `>`, which Slack reads, the last one is only read behind a `<`: that keeps texts short.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_STRUCK = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~")
_LINK = re.compile(r"\[([^\]\n|]+)\]\((https?://[^\s()<>|]+|mailto:[^\s()<>|]+)\)")
_FENCE = re.compile(r"^```[A-Za-z0-9_+#.-]+ *$", re.MULTILINE)
_MARKED = re.compile(r"<(?P<address>[^<>|\s]+)(?:\|(?P<label>[^<>]*))?>")
_SENT = (("&", "&amp;"), ("<", "&lt;"))


def mrkdwn(markdown: str) -> str:
    """The text as Slack is sent it: nothing in it rings anybody up, and code stays as it is."""
    pieces = _CODE.split(markdown)
    return "".join(_code(piece) if number % 2 else _words(piece) for number, piece in enumerate(pieces))


def plain(said: str) -> str:
    """What a person wrote, as they see it: addresses with their labels, and no escapes."""

    def shown(found: re.Match[str]) -> str:
        address, label = found["address"], found["label"]
        if address[0] in "@#!":
            return f"{address[0]}{label}" if label else f"<{address}>"
        return address if not label or label in address else f"{label} ({address})"

    text = _MARKED.sub(shown, said)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _escaped(text: str) -> str:
    for sign, escape in _SENT:
        text = text.replace(sign, escape)
    return text


def _code(text: str) -> str:
    return _escaped(_FENCE.sub("```", text, count=1))


def _words(text: str) -> str:
    text = _HEADING.sub(r"**\1**", _escaped(text))
    text = _STRUCK.sub(r"~\1~", _BOLD.sub(r"*\1*", text))
    return _LINK.sub(r"<\2|\1>", text)
