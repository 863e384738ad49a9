"""The command `nacre init`: folders and files of a new owner, and what to do next.

What is not known yet is found or asked, tried, and kept.
"""

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
from nacre.runtime.agent.insight.trial import Key, Trial, tried
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
    """Options and variables of one run: a server, a model, a key, fallbacks, a Telegram bot's token."""

    address: str = ""
    model_name: str = ""
    key: Key | None = None
    fallbacks: tuple[str, ...] = ()
    telegram_token: str = ""

    @property
    def name_model(self) -> bool:
        """Whether they name the model, so that no question about it is needed."""
        return bool(self.address or self.model_name or self.key or self.fallbacks)


REFUSALS = (401, 403)
"""The HTTP statuses of a server that wants a key, or another one."""
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


def chosen_by_itself(invocation: Invocation, flags: Flags) -> Chosen:
    """The model that the run names, or the first one found that answers.

    With an address in `flags` it is a model of that server, the named one or the first.

    Raises:
        ConfigError: no server of models answers at the address.
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
        chosen = replace(chosen, trial=_tried(invocation, chosen, asks=False))
        if chosen.trial and not chosen.trial.problem:
            return replace(chosen, fallbacks=tuple(Chosen(model_name=name) for name in flags.fallbacks))
    return replace(chosen, model_name=named)


def _at_address(address: str, named: str, key: Key | None) -> tuple[str, str]:
    """`provider/model` at an address, and the address as it answers.

    Raises:
        ConfigError: no server of models answers there.
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
            f"{base_url} wants a key. Name the variable that has it with --key-from; "
            "`nacre init` on a terminal asks for it."
        )
    listed = "lists no model that talks" if status == 200 else "has no list of models"
    return f"{base_url} answers, but {listed}. Correct the address; it usually ends with /v1."


def set_up_with_questions(invocation: Invocation, workspace: Workspace, flags: Flags) -> Chosen:
    """Asks what is not known yet and `flags` do not say, and writes the answers down.

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
    chosen = chosen_by_itself(invocation, flags) if flags.name_model else Chosen()
    kept = config.settings.agent.model.primary.strip()
    if chosen.trial is None or chosen.trial.problem:
        chosen = _asked(invocation, kept) if not kept or ask_whether_to_change(kept) else Chosen()
    _keep(invocation, chosen, time_zone=time_zone)
    is_known = flags.telegram_token or "telegram" in config.settings.channels
    if not is_known and (token := ask_telegram()):
        _keep_telegram(invocation, token)
    return chosen if chosen.model_name else Chosen(model_name=kept)


def _asked(invocation: Invocation, kept: str) -> Chosen:
    """The model that the owner wants, tried until one answers or is kept all the same, and its fallbacks.

    `kept` is that of the settings.
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
        picked = _picked(invocation, answer, _addresses(chosen))
        if picked is None:
            continue
        trial = _tried(invocation, picked, asks=True)
        while trial.is_key_refused:
            refused = _secret(invocation, picked.model_name, picked.key)
            key = _another_key(invocation, picked.model_name, refused)
            if key is None:
                break
            picked = replace(picked, key=key)
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


def _addresses(chosen: Chosen) -> dict[str, str]:
    """The servers that were chosen already, by their names."""
    names = {each.model_name.partition("/")[0]: each.base_url for each in (chosen, *chosen.fallbacks)}
    return {name: url or model_catalog().usual_address(name) for name, url in names.items() if name}


def _picked(invocation: Invocation, answer: str | Offer, addresses: Mapping[str, str]) -> Chosen | None:
    """The model behind an answer with its key and address; `None` to ask again."""
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
    """A model of a provider with a key: first the key, with which most tell what they have."""
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
    """A model of a server that the owner runs: its address is probed, and a key asked where it wants one.

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
    """The key that was given, or that of a model's or provider's settings; empty if there is none."""
    provider = invocation.config.settings.models.providers.get(name.partition("/")[0])
    return key.secret if key else provider.api_key if provider else ""


def _another_key(invocation: Invocation, model_name: str, refused: str) -> Key | None:
    """A key in place of the refused one; `None` if the owner gives none, or it would not be used."""
    variables = model_catalog().key_variables(model_name, is_wanted=True)
    environment = invocation.environment
    if refused and (held := next((name for name in variables if environment.get(name) == refused), "")):
        invocation.warn(f"The key is that of {held} in the environment, which comes first. Correct it there.")
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
    """Puts the keys where the owner wants them, and writes what was chosen into the settings.

    Raises:
        ConfigError: a key cannot be put there, or the settings cannot be read or changed.
    """
    config = invocation.config
    wanted: list[tuple[tuple[str, ...], Any]] = [(_TIME_ZONE, time_zone)]
    if chosen.trial is not None:
        wanted.append((_MODEL, chosen.model_name))
    wanted.append((_FALLBACKS, [each.model_name for each in chosen.fallbacks]))
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
_MODEL = ("agents", "defaults", "model", "primary")
_FALLBACKS = ("agents", "defaults", "model", "fallbacks")
_TIME_ZONE = ("agents", "defaults", "userTimezone")


async def knows_no_name(workspace: Workspace) -> bool:
    """Whether USER.md has its line for the owner's name, and nobody filled it in."""
    found = (await workspace.read_many((OWNERS_FILE,)))[OWNERS_FILE]
    return not isinstance(found, Exception) and _NAME_LINE in _env_lines(found.data)


