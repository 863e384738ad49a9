"""The commands `nacre admin storage` and `nacre admin workspace`: to a database and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.bridges.access.people import Role
    from nacre.cli.invocation import Invocation
    from nacre.extensions.postgres.document_rows import DocumentRows
    from nacre.extensions.postgres.exchange import CopiedWorkspace, Exchanged, FolderTree
    from nacre.extensions.postgres.hosting import HostedAgent
    from nacre.extensions.postgres.server.database import Database
    from nacre.runtime.ledger.moving import CopiedLedger
    from nacre.runtime.settings.config import Config
    from nacre.runtime.tools.approvals.store import CopiedApprovals
    from nacre.sessions.stores.copying import Copied


T = TypeVar("T")
_SESSION_ROWS = ("transcripts", "results", "lines", "endings")


@click.group("storage", cls=Noun, noun="admin storage")
def storage() -> None:
    """Move an agent between files and a database, and manage the agents of a database."""


@storage.command("migrate")
@click.option("--to", "target", type=click.Choice(["postgres", "files"]), required=True, help="Where to.")
@json_option("Print one JSON object instead of sentences.")
@shared_options
def migrate_command(context: click.Context, target: str, as_json: bool) -> int:
    """Copy notes, conversations, open approvals and the channels' ledger; nothing is written twice.

    The old data stays, and no setting changes. First stop the programs that serve the agent. The exit code is
    1 if something was not copied.
    """
    from nacre.memory.contracts.workspace import FileBusy
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    in_files, in_database = _both(invocation.config)
    try:
        sessions, notes, ledger, approvals = asyncio.run(_copied(in_files, in_database, target))
    except (SessionError, FileBusy, LedgerUnusable) as error:
        raise click.ClickException(f"{error} What was copied stays; run the command again.") from error
    problems = [*sessions.problems, *notes.problems, *(ledger.problems if ledger else ())]
    if sessions.source != sessions.target:
        problems.append("The conversations differ. If somebody was talking, run the command again.")
    if approvals.source != approvals.target:
        problems.append("A call that waits for approval was answered in the target, and the answer stays.")
    if as_json:
        report: dict[str, object] = {"sessions": _copied_json(sessions), "workspace": _copied_json(notes)}
        report["problems"] = problems
        report["approvals"] = camel_json(approvals, "source", "target")
        if ledger:
            sides = ("source", ledger.source), ("target", ledger.target)
            report["ledger"] = {name: {**side.counts, "checksum": side.checksum} for name, side in sides}
        print_json(report)
    else:
        invocation.say(*_copied_lines(sessions, notes, approvals), *(_ledger_lines(ledger) if ledger else ()))
        invocation.warn(*problems)
        if not problems:
            invocation.say(f"Now set storage.driver to {target!r}. The old data stays.")
    return 1 if problems else 0


_AGENT = click.argument("agent_id", metavar="ID")


@storage.command("agents")
@json_option()
@shared_options
def agents_command(context: click.Context, as_json: bool) -> int:
    """List the agents that have rows in the database."""
    from nacre.cli.screen.plain import aligned
    from nacre.extensions.postgres.hosting import agent_json, hosted_agents

    invocation = begin(context)
    found = _hosted(invocation, hosted_agents)
    if as_json:
        return print_json([*map(agent_json, found)])
    rows = []
    for each in found:
        figures = (each.turns, each.notes, each.conversations, each.size_bytes)
        state = "paused" if each.is_paused else "over its limit" if each.is_over_quota else "-"
        rows.append((each.id, state, *map(str, figures)))
    invocation.say(*aligned([("AGENT", "STATE", "TURNS", "NOTES", "CONVERSATIONS", "BYTES"), *rows]))
    return 0


@storage.command("create")
@click.argument("user")
@json_option()
@shared_options
def create_command(context: click.Context, user: str, as_json: bool) -> int:
    """Create the assistant of USER, with the settings of agents.defaults.

    Workers run its turns at once; no program has to be restarted.
    """
    from nacre.extensions.postgres.hosting import agent_json, create

    invocation = begin(context)
    made = _hosted(invocation, partial(create, user=user))
    if made is None:
        raise click.ClickException(f"The user {user!r} has an assistant already.")
    if as_json:
        return print_json(agent_json(made))
    invocation.say(f"Created {made.id}. Admit people with `nacre admin storage admit {made.id} CODE`.")
    return 0


@storage.command("admit")
@_AGENT
@click.argument("code")
@click.option("--owner", is_flag=True, help="The agent is theirs: private memory is shown there.")
@json_option()
@shared_options
def admit_command(context: click.Context, agent_id: str, code: str, owner: bool, as_json: bool) -> int:
    """Admit the person with CODE to agent ID, which alone answers them in private. Needs a terminal."""
    from nacre.cli.permissions.access import check_terminal, person_json, person_name, unknown_code
    from nacre.extensions.postgres.hosting import people_in

    invocation = begin(context)
    if not check_terminal(invocation):
        return 1
    role: Role = "owner" if owner else "guest"
    _checked(invocation, agent_id)
    config = invocation.config
    person = _hosted(invocation, lambda rows: people_in(config, rows).approve(code, role, own_agent=agent_id))
    if person is None:
        return unknown_code(invocation, code)
    if as_json:
        return print_json(person_json(person))
    invocation.say(f"Let in: {person_name(person)}. Nobody else answers them.")
    return 0


@storage.command("limit")
@_AGENT
@click.option("--tokens", type=click.IntRange(0, 2**62), metavar="N", help="Tokens a day; 0 for no limit.")
@click.option("--usd", type=click.FloatRange(0, 2**62), metavar="N", help="Dollars a day; 0 for no limit.")
@click.option(
    "--megabytes", type=click.IntRange(0, 2**40), metavar="N", help="Conversations and notes; 0 for no limit."
)
@json_option()
@shared_options
def limit_command(
    context: click.Context,
    agent_id: str,
    tokens: int | None,
    usd: float | None,
    megabytes: int | None,
    as_json: bool,
) -> int:
    """Limit the daily usage (UTC) of agent ID, in all workers together, and its storage.

    Counting begins with the first limit. Beyond a limit, each message is answered with one sentence.
    """
    from nacre.extensions.postgres.hosting import agent_json, limit

    invocation = begin(context)
    _checked(invocation, agent_id)
    max_bytes = None if megabytes is None else megabytes * 1_000_000
    _hosted(invocation, partial(limit, agent=agent_id, tokens=tokens, usd=usd, max_bytes=max_bytes))
    found = _checked(invocation, agent_id)
    if as_json:
        return print_json(agent_json(found))
    usage = found.daily_tokens or "unlimited", found.daily_usd or "unlimited"
    room = f"{found.max_bytes // 1_000_000} MB" if found.max_bytes else "unlimited"
    invocation.say("{} may use a day: tokens {}, dollars {}; room {}.".format(agent_id, *usage, room))
    return 0


@storage.command("pause")
@_AGENT
@json_option()
@shared_options
def pause_command(context: click.Context, agent_id: str, as_json: bool) -> int:
    """Let no worker start a turn of agent ID; its messages wait."""
    sentence = f"{agent_id} is paused. Running turns finish; messages wait for `nacre admin storage resume`."
    return _paused(begin(context), agent_id, sentence, is_paused=True, as_json=as_json)


@storage.command("resume")
@_AGENT
@json_option()
@shared_options
def resume_command(context: click.Context, agent_id: str, as_json: bool) -> int:
    """Let workers run the turns of agent ID again."""
    sentence = f"{agent_id} answers again."
    return _paused(begin(context), agent_id, sentence, is_paused=False, as_json=as_json)


def _paused(invocation: Invocation, agent_id: str, sentence: str, *, is_paused: bool, as_json: bool) -> int:
    from nacre.extensions.postgres.hosting import pause

    _checked(invocation, agent_id)
    _hosted(invocation, partial(pause, agent=agent_id, is_paused=is_paused))
    if as_json:
        return print_json({"agent": agent_id, "isPaused": is_paused})
    invocation.say(sentence)
    return 0


@storage.command("remove")
@_AGENT
@click.option("--yes", "is_sure", is_flag=True, required=True, help="Confirm the removal.")
@json_option()
@shared_options
def remove_command(
    context: click.Context,
    agent_id: str,
    is_sure: bool,  # noqa: ARG001 - click passes it
    as_json: bool,
) -> int:
    """Remove all rows of agent ID, which must be paused. This cannot be undone.

    Remove it from agents.list as well; otherwise it starts empty when it is resumed.
    """
    from nacre.extensions.postgres.hosting import remove

    invocation = begin(context)
    removed = _hosted(invocation, partial(remove, agent=agent_id))
    if removed is None:
        raise click.ClickException(
            f"{agent_id} is not paused, or a program uses it. Run `nacre admin storage pause {agent_id}`, "
            "and stop the programs that serve its channels or talk to it."
        )
    if as_json:
        return print_json({"agent": agent_id, "removedRows": removed})
    invocation.say(f"Removed {removed} rows of {agent_id}.")
    return 0


def _checked(invocation: Invocation, agent_id: str) -> HostedAgent:
    from nacre.extensions.postgres.hosting import find

    listed = [agent.id for agent in invocation.config.agents]
    if (found := _hosted(invocation, partial(find, agent=agent_id, listed=listed))) is None:
        raise click.ClickException(
            f"There is no agent {agent_id!r}. `nacre admin storage agents` lists those with rows."
        )
    return found


def _hosted(invocation: Invocation, ask: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    from nacre.closing import using
    from nacre.extensions.postgres.server.connections import DatabaseError
    from nacre.extensions.postgres.server.database import shared_database
    from nacre.runtime.ledger.records import LedgerUnusable

    _, in_database = _both(invocation.config)

    async def asked() -> T:
        async with using(shared_database(in_database.folders.storage.url)) as database:
            return await ask(database)

    try:
        return asyncio.run(asked())
    except (DatabaseError, LedgerUnusable) as error:
        raise click.ClickException(str(error)) from error


def _both(config: Config) -> tuple[Config, Config]:
    from nacre.runtime.settings.disk.agent_folders import StorageChoice

    url = config.folders.storage.url or config.settings.storage.url.strip()
    if not url:
        raise click.UsageError("The settings name no database. Set storage.url or NACRE_DATABASE_URL.")
    both = (StorageChoice(), StorageChoice(driver="postgres", url=url))
    in_files, in_database = (replace(config.folders, storage=each) for each in both)
    return replace(config, folders=in_files), replace(config, folders=in_database)


async def _copied(
    in_files: Config, in_database: Config, target: str
) -> tuple[Copied, CopiedWorkspace, CopiedLedger | None, CopiedApprovals]:
    from nacre.extensions.postgres.document_rows import DocumentRows
    from nacre.extensions.postgres.exchange import copy_to_folder, copy_to_rows
    from nacre.extensions.postgres.server.database import shared_database
    from nacre.runtime.storage.storage import kept_places, open_sessions, storage_of
    from nacre.runtime.tools.approvals.store import copy_approvals
    from nacre.sessions.stores.copying import copy_sessions

    now = in_files.clock
    files, rows = (open_sessions(each, now) for each in (in_files, in_database))
    here, there = (
        storage_of(each).approvals(now=now, fence_of=store.fence)
        for each, store in ((in_files, files), (in_database, rows))
    )
    documents = DocumentRows(shared_database(in_database.folders.storage.url), in_database.agent_id)
    kept = kept_places(in_files)
    try:
        # The ledger is the first, because it cannot be copied while a program serves the channels.
        ledger = await _copied_ledger(in_files, in_database, target)
        if target == "postgres":
            notes = await copy_to_rows(in_files.workspace, documents, kept=kept)
            return await copy_sessions(files, rows), notes, ledger, await copy_approvals(here, there)
        lock_dir = in_files.state_dir / "locks"
        notes = await copy_to_folder(documents, in_files.workspace, kept=kept, lock_dir=lock_dir)
        return await copy_sessions(rows, files), notes, ledger, await copy_approvals(there, here)
    finally:
        await files.close()
        await rows.close()


async def _copied_ledger(in_files: Config, in_database: Config, target: str) -> CopiedLedger | None:
    """The copy of the channels' ledger, which belongs to the default agent; `None` for another agent."""
    from nacre.runtime.ledger.moving import copy_ledger
    from nacre.runtime.storage.storage import ledger_of

    if not any(agent.is_default and agent.id == in_files.agent_id for agent in in_files.agents):
        return None
    here, there = ledger_of(in_files), ledger_of(in_database)
    async with here.movable() as file, there.movable() as rows:
        return await (copy_ledger(file, rows) if target == "postgres" else copy_ledger(rows, file))


