"""What a command imports: a cold start is felt, and a library that nobody needs is most of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import environment, run_nacre
from tests.servers.provider_server import ProviderServer

ALWAYS_TOO_MUCH = {
    "httpx",
    "lancedb",
    "litellm",
    "multiprocessing",
    "openai",
    "pyarrow",
    "sqlite_vec",
    "tiktoken",
    "urllib.request",
    "watchdog",
}
SCREENS = {"prompt_toolkit", "rich"}
MODEL = {"numpy", "onnxruntime"}
VALIDATORS = {"importlib.metadata"}
"""pydantic brings it in with the first validator that it makes."""

SESSIONS = {
    "nacre.sessions.index.index",
    "nacre.sessions.journal.journal",
    "nacre.runtime.recall.transcripts",
}
AGENT = {
    "nacre.runtime.agent.agent",
    "nacre.runtime.contracts.events",
    "nacre.extensions.providers.embedding.endpoint",
    "nacre.runtime.models.offline.responder",
    "nacre.sessions.upkeep.maintenance",
}
TURN = {"nacre.runtime.agent.opening.open_models", "nacre.runtime.turn.turn"}
ENGINE = {"apsw", "filelock", "nacre.memory.engine"}
CHANGES = {
    "glob",
    "importlib.resources",
    "nacre.memory.files.file_reader",
    "nacre.memory.text.repeats",
    "nacre.memory.workspace.watcher",
    "nacre.memory.workspace.workspace",
    "nacre.sessions",
    "tempfile",
    "tzlocal",
}
"""What reads, writes and follows notes, and finds the name of a time zone: a search has no use for it when no
note changed."""

NOT_OF_THE_INDEX = {"nacre.memory.search.searching", "pydantic", "wcwidth"}
"""What no command needs that neither searches nor reads settings."""

TOLD = """
import sys
{run}
print("LOADED", *sorted(name for name in sys.modules if name in {watched!r}), file=sys.stderr)
"""
COMMAND = """
import click
from nacre.cli.main import nacre
nacre.main({arguments!r}, standalone_mode=False)
"""

COMPILED = """
import sys
of_nacre = [module for name, module in sys.modules.items() if name.startswith("nacre.")]
parameters = {each: getattr(each, "__dataclass_params__", None) for module in of_nacre
              for each in vars(module).values() if isinstance(each, type)}
