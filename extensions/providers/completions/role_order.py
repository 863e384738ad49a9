"""The order of roles that a provider's family takes. Pure; what a transcript holds stays as it is.

OpenAI takes any order. Everybody else wants a conversation to begin with the user and, in most chat
templates, user and assistant to alternate; a request that does not is refused again on every turn, so
that the session would be stuck. Source: the message rules of Anthropic's and Google's API pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from nacre.prompts import render
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, user_message

Family: TypeAlias = Literal["openai", "anthropic", "google", "mistral", "other"]

_PROVIDERS: dict[str, Family] = {
    "openai": "openai",
    "azure": "openai",
    "azure_ai": "openai",
    "text-completion-openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "mistral": "mistral",
    "codestral": "mistral",
}
_MODELS: tuple[tuple[str, Family], ...] = (
    ("claude", "anthropic"),
    ("gemini", "google"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("codestral", "mistral"),
    ("gpt-", "openai"),
)


def provider_family(model_name: str) -> Family:
    """Whose rules `provider/model` follows: the model's maker counts, also where it is resold."""
    provider, _, model = model_name.lower().rpartition("/")
    made = next((family for word, family in _MODELS if word in model), None)
    return made or _PROVIDERS.get(provider.split("/")[0], "other")


def role_groups(messages: Sequence[Message], *, family: Family) -> list[tuple[Message, ...]]:
    """The messages in an order that the family takes, those together that go out as one.

    A user message in front where an answer came first; consecutive user messages together, for Google
    also consecutive answers.
    """
    if family == "openai" or not messages:
        return [(message,) for message in messages]
    groups: list[tuple[Message, ...]] = []
    if not isinstance(messages[0], UserMessage):
        bootstrap = user_message(render("session/bootstrap"), timestamp_ms=messages[0].timestamp_ms)
        groups.append((bootstrap,))
    merging = (UserMessage, AssistantMessage) if family == "google" else (UserMessage,)
    for message in messages:
        if groups and isinstance(message, merging) and type(groups[-1][0]) is type(message):
            groups[-1] = (*groups[-1], message)
        else:
            groups.append((message,))
    return groups


def merged(group: Sequence[Message]) -> Message:
    """Messages of one role as one, with every block in its order and the later time."""
    blocks: Any = tuple(block for message in group for block in message.content)
    return replace(group[-1], content=blocks)
