"""`pull` and `push`: a workspace in a database and a folder, brought together. Edge.

Each file is written only if it is still what was seen, so both work while the assistant writes, and while
somebody types. What both have is noted behind the write: a kill in between costs another look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field

from nacre.memory.workspace.documents.merging import merged
from nacre.memory.workspace.documents.rows import Document, DocumentRows, Moment, WrittenSince
from nacre.memory.workspace.documents.steps import Step, Text, pulled, pushed, travels
from nacre.memory.workspace.documents.tree import FolderTree, Seen
from nacre.records.record import Record


class PushRefused(Exception):
    """Nothing was pushed: files have conflicts, or were changed in the workspace as well."""


class Exchanged(Record):
    """What was done, by the names of files, sorted.

    `conflicts` have marks now, or the workspace's text beside them. `kept` were removed in the workspace and
    changed in the folder. `left_out` are sentences.
    """

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


async def pull(rows: DocumentRows, tree: FolderTree) -> Exchanged:
    """Brings the folder what is new in the workspace; what changed in the folder alone stays.

    A file that has a conflict already is left alone until it is ended.

    Raises:
        OSError, FileBusy, PathOutsideRoot: the disk or the database refused a file; those before it are done.
        FolderUnusable: the folder is another workspace's.
        MergeFailed: git is wanted, and cannot be used.
    """
    files = await rows.files()
    return await asyncio.to_thread(_pull, {name: each.body for name, each in files.items()}, rows.place, tree)


async def push(rows: DocumentRows, tree: FolderTree) -> Exchanged:
    """Brings the workspace what is new in the folder, all of it or nothing.

    Raises:
        PushRefused: the sentence names the files.
        OSError, FileBusy: the disk or the database refused; nothing was pushed.
        FolderUnusable: the folder is another workspace's.
    """
    files = await rows.files()
    plan = await asyncio.to_thread(_planned, files, rows.place, tree)

    def write(moment: Moment) -> None:
        # What is removed goes first: a folder may take the name of a file.
        for name in (*plan.done.removed, *plan.done.written):
            seen = files.get(name)
            moment.put(name, plan.here.get(name), seen=seen.revision if seen else None)

    if plan.done.removed or plan.done.written:
        try:
            await rows.write(write)
        except WrittenSince as error:
            raise PushRefused(f"Nothing was pushed: {error} Pull first, then push again.") from error

    def note() -> None:
        for name in (*plan.met, *plan.done.removed, *plan.done.written):
            tree.note_met(name, plan.here.get(name))

    await asyncio.to_thread(note)
    return plan.done


def _pull(there: Mapping[str, bytes], workspace: str, tree: FolderTree) -> Exchanged:
    tree.belong_to(workspace)
    met, seen, done = tree.met(), tree.here(), Exchanged()
    done.left_out.extend(_told(seen))
    unresolved = set(tree.unresolved(seen.files, met))
    for name in sorted({*met, *there, *seen.files}):
        if not travels(name):
            done.left_out.append(f"{name}: a name that belongs to a program")
        elif seen.is_passed_over(name):
            continue
        elif name in unresolved:
            done.conflicts.append(name)
        else:
            _pull_one(name, met.get(name), there.get(name), seen.files.get(name), tree, done)
    return done


def _pull_one(name: str, base: Text, there: Text, here: Text, tree: FolderTree, done: Exchanged) -> None:
    step = pulled(base, there, here)
    if step is Step.COPY:
        tree.put(name, there, seen=here)
        (done.removed if there is None else done.written).append(name)
    elif step is Step.KEEP:
        done.kept.append(name)
    elif step is Step.MERGE:
        assert there is not None
        assert here is not None
        found = merged(base, there, here)
        if found.text is None:
            tree.put_beside(name, there)
        else:
            tree.put(name, found.text, seen=here)
        (done.conflicts if found.is_conflict else done.merged).append(name)
    if step is not Step.NOTHING:
        tree.note_met(name, there)


class _Plan(Record):
    """What a push is to do, and which files only have to be noted as the same."""

    here: Mapping[str, bytes]
    met: list[str]
    done: Exchanged


def _planned(files: Mapping[str, Document], workspace: str, tree: FolderTree) -> _Plan:
    tree.belong_to(workspace)
    met, seen = tree.met(), tree.here()
    if unresolved := tree.unresolved(seen.files, met):
        raise PushRefused(
            f"Nothing was pushed: {', '.join(unresolved)} still "
            f"{'has a conflict' if len(unresolved) == 1 else 'have conflicts'}. Choose what is right between "
            "the marks <<<<<<< and >>>>>>>, or of the two files, remove the other, and push again."
        )
    plan = _Plan(here=seen.files, met=[], done=Exchanged(left_out=_told(seen)))
    behind = []
    for name in sorted({*met, *filter(travels, files), *seen.files}):
        there, here = files[name].body if name in files else None, seen.files.get(name)
        if seen.is_passed_over(name):
            continue
        step = pushed(met.get(name), there, here)
        if step is Step.COPY:
            (plan.done.removed if here is None else plan.done.written).append(name)
        elif step is Step.MET:
            plan.met.append(name)
        elif step is Step.MERGE:
            behind.append(name)
    if plan.done.removed and not seen.files:
        raise PushRefused(
            f"Nothing was pushed: {tree.place} is empty, which would remove every note. If that is meant, "
            "leave one file in it."
        )
    if behind:
        raise PushRefused(
            f"Nothing was pushed: {', '.join(behind)} changed in the workspace as well. "
            f"`nacre workspace pull {tree.place}` merges, then push again."
        )
    return plan


def _told(seen: Seen) -> list[str]:
    return [f"{name}: {reason}" for name, reason in seen.passed_over.items()]
