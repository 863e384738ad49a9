"""`nacre import chatgpt` on a data export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import run_here, run_nacre
from tests.extensions.importers import exports
from tests.extensions.importers.results import (
    branch_messages,
    import_report,
    numbers,
    reasons,
    transcripts,
    workspace,
)


def test_an_archive_comes_over_and_adds_up(tmp_path: Path) -> None:
    """Conversations, pictures, memories and instructions come over; a name that leads out stays out."""
    told = import_report(tmp_path, "chatgpt", exports.chatgpt(tmp_path / "export.zip"))
    assert numbers(told, "files") == (5, 2, 0, 3)
    assert numbers(told, "sessions") == (3, 3, 0, 0)
    assert numbers(told, "messages") == (9, 7, 0, 2)
    assert numbers(told, "attachments") == (1, 1, 0, 0)
    assert reasons(told, "files")["its name leads outside the archive"] == ["../escape.md"]
    assert not list(tmp_path.rglob("escape.md"))
    notes = workspace(tmp_path)
    assert "allergic to walnuts" in notes["memory/imports/chatgpt/memories.md"]
    assert "Answer in one sentence." in notes["memory/imports/chatgpt/custom-instructions.md"]


def test_a_session_ends_with_the_branch_that_was_shown(tmp_path: Path) -> None:
    """Of two answers the shown one is the session's; the other one is kept beside it."""
    import_report(tmp_path, "chatgpt", exports.chatgpt(tmp_path / "export.zip"))
    lines = transcripts(tmp_path)["Knots"]
    assert branch_messages(lines) == [("user", "Name a knot."), ("assistant", "Bowline.")]
    assert "Clove hitch." in json.dumps(lines)
    shown = run_here(tmp_path, "sessions", "show", lines[0]["id"]).stdout
    assert "Name:          Knots" in shown
    assert "[2025-03-15 00:53] Assistant: Bowline." in shown


def test_what_was_said_is_found_at_once(tmp_path: Path) -> None:
    """Without a setting: the import names the command, and imports are listed where no session is open."""
    done = run_here(tmp_path, "import", "chatgpt", str(exports.chatgpt(tmp_path / "export.zip")))
    assert "`nacre sessions search WORD` finds" in done.stdout

    found = run_here(tmp_path, "sessions", "search", "BOWLINE").stdout
    assert found.endswith("(Knots), earlier · 66104b1f · 2025-03-15\n  Bowline.\n")
    assert "Name a knot." in run_here(tmp_path, "sessions", "list").stdout


def test_a_session_can_be_gone_on_with(tmp_path: Path) -> None:
    """`nacre sessions resume` goes back to an imported conversation, and another import leaves it alone."""
    archive = exports.chatgpt(tmp_path / "export.zip")
    import_report(tmp_path, "chatgpt", archive)
    identity = transcripts(tmp_path)["Knots"][0]["id"]
    run = run_here(tmp_path, "sessions", "resume", identity, "--json")
    assert json.loads(run.stdout)["resumed"] is True
    key = json.loads(run.stdout)["key"]
    assert key.startswith("agent:main:direct:chatgpt-knots-")
    assert run_here(tmp_path, "send", "--session", key, "-m", "Which one is for anchors?").returncode == 0
    words = branch_messages(transcripts(tmp_path)["Knots"])
    assert words[:3] == [
        ("user", "Name a knot."),
        ("assistant", "Bowline."),
        ("user", "Which one is for anchors?"),
    ]
    assert numbers(import_report(tmp_path, "chatgpt", archive), "messages") == (9, 0, 7, 2)
    assert branch_messages(transcripts(tmp_path)["Knots"]) == words


def test_a_later_export_brings_what_is_new(tmp_path: Path) -> None:
    """Messages that came since go behind the others, also under another title; memories go beside."""
    import_report(tmp_path, "chatgpt", exports.chatgpt(tmp_path / "first.zip"))
    conversations = exports.chatgpt_conversations()
    sails = conversations[0]
    sails["title"] = "Sails of summer"
    sails["mapping"]["q2"] = exports.message("q2", "a", "user", "And in a storm?", 1744000000.0)
    sails["mapping"]["m2"] = exports.memory("m2", "q2", "1. Likes storms.", 1744000001.0)
    sails["current_node"] = "q2"
    told = import_report(tmp_path, "chatgpt", exports.chatgpt(tmp_path / "second.zip", conversations))
    assert numbers(told, "messages") == (11, 1, 7, 3)
    assert numbers(told, "notes") == (2, 1, 1, 0)
    assert branch_messages(transcripts(tmp_path)["Sails"])[-1] == ("user", "And in a storm?")
    assert len([path for path in workspace(tmp_path) if "chatgpt/memories" in path]) == 2


