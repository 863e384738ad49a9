"""Which extension the settings switch on: OpenClaw's keys, in OpenClaw's order."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.runtime.extensions.choice import chosen, named
from nacre.runtime.extensions.installed.manifest import ExtensionKind, ManifestInvalid, parse_manifest
from nacre.runtime.settings.sections.plugins import PluginsSettings

ON, OFF = {"enabled": True}, {"enabled": False}


@pytest.mark.parametrize(
    ("settings", "kind", "is_on", "reason"),
    [
        ({}, None, False, "nothing names it"),
        ({"entries": {"bees": ON}}, None, True, "plugins.entries.bees.enabled is true"),
        ({"entries": {"bees": {"config": {}}}}, None, False, "nothing names it"),
        ({"allow": ["bees"]}, None, True, "plugins.allow names it"),
        ({"allow": ["bees"], "entries": {"bees": OFF}}, None, False, "plugins.entries.bees.enabled is false"),
        ({"allow": ["ants"], "entries": {"bees": ON}}, None, False, "plugins.allow does not name it"),
        ({"deny": ["bees"], "allow": ["bees"]}, None, False, "plugins.deny names it"),
        ({"enabled": False, "entries": {"bees": ON}}, None, False, "plugins.enabled is false"),
        ({"entries": {"bees": ON}}, "memory", False, "plugins.slots.memory is memory-core"),
        ({"entries": {"bees": ON}}, "channel", False, "channels.bees switches it on"),
        ({"slots": {"memory": " bees "}}, "memory", True, "plugins.slots.memory names it"),
        ({"slots": {"memory": "bees"}, "entries": {"bees": OFF}}, "memory", False, "enabled is false"),
    ],
)
def test_the_settings_decide(
    settings: dict[str, Any], kind: ExtensionKind | None, is_on: bool, reason: str
) -> None:
    """What is only installed is off; the reason names the key that decided."""
    choice = chosen("bees", kind, PluginsSettings.model_validate(settings))

    assert choice.is_on is is_on
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({}, ()),
        ({"slots": {"memory": "None"}}, ()),
        ({"slots": {"memory": "  "}, "entries": {"bees": OFF, "ants": {}}}, ()),
        ({"allow": ["memory-core", "bees"], "entries": {"ants": ON}}, ("bees", "ants")),
        ({"slots": {"memory": "bees"}, "allow": ["bees"]}, ("bees",)),
        ({"enabled": False, "allow": ["bees"]}, ()),
    ],
)
def test_what_the_settings_ask_for(settings: dict[str, Any], ids: tuple[str, ...]) -> None:
    """Only these are looked for, so that a start without extensions reads nothing of what is installed."""
    assert named(PluginsSettings.model_validate(settings)) == ids


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "contains list instead of an object"),
        ('{"id": "Bees"}', "has the id 'Bees'"),
        ('{"id": "memory-core"}', "has the id 'memory-core'"),
        ('{"id": "bees", "kind": "bridge"}', "has the kind 'bridge'"),
        ('{"id": "bees", "configSchema": 7}', "an object as configSchema"),
    ],
)
def test_a_manifest_that_cannot_be_used(text: str, problem: str) -> None:
    """It is refused with what stands there; keys of other programs are left alone."""
    with pytest.raises(ManifestInvalid, match=problem):
        parse_manifest(text)

    assert parse_manifest('{"id": "bees", "uiHints": {}}').id == "bees"
