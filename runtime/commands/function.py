"""`@command`: a bot author's function as a chat command."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias, cast, get_args

from nacre.record import Record
from nacre.runtime.commands.contract.command import Command, CommandRun, CommandUser, Outcome, said
from nacre.runtime.commands.conversation.session import Session
from nacre.runtime.commands.held_door import HeldDoor
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.contracts.policy import Audience, ChatPolicy
from nacre.runtime.tools.toolbox import on_its_own_thread
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)


class CommandContext(Record):
    """One call of a command.

    `text` is what stands behind the name, and `attachments` what came with it. `session` is that of the chat,
    whose methods can be awaited here as anywhere. `policy` says who hears the answer, and what may be shown
    here: what is the owner's alone only where `policy.is_private`.
    """

    name: str
    text: str
    attachments: tuple[Attachment, ...]
    session: Session
    channel: str
    sender_id: str
    policy: ChatPolicy
    _replies: list[str] = field(default_factory=list, repr=False)

    def reply(self, text: str) -> None:
        """Adds words to the answer, in front of what the function returns. From any thread."""
        self._replies.append(text)


CommandReply: TypeAlias = str | None
AuthorFunction: TypeAlias = Callable[[CommandContext], Awaitable[CommandReply] | CommandReply]


class FunctionCommand(Record):
    """A function as a chat command, made by `command`; calling it calls the function."""

    function: AuthorFunction
    name: str
    help: str
    arguments: str = ""
    aliases: tuple[str, ...] = ()
    who: CommandUser = "owner"
    where: tuple[Audience, ...] = ("private",)

    def __call__(self, context: CommandContext) -> Awaitable[CommandReply] | CommandReply:
        return self.function(context)

    def to_command(self) -> Command:
        """The command that the registry takes."""
        return Command(
            name=self.name,
            help=self.help,
            run=self._run,
            arguments=self.arguments,
            aliases=self.aliases,
            who=self.who,
            where=self.where,
        )

    async def _run(self, run: CommandRun) -> Outcome:
        door, origin, replies = HeldDoor(run), run.turn.session.route.origin, list[str]()
        context = CommandContext(
            name=self.name,
            text=run.rest,
            attachments=run.attachments,
            session=Session(run.turn.session.key, run.turn.session.session_id, door),
            channel=origin.channel,
            sender_id=origin.sender_id,
            policy=run.turn.session.policy,
            _replies=replies,
        )
        try:
            returned = await self._called(context)
        except (AgentError, SessionError, OSError):
            raise
        except Exception as error:
            log.exception("the command /%s failed", self.name)
            raise TurnBroken(f"The command /{self.name} failed: {type(error).__name__}: {error}") from error
        text = "\n".join([*replies, returned or ""]).strip()
        turn = await door.present()
        return turn, said(turn.session, text) if text else None

    async def _called(self, context: CommandContext) -> CommandReply:
        call: Callable[[CommandContext], Any] = self.function
        is_async = inspect.iscoroutinefunction(call)
        result = call(context) if is_async else await on_its_own_thread(partial(call, context))
        return cast(CommandReply, await result if inspect.isawaitable(result) else result)


def command(
    name: str,
    /,
    *,
    help: str = "",
    arguments: str = "",
    aliases: Sequence[str] = (),
    who: CommandUser = "owner",
    where: Sequence[Audience] = ("private",),
) -> Callable[[AuthorFunction], FunctionCommand]:
    """Makes a chat command `/name` of a function that takes a `CommandContext`.

    What the function returns is the reply; nothing is silence. A plain function runs on a thread of its own.
    It runs while the session's lane is held, so a turn of the session never runs beside it. `help` is its
    line in `/help`, the docstring's first unless given; `arguments` is how what follows is written, such as
    `[city]`.

    `who` may use it: the `owner`, or `anyone` whose messages reach the agent. `where`: in the owner's
    `private` chat alone unless told otherwise, in a `direct` chat with somebody else, in a `group`. What
    somebody may not use is not in their `/help`, and is words to the assistant.

    Raises:
        TypeError: `who` or `where` is none of these, or there is no help.
    """

    def made(function: AuthorFunction) -> FunctionCommand:
        line = help or (inspect.getdoc(function) or "").partition("\n")[0]
        if not line.strip():
            raise TypeError(f"The command {name!r} has no help. Write help='…', or a docstring.")
        if who not in get_args(CommandUser):
            raise TypeError(f"The command {name!r} has who={who!r}: write one of {get_args(CommandUser)}.")
        if isinstance(where, str) or not where or not set(where) <= set(get_args(Audience)):
            raise TypeError(f"The command {name!r} has where={where!r}: name some of {get_args(Audience)}.")
        return FunctionCommand(
            function=function,
            name=name,
            help=" ".join(line.split()),
            arguments=" ".join(arguments.split()),
            aliases=tuple(aliases),
            who=who,
            where=tuple(where),
        )

    return made
