"""`nacre backup` and `nacre restore`: one archive while the assistant talks, and back."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import os
import sqlite3
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from nacre.extensions.backup.manifest import ArchiveUnusable, Entry
from nacre.extensions.backup.restore import check_backup, one_name_twice, restore_backup
from nacre.locks import try_lock
from tests.cli.program import Terminal, run_nacre
from tests.runtime.agents import opened, write_settings


async def test_a_backup_of_an_assistant_that_talks(tmp_path: Path) -> None:
    """Made between any two words, it is whole, and what is restored from it remembers."""
    state, archive = tmp_path / ".nacre", tmp_path / "all.tar.gz"
    async with opened(state, None) as agent:
        await agent.ask("Remember that my boat is called Halcyon.")
    async with opened(state, None) as agent:  # what the first one noted is committed
        backup = asyncio.create_task(asyncio.to_thread(run_nacre, tmp_path, "backup", str(archive)))
        while not backup.done():
            await agent.ask("Remember that the tide turns at noon.")
        made = await backup

    checked = run_nacre(tmp_path, "backup", "--check", str(archive), "--json")
    restored = run_nacre(tmp_path, "restore", str(archive), "--to", str(tmp_path / "new"))

    assert (made.returncode, checked.returncode, restored.returncode) == (0, 0, 0), (
        made.stderr + restored.stderr
    )
    assert json.loads(checked.stdout)["counts"]["database"] == 1
    (transcript,) = (tmp_path / "new/agents/main/sessions").glob("*.jsonl")
    assert transcript.read_bytes().endswith(b"\n")
    assert (state / transcript.relative_to(tmp_path / "new")).read_bytes().startswith(transcript.read_bytes())
    with closing(sqlite3.connect(tmp_path / "new/memory/main.sqlite")) as index:
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = run_nacre(tmp_path, "memory", "search", "boat", NACRE_STATE_DIR=str(tmp_path / "new"))
    assert "Halcyon" in found.stdout
    log = run_nacre(tmp_path, "memory", "log", "--json", NACRE_STATE_DIR=str(tmp_path / "new"))
    assert "The workspace as it was found" in [each["subject"] for each in json.loads(log.stdout)]
    sessions = run_nacre(tmp_path, "sessions", "list", "--json", NACRE_STATE_DIR=str(tmp_path / "new"))
    assert '"agent:main:main"' in sessions.stdout
    assert archive.stat().st_mode & 0o777 == 0o600
    assert not (state / ".backup").exists()


def test_all_agents_and_what_lies_outside(tmp_path: Path) -> None:
    """Folders of the settings come along with their links, and a restore says where they were."""
    notes, other = tmp_path / "notes", tmp_path / ".nacre/workspace-work"
    for folder in (notes / "memory", other):
        folder.mkdir(parents=True)
    (notes / "memory/2026-01-20.md").write_text("- Lisa plays the cello.\n", encoding="utf-8")
    (notes / "photos").symlink_to("/srv/photos")
    (other / "MEMORY.md").write_text("- The office is in Leith.\n", encoding="utf-8")
    agents = {"list": [{"id": "main", "default": True, "workspace": str(notes)}, {"id": "work"}]}
    write_settings(tmp_path / ".nacre", {"agents": agents})

    made = run_nacre(tmp_path, "backup", "--json")
    told = json.loads(made.stdout)
    restored = run_nacre(tmp_path, "restore", told["archive"], "--to", "deep/new")

    assert Path(told["archive"]).parent == tmp_path
    new = tmp_path / "deep/new"
    assert f"workspace of agent main was {notes}" in restored.stdout
    assert (new / "outside/main/workspace/memory/2026-01-20.md").read_text() == "- Lisa plays the cello.\n"
    assert (new / "outside/main/workspace/photos").readlink() == Path("/srv/photos")
    assert (new / "workspace-work/MEMORY.md").read_text() == "- The office is in Leith.\n"


def test_a_state_folder_that_links_lead_to(tmp_path: Path) -> None:
    """`~/.nacre`, its workspace and settings may be links: what they lead to comes along, and is restored
    over a state folder that is itself a link."""
    real, notes, settings = tmp_path / "disk/nacre", tmp_path / "Mes Notes é", tmp_path / "dots.json5"
    for folder in (real, notes):
        folder.mkdir(parents=True)
    settings.write_text("{} // mine")
    for link, target in ((".nacre", real), (".nacre/workspace", notes), (".nacre/nacre.json5", settings)):
        (tmp_path / link).symlink_to(target)
    run_nacre(tmp_path, "send", "-m", "Remember that my boat is called Halcyon.")

    made = run_nacre(tmp_path, "backup", "a.tar.gz")
    restored = run_nacre(tmp_path, "restore", "a.tar.gz", "--yes")

    assert (made.returncode, restored.returncode) == (0, 0), made.stderr + restored.stderr
    assert (tmp_path / ".nacre").readlink() == real
    assert (real / "nacre.json5").read_text() == "{} // mine"
    assert not any(path.is_symlink() for path in real.rglob("*"))
    assert "Halcyon" in run_nacre(tmp_path, "search", "boat").stdout


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """Neither an archive that is there, nor a folder with something in it."""
    run_nacre(tmp_path, "init")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/letter.txt").write_text("mine")
    assert run_nacre(tmp_path, "backup", "a.tar.gz").returncode == 0
    before = (tmp_path / "a.tar.gz").read_bytes()

    again = run_nacre(tmp_path, "backup", "a.tar.gz")
    into = run_nacre(tmp_path, "restore", "a.tar.gz", "--to", "taken")

    assert (again.returncode, into.returncode) == (1, 1)
    assert "already exists" in again.stderr
    assert "is not empty" in into.stderr
    assert (tmp_path / "a.tar.gz").read_bytes() == before
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["letter.txt"]


def _archive(path: Path, *files: tuple[str, bytes | str], manifest: dict[str, object] | None = None) -> None:
    """An archive of files, and of links, whose data is a text: where they lead."""
    with tarfile.open(path, "w:gz") as tar:
        for name, data in [*files, *([("manifest.json", json.dumps(manifest).encode())] if manifest else [])]:
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname = tarfile.SYMTYPE, data
                tar.addfile(member)
            else:
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def _manifest(*entries: dict[str, object]) -> dict[str, object]:
    return {
        "format": "nacre-backup",
        "version": 1,
        "madeAt": "",
        "program": "",
        "places": [],
        "leftOut": [],
        "files": list(entries),
    }


def test_what_is_damaged_is_not_restored(tmp_path: Path) -> None:
    """Cut off, with another byte, with a path that leads out, or none at all: nothing is made."""
    run_nacre(tmp_path, "init")
    run_nacre(tmp_path, "backup", "whole.tar.gz")
    whole = (tmp_path / "whole.tar.gz").read_bytes()
    plain = bytearray(gzip.decompress(whole))
    at = plain.index(b"# ")
    plain[at] ^= 1
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "byte.tar.gz").write_bytes(gzip.compress(bytes(plain)))
    (tmp_path / "letter.tar.gz").write_text("Dear Anna")
    _archive(tmp_path / "without.tar.gz", ("state/MEMORY.md", b"x"))
    _archive(tmp_path / "out.tar.gz", ("state/../../evil", b"x"), manifest=_manifest())
    _archive(tmp_path / "newer.tar.gz", manifest=_manifest() | {"version": 2})
    lost = {"path": "state/a.md", "kind": "file", "mode": "0600", "size": 1, "sha256": "0"}
    _archive(tmp_path / "lost.tar.gz", manifest=_manifest(lost))

    for name, reason in {
        "cut": "damaged",
        "byte": "differs from the file",
        "letter": "damaged or not a backup",
        "without": "has no manifest",
        "out": "which no backup contains",
        "newer": "Use the newer program",
        "lost": "state/a.md is missing",
    }.items():
        for asked in (("backup", "--check", f"{name}.tar.gz"), ("restore", f"{name}.tar.gz", "--to", "new")):
            ended = run_nacre(tmp_path, *asked)
            assert (ended.returncode, reason in ended.stderr) == (1, True), (asked, ended.stderr)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "evil").exists()
    assert list(tmp_path.glob(".new*")) == []


def _entry(path: str, data: bytes) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    return {"path": path, "kind": "file", "mode": "0600", "size": len(data), "sha256": digest}


def _odd_member(path: Path, name: str, kind: bytes, size: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(1024))


def test_what_cannot_be_trusted_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A name twice, a file or a link as a folder, an odd kind or size: a sentence, and no folder or byte is
    made."""
    run_nacre(tmp_path, "init")
    one, two = _entry("state/a", b"x"), _entry("state/a/b", b"x")
    twice = [("state/a", b"x"), ("state/a", b"x")]
    _archive(tmp_path / "twice.tar.gz", *twice, manifest=_manifest(one))
    _archive(tmp_path / "both.tar.gz", ("state/a", b"x"), ("state/a/b", b"x"), manifest=_manifest(one, two))
    link = {"path": "state/a", "kind": "link", "link": str(tmp_path)}
    through = [("state/a", str(tmp_path)), ("state/a/b", b"x")]
    _archive(tmp_path / "through.tar.gz", *through, manifest=_manifest(link, two))
    other = _entry("state/./a", b"x")
    _archive(tmp_path / "dot.tar.gz", ("state/a", b"x"), ("state/./a", b"x"), manifest=_manifest(one, other))
    _archive(tmp_path / "kind.tar.gz", ("state/a", b"x"), manifest=_manifest(one | {"kind": "device"}))
    long = _entry(f"state/{'n' * 300}", b"x")
    _archive(tmp_path / "long.tar.gz", (f"state/{'n' * 300}", b"x"), manifest=_manifest(long))
    _odd_member(tmp_path / "fifo.tar.gz", "state/a", tarfile.FIFOTYPE)
    _odd_member(tmp_path / "hard.tar.gz", "state/a", tarfile.LNKTYPE)
    _odd_member(tmp_path / "sparse.tar.gz", "state/a", tarfile.GNUTYPE_SPARSE)
    _odd_member(tmp_path / "name.tar.gz", "state/a", tarfile.XHDTYPE, size=1 << 33)
    _odd_member(tmp_path / "huge.tar.gz", "state/a", tarfile.REGTYPE, size=1 << 60)

    for name, reason in {
        "twice": "occurs twice",
        "both": "which is not a folder",
        "through": "which is not a folder",
        "dot": "which no backup contains",
        "kind": "which no backup contains",
        "fifo": "of a kind",
        "hard": "of a kind",
        "sparse": "of a kind",
        "name": "which no backup contains",
        "huge": "free disk space",
        "long": "cannot be restored",
    }.items():
        ended = run_nacre(tmp_path, "restore", f"{name}.tar.gz", "--to", "deep/new")
        assert (ended.returncode, reason in ended.stderr) == (1, True), (name, ended.stderr)
        assert "Traceback" not in ended.stderr
        if name != "long":  # what a disk refuses is known when it does
            assert not (tmp_path / "deep").exists(), name
    assert [*(tmp_path / "deep").iterdir()] == []


