"""The systemd unit and the container file: what can be said of them without running either."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from click import Context

from nacre.cli.main import nacre
from tests.house.tree import ROOT

UNIT = ROOT / "cli" / "setup" / "nacre.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
INSTRUCTIONS = {
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "FROM",
    "HEALTHCHECK",
    "RUN",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}


def unit() -> dict[str, str]:
    """The keys of the unit, each under `Section.Key`; none stands twice."""
    found: dict[str, str] = {}
    section = ""
    for line in UNIT.read_text().splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            assert found.setdefault(f"{section}.{key}", value) == value
    return found


def steps() -> list[tuple[str, str]]:
    """The instructions of the container file, in order."""
    lines = CONTAINERFILE.read_text().splitlines()
    made = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in made]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """With a program where it names one."""
    program = tmp_path / "nacre"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / "nacre.service"
    copy.write_text(UNIT.read_text().replace("%h/.local/share/nacre/bin/nacre", str(program)))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert [line for line in run.stderr.splitlines() if "nacre.service" in line] == []


def test_the_unit_fits_the_program() -> None:
    """It runs a command that there is, waits longer than turns may take, and starts no bad settings again."""
    found = unit()

    program, command = found["Service.ExecStart"].split()
    assert (Path(program).name, command) == ("nacre", "serve")
    assert int(found["Service.TimeoutStopSec"]) > 30
    assert (found["Service.KillSignal"], found["Service.KillMode"]) == ("SIGTERM", "mixed")
    assert found["Service.RestartPreventExitStatus"] == "2"
    assert found["Install.WantedBy"] == "default.target"


def test_the_container_file_is_made_of_known_steps() -> None:
    """Each stage has its base, what is copied is there, and the extras are those of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = steps()
    stages: set[str] = set()

    assert {name for name, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "FROM"
    for name, rest in found:
        if name == "FROM":
            version = re.search(r"python:3\.(\d+)-slim", rest)
            assert version is not None
            assert int(version[1]) >= int(project["requires-python"].removeprefix(">=3."))
            stages |= {rest.rpartition(" AS ")[2]} if " AS " in rest else set()
        if name == "COPY" and (source := re.match(r"--from=(\w+)", rest)):
            assert source[1] in stages
        if name == "ARG":
            extras = rest.partition("=")[2].split(",")
            assert set(extras) <= set(project["optional-dependencies"])
        if name == "RUN" and (file := re.search(r"--constraint (\S+)", rest)):
            assert (ROOT / file[1]).is_file()


def test_the_container_runs_the_program_as_nobody_special() -> None:
    """Not as root, with its state in the volume, and commands that there are."""
    found = steps()
    last = dict(found)
    known = nacre.list_commands(Context(nacre))

    assert last["USER"] == "nacre"
    assert ("ENV", "NACRE_STATE_DIR=/state") in found
    assert json.loads(last["VOLUME"]) == ["/state"]
    assert json.loads(last["ENTRYPOINT"]) == ["nacre"]
    assert json.loads(last["CMD"])[0] in known
    assert json.loads(last["HEALTHCHECK"].partition(" CMD ")[2])[1] in known
    assert last["STOPSIGNAL"] == "SIGTERM"
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not {"README.md", "constraints.txt", "pyproject.toml"} & set(ignored)
