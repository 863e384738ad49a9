"""The wheel in an environment that holds nothing else: pip, uv, tools of uv and pipx, on each Python at hand.

Only here is an index asked: `make fresh` runs it, nothing else does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.program import environment
from tests.documents.test_built_package import built, copied

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(900)]

PYTHONS = ("3.11", "3.12", "3.13")
INSTALLERS = ("uv", "pip", "pipx", "uv tool")
NO_WALK = 2
"""So many wheels of litellm may be read before one fits. Without its bounds pip read 23 of 37 MB each."""


def _tool(name: str) -> str:
    """A program on the search path."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed: make fresh")


def _ran(*command: str, **variables: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True)
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout[-2_000:]}{run.stderr[-4_000:]}"
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("built")
    return built(copied(folder / "source"), "wheel", folder / "wheels")


@pytest.fixture(params=PYTHONS)
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of this version."""
    uv, version = _tool("uv"), str(request.param)
    # pyenv's own commands answer only for the versions that it was told to use
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{version}.*/bin")
    variables = {**os.environ, "PATH": os.pathsep.join((*map(str, kept), os.environ["PATH"]))}
    for command in ("find", "install", "find"):
        run = subprocess.run(
            [uv, "python", command, version], cwd="/", env=variables, capture_output=True, text=True
        )
        if command == "find" and run.returncode == 0:
            return run.stdout.strip()
    return pytest.skip(f"no Python {version} can be had: {run.stderr.strip()[-200:]}")


def _places(installer: str, into: Path) -> dict[str, str]:
    """The variables with which a tool lies in this folder."""
    names = {
        "pipx": ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR"),
        "uv tool": ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR"),
    }
    return {name: str(into / name) for name in names.get(installer, ())}


def _installed(installer: str, python: str, package: str, into: Path) -> tuple[Path, str]:
    """The program `nacre`, and what the installer said."""
    if places := _places(installer, into):
        name, *words = installer.split()
        said = _ran(_tool(name), *words, "install", "--python", python, package, **places)
        return next(into.glob("*_BIN_DIR/nacre")), said
    if installer == "uv":
        _ran(_tool("uv"), "venv", "--python", python, str(into))
        said = _ran(_tool("uv"), "pip", "install", "--python", str(into / "bin/python"), package)
    else:
        _ran(python, "-m", "venv", str(into))
        said = _ran(str(into / "bin/python"), "-m", "pip", "install", "--no-compile", package)
    return into / "bin/nacre", said


def _run(
    program: Path, home: Path, variables: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        cwd=home,
        env={**variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def _nacre(program: Path, home: Path, variables: Mapping[str, str], *arguments: str) -> str:
    run = _run(program, home, variables, *arguments)
    assert run.returncode == 0, f"nacre {' '.join(arguments)}\n{run.stdout}{run.stderr}"
    return run.stdout


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.covers("PART-1")
def test_a_stranger_installs_the_wheel_and_has_an_assistant(
    installer: str, python: str, wheel: Path, tmp_path: Path
) -> None:
    """It resolves at the first look, makes its folders, remembers, finds again, and its doctor is content."""
    program, said = _installed(installer, python, str(wheel), tmp_path / "environment")
    home = tmp_path / "home"
    home.mkdir()
    variables = environment(home)
    variables.pop("PYTHONPATH", None)

    made = json.loads(_nacre(program, home, variables, "init", "--yes", "--json"))
    _nacre(program, home, variables, "send", "-m", "Remember that the spare key hangs in the shed.")
    found = _nacre(program, home, variables, "memory", "search", "where is the key?")
    checked = json.loads(_nacre(program, home, variables, "doctor", "--json"))

    assert "litellm" not in said
    assert "AGENTS.md" in made["created"]
    assert "hangs in the shed" in found
    assert checked["well"] is True
    assert {each["area"] for each in checked["findings"]} >= {"versions", "disk", "index", "sessions"}


@pytest.mark.parametrize("installer", INSTALLERS)
def test_init_installs_the_extra_that_a_model_needs(installer: str, wheel: Path, tmp_path: Path) -> None:
    """By the installer that installed Nacre, beside the extra that is there; then only the key is missing."""
    into = tmp_path / "environment"
    program, _ = _installed(installer, sys.executable, f"{wheel}[plot]", into)
    home = tmp_path / "home"
    home.mkdir()
    variables = {**os.environ, **environment(home), "PATH": os.environ["PATH"]}  # how the index is reached
    variables = {**variables, **_places(installer, into)}
    variables.pop("PYTHONPATH", None)

    made = _run(program, home, variables, "init", "--yes", "--model", "anthropic/claude-sonnet-5")
    checked = json.loads(_run(program, home, variables, "doctor", "--json").stdout)
    versions = next(each["text"] for each in checked["findings"] if each["area"] == "versions")

    assert made.returncode == 1
    assert "anthropic/claude-sonnet-5" in made.stderr
    assert made.stderr.count("litellm-") <= NO_WALK
    assert "litellm 1." in versions
    assert list(into.rglob("site-packages/matplotlib")), "the extra that was there is gone"