def _copied_lines(sessions: Copied, notes: CopiedWorkspace, approvals: CopiedApprovals) -> list[str]:
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


def _copied_json(copied: Copied | CopiedWorkspace) -> dict[str, object]:
    names = [field.name for field in fields(copied.source)]
    return {side: camel_json(getattr(copied, side), *names) for side in ("source", "target")}


_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group("workspace", cls=Noun, noun="admin workspace")
def workspace() -> None:
    """Copy the notes of a database to a folder and back."""


@workspace.command("pull")
@_FOLDER
@json_option()
@shared_options
def pull_command(context: click.Context, folder: Path, as_json: bool) -> int:
    """Copy changes of the workspace to FOLDER.

    git merges files that changed in both. If it cannot, the file has both versions between marks, and the
    exit code is 1.
    """
    from nacre.extensions.postgres.exchange import pull

    invocation = begin(context)
    done = _exchanged(invocation, folder, pull)
    if as_json:
        print_json(_exchanged_json(done))
    else:
        _tell(invocation, done, "copied to the folder", "removed from it")
    if done.conflicts:
        invocation.warn(
            f"In conflict: {', '.join(done.conflicts)}. Choose the right versions, then push. If a file "
            "cannot be merged, the workspace's version is beside it with the suffix .theirs; remove it then."
        )
    return 1 if done.conflicts else 0


