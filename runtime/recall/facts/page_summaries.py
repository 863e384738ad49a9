"""Asks a model for the summary of a page of the bank. What it says is checked by whoever asks."""

from __future__ import annotations

import asyncio
import logging
from pathlib import PurePosixPath

from nacre.prompts import quoted, render
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.models.failover import held_to_contract
from nacre.sessions.contracts.messages import AssistantMessage, message_text, user_message

SUMMARY_SECONDS = 60.0
"""How long one page waits for its words."""
SUMMARY_TOKENS = 2_000
"""Most of an answer; models that reason count that in."""
MOST_PAGE_CHARS = 24_000
"""A longer page keeps the words of the rules."""

log = logging.getLogger(__name__)


class PageSummaries:
    """`model` sums up one page after the other; `problems` says of which pages it could not."""

    def __init__(self, model: ChatModel, now: Clock) -> None:
        self._model = model
        self._now = now
        self.problems: list[str] = []

    async def __call__(self, path: str, page: str) -> str:
        """What the model says of a page; nothing when it fails or takes too long."""
        if len(page) > MOST_PAGE_CHARS:
            self.problems.append(f"{path} is too long to be summed up.")
            return ""
        asked = render("recall/page_summary", name=PurePosixPath(path).stem, text=quoted(page))
        request = ModelRequest(
            system=SystemPrompt(stable=render("recall/page_summary_system")),
            messages=(user_message(asked, timestamp_ms=epoch_ms(self._now())),),
            max_output_tokens=SUMMARY_TOKENS,
            purpose="page",
        )
        try:
            async with asyncio.timeout(SUMMARY_SECONDS):
                items = held_to_contract(self._model.stream(request), model_name=self._model.name)
                async for item in items:
                    if isinstance(item, AssistantMessage):
                        return message_text(item)
        except (ModelError, TimeoutError) as error:
            log.info("%s is not summed up: %s", path, error or "no answer in time")
            self.problems.append(f"{path} is not summed up: {error or 'the model did not answer in time'}")
        return ""
