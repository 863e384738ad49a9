"""The source files and folders of this checkout, read once for the tests that look at all of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.house.rules.rooms import RoomGraph, room_graph
from tests.house.rules.source import Source

ROOT = Path(__file__).parents[2]
ROOMS = (
    "extensions",
    "cli",
    "bridges",
    "runtime",
    "sessions",
    "memory",
    "prompts",
    "workspace_template",
)


ROOT_MODULES = ("web", "closing", "locks", "record")
"""What every room may import: modules beside the rooms."""


def _module(path: Path, package: str) -> str:
    parts = [package, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(part for part in parts if part and part != "__init__")


def _sources(*folders: str, package: str) -> list[Source]:
    return [
        Source(
            path=path.relative_to(ROOT).as_posix(),
            module=_module(path, package),
            text=path.read_text(encoding="utf-8"),
        )
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def _module_of_root(name: str) -> Source:
    text = (ROOT / f"{name}.py").read_text(encoding="utf-8")
    return Source(path=f"{name}.py", module=f"nacre.{name}", text=text)


def names_in(folder: Path) -> set[str]:
    """What the repository has in a folder; a folder's name ends with a slash."""
    return {
        path.name + ("/" if path.is_dir() else "")
        for path in folder.iterdir()
        if not path.name.startswith(".") and (path.is_file() or _has_files(path))
    }


def entries(*roots: str) -> dict[str, int]:
    """How many entries each folder below these has, and they themselves."""
    return {
        folder.relative_to(ROOT).as_posix(): len(names_in(folder))
        for root in roots
        for folder in [ROOT / root, *(path for path in (ROOT / root).rglob("*") if path.is_dir())]
        if not folder.name.startswith(".") and _has_files(folder)
    }


def _has_files(folder: Path) -> bool:
    """Whether more than compiled modules lies there: these outlive a folder that moved away."""
    return any(path.is_file() and path.parent.name != "__pycache__" for path in folder.rglob("*"))


HOUSE = [*_sources(*ROOMS, package="nacre"), *map(_module_of_root, ROOT_MODULES)]
TESTS = _sources("tests", package="")
OTHERS = _sources("benchmarks", "examples", package="")
FOLDERS = sorted({source.room for source in HOUSE} - set(ROOT_MODULES))


@cache
def graph() -> RoomGraph:
    """Who imports whom in this checkout."""
    return room_graph(HOUSE)
