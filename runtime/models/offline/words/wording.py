"""Every sentence that the offline responder says of its own. Plain text and small templates, no decisions."""

from __future__ import annotations

from collections.abc import Sequence

CONNECT_A_MODEL = (
    "To connect a real model, set one environment variable and start again: "
    "`NACRE_MODEL=openai/gpt-5-mini` (with `OPENAI_API_KEY`), or `NACRE_MODEL=ollama/llama3.2` for one "
    "on this machine. The README has the details."
)

_WHAT_I_AM = (
    "I am Nacre's built-in offline responder: there is no language model behind me, "
    "so I cannot reason or chat."
)

_WHAT_I_CAN_DO = """\
What I can do, without a key and without a network:

- **Remember**: say "remember that …" and I write it into today's log, in your words.
- **Recall**: ask a question and I search your notes and quote them, with file and line.
- **Commands**: `/status`, `/compact`, `/new` and `/help` work as with any model."""

ABOUT = f"{_WHAT_I_AM}\n\n{_WHAT_I_CAN_DO}\n\n{CONNECT_A_MODEL}"

NOT_UNDERSTOOD = (
    "I read that, but there is nothing in it that I can look up, and I did not store it. "
    'If it should be kept, start with "remember that …".'
)

NOT_UNDERSTOOD_HERE = (
    "There is nothing in that which I could look up in this chat. I am Nacre's built-in offline responder, "
    "without a language model."
)

GREETING = (
    "Hello! I am Nacre's built-in offline responder. Tell me something to remember, or ask me about your "
    "notes; `/help` lists the commands."
)

THANKS = "You are welcome."

FAREWELL = "Goodbye. What you asked me to remember stays in your notes."

FORGET = (
    "I cannot take anything out of your notes: I only add to them. They are Markdown files in your "
    "workspace, `MEMORY.md` and the daily logs in `memory/`; delete the line there, "
    "and it is gone from my search too."
)

NOT_KEPT_HERE = "Notes are not kept in this chat, so I did not write that down. Tell me in our private chat."

NOTHING_TO_KEEP = (
    'What should I remember? Say it in one message, for example "remember that my dentist is Dr. Rossi".'
)

CANNOT_SEE_IMAGES = "I cannot look at images."

NOTHING_FOUND = "I searched the notes and this conversation and found nothing about that."
NOTHING_FOUND_HERE = (
    "I looked through this conversation and found nothing about that; notes cannot be searched in this chat."
)
NOTHING_SAID_HERE = "This conversation holds nothing about that either."

_FOUND = "I found this in the notes:"
_FOUND_NEAR = "No note uses your words. This one comes closest:"
_SAID = "This was said in this conversation:"
_SAID_NEAR = "The notes have nothing about that. This, said in this conversation, comes closest:"
QUOTES_ONLY = "These are quotes, word for word; I did not check or interpret them."

_WROTE_DOWN = "I wrote this down in"
_STANDS = "This already stands in"
_NOT_WRITTEN = "I could not write this down:"

SIGNS_OF_OWN_TEXT = (
    _WHAT_I_AM[:40],
    NOT_UNDERSTOOD[:40],
    NOT_UNDERSTOOD_HERE[:40],
    GREETING[:40],
    FAREWELL[:40],
    FORGET[:40],
    NOT_KEPT_HERE[:40],
    NOTHING_TO_KEEP[:40],
    _FOUND,
    _FOUND_NEAR,
    _SAID,
    _SAID_NEAR,
    _WROTE_DOWN,
    _STANDS,
    _NOT_WRITTEN,
)
"""By these an answer of this responder is recognised in a transcript; it says nothing new."""

SIGNS_OF_NO_ANSWER = (
    NOTHING_FOUND,
    NOTHING_FOUND_HERE,
    NOTHING_SAID_HERE,
    _FOUND_NEAR,
    _SAID_NEAR,
    NOT_UNDERSTOOD[:40],
    "The search in the notes",
)
"""By these an answer of this responder is known to have left the question open."""


def wrote_down(text: str, path: str) -> str:
    """The confirmation of a note."""
    return f"{_WROTE_DOWN} `{path}`: “{text}”"


def already_written(text: str, path: str) -> str:
    """The confirmation of a note that stood there before."""
    return f"{_STANDS} `{path}`: “{text}”"


def not_written(problem: str) -> str:
    """What is said when the note could not be stored."""
    return f"{_NOT_WRITTEN} {problem}"


def search_failed(problem: str) -> str:
    """What is said when the search gave an error."""
    return f"The search in the notes failed: {problem}"


def search_disabled(problem: str) -> str:
    """What is said when the search is switched off or cannot run."""
    return (
        f"The search in the notes is not available: {problem}"
        if problem
        else ("The search in the notes is not available.")
    )


def search_degraded(reason: str) -> str:
    """The note under a search that ran with less than it should have."""
    return (
        f"The search ran with less than usual: {reason}" if reason else "The search ran with less than usual."
    )


def quotes_from_notes(quotes: Sequence[str], *, near: bool) -> str:
    """Quotes of notes under their heading; `near` when none of them has the words of the question."""
    return "\n\n".join([_FOUND_NEAR if near else _FOUND, *quotes])


def quotes_from_conversation(quotes: Sequence[str], *, near: bool) -> str:
    """Quotes of the conversation under their heading; `near` when they share little with the question."""
    return "\n\n".join([_SAID_NEAR if near else _SAID, *quotes])
