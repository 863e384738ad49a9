"""The owner's own git, and what a stranger puts there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

OWN_NOTE = "- The old boat is called Halcyon\n"


def owner_git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """What the owner's git prints, without the configuration of this machine."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Owner" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "owner@localhost" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=given, capture_output=True, check=True, env=environment
    )
    return done.stdout.decode().strip()


def owners_history(root: Path) -> None:
    """Makes a workspace with two commits of the owner's in its `.git`."""
    root.mkdir(parents=True, exist_ok=True)
    owner_git(root, "-c", "init.defaultBranch=main", "init", "-q")
    (root / "MEMORY.md").write_text("# Memory\n", encoding="utf-8")
    for subject in ("The notes as they were\n", "Notes in MEMORY.md\n\nNacre-Session-Id: old\n"):
        owner_git(root, "add", "-A")
        owner_git(root, "commit", "-q", "-m", subject)
        (root / "MEMORY.md").write_text(f"# Memory\n{OWN_NOTE}", encoding="utf-8")
    owner_git(root, "add", "-A")
    owner_git(root, "commit", "-q", "--amend", "--no-edit")


def _config(text: str, attributes: str = "") -> Callable[[Path, str], None]:
    def poison(root: Path, run: str) -> None:
        with (root / ".git/config").open("a", encoding="utf-8") as config:
            config.write(text.replace("RUN", run) + "\n")
        if attributes:
            (root / ".gitattributes").write_text(f"*.md {attributes}\n", encoding="utf-8")

    return poison


def _filter_in_info(root: Path, run: str) -> None:
    _config('[filter "x"]\n\tclean = RUN\n\trequired = true')(root, run)
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* filter=x diff=x merge=x\n", encoding="utf-8")


def _hooks(root: Path, run: str) -> None:
    names = ("reference-transaction", "post-commit", "pre-commit", "post-checkout", "post-index-change")
    for name in (*names, "pre-auto-gc", "post-rewrite", "commit-msg", "prepare-commit-msg", "post-merge"):
        hook = root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
        hook.chmod(0o755)


def _include(root: Path, run: str) -> None:
    (root / "more.cfg").write_text(
        f'[filter "x"]\n\tclean = {run}\n[core]\n\tfsmonitor = {run}\n', encoding="utf-8"
    )
    _config(f"[include]\n\tpath = {root / 'more.cfg'}", "filter=x")(root, run)


def _signed(root: Path, run: str) -> None:
    commit = owner_git(root, "cat-file", "commit", "HEAD")
    head, _blank, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----"
    given = f"{head}\n{signature}\n\n{message}\n".encode()
    made = owner_git(root, "hash-object", "-t", "commit", "-w", "--stdin", given=given)
    owner_git(root, "update-ref", "HEAD", made)
    _config("[log]\n\tshowSignature = true\n[gpg]\n\tprogram = RUN\n[commit]\n\tgpgSign = true")(root, run)


def _promisor(root: Path, run: str) -> None:
    _config(
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n"
        '[remote "evil"]\n\turl = ext::RUN\n\tpromisor = true\n[protocol "ext"]\n\tallow = always'
    )(root, run)
    blob = owner_git(root, "rev-parse", "HEAD:MEMORY.md")
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()


def _submodule(root: Path, run: str) -> None:
    sub = root / "sub"
    sub.mkdir()
    owner_git(sub, "init", "-q")
    (sub / "a.md").write_text("a\n", encoding="utf-8")
    owner_git(sub, "add", "-A")
    owner_git(sub, "commit", "-q", "-m", "sub")
    owner_git(root, "add", "sub")
    owner_git(root, "commit", "-q", "-m", "Notes in sub\n\nNacre-Session-Id: old")
    with (sub / ".git/config").open("a", encoding="utf-8") as config:
        config.write(f'[core]\n\tfsmonitor = {run}\n\thooksPath = {root}\n[filter "x"]\n\tclean = {run}\n')
    _config("[diff]\n\tsubmodule = log\n[submodule]\n\trecurse = true\n\tactive = .", "filter=x")(root, run)


def _replaced(root: Path, run: str) -> None:
    evil = owner_git(root, "hash-object", "-w", "--stdin", given=b"# Memory\n- replaced\n")
    owner_git(root, "replace", owner_git(root, "rev-parse", "HEAD:MEMORY.md"), evil)
    _config('[core]\n\tuseReplaceRefs = true\n[filter "x"]\n\tclean = RUN', "filter=x")(root, run)


def _worktree_config(root: Path, run: str) -> None:
    _config("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true", "filter=x")(
        root, run
    )
    text = f'[filter "x"]\n\tclean = {run}\n[core]\n\tfsmonitor = {run}\n'
    (root / ".git/config.worktree").write_text(text, encoding="utf-8")


_PROGRAMS = (
    *(f"[alias]\n\t{each} = !RUN" for each in ("log", "show", "ls-tree", "fsck")),
    "[core]\n\taskPass = RUN\n\tgitProxy = RUN\n\teditor = RUN\n\tpager = RUN\n\tsshCommand = RUN",
    "[credential]\n\thelper = !RUN",
    "[sequence]\n\teditor = RUN\n[interactive]\n\tdiffFilter = RUN",
    "[uploadpack]\n\tpackObjectsHook = RUN\n[gc]\n\tauto = 1\n\trecentObjectsHook = RUN",
    "[pager]\n\tlog = RUN\n\tshow = RUN\n\tdiff = RUN",
    '[remote "origin"]\n\turl = ssh://evil/x\n\tuploadpack = RUN',
    '[trailer "Nacre-Session-Id"]\n\tcommand = RUN\n\tcmd = RUN',
)
"""Programs of the configuration that none of the others below gets in the way of."""

POISONS: dict[str, Callable[[Path, str], None]] = {
    "attributes-file": _config(
        '[core]\n\tattributesFile = .gitattributes\n[filter "x"]\n\tclean = RUN', "filter=x"
    ),
    "diff-command": _config('[diff "x"]\n\tcommand = RUN\n[diff]\n\texternal = RUN', "diff=x"),
    "filter-clean": _config('[filter "x"]\n\tclean = RUN\n\tsmudge = RUN\n\trequired = true', "filter=x"),
    "filter-process": _config('[filter "x"]\n\tprocess = RUN\n\trequired = true', "filter=x"),
    "fsmonitor": _config("[core]\n\tfsmonitor = RUN"),
    "hooks": _hooks,
    "hooks-path": lambda root, run: (
        _hooks(root, run),
        _config("[core]\n\thooksPath = .git/hooks")(root, run),
    )[1],
    "include": _include,
    "info-attributes": _filter_in_info,
    "merge-driver": _config(
        '[merge "x"]\n\tdriver = RUN\n[merge]\n\ttool = x\n[mergetool "x"]\n\tcmd = RUN', "merge=x"
    ),
    "programs": _config("\n".join(_PROGRAMS)),
    "promisor": _promisor,
    "replaced": _replaced,
    "signed": _signed,
    "submodule": _submodule,
    "textconv": _config('[diff "x"]\n\ttextconv = RUN\n\tcachetextconv = true', "diff=x"),
    "worktree": lambda root, run: _config(f"[core]\n\tworktree = {root.parent}")(root, run),
    "worktree-config": _worktree_config,
}
"""What lets a repository run a program, or work elsewhere; each is given the workspace and a command line."""


def canary(folder: Path) -> tuple[str, Path]:
    """A command line, as a repository names one, and the file that is there once it has run."""
    ran, script = folder / "canary.ran", folder / "canary"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n", encoding="utf-8")
    script.chmod(0o755)
    return str(script), ran
