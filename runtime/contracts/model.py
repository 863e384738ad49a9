"""The model door: what the runtime asks of any model, and what it gets back.

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
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from nacre.record import Record
from nacre.sessions.contracts.messages import AssistantMessage, Message

Purpose: TypeAlias = Literal["turn", "flush", "compaction", "slug", "page", "tidy", "background"]


class ToolSpec(Record):
    """A tool as the model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class SystemPrompt(Record):
    """The system prompt, in parts so that a provider's prompt cache holds.

    `stable` and `changing` stand in front of the conversation. They stay byte for byte the same in a session
    until a compaction; chats of one kind share `stable`, and `changing` names day, chat and model. `tail` is
    what holds for this request alone. It is sent behind the conversation, so that it takes the place of
    nothing that was cached.
    """

    stable: str
    changing: str = ""
    tail: str = ""

    def front(self) -> str:
        """What stands in front of the conversation as one text, stable part first."""
        return "\n\n".join(part for part in (self.stable, self.changing) if part)

    def joined(self) -> str:
        """All parts as one text."""
        return "\n\n".join(part for part in (self.stable, self.changing, self.tail) if part)


class ModelRequest(Record):
    """One model call.

    `purpose` says why it is made: a turn of the conversation, a silent flush, a summary for a
    compaction, a name for a conversation that is over, a summary of a page of the bank, what to tidy in the
    notes, or a turn that nobody asked for. Real models may ignore it: the messages say everything.
    `max_output_tokens` bounds the answer; `None` leaves it to the model.
    """

    system: SystemPrompt
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    purpose: Purpose = "turn"


class TextDelta(Record):
    """The next few characters of the answer."""

    text: str


class ModelAlive(Record):
    """Something came of the model that is no text: its answer began, it thinks, or it is still there.

    `is_reading` says that the server still reads the prompt. `read_tokens` of `prompt_tokens` are read, where
    the server tells; 0 of 0 where it does not.
    """

    is_reading: bool = False
    read_tokens: int = 0
    prompt_tokens: int = 0


StreamItem: TypeAlias = TextDelta | ModelAlive | AssistantMessage
"""What a model yields."""


@runtime_checkable
class ChatModel(Protocol):
    """Any model that can hold a conversation. See the module's docstring for the contract."""

    @property
    def name(self) -> str:
        """`provider/model`, as status and transcripts show it."""

    @property
    def context_window_tokens(self) -> int | None:
        """The window in tokens, or `None` when the model does not know its own."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answers one request; see the module's docstring."""

    async def aclose(self) -> None:
        """Releases connections; further calls are an error."""


def takes_images(model: ChatModel) -> bool:
    """Whether images are shown to a model: not to one whose own `takes_images` says that it takes none."""
    # each turn asks, and `isinstance` with a protocol costs some eighty calls
    return getattr(model, "takes_images", None) is not False


async def learn_window(model: ChatModel) -> None:
    """Has a model that can ask its server how large the window is.

    Never raises: a server that does not answer leaves the window as it was.
    """
    learn = getattr(model, "learn_window", None)
    if learn is not None:
        await learn()


def load_ahead(model: ChatModel) -> None:
    """Begins to load what the first request of a model needs, if the model can, while a person types."""
    load = getattr(model, "load_ahead", None)
    if load is not None:
        load()


class AnswerRestarted(Record):
    """The text of this answer so far is void: the model failed, and the answer comes anew."""

    problem: str


Answering: TypeAlias = StreamItem | AnswerRestarted
"""What comes of asking: a model's answer, which may begin again."""

Ask: TypeAlias = Callable[[ModelRequest], AsyncIterator[Answering]]


def overhead_tokens(
    system: SystemPrompt, tools: Sequence[ToolSpec], count_tokens: Callable[[str], int]
) -> int:
    """Tokens that every request carries besides the transcript: system prompt and tool schemas."""
    schemas = json.dumps([[tool.name, tool.description, dict(tool.parameters)] for tool in tools])
    return count_tokens(system.joined()) + count_tokens(schemas)
