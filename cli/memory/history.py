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
        from nacre.memory.workspace.history.undo import undo_in

        done = undo_in(repository, commit)
        if as_json:
            return print_json({"commit": done.made, "undoes": done.undone, "paths": list(done.paths)})
        paths = ", ".join(done.paths)
        invocation.say(f"Undid {done.undone[:SHORT]} in {paths}; commit {done.made[:SHORT]} has the change.")
        return 0

    return _with_history(begin(context), revert, commits=True)


def _with_history(
    invocation: Invocation, work: Callable[[Invocation, Repository], int], *, commits: bool = False
) -> int:
    """Runs `work` on the history of the agent's notes; `commits` commits changes first."""
    from nacre.memory.workspace.history.undo import HistoryUnusable, with_history
    from nacre.runtime.storage.storage import storage_of

    config = invocation.config
    invocation.warn(*config.notices)
    try:
        return with_history(
            storage_of(config).workspace(),
            config.state_dir,
            lambda repository: work(invocation, repository),
            commits=commits,
        )
    except HistoryUnusable as error:
        invocation.warn(str(error), tone="error")
        return 1
