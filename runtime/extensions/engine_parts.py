"""What a memory engine brings beside its memory: hooks and chat commands, looked at before they join."""

from __future__ import annotations

from dataclasses import field

from nacre.record import Record
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.function import FunctionCommand
from nacre.runtime.commands.registry import Commands
from nacre.runtime.hooks.hooks import Hooks, HookTable, register_all
from nacre.runtime.recall.memory_plugin import EngineCommand, MemoryPlugin


class EngineParts(Record):
    """An engine's handlers by name, and the agent's commands with the engine's among them."""

    hooks: HookTable = field(default_factory=lambda: HookTable())
    commands: Commands


def engine_parts(engine: MemoryPlugin, commands: Commands) -> EngineParts:
    """What a started engine brings, beside the `commands` that are there already.

    Raises:
        ValueError: a hook's name is unknown, or what stands there cannot be called.
        TypeError: a command was not made by `nacre.command`.
        ConfigError: a command has a malformed name, or one that is taken.
    """
    hooks = engine.hooks()
    register_all(Hooks(), hooks)
    return EngineParts(
        hooks=hooks, commands=commands.and_also([_command(each) for each in engine.commands()])
    )


def _command(brought: EngineCommand) -> Command:
    if not isinstance(brought, FunctionCommand):
        raise TypeError(f"it brings {brought!r} as a chat command; @nacre.command makes one of a function")
    return brought.to_command()
