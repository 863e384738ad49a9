"""The contract of a model: what the runtime asks of any model, and what it gets back.

The contract of `ChatModel.stream`, which the litellm edge, the offline responder and the scripted
test double all keep (`tests/runtime/models/contract/model_contract.py` checks each of them):

- It yields zero or more `TextDelta` and then exactly one `AssistantMessage`, which is the last item.
  The deltas joined are the text blocks of that message joined.
- It may yield `ModelAlive` anywhere before that message: for a sign of life that is no text. A model that
  yields none while it thinks is taken for one that sends nothing.
- The message carries every tool call, complete, with ids that are unique within the message and
  never empty. Arguments that were not a JSON object stand in `ToolCall.invalid_arguments`.
- `stop_reason` is `toolUse` when there are calls, `length` when the output limit cut the answer,
  `stop` otherwise. `error` and `aborted` are written by the runtime, not by a model.
- `usage` is what the provider counted, or `None`; nobody guesses here.
- It raises only `ModelError` and its kinds. After an exception nothing more is yielded.
- Closing the iterator or cancelling the task ends the request at once; no work goes on behind it.
- It keeps no state between calls: what it must know is in the request.
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
        """What a request carries for it, as whoever counts tokens reads it."""
        return f"{self.name}, {self.description}", json.dumps(dict(self.parameters))


class ModelParameters(Record):
    """How a turn's model is asked; empty values leave it to the provider, which may refuse one.

    `temperature` is mostly between 0 and 2, `reasoning_effort` a word such as `low`. `tool_choice` is `auto`,
    `none`, `required` or the name of a tool, and holds until the turn's first tool call.
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
    """The JSON schema, of type object, that a whole answer has to fit."""

    name: str
    schema: Mapping[str, Any]


class SystemPrompt(Record):
    """The system prompt, in parts so that a provider's prompt cache holds.

    `stable` and `changing` precede the conversation. They stay byte for byte the same in a session until a
    compaction; chats of one kind share `stable`, and `changing` names day, chat and model. `tail` applies
    to this request only. It follows the conversation, so that it displaces nothing that was cached.
    """

    stable: str
    changing: str = ""
    tail: str = ""

    def front(self) -> str:
        """What precedes the conversation as one text, stable part first."""
        return "\n\n".join(part for part in (self.stable, self.changing) if part)

    def joined(self) -> str:
        return "\n\n".join(part for part in (self.stable, self.changing, self.tail) if part)


class ModelRequest(Record):
    """One model call.

    `purpose` says why it is made: a turn, a flush, a summary for a compaction, a name for an ended
    conversation, a page of the bank, tidying of notes, or a turn that nobody asked for. Models may ignore
    it. `max_output_tokens` bounds the answer; `None` leaves it to the model. `output` is set only for models
    whose `takes_output_schema` is true: an answer without calls is JSON that fits it. `parameters` are those
    of a turn.
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
    """A sign of life without text: the answer began, the model is reasoning, or it is still there.

    `is_reading` means that the server still reads the prompt: `read_tokens` of `prompt_tokens`, or 0 of 0
    if it does not say.
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
        """`provider/model`, as status and transcripts show it."""

    @property
    def context_window_tokens(self) -> int | None:
        """The window in tokens, or `None` if the model does not know it."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answers one request; see the module's docstring."""

    async def aclose(self) -> None:
        """Releases connections; further calls are an error."""


def takes_images(model: ChatModel) -> bool:
    """Whether images are shown to a model, unless its own `takes_images` is false."""
    # each turn asks, and `isinstance` with a protocol costs some eighty calls
    return getattr(model, "takes_images", None) is not False


def takes_output_schema(model: ChatModel) -> bool:
    """Whether a model obeys `ModelRequest.output`, also beside tools: its `takes_output_schema` says so."""
    return getattr(model, "takes_output_schema", False) is True


async def learn_window(model: ChatModel) -> None:
    """Lets a model ask its server for the size of the window, if it can. Never raises."""
    learn = getattr(model, "learn_window", None)
    if learn is not None:
        await learn()


def load_ahead(model: ChatModel) -> None:
    """Begins to load what the first request of a model needs, if the model can, while a person types."""
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
    """What every request carries besides the transcript, system prompt and tool schemas, in pieces.

    Most pieces are those of another chat, and whoever counts tokens remembers what was counted.
    """
    texts = system.joined().splitlines(keepends=True)
    for tool in tools:
        texts += tool.texts
    return texts


def overhead_tokens(
    system: SystemPrompt, tools: Sequence[ToolSpec], count_tokens: Callable[[str], int]
) -> int:
    """Tokens of every request besides the transcript: system prompt and tool schemas."""
    return sum(map(count_tokens, overhead_texts(system, tools)))
