"""Finds and redacts keys, tokens and passwords in texts by their forms.

The forms are those that issuers document: a prefix, a length and an alphabet. A value without a known prefix
counts only after a name such as `token=`, so that hashes, ids and base64 images are not redacted.
"""

from __future__ import annotations

import re
from itertools import groupby

REDACTED = "[redacted]"
LEAST_RUN = 12
"""A key has a run of at least this many letters and digits that includes digits or both cases."""
LEAST_PASSWORD = 8
LEAST_FORM = 15
"""The length of the shortest key with a form of its own. Keys have no blanks."""
_WORD_SHAPE = bytes(ord(" ") if chr(code).isspace() else ord("x") for code in range(256))
_LONG_WORD = b"x" * LEAST_FORM
_NAMES = ("key", "token", "secret", "passw")
_RUN = re.compile(r"[A-Za-z0-9]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|pplx|r8|nvapi|fw|npm|glpat|gh[opsur]|github_pat|xox[abeprs]|xapp|whsec|tvly)"
    r"[-_](?=[\w.-]{0,199}\d)[\w.-]{12,}"
    r"|\bAIza[\w-]{20,}|\bA[KS]IA[A-Z0-9]{16}\b|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"
    r"|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bdop_v1_[a-f0-9]{40,}|\bshp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}\b"
    r"|\bpypi-AgEI[\w-]{40,}|\bAGE-SECRET-KEY-1[A-Z0-9]{50,}|\bdckr_pat_[\w-]{20,}|\bEAACEdEose0cBA\w+"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}"
    r"|\b\d{8,10}:[\w-]{35}(?![\w-])"
    r"|https://hooks\.slack\.com/services/T\w+/B\w+/\w{20,}"
    r"|https://discord(?:app)?\.com/api/webhooks/\d+/[\w-]{40,}"
    r"|(?i:(?<=\bbearer )[\w.~+/=-]{8,})"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
    re.DOTALL,
)
_ASSIGNED = re.compile(
    r"(?i:((?:api[_-]?key|access[_-]?key|token|secret|password|passwd)[\"']?\s*[:=]\s*[\"']?))"
    r"(?!\[redacted\])([^\s\"',;]{6,})"
)


def without_secrets(text: str) -> str:
    """`text` with everything that looks like a key, a token or a password replaced by `REDACTED`."""
    folded = text.lower() if text.isascii() else text.casefold()
    if _may_have_form(folded):
        text = _SECRETS.sub(REDACTED, text)
    is_named = any([name in folded for name in _NAMES])  # noqa: C419 - a generator takes three times as long
    return _ASSIGNED.sub(rf"\1{REDACTED}", text) if is_named else text


def _may_have_form(folded: str) -> bool:
    """A cheap test that saves the search for forms, which takes a hundred times as long."""
    if "://" in folded or "-----begin" in folded or "bearer " in folded:
        return True
    return _LONG_WORD in folded.encode("ascii", "replace").translate(_WORD_SHAPE)


def without_new_secrets(text: str, before: str = "") -> str:
    """A note with the secrets in its new lines redacted; lines that were in `before` stay.

    This is stricter than `without_secrets`, because notes are kept: a value with a known form must look
    random, and a value after a name must have letters and digits and must not be a date, a path or a UUID.
    """
    known = set(before.splitlines())
    runs = groupby(text.splitlines(keepends=True), key=lambda line: line.rstrip("\r\n") in known)
    parts = ((is_old, "".join(lines)) for is_old, lines in runs)
    return "".join(part if is_old else _strictly(part) for is_old, part in parts)


def _strictly(text: str) -> str:
    text = _SECRETS.sub(lambda found: REDACTED if _is_random(found[0]) else found[0], text)
    return _ASSIGNED.sub(
        lambda found: f"{found[1]}{REDACTED}" if _is_random_password(found[2]) else found[0], text
    )


def _is_random(found: str) -> bool:
    """Whether a value with the form of a key is random: it has a long run that does not look like a word."""
    if found.startswith(("-----BEGIN", "https://")) or ":" in found:
        return True
    return any(
        len(run) >= LEAST_RUN and (re.search(r"\d", run) or run not in (run.lower(), run.upper()))
        for run in _RUN.findall(found)
    )


def _is_random_password(value: str) -> bool:
    is_other = "/" in value or _UUID.fullmatch(value) or len(value) < LEAST_PASSWORD
    return not is_other and bool(re.search(r"\d", value) and re.search(r"[^\W\d_]", value))
