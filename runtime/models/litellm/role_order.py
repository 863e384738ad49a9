"""The order of roles that a provider's family takes. Pure; what a transcript holds stays as it is.

OpenAI takes any order. Everybody else wants a conversation to begin with the user and, in most chat
templates, user and assistant to alternate; a request that does not is refused again on every turn, so
that the session would be stuck. Source: the message rules of Anthropic's and Google's API pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

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


def in_role_order(messages: Sequence[Message], *, family: Family) -> Sequence[Message]:
    """The messages in an order that the family takes; `messages` itself when they are.

    A user message in front where an answer came first; consecutive user messages merged, for Google
    also consecutive answers. Merging keeps every block in its order and the later time.
    """
    if family == "openai" or not messages:
        return messages
    ordered: list[Message] = []
    changed = not isinstance(messages[0], UserMessage)
    if changed:
        ordered.append(user_message(render("session/bootstrap"), timestamp_ms=messages[0].timestamp_ms))
    for message in messages:
        merged = _merged(ordered[-1], message, family) if ordered else None
        if merged is None:
            ordered.append(message)
        else:
            ordered[-1] = merged
            changed = True
    return ordered if changed else messages


def _merged(before: Message, message: Message, family: Family) -> Message | None:
    """Both as one message, or `None` where they may follow each other."""
    if isinstance(before, UserMessage) and isinstance(message, UserMessage):
        return replace(message, content=(*before.content, *message.content))
    if family == "google" and isinstance(before, AssistantMessage) and isinstance(message, AssistantMessage):
        return replace(message, content=(*before.content, *message.content))
    return None
