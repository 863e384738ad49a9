"""The lowest version of each library that `pyproject.toml` allows, as a constraints file for pip.

    python .ci/lowest.py > build/lowest.txt

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


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest()) + "\n")
