"""The command `nacre init`: sets up the folders, the model and the channels of a new owner."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, environment_of, json_option, shared_options
from nacre.cli.nouns import extension_command
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.cli.setup.config.changing import change_file, example
from nacre.cli.setup.questions import (
    ask_address,
    ask_backup,
    ask_key,
    ask_listed,
    ask_model,
    ask_name,
    ask_server_name,
    ask_service,
    ask_telegram,
    ask_time_zone,
    ask_what_next,
    ask_whether_to_change,
    ask_whether_to_install,
    ask_whether_to_keep,
)
from nacre.cli.setup.service import service_here, write_service
from nacre.installation import install_extra
from nacre.record import Record
from nacre.runtime.agent.insight.trial import Key, Trial, try_model
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.opening import ProviderMissing, missing_extra, model_catalog
from nacre.runtime.providers.provider import Offer
from nacre.runtime.settings.config import (
    MODEL_VARIABLE,
    OFFLINE_NAMES,
    SETTINGS_FILE,
    load_config,
    settings_file,
)
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, has_keyring, keep_in_file, keep_in_keyring
from nacre.runtime.settings.disk.settings_file import settings_as_written
from nacre.runtime.settings.keys import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nacre.cli.invocation import Invocation
    from nacre.cli.setup.service import Service
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.workspace.workspace import WorkspaceReport
    from nacre.runtime.settings.config import Config


class Flags(Record):
    """Options and variables of a run: a server, a model, a key, fallbacks, a Telegram bot's token."""

    address: str = ""
    model_name: str = ""
    key: Key | None = None
    fallbacks: tuple[str, ...] = ()
    telegram_token: str = ""

    @property
    def name_model(self) -> bool:
        """Whether they name the model, so that the run does not ask for it."""
        return bool(self.address or self.model_name or self.key or self.fallbacks)


REFUSALS = (401, 403)
"""The HTTP statuses of a server that requires a key, or another one."""
MOST_TRIALS = 3
"""Without questions, at most so many of the models that were found are tried, each from another place."""


class Chosen(Record):
    """The chosen model, empty to stay offline, and the result of its trial.

    `base_url` is the address of the owner's server; `fallbacks` are asked when the model fails.
    """

    model_name: str = ""
    key: Key | None = None
    base_url: str = ""
    trial: Trial | None = None
    fallbacks: tuple[Chosen, ...] = ()


def choose_model(invocation: Invocation, flags: Flags) -> Chosen:
    """The model that the run names, or the first one found that answers.

    With an address in `flags`, it is a model of that server, the named one or the first.

    Raises:
        ConfigError: no model server answers at the address.
    """
    config = invocation.config
    if flags.model_name in OFFLINE_NAMES:
        return Chosen()
    kept, base_url = config.settings.agent.model.primary.strip(), ""
    if kept and flags.model_name in ("", kept) and not (flags.address or flags.key or flags.fallbacks):
        return Chosen(model_name=kept)
    named = flags.model_name or ("" if flags.address else config.model_name)
    if flags.address:
        named, base_url = _at_address(flags.address, named, flags.key)
    choices = () if named else asyncio.run(model_catalog().found_choices(config.environment))
    by_place = {choice.place: choice.model_name for choice in reversed(choices)}
    first = dict.fromkeys(by_place[choice.place] for choice in choices)
    chosen = Chosen()
    for model_name in [named] if named else list(first)[:MOST_TRIALS]:
        chosen = Chosen(model_name=model_name, base_url=base_url, key=flags.key)
        chosen = replace(chosen, trial=_try(invocation, chosen, asks=False))
        if chosen.trial and not chosen.trial.problem:
            return replace(chosen, fallbacks=tuple(Chosen(model_name=name) for name in flags.fallbacks))
    return replace(chosen, model_name=named)


