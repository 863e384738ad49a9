"""Which agent answers: the most specific binding counts."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.bridges.access.bindings import bound_agent_id
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.settings import Settings

BINDINGS: list[dict[str, Any]] = [
    {"agentId": "anywhere", "match": {"channel": "line", "accountId": "*"}},
    {"agentId": "work", "match": {"channel": "Line", "accountId": "work"}},
    {"agentId": "ann", "match": {"channel": "line", "peer": {"kind": "dm", "id": "ann"}}},
    {
        "agentId": "team",
        "match": {"channel": "line", "accountId": "*", "peer": {"kind": "group", "id": "g1"}},
    },
    {"agentId": "groups", "match": {"channel": "line", "peer": {"kind": "group", "id": "*"}}},
    {"agentId": "plain", "match": {"channel": "mail"}},
]


@pytest.mark.parametrize(
    ("inbound", "agent"),
    [
        ({}, "anywhere"),
        ({"account": "work"}, "work"),
        ({"sender_id": "ann"}, "ann"),
        ({"sender_id": "Ann"}, "anywhere"),
        ({"sender_id": "Ann", "ids_fold_case": True}, "ann"),
        ({"sender_id": "ann", "account": "work"}, "work"),
        ({"sender_id": "ann", "chat_kind": "group", "chat_id": "g2"}, "groups"),
        ({"chat_kind": "group", "chat_id": "g1", "account": "work"}, "team"),
        ({"chat_kind": "channel", "chat_id": "g1"}, "anywhere"),
        ({"channel": "mail"}, "plain"),
        ({"channel": "mail", "account": "other"}, ""),
        ({"channel": "irc"}, ""),
    ],
)
@pytest.mark.covers("A3-7")
def test_the_most_specific_binding_counts(inbound: dict[str, Any], agent: str) -> None:
    """A chat before an account, an account before every account; nothing where none fits."""
    bindings = Settings.model_validate({"bindings": BINDINGS}).bindings
    message = Inbound(**{"text": "", "chat_kind": "direct", "channel": "line", "sender_id": "bob", **inbound})

    assert bound_agent_id(message, bindings) == agent