def test_an_export_without_conversations_has_nothing_to_import(tmp_path: Path) -> None:
    """An empty array is a file that was looked at and skipped."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text("[ ]")
    told = import_report(tmp_path, "chatgpt", folder)
    assert reasons(told, "files")["it contains nothing to import"] == ["conversations.json"]


def test_an_export_that_was_saved_again_is_read(tmp_path: Path) -> None:
    """Programs on Windows put a byte order mark in front."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps(exports.chatgpt_conversations()), "utf-8-sig")
    told = import_report(tmp_path, "chatgpt", folder)
    assert numbers(told, "sessions") == (3, 3, 0, 0)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        (b"", "it ends there"),
        (b'"\xff"', "it is not JSON (invalid bytes in UTF8 string)"),
        (b'"' + b"x" * (66 << 20), "a text in it is longer than 64 MB"),
    ],
    ids=["cut", "broken", "endless"],
)
def test_what_an_archive_that_broke_off_has_comes_over(tmp_path: Path, rest: bytes, problem: str) -> None:
    """Conversations before the break are imported, and the rest is told."""
    folder = tmp_path / "export"
    folder.mkdir()
    text = json.dumps(exports.chatgpt_conversations())
    (folder / "conversations.json").write_bytes(text[: text.index('"c-3"')].encode() + rest)
    told = import_report(tmp_path, "chatgpt", folder)
    assert numbers(told, "sessions") == (3, 2, 0, 1)
    assert f"the file cannot be read beyond this point: {problem}" in reasons(told, "sessions")


def test_what_is_no_archive_is_a_sentence(tmp_path: Path) -> None:
    """A path with nothing, and a file that is no archive, say what to do."""
    (tmp_path / "half.zip").write_bytes(b"PK\x03\x04 and no more")
    for name, words in (("none.zip", "does not exist"), ("half.zip", "Was the download complete?")):
        run = run_nacre(tmp_path, "import", "chatgpt", name)
        assert run.returncode == 2
        assert words in run.stderr


def test_answers_from_the_web_come_over_without_marks(tmp_path: Path) -> None:
    """What stood for a source goes; a name or a label that was shown stays; an earlier import is known."""
    marked = (
        "\ue203It rains.\ue204 \ue200cite\ue202turn0search1\ue202turn2view3\ue201 So says "
        '\ue200entity\ue202["people", "Ann Lee", 0]\ue201 of \ue200url\ue202the office\ue202turn0view1\ue201.'
        "【8†source】【4:0†rain.pdf】\nAnd :contentReference[oaicite:2]{index=2}so on 【8†source】."
    )
    conversations = exports.chatgpt_conversations()
    conversations[1]["mapping"]["k2"]["message"]["content"]["parts"] = [marked]
    archive = exports.chatgpt(tmp_path / "export.zip", conversations)
    import_report(tmp_path, "chatgpt", archive)
    clean = "It rains. So says Ann Lee of the office.\nAnd so on."
    assert branch_messages(transcripts(tmp_path)["Knots"])[-1] == ("assistant", clean)

    [path] = [each for each in tmp_path.rglob("*.jsonl") if clean.splitlines()[0] in each.read_text()]
    path.write_text(path.read_text().replace("It rains.", "It rains. \ue200cite\ue202turn0search1\ue201"))
    assert numbers(import_report(tmp_path, "chatgpt", archive), "messages") == (9, 0, 7, 2)


def test_an_export_that_is_nested_too_deeply_is_a_sentence(tmp_path: Path) -> None:
    """200,000 brackets are told at once; brackets in words do not count."""
    folder = tmp_path / "export"
    folder.mkdir()
    words = json.dumps([*exports.chatgpt_conversations(), '\\"' + "[" * 600])
    (folder / "conversations.json").write_text(words)
    (folder / "conversations-1.json").write_text("[" * 200_000)
    told = import_report(tmp_path, "chatgpt", folder)
    assert numbers(told, "sessions") == (5, 3, 0, 2)
    assert any("it is nested more than 500 levels deep" in reason for reason in reasons(told, "sessions"))
