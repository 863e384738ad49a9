"""The house as it stands: who imports whom, who touches the world, and how long things are.

Every list of exceptions may only shrink: an entry that nothing needs any more fails as well.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import nacre
from nacre.runtime.contracts import errors
from tests.house.law import LAW, MOST_ENTRIES, OTHER_TESTS
from tests.house.rules import files as rules, rooms as room_rules
from tests.house.rules.libraries import LIBRARIES
from tests.house.rules.source import Source
from tests.house.tree import FOLDERS, HOUSE, OTHERS, ROOMS, ROOT, TESTS, entries, graph, names_in

CLOCK = ("runtime/contracts/clock.py",)
ENVIRONMENT = {
    "memory/embedders/e5_model.py": "onnxruntime's telemetry has no other switch",
    "memory/workspace/git.py": "git gets an environment without git's own variables",
    "runtime/contracts/clock.py": "the rule of a time zone, which tzlocal reads no further than its name",
    "runtime/settings/config.py": "the settings' environment variables",
    "extensions/providers/completions/keys.py": "the providers' keys and addresses",
    "extensions/providers/litellm.py": "litellm reads its switches from the environment on import",
    "runtime/models/tokenizer.py": "tiktoken takes the folder of its tables from the environment only",
}
IDS = {
    "extensions/http/page/access.py": "cookies and keys of forms, which nobody may guess",
    "extensions/http/server/tokens.py": "makes tokens, which nobody may guess",
    "extensions/postgres/server/database.py": "numbers a process, which no other may have",
    "runtime/contracts/clock.py": "makes the ids",
    "runtime/models/failover.py": "spreads retries, so that clients do not come back at once",
}
OPENERS = {
    "cli/memory/remembered_search.py": "what the last search kept of the settings, and may be lost",
    "cli/serving/log.py": "the log, read on while it grows",
    "cli/setup/service.py": "the service of the owner's, and the unit that it is made of",
    "cli/setup/doctor.py": "how many folders the system watches",
    "runtime/agent/evaluation.py": "the data set that a test names",
    "runtime/hooks/trust.py": "the hooks of the workspace, read once and without following links",
    "extensions/qmd/home.py": "past conversations for the program qmd, and what is noted about it",
    "runtime/extensions/installed/discovery.py": "the manifests of extensions",
    "memory/embedders/e5_model.py": "the vocabulary that comes with the package",
    "extensions/providers/embedding/local_models.py": "model files: their identity, and their download",
    "memory/workspace/watcher.py": "what the system has mounted where",
    "memory/text/days/day_words.py": "the packaged words for days",
    "memory/text/forms/words.py": "the packaged lists of words",
    "memory/workspace/paths.py": "opens without following links, for the other files of its room",
    "memory/workspace/workspace.py": "the packaged templates",
    "memory/workspace/history/history_keeper.py": "why the last commit failed, and may be lost",
    "memory/workspace/history/repository.py": "which notes were seen, and the commits of an older git folder",
    "extensions/postgres/exchange.py": "whose workspace a folder is, and three texts for git",
    "memory/workspace/folder.py": "workspace files: bounded reads, appends, replacements",
    "prompts/rendering.py": "the packaged prompts",
    "cli/logs.py": "the log file",
    "cli/setup/config/changing.py": "the example that new settings begin with, and what could not be used",
    "extensions/forget/search.py": "any file, for what was to be forgotten",
    "extensions/backup/commands.py": "each file of a backup, and the archive",
    "extensions/backup/restore.py": "archives, and what was in them",
    "extensions/backup/encryption.py": "the key of an archive, and pipes to what encrypts it",
    "extensions/importers/sources/pieces.py": "what another program left, which is only read",
    "cli/main.py": "the null device, for a stream that the caller closed",
    "cli/talk/keyboard/attached_files.py": "the files that the owner sends along",
    "cli/talk/keyboard/prompt.py": "the line history",
    "extensions/discord/bridge.py": "which chats are looked through after a pause",
    "extensions/matrix/bridge.py": "the login that a homeserver gave",
    "bridges/contracts/channel.py": "files with a secret alone, which the settings name",
    "runtime/settings/disk/variables.py": "the settings, for the variables that an error may not show",
    "runtime/settings/disk/settings_file.py": "nacre.json5",
    "runtime/settings/disk/auth_profiles.py": "the keys that OpenClaw's sign-in left",
    "extensions/providers/completions/price_map.py": "the packaged price map",
    "extensions/postgres/server/database.py": "the packaged files that make the tables",
    "extensions/mcp/client/session.py": "the pipe for what a server writes on standard error",
    "sessions/disk/durable.py": "transcripts and the index, written so that a kill loses nothing",
    "locks.py": "lock files",
    "sessions/journal/journal.py": "transcripts that are only looked at",
    "sessions/index/image.py": "what is set aside",
}
LONG: dict[str, str] = {}
"""Files and functions over their budget, with the reason."""
HEAVY = {
    "aiofiles",
    "apsw",
    "filelock",
    "httpx",
    "jsonschema",
    "lancedb",
    "litellm",
    "markdown_it",
    "numpy",
    "openai",
    "prompt_toolkit",
    "psycopg",
    "psycopg_pool",
    "pyarrow",
    "pydantic",
    "rich",
    "telegram",
    "tiktoken",
}


def _outside(rule: Callable[[Source], list[str]], allowed: Mapping[str, str] | tuple[str, ...]) -> list[str]:
    return [complaint for source in HOUSE if source.path not in allowed for complaint in rule(source)]


def _idle(rule: Callable[[Source], list[str]], allowed: Mapping[str, str] | tuple[str, ...]) -> list[str]:
    return [path for path in allowed if not any(rule(source) for source in HOUSE if source.path == path)]


def test_imports_point_one_way() -> None:
    """A room imports from lower floors only, and nothing that the law refuses it by name."""
    assert room_rules.unlawful_imports(graph(), LAW) == []


def test_each_room_has_one_floor() -> None:
    """The law names the rooms that there are, each once, and refuses imports only of and from these."""
    assert room_rules.misplaced_rooms(graph(), LAW) == []


def test_nothing_imports_itself_around_a_circle() -> None:
    """There is no circle among modules or rooms, also not through imports inside functions."""
    circles = [*room_rules.import_cycles([*HOUSE, *TESTS]), *room_rules.room_cycles(graph())]

    assert circles == []


def test_folders_can_be_seen_at_a_glance() -> None:
    """A folder of source or of tests has at most 24 entries."""
    here = entries(*ROOMS, "tests", "benchmarks", "examples")

    assert room_rules.crowded_folders(here, MOST_ENTRIES) == []


def test_tests_mirror_the_rooms() -> None:
    """A folder of tests bears the name of a room, or says that it is another kind of test."""
    folders = [folder.removeprefix("tests/") for folder in entries("tests") if folder != "tests"]

    assert room_rules.tests_without_room(folders, FOLDERS, OTHER_TESTS) == []


def test_files_and_functions_keep_their_budgets() -> None:
    """Files have at most 700 lines and functions 60, tests included."""
    complaints = [
        complaint for source in [*HOUSE, *TESTS, *OTHERS] for complaint in rules.over_budget(source)
    ]

    assert [text for text in complaints if not any(name in text for name in LONG)] == []
    assert rules.stale(LONG, complaints) == []


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        pytest.param(rules.clock_reads, CLOCK, id="clock"),
        pytest.param(rules.environment_reads, ENVIRONMENT, id="environment"),
        pytest.param(rules.id_sources, IDS, id="ids"),
        pytest.param(rules.file_openings, OPENERS, id="files"),
    ],
)
def test_the_world_comes_in_through_named_doors(
    rule: Callable[[Source], list[str]], allowed: Mapping[str, str]
) -> None:
    """Only the named files read the clock, the environment, chance, or open files; and they do."""
    assert _outside(rule, allowed) == []
    assert _idle(rule, allowed) == []


def test_each_library_has_its_edge() -> None:
    """A foreign library is imported in the files named for it, and the files named for it import it."""
    used = {(library, source.path) for source in HOUSE for library in rules.foreign_libraries(source)}
    named = {
        (library, path.relative_to(ROOT).as_posix())
        for library, patterns in LIBRARIES.items()
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if (library, path.relative_to(ROOT).as_posix()) in used or "*" not in pattern
    }

    assert used - named == set()
    assert named - used == set()


@pytest.mark.parametrize("room", ["", "memory", "sessions"])
def test_packages_export_names_that_exist(room: str) -> None:
    """Each public name of a package can be imported, and `dir` shows it."""
    package = importlib.import_module(f"nacre.{room}".rstrip("."))

    assert package.__all__
    assert set(package.__all__) <= set(dir(package))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_authors_import_every_error_of_a_turn_from_the_package() -> None:
    """Whoever tells one failure from another needs no deeper import."""
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    kinds = {each.__name__ for each in found if issubclass(each, errors.AgentError)}

    assert kinds <= set(nacre.__all__)


def test_package_files_hold_no_code() -> None:
    """An `__init__` is a list of names and nothing else, and rooms do not take names from the lists."""
    lists = [source for source in HOUSE if source.path.endswith("__init__.py")]

    assert [text for source in lists for text in room_rules.room_list_problems(source)] == []
    assert [text for source in HOUSE for text in room_rules.taken_from_lists(source)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_has_a_readme_that_lists_its_files(folder: str) -> None:
    """A reader finds each file and folder in a table, with what kind of change it allows."""
    here = ROOT / folder
    names = names_in(here) - {"README.md"}
    if not (here / "__init__.py").stat().st_size:
        names -= {"__init__.py"}

    assert room_rules.unlisted_files((here / "README.md").read_text(encoding="utf-8"), names) == []


def test_every_module_and_test_says_what_it_is_for() -> None:
    """Modules and tests carry a docstring."""
    assert [text for source in [*HOUSE, *TESTS, *OTHERS] for text in rules.missing_docstrings(source)] == []


def test_no_vague_names() -> None:
    """No file is called utils, helpers, manager or the like."""
    assert [source.path for source in [*HOUSE, *TESTS] if Path(source.path).stem in rules.VAGUE_NAMES] == []


def test_tests_use_no_mocks_and_do_not_sleep() -> None:
    """Tests work on real things and wait for events, not for time."""
    assert [text for source in TESTS for text in rules.forbidden_in_tests(source)] == []


def test_suppressions_have_code_and_reason() -> None:
    """A checker is silenced only by name, and the linter only with a reason."""
    sources = [source for source in [*HOUSE, *TESTS, *OTHERS] if source.room != "tests/house/rules"]

    assert [text for source in sources for text in rules.bare_suppressions(source)] == []


def test_every_prompt_is_sent_by_somebody() -> None:
    """No prompt file lies there unused."""
    code = "\n".join(source.text for source in HOUSE if source.root in ("runtime", "extensions"))
    code = code.replace('"', "'")
    files = [path for path in (ROOT / "prompts").glob("*/*.md") if path.stem != "README"]
    names = [f"{path.parent.name}/{path.stem}" for path in files]

    assert [name for name in sorted(names) if f"'{name}'" not in code] == []


def test_help_is_cheap(tmp_path: Path) -> None:
    """`nacre --help` imports none of the slow libraries."""
    script = (
        "import sys\nfrom nacre.cli.main import nacre\n"
        "nacre.main(['--help'], standalone_mode=False)\n"
        f"print('HEAVY', sorted(set(sys.modules) & {HEAVY!r}))"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        cwd=tmp_path,
    )

    assert run.stdout.splitlines()[-1] == "HEAVY []"
    assert "Usage" in run.stdout
    assert list(tmp_path.iterdir()) == []