@workspace.command("push")
@_FOLDER
@json_option()
@shared_options
def push_command(context: click.Context, folder: Path, as_json: bool) -> int:
    """Copy changes of FOLDER to the workspace, all or none.

    Files that also changed in the workspace must be pulled first.
    """
    from nacre.extensions.postgres.exchange import push

    invocation = begin(context)
    done = _exchanged(invocation, folder, push)
    if as_json:
        return print_json(_exchanged_json(done))
    _tell(invocation, done, "copied to the workspace", "removed from it")
    return 0


def _exchanged(
    invocation: Invocation,
    folder: Path,
    run: Callable[[DocumentRows, FolderTree], Coroutine[Any, Any, Exchanged]],
) -> Exchanged:
    from nacre.extensions.postgres.document_rows import DocumentRows
    from nacre.extensions.postgres.exchange import FolderTree, FolderUnusable, MergeFailed, PushRefused
    from nacre.extensions.postgres.server.database import shared_database
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot

    folders = invocation.config.folders
    if folders.storage.driver != "postgres":
        raise click.UsageError(
            f"The notes are files already, in {invocation.short(invocation.config.workspace)}. "
            "Pull and push are for a workspace in a database (storage.driver)."
        )
    rows = DocumentRows(shared_database(folders.storage.url), folders.agent_id)
    try:
        return asyncio.run(run(rows, FolderTree(folder.absolute())))
    except (PushRefused, MergeFailed, FolderUnusable, FileBusy, PathOutsideRoot) as error:
        raise click.ClickException(str(error)) from error


def _tell(invocation: Invocation, done: Exchanged, written: str, removed: str) -> None:
    groups = [(done.written, written), (done.removed, removed), (done.merged, "merged")]
    lines = [f"{len(names)} {text}: {', '.join(names)}" for names, text in groups if names]
    invocation.say(*(lines or (["Nothing is new."] if not done.conflicts else [])))
    if done.kept:
        names = ", ".join(done.kept)
        invocation.warn(
            f"Removed in the workspace, changed here, and kept: {names}. A push creates them again."
        )
    invocation.warn(*(f"Left out: {reason}" for reason in done.left_out))


def _exchanged_json(done: Exchanged) -> dict[str, object]:
    return camel_json(done, "written", "removed", "merged", "conflicts", "kept", "left_out")
