"""constraints.txt names exactly what an install brings, at the versions that were tested."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


def _constraints() -> dict[str, str]:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def _direct(group: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in {**project, **project["optional-dependencies"]}[group]]


def _tree() -> set[str]:
    """Every package that Nacre and its test tools need on this system, all the way down."""
    seen: set[str] = set()
    waiting = [*_direct("dependencies"), *_direct("dev")]
    while waiting:
        asked = waiting.pop()
        for extra in {"", *asked.extras}:
            key = f"{canonicalize_name(asked.name)}[{extra}]"
            if key in seen:
                continue
            seen.add(key)
            try:
                texts = requires(asked.name) or []
            except PackageNotFoundError as error:
                raise AssertionError(f"{asked.name} is required but not installed") from error
            waiting += [
                need
                for need in map(Requirement, texts)
                if not need.marker or need.marker.evaluate({"extra": extra})
            ]
    return {key.partition("[")[0] for key in seen}


def test_constraints_name_the_whole_tree() -> None:
    """Nothing that gets installed is left to chance, and nothing is listed that is not installed."""
    assert set(_constraints()) == _tree()


def test_constraints_are_exact_and_without_addresses() -> None:
    """Each line is a name and one version; where packages come from is the owner's business."""
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_constraints_lie_within_the_bounds_of_the_project() -> None:
    """The tested version of each direct dependency is one that pyproject.toml allows."""
    versions = _constraints()
    direct = [Requirement(text) for text in requires("nacre") or []]

    assert [
        str(need) for need in direct if versions[canonicalize_name(need.name)] not in need.specifier
    ] == []
