"""The command that an error names installs an extra in the environment that the program runs in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nacre.installation import command_for, install_command
from tests.servers.warm_python import run_warm

CHECKOUT = {"url": "file:///home/ann/my%20nacre", "dir_info": {"editable": True}}
FOLDER = {"url": "file:///srv/nacre", "dir_info": {}}
ANN = "/home/ann"


@pytest.mark.parametrize(
    ("prefix", "has_pip", "source", "command"),
    [
        ("/opt/env", True, {}, "/opt/env/bin/python -m pip install 'nacre[irc]'"),
        ("/opt/env", False, {}, "uv pip install --python /opt/env/bin/python 'nacre[irc]'"),
        ("/opt/env", True, CHECKOUT, "/opt/env/bin/python -m pip install -e '/home/ann/my nacre[irc]'"),
        (f"{ANN}/.local/share/uv/tools/nacre", False, {}, "uv tool install --force 'nacre[irc]'"),
        (f"{ANN}/.local/share/uv/tools/nacre", False, FOLDER, "uv tool install --force '/srv/nacre[irc]'"),
        (f"{ANN}/.local/pipx/venvs/nacre", True, FOLDER, "pipx install --force '/srv/nacre[irc]'"),
    ],
)
def test_the_command_is_that_of_the_environment(
    prefix: str, has_pip: bool, source: dict[str, object], command: str
) -> None:
    """An environment of pip or uv, a checkout, a tool of uv or pipx."""
    python = Path(prefix, "bin/python")
    named = command_for(
        "irc", package="nacre", prefix=Path(prefix), python=python, has_pip=has_pip, source=source
    )
    assert named == command


def test_it_works_in_this_one(tmp_path: Path) -> None:
    """It names the folder that the tests run in, whichever folder the program is started in."""
    command = install_command("mcp")
    found = re.search(r" -e '(.+)\[mcp\]'$", command)
    assert found, command
    assert Path(found[1], "pyproject.toml").is_file()
    script = tmp_path / "look.py"
    script.write_text("from nacre.installation import install_command\nprint(install_command('mcp'))\n")
    looked = run_warm(str(script), cwd=tmp_path, env={"HOME": str(tmp_path)}, timeout_seconds=20)
    assert looked.stdout.strip() == command