def _at_address(address: str, named: str, key: Key | None) -> tuple[str, str]:
    """`provider/model` at an address, and the complete address.

    Raises:
        ConfigError: no model server answers there.
    """
    base_url, found = asyncio.run(model_catalog().probed(address, key.secret if key else ""))
    if not found.talking:
        if key and found.status in REFUSALS:
            raise ConfigError(f"{base_url} refused the key in {key.variable}. Correct the key.")
        raise ConfigError(_no_models(base_url, found.status))
    model = found.talking[0].name
    if named:
        name, _, model = named.partition("/")
        return (f"{name}/{model}" if model else f"local/{name}"), base_url
    return f"local/{model}", base_url


def _no_models(base_url: str, status: int) -> str:
    if not status:
        return f"Nothing answers at {base_url}. Start the server there, or correct the address."
    if status in REFUSALS:
        return (
            f"{base_url} requires a key. Name its variable with --key-from; "
            "`nacre init` on a terminal asks for it."
        )
    listed = "lists no chat model" if status == 200 else "has no list of models"
    return f"{base_url} answers, but {listed}. Correct the address; it usually ends with /v1."


def ask_and_set_up(invocation: Invocation, workspace: Workspace, flags: Flags) -> Chosen:
    """Asks for what is not known and not in `flags`, and stores the answers.

    Raises:
        ConfigError: the settings cannot be changed, or a key cannot be stored.
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
    chosen = choose_model(invocation, flags) if flags.name_model else Chosen()
    kept = config.settings.agent.model.primary.strip()
    if chosen.trial is None or chosen.trial.problem:
        chosen = _ask_model(invocation, kept) if not kept or ask_whether_to_change(kept) else Chosen()
    _keep(invocation, chosen, time_zone=time_zone)
    is_known = flags.telegram_token or "telegram" in config.settings.channels
    if not is_known and (token := ask_telegram()):
        _keep_telegram(invocation, token)
    return chosen if chosen.model_name else Chosen(model_name=kept)


def _ask_model(invocation: Invocation, kept: str) -> Chosen:
    """Asks for a model and its fallbacks, until one answers or the owner keeps it anyway.

    `kept` is the model of the settings.
    """
    chosen = Chosen()
    try:
        catalog = model_catalog()
    except ProviderMissing as problem:
        invocation.warn(str(problem))
        return chosen
    choices = asyncio.run(catalog.found_choices(invocation.config.environment))
    while True:
        answer = ask_model(choices, _offers(invocation), chosen.model_name or kept)
        if not answer:
            return chosen
        names = {each.model_name.partition("/")[0]: each.base_url for each in (chosen, *chosen.fallbacks)}
        addresses = {name: url or catalog.usual_address(name) for name, url in names.items() if name}
        picked = _pick(invocation, answer, addresses)
        if picked is None:
            continue
        trial = _try(invocation, picked, asks=True)
        while trial.is_key_refused:
            refused = _secret(invocation, picked.model_name, picked.key)
            key = _another_key(invocation, picked.model_name, refused)
            if key is None:
                break
            picked = replace(picked, key=key)
            trial = _try(invocation, picked, asks=True)
        if trial.problem and not ask_whether_to_keep(picked.model_name):
            continue
        picked = replace(picked, trial=trial)
        more = (*chosen.fallbacks, picked) if chosen.model_name else ()
        with_picked = replace(chosen, fallbacks=more) if chosen.model_name else picked
        following = "keep" if trial.problem else ask_what_next()
        if following != "another":
            chosen = with_picked
        if following == "keep":
            return chosen


def _offers(invocation: Invocation) -> list[Offer]:
    """The servers of the settings with their addresses, and the other providers."""
    offers = {each.provider_name: each for each in model_catalog().offers()}
    own = [
        Offer(
            label=f"{offers[name].label if name in offers else name} at {url}",
            provider_name=name,
            address=url,
        )
        for name, url in _known_addresses(invocation).items()
        if name not in offers or offers[name].is_own_server
    ]
    named = {each.provider_name for each in own}
    return [*own, *(each for each in offers.values() if each.provider_name not in named)]


def _known_addresses(invocation: Invocation) -> dict[str, str]:
    providers = invocation.config.settings.models.providers
    return {name: provider.base_url for name, provider in providers.items() if provider.base_url}


def _pick(invocation: Invocation, answer: str | Offer, addresses: Mapping[str, str]) -> Chosen | None:
    """The model of an answer with its key and address; `None` to ask again."""
    if isinstance(answer, Offer) and not answer.is_own_server:
        return _of_provider(invocation, answer)
    if isinstance(answer, Offer):
        return _on_own_server(invocation, answer, addresses)
    if "://" in answer:
        offer = Offer(label="", provider_name="", address=answer)
        return _on_own_server(invocation, offer, addresses, is_asked=False)
    key = None if _secret(invocation, answer, None) else _key(invocation, answer)
    return Chosen(model_name=answer, key=key)


def _of_provider(invocation: Invocation, offer: Offer) -> Chosen | None:
    """Asks for the key of a provider, which most require to list their models, and for a model."""
    name, environment = offer.provider_name, invocation.config.environment
    suggested = model_catalog().suggested_model(name)
    key = None if _secret(invocation, name, None) else _key(invocation, suggested)
    secret = _secret(invocation, name, key)
    while True:
        status, offered = asyncio.run(model_catalog().offered_models(name, environment, secret))
        if not secret or status not in REFUSALS:  # without one, it can be set later
            break
        invocation.warn(f"{offer.label} refused the key.")
        key = _another_key(invocation, suggested, secret)
        if key is None:
            return None
        secret = key.secret
    if status != 200:
        invocation.warn(f"{offer.label} did not send its list of models. These are known:")
    model_name = ask_listed(offered, name)
    return Chosen(model_name=model_name, key=key) if model_name else None


def _on_own_server(
    invocation: Invocation, offer: Offer, addresses: Mapping[str, str], *, is_asked: bool = True
) -> Chosen | None:
    """Asks for the address of the owner's server, its key if it requires one, and a model.

    `addresses` are those of the servers that were chosen in this run.
    """
    address = ask_address(offer.address) if is_asked else offer.address
    known, name = _known_addresses(invocation), ""
    key, secret = None, _secret(invocation, offer.provider_name, None)
    while address:
        base_url, found = asyncio.run(model_catalog().probed(address, secret))
        if found.is_served and not name:
            name = offer.provider_name
            if not name or addresses.get(name, base_url) != base_url:
                name = ask_server_name(base_url, {**known, **addresses})
        if found.talking:
            model_name = ask_listed(model_catalog().model_choices(name, found.talking), name)
            is_usual = name not in known and base_url == model_catalog().usual_address(name)
            kept = "" if is_usual else base_url
            return Chosen(model_name=model_name, key=key, base_url=kept) if model_name else None
        if found.status in REFUSALS:
            if secret:
                invocation.warn(f"{base_url} refused the key.")
            key = _another_key(invocation, f"{name}/default", secret)
            if key is not None:
                secret = key.secret
                continue
        else:
            invocation.warn(_no_models(base_url, found.status))
        address, key, secret = ask_address(""), None, ""
    return None


def _secret(invocation: Invocation, name: str, key: Key | None) -> str:
    """The given key, or that of the settings for a model or provider; empty if there is none."""
    provider = invocation.config.settings.models.providers.get(name.partition("/")[0])
    return key.secret if key else provider.api_key if provider else ""


def _another_key(invocation: Invocation, model_name: str, refused: str) -> Key | None:
    """Asks for a key in place of the refused one; `None` if there is none, or it would not be used."""
    variables = model_catalog().key_variables(model_name, is_wanted=True)
    environment = invocation.environment
    if refused and (held := next((name for name in variables if environment.get(name) == refused), "")):
        invocation.warn(f"The key is from {held} in the environment, which comes first. Correct it there.")
        return None
    return _key(invocation, model_name, is_wanted=True, refused=refused)


def _key(
    invocation: Invocation, model_name: str, *, is_wanted: bool = False, refused: str = ""
) -> Key | None:
    config = invocation.config
    return ask_key(
        model_name,
        config.environment,
        variables=model_catalog().key_variables(model_name, is_wanted=is_wanted),
        env_file=invocation.short(config.state_dir / ENVIRONMENT_FILE),
        has_keyring=has_keyring(),
        refused=refused,
        on_blank="go back" if is_wanted else "set it later",
    )


def _try(invocation: Invocation, chosen: Chosen, *, asks: bool) -> Trial:
    """Calls the model once. An extra that it needs is installed first, if the owner agrees."""
    extra = "" if chosen.base_url else missing_extra(invocation.config, chosen.model_name)
    if extra and (not asks or ask_whether_to_install(extra, chosen.model_name)):
        invocation.warn(f"Installing the extra {extra!r} ...", tone="dim")
        if problem := install_extra(extra):
            invocation.warn(problem)
    invocation.warn(f"Trying {chosen.model_name} ...", tone="dim")
    trial = asyncio.run(try_model(invocation.config, chosen.model_name, chosen.key, chosen.base_url))
    invocation.warn(trial.sentence, tone="warning" if trial.problem else "dim")
    return trial


def _keep(invocation: Invocation, chosen: Chosen, *, time_zone: str) -> None:
    """Stores the keys where the owner wants them, and writes the choices into the settings.

    Raises:
        ConfigError: a key cannot be stored, or the settings cannot be read or changed.
    """
    config = invocation.config
    wanted: list[tuple[tuple[str, ...], Any]] = [(("agents", "defaults", "userTimezone"), time_zone)]
    if chosen.trial is not None:
        wanted.append((("agents", "defaults", "model", "primary"), chosen.model_name))
    fallbacks = [each.model_name for each in chosen.fallbacks]
    wanted.append((("agents", "defaults", "model", "fallbacks"), fallbacks))
    for each in (chosen, *chosen.fallbacks):
        provider = ("models", "providers", each.model_name.partition("/")[0])
        wanted.append(((*provider, "baseUrl"), each.base_url))
        if each.key is None:
            continue
        if each.key.place == "file":
            keep_in_file(config.state_dir / ENVIRONMENT_FILE, each.key.variable, each.key.secret)
        elif each.key.place == "keyring":
            keep_in_keyring(each.key.variable, each.key.secret)
        wanted.append(((*provider, "apiKey"), each.key.in_settings))
    _write(config.state_dir / SETTINGS_FILE, config.environment, wanted)


OWNERS_FILE = "USER.md"
_NAME_LINE = "- **Name:**"
TELEGRAM_VARIABLE = "TELEGRAM_BOT_TOKEN"


async def knows_no_name(workspace: Workspace) -> bool:
    """Whether the line for the owner's name in USER.md is still empty."""
    found = (await workspace.read_many((OWNERS_FILE,)))[OWNERS_FILE]
    return not isinstance(found, Exception) and _NAME_LINE in _text_lines(found.data)


