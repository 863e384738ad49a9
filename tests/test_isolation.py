"""Somebody who uses Nacre runs its tests: their variables name their assistant, which stays untouched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.program import environment, run_nacre
from tests.isolation import owners_places, refuse_within, replace_environment
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

ROOT = Path(__file__).parents[1]
WRITERS = (
    "tests/cli/setup/test_first_run.py::test_four_questions_set_up_a_model_with_its_key",
    "tests/extensions/importers/test_claude.py",
    "tests/cli/talk/test_send.py",
)
"""Tests that open an assistant in every way: the command in this process, in a fork, in a new process."""


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """Records whatever reaches the owner's model."""
    with ProviderServer(responder=lambda _: wire.reply("Noted.")) as server:
        yield server


@pytest.fixture
def owner(tmp_path: Path, provider: ProviderServer) -> Mapping[str, str]:
    """The exported variables of somebody with an assistant, a conversation, and keys for everything."""
    home = tmp_path / "owner"
    home.mkdir()
    assert run_nacre(home, "init", "--yes").returncode == 0
    assert run_nacre(home, "send", "-m", "Remember that the spare key hangs in the shed.").returncode == 0
    return environment(
        home,
        NACRE_STATE_DIR=str(home / ".nacre"),
        NACRE_WORKSPACE=str(home / ".nacre/workspace"),
        NACRE_MODEL="openai/owners-model",
        OPENAI_API_KEY="sk-owner",
        OPENAI_BASE_URL=provider.url,
        OPENAI_API_BASE=provider.url,
        ANTHROPIC_API_KEY="sk-owner-too",
        XDG_CONFIG_HOME=str(home / ".config"),
    )


def digest(folder: Path) -> dict[str, tuple[object, ...]]:
    """Each file and folder with its mode, time of change, and bytes."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_mtime_ns, content)
    return found


def _files(folder: Path) -> dict[str, tuple[object, ...]]:
    """The files alone: Python tries out its temporary folder early, which changes the time of that folder."""
    return {name: row for name, row in digest(folder).items() if row[-1]}


def run_pytest(
    owner: Mapping[str, str], *arguments: str, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Starts pytest as the owner does, without what it keeps; plain assertions spare it the rewriting."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--assert=plain", *arguments],
        cwd=cwd,
        env={**owner, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )


@pytest.mark.parametrize(
    ("cwd", "arguments"),
    [
        pytest.param(".", ("-n2", *WRITERS), id="in parallel", marks=pytest.mark.slow),
        pytest.param(
            "tests/cli/setup",
            ("-n0", "--noconftest", "test_first_run.py", "-k", "settings_say"),
            id="one file, from its folder, without conftest.py",
        ),
    ],
)
def test_a_test_run_leaves_the_owners_assistant_alone(
    owner: Mapping[str, str], provider: ProviderServer, cwd: str, arguments: tuple[str, ...]
) -> None:
    """Not a byte or a time of the exported home and state changes, and the exported model hears nothing."""
    home = Path(owner["HOME"])
    before = digest(home)

    run = run_pytest(owner, *arguments, cwd=ROOT / cwd)

    # whether each of them passes is said by its own run
    assert " passed" in run.stdout, run.stdout[-4_000:] + run.stderr[-2_000:]
    assert digest(home) == before
    assert provider.raw == []


def test_a_benchmark_leaves_the_owners_assistant_alone(
    owner: Mapping[str, str], provider: ProviderServer
) -> None:
    """A benchmark gets a home of its own before it imports anything of Nacre."""
    home = Path(owner["HOME"])
    before = digest(home)
    script = "import os, benchmarks.corpus; print(os.environ['HOME'], *sorted(os.environ))"

    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=owner, capture_output=True, text=True)

    assert run.returncode == 0, run.stderr
    assert str(home) not in run.stdout
    assert "OPENAI_API_KEY" not in run.stdout
    assert digest(home) == before


@pytest.mark.parametrize("variable", ["TMPDIR", "PYTEST_DEBUG_TEMPROOT"])
def test_a_run_whose_temporary_files_would_lie_in_the_assistant_is_refused(
    owner: Mapping[str, str], variable: str
) -> None:
    """It ends before the first test, with a sentence that names both folders."""
    state = Path(owner["NACRE_STATE_DIR"])
    before = _files(state)

    run = run_pytest({**owner, variable: str(state / "workspace")}, "-n0", WRITERS[0])

    assert run.returncode != 0
    assert str(state) in run.stdout + run.stderr
    assert _files(state) == before


def test_pytest_is_not_told_to_empty_the_assistant(owner: Mapping[str, str]) -> None:
    """`--basetemp` with a folder that holds the assistant is refused, because pytest empties that folder."""
    home = Path(owner["HOME"])
    before = digest(home)

    run = run_pytest(owner, "-n0", f"--basetemp={home}", WRITERS[0])

    assert run.returncode != 0
    assert digest(home) == before


def test_what_makes_programs_run_is_kept_and_everything_else_is_dropped(tmp_path: Path) -> None:
    """Paths, installers and the knobs of long tests stay; keys, settings and unknown variables do not."""
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").touch()
    kept = {
        "PATH": "/bin",
        "PIP_FIND_LINKS": "/wheels",
        "NACRE_WORKER_SECONDS": "600",
        "OPENBLAS_CORETYPE": "Haswell",
    }
    dropped = (
        "NACRE_STATE_DIR",
        "OPENROUTER_API_KEY",
        "DESK_KEY",
        "XDG_DATA_HOME",
        "DBUS_SESSION_BUS_ADDRESS",
    )
    variables = {**kept, "HOME": str(tmp_path), **dict.fromkeys(dropped, "x")}

    replace_environment(variables, tmp_path / "new")

    assert {**kept, "HOME": str(tmp_path / "new")}.items() <= variables.items()
    assert not variables.keys() & set(dropped)
    assert variables["PIP_CONFIG_FILE"] == str(tmp_path / ".config/pip/pip.conf")


def test_the_places_of_the_owner_are_found(tmp_path: Path) -> None:
    """The exported state folder, the workspace and the folder in the home; one inside them is refused."""
    variables = {"HOME": str(tmp_path / "h"), "NACRE_STATE_DIR": str(tmp_path / "s")}

    places = owners_places(variables)

    assert {tmp_path / "h/.nacre", tmp_path / "s"} <= set(places)
    with pytest.raises(SystemExit):
        refuse_within([tmp_path / "s/deep/er"], places)
    refuse_within([tmp_path / "elsewhere"], places)


def test_this_run_is_isolated() -> None:
    """The home of the running tests is not that of the account."""
    assert "NACRE_STATE_DIR" not in os.environ
    assert (Path.home() / ".made-by-nacre-tests").is_file()
