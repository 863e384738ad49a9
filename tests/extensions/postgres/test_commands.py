"""`nacre admin storage` and `nacre admin workspace`."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.extensions.postgres import ledger_statements
from nacre.extensions.postgres.hosting import TABLES
from nacre.extensions.postgres.ledger import PostgresRows
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from nacre.runtime.ledger.tables import LedgerTables
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import Terminal, run_nacre
from tests.cli.serving.test_serve import line_settings
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.house.tree import ROOT
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres


def _tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_an_agent_moves_and_comes_back(database_url: str, tmp_path: Path) -> None:
    """The conversation goes on in the database; back in new files the notes and transcripts are the same."""
    run_nacre(tmp_path, "send", "Remember the garden")
    workspace, sessions = tmp_path / ".nacre/workspace", tmp_path / ".nacre/agents/main/sessions"
    (workspace / "memory/a.md").write_bytes(b"caf\xe9\r\n")
    notes, said = _tree(workspace), _tree(sessions)

    def migrate(to: str, *options: str) -> tuple[int, dict[str, dict[str, dict[str, object]]]]:
        words = ("admin", "storage", "migrate", "--to", to, "--json", *options)
        ended = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    for _ in range(2):
        code, told = migrate("postgres")
        assert (code, told["problems"]) == (0, [])
        for part in ("sessions", "workspace"):
            assert told[part]["source"] == told[part]["target"]
        assert told["sessions"]["source"]["transcripts"] == 1
        assert told["workspace"]["source"]["files"] == len(notes)
    assert (_tree(workspace), _tree(sessions)) == (notes, said)

    shown = run_nacre(tmp_path, "sessions", "show", "main", NACRE_DATABASE_URL=database_url)
    assert "Remember the garden" in shown.stdout
    code, _ = migrate("files", "--state-dir", str(tmp_path / "new"))
    assert code == 0
    assert _tree(tmp_path / "new/workspace") == notes
    transcripts = {name: data for name, data in said.items() if name.endswith(".jsonl")}
    new = _tree(tmp_path / "new/agents/main/sessions")
    assert {name: data for name, data in new.items() if name.endswith(".jsonl")} == transcripts


def test_another_text_in_the_target_stays(database_url: str, tmp_path: Path) -> None:
    """It is named, the others are copied, and the exit code tells of it."""
    run_nacre(tmp_path, "init")
    run_nacre(tmp_path, "admin", "storage", "migrate", "--to", "postgres", NACRE_DATABASE_URL=database_url)
    (tmp_path / ".nacre/workspace/SOUL.md").write_text("another")
    (tmp_path / ".nacre/workspace/new.md").write_text("new")

    words = ("admin", "storage", "migrate", "--to", "postgres")
    ended = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)

    assert ended.returncode == 1
    assert "another text in the target, which stays: SOUL.md." in ended.stderr
    run_nacre(tmp_path, "admin", "workspace", "pull", "notes", NACRE_DATABASE_URL=database_url)
    assert (tmp_path / "notes/SOUL.md").read_text() != "another"
    assert (tmp_path / "notes/new.md").read_text() == "new"


def test_a_database_has_to_be_named(tmp_path: Path) -> None:
    """Otherwise nothing is begun."""
    ended = run_nacre(tmp_path, "admin", "storage", "migrate", "--to", "files")

    assert ended.returncode == 2
    assert "The settings name no database. Set storage.url or NACRE_DATABASE_URL." in ended.stderr


def test_who_was_let_in_moves_with_the_agent(database_url: str, tmp_path: Path) -> None:
    """Before that a terminal is told; afterwards it finds them there, with what it changed meanwhile."""
    run_nacre(tmp_path, "init")
    file = tmp_path / ".nacre" / LEDGER_FILE

    async def let_in() -> None:
        tables = open_tables(file)
        who, now_ms = ("line", "default", "ann"), epoch_ms(datetime.now(UTC))
        assert await tables.people.ask(who, "ABCD2345", now_ms=now_ms, since_ms=0, most=3)
        assert await tables.people.approve("ABCD2345", "guest", now_ms=now_ms, since_ms=0) == who
        await tables.close()

    asyncio.run(let_in())
    early = run_nacre(tmp_path, "admin", "access", "list", NACRE_DATABASE_URL=database_url)
    assert early.returncode == 1
    assert "1 people" in early.stderr
    assert "nacre admin storage migrate --to postgres" in early.stderr

    words = ("admin", "storage", "migrate", "--to", "postgres")
    moved = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
    assert moved.returncode == 0, moved.stderr
    assert "people             1 there,        1 copied" in moved.stdout
    listed = run_nacre(tmp_path, "admin", "access", "list", NACRE_DATABASE_URL=database_url)
    assert "line:ann" in listed.stdout
    status = run_nacre(tmp_path, "status", NACRE_DATABASE_URL=database_url)
    assert (status.returncode, "Not serving" in status.stdout) == (0, True), status.stderr


def test_people_are_let_in_by_the_database_alone(database_url: str, tmp_path: Path) -> None:
    """On any machine with its address: a code that was given elsewhere is good in a terminal here."""

    async def ask() -> None:
        who, now_ms = ("line", "default", "ann"), epoch_ms(datetime.now(UTC))
        database = Database(database_url)
        tables = LedgerTables(PostgresRows(database, "main"), ledger_statements)
        assert await tables.people.ask(who, "ABCD2345", now_ms=now_ms, since_ms=0, most=3)
        await database.close()

    asyncio.run(ask())
    words = ("admin", "access", "approve", "abcd2345")
    refused = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
    assert (refused.returncode, "in a terminal" in refused.stderr) == (1, True)
    with Terminal(tmp_path, *words, NACRE_DATABASE_URL=database_url) as terminal:
        terminal.wait_for("Let in: line:ann. They may write in private.")
        assert terminal.exit_code() == 0
    listed = run_nacre(tmp_path, "admin", "access", NACRE_DATABASE_URL=database_url)
    assert listed.stdout.startswith("guest     line:ann since ")


def test_the_document_is_true(database_url: str, tmp_path: Path) -> None:
    """Each command of `docs/postgres.md` answers as it is shown there."""
    run_nacre(tmp_path, "init", NACRE_DATABASE_URL=database_url)
    blocks = re.findall(r"```text\n(.*?)```", (ROOT / "docs/postgres.md").read_text(), re.DOTALL)
    [block] = [each for each in blocks if "workspace pull" in each]

    for command, answer in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
        if command.startswith("nacre "):
            ended = run_nacre(tmp_path, *command.split()[1:], NACRE_DATABASE_URL=database_url)
            assert (ended.stdout + ended.stderr, ended.returncode) == (answer, 0)
        else:
            line, name = re.fullmatch(r'echo "(.*)" >> (.*)', command).groups()  # type: ignore[union-attr] # as shown
            with (tmp_path / name).open("a") as file:
                file.write(f"{line}\n")


def test_a_conflict_is_told_and_ends_with_one(database_url: str, tmp_path: Path) -> None:
    """Two folders stand for two people; the second one's push and pull say what is the matter."""

    def run(*arguments: str) -> tuple[int, str]:
        ended = run_nacre(tmp_path, "admin", "workspace", *arguments, NACRE_DATABASE_URL=database_url)
        return ended.returncode, ended.stdout + ended.stderr

    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "plan.md").write_text(f"{folder}\n")
    assert run("push", "one") == (0, "1 copied to the workspace: plan.md\n")

    code, told = run("push", "two")
    assert (code, "plan.md changed in the workspace as well" in told) == (1, True)
    pulled = run_nacre(
        tmp_path, "admin", "workspace", "pull", "two", "--json", NACRE_DATABASE_URL=database_url
    )
    assert (pulled.returncode, json.loads(pulled.stdout)["conflicts"]) == (1, ["plan.md"])
    assert "In conflict: plan.md." in pulled.stderr
    code, told = run("push", "two")
    assert (code, "plan.md still has a conflict" in told) == (1, True)
    assert (tmp_path / "two/plan.md").read_text().startswith("<<<<<<< this folder\ntwo\n")


