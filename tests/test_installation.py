"""The command that an error names installs an extra in the environment that the program runs in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nacre.installation import command_for, install_command, install_extra
from tests.servers.warm_python import run_warm

CHECKOUT = {"url": "file:///home/ann/my%20nacre", "dir_info": {"editable": True}}
FROM_GIT = {
    "url": "https://a.test/n",
    "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "5f"},
}
WHEEL = {"url": "https://a.test/nacre-1-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("prefix", "has_pip", "source", "command"),
    [
        ("/opt/env", True, {}, "/opt/env/bin/python -m pip install 'nacre[irc]'"),
        ("/opt/env", False, {}, "uv pip install --python /opt/env/bin/python 'nacre[irc]'"),
        ("/opt/env", True, CHECKOUT, "/opt/env/bin/python -m pip install -e '/home/ann/my nacre[irc]'"),
        (
            "/opt/env",
            True,
            FROM_GIT,
            "/opt/env/bin/python -m pip install 'nacre[irc] @ git+https://a.test/n@v1'",
        ),
        (
            "/opt/env",
            True,
            WHEEL,
            "/opt/env/bin/python -m pip install 'nacre[irc] @ https://a.test/nacre-1-py3-none-any.whl'",
        ),
    ],
)
def test_the_command_is_that_of_the_environment(
    prefix: str, has_pip: bool, source: dict[str, object], command: str
) -> None:
    """An environment of pip or uv, from the index, a checkout, a repository or a wheel."""
    python = Path(prefix, "bin/python")
    named = command_for(
        "irc", package="nacre", prefix=Path(prefix), python=python, has_pip=has_pip, source=source
    )
    assert named == command


@pytest.mark.parametrize(
    ("receipt", "text", "command"),
    [
        (
            "uv-receipt.toml",
            '[tool]\nrequirements = [{ name = "nacre", directory = "/srv/nacre" }]\n',
            "uv tool install '/srv/nacre[irc]'",
        ),
        (
            "uv-receipt.toml",
            '[tool]\npython = "3.12"\nrequirements = [{ name = "nacre", extras = ["serve", "irc"] }, '
            '{ name = "hives", specifier = ">=2" }, { name = "bees", editable = "/srv/bees" }]\n',
            "uv tool install '/srv/nacre[serve,irc]' "
            "--with 'hives>=2' --with-editable /srv/bees --python 3.12",
        ),
        ("uv-receipt.toml", "torn", "uv pip install --python {prefix}/bin/python '/srv/nacre[irc]'"),
        (
            "pipx_metadata.json",
            '{"main_package": {"package_or_url": "/srv/nacre"}}',
            "pipx install --force '/srv/nacre[irc]'",
        ),
        (
            "pipx_metadata.json",
            '{"main_package": {"package_or_url": "/srv/nacre[telegram,serve]"}}',
            "pipx install --force '/srv/nacre[telegram,serve,irc]'",
        ),
    ],
)
def test_a_tool_keeps_what_it_has(receipt: str, text: str, command: str, tmp_path: Path) -> None:
    """uv and pipx make a tool what the command says, so that its extras and packages are named again."""
    (tmp_path / receipt).write_text(text)
    named = command_for(
        "irc",
        package="nacre",
        prefix=tmp_path,
        python=tmp_path / "bin/python",
        has_pip=False,
        source={"url": "file:///srv/nacre", "dir_info": {}},
    )
    assert named == command.format(prefix=tmp_path)


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


def test_a_file_of_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra is installed by the environment's own pip, in whichever folder `nacre init` was started."""
    (tmp_path / "pip.py").write_text("open('was-run', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "[no extra]" in install_extra("no extra")  # refused before the network is asked
    assert not (tmp_path / "was-run").exists()


def test_a_source_that_is_gone_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image that was built from it."""
    info = tmp_path / "nacre_gone-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nacre-gone\nVersion: 1\n", encoding="utf-8")
    (info / "direct_url.json").write_text(
        json.dumps({"url": (tmp_path / "source").as_uri(), "dir_info": {}}), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("irc", package="nacre-gone").endswith(" 'nacre-gone[irc]'")
    (tmp_path / "source").mkdir()
    assert install_command("irc", package="nacre-gone").endswith(f" '{tmp_path}/source[irc]'")