frozen = [each.__qualname__ for each, chosen in parameters.items() if chosen is not None and chosen.frozen]
print("COMPILED", *frozen, file=sys.stderr)
"""


WATCHED = ALWAYS_TOO_MUCH | SCREENS | MODEL | VALIDATORS | SESSIONS | AGENT | ENGINE | CHANGES | TURN
WATCHED |= NOT_OF_THE_INDEX | {
    "aiofiles",
    "pygments",
    "nacre.runtime.open_sessions.routing",
    "asyncio",
    "nacre.extensions",
}


def _loaded(home: Path, run: str) -> set[str]:
    """The modules among those that are looked at which a program has imported when it is done."""
    told = _run(home, TOLD.format(run=run, watched=WATCHED))
    last = told.splitlines()[-1]
    assert last.startswith("LOADED"), told
    return set(last.split()[1:])


def _run(home: Path, program: str) -> str:
    """What a program says on standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(home),
        cwd=home,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return ran.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one daily log that has been indexed and searched, and one conversation."""
    path = tmp_path_factory.mktemp("home")
    log = path / ".nacre/workspace/memory/2026-01-20.md"
    log.parent.mkdir(parents=True)
    log.write_text("# 2026-01-20\n\n- Halcyon needs a new mast before June.\n", encoding="utf-8")
    assert run_nacre(path, "send", "-m", "hello").returncode == 0
    for note in (path / ".nacre/workspace").rglob("*.md"):
        os.utime(note, (1_700_000_000, 1_700_000_000))  # what was written a moment ago is read once more
    assert run_nacre(path, "memory", "index").returncode == 0
    assert run_nacre(path, "memory", "search", "sail").returncode == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], MODEL | VALIDATORS | SESSIONS | AGENT | ENGINE | {"asyncio", "pydantic"}),
        (["memory", "--help"], MODEL | VALIDATORS | SESSIONS | AGENT | ENGINE | {"asyncio", "pydantic"}),
        (["memory", "get", "memory/2026-01-20.md"], MODEL | VALIDATORS | SESSIONS | AGENT),
        (["memory", "status"], MODEL | VALIDATORS | SESSIONS | AGENT | CHANGES | NOT_OF_THE_INDEX),
        (["memory", "index"], MODEL | VALIDATORS | SESSIONS | AGENT | NOT_OF_THE_INDEX),
        (["status"], MODEL | VALIDATORS | TURN),
        (["sessions", "list"], MODEL | VALIDATORS | TURN | ENGINE | {"nacre.runtime.open_sessions.routing"}),
        (["init"], MODEL | VALIDATORS | SESSIONS | AGENT | ENGINE),
        (["send", "-m", "What about the mast?"], {"nacre.extensions"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_needs(home: Path, arguments: list[str], absent: set[str]) -> None:
    """Neither a library that is slow to import nor a room that the command does not enter."""
    loaded = _loaded(home, COMMAND.format(arguments=arguments))

    assert loaded & (absent | ALWAYS_TOO_MUCH | SCREENS) == set()


def test_a_short_turn_loads_no_table_of_tokens_and_no_screen(tmp_path: Path) -> None:
    """httpx's command line would bring rich and pygments, and a table is larger than the rest of the turn."""
    settings = tmp_path / ".nacre/nacre.json5"
    settings.parent.mkdir()
    with ProviderServer() as server:
        server.reply("It is in the shed.")
        model = {
            "agents": {"defaults": {"model": {"primary": "openai/m"}, "memorySearch": {"enabled": False}}}
        }
        there = {"models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "k"}}}}
        settings.write_text(json.dumps(model | there), encoding="utf-8")
        loaded = _loaded(tmp_path, COMMAND.format(arguments=["send", "-m", "Where is the boat?"]))

    assert len(server.requests) == 1
    assert loaded & (ALWAYS_TOO_MUCH | SCREENS | MODEL | {"pygments"}) == {"httpx", "urllib.request"}


def test_the_agent_is_imported_without_models_and_screens(home: Path) -> None:
    """`from nacre import Agent` costs the agent, not a model, a screen or a provider's library."""
    loaded = _loaded(home, "from nacre import Agent")

    unused = {"filelock", "nacre.extensions", "nacre.runtime.models.offline.responder"}
    assert loaded & (ALWAYS_TOO_MUCH | SCREENS | MODEL | unused) == set()


def test_a_search_loads_what_it_needs_and_compiles_no_values(home: Path) -> None:
    """What it defines are records: a frozen dataclass compiles its methods at each start, .4 ms a class."""
    search = COMMAND.format(arguments=["memory", "search", "mast"])

    *_, compiled, last = _run(home, TOLD.format(run=search + COMPILED, watched=WATCHED)).splitlines()

    assert compiled == "COMPILED"
    too_much = ALWAYS_TOO_MUCH | SCREENS | MODEL | VALIDATORS | SESSIONS | AGENT | CHANGES | {"pydantic"}
    assert too_much & set(last.split()) == set()
    assert last.startswith("LOADED")


LOOKED = """import gc, sys
def tell(phase, about):
    if phase == "start":
        print(f"looked at generation {about['generation']}", file=sys.stderr)
gc.callbacks.append(tell)
sys.argv = ["nacre", "status"]
from nacre.__main__ import main
main()"""


def test_the_garbage_collector_hardly_looks_at_what_a_command_imports(tmp_path):
    """With Python's own thresholds it looks a hundred times, which takes an eighth of a short command."""
    run = subprocess.run(
        [sys.executable, "-c", LOOKED],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Sessions" in run.stdout
    assert run.stderr.count("looked at generation 0") < 15
    assert "looked at generation 1" not in run.stderr


@pytest.mark.parametrize(("variables", "is_loaded"), [({}, False), ({"PYDANTIC_DISABLE_PLUGINS": ""}, True)])
def test_nobody_looks_for_plugins_of_pydantic(
    tmp_path: Path, variables: dict[str, str], is_loaded: bool
) -> None:
    """That reads the metadata of all packages, a thirtieth of a short command; the owner's variable wins."""
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre" / "nacre.json5").write_text("{skills: {entries: {}}}", encoding="utf-8")
    metadata = tmp_path / "packages" / "watching-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: watching\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[pydantic]\nwatching = watching:plugin\n", encoding="utf-8")
    module = 'import sys\nprint("watching", file=sys.stderr)\nplugin = None\n'
    (tmp_path / "packages" / "watching.py").write_text(module, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "nacre", "status"],
        env=environment(tmp_path, **variables) | {"PYTHONPATH": str(tmp_path / "packages")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("watching" in run.stderr) is is_loaded


def test_a_list_of_sessions_loads_no_zone_and_no_copies(home: Path) -> None:
    """How long ago a session was active needs neither the name of the time zone nor a folder for copies."""
    loaded = _loaded(home, COMMAND.format(arguments=["sessions"]))

    assert loaded & {"aiofiles", "tempfile", "tzlocal"} == set()
    assert "nacre.sessions.journal.journal" in loaded
