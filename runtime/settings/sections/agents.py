"""`agents`: what holds for every agent, and which agents there are besides the first."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.contracts.budget import SMALLEST_WINDOW_TOKENS
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
from nacre.sessions.contracts.keys import normalise_agent_id


def _agent_id(value: object) -> object:
    """The id in small letters. What session keys and folders would spell in another way is refused."""
    if not isinstance(value, str):
        return value
    found = value.strip().lower()
    if not found or found != (usable := normalise_agent_id(found)):
        proposal = f", for example {usable!r}" if found else ""
        raise ValueError(
            f"the id {value!r} cannot name an agent; use letters, digits, '-' and '_', at most 64{proposal}"
        )
    return found


def _model_choice(value: object) -> object:
    return {"primary": value} if isinstance(value, str) else value


class ModelChoice(SettingsSection):
    """`agents.defaults.model`: who answers. A plain text is the primary model, without fallbacks."""

    primary: str = ""
    """`provider/model` as litellm names it; blank is the built-in offline responder. A plain text as
    `agents.defaults.model` means the same."""
    fallbacks: tuple[str, ...] = ()
    """Models to ask, in order, when the one before cannot be had; see
    [reliability](reliability.md#when-a-model-fails)."""


class ModelEntry(SettingsSection):
    """`agents.defaults.models.<name>`: a model that can be chosen for a chat."""

    alias: str = ""
    """Another name for this model behind `/new`; the models that stand here can also be named by a part of
    their name."""


class StartupContextSettings(SettingsSection):
    """`agents.defaults.startupContext`: what a private session reads of the last days when it begins.

    Too large a number counts as the largest that is allowed.
    """

    enabled: bool = True
    """Whether a private session begins with the logs and notes of the last days; the same after a
    compaction."""
    daily_memory_days: Annotated[int, count_or(2, least=1, most=14)] = 2
    """How many days count, today included; 1 to 14."""
    max_total_chars: Annotated[int, count_or(14_000, most=50_000)] = 14_000
    """Most of all these logs and notes together, at most 50000, and about a tenth of the window. Logs go
    first, then the newest notes."""


class MemoryFlushSettings(SettingsSection):
    """`agents.defaults.compaction.memoryFlush`: the silent turn that saves notes before a compaction."""

    enabled: bool = True
    """Whether notes are written before history is compacted."""
    soft_threshold_tokens: Annotated[int, count_or(4_000)] = 4_000
    """How many tokens before the compaction line the flush is due."""
    prompt: str = ""
    """The flush turn's user prompt; blank is the built-in one. `YYYY-MM-DD` becomes today's date."""
    system_prompt: str = ""
    """What is added to the system prompt in the flush turn; blank is the built-in text."""
    model: str = ""
    """`provider/model` for the flush turn alone, without another model behind it; blank is the model that
    answers."""
    force_flush_transcript_bytes: Annotated[int, bytes_or(2 * 1024 * 1024), SIZE] = 2 * 1024 * 1024
    """After how many bytes of text since the last flush there is one, however full the window is; a number or
    `"2mib"`, 0 is never."""


class CompactionSettings(SettingsSection):
    """`agents.defaults.compaction`: when and how old history becomes a summary."""

    enabled: bool = True
    """`false` stops only the threshold trigger; overflow recovery and `/compact` stay."""
    reserve_tokens: Annotated[int, count_or(16_384)] = 16_384
    """Room kept free for the answer; the floor below raises it."""
    reserve_tokens_floor: Annotated[int, count_or(20_000)] = 20_000
    """Least reserve, whatever `reserveTokens` says; 0 switches the floor off."""
    keep_recent_tokens: Annotated[int, count_or(20_000)] = 20_000
    """How much of the tail stays verbatim."""
    custom_instructions: str = ""
    """What every summary should pay attention to, also in automatic compactions."""
    model: str = ""
    """`provider/model` for summaries alone; blank is the model that answers, which also follows when this one
    fails. Address and key come from `models.providers`."""
    max_summary_tokens: Annotated[int, Field(ge=256)] | None = None
    """Most that a summary may take; unset is four fifths of the reserve, at most a quarter of the history."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """Longest that the summary of one part of a long history may take. Finished parts are kept, and the next
    attempt goes on from there."""
    memory_flush: MemoryFlushSettings = Field(default_factory=MemoryFlushSettings.unwritten)


class SoftTrimSettings(SettingsSection):
    """`contextPruning.softTrim`: an old result keeps its head and its tail."""

    max_chars: Annotated[int, count_or(4_000)] = 4_000
    """Longer results are trimmed."""
    head_chars: Annotated[int, count_or(1_500)] = 1_500
    """How much of the beginning stays."""
    tail_chars: Annotated[int, count_or(1_500)] = 1_500
    """How much of the end stays."""


class HardClearSettings(SettingsSection):
    """`contextPruning.hardClear`: an old result is replaced as a whole."""

    enabled: bool = True
    """Whether results are replaced as a whole at all."""
    placeholder: str = "[Old tool result content cleared]"
    """What stands in their place."""


class ContextPruningSettings(SettingsSection):
    """`agents.defaults.contextPruning`."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`cache-ttl` prunes once the provider has forgotten the prompt anyway, or the window is getting full."""
    ttl: Annotated[str, BeforeValidator(as_duration), DURATION] = "5m"
    """How long a provider remembers a prompt: `"90s"`, `"5m"`, `"1h"`; a bare number is minutes, 0 is
    never."""
    size_trigger_ratio: Annotated[float, clamped(float, 0, 1)] = 0.8
    """From this share of the flush line on a remembered prompt is pruned too; 1 is never."""
    keep_last_assistants: Annotated[int, count_or(3)] = 3
    """So many of the model's last messages, and all that follows them, are left alone."""
    soft_trim_ratio: Annotated[float, clamped(float, 0, 1)] = 0.3
    """Below this share of the window nothing is pruned."""
    hard_clear_ratio: Annotated[float, clamped(float, 0, 1)] = 0.5
    """From this share on, results are replaced as a whole, the oldest first."""
    min_prunable_tool_chars: Annotated[int, count_or(50_000)] = 50_000
    """With less than this in old results none is replaced as a whole."""
    soft_trim: SoftTrimSettings = Field(default_factory=SoftTrimSettings.unwritten)
    hard_clear: HardClearSettings = Field(default_factory=HardClearSettings.unwritten)
    tools: ToolNames = Field(default_factory=ToolNames.unwritten)
    """Whose results are pruned; all are where nothing is named."""

    @property
    def ttl_seconds(self) -> float:
        return duration_seconds(self.ttl)


class SandboxSettings(SettingsSection):
    """`agents.defaults.sandbox`: what the assistant may do with the workspace."""

    mode: Literal["off", "non-main", "all"] = "all"
    """Which sessions `workspaceAccess` holds for: `all`, `non-main` (all but the owner's main session),
    `off`."""
    workspace_access: WorkspaceAccess = "rw"
    """What sessions may do with the workspace. `ro`: it is read and never written; tools that would are
    refused, and no model is asked for notes. `none`: nor is a note seen, in the prompt, by a tool or by a
    search. Unset is `rw`, as there is no second folder to work in."""

    @property
    def is_never_written(self) -> bool:
        """Whether no session writes into the workspace."""
        return self.mode == "all" and self.workspace_access != "rw"


class ParameterSettings(SettingsSection):
    """`agents.defaults.params`: how models are asked in turns."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """How much chance there is in an answer, 0 to 2; unset is the provider's. Some models refuse it."""
    reasoning_effort: str = ""
    """How long a model may think: mostly `low`, `medium` or `high`; blank is the provider's."""


class AgentSettings(SettingsSection):
    """`agents.defaults`: the assistant itself."""

    workspace: str = ""
    """The workspace folder; blank is `<state>/workspace`. `~` is the home folder. Where there are several
    agents, the default agent's."""
    model: Annotated[ModelChoice, BeforeValidator(_model_choice)] = Field(
        default_factory=ModelChoice.unwritten
    )
    models: Mapping[str, ModelEntry] = Field(default_factory=dict)
    """Models that `/new` knows by a part of their name or by an alias."""
    params: ParameterSettings = Field(default_factory=ParameterSettings.unwritten)
    user_timezone: str = ""
    """IANA name of the owner's time zone; blank is the system's."""
    context_tokens: Annotated[int, Field(ge=SMALLEST_WINDOW_TOKENS)] | None = None
    """The context window in tokens, 4000 at least; unset asks the server, and then the price map. What the
    server has, and the window of a fallback, count where they are smaller."""
    bootstrap_max_chars: Annotated[int, count_or(20_000)] = 20_000
    """Most of one workspace file that enters the context."""
    bootstrap_total_max_chars: Annotated[int, count_or(60_000)] = 60_000
    """Most of all workspace files together; in a window under 100,000 tokens at most about 15 % of it."""
    daily_log_max_chars: Annotated[int, count_or(6_000)] = 6_000
    """Most of one daily log that enters a session's first turn."""
    startup_context: StartupContextSettings = Field(default_factory=StartupContextSettings.unwritten)
    skip_bootstrap: bool = False
    """`true` makes the workspace folder without any file in it."""
    max_steps: Annotated[int, Field(ge=1, le=1_000)] = 40
    """Most model calls in one turn."""
    max_concurrent: Annotated[int, Field(ge=1)] = 4
    """Most messages of chats that are answered at the same time; those of one session never are."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Longest that a turn may take, from the person's words to the answer; making room in the window does not
    count."""
    model_timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """Longest that a model may take to begin its answer, before it is asked again or another is."""
    model_slow_seconds: Annotated[float, Field(gt=0)] = 15.0
    """After how long a silence of the model you are told that it is slow, and how to stop it."""
    model_first_byte_seconds: Annotated[float, Field(gt=0)] = 45.0
    """How long a model that has a fallback may send not one byte before the fallback is asked. One that
    answers without streaming, or loads for minutes before its first byte, wants more."""
    tool_timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Longest that one tool call may take."""
    heartbeat: HeartbeatSettings = Field(default_factory=HeartbeatSettings.unwritten)
    context_pruning: ContextPruningSettings = Field(default_factory=ContextPruningSettings.unwritten)
    compaction: CompactionSettings = Field(default_factory=CompactionSettings.unwritten)
    memory_search: MemorySearchSettings = Field(default_factory=MemorySearchSettings.unwritten)
    tools: AgentTools = Field(default_factory=AgentTools.unwritten)
    """Which tools there are at all, of Nacre and of whoever embeds it."""
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings.unwritten)


class AgentEntry(AgentSettings):
    """One of `agents.list`: who it is, where it lives, and what it has otherwise than `agents.defaults`."""

    id: Annotated[str, BeforeValidator(_agent_id)]
    """Stands in session keys and folders: letters, digits, `-` and `_`, at most 64, beginning with a letter
    or a digit. Upper and lower case are one."""
    default: bool = False
    """Whether this agent is meant when none is named; else the first of the list is."""
    name: str = ""
    """What people call it, for `nacre admin agents`."""
    agent_dir: str = ""
    """The folder of what it keeps beside notes and conversations: which models rest, what is left to do;
    blank is `<state>/agents/<id>`."""
    allow_paths: tuple[str, ...] = ()
    """Files and folders of other agents that this one may read after all, through `memorySearch.extraPaths`,
    `memory.qmd.paths` or a workspace that holds them."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        return _written(value)


class AgentsSettings(SettingsSection):
    """`agents`."""

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
        """All agents of the state folder, in the order of the list."""
        return tuple(entry.id for entry in self.entries) or (FIRST_AGENT,)

    @cached_property
    def by_id(self) -> Mapping[str, AgentEntry]:
        """What the list says of each agent."""
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def default_id(self) -> str:
        """The agent that is meant when none is named: the first that says so, else the first of all."""
        return next((entry.id for entry in self.entries if entry.default), self.ids[0])


def _written(value: object) -> object:
    """Settings without the keys whose value is null: an agent's null means that it has nothing of its own."""
    if not isinstance(value, Mapping):
        return value
    return {key: _written(item) for key, item in value.items() if item is not None}
