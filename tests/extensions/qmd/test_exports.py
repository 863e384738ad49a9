"""Past conversations as Markdown for qmd: the owner's private ones, and no others."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.extensions.qmd.qmd_memory import qmd_home
from nacre.runtime.models.scripted import ScriptedModel, says
from tests.extensions.qmd.homes import called, private_chat, started, written
from tests.extensions.qmd.stand_in import StandIn
from tests.runtime.agents import START, events_of, opened, said


@pytest.mark.covers("QMD-29", "QMD-38")
async def test_private_conversations_are_found_and_a_group_never_is(tmp_path: Path) -> None:
    """Words of the owner and answers, without keys; unchanged files stay, old and strange ones go or stay."""
    program = StandIn(tmp_path / "program")
    qmd = {
        "sessions": {"enabled": True, "retentionDays": 3},
        "update": {"onBoot": False, "interval": "0", "debounceMs": 0},
    }
    config = written(tmp_path, qmd, command=program.command)
    model = ScriptedModel(says("The zeppelin lands at nine."), says("Group zeppelin noted."))
    async with opened(tmp_path, model) as agent:
        await events_of(agent, said("When does the zeppelin land? token=abcdef123456"))
        await events_of(agent, said("A group asks", chat_kind="group", channel="telegram", chat_id="7"))
        await agent.index_notes(wait_seconds=30)

    folder = qmd_home(config).sessions
    (export,) = folder.glob("*.md")
    text = export.read_text(encoding="utf-8")
    strange = folder / "strange.md"
    strange.write_text("# My own file\n", encoding="utf-8")
    gone = folder / "gone.md"
    gone.write_text("# Session gone\n\nUser: nothing\n", encoding="utf-8")
    inode = export.stat().st_ino
    async with started(config) as engine:
        await engine.sync()
        found = await called(engine, private_chat(config), "memory_search", query="zeppelin")
        (path,) = [item["path"] for item in found["results"] if item["source"] == "sessions"]
        read = await called(engine, private_chat(config), "memory_get", path=path)

    assert text.startswith(f"# Session {export.stem}\n")
    assert "User: When does the zeppelin land? token=[redacted]" in text
    assert "Assistant: The zeppelin lands at nine." in text
    assert "roup" not in text
    assert path == f"qmd/sessions-main/{export.name}"
    assert "lands at nine" in read["text"]
    assert export.stat().st_ino == inode
    assert strange.exists()
    assert not gone.exists()

    (transcript,) = [
        file
        for file in config.folders.sessions_file.parent.glob("*.jsonl")
        if "zeppelin land?" in file.read_text(encoding="utf-8")
    ]
    old = (START - timedelta(days=4)).timestamp()
    os.utime(transcript, (old, old))
    async with started(config) as engine:
        await engine.sync()
    assert not export.exists()
    assert transcript.exists()