async def test_an_agent_is_removed_from_the_database(tmp_path: Path, database_url: str) -> None:
    """Not before it is paused; then no table has a row of it, nor has the ledger; others are untouched."""
    import psycopg

    with LineServer() as server, ProviderServer(responder=lambda _: wire.reply("hi")) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hello", chat="n", sender="ann")
                await server.until(lambda server: server.sent)
        finally:
            worker.kill()
            worker.join()

    def run(*words: str) -> str:
        where = ("--state-dir", str(tmp_path))
        ended = run_nacre(tmp_path, "admin", "storage", *words, *where, NACRE_DATABASE_URL=database_url)
        return f"{ended.returncode} {ended.stdout}{ended.stderr}"

    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO documents (agent, name, revision, changed_us) VALUES ('ben', 'a.md', 1, 1)"
        )
        assert "is not paused, or a program uses it" in run("remove", "main", "--yes")
        assert run("pause", "main").startswith("0 main is paused.")
        owner.execute("UPDATE processes SET alive_until = '-infinity'")  # the killed worker is silent by now
        assert re.search(r"^0 Removed \d\d+ rows of main\.", run("remove", "main", "--yes"))
        found = json.loads(run("agents", "--json")[2:])
        assert [(each["id"], each["isPaused"], each["conversations"]) for each in found] == [
            ("ben", False, 0),
            ("main", True, 0),
        ]
        tables = owner.execute(TABLES).fetchall()
        left = {
            name: owner.execute(f"SELECT count(*) FROM {name} WHERE agent = 'main'".encode()).fetchone()
            for name, _ in tables
        }
        assert len(left) > 20
        assert set(left.values()) == {(0,)}
        assert re.search(r"^main +paused +0 ", run("agents"), re.MULTILINE)
    assert run("resume", "main").startswith("0 main answers again.")


def test_check_asks_the_database(tmp_path: Path) -> None:
    """One that cannot be reached is a sentence and an exit code, before anything is said to work."""
    path = install_line(tmp_path / "site")
    line_settings(tmp_path, 9)
    away = "postgresql://nobody@127.0.0.1:1/none"

    run = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=path, NACRE_DATABASE_URL=away)

    assert (run.returncode, run.stdout) == (1, "")
    assert "127.0.0.1" in run.stderr
