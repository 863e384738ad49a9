"""What can go wrong in a turn; `docs/engineering/errors.md` says who handles what.

Each message is a sentence: what happened, with which value, what to do. Only `models/` converts providers'
exceptions into these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

FailureReason: TypeAlias = Literal["rate_limit", "timeout", "unavailable", "auth", "billing", "format"]


class AgentError(Exception):
    """Any failure that the runtime reports to its caller."""


class ConfigError(AgentError):
    """A setting, a settings file or a command-line value cannot be used."""


class PrivacyError(AgentError):
    """A message asked for a session or a file that its chat must not see."""


class MessageRefused(AgentError):
    """A hook refused the message, which is not stored. The text is the hook's reason."""


class AgentPaused(AgentError):
    """The operator of the service has paused the agent; the message is not stored."""


class ApprovalNotFound(AgentError):
    """No call waits for approval under this id: it is unknown, answered or expired."""


class SessionInUse(AgentError):
    """Another process held the session's lock for longer than the caller waits."""


class PlaceUnknown(AgentError):
    """A conversation has no saved place of this name, or a place cannot have this name."""


class ModelError(AgentError):
    """A model call failed. `detail` is the provider's own text, for the log and the terminal, never for a
    chat.

    `reason` says why another model may succeed. It is `None` if another model would not help: the request is
    too long, was refused for its content, or the error has no particular kind.
    """

    reason: ClassVar[FailureReason | None] = None

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    @property
    def provider_words(self) -> str:
        """The provider's own message, extracted from its JSON; empty if there is none."""
        try:
            answer, _ = json.JSONDecoder().raw_decode(self.detail[self.detail.index("{") :])
        except (ValueError, RecursionError):
            return ""
        error = answer.get("error", answer)
        said = error.get("message") if isinstance(error, dict) else error
        return said.strip() if isinstance(said, str) else ""


class SpendingCapReached(ModelError):
    """A call could exceed the owner's daily cap, or its cost is unknown."""


class ContextOverflow(ModelError):
    """The request did not fit the model's window, which is `window_tokens` if not the first model's."""

    def __init__(self, message: str, *, detail: str = "", window_tokens: int | None = None) -> None:
        super().__init__(message, detail=detail)
        self.window_tokens = window_tokens


class RateLimited(ModelError):
    """The provider limits the rate of requests; `retry_after_seconds` is its wish, if any."""

    reason = "rate_limit"

    def __init__(self, message: str, *, detail: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(message, detail=detail)
        self.retry_after_seconds = retry_after_seconds


class ModelUnavailable(ModelError):
    """The provider could not be reached, stalled, or failed on its side."""

    reason: ClassVar[FailureReason | None] = "unavailable"


class ModelNotRunning(ModelUnavailable):
    """Nothing listens at the model's address on this machine, so asking again does not help."""


class ModelTimedOut(ModelUnavailable):
    """The model did not begin to answer in time, or stopped in the middle of its answer."""

    reason = "timeout"


class ModelAuthError(ModelError):
    """The key or permission for the model is missing or was refused."""

    reason: ClassVar[FailureReason | None] = "auth"


class NoCredit(ModelAuthError):
    """The account with the provider has no credit left."""

    reason = "billing"


class BadModelReply(ModelError):
    """The provider refused the request as malformed or answered outside the protocol."""

    reason: ClassVar[FailureReason | None] = "format"


class RequestRefused(BadModelReply):
    """The provider refused the content, such as a text or an image; no other model is asked."""

    reason = None


class AllModelsFailed(ModelError):
    """Every model failed; the message names each with its reason, `failures` has their errors."""

    def __init__(self, message: str, *, detail: str = "", failures: Sequence[ModelError] = ()) -> None:
        super().__init__(message, detail=detail)
        self.failures = tuple(failures)


class TurnTimedOut(AgentError):
    """The turn took longer than `agents.defaults.timeoutSeconds`; what was said until then is on disk."""


class OutputInvalid(AgentError):
    """A call with `output_type` has no valid answer; what was said until then is on disk."""


class UsageLimitReached(AgentError):
    """The turn used up one of its `UsageLimits`; what was said until then is on disk."""


class TurnCancelled(AgentError):
    """The turn was stopped before its answer; what was said until then is on disk."""


class TurnBroken(AgentError):
    """The turn failed for a reason other than the model: a file, a full disk, a bug."""
