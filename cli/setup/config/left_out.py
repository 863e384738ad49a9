"""What Nacre would leave out with these settings, found without starting anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config


def parts_left_out(config: Config) -> tuple[str, ...]:
    """A sentence for each channel, extension, memory engine or other part that cannot be used, and why."""
    return tuple(
        dict.fromkeys((*config.left_out, *_extensions(config), *_backend(config), *_channels(config)))
    )


def _extensions(config: Config) -> Iterator[str]:
    from nacre.runtime.extensions.choice import chosen, named, not_installed
    from nacre.runtime.extensions.installed.discovery import installed_extensions
    from nacre.runtime.extensions.loading import problem_of
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY

    plugins = config.settings.plugins
    slot = plugins.slots.memory
    wanted = dict.fromkeys(named(plugins))
    if slot not in (MEMORY_CORE, NO_MEMORY):
        wanted[slot] = None
    installed = {item.id: item for item in installed_extensions()} if wanted else {}
    for name in wanted:
        item = installed.get(name)
        if item is None:
            yield not_installed(name, plugins)
            continue
        choice = chosen(name, item.manifest.kind if item.manifest else None, plugins)
        if not choice.is_on and name == slot:
            yield f"plugins.slots.memory is {name!r}, which is off: {choice.reason}. There is no memory tool."
        elif choice.is_on and (problem := problem_of(item, plugins)):
            yield f"The extension {name!r} was not loaded. {problem}"
        elif choice.is_on and (problem := _missing_library(name)):
            yield problem


def _missing_library(name: str) -> str:
    from importlib.util import find_spec

    if name != "memory-lancedb" or find_spec("lancedb") is not None:
        return ""
    from nacre.installation import install_command

    command = install_command("lancedb")
    return f"The extension {name!r} is left out: LanceDB is missing. Install it with: {command}"


def _backend(config: Config) -> Iterator[str]:
    from nacre.runtime.extensions.loading import load_backend

    backend, problems = load_backend(config.settings)
    yield from problems
    if backend is not None and (problem := backend.problem(config)):
        yield problem


def _channels(config: Config) -> Iterator[str]:
    if config.settings.channels:
        from nacre.bridges.channels.configured import configured_accounts

        yield from configured_accounts(config.settings, state_dir=config.state_dir, home=config.home).problems
