"""A disk of a few megabytes, in a namespace of its own: full, then read-only."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import WAIT_SECONDS, environment

SCRIPT = """
mount -t tmpfs -o size=4m tmpfs .nacre || exit 77
$NACRE init --yes >/dev/null && echo '- Halcyon' > .nacre/workspace/memory/2026-01-20.md
dd if=/dev/zero of=.nacre/fill bs=4k >/dev/null 2>&1
$NACRE backup kept.tar.gz
rm .nacre/fill; $NACRE search Halcyon >/dev/null 2>&1; mount -o remount,ro .nacre
echo '# read-only'; $NACRE search Halcyon
$NACRE backup still.tar.gz && $NACRE backup --check still.tar.gz
$NACRE doctor
"""


def test_a_disk_that_refuses_everything_can_be_searched_backed_up_and_examined(tmp_path: Path) -> None:
    """The notes are found, and go into an archive on another disk; `doctor` says that none can be written."""
    (tmp_path / ".nacre").mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    program = f"NACRE={shlex.quote(str(Path(sys.executable).with_name('nacre')))}\n"
    run = subprocess.run(
        ["unshare", "-rm", "sh", "-c", program + SCRIPT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=WAIT_SECONDS,
    )
    if run.returncode == 77 or "unshare" in run.stderr:
        pytest.skip("no disk can be mounted here")

    assert "kept.tar.gz was written" in run.stdout, run.stderr
    assert "Halcyon" in run.stdout.partition("# read-only")[2].partition("still.tar.gz")[0], run.stderr
    assert "still.tar.gz is complete" in run.stdout, run.stderr
    assert "Not copied" not in run.stderr
    assert "~/.nacre, ~/.nacre/" in run.stdout, run.stderr
    assert "cannot be written by you" in run.stdout, run.stderr
    assert ".nacre/workspace cannot be written, so no notes are saved" in run.stdout, run.stderr
    assert [each.name for each in tmp_path.glob(".kept*")] == []
