"""Checks of what the assistant may use: the programs of tool servers, and skills. Edge."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nacre.cli.setup.doctor.finding import Finding
from nacre.installation import install_command

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config


async def tool_findings(config: Config) -> list[Finding]:
    """Whether each server of `mcp.servers` could be started, and each skill be used. Starts nothing."""
    from nacre.memory.contracts.settings import at_home
    from nacre.runtime.storage.storage import open_skills

    found: list[Finding] = []
    servers = {name: server for name, server in config.settings.mcp.servers.items() if server.enabled}
    if servers and find_spec("mcp") is None:
        advice = f"Install it with `{install_command('mcp')}`."
        text = f"{', '.join(servers)}: the library mcp is not installed"
        found.append(Finding(area="tool servers", state="problem", text=text, advice=advice))
    for name, server in servers.items():
        path = config.environment.get("PATH")
        if server.command and shutil.which(at_home(server.command, config.home), path=path) is None:
            text = f"{name}: there is no program {server.command!r}"
            advice = f"Install it, or write its whole path in mcp.servers.{name}.command."
            found.append(Finding(area="tool servers", state="problem", text=text, advice=advice))
    if servers and not found:
        found.append(Finding(area="tool servers", state="well", text=", ".join(servers)))
    skills = await open_skills(config).found()
    advice = "`nacre admin extensions skills` lists them all."
    found += [Finding(area="skills", state="note", text=text, advice=advice) for text in skills.problems]
    if skills.skills and not skills.problems:
        found.append(Finding(area="skills", state="well", text=str(len(skills.skills))))
    return found
