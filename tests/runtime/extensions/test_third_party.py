"""A package of somebody else is built as a wheel, installed, and brings one of everything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import listed, told

SOURCE = Path(__file__).parents[2] / "fixtures" / "third_party"
PIP_SECONDS = 120


def pip(*arguments: str, home: Path) -> None:
    """Runs pip without network and without the settings of whoever runs the tests."""
    run = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--no-index", "--no-deps", "--no-cache-dir"],
        capture_output=True,
        text=True,
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
        timeout=PIP_SECONDS,
    )
    assert run.returncode == 0, run.stderr


def installed_package(home: Path) -> Path:
    """The folder that the package of `tests/fixtures/third_party` was installed into, from a wheel."""
    source, site = home / "source", home / "site"
    shutil.copytree(SOURCE, source)
    pip("wheel", "--no-build-isolation", "--wheel-dir", "dist", str(source), home=home)
    [wheel] = (home / "dist").glob("*.whl")
    pip("install", "--target", str(site), str(wheel), home=home)
    return site


@pytest.mark.slow
def test_a_third_party_package_is_built_installed_and_brings_one_of_each(tmp_path: Path) -> None:
    """Off until the settings name it; then its tool, command, prompt part, hook and engine serve."""
    site = installed_package(tmp_path)
    off = listed(tmp_path, site)["tides"]
    plugins = {"slots": {"memory": "tides"}, "entries": {"tides": {"config": {"harbour": "Lisbon"}}}}
    write_settings(tmp_path / ".nacre", {"plugins": plugins})

    found = listed(tmp_path, site)
    said = ("when is the tide?", "what of the tide again?", "/harbour", "/tides", "/status")
    came = told(tmp_path, site, *said)
    again = run_nacre(tmp_path, "send", "-m", "/status", PYTHONPATH=str(site))

    assert (off["state"], "plugins.slots.memory" in off["reason"]) == ("off", True)
    assert (found["tides"]["state"], found["tides"]["version"]) == ("on", "1.2.0")
    assert found["memory-core"]["state"] == "off"
    assert (came["tools"], came["memory_tools"]) == (["tide_log", "tide"], [])
    assert came["results"] == ["Lisbon, Monday: 3.5 m", ""]
    assert "## Harbour\n\nThe owner's harbour is Lisbon." in came["stable"]
    assert "## Tide log\n\nCall `tide_log`" in came["stable"]
    assert "> when is the tide?" in came["tail"]
    assert "> The harbour master of Lisbon is awake for main." in came["tail"]
    assert came["tail"].endswith("> The moon over Lisbon is full.")
    assert came["replies"][-3:-1] == ["The harbour is Lisbon.", "Lisbon: 2"]
    assert "2 lines in the tide log" in came["replies"][-1]
    assert "2 lines in the tide log" in again.stdout
