"""Imports litellm late, off the event loop, quiet and offline; guards and closes its HTTP clients.

The only file that imports litellm or sets environment variables for it. It makes no model call. A program
that imported litellm before keeps its own settings. litellm's clients follow redirects, and would send the
conversation, with some providers also the key, wherever a server points; so each client gets a guard when
litellm caches it, which is before its first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import logging
import os
import sys
import threading
import warnings
import weakref
from concurrent.futures import Future
from typing import Any

from nacre.extensions.providers.completions.addresses import SentElsewhere, is_same_server
from nacre.runtime.contracts.errors import ConfigError

_ENVIRONMENT = {
    # its own price map instead of one fetched from the network on import
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # otherwise it loads a `.env` from the working directory, wherever the owner happens to stand
    "LITELLM_MODE": "PRODUCTION",
    # its aiohttp sessions, made on import, warn when a loop ends before they do; httpx closes with its client
    "DISABLE_AIOHTTP_TRANSPORT": "True",
}
_LOGGERS = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Proxy.stdout", "LiteLLM Router")
_PYDANTIC_ABOUT_LITELLM = (r".*`ReadOnly` qualifier", r".*conflict with protected namespace")

# How many models are open on each event loop. litellm keeps one cache of HTTP clients for the whole
# process; the count tells when those of a loop have no user left and may be closed.
_open_models: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()


_lock = threading.Lock()
_loading: Future[Any] | None = None


async def load_litellm() -> Any:
    """The litellm module, imported in a thread on first use (it takes seconds).

    Raises:
        ConfigError: litellm is not installed or cannot be imported.
    """
    return await asyncio.wrap_future(begin_loading())


def begin_loading() -> Future[Any]:
    """Begins to import litellm in a thread, once in a process; the future gives the module.

    A program that ends meanwhile does not wait for the thread.
    """
    global _loading
    with _lock:
        if _loading is None or (_loading.done() and _loading.exception() is not None):
            _loading = Future()
            _loading.set_running_or_notify_cancel()  # whoever waits may give up, the loading goes on
            threading.Thread(target=_load, args=(_loading,), name="litellm", daemon=True).start()
        return _loading


def _load(loading: Future[Any]) -> None:
    try:
        loading.set_result(_import_litellm())
    except BaseException as error:  # noqa: BLE001 - it is raised where the module is waited for
        loading.set_exception(error)


def quiet_arguments(module: Any) -> dict[str, Any]:
    """Arguments for `acompletion` and `arerank`: those of `one_request_arguments`, and none for tools' sake.

    Releases around 1.106 import their MCP gateway, which needs a package that does not come with them,
    whenever a request has tools; the argument that skips it is passed only where it is known, because
    other releases would send it on to the provider.
    """
    arguments = one_request_arguments()
    if "_skip_mcp_handler" in inspect.unwrap(module.main.completion).__code__.co_consts:
        arguments["_skip_mcp_handler"] = True
    return arguments


def one_request_arguments() -> dict[str, Any]:
    """Arguments that keep a call of litellm to one request; silences warnings about litellm's own code."""
    # litellm silences what pydantic says about its classes once, on import; a filter set since (warnings as
    # errors in a test suite, for one) would turn its habits into failed requests
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"litellm\.")
    for message in _PYDANTIC_ABOUT_LITELLM:
        warnings.filterwarnings("ignore", message=message, category=UserWarning, module=r"pydantic\.")
    return {"num_retries": 0, "max_retries": 0, "drop_params": True}


def retain_clients() -> None:
    """Counts one more model on the running event loop."""
    loop = asyncio.get_running_loop()
    _open_models[loop] = _open_models.get(loop, 0) + 1


async def release_clients() -> None:
    """Counts one model less on the running loop; after the last one the loop's HTTP clients are closed."""
    loop = asyncio.get_running_loop()
    left = _open_models.get(loop, 0) - 1
    if left > 0:
        _open_models[loop] = left
        return
    _open_models.pop(loop, None)
    cache = getattr(sys.modules.get("litellm"), "in_memory_llm_clients_cache", None)
    clients: dict[str, Any] = getattr(cache, "cache_dict", {})
    for key in [key for key in clients if key.endswith(f"-{id(loop)}")]:
        await _close(clients.pop(key))


def _import_litellm() -> Any:
    theirs = "litellm" in sys.modules
    if not theirs and "LITELLM_LOG" not in os.environ:
        for name in _LOGGERS:
            # it logs failures that we raise anyway, with parts of the request in them
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        module: Any = importlib.import_module("litellm")
    except ImportError as error:
        raise ConfigError(
            f"litellm, which talks to model providers, cannot be imported ({error}). "
            "Install Nacre again, or choose the model 'offline'."
        ) from error
    guard_clients(module.in_memory_llm_clients_cache)
    if not theirs:
        module.telemetry = False
        module.suppress_debug_info = True
        # else it brings a tokenizer from the network to count what some providers did not
        module.disable_hf_tokenizer_download = True
        # a history with tool calls is refused by some providers when a request (a summary) offers no tools
        module.modify_params = True
    return module


async def _close(client: Any) -> None:
    close = getattr(client, "close", None)
    with contextlib.suppress(OSError, RuntimeError):  # it may be broken or closed already: that is the aim
        result = close() if callable(close) else None
        if inspect.isawaitable(result):
            await result


def guard_clients(cache: Any) -> None:
    """Guards every client that litellm puts into its cache from now on."""
    keep = cache.set_cache

    def set_cache(key: str, value: object, *args: Any, **options: Any) -> Any:
        guard(value)
        return keep(key, value, *args, **options)

    cache.set_cache = set_cache


def guard(holder: Any) -> None:
    """Lets an HTTP handler of litellm's, or a client of OpenAI's library, refuse to go to another server."""
    clients: tuple[Any, ...] = (getattr(holder, "client", None), getattr(holder, "_client", None), holder)
    for client in clients:
        hooks = getattr(client, "event_hooks", None)
        if not isinstance(hooks, dict) or "response" not in hooks:
            continue
        hook = _refuse_elsewhere_soon if hasattr(client, "aclose") else _refuse_elsewhere
        client.event_hooks = {**hooks, "response": [*hooks["response"], hook]}
        if getattr(holder, "event_hooks", client.event_hooks) is None:
            holder.event_hooks = client.event_hooks  # a client that it makes anew has them too
        return


async def _refuse_elsewhere_soon(response: Any) -> None:
    _refuse_elsewhere(response)


def _refuse_elsewhere(response: Any) -> None:
    """Raises before the client goes where the answer sends it."""
    if not response.has_redirect_location:
        return
    asked, onward = str(response.url), str(response.url.join(response.headers["location"]))
    if not is_same_server(asked, onward):
        raise SentElsewhere(asked, onward)
