"""`@tool` makes a tool from a typed Python function. The model reads its docstring and annotations."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, create_model
from typing_extensions import ParamSpec, TypeVar

from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.contracts.policy import Audience, ChatPolicy
from nacre.runtime.tools.session_sources import SessionSources
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolOutput, on_its_own_thread
from nacre.sessions.contracts.messages import Image, sendable
from nacre.sessions.index.record import Origin

ContextT_co = TypeVar("ContextT_co", covariant=True, default=Any)
P = ParamSpec("P")
R = TypeVar("R")

ToolChats: TypeAlias = Audience
"""The chats of a tool: `private` is the owner alone, `direct` another person alone, `group` any other."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The tool names that OpenAI and Anthropic allow."""
_RESERVED_BY_PYDANTIC = frozenset(name for name in dir(BaseModel) if name.startswith("model_"))


class ToolChat(Record, Generic[ContextT_co]):
    """The chat in which a tool is offered. `workspace` is the folder with the notes.

    `origin` is the source of its latest message, or `None` if unknown. `sources` attributes the lines that
    the chat's session writes, or is `None` without a session. `context` is `Inbound.context`.
    """

    session_key: str
    session_id: str
    channel: str
    policy: ChatPolicy
    workspace: Path
    origin: Origin | None = None
    sources: SessionSources | None = field(default=None, repr=False, compare=False)
    context: ContextT_co = field(default=None, repr=False, compare=False)  # type: ignore[assignment]  # as given


