"""The order of a first run: what is not known yet is found or asked, tried, and kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.cli.setup.config.changing import change_file
from nacre.cli.setup.config.editing import example
from nacre.cli.setup.first_run.questions import (
    ask_address,
    ask_key,
    ask_listed,
    ask_model,
    ask_name,
    ask_server_name,
    ask_telegram,
    ask_time_zone,
    ask_what_next,
    ask_whether_to_install,
    ask_whether_to_keep,
)
from nacre.installation import install_extra
from nacre.record import Record
from nacre.runtime.agent.insight.trial import Trial, tried
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.opening import ProviderMissing, missing_extra, model_catalog
from nacre.runtime.providers.provider import Offer
from nacre.runtime.settings.config import SETTINGS_FILE
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, has_keyring, keep_in_file, keep_in_keyring
from nacre.runtime.settings.disk.settings_file import settings_as_written
from nacre.runtime.settings.keys import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nacre.cli.invocation import Invocation
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.agent.insight.trial import Key


class Flags(Record):
    """What the command line answers: an address of a server, fallbacks, the token of a Telegram bot."""

    address: str = ""
    fallbacks: tuple[str, ...] = ()
    telegram_token: str = ""


MOST_TRIALS = 3
"""Without questions, no more of the models that were found are tried, each from another place."""


class Chosen(Record):
    """The model of a first run, empty to stay offline, with what came of trying it.

    `base_url` is the address of a server of the owner's, `fallbacks` are asked when the model cannot be had.
    """

    model_name: str = ""
    key: Key | None = None
    base_url: str = ""
    trial: Trial | None = None
    fallbacks: tuple[Chosen, ...] = ()


def set_up_by_itself(invocation: Invocation, flags: Flags) -> Chosen:
    """Takes the model that the run names, or the first one found that answers, and writes it down.

    With an address in `flags` it is a model of that server, the named one or the first.

    Raises:
        ConfigError: the settings cannot be changed.
    """
    config = invocation.config
    if flags.telegram_token:
        keep_telegram(
            config.state_dir, config.state_dir / SETTINGS_FILE, config.environment, flags.telegram_token
        )
    if config.settings.agent.model.primary.strip():
        return Chosen(model_name=config.model_name)
    named, base_url = config.model_name, ""
    if flags.address:
        named, base_url = _at_address(flags.address, named)
    choices = () if named else asyncio.run(model_catalog().found_choices(config.environment))
    by_place = {choice.place: choice.model_name for choice in reversed(choices)}
    first = dict.fromkeys(by_place[choice.place] for choice in choices)
    chosen = Chosen()
    for model_name in [named] if named else list(first)[:MOST_TRIALS]:
        chosen = Chosen(model_name=model_name, base_url=base_url)
        chosen = replace(chosen, trial=_tried(invocation, chosen, asks=False))
        if chosen.trial and not chosen.trial.problem:
            fallbacks = tuple(Chosen(model_name=name) for name in flags.fallbacks)
            _keep(invocation, replace(chosen, fallbacks=fallbacks), time_zone="")
            return chosen
    return replace(chosen, model_name=named)


def _at_address(address: str, named: str) -> tuple[str, str]:
    """`provider/model` at an address, and the address as it answers.

    Raises:
        ConfigError: no server of models answers there.
    """
    base_url, found = asyncio.run(model_catalog().probed(address))
    if not found.talking:
        raise ConfigError(f"{base_url} is no server of models that answers. Start it, or correct --address.")
    model = found.talking[0].name
    if named and "://" not in named:
        name, _, model = named.partition("/")
        return (f"{name}/{model}" if model else f"local/{name}"), base_url
    return f"local/{model}", base_url


def set_up_with_questions(invocation: Invocation, workspace: Workspace) -> Chosen:
    """Asks what is not known yet, and writes the answers down.

    Raises:
        ConfigError: the settings, or the place of a key, cannot be changed.
        OSError: USER.md cannot be written.
    """
    config = invocation.config
    time_zone = ""
    if asyncio.run(knows_no_name(workspace)):
        name = ask_name()
        if name:
            asyncio.run(keep_name(workspace, name))
        if not config.settings.agent.user_timezone:
            time_zone = ask_time_zone(str(owner_zone(None)))
    chosen = Chosen(model_name=config.model_name) if config.model_name else _asked(invocation)
    _keep(invocation, chosen, time_zone=time_zone)
    if "telegram" not in config.settings.channels and (token := ask_telegram()):
        keep_telegram(config.state_dir, config.state_dir / SETTINGS_FILE, config.environment, token)
        invocation.say("`nacre serve` answers there; write to the bot, and it tells you the next step.")
    return chosen


def _asked(invocation: Invocation) -> Chosen:
    """The model that the owner wants, tried until one answers or is kept all the same, and its fallbacks."""
    chosen = Chosen()
    try:
        catalog = model_catalog()
    except ProviderMissing as problem:
        invocation.warn(str(problem))
        return chosen
    choices = asyncio.run(catalog.found_choices(invocation.config.environment))
    while True:
        answer = ask_model(choices, catalog.offers())
        if not answer:
            return chosen
        picked = _picked(invocation, answer)
        if picked is None:
            continue
        trial = _tried(invocation, picked, asks=True)
        if trial.problem and not ask_whether_to_keep(picked.model_name):
            continue
        picked = replace(picked, trial=trial)
        more = (*chosen.fallbacks, picked) if chosen.model_name else ()
        tried_now = replace(chosen, fallbacks=more) if chosen.model_name else picked
        following = "keep" if trial.problem else ask_what_next()
        if following != "another":
            chosen = tried_now
        if following == "keep":
            return chosen


def _picked(invocation: Invocation, answer: str | Offer) -> Chosen | None:
    """The model behind an answer with its key and address; `None` to ask again."""
    if isinstance(answer, Offer):
        ask = _on_own_server if answer.is_own_server else _of_provider
        return ask(invocation, answer)
    if "://" in answer:
        return _on_own_server(invocation, Offer(label="", provider_name="", address=answer), is_asked=False)
    provider = invocation.config.settings.models.providers.get(answer.partition("/")[0])
    has_key = provider is not None and bool(provider.api_key)
    return Chosen(model_name=answer, key=None if has_key else _key(invocation, answer))


def _of_provider(invocation: Invocation, offer: Offer) -> Chosen | None:
    """A model of a provider with a key: first the key, with which most tell what they have."""
    name, environment = offer.provider_name, invocation.config.environment
    provider = invocation.config.settings.models.providers.get(name)
    key = None if provider and provider.api_key else _key(invocation, model_catalog().suggested_model(name))
    secret = key.secret if key else provider.api_key if provider else ""
    offered = asyncio.run(model_catalog().offered_models(name, environment, secret))
    model_name = ask_listed(offered)
    return Chosen(model_name=model_name, key=key) if model_name else None


def _on_own_server(invocation: Invocation, offer: Offer, *, is_asked: bool = True) -> Chosen | None:
    """A model of a server that the owner runs: its address is probed, and a key asked where it wants one."""
    address = ask_address(offer.address) if is_asked else offer.address
    name, key = offer.provider_name, None
    while address:
        base_url, found = asyncio.run(model_catalog().probed(address, key.secret if key else ""))
        if found.is_served:
            name = name or ask_server_name(base_url)
        if found.talking:
            model_name = ask_listed(model_catalog().model_choices(name, found.talking))
            kept = "" if base_url == model_catalog().usual_address(name) else base_url
            return Chosen(model_name=model_name, key=key, base_url=kept) if model_name else None
        is_refused = found.status in (401, 403)
        if is_refused and key is None:
            key = _key(invocation, f"{name}/default", is_wanted=True)
            if key is not None:
                continue
        problem = "refused the key" if is_refused else "is no server of models that answers"
        invocation.warn(f"{base_url} {problem}.")
        address, key = ask_address(""), None
    return None


def _key(invocation: Invocation, model_name: str, *, is_wanted: bool = False) -> Key | None:
    config = invocation.config
    return ask_key(
        model_name,
        config.environment,
        variables=model_catalog().key_variables(model_name, is_wanted=is_wanted),
        env_file=invocation.short(config.state_dir / ENVIRONMENT_FILE),
        has_keyring=has_keyring(),
        is_wanted=is_wanted,
    )


def _tried(invocation: Invocation, chosen: Chosen, *, asks: bool) -> Trial:
    """One call of the model. An extra that it needs is installed first, if the owner agrees."""
    extra = "" if chosen.base_url else missing_extra(invocation.config, chosen.model_name)
    if extra and (not asks or ask_whether_to_install(extra, chosen.model_name)):
        invocation.warn(f"Installing the extra {extra!r} ...", tone="dim")
        if problem := install_extra(extra):
            invocation.warn(problem)
    invocation.warn(f"Trying {chosen.model_name} ...", tone="dim")
    trial = asyncio.run(tried(invocation.config, chosen.model_name, chosen.key, chosen.base_url))
    invocation.warn(trial.told, tone="warning" if trial.problem else "dim")
    return trial


def _keep(invocation: Invocation, chosen: Chosen, *, time_zone: str) -> None:
    config = invocation.config
    for each in (chosen, *chosen.fallbacks):
        if each.key is not None:
            keep_key(each.key, config.state_dir)
    fallbacks = [each.model_name for each in chosen.fallbacks]
    for place, each in enumerate((chosen, *chosen.fallbacks)):
        keep_settings(
            config.state_dir / SETTINGS_FILE,
            config.environment,
            model_name=each.model_name,
            is_chosen=place == 0 and each.trial is not None,
            time_zone=time_zone,
            key=each.key,
            base_url=each.base_url,
            fallbacks=fallbacks if place == 0 else (),
        )


OWNERS_FILE = "USER.md"
_NAME_LINE = "- **Name:**"
TELEGRAM_VARIABLE = "TELEGRAM_BOT_TOKEN"
_MODEL = ("agents", "defaults", "model", "primary")
_FALLBACKS = ("agents", "defaults", "model", "fallbacks")
_TIME_ZONE = ("agents", "defaults", "userTimezone")


async def knows_no_name(workspace: Workspace) -> bool:
    """Whether USER.md has its line for the owner's name, and nobody filled it in."""
    found = (await workspace.read_many((OWNERS_FILE,)))[OWNERS_FILE]
    return not isinstance(found, Exception) and _NAME_LINE in _lines(found.data)


