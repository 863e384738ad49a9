"""`memory`: the search backend, the program qmd, facts, typed pages, history and review of notes."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from nacre.runtime.settings.sections.section import DURATION, SettingsSection, as_duration, count_or
from nacre.runtime.settings.sections.session import SendMatch


def _duration_or(default: str) -> BeforeValidator:
    """A duration such as `90s`; a plain number is minutes. Anything else becomes the default."""

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
            f"{pattern!r} is not a pattern for files in a folder; write one such as '**/*.md', with *, **, ? "
            "and {a,b}"
        )
    return named


BUILT_IN = "builtin"
"""The `memory.backend` of the index that comes with Nacre."""


class QmdPath(SettingsSection):
    """`memory.qmd.paths[]`: additional Markdown files that qmd indexes."""

    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    """A folder or a file: absolute, below `~`, or relative to the workspace. It must not contain files of
    another agent."""
    pattern: Annotated[str, AfterValidator(_glob)] = "**/*.md"
    """The files of the folder to index, with `*`, `**`, `?` and `{a,b}`."""
    name: str = ""
    """The name of the collection, to which the agent's id is added. Default: `custom-1`, `custom-2` …"""


class QmdSessions(SettingsSection):
    """`memory.qmd.sessions`: past conversations as a collection."""

    enabled: bool = False
    """Whether the owner's private conversations are exported as Markdown and searched."""
    export_dir: str = ""
    """The folder for exported conversations, with a subfolder per agent. Default: `sessions` in the agent's
    qmd folder."""
    retention_days: Annotated[int, Field(ge=1)] | None = None
    """The number of days after which an export is removed. Default: never. The transcript stays."""


class QmdUpdate(SettingsSection):
    """`memory.qmd.update`: when qmd reads files again. A duration of `0` means never."""

    interval: Annotated[str, _duration_or("5m"), DURATION] = "5m"
    """The interval of updates of all collections."""
    debounce_ms: Annotated[int, count_or(15_000)] = 15_000
    """The minimum time between two updates."""
    on_boot: bool = True
    """Whether opening an agent starts an update."""
    wait_for_boot_sync: bool = False
    """Whether opening an agent waits for that update."""
    embed_interval: Annotated[str, _duration_or("60m"), DURATION] = "60m"
    """The interval at which vectors are made, for the search modes that use them."""
    command_timeout_ms: Annotated[int, count_or(30_000, least=1)] = 30_000
    """The time limit of commands for collections."""
    update_timeout_ms: Annotated[int, count_or(120_000, least=1)] = 120_000
    """The time limit of an update."""
    embed_timeout_ms: Annotated[int, count_or(120_000, least=1)] = 120_000
    """The time limit of making vectors."""


class QmdLimits(SettingsSection):
    """`memory.qmd.limits`: the size of results, and the time limit of a search."""

    max_results: Annotated[int, _positive_or(6)] = 6
    """The maximum number of results, whatever the model requests."""
    max_snippet_chars: Annotated[int, _positive_or(700)] = 700
    """The maximum length of one snippet."""
    max_injected_chars: Annotated[int, _positive_or(4_000)] = 4_000
    """The maximum length of all snippets of a search."""
    timeout_ms: Annotated[int, _positive_or(4_000)] = 4_000
    """How long to wait for qmd before the built-in engine answers."""


class QmdMatch(SendMatch):
    """`memory.qmd.scope.rules[].match`: the sessions that a rule applies to. Unset keys match all."""

    key_prefix: str = ""
    """The beginning of the session key without `agent:<id>:`. With `agent:…` it is a `rawKeyPrefix`."""
    raw_key_prefix: str = ""
    """The beginning of the whole key, such as `agent:main:discord:`."""


class QmdRule(SettingsSection):
    """`memory.qmd.scope.rules[]`: one rule."""

    action: Literal["allow", "deny"]
    """Whether qmd is used in these sessions."""
    match: QmdMatch = Field(default_factory=QmdMatch.unwritten)


