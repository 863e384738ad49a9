"""The command `nacre storage`: an agent from files to a database, or back."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.bridges.ledger.contracts.contents import Contents
    from nacre.bridges.ledger.copying import CopiedLedger
    from nacre.memory.workspace.documents.copying import CopiedWorkspace
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.settings.config import Config
    from nacre.runtime.tools.approvals.store import CopiedApprovals
    from nacre.sessions.stores.copying import Copied

_SESSION_ROWS = ("transcripts", "results", "lines", "endings")


@click.group("storage")
def command() -> None:
    """Move an agent from files to a database, or back."""


@command.command("migrate")
@click.option("--to", "target", type=click.Choice(["postgres", "files"]), required=True, help="Where to.")
@json_option("Print one JSON object instead of sentences.")
@shared_options
def migrate_command(context: click.Context, target: str, as_json: bool) -> int:
    """Copy notes, conversations, open approvals and the channels' ledger; nothing is written twice.

    The old data stays where it was, and no setting is changed. End what serves the agent first. The exit code
    is 1 where something was not copied.
    """
    from nacre.bridges.contracts.errors import LedgerUnusable
    from nacre.memory.contracts.workspace import FileBusy
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    in_files, in_database = _both(invocation.config)
    try:
        sessions, notes, ledger, approvals = asyncio.run(_copied(in_files, in_database, target))
    except (SessionError, FileBusy, LedgerUnusable) as error:
        raise click.ClickException(f"{error} What was copied stays; run the command again.") from error
    problems = [*sessions.problems, *notes.problems, *(ledger.problems if ledger else ())]
    if sessions.source != sessions.target:
        problems.append("The conversations are not the same in both. Is anybody talking? Run it again.")
    if approvals.source != approvals.target:
        problems.append("A call that waits for approval was answered in the target; what stands there stays.")
    if as_json:
        told = {"sessions": _json(sessions), "workspace": _json(notes), "problems": problems}
        told["approvals"] = camel_json(approvals, "source", "target")
        print_json({**told, **({"ledger": _ledger_json(ledger)} if ledger else {})})
    else:
        invocation.say(*_lines(sessions, notes, approvals), *(_ledger_lines(ledger) if ledger else ()))
        invocation.warn(*problems)
        if not problems:
            invocation.say(f"Now set storage.driver to {target!r}. The old data is where it was.")
    return 1 if problems else 0


def _both(config: Config) -> tuple[Config, Config]:
    """The agent in files, and in the database that its settings name."""
    url = config.database_url or config.settings.storage.url.strip()
    if not url:
        raise click.UsageError("No database is named. Set storage.url or NACRE_DATABASE_URL.")
    in_files, in_database = (replace(config.folders, database_url=each) for each in ("", url))
    return replace(config, folders=in_files), replace(config, folders=in_database)


async def _copied(
    in_files: Config, in_database: Config, target: str
) -> tuple[Copied, CopiedWorkspace, CopiedLedger | None, CopiedApprovals]:
    from nacre.memory.workspace.documents.copying import copy_to_folder, copy_to_rows
    from nacre.runtime.agent.opening.assembly import approval_store
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.contracts.ids import random_id
    from nacre.runtime.open_sessions.open_store import open_copyable_store
    from nacre.runtime.settings.disk.open_workspace import kept_places, open_documents
    from nacre.runtime.tools.approvals.store import copy_approvals
    from nacre.sessions.stores.copying import copy_sessions

    now = owner_clock(in_files.settings.agent.user_timezone)
    files, rows = (open_copyable_store(each, now=now, new_id=random_id) for each in (in_files, in_database))
    here, there = (
        approval_store(each, now, fence_of=store.fence)
        for each, store in ((in_files, files), (in_database, rows))
    )
    documents = open_documents(in_database.folders)
    assert documents is not None
    kept = kept_places(in_files.folders, in_files.state_dir)
    try:
        # First: it refuses while a program serves the channels.
        ledger = await _copied_ledger(in_files, in_database, target, now)
        if target == "postgres":
            notes = await copy_to_rows(in_files.workspace, documents, kept=kept)
            return await copy_sessions(files, rows), notes, ledger, await copy_approvals(here, there)
        lock_dir = in_files.state_dir / "locks"
        notes = await copy_to_folder(documents, in_files.workspace, kept=kept, lock_dir=lock_dir)
        return await copy_sessions(rows, files), notes, ledger, await copy_approvals(there, here)
    finally:
        await files.close()
        await rows.close()


async def _copied_ledger(
    in_files: Config, in_database: Config, target: str, now: Clock
) -> CopiedLedger | None:
    """The channels' ledger, which goes with the default agent; `None` for another one."""
    from nacre.bridges.ledger.copying import copy_ledger
    from nacre.bridges.ledger.opening import ledger_place, movable_ledger

    here, there = ledger_place(in_files), ledger_place(in_database)
    if here.agent_id != in_files.agent_id:
        return None
    async with movable_ledger(here, now=now) as file, movable_ledger(there, now=now) as rows:
        return await (copy_ledger(file, rows) if target == "postgres" else copy_ledger(rows, file))


def _lines(sessions: Copied, notes: CopiedWorkspace, approvals: CopiedApprovals) -> list[str]:
    rows = [("files", notes.source.files, notes.target.files)]
    rows += [(name, getattr(sessions.source, name), getattr(sessions.target, name)) for name in _SESSION_ROWS]
    rows += [("approvals", approvals.source, approvals.target)] if approvals.source else []
    return [
        *(f"{name:12}{source:8} there, {target:8} copied" for name, source, target in rows),
        f"Notes          {_sums(notes.source.checksum, notes.target.checksum)}",
        f"Conversations  {_sums(sessions.source.checksum, sessions.target.checksum)}",
    ]


def _ledger_lines(ledger: CopiedLedger) -> list[str]:
    source, target = ledger.source.counts, ledger.target.counts
    return [
        *(f"{name:12}{source[name]:8} there, {target[name]:8} copied" for name in source if source[name]),
        f"Channels       {_sums(ledger.source.checksum, ledger.target.checksum)}",
    ]


def _sums(source: str, target: str) -> str:
    return f"sha256 {source[:16]} in both" if source == target else f"sha256 {source[:16]} and {target[:16]}"


def _json(copied: Copied | CopiedWorkspace) -> dict[str, object]:
    names = [field.name for field in fields(copied.source)]
    return {side: camel_json(getattr(copied, side), *names) for side in ("source", "target")}


def _ledger_json(ledger: CopiedLedger) -> dict[str, object]:
    def told(contents: Contents) -> dict[str, object]:
        return {**contents.counts, "checksum": contents.checksum}

    return {"source": told(ledger.source), "target": told(ledger.target)}
