"""The prompt parts that a bot author hands in, checked when the agent is opened."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.turn.prompt_parts.prompt_part import PromptFunction, PromptPart, prompt_part
from nacre.runtime.turn.prompt_parts.sections import instructions_part


def given_prompt_parts(
    instructions: str, given: Sequence[PromptPart | PromptFunction]
) -> tuple[PromptPart, ...]:
    """The author's instructions as the first part, then the parts; plain functions are made parts.

    Raises:
        ConfigError: a function cannot be a part, or two parts have one name.
    """
    parts = [instructions_part(instructions)] if instructions.strip() else []
    for item in given:
        try:
            part = item if isinstance(item, PromptPart) else prompt_part(item)
        except TypeError as error:
            raise ConfigError(
                f"{error} Change the function, or leave it out of Agent.open(prompt_parts=...)."
            ) from error
        if part.name in {other.name for other in parts}:
            raise ConfigError(
                f"There are two prompt parts named {part.name!r}. Name one: @prompt_part(name='...')."
            )
        parts.append(part)
    return tuple(parts)
