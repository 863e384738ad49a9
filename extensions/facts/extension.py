"""The extension `facts`: what is behind `agent.memory`, and the tools of `memory.facts.enabled`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nacre.extensions.facts.fact_pages import FactPages
from nacre.extensions.facts.identities import FACT_PAGES, identities_of, identity_of
from nacre.extensions.facts.note_index import notes_of_page
from nacre.extensions.facts.page import said_in
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SecretsMode, SourceOf, Sources
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.extensions.host import ExtensionHost, OpeningAgent
from nacre.runtime.providers.provider import Lend
from nacre.runtime.recall.open_memory import embedder_of
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.tools.function import ToolChat

if TYPE_CHECKING:
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.engine import MemoryEngine


BY_CODE = Source(written_by="code", audience=PRIVATE)
"""The source of lines that a program sets through `Agent.memory`."""
BY_OWNER = Source(written_by="hand", audience=PRIVATE, said_by=("owner",))
"""The source of lines that the owner sets in a terminal."""


def register(host: ExtensionHost) -> None:
    """Adds the facts of each agent that opens."""
    host.on_open(partial(_add_facts, host))


def _add_facts(host: ExtensionHost, opening: OpeningAgent) -> None:
    config, now = opening.config, opening.now
    facts = open_facts(config, now, lent=opening.embedder, on_changed=opening.on_note)
    opening.closing.push_async_callback(facts.close)
    host.fact_memory(facts)
    settings = config.settings
    if not settings.memory.facts.enabled:
        return
    from nacre.extensions.facts.tools import FactTools, SummaryNotes

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
    for tool in tools.all:
        host.tool(tool)
    summaries = SummaryNotes(
        of_chat, partial(written_by, is_approved=False), settings.memory.facts, settings.bindings
    )
    host.hook("after_compaction", summaries)


def open_facts(
    config: Config,
    now: Clock,
    *,
    lent: Lend | None = None,
    on_changed: Callable[[str], None] = lambda _page: None,
    source: Source = BY_CODE,
) -> FactPages:
    """The facts and notes of an agent. The index is opened when notes are needed.

    `on_changed` is called with the page that was written. `source` is the source of each line that is written
    through the result.

    Raises:
        ConfigError: the settings name an embedder that cannot be used.
    """
    embedder = embedder_of(config, now, lent=lent)
    workspace = storage_of(config).workspace()

    async def open_index() -> MemoryEngine:
        from nacre.memory.engine import MemoryEngine
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

    facts = FactPages(
        workspace,
        open_index,
        identities=identities_of(config.settings.memory.facts),
        now=now,
        on_changed=on_changed,
    )
    return _sourced(facts, workspace, now, source, config.settings.memory.secrets)


def _written_in(
    facts: FactPages,
    workspace: Workspace,
    now: Clock,
    secrets: SecretsMode,
    chat: ToolChat,
    is_approved: bool,
) -> FactPages:
    """The facts as a chat writes them: each line with its session, entry and speaker."""
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
    facts: FactPages, workspace: Workspace, now: Clock, source: Source, secrets: SecretsMode
) -> FactPages:
    async def begin() -> SourceOf:
        dated = replace(source, at=now().isoformat(timespec="seconds"))
        return lambda _line: dated

    return facts.through(SourcedWorkspace(workspace, Sources(workspace, secrets=secrets), begin))


async def _others_lines(workspace: Workspace, page: str) -> tuple[str, ...]:
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
