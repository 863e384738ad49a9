"""The answers of the offline responder: tool calls or text, and every sentence of its own."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.record import Record
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, message_text

PROVIDER = "offline"


class Answer(Record):
    """Text, or tool calls whose results the next step reads. A call gets its id when it is streamed."""

    text: str = ""
    calls: Sequence[ToolCall] = ()


CONNECT_A_MODEL = (
    "To connect a real model, run `nacre init` in a terminal and start Nacre again. It finds models on "
    "this machine and keys in your environment."
)
ABOUT = f"""\
I am Nacre's built-in offline responder: there is no language model behind me, so I cannot reason or chat.

What I can do, without a key and without a network:

- **Remember**: say "remember that …" and I write it into today's log, in your words.
- **Recall**: ask a question and I search your notes and quote them, with file and line.
- **Commands**: `/status`, `/compact`, `/new` and `/help` work as with any model.

{CONNECT_A_MODEL}"""
SMALL_TALK = {
    "greeting": "Hello! I am Nacre's built-in offline responder. Tell me something to remember, or ask me "
    "about your notes; `/help` lists the commands.",
    "thanks": "You are welcome.",
    "farewell": "Goodbye. What you asked me to remember stays in your notes.",
    "about": ABOUT,
    "forget": "I do not take anything out of your notes by myself: `/forget` with a word of them shows the "
    "lines that have it, and removes them when you confirm.",
    "remind": 'I cannot read times. In a terminal, `nacre admin schedule add --at 2026-12-01T18:00 "call '
    'Ben"` sets a reminder, and `nacre serve` sends it to you.',
}
CANNOT_SEE_IMAGES = f"I cannot look at images. {ABOUT}"
NOT_UNDERSTOOD = (
    "I read that, but there is nothing in it that I can look up, and I did not store it. "
    'If it should be kept, start with "remember that …".'
)
NOT_UNDERSTOOD_HERE = (
    "There is nothing in that which I could look up in this chat. I am Nacre's built-in offline responder, "
    "without a language model."
)

REMINDER = "You wanted to be reminded of this: “{text}”"
WROTE_DOWN = "I wrote this down in `{path}`: “{text}”"
ALREADY_WRITTEN = "This already stands in `{path}`: “{text}”"
NOT_WRITTEN = "I could not write this down: {problem}"
NOT_KEPT_HERE = "I did not write that down: notes cannot be written here now. In a group, tell me in private."
NOTHING_TO_KEEP = (
    'What should I remember? Say it in one message, for example "remember that my dentist is Dr. Rossi".'
)

FOUND = "I found this in the notes:"
FOUND_NEAR = "No note uses your words. The search put this first:"
ASKED = "The notes hold this as a question, without an answer to it:"
SAID = "This was said in this conversation:"
QUOTES_ONLY = "These are quotes, word for word; I did not check or interpret them."
STALE_QUOTES = (
    "These are quotes as the notes were when they were last read: they have changed since, and may say "
    "something else by now. Ask again in a moment. I did not check or interpret them."
)
NOTHING_FOUND_YET = "The notes have changed and were not read again yet: ask again in a moment."
NOTHING_FOUND = "I searched the notes and this conversation and found nothing about that."
NOTHING_FOUND_HERE = (
    "I looked through this conversation and found nothing about that; notes cannot be searched in this chat."
)
NOTHING_SAID_HERE = "This conversation holds nothing about that either."
SEARCH_FAILED = "The search in the notes failed: {problem}"
SEARCH_DISABLED = "The search in the notes is not available: {problem}"
SEARCH_DEGRADED = "The search ran with less than usual: {problem}"


def _beginnings(*sentences: str) -> tuple[str, ...]:
    """The constant beginning of each sentence, by which it is recognized in an answer."""
    return tuple(sentence.partition("{")[0][:40] for sentence in sentences)


_QUOTING = _beginnings(WROTE_DOWN, ALREADY_WRITTEN, FOUND, FOUND_NEAR, ASKED, SAID)
_NOTHING = (NOTHING_FOUND, NOTHING_FOUND_HERE, NOTHING_SAID_HERE, NOT_UNDERSTOOD)
_LEAVING_OPEN = _beginnings(*_NOTHING, FOUND_NEAR, ASKED, SEARCH_FAILED, SEARCH_DISABLED)


def is_quoting(text: str) -> bool:
    """Whether an answer in a transcript is an offline answer that quotes earlier text."""
    return any(map(text.__contains__, _QUOTING))


def leaves_open(text: str) -> bool:
    """Whether an answer in a transcript is an offline answer that left the question open."""
    return any(map(text.__contains__, _LEAVING_OPEN))


def quotes_nothing(message: AssistantMessage) -> bool:
    """Whether an answer is an offline answer without quotes, such as the list of its abilities."""
    is_own = message.provider == PROVIDER and not message.tool_calls
    return is_own and not is_quoting(message_text(message))
