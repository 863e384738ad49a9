"""The command `nacre workspace`: the Markdown of a database in a folder, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.memory.workspace.documents.exchange import Exchanged
    from nacre.memory.workspace.documents.rows import DocumentRows
    from nacre.memory.workspace.documents.tree import FolderTree

_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group("workspace")
def command() -> None:
    """Bring the notes of a database to a folder and back."""


@command.command("pull")
@_FOLDER
@json_option()
@shared_options
def pull_command(context: click.Context, folder: Path, as_json: bool) -> int:
    """Bring FOLDER what is new in the workspace.

    What changed in both is merged by git. Where that cannot be, both stand in the file between marks, and the
    exit code is 1.
    """
    from nacre.memory.workspace.documents.exchange import pull

    invocation = begin(context)
    done = _exchanged(invocation, folder, pull)
    if as_json:
        print_json(_json(done))
    else:
        _tell(invocation, done, "brought to the folder", "removed from it")
    if done.conflicts:
        invocation.warn(
            f"In conflict: {', '.join(done.conflicts)}. Choose what is right, then push. A file that cannot "
            "be merged has the workspace's text beside it, with .theirs behind its name: remove it then."
        )
    return 1 if done.conflicts else 0


@command.command("push")
@_FOLDER
@json_option()
@shared_options
def push_command(context: click.Context, folder: Path, as_json: bool) -> int:
    """Bring the workspace what is new in FOLDER, all of it or nothing.

    What changed in the workspace as well has to be pulled first.
    """
    from nacre.memory.workspace.documents.exchange import push

    invocation = begin(context)
    done = _exchanged(invocation, folder, push)
    if as_json:
        return print_json(_json(done))
    _tell(invocation, done, "brought to the workspace", "removed from it")
    return 0


def _exchanged(
    invocation: Invocation,
    folder: Path,
    run: Callable[[DocumentRows, FolderTree], Coroutine[Any, Any, Exchanged]],
) -> Exchanged:
    from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
    from nacre.memory.workspace.documents.exchange import PushRefused
    from nacre.memory.workspace.documents.merging import MergeFailed
    from nacre.memory.workspace.documents.tree import FolderTree, FolderUnusable
    from nacre.runtime.settings.disk.open_workspace import open_documents

    rows = open_documents(invocation.config.folders)
    if rows is None:
        raise click.UsageError(
            f"The notes are files already, in {invocation.short(invocation.config.workspace)}. "
            "Pull and push are for a workspace in a database (storage.driver)."
        )

    try:
        return asyncio.run(run(rows, FolderTree(folder.absolute())))
    except (PushRefused, MergeFailed, FolderUnusable, FileBusy, PathOutsideRoot) as error:
        raise click.ClickException(str(error)) from error


def _tell(invocation: Invocation, done: Exchanged, written: str, removed: str) -> None:
    told = [(done.written, written), (done.removed, removed), (done.merged, "merged")]
    lines = [f"{len(names)} {text}: {', '.join(names)}" for names, text in told if names]
    invocation.say(*(lines or (["Nothing is new."] if not done.conflicts else [])))
    if done.kept:
        names = ", ".join(done.kept)
        invocation.warn(
            f"Removed in the workspace, changed here, and kept: {names}. A push makes them again."
        )
    invocation.warn(*(f"Left out: {reason}" for reason in done.left_out))


def _json(done: Exchanged) -> dict[str, object]:
    return camel_json(done, "written", "removed", "merged", "conflicts", "kept", "left_out")