def test_an_archive_that_is_exchanged_while_it_is_restored_is_refused(tmp_path: Path) -> None:
    """What is written is what was checked: another one with names and sizes of the first is none."""
    archive, other, target = (tmp_path / name for name in ("a.tar.gz", "b.tar.gz", "new"))
    for path, data in ((archive, b"mine"), (other, b"evil")):
        _archive(path, ("state/a.md", data), manifest=_manifest(_entry("state/a.md", data)))

    def exchange(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.mkdir" and str(arguments[0]).endswith(".restoring") and other.exists():
            other.replace(archive)

    sys.addaudithook(exchange)
    with pytest.raises(ArchiveUnusable, match="changed while it was read"):
        restore_backup(archive, target, identity=None)
    assert not other.exists()
    assert not target.exists()


def test_what_a_killed_restore_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Its folder goes, also when it was one to another place beside; one that runs now is left alone."""
    run_nacre(tmp_path, "init")
    run_nacre(tmp_path, "backup", "whole.tar.gz")
    for name in ("new", "other", "running"):
        (tmp_path / f".{name}.restoring/files/deep").mkdir(parents=True)
        (tmp_path / f".{name}.restoring/lock").touch()
        (tmp_path / f".{name}.restoring/files/deep").chmod(0o500)
    release = try_lock(tmp_path / ".running.restoring/lock")
    assert release is not None

    restored = run_nacre(tmp_path, "restore", "whole.tar.gz", "--to", "new")
    busy = run_nacre(tmp_path, "restore", "whole.tar.gz", "--to", "running")
    release()

    assert (restored.returncode, busy.returncode) == (0, 1), restored.stderr
    assert [path.name for path in tmp_path.glob(".*.restoring")] == [".running.restoring"]


def test_what_a_killed_restore_left_goes_with_the_next_backup(tmp_path: Path) -> None:
    """It lies beside the state folder, and holds as much as the archive."""
    run_nacre(tmp_path, "init")
    left = tmp_path / "..nacre.restoring"
    (left / "files").mkdir(parents=True)
    (left / "files/a.md").write_bytes(b"x" * 2_000_000)
    (left / "lock").touch()
    assert run_nacre(tmp_path, "backup", "whole.tar.gz").returncode == 0
    assert not left.exists()


def test_a_place_that_refuses_the_archive_is_named(tmp_path: Path) -> None:
    """As a full disk does; nothing is left there."""
    run_nacre(tmp_path, "init")

    ended = run_nacre(tmp_path, "backup", "nowhere/a.tar.gz")

    assert (ended.returncode, "nowhere/a.tar.gz was not written" in ended.stderr) == (1, True)


def test_what_killed_backups_left_is_removed_a_day_later(tmp_path: Path) -> None:
    """Nightly backups have new names each, so none of them would take the place of another's rest."""
    run_nacre(tmp_path, "init")
    rests = [tmp_path / f".nacre-2026030{day}T031500Z.tar.gz.unfinished" for day in (1, 2)]
    for rest in rests:
        rest.write_bytes(b"x")
    os.utime(rests[0], (0, 0))

    assert run_nacre(tmp_path, "backup").returncode == 0

    assert [rest.exists() for rest in rests] == [False, True]


def test_a_member_that_claims_three_gibibytes_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """Whatever the manifest says: the archive has not so many bytes, or the disk has no room."""
    run_nacre(tmp_path, "init")
    claimed = 3 << 30
    for name, size in (("short", 5), ("long", claimed)):
        entry = _entry("state/a.md", b"x" * 5) | {"size": size}
        _claiming(tmp_path / f"{name}.tar.gz", "state/a.md", claimed, _manifest(entry))
        ended = run_nacre(tmp_path, "restore", f"{name}.tar.gz", "--to", "deep/new")
        assert ended.returncode == 1, ended.stderr
        assert "Traceback" not in ended.stderr
        assert not (tmp_path / "deep").exists()
        with pytest.raises(ArchiveUnusable, match="need more than the"):
            check_backup(tmp_path / f"{name}.tar.gz", identity=None, most_bytes=1 << 30)


def _claiming(path: Path, name: str, size: int, manifest: dict[str, object]) -> None:
    """An archive whose first member has a header for `size` bytes and no such data behind it."""
    claims = tarfile.TarInfo(name)
    claims.type, claims.size = tarfile.REGTYPE, size
    told = json.dumps(manifest).encode()
    last = tarfile.TarInfo("manifest.json")
    last.size = len(told)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(claims.tobuf(tarfile.GNU_FORMAT))
        file.write(last.tobuf(tarfile.GNU_FORMAT) + told + bytes(-len(told) % 512 + 1024))


def test_names_that_differ_in_case_alone(tmp_path: Path) -> None:
    """They are found, with accents in either form, and a disk that keeps both restores both."""
    names = ("state/Å.md", "state/a\u030a.md", "state/b.md")
    entries = [Entry(path=name, kind="file") for name in names]
    assert one_name_twice(entries) == names[:2]
    assert one_name_twice(entries[1:]) is None
    (tmp_path / "probe").touch()
    if (tmp_path / "PROBE").exists():
        return
    both = ("state/a.md", b"x"), ("state/A.md", b"y")
    _archive(tmp_path / "both.tar.gz", *both, manifest=_manifest(*(_entry(*each) for each in both)))
    restore_backup(tmp_path / "both.tar.gz", tmp_path / "new", identity=None)
    assert (tmp_path / "new/A.md").read_bytes() == b"y"


def test_what_a_backup_does_not_hold_is_said(tmp_path: Path) -> None:
    """Rows of a database, and a damaged one among the files, which ends with another exit code."""
    run_nacre(tmp_path, "init")
    (tmp_path / ".nacre/memory").mkdir(exist_ok=True)
    (tmp_path / ".nacre/memory/odd.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)

    ended = run_nacre(tmp_path, "backup", "a.tar.gz", NACRE_DATABASE_URL="postgresql://localhost/none")

    assert ended.returncode == 1
    assert "pg_dump" in ended.stderr
    assert ended.stderr.count("odd.sqlite could not be copied") == 1
    assert run_nacre(tmp_path, "backup", "--check", "a.tar.gz").returncode == 1


def test_an_archive_for_the_holder_of_a_key(tmp_path: Path) -> None:
    """Encrypted with age, it is read with the key alone; without one, or with another, it says so."""
    pyrage = pytest.importorskip("pyrage", reason="the extra nacre[age] is not installed")
    own, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    for name, identity in (("own.key", own), ("other.key", other)):
        (tmp_path / name).write_text(f"# made by a test\n{identity}\n")
    run_nacre(tmp_path, "init")

    made = run_nacre(tmp_path, "backup", "a.age", "--recipient", str(own.to_public()))
    (tmp_path / "half.age").write_bytes((tmp_path / "a.age").read_bytes()[:3_000])
    half = run_nacre(tmp_path, "backup", "--check", "half.age", "--identity", "own.key")
    wrong = run_nacre(tmp_path, "backup", "--check", "a.age", "--identity", "other.key")
    none = run_nacre(tmp_path, "restore", "a.age", "--to", "new")
    right = run_nacre(tmp_path, "restore", "a.age", "--to", "new", "--identity", "own.key")
    nobody = run_nacre(tmp_path, "backup", "b.age", "--recipient", "age1nobody")
    with Terminal(tmp_path, "init", "--restore", "a.age", NACRE_STATE_DIR=str(tmp_path / "3")) as terminal:
        terminal.wait_for("The file with its key")
        terminal.type("nothing.key\r")
        terminal.wait_for("nothing.key is not a file")
        terminal.type("own.key\r")
        assert terminal.exit_code() == 0

    assert made.returncode == 0, made.stderr
    assert (tmp_path / "a.age").read_bytes().startswith(b"age-encryption.org/v1")
    assert (wrong.returncode, "cannot be decrypted with other.key" in wrong.stderr) == (1, True)
    assert (half.returncode, "damaged or cut off" in half.stderr) == (1, True)
    assert (none.returncode, "It is encrypted" in none.stderr) == (1, True)
    assert (right.returncode, (tmp_path / "new/workspace/MEMORY.md").exists()) == (0, True)
    assert (tmp_path / "3/workspace/MEMORY.md").exists()
    assert (nobody.returncode, "is not a valid recipient" in nobody.stderr) == (1, True)
    assert not list(tmp_path.glob("*b.age*"))
