"""The policy: private means proven private, and aliases open nothing."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.policy import ChatPolicy

PRIVATE = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
GROUP = ChatPolicy(chat_kind="group", is_owner=True, session_key_is_private=True)
GROUP_FILES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
SECRETS = (
    "MEMORY.md",
    "USER.md",
    "memory/2026-11-20.md",
    "HEARTBEAT.md",
    "notes/plan.md",
    ".git/config",
    ".",
)
NAMES = st.lists(
    st.text(min_size=1, max_size=8).filter(lambda text: "/" not in text)
    | st.sampled_from(
        ["shared", "Shared", "memory", "MEMORY.md", "memory.MD", ".git", ".GIT", "AGENTS.md", ".."]
    ),
    max_size=4,
).map(lambda parts: PurePosixPath(*parts))


@given(kind=st.text() | st.sampled_from(["direct", "group", "channel", "Direct", ""]), owner=..., key=...)
def test_only_the_owner_in_a_direct_private_session_is_private(kind: str, owner: bool, key: bool) -> None:
    """Any doubt about chat, person or session makes the chat a group."""
    policy = ChatPolicy(chat_kind=kind, is_owner=owner, session_key_is_private=key)

    assert policy.is_private == (kind == "direct" and owner and key)
    assert policy.loads_daily_logs == policy.is_private
    assert (policy.audience == "group") == (kind != "direct")


@pytest.mark.parametrize("doubtful", [None, 1, "yes", object()])
def test_truthy_values_prove_nothing(doubtful: object) -> None:
    """A bridge that hands over something other than `True` gets a group."""
    assert not ChatPolicy(chat_kind="direct", is_owner=doubtful, session_key_is_private=True).is_private  # type: ignore[arg-type]
    assert not ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=doubtful).is_private  # type: ignore[arg-type]


def test_private_chat_reads_and_writes_its_workspace() -> None:
    """The owner alone sees everything and may change everything but what programs own."""
    for name in (*GROUP_FILES, *SECRETS, "shared/list.md"):
        assert PRIVATE.may_read(PurePosixPath(name))
    for name in (*GROUP_FILES, "MEMORY.md", "memory/2026-11-20.md", ".gitignore", "shared/list.md"):
        assert PRIVATE.may_write(PurePosixPath(name))
    for name in (".git/hooks/pre-commit", ".GIT/config", ".git", ".Git", "a/.obsidian/x", ".cache/x", "."):
        assert not PRIVATE.may_write(PurePosixPath(name))


def test_group_reads_four_files_and_the_shared_folder() -> None:
    """What a group may see is named; everything else is refused."""
    for name in (*GROUP_FILES, "shared", "shared/list.md", "shared/a/b.md"):
        assert GROUP.may_read(PurePosixPath(name))
    for name in SECRETS:
        assert not GROUP.may_read(PurePosixPath(name))


def test_group_writes_only_below_shared() -> None:
    """A group changes files in `shared/` and nothing else, not even what it may read."""
    assert GROUP.may_write(PurePosixPath("shared/list.md"))
    for name in (*GROUP_FILES, *SECRETS, "shared", "shared/.git/hooks/x", "Shared/list.md"):
        assert not GROUP.may_write(PurePosixPath(name))


@given(path=NAMES)
def test_no_alias_of_a_private_file_is_open_to_a_group(path: PurePosixPath) -> None:
    """Whatever is readable for a group is one of the named files or lies below `shared`, by exact name."""
    if GROUP.may_read(path):
        assert str(path) in GROUP_FILES or path.parts[0] == "shared"
    if GROUP.may_write(path):
        assert GROUP.may_read(path)


@given(path=NAMES, form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_case_and_unicode_forms_give_a_group_nothing_new(path: PurePosixPath, form: str) -> None:
    """Respelling a private file's name never makes it readable."""
    folded = unicodedata.normalize(form, str(path)).casefold()
    if folded.startswith(("memory", "user.md", ".git")):
        assert not GROUP.may_read(path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "shared/../MEMORY.md", "shared/a\0"])
def test_paths_that_are_not_plain_are_refused_for_everyone(name: str) -> None:
    """The policy answers only for plain relative names."""
    for policy in (PRIVATE, GROUP):
        assert not policy.may_read(PurePosixPath(name))
        assert not policy.may_write(PurePosixPath(name))


@pytest.mark.covers("A1-13")
def test_context_files_stand_in_a_fixed_order() -> None:
    """Stable files come first; the private ones exist only in a private chat."""
    assert GROUP.context_files() == GROUP_FILES
    assert PRIVATE.context_files() == (*GROUP_FILES, "USER.md", "MEMORY.md")
