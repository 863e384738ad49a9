"""From settings to the facts and notes of an agent, and to what the model can do with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.files.facts.fact_memory import FactMemory
from nacre.memory.files.facts.lines import said_in
from nacre.memory.files.facts.records import FACT_PAGES
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SecretsMode, SourceOf, Sources
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.hooks.hooks import Handler
from nacre.runtime.providers.provider import Lend
from nacre.runtime.recall.facts.fact_tools import FactTools
from nacre.runtime.recall.facts.identity import identities_of, identity_of
from nacre.runtime.recall.facts.summaries import SummaryNotes
from nacre.runtime.recall.open_memory import embedder_of
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.tools.function import FunctionTool, ToolChat

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.engine import MemoryEngine


BY_CODE = Source(written_by="code", audience=PRIVATE)
"""Of what a program sets by `Agent.memory`: whose words it passes on, nobody knows."""
BY_OWNER = Source(written_by="hand", audience=PRIVATE, said_by=("owner",))
"""Of what the owner sets in a terminal."""


class FactParts(Record):
    """What joins an agent where `memory.facts.enabled` is set."""

    tools: tuple[FunctionTool[..., Any], ...] = ()
    hooks: tuple[tuple[str, Handler[Any, Any]], ...] = ()


def open_facts(
    config: Config,
    now: Clock,
    *,
    lent: Lend | None = None,
    on_changed: Callable[[str], None] = lambda _page: None,
    source: Source = BY_CODE,
) -> FactMemory:
    """The facts and notes of an agent; opens nothing until notes are wanted.

    `on_changed` hears which page was written. `source` is kept of every line that is written by way of it.

    Raises:
        ConfigError: the settings ask for an embedder that there cannot be.
    """
    embedder = embedder_of(config, now, lent=lent)
    workspace = storage_of(config).workspace()

    async def open_index() -> MemoryEngine:
        # an agent opens faster without it, and most turns recall no note
        from nacre.memory.engine import MemoryEngine
        from nacre.memory.files.facts.note_index import notes_of_page
        from nacre.memory.files.note_files import NoteFiles
        from nacre.memory.sync.file_sync import Corpus

        notes = NoteFiles(workspace, always=FACT_PAGES)
        return await MemoryEngine.open(
            workspace=workspace,
            index_path=config.folders.facts_index_file,
            settings=config.settings.agent.memory_search,
            embedder=embedder,
            owns_embedder=lent is None,
            now=now,
            corpus=lambda sizes: Corpus(notes=notes, sizes=sizes, cut=notes_of_page),
        )

    facts = FactMemory(
        workspace,
        open_index,
        identities=identities_of(config.settings.memory.facts),
        now=now,
        on_changed=on_changed,
    )
    return _sourced(facts, workspace, now, source, config.settings.memory.secrets)


def fact_parts(facts: FactMemory, config: Config, now: Clock) -> FactParts:
    """The tools and hooks of facts, if the settings switch them on."""
    settings = config.settings
    if not settings.memory.facts.enabled:
        return FactParts()
    of_chat = partial(identity_of, identities=facts.identities, linked=tuple(settings.session.identity_links))
    # an engine of another kind may have a tool of this name, as `memory-lancedb` does
    is_free = settings.plugins.slots.memory in (MEMORY_CORE, NO_MEMORY)
    workspace = storage_of(config).workspace()
    written_by = partial(_written_in, facts, workspace, now, settings.memory.secrets)
    tools = FactTools(
        facts,
        of_chat,
        written_by,
        partial(_others_lines, workspace),
        recall_name="memory_recall" if is_free else "memory_recall_facts",
    )
    summaries = SummaryNotes(
        of_chat, partial(written_by, is_approved=False), settings.memory.facts, settings.bindings
    )
    return FactParts(tools=tools.all, hooks=(("after_compaction", summaries),))


def _written_in(
    facts: FactMemory,
    workspace: Workspace,
    now: Clock,
    secrets: SecretsMode,
    chat: ToolChat,
    is_approved: bool,
) -> FactMemory:
    """The facts as a chat writes them: each line with who was heard, or said it, and in which entry."""
    if chat.sources is not None:
        return facts.through(
            chat.sources.workspace(workspace, "tool", words_of=said_in, is_approved=is_approved)
        )

    source = Source(
        written_by="tool",
        audience=PRIVATE if chat.policy.is_private else chat.policy.notes_folder or PRIVATE,
        session_key=chat.session_key,
        session_id=chat.session_id,
    )
    return _sourced(facts, workspace, now, source, secrets)


def _sourced(
    facts: FactMemory, workspace: Workspace, now: Clock, source: Source, secrets: SecretsMode
) -> FactMemory:
    """The facts, each line that is set from now on with this source and its time."""

    async def begin() -> SourceOf:
        dated = replace(source, at=now().isoformat(timespec="seconds"))
        return lambda _line: dated

    return facts.through(SourcedWorkspace(workspace, Sources(workspace, secrets=secrets), begin))


async def _others_lines(workspace: Workspace, page: str) -> tuple[str, ...]:
    """The lines of a page of facts that are not known as the owner's word."""
    try:
        found = await workspace.read(page, max_bytes=MAX_NOTE_BYTES)
    except FileNotFoundError:
        return ()
    lines = found.data.decode("utf-8", "replace").splitlines()
    sources = await Sources(workspace).of_lines(page, lines)
    return tuple(
        line
        for line, source in zip(lines, sources, strict=True)
        if source is not None and not source.is_owners_word
    )
