"""The extensions as shown to a person: installed, on, off or broken, and why."""

from __future__ import annotations

from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.extensions.choice import Choice, chosen, named, not_installed
from nacre.runtime.extensions.installed.discovery import Installed, installed_extensions
from nacre.runtime.extensions.loading import problem_of
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, PluginsSettings

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
