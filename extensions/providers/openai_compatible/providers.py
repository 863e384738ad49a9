"""Providers that speak OpenAI's chat completions: addresses, keys, and what they accept. Pure.

Sources: each provider's API reference, and what litellm 1.106 sends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nacre.extensions.providers.completions.errors import key_variable
from nacre.record import Record


class Provider(Record):
    """One provider. `base_url` is its own address; blank if the settings must name one.

    `base_url_variables` and `key_variables` are looked up in the environment, in this order. Servers on the
    owner's machine have no `needs_key`. `adds_v1`: an address without a path means `/v1` below it.
    `counts_unasked`: the usage is reported without `stream_options`, which are refused. A tool's schema must
    not contain `refused_schema_keys`. `takes_images` `False`: content is text, except for models with vision.
    `signs_calls`: tool calls carry Google's thought signature, and are refused without one.
    `takes_output_schema`: `response_format` with a JSON schema is obeyed in a stream and beside tools, by
    models that take one according to the price map.
    """

    base_url: str = ""
    base_url_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    adds_v1: bool = False
    counts_unasked: bool = False
    refused_schema_keys: frozenset[str] = frozenset()
    takes_images: bool = True
    signs_calls: bool = False
    takes_output_schema: bool = False


def _local(port: int, *variables: str, keys: tuple[str, ...] = (), refused: str = "") -> Provider:
    return Provider(
        base_url=f"http://localhost:{port}/v1",
        base_url_variables=variables,
        key_variables=keys,
        needs_key=False,
        adds_v1=True,
        refused_schema_keys=frozenset(refused.split()),
    )


_OLLAMA = _local(11434, "OLLAMA_API_BASE", keys=("OLLAMA_API_KEY",))
_VLLM = _local(
    8000, "HOSTED_VLLM_API_BASE", keys=("HOSTED_VLLM_API_KEY",), refused="additionalProperties strict"
)
_LM_STUDIO = _local(1234, "LM_STUDIO_API_BASE", keys=("LM_STUDIO_API_KEY",))
_LLAMA_CPP = _local(
    8080, "LLAMA_CPP_API_BASE", "LLAMAFILE_API_BASE", keys=("LLAMA_CPP_API_KEY", "LLAMAFILE_API_KEY")
)

PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        base_url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        key_variables=("OPENAI_API_KEY",),
        takes_output_schema=True,
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        base_url_variables=("OPENROUTER_API_BASE",),
        key_variables=("OPENROUTER_API_KEY", "OR_API_KEY"),
    ),
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
    "hosted_vllm": _VLLM,
    "vllm": _VLLM,
    "lm_studio": _LM_STUDIO,
    "lmstudio": _LM_STUDIO,
    "llama_cpp": _LLAMA_CPP,
    "llamafile": _LLAMA_CPP,
    "deepseek": Provider(
        base_url="https://api.deepseek.com/v1",
        base_url_variables=("DEEPSEEK_API_BASE",),
        key_variables=("DEEPSEEK_API_KEY",),
        takes_images=False,
    ),
    "groq": Provider(
        base_url="https://api.groq.com/openai/v1",
        base_url_variables=("GROQ_API_BASE",),
        key_variables=("GROQ_API_KEY",),
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1",
        base_url_variables=("MISTRAL_AZURE_API_BASE", "MISTRAL_API_BASE"),
        key_variables=("MISTRAL_AZURE_API_KEY", "MISTRAL_API_KEY"),
        adds_v1=True,
        counts_unasked=True,
        refused_schema_keys=frozenset({"$id", "$schema", "strict"}),
    ),
    "xai": Provider(
        base_url="https://api.x.ai/v1",
        base_url_variables=("XAI_API_BASE",),
        key_variables=("XAI_API_KEY",),
    ),
    "together_ai": Provider(
        base_url="https://api.together.ai/v1",
        base_url_variables=("TOGETHER_AI_API_BASE",),
        key_variables=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY"),
    ),
    "cerebras": Provider(
        base_url="https://api.cerebras.ai/v1",
        base_url_variables=("CEREBRAS_API_BASE",),
        key_variables=("CEREBRAS_API_KEY",),
        counts_unasked=True,
    ),
    "gemini": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        base_url_variables=("GEMINI_API_BASE",),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        refused_schema_keys=frozenset({"$id", "$schema", "additionalProperties", "strict"}),
        signs_calls=True,
    ),
}
"""Providers by the first part of a model's name. Any other one needs an address in the settings."""

