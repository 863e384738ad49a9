"""Reads the logs and the pages of a workspace, and writes what was approved.

Each page is replaced whole or not at all, and only while it still says what the proposal was made from.
`bank/.taken` comes last: after a kill in between, what stands on pages already is known by its words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from nacre.memory.contracts.errors import BankUnusable
from nacre.memory.contracts.notes import BANK_FOLDER, is_markdown
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.bank import taken
from nacre.memory.files.bank.pages import ENTITIES
from nacre.memory.files.bank.proposal import Change, Proposal, proposal
from nacre.memory.files.bank.retain import Retained, retained
from nacre.memory.files.bank.summary import checked, summary_lines, with_summary
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.text.chunker import day_in_path

LOGS = "memory"


async def proposed(workspace: Workspace) -> Proposal:
    """What the logs of the workspace would change in its bank; writes nothing.

    Raises:
        BankUnusable: a log or a page cannot be read.
    """
    logs = [name for name in await _notes_in(workspace, LOGS) if day_in_path(name)]
    pages = [taken.NAME, *await _notes_in(workspace, BANK_FOLDER), *await _notes_in(workspace, ENTITIES)]
    texts = await _texts(workspace, [*logs, *pages])
    read = {name: texts[name] for name in logs if name in texts}
    return proposal(
        read,
        {name: texts[name] for name in pages if name in texts},
        of_others=await _links_of_others(Sources(workspace), read),
    )


async def _links_of_others(sources: Sources, logs: Mapping[str, str]) -> frozenset[str]:
    """The links of items of which somebody else said a line, or a tool gave one; a hand's are the owner's."""
    links: set[str] = set()
    for path, text in logs.items():
        kept = [item for item in retained(path, text) if isinstance(item, Retained)]
        found = await sources.of_lines(path, text.split("\n")) if kept else ()
        links.update(
            item.link
            for item in kept
            if any(source and not source.is_owners_word for source in found[item.line - 1 : item.last_line])
        )
    return frozenset(links)


async def summed_up(
    workspace: Workspace, found: Proposal, summary_of: Callable[[str, str], Awaitable[str]]
) -> Proposal:
    """The proposal with a summary on each entity's page that it changes, in the words of `summary_of`.

    That is given the path and the text of a page. A page stays as the rules made it where the words do not
    hold (`summary.checked`), and where a hand wrote the summary that it has.
    """
    sources = Sources(workspace)
    changes: list[Change] = []
    for change in found.changes:
        if change.path.startswith(f"{ENTITIES}/") and await _is_free(sources, change):
            words = checked(await summary_of(change.path, change.after), change.after)
            change = replace(change, after=with_summary(change.after, words)) if words else change
        changes.append(change)
    return replace(found, changes=tuple(changes))


async def _is_free(sources: Sources, change: Change) -> bool:
    """Whether a page has no summary, or one that a reflection wrote."""
    before = change.before or ""
    said = summary_lines(before)
    lines = [line for line in before.split("\n")[said.start : said.stop] if line.strip()]
    known = await sources.of_lines(change.path, lines)
    return all(source is not None and source.written_by == "reflection" for source in known)


async def write(workspace: Workspace, approved: Proposal, *, at: str) -> None:
    """Writes the pages of a proposal, and that their lines come from a reflection `at` an ISO time.

    Raises:
        BankUnusable: a page changed since, or cannot be written; those before it are written.
    """
    sources = Sources(workspace)
    reflected = Source(written_by="reflection", audience=PRIVATE, said_by=("owner", "assistant"), at=at)
    for change in (*approved.changes, approved.taken):
        try:
            if is_markdown(change.path):
                await sources.keep(change.path, change.after, lambda _line: reflected)
            await workspace.change(change.path, _replacing(change))
        except (OSError, FileBusy, PathOutsideRoot) as error:
            raise BankUnusable(
                f"{change.path} could not be written: {error}. Run it again; what is written stays."
            ) from error


def _replacing(change: Change) -> Callable[[bytes | None], bytes]:
    def replaced(old: bytes | None) -> bytes:
        was = None if change.before is None else change.before.encode("utf-8")
        if old != was:
            raise BankUnusable(
                f"{change.path} was changed since the proposal was made, and is left as it is. Run it again."
            )
        return change.after.encode("utf-8")

    return replaced


async def _notes_in(workspace: Workspace, folder: str) -> list[str]:
    try:
        entries = await workspace.list_folder(folder)
    except FileNotFoundError:
        return []
    except (OSError, PathOutsideRoot) as error:
        raise BankUnusable(f"The folder {folder} cannot be read: {error}.") from error
    names = (entry.name for entry in entries if not entry.is_folder and is_markdown(entry.name))
    return [f"{folder}/{name}" for name in names]


async def _texts(workspace: Workspace, names: Iterable[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, found in (await workspace.read_many(list(names))).items():
        if isinstance(found, FileNotFoundError):
            continue
        if isinstance(found, OSError | PathOutsideRoot):
            raise BankUnusable(f"{name} cannot be read: {found}.")
        if str(found.relative) != name or found.is_cut:
            why = f"{found.size_bytes} bytes are too long" if found.is_cut else f"a link to {found.relative}"
            raise BankUnusable(f"{name} cannot be used: {why}.")
        try:
            texts[name] = found.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BankUnusable(f"{name} is no UTF-8 text: {error}. Save it as UTF-8.") from error
    return texts
