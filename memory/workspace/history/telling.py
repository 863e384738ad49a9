"""The commits of a workspace, listed and shown."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.memory.files.sources.sources import SOURCES_FOLDER
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import ENTRIES, SESSION_ID, SESSION_KEY, TIDIED, UNDOES
from nacre.memory.workspace.history.repository import BRANCH, Repository

_TRAILERS = (SESSION_KEY, SESSION_ID, ENTRIES, UNDOES, TIDIED)
_FORMAT = "%x1f".join(
    ("%H", "%cI", "%s", *(f"%(trailers:key={name},valueonly,separator=%x20)" for name in _TRAILERS))
)


class CommitUnknown(Exception):
    """There is no such commit in the workspace's history, or none of the kind that is needed. A sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One commit. `at` is an ISO time; `undoes` is the commit that it takes back, `tidied` the note that
    `nacre memory tidy` changed. A hand has none of these."""

    commit: str
    at: str
    subject: str
    session_key: str
    session_id: str
    entry_ids: tuple[str, ...]
    undoes: str
    tidied: str


def commits(repository: Repository, path: str = "") -> list[Commit]:
    """The commits, or those that changed `path`; the newest first.

    Raises:
        GitFailed: git refused.
    """
    if not repository.git_dir.exists() or not repository.head():
        return []
    where = ("--", f":(top,literal){path}") if path else ()
    told = repository.git("log", "-z", f"--format={_FORMAT}", BRANCH, *where)
    return [_commit(row) for row in told.decode("utf-8", "replace").split("\0") if row]


def named(repository: Repository, name: str) -> str:
    """The whole name of a commit in the present history.

    Raises:
        CommitUnknown: there is none of that name.
    """
    try:
        told = repository.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = told.decode().strip().splitlines()[-1]
        repository.git("merge-base", "--is-ancestor", commit, BRANCH)
    except (GitFailed, IndexError) as error:
        raise CommitUnknown(
            f"There is no commit {name!r} in this history. `nacre memory log` lists them."
        ) from error
    return commit


def shown(repository: Repository, commit: str) -> str:
    """What a commit changed in the notes, as a unified diff; sources are left out. Raises `GitFailed`."""
    notes = (":(top)", f":(top,exclude){SOURCES_FOLDER}")
    # As text, whatever an attribute says; no driver and no signature is asked.
    how = ("-p", "-r", "--root", "--no-commit-id", "--text", "--no-color", "--no-ext-diff", "--no-textconv")
    told = repository.git("diff-tree", *how, commit, "--", *notes)
    return told.decode("utf-8", "replace")


def _commit(row: str) -> Commit:
    commit, at, subject, session_key, session_id, entries, undoes, tidied = row.split("\x1f")
    return Commit(
        commit=commit.strip(),
        at=at,
        subject=subject,
        session_key=session_key.strip(),
        session_id=session_id.strip(),
        entry_ids=tuple(entries.split()),
        undoes=undoes.strip(),
        tidied=tidied.strip(),
    )
