"""The command `nacre admin extensions`: what adds to Nacre, and what of it may run."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import print_json
from nacre.record import Record
from nacre.runtime.extensions.choice import Choice, chosen, named, not_installed
from nacre.runtime.extensions.installed.discovery import Installed, installed_extensions
from nacre.runtime.extensions.loading import problem_of
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, PluginsSettings

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.memory.files.skills import FoundSkills
    from nacre.runtime.hooks.trust import HookFile, TrustedHooks

_NOBODY_AT_IT = (
    "Trust is given by the owner in a terminal, and standard input is none. "
    "Run nacre admin extensions hooks trust {name} yourself."
)


@click.group("extensions", cls=Noun, noun="admin extensions", invoke_without_command=True)
@json_option("Print a JSON list.")
@shared_options
def command(context: click.Context, as_json: bool) -> int | None:
    """List extensions, skills and hooks, and whether they are on.

    Alone it lists the extensions that are installed, of which no code runs for that.
    """
    if context.invoked_subcommand:
        return None

    invocation = begin(context)
    listed, missing = listed_extensions(invocation.config)
    if as_json:
        return print_json([_extension_json(item) for item in listed])
    width = max(len(item.id) for item in listed)
    for item in listed:
        about = " · ".join(word for word in (item.version, item.kind, item.description) if word)
        invocation.say(f"{item.id.ljust(width)}  {item.state.ljust(6)}  {about}".rstrip())
        invocation.say(f"{' ' * width}          {item.reason}")
    invocation.warn(*missing)
    return 0


def _extension_json(item: Listed) -> dict[str, Any]:
    return {
        "id": item.id,
        "state": item.state,
        "reason": item.reason,
        "kind": item.kind or None,
        "version": item.version or None,
        "package": item.package or None,
        "description": item.description,
    }


@command.command("skills")
@json_option("Print a JSON object.")
@shared_options
def skills(context: click.Context, as_json: bool) -> int:
    """List and check the skills of the workspace.

    A skill is a folder in skills/, or in a folder that skills.load.extraDirs names, with a SKILL.md, as
    agentskills.io describes it. Ends with 1 when one of them cannot be used.
    """
    invocation = begin(context)
    found = asyncio.run(_found_skills(invocation.config))
    entries = invocation.config.settings.skills.entries
    off = {name for name, entry in entries.items() if not entry.enabled}
    if as_json:
        found_skills = [
            {
                "name": skill.name,
                "description": skill.description,
                "path": skill.path,
                "enabled": skill.name not in off,
            }
            for skill in found.skills
        ]
        print_json({"skills": found_skills, "problems": list(found.problems)})
        return 1 if found.problems else 0
    for skill in found.skills:
        state = "off" if skill.name in off else "on"
        invocation.say(f"{skill.name} ({state})  {skill.path}", f"    {skill.description}")
    if not found.skills and not found.problems:
        invocation.say("There are no skills: the workspace has no folder skills/ with any.")
    invocation.warn(*found.problems)
    return 1 if found.problems else 0


async def _found_skills(config: Config) -> FoundSkills:
    from nacre.runtime.storage.storage import open_skills

    return await open_skills(config).found()


@command.group("hooks", invoke_without_command=True)
@json_option("Print a JSON list.")
@shared_options
def hooks(context: click.Context, as_json: bool) -> int | None:
    """List the hooks of the workspace and trust them.

    A file hooks/NAME.py runs with the assistant's rights, and only while its content is trusted.
    """
    if context.invoked_subcommand:
        return None
    from nacre.cli.screen.plain import one_line

    invocation = begin(context)
    digests, problem = _digests(_trusted(invocation))
    files = _files(invocation)
    rows = [(file, file.state(digests)) for file in files]
    if as_json:
        return print_json([_hook_json(file, state) for file, state in rows])
    width = max((len(one_line(file.name)) for file in files), default=0)
    for file, state in rows:
        why = f": {file.problem}" if file.problem else ""
        invocation.say(f"{one_line(file.name).ljust(width)}  {state}{why}")
    if not rows:
        invocation.say(f"There are no hooks in {invocation.short(invocation.config.workspace / 'hooks')}.")
    invocation.warn(*problem)
    return 0


@hooks.command("trust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def trust(context: click.Context, name: str, as_json: bool) -> int:
    """Let hooks/NAME.py run as it is now; every later change takes that back.

    Read the file before. Asks for a terminal, so that no program trusts in the owner's place.
    """
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    if not sys.stdin.isatty():
        invocation.warn(_NOBODY_AT_IT.format(name=name), tone="error")
        return 1
    found = next((file for file in _files(invocation) if file.name == name.removesuffix(".py")), None)
    if found is None or found.problem:
        why = f"{found.problem}" if found else f"there is no hooks/{name.removesuffix('.py')}.py"
        invocation.warn(
            f"Nothing was trusted: {why}. `nacre admin extensions hooks` lists what is there.", tone="error"
        )
        return 1
    _trusted(invocation).trust(found, now=system_clock(owner_zone(None)))
    if as_json:
        return print_json(_hook_json(found, "trusted"))
    invocation.say(f"hooks/{found.name}.py is trusted as it is now (sha256 {found.sha256[:16]}…).")
    invocation.say("It runs when the assistant is opened the next time.")
    return 0


@hooks.command("distrust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def distrust(context: click.Context, name: str, as_json: bool) -> int:
    """Let hooks/NAME.py run no more, from the next opening on."""
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    plain = name.removesuffix(".py")
    if _trusted(invocation).distrust(plain, now=system_clock(owner_zone(None))):
        if as_json:
            return print_json({"distrusted": plain})
        invocation.say(f"hooks/{plain}.py is not trusted any more. An assistant that is open still runs it.")
        return 0
    invocation.warn(f"hooks/{plain}.py was not trusted.", tone="error")
    return 1


def _files(invocation: Invocation) -> tuple[HookFile, ...]:
    from nacre.runtime.hooks.trust import hook_files

    return hook_files(invocation.config.workspace)


def _trusted(invocation: Invocation) -> TrustedHooks:
    from nacre.runtime.hooks.trust import TrustedHooks

    return TrustedHooks(invocation.config.folders.trusted_hooks)


def _digests(trusted: TrustedHooks) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        return dict(trusted.digests()), ()
    except ValueError as error:
        return {}, (str(error),)


def _hook_json(file: HookFile, state: str) -> dict[str, Any]:
    return {"name": file.name, "state": state, "sha256": None if file.problem else file.sha256}


ExtensionState: TypeAlias = Literal["on", "off", "broken"]


class Listed(Record):
    """One row of the list. `reason` is the deciding setting, or what is broken."""

    id: str
    state: ExtensionState
    reason: str
    kind: str
    version: str = ""
    package: str = ""
    description: str = ""


def listed_extensions(config: Config) -> tuple[tuple[Listed, ...], tuple[str, ...]]:
    """All extensions, `memory-core` first, and a sentence for each that the settings name but is missing."""
    plugins, installed = config.settings.plugins, installed_extensions()
    known = {item.id for item in installed}
    missing = [not_installed(name, plugins) for name in named(plugins) if name not in known]
    return (_core(plugins), *(_listed(item, config) for item in installed)), tuple(missing)


def _listed(item: Installed, config: Config) -> Listed:
    settings, plugins = config.settings, config.settings.plugins
    kind = item.manifest.kind if item.manifest else None
    choice = chosen(item.id, kind, plugins, driver=config.folders.storage.driver)
    section = settings.channels.get(item.id) if kind == "channel" else None
    if section is not None and section.enabled:
        choice = Choice(is_on=True, reason=f"channels.{item.id} switches it on in nacre serve")
    problem = problem_of(item, plugins) if choice.is_on else item.problem
    return Listed(
        id=item.id,
        state="broken" if problem else "on" if choice.is_on else "off",
        reason=problem or choice.reason,
        kind=kind or "",
        version=item.version,
        package=item.package,
        description=item.manifest.description if item.manifest else "",
    )


def _core(plugins: PluginsSettings) -> Listed:
    is_on = plugins.slots.memory == MEMORY_CORE
    return Listed(
        id=MEMORY_CORE,
        state="on" if is_on else "off",
        reason=f"plugins.slots.memory is {plugins.slots.memory}",
        kind="memory",
        description="Search over the notes; comes with Nacre.",
    )
