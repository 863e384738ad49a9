"""A chat command: its name and help, who may use it and where, and its function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.contracts.inbound import Attachment, Quoted, Reply
from nacre.runtime.contracts.policy import Audience, ChatPolicy
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.settings.config import Config
from nacre.runtime.turn.turn import Turn

CommandUser: TypeAlias = Literal["owner", "anyone"]
"""`anyone` is everybody whose messages reach the agent."""

EVERYWHERE: tuple[Audience, ...] = ("private", "direct", "group")

Outcome: TypeAlias = tuple[Turn, Reply | None]
"""The turn in which a command ended, possibly in another session, and its reply; `None` is silence."""


class CommandRun(Record):
    """One call of a command: the text after its name, its attachments, and its turn.

    The turn's session is open and locked. `offered` are the commands that may be used here.
    """

    rest: str
    attachments: tuple[Attachment, ...]
    quoted: tuple[Quoted, ...] = ()
    turn: Turn
    config: Config
    chosen: ChosenModels
    lifecycle: Lifecycle
    offered: tuple[Command, ...]

    def reply(self, text: str) -> Outcome:
        """The outcome of a command that leaves the session unchanged."""
        return self.turn, command_reply(self.turn.session, text)


HelpGroup: TypeAlias = Literal["Conversation", "Memory", "This chat", "Channels", "More"]
"""The headings of `/help`, in order."""

CommandFunction: TypeAlias = Callable[[CommandRun], Awaitable[Outcome]]


class Command(Record):
    """A chat command.

    `name` and `aliases` are lower case and have no slash. `arguments` shows what follows, such as `[place]`;
    `help` is one line, below the heading `group` of `/help`. `who` may use it and `where`: see `Audience`.
    `words`, which come from `session.resetTriggers`, replace its names.
    """

    name: str
    help: str
    run: CommandFunction
    arguments: str = ""
    aliases: tuple[str, ...] = ()
    who: CommandUser = "owner"
    where: tuple[Audience, ...] = EVERYWHERE
    words: tuple[str, ...] = ()
    group: HelpGroup = "More"

    @property
    def called_by(self) -> tuple[str, ...]:
        """The words that call it, with the slash."""
        return self.words or tuple(f"/{name}" for name in (self.name, *self.aliases))

    @property
    def usage(self) -> str:
        """How to write it, such as `/rewind [place]`."""
        return f"{self.called_by[0]} {self.arguments}".rstrip()

    def may_be_used(self, policy: ChatPolicy) -> bool:
        return (self.who == "anyone" or policy.is_owner is True) and policy.audience in self.where


def command_reply(session: OpenSession, text: str, *, session_id: str = "") -> Reply:
    """A command's reply; `session_id` names another session of the key."""
    return Reply(
        text=text, session_key=session.key, session_id=session_id or session.session_id, is_command=True
    )
