"""Holds for every test: it never sees the owner's environment (`tests/isolation.py`), it has a time limit,
and a slow example of a property is no failure."""

from __future__ import annotations

import gc
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from nacre.memory.embedders.e5 import loaded_model
from nacre.memory.embedders.e5_model import E5Model
from tests.isolation import isolate, refuse_base_folder
from tests.libraries import keyring_file
from tests.servers.postgres_server import database_url, postgres_server

__all__ = ["database_url", "keyring_file", "postgres_server"]
"""Fixtures for any room: of rows that may lie in PostgreSQL, and of keys that may lie in a keyring."""

SLOW_SECONDS = 900
"""The limit of a test marked as slow, on a machine that is busy; pyproject.toml holds that of the others."""

SLOW_LIBRARIES = {
    "litellm": "LiteLLM|TranscriptionServer",
    "lancedb": "needs_lancedb|engine_matrix|memory-lancedb",
}
"""What the files are known by that import a library which takes seconds."""

_MODEL = pytest.StashKey[E5Model]()
"""Kept by a process that runs many tests, for the tests share what is loaded."""

isolate()

# A busy machine makes a single example slow; that says nothing about the code.
settings.register_profile("nacre", deadline=None)
settings.load_profile("nacre")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to empty a folder in which the owner's assistant lies."""
    if config.option.basetemp:
        refuse_base_folder(Path(config.option.basetemp))
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.stash[_MODEL] = loaded_model()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files none of whose tests `-m` can choose: to import them all takes most of a minute."""
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    if not re.fullmatch(r"test_\w+\.py", collection_path.name) or collection_path in named:
        return None
    return True if has_none_chosen(collection_path.read_text("utf-8"), config.option.markexpr) else None


def has_none_chosen(source: str, expression: str) -> bool:
    """Whether `-m expression` surely chooses no test of a file; only `a and not b and …` is looked at."""
    terms = expression.split(" and ")
    if not all(re.fullmatch(r"(?:not )?[a-z]+", term) for term in terms):
        return False
    unwanted = {term.removeprefix("not ") for term in terms if term.startswith("not ")}
    whole_file = re.search(r"^pytestmark = (\[[^\]]*\]|.*)", source, re.MULTILINE)
    if whole_file and not unwanted.isdisjoint(re.findall(r"mark\.(\w+)", whole_file[1])):
        return True
    words = set(re.findall(r"\w+", source))
    wanted = [term for term in terms if not term.startswith("not ")]
    return any(f"mark.{term}" not in source and words.isdisjoint(_modules_with(term)) for term in wanted)


@cache
def _modules_with(marker: str) -> frozenset[str]:
    """The modules of the tests that name a marker; what imports one may have it from there."""
    files = Path(__file__).parent.rglob("*.py")
    return frozenset(file.stem for file in files if f"mark.{marker}" in file.read_text("utf-8"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests their longer limit, where they set none themselves."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`: the files that import a slow library go to one process; it takes seconds."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileAndLibrary(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return _slow_library(config.rootpath / file) or file

    return ByFileAndLibrary(config, log) if config.getoption("dist") == "loadfile" else None


@cache
def _slow_library(file: Path) -> str:
    text = file.read_text("utf-8")
    return next((name for name, pattern in SLOW_LIBRARIES.items() if re.search(pattern, text)), "")


def pytest_collection_finish() -> None:
    """Nothing that was collected is garbage before the end; looking at it again and again takes long."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor is what a file has left behind, such as a library: a look at half a million objects keeps every
    thread waiting, on a busy machine for longer than a search waits for its embedder."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
