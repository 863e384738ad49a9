"""The sections that prompt parts give for one turn: stable ones kept, changing ones asked anew.

A part that fails, or takes too long, is left out of this turn; the owner is told once in a session.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from nacre.prompts import render
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.own_thread import on_its_own_thread
from nacre.runtime.turn.prompt_parts.prompt_part import PromptFunction, PromptPart

log = logging.getLogger(__name__)

PART_SECONDS = 5.0
"""How long a part may take, before the model is asked without it."""
PART_CHARS = 40_000
"""Most of one part that enters the prompt."""
KEPT_SESSIONS = 1_000
"""For so many sessions the stable sections are kept; one that comes back later is asked anew."""

_Kept: TypeAlias = dict[PromptPart, str]


class PromptParts:
    """The parts of an agent, and what they gave for the sessions that were open lately."""

    def __init__(self, parts: Sequence[PromptPart]) -> None:
        self._parts = tuple(parts)
        self._kept: OrderedDict[tuple[str, int, ChatPolicy], _Kept] = OrderedDict()

    async def stable(
        self, chat: ToolChat, *, cycle: int, tell: Callable[[Sequence[str]], None]
    ) -> tuple[str, ...]:
        """The sections of the cached part.

        `cycle` counts the session's compactions: each one breaks the cache, so that a new text costs nothing.
        """
        key = (chat.session_id, cycle, chat.policy)
        kept = self._kept.setdefault(key, {})
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_SESSIONS:
            self._kept.popitem(last=False)
        for part in self._of(chat, changing=False):
            if part not in kept:
                text = await _asked(part, chat, tell)
                if text is not None:
                    kept[part] = text
        return tuple(kept[part] for part in self._of(chat, changing=False) if kept.get(part))

    async def changing(self, chat: ToolChat, *, tell: Callable[[Sequence[str]], None]) -> tuple[str, ...]:
        """The sections behind the conversation, as they are in this turn."""
        asked = [await _asked(part, chat, tell) for part in self._of(chat, changing=True)]
        return tuple(text for text in asked if text)

    def _of(self, chat: ToolChat, *, changing: bool) -> list[PromptPart]:
        return [part for part in self._parts if part.changing is changing and part.is_for(chat.policy)]


def instructions_part(text: str) -> PromptPart:
    """The words of the program that runs the agent, as a stable part of every chat."""
    section = render("system/instructions", text=text.strip()) if text.strip() else ""
    return PromptPart(
        function=lambda _chat: section,
        name="instructions",
        changing=False,
        chats=frozenset({"private", "direct", "group"}),
    )


async def _asked(part: PromptPart, chat: ToolChat, tell: Callable[[Sequence[str]], None]) -> str | None:
    """What a part says now; `None` when it failed."""
    try:
        async with asyncio.timeout(PART_SECONDS):
            text = await _given(part.function, chat)
    except Exception as error:
        log.exception("the prompt part %s failed", part.name)
        problem = (
            "it took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        )
        tell((f"The prompt part {part.name!r} was left out: {problem}.",))
        return None
    if text is None or isinstance(text, str):
        return _fitting(part, (text or "").strip())
    log.error("the prompt part %s gave %s", part.name, type(text).__name__)
    tell((f"The prompt part {part.name!r} was left out: it gave {type(text).__name__}, not text.",))
    return None


async def _given(function: PromptFunction, chat: ToolChat) -> object:
    """What the function returns; a plain one works on a thread, because it may read a slow file."""
    call: Callable[[], Any] = partial(function, chat)
    result = call() if inspect.iscoroutinefunction(function) else await on_its_own_thread(call)
    return await result if inspect.isawaitable(result) else result


def _fitting(part: PromptPart, text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= PART_CHARS:
        return text
    log.warning("the prompt part %s gave %d characters and was cut", part.name, len(text))
    return f"{text[:PART_CHARS]}\n[…]"
