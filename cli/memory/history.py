"""`nacre memory log`, `diff` and `undo`: the git history of the notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.workspace.history.repository import Repository

SHORT = 12


@click.command("log")
@click.argument("path", default="")
@json_option()
@shared_options
def log(context: click.Context, path: str, as_json: bool) -> int:
    """List the commits of the notes, or those that changed PATH, newest first."""

    def show(invocation: Invocation, repository: Repository) -> int:
        from nacre.memory.workspace.history.undo import commits

        found = commits(repository, path)
        if as_json:
            return print_json([asdict(each) for each in found])
        for each in found:
            by = f"  ({each.session_key})" if each.session_key else ""
            invocation.say(f"{each.commit[:SHORT]}  {each.at}  {each.subject}{by}")
        if not found:
            invocation.warn(f"No commit changed {path}." if path else "There is no commit yet.")
        return 0

    return _with_history(begin(context), show)


@click.command("diff")
@click.argument("commit", default="main")
@json_option()
@shared_options
def diff(context: click.Context, commit: str, as_json: bool) -> int:
    """Show what COMMIT changed, by default the newest one."""

    def show(invocation: Invocation, repository: Repository) -> int:
        from nacre.memory.workspace.history.undo import named, shown

        name = named(repository, commit)
        text = shown(repository, name)
        if as_json:
            return print_json({"commit": name, "diff": text})
        invocation.say(*text.splitlines())
        return 0

    return _with_history(begin(context), show)


@click.command("undo")
@click.argument("commit", default="")
@json_option()
@shared_options
def undo(context: click.Context, commit: str, as_json: bool) -> int:
    """Revert COMMIT by a new commit; by default the last one of a session.

    Changes made by hand since are committed first, and stay.
    """

    def revert(invocation: Invocation, repository: Repository) -> int:
        from nacre.memory.workspace.history.undo import last_to_undo, named, undo as undone

        name = named(repository, commit) if commit else last_to_undo(repository).commit
        made, paths = undone(repository, name)
        if as_json:
            return print_json({"commit": made, "undoes": name, "paths": paths})
        invocation.say(f"Undid {name[:SHORT]} in {', '.join(paths)}; commit {made[:SHORT]} holds the change.")
        return 0

    return _with_history(begin(context), revert, commits=True)


def _with_history(
    invocation: Invocation, work: Callable[[Invocation, Repository], int], *, commits: bool = False
) -> int:
    """Runs `work` on the history of the agent's notes; `commits` commits changes first."""
    from nacre.memory.contracts.workspace import FileBusy
    from nacre.memory.files.sources.sources import Sources
    from nacre.memory.workspace.git import GitFailed
    from nacre.memory.workspace.history.commits import commit_changes, known_sources
    from nacre.memory.workspace.history.repository import NO_HISTORY, Repository
    from nacre.memory.workspace.history.undo import CommitUnknown, UndoConflict
    from nacre.runtime.storage.storage import storage_of

    invocation.warn(*invocation.config.notices)
    workspace = storage_of(invocation.config).workspace()
    if workspace.folder is None:
        invocation.warn(f"{workspace.place} has the notes; a git history needs files.", tone="error")
        return 1
    repository = Repository(workspace.folder, state_dir=invocation.config.state_dir)
    if not repository.is_there:
        invocation.warn(f"{workspace.place} has no history yet. {NO_HISTORY}", tone="error")
        return 1
    try:
        repository.read()
        if not commits:
            return work(invocation, repository)
        with repository.opened():
            commit_changes(repository, known_sources(Sources(workspace)))
            return work(invocation, repository)
    except (GitFailed, FileBusy, OSError, CommitUnknown, UndoConflict) as error:
        invocation.warn(str(error), tone="error")
        return 1
