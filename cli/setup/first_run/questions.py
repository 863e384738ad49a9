"""The four questions of a first run, on a terminal. Edge: click's prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nacre.runtime.agent.first_model.key_places import Key, KeyPlace, key_variables
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    from nacre.runtime.agent.first_model.choices import Choice

MAX_SHOWN = 15
_OFFLINE = "0"


def ask_name() -> str:
    """How the owner wants to be called; empty for no answer."""
    return str(click.prompt("What is your name", default="", show_default=False)).strip()


def ask_time_zone(system_zone: str) -> str:
    """An IANA name, empty where the system's zone is right."""
    while True:
        answer = str(click.prompt("Your time zone", default=system_zone)).strip()
        if answer == system_zone:
            return ""
        try:
            owner_zone(answer)
            return answer
        except ConfigError as error:
            click.echo(f"  {error}")


def ask_model(choices: Sequence[Choice]) -> str:
    """`provider/model` of one that was found or any other; empty to stay offline."""
    shown = choices[:MAX_SHOWN]
    for number, choice in enumerate(shown, start=1):
        click.echo(f"  {number}  {choice.model_name}  ({choice.place})")
    if len(choices) > len(shown):
        click.echo(f"     and {len(choices) - len(shown)} more, by their names")
    click.echo(f"  {_OFFLINE}  none: answer offline, from the notes alone")
    while True:
        answer = str(
            click.prompt("Which model (a number, or provider/model)", default="1" if shown else _OFFLINE)
        ).strip()
        if answer == _OFFLINE:
            return ""
        if answer.isdecimal() and int(answer) <= len(shown):
            return shown[int(answer) - 1].model_name
        if all(answer.partition("/")):
            return answer
        click.echo("  Type a number of the list, or a name such as openai/gpt-5-mini.")


def ask_key(
    model_name: str, environment: Mapping[str, str], *, env_file: str, has_keyring: bool
) -> Key | None:
    """The key of a model and where it is to be kept; `None` where it wants none, or the owner gives none."""
    variables = key_variables(model_name)
    if not variables:
        return None
    variable = next((name for name in variables if environment.get(name, "").strip()), variables[0])
    secret = environment.get(variable, "").strip()
    places: list[tuple[KeyPlace, str]] = [("file", f"{env_file}, which only you can read")]
    if has_keyring:
        places.append(("keyring", "the system's keyring"))
    if secret:
        places.insert(0, ("environment", f"the environment, as now ({variable})"))
    else:
        click.echo(f"  {model_name} needs a key ({variable}), which is not in the environment.")
        secret = str(
            click.prompt(
                "Its key (not shown; blank to set it later)", default="", show_default=False, hide_input=True
            )
        ).strip()
        if not secret:
            return None
    for number, (_, told) in enumerate(places, start=1):
        click.echo(f"  {number}  {told}")
    answer = click.prompt("Where is the key to be kept", default=1, type=click.IntRange(1, len(places)))
    return Key(variable=variable, secret=secret, place=places[answer - 1][0])


def ask_whether_to_keep(model_name: str) -> bool:
    """Whether a model that did not answer is taken all the same."""
    return click.confirm(f"Take {model_name} all the same", default=False)
