"""What `deploy/` holds: what can be said of it without running it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("path", ["nacre.json5", "helm/values.yaml"])
def test_the_settings_leave_turns_to_workers(path: str, tmp_path: Path) -> None:
    """They are read as a program reads them."""
    text = (DEPLOY / path).read_text()
    (tmp_path / "nacre.json5").write_text(yaml.safe_load(text)["settings"] if path.endswith("yaml") else text)
    environment = {"HOME": str(tmp_path), "NACRE_DATABASE_URL": "postgresql://db.example/nacre"}
    config = load_config(environment, state_dir=tmp_path)

    assert config.folders.storage.url == "postgresql://db.example/nacre"
    assert config.settings.storage.workers


@pytest.mark.postgres
@pytest.mark.parametrize("at_once", [16, 8])
def test_the_chart_gives_a_gateway_and_workers(at_once: int) -> None:
    """Its templates, drawn as Helm draws them, are valid objects of Kubernetes without an unknown key: two
    gateways, workers without a volume of their own, nobody as root, and new settings start both anew."""
    chart, values, found = _drawn(at_once=at_once, settings="{}")
    others = {each["kind"]: each for each in _drawn(at_once=at_once, settings="{ }")[2].values()}
    settings = found["ConfigMap"]["metadata"]["name"]

    assert (chart["apiVersion"], chart["type"]) == ("v2", "application")
    assert chart["appVersion"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert set(found) == {"ConfigMap", "Service", "StatefulSet", "Deployment"}
    assert found["ConfigMap"]["data"] == {"nacre.json5": "{}"}
    assert found["StatefulSet"]["spec"]["replicas"] == values["gateway"]["replicas"] == 2
    assert found["Deployment"]["spec"]["replicas"] == values["worker"]["replicas"]
    commands = {"StatefulSet": ["serve"], "Deployment": ["admin", "worker", "--at-once", str(at_once)]}
    for kind, command in commands.items():
        spec = found[kind]["spec"]
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["terminationGracePeriodSeconds"] > 30
        assert pod["containers"][0]["args"] == command
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": values["keysSecret"]}}]
        assert {"name": "settings", "configMap": {"name": settings}} in pod["volumes"]
        assert others[kind]["spec"]["template"]["metadata"] != spec["template"]["metadata"]
    assert found["Service"]["spec"]["selector"] == found["StatefulSet"]["spec"]["selector"]["matchLabels"]


def _drawn(
    *, at_once: int, settings: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """Chart.yaml, the values, and the objects by their kinds."""
    go_template = pytest.importorskip("go_template", reason="`make postgres` installs py-go-template")
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="`make postgres` installs it")
    chart = yaml.safe_load((DEPLOY / "helm" / "Chart.yaml").read_text())
    values = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())
    values |= {"worker": {**values["worker"], "atOnce": at_once}, "settings": settings}
    known = {"Chart": chart, "Values": values, "Release": {"Name": "home"}}
    found = {}
    for template in sorted((DEPLOY / "helm" / "templates").iterdir()):
        for each in yaml.safe_load_all(go_template.render(template, known).decode()):
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
            found[each["kind"]] = each
    return chart, values, found
