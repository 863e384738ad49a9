"""Turns providers' failures into `ModelError`s. Exceptions are recognized by class names and fields.

Only texts that a provider sent as an error are examined, never what a user or a model said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime

from nacre.extensions.providers.completions.addresses import SentElsewhere, is_loopback
from nacre.extensions.providers.completions.price_map import price_map_models
from nacre.record import Record
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelNotRunning,
    ModelTimedOut,
    ModelUnavailable,
    NoCredit,
    RateLimited,
    RequestRefused,
)

MAX_DETAIL_CHARS = 2_000

_KEY_VARIABLES = {
    "": "OPENAI_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "huggingface": "HF_TOKEN",
}
_LOOKS_LIKE_A_KEY = re.compile(
    r"(?i:bearer)\s+\S+|\b(?:sk|pk|rk|gsk|xai|hf|pplx|r8|nvapi|fw)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}"
)

# How providers say that a request is too long, and errors that only look like it.
_OVERFLOW = re.compile(
    r"(?is)context_length_exceeded|context[ _]window[ _]exceeded|request_too_large|context overflow"
    r"|context length exceeded|(?:maximum|max) context length|context[_ ]length is only"
    r"|exceeds?(?: the)?(?: model(?:'s)?)? (?:maximum )?context (?:window|size|length)"
    r"|exceeds the available context size|(?:greater|larger|longer) than the context length"
    r"|prompt is too long|input is too long for requested model|prompt too long"
    r"|request exceeds the maximum size|request size exceeds.{0,80}context window"
    r"|input token count.{0,60}exceeds|maximum prompt length|reduce the length of the messages"
    r"|exceeds the (?:model's )?(?:limit|maximum) of [\d,]+ tokens|too large for model with [\d,]+ maximum"
    r"|exceeded model token limit|input length.{0,40}exceeds?.{0,40}context"
    r"|too many (?:input )?tokens in (?:the )?(?:request|prompt|input)|token limit exceeded"
    r"|context window exceeds limit|prompt contains [\d,]+ tokens.{0,40}too large"
)
_WINDOW = re.compile(
    r'(?is)"n_ctx"\s*:\s*(\d+)|context (?:size|length|window)[^\d{}]{0,40}?\(?([\d,]{4,})'
    r"|> ?([\d,]{4,}) maximum|(?:limit|maximum) of ([\d,]{4,}) tokens"
    r"|number of tokens allowed \(?([\d,]{4,})|with ([\d,]{4,}) maximum"
)
_NOT_OVERFLOW = re.compile(r"context window (?:is )?too small|rate limit|per minute|throttl", re.IGNORECASE)
_NO_CREDIT = re.compile(
    r"(?i)insufficient[_ ]quota|exceeded your current quota|credit balance is too low|payment required"
    r"|billing (?:hard limit|details)|out of credits|insufficient (?:credits|balance|funds)"
)
_NO_KEY = re.compile(
    r"(?i)(?:incorrect|invalid|missing|no|expired|unknown) (?:\w+ ){0,2}api[ _-]?key"
    r"|api[_ ]key.{0,40}(?:not (?:set|found|valid|provided)|is required|must be set)"
    r"|(?:missing|unable to locate) credentials|default credentials were not found"
)
_BUSY = re.compile(r"overloaded|too many requests|rate[ _]limit|resource[_ ]exhausted", re.IGNORECASE)
_NO_CONNECTION = re.compile(
    r"(?i)connection error\.|connection refused|connection attempts failed|cannot connect to host"
    r"|connect call failed|name or service not known|nodename nor servname|getaddrinfo failed"
    r"|temporary failure in name resolution|network is unreachable|no route to host"
)
_BAD_IMAGE = re.compile(
    r"(?i)image(?:'s|s)? (?:dimensions?|size|width|height)\b.{0,60}(?:exceed|too (?:large|big|small)|max)"
    r"|image (?:exceeds|is too (?:large|big))|(?:could not|unable to|cannot) process (?:the )?image"
    r"|(?:invalid|unsupported) image"
)
_NO_TOOLS = re.compile(
    r"(?i)not support (?:tool|function)|(?:tools|tool use|calling)\W? (?:is|are) not (?:supported|enabled)"
    r"|support tool use|enable-auto-tool-choice|tools param requires"
)
_CERTIFICATE = re.compile(
    r"(?i)certificate[ _]verify[ _]failed|certificate (?:has expired|is not valid|verification)"
    r"|self[- ]signed certificate|unable to get (?:local )?issuer certificate|hostname mismatch"
)
_NO_TLS = re.compile(
    r"(?i)wrong[ _]version[ _]number|record layer failure|unknown protocol|http request to https"
)
_NO_PROVIDER = re.compile(r"LLM Provider NOT provided", re.IGNORECASE)


class ProviderAnswered(Exception):
    """An error response: its status and headers, if there were any, and its body without keys."""

    def __init__(self, status_code: int | None, headers: Mapping[str, str], text: str) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.headers = headers


class CallFacts(Record):
    """The facts for the sentence about a failed call. `secrets` are removed from it.

    `key_is_configured` says that the key comes from the settings and not from the environment; `key_place`
    names another place of the key.
    """

    model_name: str
    api_base: str | None
    secrets: tuple[str, ...]
    now_seconds: float
    key_is_configured: bool = False
    key_place: str = ""


def classify(error: BaseException, facts: CallFacts) -> ModelError:
    """The `ModelError` for any exception of a call; `detail` is its text without keys."""
    if isinstance(error, ModelError):
        return error
    if (refused := _refused_redirect(error)) is not None:
        return refused
    causes = list(_causes(error))
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    text = "\n".join(dict.fromkeys(str(cause) for cause in causes))
    detail = redacted(text, facts.secrets)[:MAX_DETAIL_CHARS]
    # The innermost status is the provider's; wrappers may have another one.
    statuses = (getattr(cause, "status_code", None) for cause in reversed(causes))
    status = next((each for each in statuses if isinstance(each, int)), None)
    kind, sentence = _verdict(text, kinds, status, facts)
    if kind is not RateLimited:
        return kind(sentence, detail=detail)
    wait = retry_after_seconds(causes, text, facts.now_seconds)
    when = "Wait a moment and ask again." if wait is None else f"It asks to wait {wait:.15g} seconds."
    return RateLimited(f"{sentence} {when}", detail=detail, retry_after_seconds=wait)


def is_overflow(text: str, *, kinds: Collection[str] = (), status: int | None = None) -> bool:
    """Whether a provider's error text, class names or status say that the request was too large."""
    if "ContextWindowExceededError" in kinds:
        return True
    if status in (401, 402, 403) or _NOT_OVERFLOW.search(text):
        return False
    return bool(_OVERFLOW.search(text)) or status == 413


