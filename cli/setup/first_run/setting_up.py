"""The order of a first run: what is not known yet is found or asked, tried, and kept. Edge."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from nacre.cli.setup.first_run import questions
from nacre.cli.setup.first_run.keeping import keep_key, keep_name, keep_settings, knows_no_name
from nacre.record import Record
from nacre.runtime.agent.first_model.choices import found_choices
from nacre.runtime.agent.first_model.trial import Trial, tried
from nacre.runtime.contracts.clock import owner_zone
from nacre.runtime.settings.config import SETTINGS_FILE
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, has_keyring

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.agent.first_model.key_places import Key

MOST_TRIALS = 3
"""Without questions, no more of the models that were found are tried, each from another place."""


class Chosen(Record):
    """The model of a first run, empty to stay offline, with what came of trying it."""

    model_name: str = ""
    key: Key | None = None
    trial: Trial | None = None


def set_up_by_itself(invocation: Invocation) -> Chosen:
    """Takes the model that the run names, or the first one found that answers, and writes it down.

    Raises:
        ConfigError: the settings cannot be changed.
    """
    config = invocation.config
    if config.settings.agent.model.primary.strip():
        return Chosen(model_name=config.model_name)
    named = config.model_name
    choices = [] if named else asyncio.run(found_choices(config.environment))
    by_place = {choice.place: choice.model_name for choice in reversed(choices)}
    first = dict.fromkeys(by_place[choice.place] for choice in choices)
    chosen = Chosen()
    for model_name in [named] if named else list(first)[:MOST_TRIALS]:
        chosen = Chosen(model_name=model_name, trial=_tried(invocation, model_name, None))
        if chosen.trial and not chosen.trial.problem:
            _keep(invocation, chosen, time_zone="")
            return chosen
    return replace(chosen, model_name=named)


def set_up_with_questions(invocation: Invocation, workspace: Workspace) -> Chosen:
    """Asks what is not known yet, and writes the answers down.

    Raises:
        ConfigError: the settings, or the place of a key, cannot be changed.
        OSError: USER.md cannot be written.
    """
    config = invocation.config
    time_zone = ""
    if asyncio.run(knows_no_name(workspace)):
        name = questions.ask_name()
        if name:
            asyncio.run(keep_name(workspace, name))
        if not config.settings.agent.user_timezone:
            time_zone = questions.ask_time_zone(str(owner_zone(None)))
    chosen = Chosen(model_name=config.model_name) if config.model_name else _asked(invocation)
    _keep(invocation, chosen, time_zone=time_zone)
    return chosen


def _asked(invocation: Invocation) -> Chosen:
    """The model that the owner wants, tried until one answers or is wanted all the same."""
    config = invocation.config
    choices = asyncio.run(found_choices(config.environment))
    while model_name := questions.ask_model(choices):
        provider = config.settings.models.providers.get(model_name.partition("/")[0])
        key = None
        if not (provider and provider.api_key):
            key = questions.ask_key(
                model_name,
                config.environment,
                env_file=invocation.short(config.state_dir / ENVIRONMENT_FILE),
                has_keyring=has_keyring(),
            )
        trial = _tried(invocation, model_name, key)
        if not trial.problem or questions.ask_whether_to_keep(model_name):
            return Chosen(model_name=model_name, key=key, trial=trial)
    return Chosen()


def _tried(invocation: Invocation, model_name: str, key: Key | None) -> Trial:
    invocation.warn(f"Trying {model_name} ...", tone="dim")
    trial = asyncio.run(tried(invocation.config, model_name, key))
    invocation.warn(trial.told, tone="warning" if trial.problem else "dim")
    return trial


def _keep(invocation: Invocation, chosen: Chosen, *, time_zone: str) -> None:
    config = invocation.config
    if chosen.key is not None:
        keep_key(chosen.key, config.state_dir)
    is_new = chosen.trial is not None
    keep_settings(
        config.state_dir / SETTINGS_FILE,
        config.environment,
        model_name=chosen.model_name if is_new else "",
        time_zone=time_zone,
        key=chosen.key,
    )
