"""The lowest version of each library that `pyproject.toml` allows, as a constraints file for pip.

    python .ci/lowest.py > build/lowest.txt
    python .ci/lowest.py tests

The second prints the tests of the rooms that import a library: the others do the same with any version.

A program that embeds Nacre may have to live with an older library than the one that Nacre is tested with, so
the tests also run with these (`make lowest`). The tools of the tests stay as in `constraints.txt`.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def lowest() -> list[str]:
    """Lines `name==version`: of the dependencies the lower bound, of the tools the tested version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = [Requirement(text) for text in project["dependencies"]]
    lines = [
        f"{bound.name}=={limit.version}"
        for bound in bounds
        for limit in bound.specifier
        if limit.operator == ">="
    ]
    tools = {canonicalize_name(Requirement(text).name) for text in project["optional-dependencies"]["dev"]}
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [*lines, *(line for line in tested if canonicalize_name(line.partition("==")[0]) in tools)]


def tests() -> list[str]:
    """The folders and files of `tests/` that mirror what may import a foreign library."""
    sys.path.insert(0, str(ROOT))
    from tests.house.rules.libraries import LIBRARIES

    places = {place for files in LIBRARIES.values() for place in files if not place.endswith("__init__.py")}
    rooms = [(place, place.partition("*")[0].rpartition("/")[0]) for place in places]
    mirrored = [Path("tests", room or f"test_{place}") for place, room in rooms]
    found = {next(each for each in (path, *path.parents) if (ROOT / each).exists()) for path in mirrored}
    return sorted(str(each) for each in found if found.isdisjoint(each.parents))


if __name__ == "__main__":
    sys.stdout.write("\n".join(tests() if sys.argv[1:] == ["tests"] else lowest()) + "\n")
