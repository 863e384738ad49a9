"""JSON for scripts: one value on standard output, readable, and safe to show in a terminal. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_RAW_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_text(value: Any) -> str:
    """`value` as JSON, two spaces a level; text stays text, control characters become escapes.

    >>> json_text({"reply": "né\\x9b"})
    '{\\n  "reply": "né\\\\u009b"\\n}'
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _RAW_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
