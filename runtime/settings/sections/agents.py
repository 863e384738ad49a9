"""`agents`: the defaults of all agents, and the list of agents."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.contracts.budget import SMALLEST_WINDOW_TOKENS
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.contracts.policy import WorkspaceAccess
from nacre.runtime.settings.disk.agent_folders import FIRST_AGENT
from nacre.runtime.settings.sections.channels import HeartbeatSettings
from nacre.runtime.settings.sections.hooks import AgentTools, ToolNames
from nacre.runtime.settings.sections.section import (
    DURATION,
    SIZE,
    SettingsSection,
    as_duration,
    bytes_or,
    clamped,
    count_or,
    duration_seconds,
)
from nacre.sessions.contracts.keys import normalize_agent_id


def _known_zone(name: str) -> str:
    if name:
        owner_zone(name)
    return name


def _agent_id(value: object) -> object:
    """The id in lower case. An id that session keys and folders would spell differently is refused."""
    if not isinstance(value, str):
        return value
    found = value.strip().lower()
    if not found or found != (usable := normalize_agent_id(found)):
        proposal = f", for example {usable!r}" if found else ""
        raise ValueError(
            f"the id {value!r} cannot name an agent; use letters, digits, '-' and '_', at most 64{proposal}"
        )
    return found


def _model_choice(value: object) -> object:
    return {"primary": value} if isinstance(value, str) else value


class ModelChoice(SettingsSection):
    """`agents.defaults.model`: the models that answer. A string is the primary model without fallbacks."""

    primary: str = ""
    """The model, as `provider/model`. Blank means the built-in offline responder. A string as
    `agents.defaults.model` means the same."""
    fallbacks: tuple[str, ...] = ()
    """Models to try in this order when the one before fails; see
    [reliability](reliability.md#when-a-model-fails)."""


class ModelEntry(SettingsSection):
    """`agents.defaults.models.<name>`: a model that can be chosen for a chat."""

    alias: str = ""
    """A short name for this model in `/new` and `/model`. A part of the model's own name works too."""


class StartupContextSettings(SettingsSection):
    """`agents.defaults.startupContext`: the recent notes that a private session starts with.

    A number above the maximum counts as the maximum.
    """

    enabled: bool = True
    """Whether a private session starts with the logs and notes of the last days, also after a compaction."""
    daily_memory_days: Annotated[int, count_or(2, least=1, most=14)] = 2
    """The number of days, including today, from 1 to 14."""
    max_total_chars: Annotated[int, count_or(14_000, most=50_000)] = 14_000
    """The maximum length of these logs and notes together: at most 50000, and about a tenth of the window.
    Logs come first, then the newest notes."""


class MemoryFlushSettings(SettingsSection):
    """`agents.defaults.compaction.memoryFlush`: the silent turn that saves notes before a compaction."""

    enabled: bool = True
    """Whether notes are saved before history is compacted."""
    soft_threshold_tokens: Annotated[int, count_or(4_000)] = 4_000
    """How many tokens below the compaction threshold the flush starts."""
    prompt: str = ""
    """The user prompt of the flush turn. Blank means the built-in prompt. `YYYY-MM-DD` becomes today's
    date."""
    system_prompt: str = ""
    """The text that the flush turn adds to the system prompt. Blank means the built-in text."""
    model: str = ""
    """A model, as `provider/model`, for the flush turn only; it has no fallback. Blank means the model that
    answers."""
    force_flush_transcript_bytes: Annotated[int, bytes_or(2 * 1024 * 1024), SIZE] = 2 * 1024 * 1024
    """The number of bytes of new text after which a flush starts, however full the window is: a number or
    `"2mib"`; 0 means never."""


class CompactionSettings(SettingsSection):
    """`agents.defaults.compaction`: when and how old history is summarized."""

    enabled: bool = True
    """Whether compaction starts at the threshold. With `false`, only an overflow and `/compact` start it."""
    reserve_tokens: Annotated[int, count_or(16_384)] = 16_384
    """The number of tokens kept free for the answer, at least `reserveTokensFloor`."""
    reserve_tokens_floor: Annotated[int, count_or(20_000)] = 20_000
    """The minimum of `reserveTokens`; 0 means no minimum."""
    keep_recent_tokens: Annotated[int, count_or(20_000)] = 20_000
    """How many tokens of the newest messages a compaction keeps word for word."""
    custom_instructions: str = ""
    """Instructions for every summary, also in automatic compactions."""
    model: str = ""
    """A model, as `provider/model`, for summaries only. Blank means the model that answers, which is also the
    fallback of this one. Its address and key come from `models.providers`."""
    max_summary_tokens: Annotated[int, Field(ge=256)] | None = None
    """The maximum length of a summary. Default: 80 % of the reserve, at most a quarter of the history."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """The time limit for the summary of one part of a long history. Finished parts are kept, and the next
    attempt continues from there."""
    memory_flush: MemoryFlushSettings = Field(default_factory=MemoryFlushSettings.unwritten)


class SoftTrimSettings(SettingsSection):
    """`contextPruning.softTrim`: old results are shortened to their beginning and end."""

    max_chars: Annotated[int, count_or(4_000)] = 4_000
    """The length above which a result is trimmed."""
    head_chars: Annotated[int, count_or(1_500)] = 1_500
    """How many characters of the beginning are kept."""
    tail_chars: Annotated[int, count_or(1_500)] = 1_500
    """How many characters of the end are kept."""


class HardClearSettings(SettingsSection):
    """`contextPruning.hardClear`: old results are replaced entirely."""

    enabled: bool = True
    """Whether old results may be replaced entirely."""
    placeholder: str = "[Old tool result content cleared]"
    """The text that replaces them."""


class ContextPruningSettings(SettingsSection):
    """`agents.defaults.contextPruning`: old tool results are shortened in what is sent to the model."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`cache-ttl` prunes when the provider's cache of the prompt has expired, or when the window is filling
    up."""
    ttl: Annotated[str, BeforeValidator(as_duration), DURATION] = "5m"
    """How long a provider caches a prompt: `"90s"`, `"5m"`, `"1h"`. A plain number is minutes; 0 means not at
    all."""
    size_trigger_ratio: Annotated[float, clamped(float, 0, 1)] = 0.8
    """The share of the flush threshold from which a cached prompt is pruned too; 1 means never."""
    keep_last_assistants: Annotated[int, count_or(3)] = 3
    """How many of the model's last messages, with everything after them, are never pruned."""
    soft_trim_ratio: Annotated[float, clamped(float, 0, 1)] = 0.3
    """The share of the window below which nothing is pruned."""
    hard_clear_ratio: Annotated[float, clamped(float, 0, 1)] = 0.5
    """The share of the window from which results are replaced entirely, oldest first."""
    min_prunable_tool_chars: Annotated[int, count_or(50_000)] = 50_000
    """The minimum length of all old results together before any is replaced entirely."""
    soft_trim: SoftTrimSettings = Field(default_factory=SoftTrimSettings.unwritten)
    hard_clear: HardClearSettings = Field(default_factory=HardClearSettings.unwritten)
    tools: ToolNames = Field(default_factory=ToolNames.unwritten)
    """The tools whose results are pruned. Default: all."""

    @property
    def ttl_seconds(self) -> float:
        return duration_seconds(self.ttl)


class SandboxSettings(SettingsSection):
    """`agents.defaults.sandbox`: access of the assistant to the workspace."""

    mode: Literal["off", "non-main", "all"] = "all"
    """The sessions that `workspaceAccess` applies to: `all`, `non-main` (all except the owner's main
    session), or `off` (none)."""
    workspace_access: WorkspaceAccess = "rw"
    """What sessions may do with the workspace. `rw`: read and write. `ro`: read only; tools that write are
    refused, and no notes are saved. `none`: no note is visible either, in the prompt, to a tool or to a
    search."""

    @property
    def is_never_written(self) -> bool:
        """Whether no session may write to the workspace."""
        return self.mode == "all" and self.workspace_access != "rw"


class ParameterSettings(SettingsSection):
    """`agents.defaults.params`: the parameters of model calls in turns."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature. Default: the provider's. Some models refuse it."""
    reasoning_effort: str = ""
    """How much a reasoning model thinks: usually `low`, `medium` or `high`. Default: the provider's."""


Profile = Literal["assistant", "bot", "bare"]
"""How much of a prompt an agent has."""
_FILE_TOOLS = ["read", "write", "edit", "list"]
_OF_PROFILE: Mapping[str, Mapping[str, Any]] = {
    "bot": {"skipBootstrap": True, "tools": {"deny": _FILE_TOOLS}},
    "bare": {
        "skipBootstrap": True,
        "tools": {"deny": [*_FILE_TOOLS, "append"]},
        "memorySearch": {"enabled": False},
        "startupContext": {"enabled": False},
        "compaction": {"memoryFlush": {"enabled": False}},
    },
}
"""What other settings are by default under a profile, as in the file."""


def _with_profile(written: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(written)
    for key, value in usual.items():
        there = merged.setdefault(key, value)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            merged[key] = _with_profile(there, value)
    return merged


class AgentSettings(SettingsSection):
    """`agents.defaults`: the settings of all agents."""

    profile: Profile = "assistant"
    """The size of the prompt; see [profiles](bots.md#choose-a-profile)."""
    workspace: str = ""
    """The workspace folder. Default: `<state>/workspace`. `~` is the home folder. If there are several
    agents, this is the folder of the default agent."""
    model: Annotated[ModelChoice, BeforeValidator(_model_choice)] = Field(
        default_factory=ModelChoice.unwritten
    )
    models: Mapping[str, ModelEntry] = Field(default_factory=dict)
    """Models that `/new` and `/model` accept by alias or by a part of their name."""
    params: ParameterSettings = Field(default_factory=ParameterSettings.unwritten)
    user_timezone: Annotated[str, AfterValidator(_known_zone)] = ""
    """The IANA name of the owner's time zone. Default: the system's."""
    context_tokens: Annotated[int, Field(ge=SMALLEST_WINDOW_TOKENS)] | None = None
    """The context window. Default: what the server reports, otherwise the price map. A smaller window of the
    server, or of a fallback, takes precedence."""
    bootstrap_max_chars: Annotated[int, count_or(20_000)] = 20_000
    """The maximum length of one workspace file in the context."""
    bootstrap_total_max_chars: Annotated[int, count_or(60_000)] = 60_000
    """The maximum length of all workspace files together; in a window below 100,000 tokens, about 15 % of
    it."""
    daily_log_max_chars: Annotated[int, count_or(6_000)] = 6_000
    """The maximum length of one daily log at the start of a session."""
    startup_context: StartupContextSettings = Field(default_factory=StartupContextSettings.unwritten)
    skip_bootstrap: bool = False
    """`true` creates the workspace folder without files."""
    max_steps: Annotated[int, Field(ge=1, le=1_000)] = 40
    """The maximum number of model calls in one turn."""
    max_concurrent: Annotated[int, Field(ge=1)] = 4
    """The maximum number of sessions that answer chat messages at the same time."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600.0
    """The time limit of a turn, from the message to the answer. Flushing and compacting are not counted."""
    model_timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """How long to wait for the start of a model's answer before it, or a fallback, is called again."""
    model_slow_seconds: Annotated[float, Field(gt=0)] = 15.0
    """How long a model may be silent before you are told that it is slow and how to stop it."""
    model_first_byte_seconds: Annotated[float, Field(gt=0)] = 45.0
    """How long to wait for the first byte of a model that has a fallback. Raise it for a model that does not
    stream or that loads for minutes."""
    tool_timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    """The time limit of one tool call."""
    heartbeat: HeartbeatSettings = Field(default_factory=HeartbeatSettings.unwritten)
    context_pruning: ContextPruningSettings = Field(default_factory=ContextPruningSettings.unwritten)
    compaction: CompactionSettings = Field(default_factory=CompactionSettings.unwritten)
    memory_search: MemorySearchSettings = Field(default_factory=MemorySearchSettings.unwritten)
    tools: AgentTools = Field(default_factory=AgentTools.unwritten)
    """The tools that are available: those of Nacre and of the program that embeds it."""
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings.unwritten)

    @model_validator(mode="before")
    @classmethod
    def _of_profile(cls, value: object) -> object:
        usual = _OF_PROFILE.get(str(value.get("profile"))) if isinstance(value, Mapping) else None
        return _with_profile(value, usual) if usual and isinstance(value, Mapping) else value


class AgentEntry(AgentSettings):
    """An agent in `agents.list`: its id, its folders, and its differences from `agents.defaults`."""

    id: Annotated[str, BeforeValidator(_agent_id)]
    """The id in session keys and folder names: up to 64 letters, digits, `-` and `_`, starting with a letter
    or a digit, regardless of case."""
    default: bool = False
    """Whether this agent is used when none is named. Default: the first of the list."""
    name: str = ""
    """The name that `nacre admin agents` shows."""
    agent_dir: str = ""
    """The folder for its other state, such as which models failed recently. Default:
    `<state>/agents/<id>`."""
    allow_paths: tuple[str, ...] = ()
    """Files and folders of other agents that this one may read through `memorySearch.extraPaths`,
    `memory.qmd.paths` or a workspace that contains them."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        return _written(value)


class AgentsSettings(SettingsSection):
    """`agents`: all agents."""

    defaults: AgentSettings = Field(default_factory=AgentSettings.unwritten)
    entries: tuple[AgentEntry, ...] = Field(default=(), alias="list")

    @field_validator("entries")
    @classmethod
    def _distinct(cls, entries: tuple[AgentEntry, ...]) -> tuple[AgentEntry, ...]:
        times = Counter(entry.id for entry in entries)
        twice = next((each for each in times if times[each] > 1), None)
        if twice:
            raise ValueError(f"there are two agents with the id {twice!r}; give one of them another")
        return entries

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.entries) or (FIRST_AGENT,)

    @cached_property
    def by_id(self) -> Mapping[str, AgentEntry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def default_id(self) -> str:
        """The id of the agent that is used when none is named."""
        return next((entry.id for entry in self.entries if entry.default), self.ids[0])


def _written(value: object) -> object:
    """Removes keys whose value is null: for an agent, null means the default."""
    if not isinstance(value, Mapping):
        return value
    return {key: _written(item) for key, item in value.items() if item is not None}
