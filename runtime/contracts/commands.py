"""Chat commands: their names, and which text is one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

CommandName: TypeAlias = Literal[
    "new", "reset", "resume", "compact", "rewind", "fork", "label", "status", "help", "unknown"
]

_NAMES: tuple[CommandName, ...] = tuple(name for name in get_args(CommandName) if name != "unknown")

RESET_TRIGGERS = ("/new", "/reset")
"""What begins a fresh session unless the owner says otherwise."""

_FRESH: tuple[CommandName, ...] = ("new", "reset")

_COMMAND = re.compile(
    rf"/({'|'.join(name for name in _NAMES if name not in _FRESH)})(?:\s*:\s*|\s+|$)(.*)",
    re.IGNORECASE | re.DOTALL,
)

_ADDRESSED = re.compile(r"(?:<@!?\w+>|@[\w.-]+)[,:]?\s+(?=/)|(?<=^)(/[A-Za-z]+)@\w+")

_LOOKS_LIKE_ONE = re.compile(r"/[A-Za-z][A-Za-z_-]{0,30}")

COMMANDS: Mapping[str, str] = {
    "/new [model] [text]": "start a fresh session; notes are saved first, the old transcript stays on disk",
    "/reset [text]": "the same as /new; /reset soft reads the daily logs again and goes on",
    "/resume [id]": "go back to an earlier session, by its id or number; alone it lists them",
    "/compact [focus]": "save notes, then replace old history by a summary; a focus says what to keep",
    "/rewind [place]": "go back to before something you said; alone it lists what there is to go back to",
    "/fork [place]": "go on from there, or from here, in a new session, and keep this one as it is",
    "/label name": "name this place, to come back to it with /rewind name",
    "/status": "model, context window, compactions, last flush, memory",
    "/help": "this list",
}
"""How each command is written, and what it does."""

HELP_TEXT = "\n".join(
    [
        *(f"{usage.ljust(max(map(len, COMMANDS)))}  {meaning}" for usage, meaning in COMMANDS.items()),
        "Anything else is said to the assistant.",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A chat command and what follows it; for an unknown one `rest` is the text itself."""

    name: CommandName
    rest: str = ""


def parse_command(text: str, *, reset_triggers: Sequence[str] = RESET_TRIGGERS) -> Command | None:
    """The command that a message is, or `None` for words to the assistant.

    A known word after the slash, in any case, with or without more text; what addresses the assistant in
    a group (`@name /new`, `/new@name`) does not count. One of `reset_triggers`, in lower case, begins a
    fresh session. A single unknown word after a slash is a slip, not something to say.
    """
    text = _ADDRESSED.sub(lambda match: match[1] or "", text.strip(), count=1)
    for trigger in reset_triggers:
        if text[: len(trigger)].lower() == trigger and re.match(r"\s*:|\s|$", text[len(trigger) :]):
            rest = re.sub(r"^\s*:", "", text[len(trigger) :]).strip()
            return Command(name="reset" if trigger == "/reset" else "new", rest=rest)
    match = _COMMAND.fullmatch(text)
    if match:
        return Command(name=cast(CommandName, match[1].lower()), rest=match[2].strip())
    if _LOOKS_LIKE_ONE.fullmatch(text):
        return Command(name="unknown", rest=text)
    return None