async def keep_name(workspace: Workspace, name: str) -> None:
    """Fills in the line for the owner's name, if it is still empty.

    Raises:
        OSError: the file cannot be written.
    """

    def change(old: bytes | None) -> bytes:
        lines = _env_lines(old or b"")
        if _NAME_LINE in lines:
            lines[lines.index(_NAME_LINE)] = f"{_NAME_LINE} {' '.join(name.split())}"
        return "\n".join(lines).encode("utf-8", errors="surrogateescape")

    await workspace.change(OWNERS_FILE, change)


def _keep_telegram(invocation: Invocation, token: str) -> None:
    """Keeps the token of a bot apart, has the settings name it, and says what comes next.

    Raises:
        ConfigError: one of both cannot be written.
    """
    state_dir, environment = invocation.config.state_dir, invocation.config.environment
    keep_in_file(state_dir / ENVIRONMENT_FILE, TELEGRAM_VARIABLE, token)
    named = (("channels", "telegram", "botToken"), f"${{{TELEGRAM_VARIABLE}}}")
    _write(state_dir / SETTINGS_FILE, {**environment, TELEGRAM_VARIABLE: token}, [named])
    told = (
        "The bot's token is kept. `nacre serve` answers there; write to the bot, and it tells the next step."
    )
    invocation.warn(told, tone="dim")


def _write(file: Path, environment: Mapping[str, str], wanted: Sequence[tuple[tuple[str, ...], Any]]) -> None:
    """Sets the values that differ. Settings that do not exist yet begin with a commented example."""
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


def _env_lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="surrogateescape").split("\n")


@click.command("init")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the first model found that answers.")
@click.option(
    "--address", default="", metavar="URL", help="A server of your own: take its model, and ask nothing."
)
@click.option("--key-from", default="", metavar="VARIABLE", help="The variable with the key of the model.")
@click.option("--fallback", "fallbacks", multiple=True, metavar="PROVIDER/MODEL", help="Who is asked next.")
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

    On a terminal it asks whether to restore a backup, if there is no assistant yet. Then it asks for your
    name, your time zone, a provider or the address of a server, a model, and a key where one is needed, as
    far as they are not known. It tries the model with one call, and offers fallbacks, Telegram and a service,
    which it never starts. Safe to repeat: it offers another model, and overwrites nothing else. nacre chat
    makes the folders by itself. With --yes or --address it asks nothing.
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant
    from nacre.runtime.storage.storage import storage_of

    yes = yes or bool(address)
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    state_dir = settings_file(environment_of(context)).parent.absolute()
    if backup is None and asks and not has_assistant(state_dir):
        backup = ask_backup()
    if backup is not None:  # before `begin`, whose log would be in the folder that a restore makes
        return _restored(context, backup, identity, state_dir, as_json=as_json)
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
        tried = camel_json(trial, "model_name", "seconds", "usage", "problem") if trial else None
        found = {"model": model_name or None, "trial": tried, "notices": list(notices)}
        found |= {"service": str(service.file)} if service else {}
        print_json({**facts, **camel_json(report, "created", "is_new"), **found})
        return code
    lasting = chosen or Chosen(model_name=model_name)
    invocation.say(*_lines(invocation, report, workspace, lasting, service))
    invocation.warn(*notices)
    return code


def _make_folders(config: Config, workspace: Workspace) -> tuple[WorkspaceReport, str]:
    """Makes what is missing; also says what another storage left in the folder.

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


def _restored(
    context: click.Context, backup: Path, identity: Path | None, state_dir: Path, *, as_json: bool
) -> int:
    """Restores a backup into a state folder without an assistant, as `nacre restore` does.

    Raises:
        click.ClickException: an assistant is there, or the backup cannot be restored.
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    if has_assistant(state_dir):
        raise click.ClickException(
            f"{state_dir} has an assistant already, and nothing was changed. `nacre restore {backup}` "
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
    """What the first run chose; `None` where nobody can be asked, or it is about another agent."""
    if not invocation.is_default_agent or not (asks_nothing or asks):
        return None
    if flags.telegram_token:
        _keep_telegram(invocation, flags.telegram_token)
    if not asks_nothing:
        return set_up_with_questions(invocation, workspace, flags)
    chosen = chosen_by_itself(invocation, flags)
    if chosen.trial and not chosen.trial.problem:  # a model that has not answered replaces none
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
        f"Next: `nacre {named}chat` to talk. USER.md in the workspace is the place to say who you are.",
    ]


def _wants_service(invocation: Invocation) -> bool:
    """Whether the owner of an assistant with channels wants a service; asked only if there is none yet."""
    service = service_here(invocation)
    if service is None or service.file.exists() or not load_config(invocation.environment).settings.channels:
        return False
    return ask_service(invocation.short(service.file))
