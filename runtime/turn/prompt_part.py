"""`@prompt_part`: a typed function that gives a section of the system prompt, or nothing."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, get_args, overload

from nacre.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.function import ToolChat, ToolChats

PromptText: TypeAlias = "str | Awaitable[str | None] | None"
PromptFunction: TypeAlias = Callable[[ToolChat], PromptText]


class PromptPart(Record):
    """A section of the system prompt, made by `prompt_part`. `chats` are those whose model reads it."""

    function: PromptFunction
    name: str
    changing: bool
    chats: frozenset[ToolChats]

    def __call__(self, chat: ToolChat, /) -> PromptText:
        """What the function gives."""
        return self.function(chat)

    def is_for(self, policy: ChatPolicy) -> bool:
        """Whether it stands in the prompt of such a chat."""
        return policy.audience in self.chats


@overload
def prompt_part(function: PromptFunction, /) -> PromptPart: ...


@overload
def prompt_part(
    *, name: str = "", changing: bool = False, chats: Sequence[ToolChats] = ("private",)
) -> Callable[[PromptFunction], PromptPart]: ...


def prompt_part(
    function: PromptFunction | None = None,
    /,
    *,
    name: str = "",
    changing: bool = False,
    chats: Sequence[ToolChats] = ("private",),
) -> PromptPart | Callable[[PromptFunction], PromptPart]:
    """Makes a section of the system prompt of a function, as `@prompt_part` or `@prompt_part(...)`.

    The function gets the chat and returns Markdown, or nothing where it has nothing to say; async or plain.
    A stable part is asked once in a session, and again behind a compaction: between these it stays byte for
    byte the same, so that the provider's prompt cache holds. A `changing` one is asked each turn and sent
    behind the conversation. The parts stand in the order in which they were given. `chats` says whose
    model reads it: that of the owner's private chats unless told otherwise.

    Raises:
        TypeError: the function does not take one chat, or `chats` names something else.
    """

    def made(function: PromptFunction) -> PromptPart:
        called = name or getattr(function, "__name__", "") or type(function).__name__
        if isinstance(chats, str) or not set(chats) <= set(get_args(ToolChats)):
            raise TypeError(
                f"The prompt part {called!r} has chats={chats!r}: name some of {get_args(ToolChats)}."
            )
        try:
            inspect.signature(function).bind(object())
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The prompt part {called!r} must be a function of one argument, the chat: {error}."
            ) from error
        return PromptPart(function=function, name=called, changing=changing, chats=frozenset(chats))

    return made if function is None else made(function)
