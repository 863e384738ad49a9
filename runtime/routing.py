"""Which session a message belongs to, and what that session may see. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.runtime.errors import PrivacyError
from nacre.runtime.inbound import CHAT_KINDS, Inbound
from nacre.runtime.policy import ChatPolicy
from nacre.runtime.settings import SessionSettings
from nacre.sessions.keys import canonical_key, is_private_key, session_key


@dataclass(frozen=True, kw_only=True)
class Route:
    """A session's key and the policy that holds in it."""

    key: str
    policy: ChatPolicy


def route(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> Route:
    """The session of a message. A key that the message names wins over the derived one.

    Raises:
        PrivacyError: a message that is not the owner's, or not from a direct chat, names a private
            session: what was said there must not reach it.
        nacre.sessions.SessionKeyInvalid: the named key cannot be a key.
    """
    key = _key(inbound, agent_id=agent_id, settings=settings)
    private_key = is_private_key(key, main_key=settings.main_key)
    policy = ChatPolicy(
        chat_kind=inbound.chat_kind if inbound.chat_kind in CHAT_KINDS else "group",
        is_owner=_is_owner(inbound),
        session_key_is_private=private_key,
    )
    if inbound.session_key and private_key and not policy.is_private:
        raise PrivacyError(
            f"A {inbound.chat_kind} message"
            f"{'' if policy.is_owner else ' that is not the owner’s'} named the private session {key!r}. "
            "Leave session_key empty, or name a group session."
        )
    return Route(key=key, policy=policy)


def _key(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> str:
    if inbound.session_key:
        return canonical_key(inbound.session_key, agent_id=agent_id, main_key=settings.main_key)
    return session_key(
        agent_id=agent_id,
        chat_kind=inbound.chat_kind,
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
        sender_id=inbound.sender_id,
        dm_scope=settings.dm_scope,
        main_key=settings.main_key,
        identity_links=settings.identity_links,
        is_owner=_is_owner(inbound),
    )


def _is_owner(inbound: Inbound) -> bool:
    # A bridge that hands in the text "false" must not make everybody the owner.
    return inbound.is_owner is True