class ToolContext(Record, Generic[ContextT_co]):
    """One call of a tool: its chat, its progress, and the value that the program passed with the message.

    `context` is `Inbound.context`; a parameter's annotation gives its type: `ToolContext[User]`. `progress`
    sends one short line as `ToolProgressed`.

    A coroutine is canceled when the turn stops or the call takes too long. A plain function runs on its own
    thread, which cannot be stopped and ends with the program; a long one should check `is_cancelled` now and
    then. `progress` and `is_cancelled` are thread-safe.
    """

    chat: ToolChat[ContextT_co]
    context: ContextT_co
    progress: Callable[[str], None] = field(repr=False)
    scope: CallScope = field(repr=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether the result is no longer needed."""
        return self.scope.cancelled.is_set()


@dataclass(frozen=True, kw_only=True)
class FunctionTool(Generic[P, R]):
    """A function as a tool, created by `tool`. Calling it calls the function. Without `chats`, the agent's
    `tool_chats` apply.
    """

    function: Callable[P, R]
    name: str
    description: str
    arguments: type[ToolArguments]
    chats: frozenset[ToolChats] | None
    timeout_seconds: float | None
    context_name: str
    needs_approval: bool | Callable[..., bool | str]
    is_method: bool = False

    def __get__(self, owner: object, kind: type | None = None) -> FunctionTool[..., R]:
        """The tool of an object, if the function is a method."""
        if owner is None or not self.is_method:
            return self
        method: Callable[..., R] = self.function
        return replace(self, function=partial(method, owner), is_method=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def is_offered(self, policy: ChatPolicy) -> bool:
        return policy.audience in (("private",) if self.chats is None else self.chats)

    def bound(self, chat: ToolChat) -> Tool:

        async def run(arguments: BaseModel, scope: CallScope) -> ToolOutput:
            values = _values(arguments)
            if self.context_name:
                values[self.context_name] = ToolContext(
                    chat=chat, context=chat.context, progress=scope.progress, scope=scope
                )
            call: Callable[..., Any] = partial(self.function, **values)
            is_async = inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
            result = call() if is_async else await on_its_own_thread(partial(_run_plain, call, scope))
            # A decorated function may be plain and return an awaitable.
            value = await result if inspect.isawaitable(result) else result
            if isinstance(value, AsyncGenerator):
                last: object = None
                async with aclosing(value):
                    async for each in value:
                        if last is not None:
                            scope.progress(_text(last))
                        last = each
                value = last
            return value if isinstance(value, ToolOutput) else _output(value)

        needs = self.needs_approval
        return Tool(
            name=self.name,
            description=self.description,
            arguments=self.arguments,
            run=run,
            timeout_seconds=self.timeout_seconds,
            needs_approval=(lambda arguments: needs(**_values(arguments))) if callable(needs) else needs,
        )


def are_chats(chats: Sequence[str]) -> bool:
    return not isinstance(chats, str) and set(chats) <= set(get_args(Audience))


def check_name(name: str) -> None:
    """Raises `TypeError` if a tool cannot have this name."""
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} is not a valid tool name. Use 1 to 64 letters, digits, _ or -.")


def _values(arguments: BaseModel) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in type(arguments).model_fields}


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    chats: Sequence[ToolChats] | None = None,
    timeout_seconds: float | None = None,
    needs_approval: bool | Callable[..., bool | str] = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    chats: Sequence[ToolChats] | None = None,
    timeout_seconds: float | None = None,
    needs_approval: bool | Callable[..., bool | str] = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Makes a tool from a function, as `@tool` or `@tool(...)`.

    The tool's name and description default to the function's name and docstring. Each parameter needs a type,
    which pydantic checks; `Annotated[int, Field(description="…", ge=1)]` describes and restricts it. A
    parameter of type `ToolContext` receives the call's context and is hidden from the model. The return value
    becomes the result: a string as it is, an `Attachment` as an image or a file, anything else as JSON. A
    generator yields its progress and then its result. A decorated method is a tool of each object. The
    function raises `ToolFailed` with a sentence for the model if it fails; any other exception is logged and
    reported to the model.

    `chats` says where the tool is offered; the default is `Agent.open(tool_chats=)`. `timeout_seconds`
    limits a call; the default is `agents.defaults.toolTimeoutSeconds`. `needs_approval` asks the owner before
    each call; a function receives the arguments by name and returns whether to ask, or the reason to ask.

    Raises:
        TypeError: the function cannot be a tool; the message says why.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R]:
        named = function.func if isinstance(function, partial) else function
        tool_name = name or getattr(named, "__name__", "")
        check_name(tool_name)
        text = description or inspect.getdoc(named) or ""
        if not text.strip():
            raise TypeError(f"The tool {tool_name!r} has no docstring, which the model reads. Write one.")
        if chats is not None and not are_chats(chats):
            raise TypeError(f"The tool {tool_name!r} has chats={chats!r}. Use {get_args(Audience)}.")
        context_name, fields = _parameters(tool_name, function)
        return FunctionTool(
            function=function,
            name=tool_name,
            description=text.strip(),
            arguments=_arguments(tool_name, fields),
            chats=None if chats is None else frozenset(chats),
            timeout_seconds=timeout_seconds,
            context_name=context_name,
            needs_approval=needs_approval,
            is_method=_is_method(function),
        )

    return make if function is None else make(function)


def _parameters(tool_name: str, function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """The name of the context parameter, if any, and the other parameters as fields of a model."""
    try:
        named = function.func if isinstance(function, partial) else function
        hints = get_type_hints(named, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"A type of the tool {tool_name!r} cannot be found: {error}. Import or define the types of its "
            "annotations at the top of the module, not only for type checkers."
        ) from error
    context_name, fields = "", {}
    given = function.keywords if isinstance(function, partial) else {}
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in given]
    for parameter in parameters[1:] if _is_method(function) else parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"The tool {tool_name!r} has {parameter.name!r}. Each parameter must be callable by name."
            )
        hint = hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"The parameter {parameter.name!r} of the tool {tool_name!r} has no type.")
        if any((get_origin(each) or each) is ToolContext for each in (hint, *get_args(hint))):
            context_name = parameter.name
            continue
        if parameter.name.startswith("_") or parameter.name in _RESERVED_BY_PYDANTIC:
            raise TypeError(f"The parameter {parameter.name!r} of the tool {tool_name!r} needs another name.")
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return context_name, fields


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it is a method in the body of its class, whose first parameter is the object."""
    if not inspect.isfunction(function):
        return False
    place = function.__qualname__.rpartition(".")[0]
    if not place or place.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") == "self"


def _arguments(tool_name: str, fields: dict[str, Any]) -> type[ToolArguments]:
    """The fields as a model. Its schema is built here, because an invalid one would break every turn."""
    try:
        with warnings.catch_warnings():
            # A parameter may be named like a pydantic method that is not used, such as `json` or `copy`.
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
            arguments = create_model(f"{tool_name}_arguments", __base__=ToolArguments, **fields)
        arguments.model_json_schema(by_alias=True)
    except (PydanticUserError, NameError) as error:
        problem = str(error).partition("\n")[0]
        raise TypeError(f"The parameters of the tool {tool_name!r} have no schema. {problem}") from error
    return arguments


def _run_plain(call: Callable[[], object], scope: CallScope) -> object:
    """A plain function's result, or the last value of a generator; earlier values are progress."""
    result = call()
    if not isinstance(result, Generator):
        return result
    last: object = None
    for value in result:
        if last is not None:
            scope.progress(_text(last))
        if scope.cancelled.is_set():
            break
        last = value
    return last


def _output(result: object) -> ToolOutput:
    """A function's result for the model, with its images as images."""
    items: tuple[object, ...] = tuple(result) if isinstance(result, list | tuple) else (result,)
    files = [item for item in items if isinstance(item, Attachment)]
    if not files:
        return ToolOutput(text=_text(result))
    images = [
        Image(data=b64encode(file.data).decode(), mime_type=file.mime_type)
        for file in files
        if file.mime_type.startswith("image/")
    ]
    text = "\n\n".join(_file(item) if isinstance(item, Attachment) else _text(item) for item in items)
    return ToolOutput(text=text, images=tuple(images))


def _file(file: Attachment) -> str:
    kind = file.mime_type.partition(";")[0].strip()
    named = f"[{file.name}: {kind}, {len(file.data)} bytes]"
    is_text = kind.startswith("text/") or kind == "application/json"
    return f"{named}\n{file.data.decode('utf-8', 'replace')}" if is_text else named


def _text(result: object) -> str:
    if result is None:
        return "Done."
    if isinstance(result, str):
        return sendable(result)
    any_value = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))
    try:
        plain = any_value.dump_python(result, mode="json", fallback=str)
    except ValueError:  # bytes that are not text, or a circular reference
        return repr(result)
    return json.dumps(plain, ensure_ascii=False, indent=1)


class ToolSource(Protocol):
    """A source of tools for an agent's turns. Several agents of a process may share it."""

    async def ready(self, policy: ChatPolicy) -> None:
        """Prepares the tools for such a chat before a turn, within a few seconds."""

    def tools(self, taken: Collection[str]) -> tuple[FunctionTool[..., Any], ...]:
        """The tools that are available now, with names that are not in `taken`."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about omitted tools and unreachable servers."""

    def status(self) -> tuple[str, ...]: ...

    async def close(self) -> None: ...
