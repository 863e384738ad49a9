"""From a clone to the first answer of a real model, in one sitting, with the seconds after each command.

`make picture` has it again and draws `docs/pictures/first-answer.svg`. It needs git, uv and the server of
`make real`. Packages come from where uv gets them; its cache begins empty.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from tests.documents.session_picture import COLUMNS, picture
from tests.isolation import isolate
from tests.servers import llama_server

CHECKOUT = Path(__file__).parents[2]
PICTURE = CHECKOUT / "docs" / "pictures" / "first-answer.svg"
_WINDOW_TOKENS = 8192
_ROWS = 40


def sitting(home: Path, address: str) -> str:
    """What a terminal shows of the sitting, escape sequences and all; the commands run in the given folder.

    Raises:
        subprocess.CalledProcessError: a command failed; what it said is on the error stream.
    """
    commands = (
        (f"git clone {shlex.quote(str(CHECKOUT))} nacre", "git clone ADDRESS-OF-NACRE && cd nacre"),
        ("cd nacre; uv tool install --quiet .", "uv tool install ."),
        (f"nacre init --yes --address {address}", f"nacre init --yes --address {address}"),
        ("nacre send 'Hello! What can you do?'", "nacre send 'Hello! What can you do?'"),
    )
    lines = ["set -e", "began=$(date +%s%N)"]
    for command, shown in commands:
        lines.append(f"printf '\\033[1m$ %s\\033[0m\\n' {shlex.quote(shown)}")
        lines.append(command)
        lines.append('seconds=$(awk "BEGIN { printf \\"%.1f\\", ($(date +%s%N) - $began) / 1e9 }")')
        lines.append("printf '\\033[90m%s s\\033[0m\\n\\n' $seconds")
    local = home / ".local" / "bin"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NACRE_")},
        "HOME": str(home),
        "TERM": "xterm-256color",
        "NO_PROXY": "127.0.0.1",
        "PATH": f"{local}:{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
        "UV_PYTHON": sys.executable,
        "UV_CACHE_DIR": str(home / ".cache" / "uv"),
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
    script = subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=home,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 65_536):
            shown += more
    except OSError:  # how Linux tells the end of a pseudo-terminal
        pass
    finally:
        os.close(ours)
    text = shown.decode("utf-8", "replace").replace(str(home), "~")
    if script.wait():
        sys.stderr.write(text)
        raise subprocess.CalledProcessError(script.returncode, "the sitting")
    return text


def main() -> None:
    """Has the sitting and draws its picture, or says what is missing."""
    if shutil.which("uv") is None or not llama_server.is_installed():
        sys.stderr.write("The sitting needs uv and the server of `make real`; its picture stays as it is.\n")
        return
    program = [sys.executable, "-m", "tests.servers.llama_server", str(_WINDOW_TOKENS)]
    server = subprocess.Popen(program, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as home:
            drawn = sitting(Path(home), address)
        PICTURE.write_text(picture(drawn, title="from a clone to the first answer"), encoding="utf-8")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    isolate()
    main()
