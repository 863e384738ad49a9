"""`@prompt_part`: a typed function that returns a section of the system prompt, or nothing."""

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
        return self.function(chat)

    def is_for(self, policy: ChatPolicy) -> bool:
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
    """Makes a section of the system prompt from a function, as `@prompt_part` or `@prompt_part(...)`.

    The function receives the chat and returns Markdown, or nothing; it may be async. A stable part is
    called once per session and again after each compaction. In between, it stays byte for byte the same, so
    that the provider's prompt cache holds. A `changing` part is called in each turn and sent after the
    conversation. Parts appear in the order in which they were given. `chats` says whose model reads the
    part; the default is the owner's private chats.

    Raises:
        TypeError: the function does not take one chat, or `chats` has another name.
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
