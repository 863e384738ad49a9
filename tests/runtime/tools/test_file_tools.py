"""The file tools as a model calls them: through the toolbox, on real files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nacre.memory.files.skills import Skills
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.file_tools import file_tools
from nacre.runtime.tools.toolbox import MAX_PAGE_CHARS, Toolbox
from nacre.sessions.contracts.messages import ToolCall, message_text
from nacre.sessions.journal.journal import ResultFiles

Call: TypeAlias = Callable[..., Awaitable[str]]
PRIVATE = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
GROUP = ChatPolicy(chat_kind="group", is_owner=True, session_key_is_private=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with something private, something shared, and a secret beside it."""
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "shared").mkdir()
    (folder / ".git").mkdir()
    (folder / "AGENTS.md").write_text("rules\n", encoding="utf-8")
    (folder / "MEMORY.md").write_text("private\n", encoding="utf-8")
    (folder / "memory" / "2026-11-19.md").write_text("- yesterday\n", encoding="utf-8")
    (folder / "shared" / "list.md").write_text("- bread\n", encoding="utf-8")
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def changed() -> list[str]:
    return []


@pytest.fixture
def owner(root: Path, changed: list[str]) -> Call:
    return _caller(root, PRIVATE, changed)


@pytest.fixture
def group(root: Path, changed: list[str]) -> Call:
    return _caller(root, GROUP, changed)


def _caller(root: Path, policy: ChatPolicy, changed: list[str]) -> Call:
    workspace = FolderWorkspace(root, lock_dir=root.parent / "locks")
    tools = file_tools(
        workspace,
        policy,
        on_changed=changed.append,
        now=lambda: datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
        whole_results=ResultFiles(root.parent / "session.jsonl"),
        read_skill=Skills(workspace).read,
        page_chars=MAX_PAGE_CHARS,
    )
    toolbox = Toolbox(tools, now_ms=lambda: 0)

    async def call(name: str, /, **arguments: Any) -> str:
        outcome = await toolbox.run(ToolCall(id="c1", name=name, arguments=arguments))
        return ("ERROR " if outcome.message.is_error else "") + message_text(outcome.message)

    return call


async def test_write_read_edit_append_list(root: Path, owner: Call, changed: list[str]) -> None:
    """The five tools do their work on one file, and each change is announced."""
    assert await owner("write", path="plans/trip.md", content="# Trip\n- Monday\n") == (
        "Wrote 16 characters to plans/trip.md."
    )
    assert await owner("edit", path="plans/trip.md", old_text="Monday", new_text="Tuesday") == (
        "Replaced one passage in plans/trip.md."
    )
    await owner("append", path="plans/trip.md", text="- tickets")
    assert await owner("read", path="plans/trip.md") == "# Trip\n- Tuesday\n- tickets"
    assert await owner("read", **{"path": "plans/trip.md", "from": 2, "lines": 1}) == (
        "- Tuesday\n\n[Lines 2-2 of 3; go on with from=3.]"
    )
    assert await owner("list", path="plans") == "trip.md (27 bytes)"
    assert await owner("list") == "AGENTS.md (6 bytes)\nMEMORY.md (8 bytes)\nmemory/\nplans/\nshared/"
    assert changed == ["plans/trip.md"] * 3


@pytest.mark.covers("Q-42")
async def test_today_log_by_its_pattern(root: Path, owner: Call, changed: list[str]) -> None:
    """A path with a literal YYYY-MM-DD means today in the owner's zone."""
    await owner("append", path="memory/YYYY-MM-DD.md", text="- staging uses port 8443")

    assert (root / "memory" / "2026-11-20.md").read_text(encoding="utf-8") == "- staging uses port 8443\n"
    assert changed == ["memory/2026-11-20.md"]


async def test_daily_logs_only_grow(root: Path, owner: Call, changed: list[str]) -> None:
    """`write` refuses an existing log and names the way; `edit` may correct one."""
    answer = await owner("write", path="memory/2026-11-19.md", content="")

    assert answer.startswith("ERROR memory/2026-11-19.md is a daily log, and logs only grow. Use `append`")
    assert (root / "memory" / "2026-11-19.md").read_text(encoding="utf-8") == "- yesterday\n"
    assert changed == []
    assert not (
        await owner("edit", path="memory/2026-11-19.md", old_text="yest", new_text="Yest")
    ).startswith("ERROR")
    assert not (await owner("write", path="memory/2026-11-18.md", content="- late\n")).startswith("ERROR")


async def test_repeats_are_left_out_of_notes_only(root: Path, owner: Call, changed: list[str]) -> None:
    """A note that already stands in memory is not added again; a list elsewhere is the owner's business."""
    assert await owner("append", path="memory/2026-11-19.md", text="- yesterday") == (
        "Nothing was added: memory/2026-11-19.md already contains all of it."
    )
    assert changed == []
    assert (await owner("append", path="MEMORY.md", text="private\n\nnew")).endswith(
        "Left out parts that it already contains: 1."
    )
    await owner("append", path="shared/list.md", text="- bread")
    assert (root / "shared" / "list.md").read_text(encoding="utf-8") == "- bread\n- bread\n"


