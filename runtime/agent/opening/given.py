"""What a bot author hands in besides the settings, and what installed extensions add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from nacre.memory.files.facts.fact_memory import FactMemory
from nacre.records.record import Record
from nacre.runtime.agent.opening.given_tools import BUILT_IN_TOOLS
from nacre.runtime.agent.opening.shared import World
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.extensions.choice import needed_by
from nacre.runtime.extensions.host import MakeToolSource
from nacre.runtime.extensions.loading import load_extensions
from nacre.runtime.hooks.hooks import Handler, HookTable
from nacre.runtime.recall.facts.open_facts import fact_parts, open_facts
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.settings import Settings
from nacre.runtime.turn.loop.limits import UsageLimits
from nacre.runtime.turn.loop.sub_agent import AuthorTool
from nacre.runtime.turn.prompt_parts.prompt_part import PromptPart


class Given(Record):
    """What a bot author hands in besides the settings; without a model or a memory engine these decide."""

    model: ChatModel | None = None
    tools: tuple[AuthorTool, ...] = ()
    hooks: HookTable = field(default_factory=lambda: HookTable())
    extension_hooks: tuple[tuple[str, Handler[Any, Any]], ...] = ()
    commands: tuple[Command, ...] = ()
    limits: UsageLimits | None = None
    prompt_parts: tuple[PromptPart, ...] = ()
    memory: MemoryPlugin | None = None
    memory_id: str = ""
    tool_sources: tuple[MakeToolSource, ...] = ()


def with_facts(
    config: Config, given: Given, world: World, on_changed: Callable[[str], None]
) -> tuple[FactMemory, Given]:
    """The agent's facts and notes, and `given` with what the settings let a model do with them."""
    facts = open_facts(config, world.now, lent=world.embedder, on_changed=on_changed)
    world.closing.push_async_callback(facts.close)
    brings = fact_parts(facts, config, world.now)
    hooks = (*given.extension_hooks, *brings.hooks)
    return facts, replace(given, tools=(*given.tools, *brings.tools), extension_hooks=hooks)


def extended(given: Given, settings: Settings) -> tuple[Given, Commands, tuple[str, ...]]:
    """`given` with what the extensions bring behind it, all chat commands, and sentences for the owner.

    A memory engine that the author handed in stays in the place of an extension's.

    Raises:
        ConfigError: a command of the author has a name that is malformed or taken.
    """
    loaded = load_extensions(
        settings.plugins,
        built_in=needed_by(settings),
        tool_names=(*BUILT_IN_TOOLS, *(tool.name for tool in given.tools)),
        part_names=[part.name for part in given.prompt_parts],
        commands=Commands(given.commands, reset_triggers=settings.session.reset_triggers),
    )
    for host in loaded.hosts:
        given = replace(
            given,
            tools=(*given.tools, *host.tools),
            prompt_parts=(*given.prompt_parts, *host.prompt_parts),
            extension_hooks=(*given.extension_hooks, *host.hooks),
            tool_sources=(*given.tool_sources, *host.tool_sources),
        )
        if given.memory is None and host.engine is not None:
            given = replace(given, memory=host.engine, memory_id=host.extension_id)
    return given, loaded.commands, loaded.notices
