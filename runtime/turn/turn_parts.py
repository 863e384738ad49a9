"""What every turn of an agent shares."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.history.history_keeper import HistoryKeeper
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.contracts.errors import ConfigError, OutputInvalid
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.contracts.model import ChatModel, ModelParameters
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.open_sessions.open_session import NoticeLog, OpenSession, SessionOpener
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.runtime.settings.settings import Settings
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.function import ToolChat, ToolSource
from nacre.runtime.tools.toolbox import CallScope
from nacre.runtime.turn.inbound_message import VoiceNotes
from nacre.runtime.turn.loop import TurnBounds, UsageLimits
from nacre.runtime.turn.output import Output, TypeForm, output_of
from nacre.runtime.turn.sub_agent import AuthorTool, SubAgent, chosen_names, listed_tools
from nacre.runtime.turn.system_prompt import PromptParts, SystemPrompts
from nacre.sessions.contracts.messages import Usage

log = logging.getLogger(__name__)


class CallOptions(TypedDict, total=False):
    """Options of the turn of one call.

    `limits` replaces the agent's limits, `parameters` those of the settings. `tools` restricts what the model
    may call: tools, toolsets, or names, in which `*` matches anything.
    """

    limits: UsageLimits | None
    parameters: ModelParameters | None
    tools: Sequence[object] | None


class MessageOptions(CallOptions, total=False):
    """Attachments of a message in a session, and the options of its turn."""

    attachments: tuple[Attachment, ...]


class AskOptions(MessageOptions, total=False):
    """The session and the attachments of a message to an agent, and the options of its turn.

    `session` defaults to the main session. A plain name is a private conversation of that name; a key such as
    `agent:main:project` has the audience that it names. `context` is `Inbound.context`.
    """

    session: str
    context: object


class TurnOptions(Record):
    """The options of the turn of one call. `output` is the type that the answer must have.

    Without `parameters` the settings apply, without `limits` the agent's limits. `tools` are patterns for the
    names of the tools that the model may call; `None` is all.
    """

    output: Output | None = None
    limits: UsageLimits | None = None
    parameters: ModelParameters | None = None
    tools: tuple[str, ...] | None = None

    def checked(self, reply: Reply[Any] | None) -> Reply[Any] | None:
        """Returns the reply.

        Raises:
            OutputInvalid: a value is required, but the assistant was silent or the reply answers a command.
        """
        if self.output is not None and (reply is None or reply.is_command):
            what = "Silence has" if reply is None else "The answer to a chat command has"
            raise OutputInvalid(f"{what} no value of the output_type. Leave it out for such a message.")
        return reply


def turn_options(
    output_type: TypeForm[Any] | None,
    *,
    limits: UsageLimits | None = None,
    parameters: ModelParameters | None = None,
    tools: Sequence[object] | None = None,
) -> TurnOptions:
    """The options of a call.

    Raises:
        ConfigError: the `output_type` has no schema, `tools` is not a list of tools and names, or another
            value has a wrong type.
    """
    for name, value, kind in (("limits", limits, UsageLimits), ("parameters", parameters, ModelParameters)):
        if not isinstance(value, kind | None):
            raise ConfigError(f"{name}={value!r} cannot be used. Write {name}={kind.__name__}(…).")
    try:
        listed = () if tools is None else listed_tools(tools)
        names = None if tools is None else tuple(name for each in listed for name in chosen_names(each))
    except TypeError as error:
        raise ConfigError(f"{error} List tools or names: tools=[depth, 'memory_*'].") from error
    output = None if output_type is None else output_of(output_type)
    return TurnOptions(output=output, limits=limits, parameters=parameters, tools=names)


class TurnParts(Record):
    """What every turn of an agent shares. The composition root builds it once.

    `models` are asked in order; a chat with a chosen model has a chain of its own. `summary_model` and
    `flush_model` replace these models for summaries and flushes, unless they are `None`. `offline` extracts
    notes and summaries where no model can be asked. `count_tokens` may load a table, so it is called on a
    thread, and only near the limits of a window; `estimate_tokens` is for the rest. `sources` records who
    said each line of the workspace, `review` holds the changes that wait for the owner, and `history` commits
    changed notes. `tools` are the bot author's, `tool_sources` provide others. `run_sub_agent` returns the
    final text of a sub-agent's task. `sub_agent` is set in its turns, `options` in those of a call with
    options.
    """

    agent_id: str
    settings: Settings
    models: ModelChain
    summary_model: ChatModel | None
    flush_model: ChatModel | None
    offline: ChatModel
    sessions: SessionOpener
    memory: MemorySlot
    workspace: Workspace
    sources: Sources
    review: ReviewQueue
    history: HistoryKeeper
    voice_notes: VoiceNotes
    tools: tuple[AuthorTool, ...]
    tool_sources: tuple[ToolSource, ...]
    run_sub_agent: RunsSubAgent
    approvals: Approvals
    prompt_parts: PromptParts
    prompts: SystemPrompts
    hooks: Hooks
    notice_log: NoticeLog
    now: Clock
    new_id: NewId
    count_tokens: Callable[[str], int]
    estimate_tokens: Callable[[str], int]
    sub_agent: SubAgent | None = None
    options: TurnOptions = TurnOptions()

    @property
    def model(self) -> ChatModel:
        """The model that the owner chose; a fallback may answer instead."""
        return self.models.first.model

    def on_notes(self, path: str) -> None:
        """Starts the commit and the indexing of a note that was written."""
        log.info("%s was written", path)
        self.history.notes_changed()
        self.memory.notes_changed()

    def chat(self, session: OpenSession) -> ToolChat:
        """The session's chat as tools, hooks and prompt parts see it."""
        return session.chat(self.workspace.place, self.sources)


class CallingTurn(Protocol):
    """The turn that calls a sub-agent."""

    session: OpenSession
    parts: TurnParts
    emit: Emit
    bounds: TurnBounds

    def spend(self, usage: Usage, /) -> None: ...


RunsSubAgent: TypeAlias = Callable[[CallingTurn, SubAgent, str, CallScope], Awaitable[str]]
