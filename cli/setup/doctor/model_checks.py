"""Checks of the program and its model: versions, time zone, keys, reach, the arithmetic of the window."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from nacre import __version__
from nacre.cli.setup.doctor.finding import Finding
from nacre.installation import install_command
from nacre.memory.files.sources.secrets import without_secrets

if TYPE_CHECKING:
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.providers.provider import ModelFacts
    from nacre.runtime.settings.config import Config

_LIBRARIES = ("litellm", "onnxruntime")
_MOST_OF_WINDOW = 0.25
"""Above this share of the window, workspace files are worth a word."""


def program_findings(config: Config, now: Clock) -> Iterator[Finding]:
    """Versions, the settings' own notices, the owner's time zone."""
    found = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    yield Finding(
        area="versions",
        state="well",
        text=f"Nacre {__version__}, Python {platform.python_version()}, {found}",
    )
    for notice in config.notices:
        yield Finding(area="settings", state="note", text=notice, advice="`nacre config check` says more.")
    moment, named = now(), config.settings.agent.user_timezone
    text = f"{moment.tzinfo}, where it is {moment:%Y-%m-%d %H:%M}"
    if named:
        yield Finding(area="time zone", state="well", text=text)
    else:
        yield Finding(
            area="time zone",
            state="note",
            text=f"{text}; taken from the system",
            advice="It decides which day a note belongs to. If it is not yours: "
            "`nacre config set agents.defaults.userTimezone Europe/Madrid`.",
        )


async def model_findings(config: Config, now: Clock, *, online: bool) -> list[Finding]:
    """The model, its key, whether it can be reached, and its window."""
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.providers.opening import missing_extra, model_facts

    try:
        facts = model_facts(config, now)
    except ConfigError as error:
        advice = "Write it as provider/model in NACRE_MODEL, --model or agents.defaults.model.primary."
        return [Finding(area="model", state="problem", text=str(error), advice=advice)]
    if not facts.name:
        advice = "To have one: `nacre config set agents.defaults.model.primary PROVIDER/MODEL`."
        text = "none: the offline responder answers"
        return [Finding(area="model", state="note", text=text, advice=advice), *await _window(config, now)]
    if extra := missing_extra(config, facts.name):
        text = f"{without_secrets(facts.name)} needs the extra {extra!r} of Nacre, which is not installed"
        advice = f"Install it with `{install_command(extra)}`."
        found = [Finding(area="model", state="problem", text=text, advice=advice)]
    else:
        found = [await _reach(config, now, facts, online=online)]
    if facts.has_key or not facts.needs_key:
        text = "found" if facts.has_key else "none is needed at this address"
        found.append(Finding(area="key", state="well", text=text))
    else:
        provider = facts.name.partition("/")[0]
        found.append(
            Finding(
                area="key",
                state="problem",
                text=f"there is none for {provider}",
                advice=f"Set {facts.key_variable}, or models.providers.{provider}.apiKey in nacre.json5.",
            )
        )
    return [*found, *await _window(config, now)]


async def _reach(config: Config, now: Clock, facts: ModelFacts, *, online: bool) -> Finding:
    from nacre.runtime.agent.insight.model_facts import answer_problem, listens

    at = f" at {facts.address}" if facts.address else ""
    name = without_secrets(facts.name)  # somebody may have put a key where the model's name belongs
    if facts.is_local and not await listens(facts.address):
        return Finding(
            area="model",
            state="problem",
            text=f"{name}: nobody listens{at}",
            advice="Start the server there, or correct the address: "
            f"models.providers.{facts.name.partition('/')[0]}.baseUrl.",
        )
    if online:
        problem = await answer_problem(config, now)
        if problem:
            return Finding(
                area="model",
                state="problem",
                text=f"{name}{at} does not answer: {without_secrets(problem)}",
                advice="Check its name, its key and its address; `nacre config explain models.providers`.",
            )
        return Finding(area="model", state="well", text=f"{name}{at}: answered")
    told = "listens" if facts.is_local else "not asked; --online asks it for one word"
    return Finding(area="model", state="well", text=f"{name}{at}: {told}")


async def _window(config: Config, now: Clock) -> list[Finding]:
    from nacre.runtime.agent.insight.model_facts import budget_of, token_counter, workspace_files
    from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, WINDOW_SOURCES
    from nacre.runtime.contracts.errors import ConfigError

    try:
        budget = await budget_of(config, now)
    except ConfigError as error:
        advice = "`nacre config explain agents.defaults.contextTokens` tells what is set."
        return [Finding(area="window", state="problem", text=str(error), advice=advice)]
    text = (
        f"{budget.window_tokens} tokens ({WINDOW_SOURCES[budget.window_source]}): reserve "
        f"{budget.reserve_tokens}, flush from {budget.flush_at} on, compaction above {budget.compact_at}"
    )
    is_assumed = budget.window_source == "fallback" and bool(config.model_name)
    advice = ""
    if is_assumed:
        advice = "Say how large it is: `nacre config set agents.defaults.contextTokens N`."
    elif budget.window_tokens < TIGHT_WINDOW_TOKENS:
        advice = "This is small: history is compacted often. Choose a model with a larger window."
    found = [Finding(area="window", state="note" if advice else "well", text=text, advice=advice)]
    count = token_counter(config.model_name)
    files = [file for file in await workspace_files(config, now) if not file.missing]
    tokens = {file.name: count(file.text) for file in files}
    total = sum(tokens.values())
    each = ", ".join(f"{name} {number}" for name, number in tokens.items() if number)
    is_much = total > budget.window_tokens * _MOST_OF_WINDOW
    cut = [file.name for file in files if file.truncated]
    advice = f"Shorten them: each request carries them. {', '.join(cut)} is cut." if cut else ""
    found.append(
        Finding(
            area="prompt",
            state="note" if cut or is_much else "well",
            text=f"workspace files take about {total} tokens of each request ({each or 'none'})",
            advice=advice or ("Shorten them: each request carries them." if is_much else ""),
        )
    )
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"
