"""The questions of a first run, on a terminal. Edge: click's prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from nacre.runtime.agent.insight.trial import Key, KeyPlace
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.provider import Offer

if TYPE_CHECKING:
    from nacre.runtime.providers.provider import ModelChoice

MAX_SHOWN = 15
_OFFLINE = "0"
_BARE_ADDRESS = re.compile(r"[\w.-]+:\d{2,5}(?:/\S*)?")
"""An address without a scheme, such as localhost:8080."""


def ask_backup() -> Path | None:
    """The file of a backup to restore; `None` for a new assistant."""
    while True:
        click.echo("  1  set up a new assistant")
        click.echo("  2  restore a backup, of this machine or of another one")
        if click.prompt("Which", type=click.Choice(["1", "2"]), default="1", show_choices=False) == "1":
            return None
        answer = str(click.prompt("The file of the backup", default="", show_default=False)).strip()
        path = Path(answer).expanduser().absolute()
        if path.is_file():
            return path
        if answer:
            click.echo(f"  {path} is not a file. `nacre backup` on the other machine writes one.")


def ask_name() -> str:
    """The owner's name; empty for no answer."""
    return str(click.prompt("What is your name", default="", show_default=False)).strip()


def ask_time_zone(system_zone: str) -> str:
    """An IANA name; empty if the system's zone is right."""
    while True:
        answer = str(click.prompt("Your time zone", default=system_zone)).strip()
        if answer == system_zone:
            return ""
        try:
            owner_zone(answer)
            return answer
        except ConfigError as error:
            click.echo(f"  {error}")


def ask_model(choices: Sequence[ModelChoice], offers: Sequence[Offer], kept: str) -> str | Offer:
    """`provider/model`, an address, or a provider; empty to keep `kept`, if any."""
    shown: list[ModelChoice | Offer] = [*choices[:MAX_SHOWN], *offers]
    for number, each in enumerate(shown, start=1):
        label = each.label if isinstance(each, Offer) else f"{each.model_name}  ({each.place})"
        click.echo(f"  {number:<2} {label}")
    if len(choices) > MAX_SHOWN:
        click.echo(f"     and {len(choices) - MAX_SHOWN} more models; type the name of one")
    without = f"keep {kept}" if kept else "none: answer offline, only from the notes"
    click.echo(f"  {_OFFLINE}  {without}")
    while True:
        answer = str(
            click.prompt(
                "Which model or provider (a number, an address, or provider/model)",
                default="1" if choices and not kept else _OFFLINE,
            )
        ).strip()
        if answer == _OFFLINE:
            return ""
        if answer.isdecimal() and int(answer) <= len(shown):
            chosen = shown[int(answer) - 1]
            return chosen if isinstance(chosen, Offer) else chosen.model_name
        if _BARE_ADDRESS.fullmatch(answer):
            return f"http://{answer}"
        if all(answer.partition("/")):
            return answer
        click.echo("  Type a number of the list, an address, or a name such as openai/gpt-5-mini.")


def ask_listed(choices: Sequence[ModelChoice], provider: str) -> str:
    """One of a provider's models, or another name; empty to go back. A part of a name shortens the list."""
    listed = list(choices)
    while True:
        for number, choice in enumerate(listed[:MAX_SHOWN], start=1):
            click.echo(f"  {number:<2} {choice.model_name.partition('/')[2]}  ({choice.place})")
        more = len(listed) - MAX_SHOWN
        if more > 0:
            click.echo(f"     and {more} more: type a part of a name to see them")
        answer = str(click.prompt("Which model (a number or a name, 0 to go back)", default="1")).strip()
        if answer == "0":
            return ""
        if answer.isdecimal() and 0 < int(answer) <= min(len(listed), MAX_SHOWN):
            return listed[int(answer) - 1].model_name
        named = [each for each in choices if answer in (each.model_name, each.model_name.partition("/")[2])]
        matching = named or [each for each in choices if answer.lower() in each.model_name.lower()]
        if len(matching) == 1:
            return matching[0].model_name
        if not matching and click.confirm(f"  The list has no such model. Try {answer} anyway"):
            return f"{provider}/{answer.removeprefix(f'{provider}/')}"
        listed = matching or list(choices)


