"""`memory`: which engine is asked, how the program qmd is run, facts, typed pages."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from nacre.runtime.settings.sections.section import DURATION, SettingsSection, as_duration, count_or
from nacre.runtime.settings.sections.session import SendMatch


def _duration_or(default: str) -> BeforeValidator:
    """A duration such as `90s`; a bare number is minutes, and what is none becomes the default."""

    def read(value: object) -> object:
        try:
            duration = as_duration(value)
        except ValueError:
            return default
        return duration if isinstance(duration, str) else default

    return BeforeValidator(read)


def _positive_or(default: int) -> BeforeValidator:
    """A whole number above zero; anything else becomes the default."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        return int(value) if 1 <= value < math.inf else default

    return BeforeValidator(read)


def _glob(pattern: str) -> str:
    named = pattern.strip() or "**/*.md"
    if named.startswith(("/", "-")) or ".." in named.split("/") or set(named) & set("[]()!\\"):
        raise ValueError(
            f"{pattern!r} is no pattern for files of a folder; write one such as '**/*.md', with *, **, ? "
            "and {a,b}"
        )
    return named


BUILT_IN = "builtin"
"""`memory.backend` of the index that comes with Nacre."""


class QmdPath(SettingsSection):
    """`memory.qmd.paths[]`: Markdown elsewhere that qmd indexes too."""

    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    """A folder or a file; `~` is the home folder, a relative one lies in the workspace. It may reach nothing
    of another agent."""
    pattern: Annotated[str, AfterValidator(_glob)] = "**/*.md"
    """Which files of the folder, with `*`, `**`, `?` and `{a,b}`."""
    name: str = ""
    """The collection's name, to which the agent's id is added; blank is `custom-1`, `custom-2` …"""


class QmdSessions(SettingsSection):
    """`memory.qmd.sessions`: past conversations as a collection."""

    enabled: bool = False
    """Whether the owner's private conversations are exported as Markdown, and searched too."""
    export_dir: str = ""
    """Where conversations are exported to, with a folder for each agent in it; blank is `sessions` in the
    agent's qmd folder."""
    retention_days: Annotated[int, Field(ge=1)] | None = None
    """After how many days an export is removed; unset is never. The transcript stays."""


class QmdUpdate(SettingsSection):
    """`memory.qmd.update`: when qmd reads the files again. `0` of a duration is never."""

    interval: Annotated[str, _duration_or("5m"), DURATION] = "5m"
    """How often all collections are updated."""
    debounce_ms: Annotated[int, count_or(15_000)] = 15_000
    """Least time between two updates."""
    on_boot: bool = True
    """Whether an agent that is opened updates at once."""
    wait_for_boot_sync: bool = False
    """Whether opening an agent waits for its first update."""
    embed_interval: Annotated[str, _duration_or("60m"), DURATION] = "60m"
    """How often vectors are made, for the search modes that use them."""
    command_timeout_ms: Annotated[int, count_or(30_000, least=1)] = 30_000
    """How long a command about collections may take."""
    update_timeout_ms: Annotated[int, count_or(120_000, least=1)] = 120_000
    """How long an update may take."""
    embed_timeout_ms: Annotated[int, count_or(120_000, least=1)] = 120_000
    """How long making vectors may take."""


class QmdLimits(SettingsSection):
    """`memory.qmd.limits`: how much a search gives, and how long it may take."""

    max_results: Annotated[int, _positive_or(6)] = 6
    """Most results of a search, whatever the model asks for."""
    max_snippet_chars: Annotated[int, _positive_or(700)] = 700
    """Most characters of one snippet."""
    max_injected_chars: Annotated[int, _positive_or(4_000)] = 4_000
    """Most characters of all snippets of a search."""
    timeout_ms: Annotated[int, _positive_or(4_000)] = 4_000
    """How long qmd may search before the built-in engine answers."""


class QmdMatch(SendMatch):
    """`memory.qmd.scope.rules[].match`: which sessions are meant; what is unset is all."""

    key_prefix: str = ""
    """How the session's key begins without `agent:<id>:`; `agent:…` counts as a `rawKeyPrefix`."""
    raw_key_prefix: str = ""
    """How the whole key begins, such as `agent:main:discord:`."""


class QmdRule(SettingsSection):
    """`memory.qmd.scope.rules[]`."""

    action: Literal["allow", "deny"]
    """What holds there."""
    match: QmdMatch = Field(default_factory=QmdMatch.unwritten)


