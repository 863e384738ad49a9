"""The model that the owner chose for a chat, under OpenClaw's names in the session's line. Pure."""

from __future__ import annotations

from dataclasses import replace

from nacre.sessions.index.record import SessionRecord

_PROVIDER, _MODEL, _SOURCE = "providerOverride", "modelOverride", "modelOverrideSource"


def model_override(record: SessionRecord) -> str:
    """`provider/model`, or the model alone where no provider stands with it; empty without a choice."""
    provider, model = record.extra.get(_PROVIDER), record.extra.get(_MODEL)
    if not isinstance(model, str) or not model.strip():
        return ""
    return f"{provider.strip()}/{model.strip()}" if isinstance(provider, str) and provider else model.strip()


def with_model_override(record: SessionRecord, name: str) -> SessionRecord:
    """The record with the owner's choice; an empty name takes it back.

    The profile of keys that went with the earlier model goes too.
    """
    gone = (_PROVIDER, _MODEL, _SOURCE, "authProfileOverride", "authProfileOverrideSource")
    extra = {key: value for key, value in record.extra.items() if key not in gone}
    if name:
        provider, _, model = name.partition("/")
        extra |= {_PROVIDER: provider, _MODEL: model, _SOURCE: "user"}
    return replace(record, extra=extra)
