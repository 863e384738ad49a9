"""The source files of this checkout, read once for the tests that look at all of them."""

from __future__ import annotations

from pathlib import Path

from tests.house_rules import Source

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "runtime", "sessions", "memory", "prompts", "workspace_template")


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


HOUSE = _sources(*ROOMS, package="nacre")
TESTS = _sources("tests", package="")
FOLDERS = sorted({str(Path(source.path).parent) for source in HOUSE})
OTHERS = _sources("benchmarks", "examples", package="")