async def keep_name(workspace: Workspace, name: str) -> None:
    """Fills in the line for the owner's name, if it is still empty.

    Raises:
        OSError: the file cannot be written.
    """

    def change(old: bytes | None) -> bytes:
        lines = _text_lines(old or b"")
        if _NAME_LINE in lines:
            lines[lines.index(_NAME_LINE)] = f"{_NAME_LINE} {' '.join(name.split())}"
        return "\n".join(lines).encode("utf-8", errors="surrogateescape")

    await workspace.change(OWNERS_FILE, change)


def _keep_telegram(invocation: Invocation, token: str) -> None:
    """Stores the token of a bot, refers to it in the settings, and says what comes next.

    Raises:
        ConfigError: the token or the settings cannot be written.
    """
    state_dir, environment = invocation.config.state_dir, invocation.config.environment
    keep_in_file(state_dir / ENVIRONMENT_FILE, TELEGRAM_VARIABLE, token)
    named = (("channels", "telegram", "botToken"), f"${{{TELEGRAM_VARIABLE}}}")
    _write(state_dir / SETTINGS_FILE, {**environment, TELEGRAM_VARIABLE: token}, [named])
    invocation.warn(
        "The bot's token is stored. Run `nacre serve` and write to the bot, which tells you the next step.",
        tone="dim",
    )