class QmdScope(SettingsSection):
    """`memory.qmd.scope`: the chats in which qmd is used. Default: direct chats only."""

    default: Literal["allow", "deny"] = "deny"
    """What applies if no rule matches."""
    rules: tuple[QmdRule, ...] = ()
    """The rules; the first that matches decides."""


class QmdSettings(SettingsSection):
    """`memory.qmd`: how the program qmd is run."""

    command: str = "qmd"
    """The program with its arguments, quoted as in a shell; no shell is started."""
    search_mode: Literal["search", "vsearch", "query"] = "search"
    """`search` uses words, `vsearch` meaning, `query` both and a re-ranker. The latter two load models."""
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
    """`memory.bank`: typed pages that `nacre memory reflect` makes from the logs."""

    enabled: bool = False
    """Whether the assistant marks lines for the typed pages in `bank/`, which `nacre memory reflect` writes;
    see [the bank](bank.md)."""


class IdentitySettings(SettingsSection):
    """`memory.facts.identities.<name>`: the access of one identity to the facts and notes of others."""

    reads: tuple[str, ...] = ()
    """The identities whose facts and notes this one may read, such as `household`."""
    writes: tuple[str, ...] = ()
    """The identities whose facts and notes this one may read and change, in its own chats."""


class FactsSettings(SettingsSection):
    """`memory.facts`: facts and notes about identities."""

    enabled: bool = False
    """Whether the model can store and recall [facts and notes](facts.md) about people."""
    owner: str = "owner"
    """The owner's identity."""
    identities: Mapping[str, IdentitySettings] = Field(default_factory=dict)
    """Access of identities to each other. Default: nothing is shared."""
    compaction_summaries: Literal["private", "on", "off"] = "private"
    """Which compaction summaries are stored as notes while `memory.facts.enabled` is set: `private` (of the
    owner's private chats), `on` (all) or `off` (none). `bindings[].compactionSummaries` takes precedence."""


class HistorySettings(SettingsSection):
    """`memory.history`: the git history of a workspace folder."""

    commits: Literal["auto", "on", "off"] = "auto"
    """Whether each turn that changes notes makes a commit in the [history](history.md). `auto` and `on` mean
    the same."""


class MemorySettings(SettingsSection):
    """`memory`: settings of the memory other than search, which is `agents.defaults.memorySearch`."""

    backend: str = Field(default=BUILT_IN, min_length=1)
    """The search backend: `builtin` (Nacre's own index), `qmd` (the program qmd), or the id of an extension
    with a backend."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether answers cite the notes that they use; `auto` means in direct chats."""
    qmd: QmdSettings = Field(default_factory=QmdSettings.unwritten)
    bank: BankSettings = Field(default_factory=BankSettings.unwritten)
    facts: FactsSettings = Field(default_factory=FactsSettings.unwritten)
    secrets: Literal["redact", "refuse", "ask", "off"] = "redact"
    """What happens to keys, tokens and passwords that a conversation would write into a note. `redact`
    replaces them with `[redacted]`. `refuse` writes nothing and tells the model why. `ask` requires your
    approval in a private chat, and redacts elsewhere (a flush, a group, a fact). `off` writes them. Notes
    that you edit by hand are not changed."""
    history: HistorySettings = Field(default_factory=HistorySettings.unwritten)
    consolidate: Literal["review", "apply", "off"] = "review"
    """Whether the connected model [consolidates MEMORY.md](history.md#while-you-are-away) while the agent is
    idle: `review` proposes the changes, `apply` writes them, `off` does nothing."""
    writes: Literal["direct", "review"] = "direct"
    """`direct` writes notes at once. With `review`, notes from flushes, hooks and groups
    [wait for your approval](page.md#notes-that-wait-for-you)."""

    @property
    def read_by_qmd(self) -> tuple[QmdPath, ...]:
        """The additional paths that an agent reads through qmd."""
        return self.qmd.paths if self.backend == "qmd" else ()

    @property
    def has_backend(self) -> bool:
        """Whether an extension searches before the built-in index."""
        return self.backend != BUILT_IN