@pytest.mark.parametrize(
    "path", ["../secret.md", "/etc/passwd", "link.md", "up/secret.md", "a\0b", "~/x", "loop"]
)
@pytest.mark.parametrize("tool", ["read", "write", "edit", "append", "list"])
@pytest.mark.covers("ATT-5")
async def test_nothing_outside_can_be_reached(root: Path, owner: Call, tool: str, path: str) -> None:
    """Every tool refuses every way out with a sentence."""
    (root / "link.md").symlink_to("../secret.md")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    rest = {
        "read": {},
        "list": {},
        "write": {"content": "x"},
        "append": {"text": "x"},
        "edit": {"old_text": "secret", "new_text": "x"},
    }[tool]

    assert (await owner(tool, path=path, **rest)).startswith("ERROR The path")
    assert (root.parent / "secret.md").read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", "memory/2026-11-19.md", "shared/alias.md", "shared/twin.md", "shared/none/../../MEMORY.md"],
)
async def test_group_reads_nothing_private(root: Path, group: Call, path: str) -> None:
    """Neither a private file nor a symbolic or hard link to one is shown in a group."""
    (root / "shared" / "alias.md").symlink_to("../MEMORY.md")
    (root / "shared" / "twin.md").hardlink_to(root / "MEMORY.md")

    answer = await group("read", path=path)

    assert answer.startswith("ERROR")
    assert "private\n" not in answer


async def test_group_sees_and_changes_only_what_is_shared(
    root: Path, group: Call, changed: list[str]
) -> None:
    """A group lists and reads the open files, and writes below shared/."""
    assert await group("list") == "AGENTS.md (6 bytes)\nshared/"
    assert (await group("list", path="memory")).startswith("ERROR memory is not available in this chat")
    assert await group("read", path="AGENTS.md") == "rules"
    assert (
        await group("append", path="shared/list.md", text="- milk")
        == "Appended 6 characters to shared/list.md."
    )
    for path in ("AGENTS.md", "MEMORY.md", "memory/2026-11-20.md", "new.md"):
        assert (await group("append", path=path, text="x")).startswith(
            f"ERROR {path} cannot be changed in this chat"
        )
    assert changed == ["shared/list.md"]


async def test_programs_folders_are_not_written(root: Path, owner: Call) -> None:
    """Not even the owner's chat writes into .git, where files are run."""
    assert await owner("write", path=".git/hooks/pre-commit", content="x") == (
        "ERROR .git/hooks/pre-commit belongs to a program, so tools cannot write it."
    )


async def test_what_is_no_text_is_neither_shown_nor_overwritten(root: Path, owner: Call) -> None:
    """Binary files are refused; what is not UTF-8 is read as Windows-1252 and never written over."""
    (root / "a.zip").write_bytes(b"PK\0\1")
    (root / "latin.md").write_bytes(b"caf\xe9\n")

    assert (
        await owner("read", path="a.zip") == "ERROR a.zip is a binary file of 4 bytes; only text can be read."
    )
    assert await owner("read", path="latin.md") == "café"
    for path in ("a.zip", "latin.md"):
        assert (await owner("write", path=path, content="x")).startswith(f"ERROR {path} is")
        assert (await owner("edit", path=path, old_text="c", new_text="x")).startswith(f"ERROR {path} is")
    assert (root / "latin.md").read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("read", {"path": "none.md"}, "'none.md' does not exist. Use `list`"),
        ("read", {"path": "memory"}, "memory is a folder. Use `list`"),
        ("read", {"path": "AGENTS.md/x"}, "is not a folder, or leads through a file"),
        ("read", {"path": "AGENTS.md", "from": 9}, "Line 9 is past the end"),
        ("list", {"path": "AGENTS.md"}, "is not a folder"),
        ("list", {"path": "none"}, "does not exist"),
        ("edit", {"path": "none.md", "old_text": "a", "new_text": "b"}, "does not exist"),
        ("write", {"path": "memory", "content": "x"}, "memory is a folder. Use `list`"),
        ("write", {"path": "AGENTS.md/x.md", "content": "x"}, "not a folder"),
        ("append", {"path": "n.md", "text": "  "}, "The text is empty"),
        ("append", {"path": "n.md", "text": "\ud800"}, "broken character"),
        ("read", {"path": "AGENTS.md", "form": 2}, "form: Extra inputs are not permitted"),
    ],
)
async def test_mistakes_are_answered_with_a_sentence(
    owner: Call, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    """The model learns what was wrong and what to do."""
    answer = await owner(tool, **arguments)

    assert answer.startswith("ERROR ")
    assert problem in answer


async def test_the_workspace_holds_no_lock_files(root: Path, owner: Call) -> None:
    """After writing in every way, only the files themselves stand in the workspace."""
    await owner("write", path="n.md", content="a\n")
    await owner("edit", path="n.md", old_text="a", new_text="b")
    await owner("append", path="n.md", text="c")

    assert _names(root) == [".git", "AGENTS.md", "MEMORY.md", "memory", "n.md", "shared"]


async def test_big_file_says_how_much_was_read(root: Path, owner: Call) -> None:
    """A file beyond the read bound is shown in part and says so."""
    (root / "big.md").write_bytes(b"line\n" * 500_000)

    answer = await owner("read", path="big.md")

    assert "go on with from=2001" in answer
    assert answer.endswith("[Only the first 2097152 of 2500000 bytes were read.]")


async def test_a_long_folder_says_how_much_is_not_shown(root: Path, owner: Call) -> None:
    """The first 500 entries by name, and the number of the others."""
    (root / "many").mkdir()
    for number in range(503):
        (root / "many" / f"{number:03}.md").touch()

    shown = (await owner("list", path="many")).splitlines()

    assert shown[-2:] == ["499.md (0 bytes)", "[... and 3 more]"]
    assert len(shown) == 501


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
