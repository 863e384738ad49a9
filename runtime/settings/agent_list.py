"""`agents.list`: what a settings file says about this agent alone. Pure; plain values in, plain values out.

OpenClaw keeps several agents in one file. Nacre has one in a state folder, and reads of its entry in the list
the settings of memory search; whatever else stands in the list is left there, to be told as not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nacre.memory.contracts.settings import merged_settings

_WHO_IT_IS = frozenset({"id", "default", "name"})


def with_own_settings(raw: Mapping[str, Any], agent_id: str) -> dict[str, Any]:
    """The file with `agents.list[].memorySearch` of this agent laid over `agents.defaults.memorySearch`.

    Values of a wrong type stay where they are: validating the file names them.
    """
    agents = raw.get("agents")
    entries = agents.get("list") if isinstance(agents, Mapping) else None
    if not isinstance(agents, Mapping) or not isinstance(entries, list | tuple):
        return dict(raw)
    defaults = agents.get("defaults", {})
    shared = defaults.get("memorySearch", {}) if isinstance(defaults, Mapping) else None
    own = [entry["memorySearch"] for entry in entries if _is_own(entry, agent_id)]
    if not own or not isinstance(shared, Mapping):
        return dict(raw)
    merged = {**agents, "defaults": {**defaults, "memorySearch": merged_settings(shared, own[0])}}
    unread = [_without_search(entry) if _is_own(entry, agent_id) else entry for entry in entries]
    merged["list"] = [entry for entry in unread if entry]
    if not merged["list"]:
        del merged["list"]
    return {**raw, "agents": merged}


def _is_own(entry: object, agent_id: str) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.get("id") == agent_id
        and isinstance(entry.get("memorySearch"), Mapping)
    )


def _without_search(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What is left to be told of the agent's own entry; nothing, when it only says who it is."""
    left = {key: value for key, value in entry.items() if key != "memorySearch"}
    return left if left.keys() - _WHO_IT_IS else {}
