"""A part as the content of an event: Markdown as HTML, the thread, what is answered, what is corrected. Pure.

An event has 64 kB at most, and a correction holds its text up to four times, twice as HTML.
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt

from nacre.bridges.contracts.bridge import Part

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
# A client would fetch an image's address, and an address may carry away what it was made of.
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")


def message(part: Part, *, is_private: bool) -> dict[str, Any]:
    """A new message. In a group it names what it answers."""
    content = _text(part.text)
    answered = {"m.in_reply_to": {"event_id": part.answers}} if part.answers.startswith("$") else {}
    if thread := part.place.thread_id:
        is_apart = not answered
        content["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": True,
            **({"m.in_reply_to": {"event_id": thread}} if is_apart else answered),
        }
    elif answered and not is_private:
        content["m.relates_to"] = answered
    return content


def correction(part: Part, event_id: str) -> dict[str, Any]:
    """What makes a sent message read otherwise; programs that do not know corrections show it with a star."""
    content = _text(part.text)
    return {
        **content,
        "body": f"* {content['body']}",
        "m.new_content": content,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
    }


def _text(text: str) -> dict[str, Any]:
    text = _CONTROLS.sub("", text)
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = _MARKDOWN.render(text).strip()
    if html != f"<p>{text}</p>" and len(html) <= 2 * len(text) + 200:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content
