"""`memory.qmd.scope`: whether qmd may be asked in a chat. Pure.

What a chat may see is said by `ChatPolicy`, whatever stands here."""

from __future__ import annotations

import re

from nacre.runtime.settings.sections.memory import QmdMatch, QmdScope

_AGENT = re.compile(r"agent:[^:]*:")


def may_ask(scope: QmdScope, *, key: str, channel: str, chat_type: str) -> bool:
    """Whether a search is allowed in the session `key`; the first rule that fits decides.

    `chat_type` is `direct`, `group` or `channel`; any other word counts as `group`.
    """
    kind = {"dm": "direct"}.get(chat_type, chat_type)
    kind = kind if kind in ("direct", "channel") else "group"
    for rule in scope.rules:
        if _fits(rule.match, key.strip().lower(), channel.strip().lower(), kind):
            return rule.action == "allow"
    return scope.default == "allow"


def _fits(match: QmdMatch, key: str, channel: str, kind: str) -> bool:
    plain, raw = match.key_prefix.strip().lower(), match.raw_key_prefix.strip().lower()
    former = ""
    if plain.startswith("agent:"):  # as it was written before there was rawKeyPrefix
        former, plain = plain, ""
    return (
        match.channel.strip().lower() in ("", channel)
        and match.chat_type in ("", kind)
        and _AGENT.sub("", key, count=1).startswith(plain)
        and key.startswith(raw)
        and key.startswith(former)
    )
