"""The service that runs `nacre serve`: a file for the system's service manager. Edge: it writes that file."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.record import Record
from nacre.runtime.settings.config import home_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nacre.cli.invocation import Invocation


class Service(Record):
    """A file for the system's service manager that runs `nacre serve`, and the command that starts it."""

    file: Path
    data: bytes
    start: str


def service_for(
    platform: str, environment: Mapping[str, str], state_dir: Path, program: Sequence[str]
) -> Service | None:
    """The service of a user: a systemd unit on Linux, a launchd agent on macOS, else `None`.

    `platform` is as in `sys.platform`, `program` the command line that serves.
    """
    home = home_folder(environment)
    is_usual = state_dir == home / ".nacre"
    if platform == "darwin":
        file = home / "Library/LaunchAgents/nacre.plist"
        output = str(state_dir / "serve.out")
        agent: dict[str, Any] = {
            "Label": "nacre",
            "ProgramArguments": list(program),
            "EnvironmentVariables": {} if is_usual else {"NACRE_STATE_DIR": str(state_dir)},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": 60,
            "Umask": 0o077,
            "StandardOutPath": output,
            "StandardErrorPath": output,
        }
        start = f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(file))}"
        return Service(file=file, data=plistlib.dumps(agent), start=start)
    if platform != "linux" or shutil.which("systemctl", path=environment.get("PATH")) is None:
        return None
    config_home = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    unit = Path(__file__).with_name("nacre.service").read_text(encoding="utf-8")
    command = " ".join(f'"{_unit_text(word).replace("$", "$$")}"' for word in program)
    unit = unit.replace("ExecStart=%h/.local/share/nacre/bin/nacre serve", f"ExecStart={command}")
    if not is_usual:
        folder = _unit_text(str(state_dir))
        keys = f"EnvironmentFile=-{str(state_dir).replace('%', '%%')}/serve.env"
        unit = unit.replace(
            "EnvironmentFile=-%h/.nacre/serve.env", f'Environment="NACRE_STATE_DIR={folder}"\n{keys}'
        )
    return Service(
        file=config_home / "systemd/user/nacre.service",
        data=unit.encode(),
        start="systemctl --user enable --now nacre && loginctl enable-linger",
    )


def _unit_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def service_here(invocation: Invocation) -> Service | None:
    script = Path(sys.executable).with_name("nacre")
    program = [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "nacre"]
    return service_for(sys.platform, invocation.environment, invocation.config.state_dir, [*program, "serve"])


def write_service(invocation: Invocation) -> Service | None:
    """Writes the service unless it exists; `None` if there is no service manager, or another service."""
    service = service_here(invocation)
    if service is None:
        invocation.warn(
            "No service was written, because there is neither systemd nor launchd. Start `nacre serve` as "
            "other programs of this system."
        )
        return None
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        with service.file.open("xb") as file:
            file.write(service.data)
    except FileExistsError:
        if service.file.read_bytes() != service.data:
            invocation.warn(f"{service.file} exists with other content. It was not changed.")
            return None
    return service
