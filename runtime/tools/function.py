"""`@tool`: a typed Python function as a tool. Its docstring and its annotations are what the model reads."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, get_args, get_type_hints, overload

from pydantic import BaseModel, PydanticUserError, TypeAdapter, create_model

from nacre.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.own_thread import on_its_own_thread
from nacre.runtime.tools.session_sources import SessionSources
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolOutput
from nacre.sessions.index.record import Origin

P = ParamSpec("P")
R = TypeVar("R")

ToolChats: TypeAlias = Literal["private", "direct", "group"]
"""`private` is the owner alone, `direct` a chat with somebody else, `group` every other chat."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What OpenAI and Anthropic allow."""
_TAKEN_BY_PYDANTIC = frozenset(name for name in dir(BaseModel) if name.startswith("model_"))
"""Names that a pydantic model needs for itself."""


def audience(policy: ChatPolicy) -> ToolChats:
    """Who reads along in a chat."""
    if policy.is_private:
        return "private"
    return "direct" if policy.chat_kind == "direct" else "group"


class ToolChat(Record):
    """The chat that a tool is offered in. `workspace` is the folder with the notes.

    `origin` is where its latest message came from, `None` where that is not known. `sources` say where
    a line comes from that the chat's session writes; `None` where there is no session.
    """

    session_key: str
    session_id: str
    channel: str
    policy: ChatPolicy
    workspace: Path
    origin: Origin | None = None
    sources: SessionSources | None = field(default=None, repr=False, compare=False)


class ToolContext(Record):
    """One call of a tool: in which chat, and a way to tell how far it is.

    A coroutine is cancelled when the turn stops or the call takes too long. A plain function runs on a thread
    of its own, which nobody can stop and which ends with the program: a long one looks at `is_cancelled` now
    and then. Both members can be used from any thread.
    """

    chat: ToolChat
    scope: CallScope = field(repr=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self.scope.cancelled.is_set()

    def progress(self, text: str) -> None:
        """Tells whoever watches the turn, in one short line, how far the work is (`ToolProgressed`)."""
        self.scope.progress(text)


@dataclass(frozen=True, kw_only=True)
class FunctionTool(Generic[P, R]):
    """A function as a tool, made by `tool`; calling it calls the function."""

    function: Callable[P, R]
    name: str
    description: str
    arguments: type[ToolArguments]
    chats: frozenset[ToolChats]
    timeout_seconds: float | None
    context_name: str
    needs_approval: bool | Callable[..., bool | str]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function gives."""
        return self.function(*args, **kwargs)

    def is_offered(self, policy: ChatPolicy) -> bool:
        """Whether the model may call it in such a chat."""
        return audience(policy) in self.chats

    def bound(self, chat: ToolChat) -> Tool:
        """The tool in one chat."""

        async def run(arguments: BaseModel, scope: CallScope) -> ToolOutput:
            values = _values(arguments)
            if self.context_name:
                values[self.context_name] = ToolContext(chat=chat, scope=scope)
            call: Callable[..., Any] = self.function
            is_async = inspect.iscoroutinefunction(call)
            result = call(**values) if is_async else await on_its_own_thread(partial(call, **values))
            # A plain function may hand on what a coroutine function gave it, as decorators do.
            given = await result if inspect.isawaitable(result) else result
            return given if isinstance(given, ToolOutput) else ToolOutput(text=_text(given))

        needs = self.needs_approval
        return Tool(
            name=self.name,
            description=self.description,
            arguments=self.arguments,
            run=run,
            timeout_seconds=self.timeout_seconds,
            needs_approval=(lambda arguments: needs(**_values(arguments))) if callable(needs) else needs,
        )


def _values(arguments: BaseModel) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in type(arguments).model_fields}


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    chats: Sequence[ToolChats] = ("private",),
    timeout_seconds: float | None = None,
    needs_approval: bool | Callable[..., bool | str] = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    chats: Sequence[ToolChats] = ("private",),
    timeout_seconds: float | None = None,
    needs_approval: bool | Callable[..., bool | str] = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Makes a tool of a function, as `@tool` or `@tool(...)`.

    The function's name and docstring are the tool's unless given. Each parameter needs a type, which pydantic
    checks; `Annotated[int, Field(description="…", ge=1)]` says more of one. A parameter of the type
    `ToolContext` gets the call's context and is not shown to the model. What the function returns becomes
    the result: a text as it is, anything else as JSON. It raises `ToolFailed` with a sentence for the model
    when it cannot do what was asked; any other exception is logged and told to the model.

    `chats` says where it is offered: only to the owner in private unless told otherwise. `timeout_seconds` is
    how long a call may take, `agents.defaults.toolTimeoutSeconds` unless given. `needs_approval` asks
    the owner before each call; a plain function gets the arguments by name and says whether, or why.

    Raises:
        TypeError: the function cannot be a tool; the text says why.
    """

    def made(function: Callable[P, R]) -> FunctionTool[P, R]:
        called = name or getattr(function, "__name__", "")
        if not _NAME.fullmatch(called):
            raise TypeError(f"{called!r} cannot name a tool: use 1 to 64 letters, digits, _ or -.")
        told = description or inspect.getdoc(function) or ""
        if not told.strip():
            raise TypeError(f"The tool {called!r} has no docstring. The model reads it to know when to call.")
        if isinstance(chats, str) or not set(chats) <= set(get_args(ToolChats)):
            raise TypeError(f"The tool {called!r} has chats={chats!r}: name some of {get_args(ToolChats)}.")
        context_name, fields = _parameters(called, function)
        return FunctionTool(
            function=function,
            name=called,
            description=told.strip(),
            arguments=_arguments(called, fields),
            chats=frozenset(chats),
            timeout_seconds=timeout_seconds,
            context_name=context_name,
            needs_approval=needs_approval,
        )

    return made if function is None else made(function)


def _parameters(called: str, function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """The name of the parameter for the context, if there is one, and the others as fields of a model."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"A type of the tool {called!r} cannot be found: {error}. Import and define what the annotations "
            "name at the top of the module, and not only for type checkers."
        ) from error
    context_name, fields = "", {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"The tool {called!r} has {parameter.name!r}, but each parameter needs a name to call it by."
            )
        hint = hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"The parameter {parameter.name!r} of the tool {called!r} has no type.")
        if hint is ToolContext or ToolContext in get_args(hint):
            context_name = parameter.name
            continue
        if parameter.name.startswith("_") or parameter.name in _TAKEN_BY_PYDANTIC:
            raise TypeError(f"The parameter {parameter.name!r} of the tool {called!r} needs another name.")
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return context_name, fields


def _arguments(called: str, fields: dict[str, Any]) -> type[ToolArguments]:
    """The fields as a model, whose schema is made now: one that cannot be would break every later turn."""
    try:
        with warnings.catch_warnings():
            # A parameter may be named as a method of pydantic's, such as `json` or `copy`: nobody calls it.
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
            arguments = create_model(f"{called}_arguments", __base__=ToolArguments, **fields)
        arguments.model_json_schema(by_alias=True)
    except (PydanticUserError, NameError) as error:
        problem = str(error).partition("\n")[0]
        raise TypeError(f"The parameters of the tool {called!r} have no schema. {problem}") from error
    return arguments


def _text(result: object) -> str:
    """A function's result as the model reads it."""
    if result is None:
        return "Done."
    if isinstance(result, str):
        return result.encode("utf-8", "replace").decode("utf-8")
    plain = TypeAdapter(Any).dump_python(result, mode="json", fallback=str)
    return json.dumps(plain, ensure_ascii=False, indent=1)
