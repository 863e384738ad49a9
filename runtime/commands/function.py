"""`@command` makes a function a chat command."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast, get_args

from nacre.record import Record
from nacre.runtime.commands.command import Command, CommandRun, CommandUser, Outcome, command_reply
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.conversation.session import Session
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.contracts.policy import Audience, ChatPolicy
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.tools.toolbox import on_its_own_thread
from nacre.runtime.turn.loop import TurnBounds
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import TurnOptions
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

T = TypeVar("T")


class CurrentSession:
    """The session of one command's chat only, because waiting for a second lock could deadlock."""

    def __init__(self, run: CommandRun) -> None:
        self.chosen: ChosenModels = run.chosen
        self.lifecycle: Lifecycle = run.lifecycle
        self._turn = run.turn

    async def present(self) -> Turn:
        """The turn in the key's current session, which the command may have changed."""
        turn = self._turn
        record = await turn.parts.sessions.index.get(turn.session.key)
        if record is not None and record.session_id != turn.session.session_id:
            reopened = await turn.parts.sessions.open(turn.session.route)
            self._turn = self.chosen.applied(turn.of_session(reopened))
        return self._turn

    async def run(self, key: str, work: Callable[[Turn], Awaitable[T]], /) -> T:
        """Runs a function on the session."""
        return await work(await self._turn_of(key))

    async def ask(
        self, key: str, text: str, attachments: tuple[Attachment, ...], options: TurnOptions, /
    ) -> Reply[Any] | None:
        """Replies to a text in the session, with the rights of whoever called the command."""
        turn = await self._turn_of(key)
        if options != TurnOptions():
            turn = Turn(
                turn.session, replace(turn.parts, options=options), turn.emit, TurnBounds(options.limits)
            )
        await turn.write_down(text, attachments)
        return options.checked(await turn.answer())

    async def _turn_of(self, key: str) -> Turn:
        if key != self._turn.session.key:
            raise TurnBroken(
                f"A command of {self._turn.session.key!r} cannot wait for the session {key!r}. "
                "Use agent.sessions.get(…) outside of the command."
            )
        return await self.present()


class CommandContext(Record):
    """One call of a command.

    `text` is the text after the name, and `attachments` came with it. `session` is the chat's session, whose
    methods can be awaited here too. `policy` says who sees the answer and what may be shown: the owner's
    private content only if `policy.is_private`. `reply` adds a text to the answer, before the function's
    return value; any thread may call it.
    """

    name: str
    text: str
    attachments: tuple[Attachment, ...]
    session: Session
    channel: str
    sender_id: str
    policy: ChatPolicy
    reply: Callable[[str], None] = field(repr=False)


CommandReply: TypeAlias = str | None
AuthorFunction: TypeAlias = Callable[[CommandContext], Awaitable[CommandReply] | CommandReply]


class FunctionCommand(Command):
    """A function as a chat command, created by `command`. Calling it calls the function."""

    function: AuthorFunction

    def __call__(self, context: CommandContext) -> Awaitable[CommandReply] | CommandReply:
        return self.function(context)


def checked_command(command: object) -> FunctionCommand:
    """The command itself. Raises `TypeError` if it was not made by `nacre.command`."""
    if not isinstance(command, FunctionCommand):
        raise TypeError(f"{command!r} is not a chat command; make one of a function with @nacre.command")
    return command


async def _run(function: AuthorFunction, name: str, run: CommandRun) -> Outcome:
    current, origin, replies = CurrentSession(run), run.turn.session.route.origin, list[str]()
    context = CommandContext(
        name=name,
        text=run.rest,
        attachments=run.attachments,
        session=Session(run.turn.session.key, run.turn.session.session_id, current),
        channel=origin.channel,
        sender_id=origin.sender_id,
        policy=run.turn.session.policy,
        reply=replies.append,
    )
    try:
        if inspect.iscoroutinefunction(function):
            result: object = function(context)
        else:
            result = await on_its_own_thread(partial(function, context))
        returned = cast(CommandReply, await result if inspect.isawaitable(result) else result)
    except (AgentError, SessionError, OSError):
        raise
    except Exception as error:
        log.exception("the command /%s failed", name)
        raise TurnBroken(f"The command /{name} failed: {type(error).__name__}: {error}") from error
    text = "\n".join([*replies, returned or ""]).strip()
    turn = await current.present()
    return turn, command_reply(turn.session, text) if text else None


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
    """Makes a function that takes a `CommandContext` the chat command `/name`.

    The function's return value is the reply; `None` is silence. A plain function runs on its own thread. The
    session's lock is held, so no turn of the session runs at the same time. `help` is the command's line in
    `/help` and defaults to the first line of the docstring. `arguments` shows what follows the name, such as
    `[city]`.

    `who` is `owner`, or `anyone` whose messages reach the agent. `where` has the chats: the owner's `private`
    chat (the default), a `direct` chat with somebody else, a `group`. Everywhere else, and for everybody
    else, it is missing from `/help` and its text goes to the assistant.

    Raises:
        TypeError: `who` or `where` is invalid, or there is no help.
    """

    def make(function: AuthorFunction) -> FunctionCommand:
        line = help or (inspect.getdoc(function) or "").partition("\n")[0]
        if not line.strip():
            raise TypeError(f"The command {name!r} has no help. Add help='…' or a docstring.")
        if who not in get_args(CommandUser):
            raise TypeError(f"The command {name!r} has who={who!r}. Use one of {get_args(CommandUser)}.")
        if isinstance(where, str) or not where or not set(where) <= set(get_args(Audience)):
            raise TypeError(f"The command {name!r} has where={where!r}. Use {get_args(Audience)}.")
        return FunctionCommand(
            function=function,
            run=partial(_run, function, name),
            name=name,
            help=" ".join(line.split()),
            arguments=" ".join(arguments.split()),
            aliases=tuple(aliases),
            who=who,
            where=tuple(where),
        )

    return make
