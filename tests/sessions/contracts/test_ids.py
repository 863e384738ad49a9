"""Ids in session keys: who differs in a byte has another conversation, unless the channel folds case."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.errors import SessionKeyInvalid
from nacre.sessions.contracts.keys import canonical_key
from tests.sessions.contracts.test_keys import key

_IDS = st.text(max_size=12) | st.text(alphabet="aAbB %:=>0418\u0301\u0338\u00ca\u1ec1\n", max_size=5)


@given(one=_IDS.filter(str.strip), other=_IDS.filter(str.strip), kind=st.sampled_from(["direct", "group"]))
@pytest.mark.covers("A3-1")
def test_ids_that_differ_in_a_byte_never_share_a_session(one: str, other: str, kind: str) -> None:
    """Different ids have different keys, and a key read back from the index is the same key."""
    keys = [key(chat_kind=kind, is_owner=False, sender_id=name, chat_id=name) for name in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)
    assert canonical_key(keys[0], agent_id="main") == keys[0]


@pytest.mark.covers("ATT-4")
def test_case_blanks_and_line_ends_part_people_and_groups() -> None:
    """`alice`, `Alice`, ` alice` and a line end behind it are four people; `G77` and `g77` two groups."""
    names = ("alice", "Alice", " alice", "alice\n")

    assert len({key(is_owner=False, sender_id=name) for name in names}) == 4
    assert key(chat_kind="group", chat_id="G77") != key(chat_kind="group", chat_id="g77")
    assert len({key(is_owner=False, sender_id=name, ids_fold_case=True) for name in names}) == 1


@pytest.mark.parametrize("sender", ["", " ", "\n"])
@pytest.mark.covers("A3-1", "ATT-4")
def test_a_direct_message_without_a_sender_is_refused(sender: str) -> None:
    """People without an id would share one session, so nobody without an id has one; the owner needs none."""
    with pytest.raises(
        SessionKeyInvalid, match=r"^A direct message .* has no sender.*sender_id in the bridge\.$"
    ):
        key(is_owner=False, sender_id=sender)
    assert key(sender_id=sender) == "agent:main:main"


def test_a_link_names_one_exact_id() -> None:
    """Who writes as `Anna` is not the linked `anna`, unless the channel folds case."""
    links = {"Anna": ["irc:anna"]}
    route = {"channel": "irc", "is_owner": False, "identity_links": links, "dm_scope": "per-peer"}

    assert key(**route, sender_id="anna") == "agent:main:dm:anna"
    assert key(**route, sender_id="Anna") == "agent:main:irc:dm:%41nna"
    assert key(**route, sender_id="Anna", ids_fold_case=True) == "agent:main:dm:anna"
