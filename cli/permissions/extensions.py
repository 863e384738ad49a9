"""The command `nacre admin extensions`: extensions, skills and hooks, and which of them may run."""

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
from nacre.runtime.settings.sections.plugins import MEMORY_CORE

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.hooks.trust import HookFile, TrustedHooks

_NO_TERMINAL = (
    "Only the owner in a terminal can trust a hook, but standard input is not a terminal. "
    "Run nacre admin extensions hooks trust {name} yourself."
)


@click.group("extensions", cls=Noun, noun="admin extensions", invoke_without_command=True)
@json_option("Print a JSON list.")
@shared_options
def command(context: click.Context, as_json: bool) -> int | None:
    """List extensions, skills and hooks, and whether they are on.

    Without a command, it lists the installed extensions, without running their code.
    """
    if context.invoked_subcommand:
        return None

    invocation = begin(context)
    listed, missing = listed_extensions(invocation.config)
    if as_json:
        return print_json(
            [
                {
                    "id": item.id,
                    "state": item.state,
                    "reason": item.reason,
                    "kind": item.kind or None,
                    "version": item.version or None,
                    "package": item.package or None,
                    "description": item.description,
                }
                for item in listed
            ]
        )
    width = max(len(item.id) for item in listed)
    for item in listed:
        about = " · ".join(word for word in (item.version, item.kind, item.description) if word)
        invocation.say(f"{item.id.ljust(width)}  {item.state.ljust(6)}  {about}".rstrip())
        invocation.say(f"{' ' * width}          {item.reason}")
    invocation.warn(*missing)
    return 0


@command.command("skills")
@json_option("Print a JSON object.")
@shared_options
def skills(context: click.Context, as_json: bool) -> int:
    """List and check the skills of the workspace.

    A skill is a folder in skills/, or in a folder that skills.load.extraDirs names, with a SKILL.md, as
    agentskills.io describes it. The exit code is 1 if one of them cannot be used.
    """
    from nacre.runtime.storage.storage import open_skills

    invocation = begin(context)
    found = asyncio.run(open_skills(invocation.config).found())
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
        invocation.say("There are no skills in the folder skills/ of the workspace.")
    invocation.warn(*found.problems)
    return 1 if found.problems else 0


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
    digests, problems = dict[str, str](), list[str]()
    try:
        digests.update(_trusted_hooks(invocation).digests())
    except ValueError as error:
        problems.append(str(error))
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
    invocation.warn(*problems)
    return 0


@hooks.command("trust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def trust(context: click.Context, name: str, as_json: bool) -> int:
    """Let hooks/NAME.py run as it is now. Every later change revokes this.

    Read the file before. It requires a terminal, so that no program can trust a hook for the owner.
    """
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    if not sys.stdin.isatty():
        invocation.warn(_NO_TERMINAL.format(name=name), tone="error")
        return 1
    found = next((file for file in _files(invocation) if file.name == name.removesuffix(".py")), None)
    if found is None or found.problem:
        why = f"{found.problem}" if found else f"there is no hooks/{name.removesuffix('.py')}.py"
        invocation.warn(
            f"Nothing was trusted: {why}. `nacre admin extensions hooks` lists the hooks.", tone="error"
        )
        return 1
    _trusted_hooks(invocation).trust(found, now=system_clock(owner_zone(None)))
    if as_json:
        return print_json(_hook_json(found, "trusted"))
    invocation.say(f"hooks/{found.name}.py is trusted as it is now (sha256 {found.sha256[:16]}…).")
    invocation.say("It runs from the next start of the assistant on.")
    return 0


@hooks.command("distrust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def distrust(context: click.Context, name: str, as_json: bool) -> int:
    """Revoke the trust in hooks/NAME.py, from the next start on."""
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    plain = name.removesuffix(".py")
    if _trusted_hooks(invocation).distrust(plain, now=system_clock(owner_zone(None))):
        if as_json:
            return print_json({"distrusted": plain})
        invocation.say(f"hooks/{plain}.py is no longer trusted. A running assistant still runs it.")
        return 0
    invocation.warn(f"hooks/{plain}.py was not trusted.", tone="error")
    return 1


def _files(invocation: Invocation) -> tuple[HookFile, ...]:
    from nacre.runtime.hooks.trust import hook_files

    return hook_files(invocation.config.workspace)


def _trusted_hooks(invocation: Invocation) -> TrustedHooks:
    from nacre.runtime.hooks.trust import TrustedHooks

    return TrustedHooks(invocation.config.folders.trusted_hooks)


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
    core = Listed(
        id=MEMORY_CORE,
        state="on" if plugins.slots.memory == MEMORY_CORE else "off",
        reason=f"plugins.slots.memory is {plugins.slots.memory}",
        kind="memory",
        description="Search over the notes; comes with Nacre.",
    )
    return (core, *(_listed(item, config) for item in installed)), tuple(missing)


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
