"""What is handed out: a source archive that a wheel can be built from, and a wheel that works by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.cli.program import environment
from tests.house.tree import FOLDERS, ROOT

pytestmark = pytest.mark.slow

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "py.typed")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def built(source: Path, what: str, into: Path) -> Path:
    """The `wheel` or `sdist` that a folder of sources makes."""
    into.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{what}", str(into)], cwd=source, check=True, capture_output=True
    )
    [built] = into.iterdir()
    return built


def copied(into: Path) -> Path:
    """The files that a build needs, so that nothing is built in the checkout."""
    for name in (*SOURCES, *(path.name for path in ROOT.glob("*.py*") if path.is_file())):
        into.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, into / name)
    for folder in sorted({folder.partition("/")[0] for folder in FOLDERS}):
        shutil.copytree(ROOT / folder, into / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return into


def test_the_source_archive_makes_a_wheel_that_talks(tmp_path: Path) -> None:
    """Archive, wheel, and a first conversation from it alone; it has no tests, and its names complete."""
    archive = built(copied(tmp_path / "source"), "sdist", tmp_path / "archives")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    wheel = built(source, "wheel", tmp_path / "wheels")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as packed_wheel:
        packed_wheel.extractall(installed)
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=home,
            env={**environment(home), "PYTHONPATH": str(installed)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    init = json.loads(run("-m", "nacre", "init", "--json"))
    run("-m", "nacre", "send", "Remember that the spare key hangs in the shed")
    found = run("-m", "nacre", "memory", "search", "spare key")
    names = run("-c", "import nacre; print(nacre.__file__, *dir(nacre))").split()

    assert not (installed / "nacre" / "tests").exists()
    assert "AGENTS.md" in init["created"]
    assert "hangs in the shed" in found
    assert names[0] == str(installed / "nacre" / "__init__.py")
    assert {"Agent", "BlockingAgent", "Inbound", "Runtime", "tool"} <= set(names)