_OTHER_PROTOCOLS = re.compile(
    r"ai21_chat|anthropic(_text)?|azure(_ai|_text)?|bedrock(_converse)?|chatgpt|claude_code|cloudflare|codestral"
    r"|cohere(_chat)?|databricks|gigachat|github_copilot|gradient_ai|huggingface|langgraph|maritalk|nlp_cloud"
    r"|oci|oobabooga|petals|predibase|replicate|sagemaker(_chat)?|snowflake|text-completion-(codestral|openai)"
    r"|triton|vertex_ai(_beta)?|watsonx(_text)?"
)
"""Providers with their own protocols, which litellm speaks, also to an address of the owner."""

_GPT = re.compile(r"gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?")


class Endpoint(Record):
    """The address, provider and key of one model. `model` is its name there."""

    provider: Provider
    provider_name: str
    model: str
    base_url: str
    api_key: str
    key_variables: tuple[str, ...]
    needs_key: bool

    @property
    def is_providers_own(self) -> bool:
        """Whether it is the provider's own address, not a server of the owner."""
        return self.provider.needs_key and self.base_url == self.provider.base_url

    @property
    def url(self) -> str:
        parts = urlsplit(self.base_url)
        return urlunsplit(parts._replace(path=f"{parts.path}/chat/completions"))


def resolve_endpoint(
    model_name: str,
    *,
    base_url: str | None,
    api_key: str | None,
    from_environment: Callable[..., str | None],
) -> Endpoint:
    """The endpoint of `provider/model`: the given address and key, else those of the environment.

    Without both, the address is the provider's own. An unknown provider gets the defaults of `Provider`. An
    address of the owner needs no key.
    """
    provider_name, _, model = model_name.partition("/")
    provider = PROVIDERS.get(provider_name, Provider())
    found = base_url or address_in_environment(model_name, from_environment) or provider.base_url
    variables = provider.key_variables or (key_variable(model_name),)
    address = _plain_address(found, adds_v1=provider.adds_v1)
    return Endpoint(
        provider=provider,
        provider_name=provider_name,
        model=model,
        base_url=address,
        api_key=api_key or from_environment(*variables) or "",
        key_variables=variables,
        needs_key=provider.needs_key and address == provider.base_url,
    )


def address_in_environment(model_name: str, from_environment: Callable[..., str | None]) -> str | None:
    """The address of the provider of `provider/model` in the environment, if any."""
    return from_environment(*PROVIDERS.get(model_name.partition("/")[0], Provider()).base_url_variables)


def goes_without_litellm(model_name: str, base_url: str | None, entry: Mapping[str, Any]) -> bool:
    """Whether a model is asked over plain HTTP if the settings do not say.

    That is so for providers that speak OpenAI's chat completions, and for any provider with a `base_url` in
    the settings or the environment. `entry` is the model's entry in the price map. Models that OpenAI serves
    only through its Responses API are left to litellm, which translates.
    """
    provider, _, model = model_name.partition("/")
    if not model or _OTHER_PROTOCOLS.fullmatch(provider) or model.startswith("responses/"):
        return False
    if provider == "gemini" and base_url and "/openai" not in urlsplit(base_url).path:
        return False  # Google's own protocol
    if entry.get("mode", "chat") not in ("chat", None) and provider not in ("ollama", "ollama_chat"):
        return False
    return (provider in PROVIDERS or bool(base_url)) and not wants_responses(model_name, base_url)


def wants_responses(model_name: str, base_url: str | None) -> bool:
    """Whether OpenAI's chat completions refuse tools for this model unless it does not reason."""
    provider, _, model = model_name.partition("/")
    host = urlsplit(base_url or "").hostname or "api.openai.com"
    if provider != "openai" or (host != "api.openai.com" and not host.endswith(".api.openai.com")):
        return False
    version = _GPT.match(model.rpartition("/")[2])
    return version is not None and (int(version["major"]), int(version["minor"] or 0)) >= (5, 4)


def _plain_address(base_url: str, *, adds_v1: bool) -> str:
    address = base_url.strip().rstrip("/").removesuffix("/chat/completions")
    parts = urlsplit(address)
    if adds_v1 and parts.netloc and not parts.path:
        return urlunsplit((parts.scheme, parts.netloc, "/v1", parts.query, ""))
    return address
