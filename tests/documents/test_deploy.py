"""What `deploy/` holds: what can be said of it without running it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click import Context

from nacre.cli.main import nacre
from nacre.runtime.settings.config import load_config
from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
UNITS = {"cli/setup/nacre.service": "serve", "deploy/nacre-worker@.service": "admin worker"}
"""The units, with the command of each."""
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


def unit(name: str) -> dict[str, str]:
    """The keys of a unit, each under `Section.Key`; none stands twice."""
    found: dict[str, str] = {}
    section = ""
    for line in (ROOT / name).read_text().splitlines():
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
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_the_unit(name: str, tmp_path: Path) -> None:
    """With a program where it names one."""
    program = tmp_path / "nacre"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / Path(name).name.replace("@", "@1")
    copy.write_text((ROOT / name).read_text().replace("%h/.local/share/nacre/bin/nacre", str(program)))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert [line for line in run.stderr.splitlines() if copy.name in line] == []


@pytest.mark.parametrize(("name", "wanted"), UNITS.items())
def test_the_unit_fits_the_program(name: str, wanted: str) -> None:
    """It runs a command that there is, waits longer than turns may take, and starts no bad settings again."""
    found = unit(name)

    program, _, command = found["Service.ExecStart"].partition(" ")
    assert (Path(program).name, command) == ("nacre", wanted)
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


def test_compose_starts_a_database_a_gateway_and_workers() -> None:
    """Both wait for a healthy database, may take their half minute, and read settings that leave turns to
    workers."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services, extras = compose["services"], compose["x-nacre"]["build"]["args"]["EXTRAS"].split(",")

    assert set(services) == {"database", "gateway", "worker"}
    assert "postgres" in extras
    for name, command in (("gateway", "serve"), ("worker", "admin worker --at-once 16")):
        service = services[name]
        assert " ".join(service["command"]) == command
        assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert service["environment"]["NACRE_DATABASE_URL"].startswith("postgresql://")
        assert service["stop_grace_period"] == "60s"
        assert "./nacre.json5:/state/nacre.json5:ro" in service["volumes"]
    named = {each.partition(":")[0] for service in services.values() for each in service["volumes"]}
    assert {name for name in named if "/" not in name} == set(compose["volumes"])


@pytest.mark.parametrize("path", ["nacre.json5", "kubernetes/nacre.json5"])
def test_the_settings_leave_turns_to_workers(path: str, tmp_path: Path) -> None:
    """They are read as a program reads them."""
    (tmp_path / "nacre.json5").write_text((DEPLOY / path).read_text())
    environment = {"HOME": str(tmp_path), "NACRE_DATABASE_URL": "postgresql://db.example/nacre"}
    config = load_config(environment, state_dir=tmp_path)

    assert config.folders.storage.url == "postgresql://db.example/nacre"
    assert config.settings.storage.workers


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubernetes_gets_a_gateway_and_workers() -> None:
    """As kustomize puts it together: one gateway, workers without a volume of their own, nobody as root."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, timeout=60
    )
    assert built.returncode == 0, built.stderr
    found = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    settings = found["ConfigMap"]["metadata"]["name"]

    assert set(found) == {"ConfigMap", "Service", "StatefulSet", "Deployment"}
    assert found["StatefulSet"]["spec"]["replicas"] == 1
    for kind, command in (("StatefulSet", ["serve"]), ("Deployment", ["admin", "worker", "--at-once", "16"])):
        spec = found[kind]["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["terminationGracePeriodSeconds"] > 30
        assert pod["containers"][0]["args"] == command
        assert {"name": "settings", "configMap": {"name": settings}} in pod["volumes"]
