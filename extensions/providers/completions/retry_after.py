"""How long a provider asks to wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime

_WAIT_WORDS = re.compile(
    r"(?i)(?:try again in|retry (?:in|after)|retryDelay\"?\s*[:=]\s*\"?)\s*"
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|m\b|s)?"
)


def retry_after_seconds(causes: Sequence[BaseException], text: str, now_seconds: float) -> float | None:
    """How long the provider asks to wait: `Retry-After` in seconds or as a date (RFC 9110), or words."""
    for cause in causes:
        for headers in (
            getattr(cause, "litellm_response_headers", None),
            getattr(getattr(cause, "response", None), "headers", None),
            getattr(cause, "headers", None),
        ):
            wait = _wait_from_headers(headers, now_seconds) if isinstance(headers, Mapping) else None
            if wait is not None:
                return wait
    words = _WAIT_WORDS.search(text)
    if words is None:
        return None
    scale = {"ms": 0.001, "m": 60.0}.get((words["unit"] or "s").lower(), 1.0)
    return float(words["number"]) * scale


def _wait_from_headers(headers: Mapping[str, str], now_seconds: float) -> float | None:
    lowered = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = lowered.get(name)
        if value is None:
            continue
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * scale
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - now_seconds)
        except (ValueError, TypeError, OverflowError):
            continue
    return None