def _write(file: Path, environment: Mapping[str, str], wanted: Sequence[tuple[tuple[str, ...], Any]]) -> None:
    """Sets the values that differ. A new settings file begins with a commented example."""
    written = settings_as_written(file)
    changed = [(path, value) for path, value in wanted if value and value != at(written, path)]
    if not changed:
        return

    def change(text: str) -> str:
        text = text if text.strip() else example()
        for path, value in changed:
            text = with_value(text, path, value)
        return text

    change_file(file, environment, change)


def _text_lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="surrogateescape").split("\n")


@click.command("init")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing; use the first model found that answers.")
@click.option("--address", default="", metavar="URL", help="Your own server; use its model, and ask nothing.")
@click.option("--key-from", default="", metavar="VARIABLE", help="The variable with the key of the model.")
@click.option(
    "--fallback",
    "fallbacks",
    multiple=True,
    metavar="PROVIDER/MODEL",
    help="Model if it fails.",
)
@click.option(
    "--telegram-token-from", default="", metavar="VARIABLE", help="The variable with a Telegram bot's token."
)
@click.option(
    "--restore",
    "backup",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Restore this backup instead, as `nacre restore` does.",
)
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The key of an encrypted backup.",
)
@click.option("--service", "wants_service", is_flag=True, help="Write a service that runs nacre serve.")
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(
    context: click.Context,
    yes: bool,
    address: str,
    key_from: str,
    fallbacks: tuple[str, ...],
    telegram_token_from: str,
    backup: Path | None,
    identity: Path | None,
    wants_service: bool,
    as_json: bool,
) -> int:
    """Set up the assistant: folders, model, channels, service.

    On a terminal, it asks whether to restore a backup, if there is no assistant yet. Then it asks for what it
    does not know: your name, your time zone, a provider or the address of a server, a model, and a key if one
    is needed. It tries the model with one call, and offers fallbacks, Telegram and a service, which it never
    starts. Safe to repeat: it offers another model, and overwrites nothing else. nacre chat makes the folders
    by itself. With --yes or --address, it asks nothing.
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant
    from nacre.runtime.storage.storage import storage_of

    yes = yes or bool(address)
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    state_dir = settings_file(environment_of(context)).parent.absolute()
    if backup is None and asks and not has_assistant(state_dir):
        backup = ask_backup()
    if backup is not None:  # before `begin`, which would make the folder for its log
        return _restore(context, backup, identity, state_dir, as_json=as_json)
    invocation = begin(context)
    config = invocation.config
    workspace = storage_of(config).workspace()
    report, left = _make_folders(config, workspace)
    notices = (*config.notices, *(text for text in (left,) if text))
    token = _named_secret(config.environment, telegram_token_from, "--telegram-token-from")
    secret = _named_secret(config.environment, key_from, "--key-from")
    key = Key(variable=key_from, secret=secret, place="file") if secret else None
    named = invocation.environment.get(MODEL_VARIABLE, "").strip()
    if "://" in named:
        named, address = "", address or named
    flags = Flags(address=address, model_name=named, key=key, fallbacks=fallbacks, telegram_token=token)
    chosen = _set_up(invocation, workspace, asks_nothing=yes, asks=asks, flags=flags)
    model_name = chosen.model_name if chosen else config.model_name
    trial = chosen.trial if chosen else None
    code = 1 if trial and trial.problem and yes and (config.model_name or address) else 0
    service = write_service(invocation) if wants_service or (asks and _wants_service(invocation)) else None
    if as_json:
        facts = {"agentId": config.agent_id, "stateDir": str(config.state_dir), "workspace": workspace.place}
        trial_facts = camel_json(trial, "model_name", "seconds", "usage", "problem") if trial else None
        found = {"model": model_name or None, "trial": trial_facts, "notices": list(notices)}
        found |= {"service": str(service.file)} if service else {}
        print_json({**facts, **camel_json(report, "created", "is_new"), **found})
        return code
    lasting = chosen or Chosen(model_name=model_name)
    invocation.say(*_lines(invocation, report, workspace, lasting, service))
    invocation.warn(*notices)
    return code


def _make_folders(config: Config, workspace: Workspace) -> tuple[WorkspaceReport, str]:
    """Makes missing folders and files; also returns a sentence about notes of another storage.

    Raises:
        TurnBroken: the disk refused.
    """
    from nacre.memory.workspace.workspace import ensure_workspace
    from nacre.runtime.contracts.errors import TurnBroken
    from nacre.runtime.settings.disk.agent_folders import keep_private
    from nacre.runtime.storage.storage import left_in_folder

    async def made() -> tuple[WorkspaceReport, str]:
        left = await left_in_folder(config, workspace)
        wanted = not config.settings.agent.skip_bootstrap and not left
        return await ensure_workspace(workspace, with_templates=wanted), left

    try:
        keep_private(config.state_dir, config.folders)
        return asyncio.run(made())
    except OSError as error:
        raise TurnBroken(
            f"The folders could not be made: {error}. Choose others with --state-dir or --workspace."
        ) from error


def _restore(
    context: click.Context, backup: Path, identity: Path | None, state_dir: Path, *, as_json: bool
) -> int:
    """Restores a backup into a state folder without an assistant, as `nacre restore` does.

    Raises:
        click.ClickException: there is an assistant, or the backup cannot be restored.
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    if has_assistant(state_dir):
        raise click.ClickException(
            f"{state_dir} already has an assistant, and nothing was changed. `nacre restore {backup}` "
            "replaces it and keeps its folder under another name."
        )
    restore = extension_command(context, "restore")
    if restore is None:
        raise click.ClickException("`nacre restore` is missing in this installation.")
    return int(context.invoke(restore, archive=backup, identity=identity, as_json=as_json))