def ask_address(default: str) -> str:
    """The address of a server; empty to go back."""
    return str(
        click.prompt("Its address (blank to go back)", default=default, show_default=bool(default))
    ).strip()


def ask_server_name(address: str, addresses: Mapping[str, str]) -> str:
    """A name for the server, by default that of its host.

    `addresses` are those of the named servers; no two of them have the same name.
    """
    host = (urlsplit(address).hostname or "").partition(".")[0]
    default = host if host.isidentifier() and host != "localhost" else "local"
    free = (name for number in count(2) if (name := f"{default}{number}") not in addresses)
    default = default if addresses.get(default, address) == address else next(free)
    while True:
        name = str(click.prompt("A short name for this server", default=default)).strip()
        if not name or set(name) & set(" /.\"'"):
            click.echo("  One word, without a slash or a dot.")
        elif addresses.get(name, address) != address:
            click.echo(f"  {name} is the server at {addresses[name]}. Give this one another name.")
        else:
            return name


def ask_secret(what: str) -> str:
    """A key or token that is not shown; empty for none."""
    return str(click.prompt(what, default="", show_default=False, hide_input=True)).strip()


def ask_what_next() -> str:
    """`keep`, `another` or `fallback`, for a model that answered."""
    options = {"k": "keep", "a": "another", "f": "fallback"}
    answer = click.prompt(
        "Keep it (k), try another (a), or add a fallback (f)",
        default="k",
        type=click.Choice(list(options), case_sensitive=False),
        show_choices=False,
    )
    return options[str(answer).lower()]


def ask_telegram() -> str:
    """The token of a Telegram bot; empty for none."""
    if not click.confirm("Also reach it by Telegram", default=False):
        return ""
    click.echo("  Write /newbot to @BotFather in Telegram; it gives you a token.")
    return ask_secret("The token (not shown; blank for none)")


def ask_service(file: str) -> bool:
    """Whether to write a service that runs `nacre serve`."""
    return click.confirm(f"Write {file}, a service that runs `nacre serve`", default=False)


def ask_key(
    model_name: str,
    environment: Mapping[str, str],
    *,
    variables: Sequence[str],
    env_file: str,
    has_keyring: bool,
    refused: str,
    on_blank: str,
) -> Key | None:
    """The key of a model and where to store it; `None` if it requires none, or the owner has none.

    `variables` may have the key. A `refused` key is asked for again. `on_blank` says what an empty answer
    does.
    """
    if not variables:
        return None
    held = {name: environment.get(name, "").strip() for name in variables}
    variable = next((name for name in variables if held[name] not in ("", refused)), variables[0])
    secret = held[variable] if held[variable] != refused else ""
    places: list[tuple[KeyPlace, str]] = [("file", f"{env_file}, which only you can read")]
    if has_keyring:
        places.append(("keyring", "the system's keyring"))
    if secret:
        places.insert(0, ("environment", f"the environment, as now ({variable})"))
    else:
        provider = model_name.partition("/")[0]
        where = "in place of the refused one" if refused else "which is not in the environment"
        click.echo(f"  {provider} needs a key ({variable}), {where}.")
        secret = ask_secret(f"Its key (not shown; blank to {on_blank})")
        if not secret:
            return None
    if len(places) == 1:
        click.echo(f"  It is stored in {places[0][1]}.")
        return Key(variable=variable, secret=secret, place=places[0][0])
    for number, (_, label) in enumerate(places, start=1):
        click.echo(f"  {number}  {label}")
    answer = click.prompt("Where to store the key", default=1, type=click.IntRange(1, len(places)))
    return Key(variable=variable, secret=secret, place=places[answer - 1][0])


def ask_whether_to_install(extra: str, model_name: str) -> bool:
    """Whether to install the extra that a model needs."""
    return click.confirm(f"{model_name} needs the extra {extra!r} of Nacre. Install it now", default=True)


def ask_whether_to_change(model_name: str) -> bool:
    """Whether to replace the model of the settings."""
    return click.confirm(f"The model is {model_name}. Choose another", default=False)


def ask_whether_to_keep(model_name: str) -> bool:
    """Whether to use a model that did not answer."""
    return click.confirm(f"Use {model_name} anyway", default=False)
