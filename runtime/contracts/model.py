"""The contract of a model: the requests of the runtime, and the answers.

The contract of `ChatModel.stream`, which the litellm edge, the offline responder and the scripted
test double all keep (`tests/runtime/models/contract/model_contract.py` checks each of them):

- It yields zero or more `TextDelta` and then exactly one `AssistantMessage`, which is the last item.
  The joined deltas equal the joined text blocks of that message.
- It may yield `ModelAlive` anywhere before that message, as a sign of life without text. A model that
  yields none while it thinks seems to send nothing.
- The message has every tool call, complete, with ids that are unique within the message and not empty.
  Arguments that were not a JSON object are in `ToolCall.invalid_arguments`.
- `stop_reason` is `toolUse` if there are calls, `length` if the output limit cut the answer, and `stop`
  otherwise. The runtime alone uses `error` and `aborted`.
- `usage` is the provider's count, or `None`; it is never estimated.
- It raises only `ModelError` and its subclasses. After an exception it yields nothing.
- Closing the iterator or canceling the task ends the request at once, with no work in the background.
- It keeps no state between calls: the request has everything.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from nacre.record import Record
from nacre.sessions.contracts.messages import AssistantMessage, Message

Purpose: TypeAlias = Literal["turn", "flush", "compaction", "slug", "page", "tidy", "background"]


class ToolSpec(Record):
    """A tool as the model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @cached_property
    def texts(self) -> tuple[str, str]:
        """Its texts in a request, for counting tokens."""
        return f"{self.name}, {self.description}", json.dumps(dict(self.parameters))


class ModelParameters(Record):
    """Parameters of a turn's model calls. Empty values mean the provider's default; it may refuse a value.

    `temperature` is usually between 0 and 2, `reasoning_effort` a word such as `low`. `tool_choice` is
    `auto`, `none`, `required` or the name of a tool, and applies until the turn's first tool call.
    """

    temperature: float | None = None
    reasoning_effort: str = ""
    tool_choice: str = ""

    def fields(self) -> dict[str, Any]:
        """The fields of a request in OpenAI's format."""
        choice: Any = self.tool_choice
        if choice and choice not in ("auto", "none", "required"):
            choice = {"type": "function", "function": {"name": choice}}
        given = {"reasoning_effort": self.reasoning_effort, "tool_choice": choice}
        temperature = {} if self.temperature is None else {"temperature": self.temperature}
        return temperature | {name: value for name, value in given.items() if value}


class OutputSchema(Record):
    """The JSON schema, of type object, for a whole answer."""

    name: str
    schema: Mapping[str, Any]


class SystemPrompt(Record):
    """The system prompt, in parts for the provider's prompt cache.

    `stable` and `changing` precede the conversation. They stay byte for byte the same in a session until a
    compaction; chats of one kind share `stable`, and `changing` names day, chat and model. `tail` applies to
    this request only and follows the conversation, so that the cache stays valid.
    """

    stable: str
    changing: str = ""
    tail: str = ""

    def front(self) -> str:
        """The part before the conversation as one text."""
        return "\n\n".join(part for part in (self.stable, self.changing) if part)

    def joined(self) -> str:
        return "\n\n".join(part for part in (self.stable, self.changing, self.tail) if part)


class ModelRequest(Record):
    """One model call.

    `purpose` is a turn, a flush, a summary for a compaction, a name for an ended conversation, a page of the
    bank, tidying of notes, or a turn that no person started. Models may ignore it. `max_output_tokens` limits
    the answer; `None` means the model's limit. `output` is set only for models whose `takes_output_schema` is
    true: an answer without calls is then JSON of that schema. `parameters` are the parameters of a turn.
    """

    system: SystemPrompt
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    purpose: Purpose = "turn"
    output: OutputSchema | None = None
    parameters: ModelParameters = ModelParameters()


class TextDelta(Record):
    text: str


class ModelAlive(Record):
    """A sign of life without text: the answer began, the model is reasoning, or the connection is alive.

    `is_reading` means that the server still reads the prompt: `read_tokens` of `prompt_tokens`, or 0 of 0 if
    unknown.
    """

    is_reading: bool = False
    read_tokens: int = 0
    prompt_tokens: int = 0


StreamItem: TypeAlias = TextDelta | ModelAlive | AssistantMessage


@runtime_checkable
class ChatModel(Protocol):
    """A model that can hold a conversation. The module's docstring has the contract."""

    @property
    def name(self) -> str:
        """`provider/model`, as in status and transcripts."""

    @property
    def context_window_tokens(self) -> int | None:
        """The window in tokens, or `None` if the model does not know it."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answers one request; see the module's docstring."""

    async def aclose(self) -> None:
        """Releases connections; further calls are an error."""


def takes_images(model: ChatModel) -> bool:
    """Whether images are shown to a model, unless its own `takes_images` is false."""
    # `isinstance` with a protocol costs some eighty calls in each turn.
    return getattr(model, "takes_images", None) is not False


def takes_output_schema(model: ChatModel) -> bool:
    """Whether a model obeys `ModelRequest.output`, even with tools: its `takes_output_schema` is true."""
    return getattr(model, "takes_output_schema", False) is True


async def learn_window(model: ChatModel) -> None:
    """Lets a model ask its server for the size of the window, if it can. Never raises."""
    learn = getattr(model, "learn_window", None)
    if learn is not None:
        await learn()


def load_ahead(model: ChatModel) -> None:
    """Lets a model load what its first request needs while a person types, if it can."""
    load = getattr(model, "load_ahead", None)
    if load is not None:
        load()


class AnswerRestarted(Record):
    """The text of this answer so far is void: the model failed, and the answer starts again."""

    problem: str


Answering: TypeAlias = StreamItem | AnswerRestarted
"""The items of an answer, which may restart."""

Ask: TypeAlias = Callable[[ModelRequest], AsyncIterator[Answering]]


def overhead_texts(system: SystemPrompt, tools: Sequence[ToolSpec]) -> list[str]:
    """The system prompt and the tool schemas of a request in pieces.

    Chats share most pieces, whose token counts are cached.
    """
    texts = system.joined().splitlines(keepends=True)
    for tool in tools:
        texts += tool.texts
    return texts


def overhead_tokens(
    system: SystemPrompt, tools: Sequence[ToolSpec], count_tokens: Callable[[str], int]
) -> int:
    """Tokens of the system prompt and the tool schemas."""
    return sum(map(count_tokens, overhead_texts(system, tools)))