def reported_window_tokens(text: str) -> int | None:
    """The window that a provider names when it refuses a request as too large."""
    found = _WINDOW.search(text)
    return int(next(filter(None, found.groups())).replace(",", "") or 0) or None if found else None


def key_variable(model_name: str) -> str:
    """The environment variable that holds the key for `provider/model`."""
    provider, _, model = model_name.partition("/")
    provider = provider.lower() if model else ("anthropic" if provider.startswith("claude") else "")
    return _KEY_VARIABLES.get(provider, re.sub(r"\W", "_", provider).upper() + "_API_KEY")


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """`text` without the given secrets and without anything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    return _LOOKS_LIKE_A_KEY.sub("[key]", text)


def _refused_redirect(error: BaseException) -> SentElsewhere | None:
    """Our refusal of a redirect; litellm wraps it without naming it as the cause."""
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        if isinstance(current, SentElsewhere):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [getattr(current, "original_exception", None), current.__cause__]


def _verdict(
    text: str, kinds: set[str], status: int | None, facts: CallFacts
) -> tuple[type[ModelError], str]:
    name = facts.model_name
    if _BAD_IMAGE.search(text):
        return RequestRefused, (
            f"The provider of the model {name!r} cannot take an image of the conversation. "
            "Send a smaller one, as PNG or JPEG; /new begins a session without it."
        )
    if _NO_TOOLS.search(text):
        return RequestRefused, (
            f"The server of the model {name!r} takes no tools for it. Choose another model, or use this one "
            "without tools: `nacre config set agents.defaults.tools.deny '[\"*\"]'`."
        )
    if is_overflow(text, kinds=kinds, status=status):
        return ContextOverflow, (
            f"The conversation no longer fits the context window of the model {name!r}. "
            "It has to be compacted, or continued with a model that has a larger window."
        )
    if status == 402 or "PaymentRequiredError" in kinds or _NO_CREDIT.search(text):
        return NoCredit, (
            f"The account for the model {name!r} has no credit left. "
            "Add credit at the provider, or choose another model."
        )
    said = f" (HTTP {status})" if status in (401, 403) else ""
    if said or kinds & {"AuthenticationError", "PermissionDeniedError"} or _NO_KEY.search(text):
        return (
            ModelAuthError,
            f"The key for the model {name!r} is missing or was refused{said}. {_key_advice(facts)}",
        )
    if status == 429 or "RateLimitError" in kinds:
        return RateLimited, f"The provider of the model {name!r} limits how often it may be asked."
    if kinds & {"Timeout", "APITimeoutError", "TimeoutError", "TimeoutException"} or status == 408:
        return ModelTimedOut, (
            f"The model {name!r} did not answer in time. "
            "Ask again, or raise the request time-out in the settings."
        )
    if status is None and (_CERTIFICATE.search(text) or _NO_TLS.search(text)):
        return BadModelReply, _insecure(text, facts)
    if facts.api_base and is_loopback(facts.api_base) and _NO_CONNECTION.search(text):
        start = "Start it with `ollama serve`" if name.startswith("ollama") else "Start the server"
        return ModelNotRunning, (
            f"The model {name!r} cannot be reached at {facts.api_base}: nothing listens there on this "
            f"machine. {start}, or check the address."
        )
    if status is None or status >= 500 or status == 409 or "APIConnectionError" in kinds:
        return ModelUnavailable, _unavailable(text, kinds, status, facts)
    if "ContentPolicyViolationError" in kinds:
        return RequestRefused, (
            f"The provider's content policy refused the request to {name!r}. Put it in other words."
        )
    return BadModelReply, _bad_reply(text, kinds, status, facts)


def _key_advice(facts: CallFacts) -> str:
    variable = key_variable(facts.model_name)
    provider, slash, _ = facts.model_name.partition("/")
    if not facts.key_is_configured or not slash:
        return f"Set the environment variable {variable} to a valid key."
    if facts.key_place:
        return (
            f"It came from {facts.key_place}. Correct it there, or set models.providers.{provider}.apiKey in "
            "the settings, which has precedence."
        )
    return (
        f"It came from models.providers.{provider}.apiKey in nacre.json5. Put a valid key there, or remove "
        f"it and set the environment variable {variable}."
    )


def _insecure(text: str, facts: CallFacts) -> str:
    """The sentence for a failure of TLS. Nothing was sent, and a retry does not help."""
    where = f" at {facts.api_base}" if facts.api_base else ""
    if _CERTIFICATE.search(text):
        return (
            f"The server of the model {facts.model_name!r}{where} has a certificate that cannot be "
            "verified, so nothing was sent. If it is your own server or your network's proxy, set "
            "SSL_CERT_FILE to the certificate of its authority. Otherwise check the address and the clock of "
            "this machine."
        )
    return (
        f"The server of the model {facts.model_name!r}{where} does not speak https, so nothing was sent. "
        "Check whether its address begins with http:// instead."
    )


def _unavailable(text: str, kinds: set[str], status: int | None, facts: CallFacts) -> str:
    name = facts.model_name
    if _NO_CONNECTION.search(text):
        where = f" at {facts.api_base}" if facts.api_base else ""
        return (
            f"The model {name!r} cannot be reached{where}. "
            "Check the network, and that the server is running and its address is right."
        )
    if _BUSY.search(text):
        return f"The provider of the model {name!r} is overloaded. Ask again in a while."
    is_told = status is not None and status >= 500 and "APIConnectionError" not in kinds
    said = f" (HTTP {status})" if is_told else ""
    return f"The model {name!r} failed at the provider, or the connection broke{said}. Ask again in a while."


def _bad_reply(text: str, kinds: set[str], status: int | None, facts: CallFacts) -> str:
    name = facts.model_name
    if _NO_PROVIDER.search(text):
        return (
            f"The model name {name!r} does not begin with a provider that is known. "
            "Write it as provider/model, e.g. 'openai/gpt-4o' or 'ollama/llama3'."
        )
    if status == 404 or "NotFoundError" in kinds:
        where = f", and that {facts.api_base} is right" if facts.api_base else ""
        how = f"{_nearest(name)} Check its name in the settings{where}."
        return f"The provider does not know the model {name!r}.{how}"
    return (
        f"The provider refused the request to the model {name!r} as malformed (HTTP {status}). "
        "Its answer is in the log; another model may accept the request."
    )


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # rarely needed

    provider, _, model = name.partition("/")
    known = [each.removeprefix(f"{provider}/") for each in price_map_models(provider)]
    found = get_close_matches(model, known, n=1, cutoff=0.8)
    return f" Did you mean {provider}/{found[0]}?" if found else ""


_WAIT_WORDS = re.compile(
    r"(?i)(?:try again in|retry (?:in|after)|retryDelay\"?\s*[:=]\s*\"?)\s*"
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|m\b|s)?"
)


def retry_after_seconds(causes: Sequence[BaseException], text: str, now_seconds: float) -> float | None:
    """The wait that the provider asks for: `Retry-After` in seconds or as a date (RFC 9110), or in words."""
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
