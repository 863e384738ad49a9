"""The hooks and chat commands of a memory engine, validated before they are used."""

from __future__ import annotations

from dataclasses import field

from nacre.record import Record
from nacre.runtime.commands.command import Command
from nacre.runtime.commands.function import FunctionCommand
from nacre.runtime.commands.registry import Commands
from nacre.runtime.hooks.hooks import Hooks, HookTable, register_all
from nacre.runtime.recall.memory_plugin import EngineCommand, MemoryPlugin


class EngineParts(Record):
    """An engine's handlers by name, and the agent's commands including the engine's."""

    hooks: HookTable = field(default_factory=lambda: HookTable())
    commands: Commands


def engine_parts(engine: MemoryPlugin, commands: Commands) -> EngineParts:
    """Validates what a started engine provides in addition to the existing `commands`.

    Raises:
        ValueError: a hook's name is unknown, or its handler is not callable.
        TypeError: a command was not made by `nacre.command`.
        ConfigError: a command's name is malformed or in use.
    """
    hooks = engine.hooks()
    register_all(Hooks(), hooks)
    return EngineParts(
        hooks=hooks, commands=commands.and_also([_command(each) for each in engine.commands()])
    )


def _command(command: EngineCommand) -> Command:
    if not isinstance(command, FunctionCommand):
        raise TypeError(f"{command!r} is not a chat command; make one of a function with @nacre.command")
    return command.to_command()
