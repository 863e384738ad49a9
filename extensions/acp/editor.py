"""The assistant as an agent of the Agent Client Protocol (https://agentclientprotocol.com), version 1.

A session of an editor is a private conversation of the owner, `editor-<id>`, which `session/load` opens
again, also in another program. The editor's folder and MCP servers are not used, because only the owner's
settings decide what the assistant may read and run.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Iterable
from contextlib import aclosing, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlparse

from acp import PROTOCOL_VERSION, run_agent
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.exceptions import RequestError
from acp.helpers import (
    ContentBlock,
    SessionUpdate,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_tool_call,
    update_user_message_text,
)
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    AvailableCommand,
    AvailableCommandInput,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
    ToolCallStatus,
    ToolCallUpdate,
    UnstructuredCommandInput,
)
from acp.stdio import stdio_streams

from nacre import __version__
from nacre.closing import stop_tasks
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.contracts.errors import AgentError, ApprovalNotFound, TurnCancelled
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    ReplyReady,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnFailed,
    Warned,
)
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.sessions.contracts.errors import SessionError, SessionNotFound

if TYPE_CHECKING:
    import acp

CHANNEL = "editor"
SHOWN_CHARS = 8_000
"""How much of a tool's result is sent to an editor."""
INTERNAL_ERROR = -32603
_INVALID_REQUEST = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A line must hold one JSON object."}}\n'
)
_SESSION = re.compile(r"editor-[A-Za-z0-9-]{1,64}")
_KINDS = {"read": "read", "memory_get": "read", "memory_search": "search", "write": "edit", "edit": "edit"}
_OPTIONS = (
    PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
    PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
)