def _named_secret(environment: Mapping[str, str], variable: str, option: str) -> str:
    secret = environment.get(variable, "").strip() if variable else ""
    if variable and not secret:
        raise click.UsageError(f"The environment has no {variable}, which {option} names.")
    return secret


def _set_up(
    invocation: Invocation,
    workspace: Workspace,
    *,
    asks_nothing: bool,
    asks: bool,
    flags: Flags,
) -> Chosen | None:
    """The choice of the run; `None` if nobody can be asked, or for another agent than the default one."""
    if not invocation.is_default_agent or not (asks_nothing or asks):
        return None
    if flags.telegram_token:
        _keep_telegram(invocation, flags.telegram_token)
    if not asks_nothing:
        return ask_and_set_up(invocation, workspace, flags)
    chosen = choose_model(invocation, flags)
    if chosen.trial and not chosen.trial.problem:  # only a model that answers replaces another
        _keep(invocation, chosen, time_zone="")
    return chosen


def _lines(
    invocation: Invocation,
    report: WorkspaceReport,
    workspace: Workspace,
    chosen: Chosen,
    service: Service | None,
) -> list[str]:
    config = invocation.config
    created = f"created {', '.join(report.created)}" if report.created else "nothing was missing"
    named = "" if invocation.is_default_agent else f"--agent {config.agent_id} "
    fallbacks = ", ".join(each.model_name for each in chosen.fallbacks)
    model = (
        chosen.model_name
        or "none yet: Nacre answers offline. `nacre init` on a terminal finds and tries one."
    )
    return [
        f"State      {invocation.short(config.state_dir)}",
        f"Workspace  {invocation.short(Path(workspace.place))}",
        f"           {created}",
        f"Model      {model}",
        *([f"Fallback   {fallbacks}"] if fallbacks else []),
        *([f"Service    {invocation.short(service.file)}; to start it: {service.start}"] if service else []),
        "",
        f"Next: `nacre {named}chat` to talk. Say who you are in USER.md in the workspace.",
    ]


def _wants_service(invocation: Invocation) -> bool:
    """Asks whether to write a service, if there are channels and no service yet."""
    service = service_here(invocation)
    if service is None or service.file.exists() or not load_config(invocation.environment).settings.channels:
        return False
    return ask_service(invocation.short(service.file))