async def keep_name(workspace: Workspace, name: str) -> None:
    """Fills in the line for the owner's name, if it is still empty.

    Raises:
        OSError: the file cannot be written.
    """

    def change(old: bytes | None) -> bytes:
        lines = _lines(old or b"")
        if _NAME_LINE in lines:
            lines[lines.index(_NAME_LINE)] = f"{_NAME_LINE} {' '.join(name.split())}"
        return "\n".join(lines).encode("utf-8", errors="surrogateescape")

    await workspace.change(OWNERS_FILE, change)


def keep_key(key: Key, state_dir: Path) -> None:
    """Puts a key where the owner wants it.

    Raises:
        ConfigError: it cannot be put there, or another one of its name is there already.
    """
    if key.place == "file":
        keep_in_file(state_dir / ENVIRONMENT_FILE, key.variable, key.secret)
    elif key.place == "keyring":
        keep_in_keyring(key.variable, key.secret)


def keep_settings(
    file: Path,
    environment: Mapping[str, str],
    *,
    model_name: str,
    is_chosen: bool,
    time_zone: str,
    key: Key | None,
    base_url: str = "",
    fallbacks: Sequence[str] = (),
) -> None:
    """Writes what was chosen into the settings, which begin with a commented example if there are none.

    A value that stands there stays. Without `is_chosen` only the model's provider is written.

    Raises:
        ConfigError: the settings cannot be read or changed.
    """
    provider = ("models", "providers", model_name.partition("/")[0])
    wanted: list[tuple[tuple[str, ...], Any]] = [(_TIME_ZONE, time_zone)]
    wanted += [(_MODEL, model_name)] if is_chosen else []
    wanted += [((*provider, "baseUrl"), base_url), (_FALLBACKS, list(fallbacks))]
    if key is not None:
        wanted.append(((*provider, "apiKey"), key.in_settings))
    _keep_missing(file, environment, wanted)


def keep_telegram(state_dir: Path, settings: Path, environment: Mapping[str, str], token: str) -> None:
    """Keeps the token of a bot apart, and has the settings name it.

    Raises:
        ConfigError: one of both cannot be written.
    """
    keep_in_file(state_dir / ENVIRONMENT_FILE, TELEGRAM_VARIABLE, token)
    named = (("channels", "telegram", "botToken"), f"${{{TELEGRAM_VARIABLE}}}")
    _keep_missing(settings, {**environment, TELEGRAM_VARIABLE: token}, [named])


def _keep_missing(
    file: Path, environment: Mapping[str, str], wanted: Sequence[tuple[tuple[str, ...], Any]]
) -> None:
    written = settings_as_written(file)
    missing = [(path, value) for path, value in wanted if value and not at(written, path)]
    if not missing:
        return

    def change(text: str) -> str:
        text = text if text.strip() else example()
        for path, value in missing:
            text = with_value(text, path, value)
        return text

    change_file(file, environment, change)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="surrogateescape").split("\n")
