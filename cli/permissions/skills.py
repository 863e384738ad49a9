"""The command `nacre skills`: which skills there are, and what is wrong with those that cannot be used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.files.skills import FoundSkills
    from nacre.runtime.settings.config import Config


@click.command("skills")
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List and check the skills of the workspace.

    A skill is a folder in skills/, or in a folder that skills.load.extraDirs names, with a SKILL.md, as
    agentskills.io describes it. Ends with 1 when one of them cannot be used.
    """
    invocation = begin(context)
    found = asyncio.run(_found(invocation.config))
    entries = invocation.config.settings.skills.entries
    off = {name for name, entry in entries.items() if not entry.enabled}
    if as_json:
        skills = [
            {
                "name": skill.name,
                "description": skill.description,
                "path": skill.path,
                "enabled": skill.name not in off,
            }
            for skill in found.skills
        ]
        print_json({"skills": skills, "problems": list(found.problems)})
        return 1 if found.problems else 0
    for skill in found.skills:
        state = "off" if skill.name in off else "on"
        invocation.say(f"{skill.name} ({state})  {skill.path}", f"    {skill.description}")
    if not found.skills and not found.problems:
        invocation.say("There are no skills: the workspace has no folder skills/ with any.")
    invocation.warn(*found.problems)
    return 1 if found.problems else 0


async def _found(config: Config) -> FoundSkills:
    from nacre.runtime.storage.storage import open_skills

    return await open_skills(config).found()
