"""Decides which changed settings apply at the next turn, and which at the next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from nacre.record import Record
from nacre.runtime.settings.keys import section_below
from nacre.runtime.settings.sections.section import written_name
from nacre.runtime.settings.settings import Settings

_Section = TypeVar("_Section", bound=BaseModel)
Path: TypeAlias = tuple[str, ...]

_LIVE: tuple[Path, ...] = (
    *(
        ("agents", "defaults", name)
        for name in (
            "context_pruning",
            "daily_log_max_chars",
            "heartbeat",
            "max_steps",
            "startup_context",
            "timeout_seconds",
            "tool_timeout_seconds",
            "tools",
        )
    ),
    *(
        ("agents", "defaults", "compaction", name)
        for name in ("custom_instructions", "max_summary_tokens", "timeout_seconds")
    ),
    *(
        ("agents", "defaults", "compaction", "memory_flush", name)
        for name in ("force_flush_transcript_bytes", "prompt", "system_prompt")
    ),
    ("tools", "rules"),
    ("usage", "daily_cap_usd"),
)
"""Settings that every turn reads. The others belong to an open object: a model, an index, a lock."""
_OF_SERVE: tuple[Path, ...] = (("bindings",), ("channels",), ("commands",), ("messages",))
"""Settings that `nacre serve` applies itself."""
_OF_OTHERS: tuple[Path, ...] = (("agents", "entries"), *_OF_SERVE)
"""Settings that an agent does not report: those of other agents and of `nacre serve`."""


class SettingsChanges(Record):
    """`settings` take effect from the next turn on. The keys are dotted, as in the file."""

    settings: Settings
    at_once: tuple[str, ...]
    later: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for the owner; empty if nothing changed for this agent."""
        lists = (
            ("The changed settings apply from now on", self.at_once),
            ("These take effect at the next start", self.later),
        )
        return tuple(f"{when}: {', '.join(keys)}." for when, keys in lists if keys)


def is_applied_at_next_turn(key: str) -> bool:
    """Whether a change of this dotted key takes effect without a restart."""
    return any(f"{key}.".startswith(f"{_written(path)}.") for path in _LIVE)


def is_applied_by_serve(key: str) -> bool:
    """Whether `nacre serve` applies a change of this dotted key by itself, within seconds."""
    return any(f"{key}.".startswith((f"{_written(path)}.", f"{_written(path)}[")) for path in _OF_SERVE)


def apply_changes(running: Settings, seen: Settings, now: Settings) -> SettingsChanges:
    """Applies settings that were read again.

    `running` are the agent's settings, `seen` those of the file when it was last read, `now` its current
    ones. Changes that were reported for `seen`, or that were undone, are not reported.
    """
    settings = running
    for path in _LIVE:
        settings = _with_value(settings, now, path)
    changed = list(_changed_paths(seen, now))
    is_live = {path: any(path[: len(live)] == live for live in _LIVE) for path in changed}
    waiting = set(_changed_paths(running, now))
    return SettingsChanges(
        settings=settings,
        at_once=tuple(_written(path) for path in changed if is_live[path]),
        later=tuple(_written(path) for path in changed if not is_live[path] and path in waiting),
    )


def _with_value(section: _Section, other: _Section, path: Path) -> _Section:
    name, *rest = path
    held, wanted = getattr(section, name), getattr(other, name)
    return section.model_copy(update={name: _with_value(held, wanted, tuple(rest)) if rest else wanted})


def _changed_paths(one: BaseModel, other: BaseModel, above: Path = ()) -> Iterator[Path]:
    """The fields that differ; a table or a list is one field."""
    for name in type(one).model_fields:
        path = (*above, name)
        here, there = getattr(one, name), getattr(other, name)
        if path in _OF_OTHERS or here == there:
            continue
        if isinstance(here, BaseModel) and isinstance(there, BaseModel):
            yield from _changed_paths(here, there, path)
        else:
            yield path


def _written(path: Path) -> str:
    section: Any = Settings
    names = []
    for name in path:
        names.append(written_name(section, name))
        section = section_below(section.model_fields[name].annotation) or section
    return ".".join(names)