class QmdScope(SettingsSection):
    """`memory.qmd.scope`: in which chats qmd is asked. Unset: in direct chats alone."""

    default: Literal["allow", "deny"] = "deny"
    """What holds where no rule does."""
    rules: tuple[QmdRule, ...] = ()
    """The first rule that fits decides."""


class QmdSettings(SettingsSection):
    """`memory.qmd`: how the program qmd is run."""

    command: str = "qmd"
    """The program, with quotes and arguments as in a shell; no shell is started."""
    search_mode: Literal["search", "vsearch", "query"] = "search"
    """`search` by words; `vsearch` by meaning; `query` by both, with a re-ranker. Those two load models."""
    include_default_memory: bool = True
    """Whether `MEMORY.md`, `memory/` and `chats/` are indexed."""
    paths: tuple[QmdPath, ...] = ()
    sessions: QmdSessions = Field(default_factory=QmdSessions.unwritten)
    update: QmdUpdate = Field(default_factory=QmdUpdate.unwritten)
    limits: QmdLimits = Field(default_factory=QmdLimits.unwritten)
    scope: QmdScope = QmdScope.model_construct(
        rules=(QmdRule.model_construct(action="allow", match=QmdMatch.model_construct(chat_type="direct")),)
    )


class BankSettings(SettingsSection):
    """`memory.bank`: typed pages that `nacre memory reflect` makes of the logs."""

    enabled: bool = False
    """Whether there are typed pages in `bank/`: what is worth keeping is noted for them, `nacre memory
    reflect` makes them, and they are searched; see [the bank](bank.md)."""


class IdentitySettings(SettingsSection):
    """`memory.facts.identities.<name>`: what one identity may do with the facts and notes of others."""

    reads: tuple[str, ...] = ()
    """Identities whose facts and notes this one may see, such as `household`."""
    writes: tuple[str, ...] = ()
    """Identities whose facts and notes this one may see and change, in its own chats."""


class FactsSettings(SettingsSection):
    """`memory.facts`: facts and notes of identities."""

    enabled: bool = False
    """Whether the model can set, note and recall [facts and notes](facts.md) of people."""
    owner: str = "owner"
    """The owner's identity."""
    identities: Mapping[str, IdentitySettings] = Field(default_factory=dict)
    """Who may see whose facts; nothing is shared unless it stands here."""
    compaction_summaries: Literal["private", "on", "off"] = "private"
    """Whether summaries of compactions are kept as notes while `memory.facts.enabled` is set: `private` those
    of the owner's private chats, `on` all, `off` none; `bindings[].compactionSummaries` decides before it."""


class HistorySettings(SettingsSection):
    """`memory.history`: the git history of a workspace that is a folder."""

    commits: Literal["auto", "on", "off"] = "auto"
    """Whether each turn that noted something is a commit in [the history of the notes](history.md). `"auto"`
    and `"on"` mean the same."""


class MemorySettings(SettingsSection):
    """`memory`; `agents.defaults.memorySearch` says how it is searched."""

    backend: str = Field(default=BUILT_IN, min_length=1)
    """What `memory_search` asks first: `builtin` is the index that comes with Nacre, `qmd` the program qmd.
    Another value is the id of an extension that brings a backend."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether answers name the notes that they rest on; `auto` is on in direct chats."""
    qmd: QmdSettings = Field(default_factory=QmdSettings.unwritten)
    bank: BankSettings = Field(default_factory=BankSettings.unwritten)
    facts: FactsSettings = Field(default_factory=FactsSettings.unwritten)
    secrets: Literal["redact", "refuse", "ask", "off"] = "redact"
    """What becomes of keys, tokens and passwords that a conversation would write into a note: `"redact"` puts
    `[redacted]` in their place, `"refuse"` writes nothing and tells the model why, `"ask"` has you approve
    the call in a chat of your own, and redacts where nobody can be asked (a flush, a group, a fact), `"off"`
    lets them in. What you write by hand is left alone."""
    history: HistorySettings = Field(default_factory=HistorySettings.unwritten)
    writes: Literal["direct", "review"] = "direct"
    """Whether notes are written at once, or, with `"review"`, what a flush, a hook or a group would write
    [waits for you](page.md#notes-that-wait-for-you)."""

    @property
    def read_by_qmd(self) -> tuple[QmdPath, ...]:
        """What an agent reads through qmd beside its workspace."""
        return self.qmd.paths if self.backend == "qmd" else ()

    @property
    def has_backend(self) -> bool:
        """Whether an extension is asked before the built-in index."""
        return self.backend != BUILT_IN
