"""The workspace's `hooks/` folder: what runs, what does not, and that no tool can change that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.hooks.trust import HookFile, TrustedHooks, hook_files, register_workspace_hooks
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import opened

TRUST_FILE = "trusted-hooks.json"
GUARD = """
from __future__ import annotations
from dataclasses import dataclass
from nacre import Deny

@dataclass
class Mine:
    path: str

def register(hooks):
    with open({mark!r}, "a") as mark:
        mark.write("ran;")
    @hooks.on("before_tool")
    def guard(event):
        return Deny("that is mine") if Mine(event.arguments["path"]).path == "SOUL.md" else None
"""


def _now() -> datetime:
    return datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def _hook(workspace: Path, name: str, text: str) -> Path:
    (workspace / "hooks").mkdir(parents=True, exist_ok=True)
    path = workspace / "hooks" / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return path


def _trust(workspace: Path, trusted: TrustedHooks, *names: str) -> None:
    for file in hook_files(workspace):
        if file.name in names:
            trusted.trust(file, now=_now)


async def _said(state: Path, workspace: Path, steps: Sequence[object]) -> tuple[tuple[str, ...], list[str]]:
    """What opening tells, and the results of the tools that the model calls in one turn."""
    model = ScriptedModel(*steps)
    async with opened(state, model, workspace=workspace) as agent:
        await agent.ask("please")
        results = [
            message_text(message)
            for message in model.requests[-1].messages
            if isinstance(message, ToolResultMessage)
        ]
        return agent.notices, results


async def test_a_hook_runs_only_while_its_content_is_trusted(tmp_path: Path) -> None:
    """Not before it is trusted, then as a guard, and not after the model changed it."""
    state, workspace, mark = tmp_path / "state", tmp_path / "notes", tmp_path / "mark"
    _hook(workspace, "guard", GUARD.format(mark=str(mark)))
    write = calls(("write", {"path": "SOUL.md", "content": "x"}))
    change = calls(("write", {"path": "hooks/guard.py", "content": "raise SystemExit"}))

    notices, results = await _said(state, workspace, (write, says("Done.")))
    assert any(
        "hooks/guard.py" in text and "nacre admin extensions hooks trust guard" in text for text in notices
    )
    assert not mark.exists()
    assert "Wrote" in results[0]

    _trust(workspace, TrustedHooks(state / "agents/main" / TRUST_FILE), "guard")
    notices, results = await _said(state, workspace, (write, change, says("Done.")))
    assert not any("hooks/" in text for text in notices)
    assert mark.read_text(encoding="utf-8") == "ran;"
    assert "that is mine" in results[-2]
    assert "Wrote" in results[-1]

    notices, results = await _said(state, workspace, (write, says("Done.")))
    assert any("hooks/guard.py" in text and "changed" in text for text in notices)
    assert mark.read_text(encoding="utf-8") == "ran;"
    assert "Wrote" in results[-1]


def test_a_broken_file_takes_nothing_along_and_leaves_nothing(tmp_path: Path) -> None:
    """Each of them is named, what it had registered is taken back, and the others run."""
    _hook(tmp_path, "a_syntax", "def register(hooks: broken")
    _hook(tmp_path, "b_half", "def register(hooks):\n    hooks.on('inbound', print)\n    1 / 0")
    _hook(tmp_path, "c_none", "x = 1")
    _hook(tmp_path, "d_async", "async def register(hooks): pass")
    _hook(tmp_path, "e_exit", "raise SystemExit(3)")
    _hook(tmp_path, "f_good", "def register(hooks):\n    hooks.on('outbound', print)")
    trusted = TrustedHooks(tmp_path / "state" / TRUST_FILE)
    _trust(tmp_path, trusted, *(file.name for file in hook_files(tmp_path)))
    hooks = Hooks()

    notices = register_workspace_hooks(tmp_path, trusted, hooks)

    failed = ("a_syntax", "b_half", "c_none", "d_async", "e_exit")
    assert [name in text for name, text in zip(failed, notices, strict=True)] == [True] * 5
    assert "ZeroDivisionError" in notices[1]
    assert not hooks.hears("inbound")
    assert hooks.hears("outbound")


def test_only_regular_files_directly_in_the_folder(tmp_path: Path) -> None:
    """A link, a folder, a strange name are told and cannot be trusted; a compiled file is not looked at."""
    real = _hook(tmp_path / "elsewhere", "real", "def register(hooks): pass")
    _hook(tmp_path, "good", "def register(hooks): pass")
    folder = tmp_path / "hooks"
    (folder / "link.py").symlink_to(real)
    (folder / "folder.py").mkdir()
    (folder / "strange name.py").touch()
    (folder / "below").mkdir()
    (folder / "below" / "deep.py").touch()
    (folder / "good.pyc").write_bytes(b"compiled")

    states = {file.name: file.state({}) for file in hook_files(tmp_path)}

    assert states == {
        "folder": "unusable",
        "good": "not trusted",
        "link": "unusable",
        "strange name": "unusable",
    }
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "hooks").symlink_to(folder)
    assert hook_files(tmp_path / "linked") == ()
    assert hook_files(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    "damage", [b"{", b"[]", b'{"version": 2, "hooks": {}}', b'{"version": 1, "hooks": {"a": 1}}']
)
def test_a_damaged_list_trusts_nothing_and_is_set_aside(tmp_path: Path, damage: bytes) -> None:
    """No hook runs, the owner is told, and the next trust keeps the bytes beside the new file."""
    _hook(tmp_path, "a", "1 / 0")
    file = tmp_path / "state" / TRUST_FILE
    file.parent.mkdir()
    file.write_bytes(damage)
    trusted = TrustedHooks(file)

    (notice,) = register_workspace_hooks(tmp_path, trusted, Hooks())
    _trust(tmp_path, trusted, "a")

    assert "no hook of the workspace is trusted" in notice
    assert [path.read_bytes() for path in file.parent.glob("*.corrupt-*")] == [damage]
    assert file.stat().st_mode & 0o777 == 0o600
    assert trusted.digests() == {"a": HookFile(name="a", data=b"1 / 0").sha256}
    assert trusted.distrust("a", now=_now)
    assert not trusted.distrust("a", now=_now)
    assert trusted.digests() == {}


async def test_no_file_tool_reads_a_state_folder(tmp_path: Path) -> None:
    """Inside the workspace it belongs to programs: conversations, keys and trust are shown to no model."""
    workspace, secret = tmp_path / "one", "sk-7391"
    state = workspace / "state"
    (state / "agents" / "main" / "sessions").mkdir(parents=True)
    (workspace / "door").symlink_to(state / "agents")
    (state / "nacre.json5").write_text(f"{{/* {secret} */}}", encoding="utf-8")
    (state / "agents" / "main" / TRUST_FILE).write_text("{}", encoding="utf-8")
    paths = ("state/nacre.json5", f"state/agents/main/{TRUST_FILE}", f"door/main/{TRUST_FILE}")
    reads = [calls(("read", {"path": path})) for path in paths]
    lists = [calls(("list", {"path": path})) for path in ("state", "state/agents/main/sessions", "door")]
    mine = calls(("read", {"path": "plan.md"}))
    (workspace / "plan.md").write_text("mine", encoding="utf-8")

    _, results = await _said(state, workspace, (*reads, *lists, mine, says("Done.")))

    assert [text == "mine" for text in results] == [False] * 6 + [True], results
    assert secret not in str(results)


async def test_no_file_tool_grants_trust(tmp_path: Path) -> None:
    """Where the workspace is the parent of the state folder, or the state folder itself, tools fail."""
    for name, workspace in (("parent", tmp_path / "one"), ("same", tmp_path / "two" / "state")):
        state = workspace / "state" if name == "parent" else workspace
        prefix = "state/" if name == "parent" else ""
        (workspace / "door").parent.mkdir(parents=True, exist_ok=True)
        (state / "agents" / "main").mkdir(parents=True)
        (workspace / "door").symlink_to(state / "agents")
        trust = f"{prefix}agents/main/{TRUST_FILE}"
        paths = (
            trust,
            trust.upper(),
            f"door/main/{TRUST_FILE}",
            str(state / "agents" / "main" / TRUST_FILE),
            f"{prefix}nacre.json5",
            f"{prefix}agents/main/approvals/x.json",
        )
        steps = [calls(("write", {"path": path, "content": "{}"})) for path in paths]
        adds = [calls(("append", {"path": path, "text": "{}"})) for path in paths]
        note = calls(("write", {"path": "plan.md", "content": "mine"}))

        _, results = await _said(state, workspace, (*steps, *adds, note, says("Done.")))

        assert ["belongs to a program" in text for text in results] == [True] * 12 + [False], results
        assert (workspace / "plan.md").read_text(encoding="utf-8") == "mine"
        assert not (state / "agents" / "main" / TRUST_FILE).exists()
        assert not (state / "nacre.json5").exists()


@pytest.mark.parametrize(
    "ending", ["raise KeyboardInterrupt", "raise SystemExit", "import threading; threading.Event().wait(60)"]
)
def test_a_file_that_hangs_or_ends_the_program_is_left_out(tmp_path: Path, ending: str) -> None:
    """Its handlers stay out, also those that it registers later, and the files behind it run."""
    trusted = TrustedHooks(tmp_path / TRUST_FILE)
    on = "def register(hooks):\n    hooks.on('after_turn', print)\n"
    _hook(tmp_path, "a", f"{on}    {ending}\n    hooks.on('before_turn', print)\n")
    _hook(tmp_path, "b", on.replace("after_turn", "after_tool"))
    _trust(tmp_path, trusted, "a", "b")
    hooks = Hooks()

    [said] = register_workspace_hooks(tmp_path, trusted, hooks, load_seconds=0.2)

    assert "hooks/a.py" in said
    assert not hooks.hears("after_turn", "before_turn")
    assert hooks.hears("after_tool")