async def serve_editor(agent: Agent) -> None:
    """Speaks with the editor over standard input and output until it hangs up."""
    written, output = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    requests = asyncio.StreamReader(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    reading = asyncio.create_task(_pass_objects(written, requests, output))
    # Methods of the protocol that are not here are answered with "method not found".
    await run_agent(cast("acp.Agent", EditorAgent(agent)), output, requests)
    await reading


async def _pass_objects(
    written: asyncio.StreamReader, requests: asyncio.StreamReader, output: asyncio.StreamWriter
) -> None:
    """Passes lines on, and rejects those that are not JSON objects, which would stop the library."""
    try:
        while line := await written.readline():
            message = None
            with suppress(ValueError, RecursionError):
                message = json.loads(line)
            if isinstance(message, dict):
                requests.feed_data(line)
            elif line.strip():
                output.write(_INVALID_REQUEST)
    finally:
        requests.feed_eof()


class EditorAgent:
    """The protocol's agent. The library calls its methods with the parameters of each request."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._client: Client | None = None
        self._telling: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_more: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="nacre", title="Nacre", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
            ),
        )

    async def authenticate(self, method_id: str, **_more: Any) -> None:
        raise RequestError.invalid_params({"method": method_id})

    async def new_session(self, cwd: str, **_more: Any) -> NewSessionResponse:  # noqa: ARG002 - see the module
        session_id = f"editor-{random_id()}"
        self._tell_commands(session_id)
        return NewSessionResponse(session_id=session_id)

    async def load_session(
        self,
        cwd: str,  # noqa: ARG002 - see the module
        session_id: str,
        **_more: Any,
    ) -> LoadSessionResponse:
        try:
            session = await self._agent.sessions.get(_checked(session_id))
            history = await session.history()
        except SessionNotFound as error:
            raise RequestError.resource_not_found(session_id) from error
        except (AgentError, SessionError) as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error
        for message in history:
            is_persons = message.speaker == "person"
            show = update_user_message_text if is_persons else update_agent_message_text
            await self._show(session_id, show(message.text))
        self._tell_commands(session_id)
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_more: Any) -> PromptResponse:
        text, attachments = _message(prompt)
        inbound = _inbound(session_id, text, attachments)
        asking: set[asyncio.Task[None]] = set()
        has_streamed, ending = False, None
        try:
            async with aclosing(self._agent.stream(inbound)) as events:
                async for event in events:
                    ending = event
                    has_streamed = has_streamed or isinstance(event, TextStreamed)
                    if isinstance(event, ApprovalAsked):
                        asking.add(asyncio.create_task(self._ask(session_id, event)))
                    for update in _updates(event, has_streamed=has_streamed):
                        await self._show(session_id, update)
        finally:
            await stop_tasks(*asking)
        if isinstance(ending, TurnFailed) and not isinstance(ending.error, TurnCancelled):
            raise RequestError(INTERNAL_ERROR, str(ending.error))
        return PromptResponse(stop_reason="cancelled" if isinstance(ending, TurnFailed) else "end_turn")

    async def cancel(self, session_id: str, **_more: Any) -> None:
        self._agent.stop(_checked(session_id))

    def _tell_commands(self, session_id: str) -> None:
        """Sends the slash commands after the response to the current request.

        Until that response the editor does not know the session, and drops updates of it.
        """
        commands = update_available_commands(
            AvailableCommand(
                name=command.called_by[0].removeprefix("/"),
                description=command.help,
                input=AvailableCommandInput(root=UnstructuredCommandInput(hint=command.arguments))
                if command.arguments
                else None,
            )
            for command in self._agent.commands(_inbound(session_id))
            if command.called_by[0].startswith("/")
        )
        telling = asyncio.create_task(self._show(session_id, commands))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _ask(self, session_id: str, asked: ApprovalAsked) -> None:
        """Asks the editor's user about a tool call. Any answer other than consent denies it."""
        assert self._client is not None
        call = ToolCallUpdate(
            tool_call_id=asked.call_id,
            title=f"{asked.tool_name}: {asked.why}",
            status="pending",
            raw_input=dict(asked.arguments),
        )
        answer = await self._client.request_permission(
            session_id=session_id, tool_call=call, options=list(_OPTIONS)
        )
        outcome = answer.outcome
        try:
            if isinstance(outcome, AllowedOutcome) and outcome.option_id == "allow":
                await self._agent.approvals.approve(asked.approval_id)
            else:
                await self._agent.approvals.deny(asked.approval_id)
        except ApprovalNotFound:
            pass  # it was answered elsewhere, or the turn was stopped

    async def _show(self, session_id: str, update: SessionUpdate) -> None:
        assert self._client is not None
        await self._client.session_update(session_id=session_id, update=update)


def _inbound(session_id: str, text: str = "", attachments: tuple[Attachment, ...] = ()) -> Inbound:
    return Inbound(
        text=text,
        chat_kind="direct",
        channel=CHANNEL,
        is_owner=True,
        session_key=_checked(session_id),
        attachments=attachments,
    )


def _checked(session_id: str) -> str:
    """The id, which is also the name of a private conversation. An editor reaches no other sessions."""
    if not _SESSION.fullmatch(session_id):
        raise RequestError.resource_not_found(session_id)
    return session_id


def _updates(event: Event, *, has_streamed: bool) -> Iterable[SessionUpdate]:
    """The updates that show an event in an editor. Text that was not streamed comes with the reply."""
    match event:
        case TextStreamed(text=text):
            yield update_agent_message_text(text)
        case AnswerDiscarded():
            yield update_agent_message_text("\n\n[The answer was interrupted here and starts again.]\n\n")
        case ToolStarted():
            yield start_tool_call(
                event.call_id,
                event.tool_name,
                kind=_KINDS.get(event.tool_name, "other"),
                status="in_progress",
                raw_input=dict(event.arguments),
            )
        case ToolProgressed():
            yield update_tool_call(event.call_id, content=[tool_content(text_block(event.text))])
        case ToolEnded():
            shown = event.result[:SHOWN_CHARS]
            status: ToolCallStatus = "failed" if event.is_error else "completed"
            yield update_tool_call(event.call_id, status=status, content=[tool_content(text_block(shown))])
        case Warned(message=message):
            yield update_agent_thought_text(f"{message}\n")
        case ReplyReady(reply=reply):
            if not has_streamed:
                yield update_agent_message_text(reply.text)
            if reply.notice:
                yield update_agent_message_text(f"\n\n({reply.notice})")
        case _:
            pass


def _message(prompt: Iterable[ContentBlock]) -> tuple[str, tuple[Attachment, ...]]:
    """The words of a prompt, and the files and images in it."""
    texts: list[str] = []
    files: list[Attachment] = []
    for block in prompt:
        match block:
            case TextContentBlock():
                texts.append(block.text)
            case ResourceContentBlock():
                texts.append(f"[{block.name}]({block.uri})")
            case ImageContentBlock():
                files.append(Attachment(name="image", mime_type=block.mime_type, data=b64decode(block.data)))
            case EmbeddedResourceContentBlock():
                inside = block.resource
                name = PurePosixPath(unquote(urlparse(inside.uri).path)).name or "file"
                if isinstance(inside, TextResourceContents):
                    data, kind = inside.text.encode(), "text/plain"
                else:
                    data, kind = b64decode(inside.blob), "application/octet-stream"
                files.append(Attachment(name=name, mime_type=inside.mime_type or kind, data=data))
                texts.append(f"[{name}]")
            case _:
                raise RequestError.invalid_params({"type": getattr(block, "type", "unknown")})
    return "\n".join(texts), tuple(files)
