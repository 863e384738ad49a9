"""Summaries of compactions kept as notes, where the owner wants them: a handler of `after_compaction`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.files.facts.fact_memory import MAX_NOTE_CHARS, FactMemory
from nacre.runtime.hooks.events import AfterCompaction
from nacre.runtime.settings.sections.channels import Binding
from nacre.runtime.settings.sections.memory import FactsSettings
from nacre.runtime.tools.function import ToolChat

log = logging.getLogger(__name__)


class SummaryNotes:
    """Keeps the summary of a compaction in the notes of the chat's identity."""

    def __init__(
        self,
        identity_of: Callable[[ToolChat], str],
        written_by: Callable[[ToolChat], FactMemory],
        settings: FactsSettings,
        bindings: Sequence[Binding],
    ) -> None:
        self._identity_of = identity_of
        self._written_by = written_by
        self._settings = settings
        self._bindings = tuple(bindings)

    async def __call__(self, event: AfterCompaction) -> None:
        """A summary that cannot be kept is told to the log: the transcript has it all the same."""
        chat = event.chat
        if not event.summary.strip() or chat.policy.access != "rw":
            return
        if not keeps_summaries(chat, self._settings, self._bindings):
            return
        source = f"compaction of session {chat.session_id}"
        try:
            whose = self._identity_of(chat)
            await self._written_by(chat).note(whose, event.summary[:MAX_NOTE_CHARS], source=source)
        except (MemoryIndexError, FileBusy, OSError) as error:
            log.warning("the summary of %s could not be kept as a note: %s", chat.session_key, error)


def keeps_summaries(chat: ToolChat, settings: FactsSettings, bindings: Sequence[Binding]) -> bool:
    """Whether summaries of a chat are kept: its most specific binding that says so, else the setting."""
    origin = chat.origin
    ranked = [(binding.match.rank(origin), binding.compaction_summaries) for binding in bindings if origin]
    said = [each for each in ranked if each[0] and each[1] is not None]
    if said:
        return max(said, key=lambda each: each[0])[1] is True
    if settings.compaction_summaries == "private":
        return chat.policy.is_private
    return settings.compaction_summaries == "on"
