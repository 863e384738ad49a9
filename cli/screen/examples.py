"""The examples at the end of each command's help. A test holds that each command has some, and that they name
commands and options that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "admin": ("nacre admin access", "nacre admin log -n 50"),
    "search": (
        "nacre search 'when do I see the dentist'",
        "nacre search boat --after 'last March' --max-results 3 --json",
    ),
    "admin agents": ("nacre admin agents", "nacre admin agents --json"),
    "admin agents list": ("nacre admin agents list",),
    "chat": ("nacre chat", "nacre chat --session project"),
    "admin completion": (
        "nacre admin completion bash >> ~/.bashrc",
        "nacre admin completion fish > ~/.config/fish/completions/nacre.fish",
    ),
    "config": ("nacre config get", "nacre config explain agents.defaults.contextTokens", "nacre config edit"),
    "config check": ("nacre config check", "nacre config check --json"),
    "config edit": ("nacre config edit", "EDITOR=nano nacre config edit"),
    "config explain": (
        "nacre config explain agents.defaults.model.primary",
        "nacre config explain usage.dailyCapUsd --json",
    ),
    "config path": ("nacre config path",),
    "config schema": ("nacre config schema > ~/.nacre/schema.json",),
    "config unset": ("nacre config unset usage.dailyCapUsd",),
    "sessions context": (
        "nacre sessions context",
        "nacre sessions context main --full",
        "nacre sessions context --json",
    ),
    "doctor": ("nacre doctor", "nacre doctor --online", "nacre doctor --fix"),
    "admin extensions skills": ("nacre admin extensions skills", "nacre admin extensions skills --json"),
    "admin extensions": ("nacre admin extensions", "nacre admin extensions --json"),
    "admin extensions hooks": ("nacre admin extensions hooks", "nacre admin extensions hooks trust evening"),
    "admin extensions hooks distrust": ("nacre admin extensions hooks distrust evening",),
    "admin extensions hooks trust": ("nacre admin extensions hooks trust evening",),
    "init": ("nacre init", "nacre init --yes --model ollama/llama3.2"),
    "admin log": ("nacre admin log -n 50", "nacre admin log -f"),
    "memory": ("nacre memory search boat", "nacre memory status", "nacre memory undo"),
    "memory diff": ("nacre memory diff", "nacre memory diff 3f2a9c10"),
    "memory get": ("nacre memory get MEMORY.md", "nacre memory get memory/2026-01-20.md --from 3 --lines 10"),
    "memory index": ("nacre memory index", "nacre memory index --force"),
    "memory log": ("nacre memory log", "nacre memory log MEMORY.md"),
    "memory meter": ("nacre memory meter", "nacre memory meter --json"),
    "memory review": ("nacre memory review", "nacre memory review accept all"),
    "memory search": (
        "nacre memory search 'when do I see the dentist'",
        "nacre memory search boat --after 'last March' --max-results 3 --json",
    ),
    "memory status": ("nacre memory status", "nacre memory status --deep"),
    "memory undo": ("nacre memory undo", "nacre memory undo 3f2a9c10"),
    "memory why": ("nacre memory why memory/2026-01-20.md#L3",),
    "admin access": ("nacre admin access", "nacre admin access approve 7K3QX9"),
    "admin access approve": (
        "nacre admin access approve 7K3QX9",
        "nacre admin access approve 7K3QX9 --owner",
    ),
    "admin access deny": ("nacre admin access deny 7K3QX9",),
    "admin access list": ("nacre admin access list",),
    "admin access revoke": ("nacre admin access revoke telegram 12345",),
    "admin schedule": (
        "nacre admin schedule",
        "nacre admin schedule add 'Water the plants' --cron '0 9 * * MON'",
    ),
    "admin schedule add": (
        "nacre admin schedule add 'Take the bread out' --at 20m",
        "nacre admin schedule add 'Plan the week' --cron '0 9 * * MON'",
    ),
    "admin schedule list": ("nacre admin schedule list",),
    "admin schedule remove": ("nacre admin schedule remove 3",),
    "send": (
        "nacre send -m 'What is my boat called?'",
        "nacre send --session project --json -m 'Sum it up' | jq -r .reply",
    ),
    "serve": ("nacre serve --check", "nacre serve"),
    "sessions": ("nacre sessions list", "nacre sessions show main"),
    "sessions cleanup": ("nacre sessions cleanup --dry-run",),
    "sessions delete": ("nacre sessions delete project",),
    "sessions export": ("nacre sessions export main -o talk.md", "nacre sessions export main --format jsonl"),
    "sessions list": ("nacre sessions list", "nacre sessions list --json"),
    "sessions plot": ("nacre sessions plot main", "nacre sessions plot main -o main.svg"),
    "sessions resume": ("nacre sessions resume 0198c2f0",),
    "sessions show": ("nacre sessions show main --last 30",),
    "status": ("nacre status", "nacre status --json"),
    "usage": ("nacre usage", "nacre usage --by purpose", "nacre usage --by model --json"),
}
"""By the command's name behind `nacre`. Those that say theirs in their own text stand here not."""


def epilog(lines: Iterable[str]) -> str:
    """Examples as click shows them, line by line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def with_examples(
    command: click.Command, name: str, examples: Mapping[str, tuple[str, ...]] = EXAMPLES
) -> click.Command:
    """The command, and those below it, with their examples behind their options."""
    if name in examples:
        command.epilog = epilog(examples[name])
    if isinstance(command, click.Group):
        for below, other in command.commands.items():
            with_examples(other, f"{name} {below}", examples)
    return command
