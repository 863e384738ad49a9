"""Typed answers: the schema of an `output_type`, and the check of the model's answer.

The model calls the tool `final_answer`, or answers with JSON if each model of the chain accepts a schema.
An accepted answer is stored as plain JSON text, a refused one as a failed answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from typing_extensions import TypeForm as TypeForm

from nacre.prompts.rendering import render
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError, OutputInvalid
from nacre.runtime.contracts.model import OutputSchema
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolFailed, ToolOutput, problems_of
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, message_text
from nacre.sessions.entries.entries import CustomMessage

FINAL_ANSWER = "final_answer"
MOST_ANSWERS = 3
"""After this many wrong answers the turn fails."""
OUTPUT_TYPE = "nacre.output"
"""The type of the message that tells the model why its answer was refused."""


class Output(Record):
    """A type that an answer must have: the field `answer` of `arguments`, because a schema is an object."""

    name: str
    arguments: type[ToolArguments]

    @property
    def schema(self) -> OutputSchema:
        return OutputSchema(name=FINAL_ANSWER, schema=self.tool().spec().parameters)

    def tool(self) -> Tool:
        """The tool whose call is the answer. It only runs if it is called with others, and then fails."""

        async def run(_arguments: BaseModel, _scope: CallScope) -> ToolOutput:
            raise ToolFailed("Call it alone, after you have the results of the other tools.")

        return Tool(
            name=FINAL_ANSWER,
            description="Give your final answer. Call it once, alone, when you need no other tool. "
            "Text outside of it is not an answer.",
            arguments=self.arguments,
            run=run,
        )

    def value(self, text: str) -> Any:
        """The value of a stored answer. Raises `OutputInvalid` if the text is no such value."""
        try:
            return self._checked(json.loads(text))
        except ValueError as error:  # includes pydantic's errors
            raise OutputInvalid(
                f"The stored answer is not a {self.name}: {_problem(error)}. Ask again."
            ) from error

    def _checked(self, answer: object) -> Any:
        checked = self.arguments.model_validate_json(json.dumps({"answer": answer}))
        return getattr(checked, "answer")  # noqa: B009 - the field is made at run time

    def accepted(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer as plain JSON text. One that calls other tools is returned as it is.

        Raises:
            ValueError: it does not have the type.
        """
        calls = answer.tool_calls
        if calls and (len(calls) > 1 or calls[0].name != FINAL_ANSWER):
            return answer
        if calls and calls[0].invalid_arguments is not None:
            raise ValueError("the arguments were not a JSON object")
        text = message_text(answer).strip()
        if text.startswith("```") and text.endswith("```"):  # small models put JSON into a Markdown block
            text = text[3:-3].removeprefix("json")
        given: object = dict(calls[0].arguments) if calls else json.loads(text)
        if isinstance(given, dict) and given.keys() == {"answer"}:
            given = given["answer"]
        self._checked(given)
        kept = [block for block in answer.content if not isinstance(block, Text | ToolCall)]
        stored = Text(text=json.dumps(given, ensure_ascii=False))
        return replace(answer, content=(*kept, stored), stop_reason="stop")


def output_of(output_type: TypeForm[Any] | Output) -> Output:
    """The `Output` of a type that pydantic can check. An `Output` is returned as it is.

    Raises:
        ConfigError: pydantic has no schema for the type.
    """
    if isinstance(output_type, Output):
        return output_type
    name = getattr(output_type, "__name__", "") or str(output_type)
    try:
        if isinstance(output_type, FunctionType):
            raise TypeError("It is a function.")  # pydantic would check its arguments
        TypeAdapter(output_type)
        arguments = create_model(
            "output",
            __base__=ToolArguments,
            answer=(output_type, Field(description="The requested answer.")),
        )
        output = Output(name=name, arguments=arguments)
        _ = output.schema
    except (PydanticUserError, NameError, SyntaxError, TypeError) as error:
        problem = str(error).partition("\n")[0]
        raise ConfigError(
            f"output_type={name} cannot be used: {problem} Give a pydantic model, a dataclass, a union, "
            "or a type such as int or list[str]."
        ) from error
    return output


class OutputCheck:
    """Checks the answers of one turn; `append` adds to its transcript."""

    def __init__(self, output: Output, append: Callable[[CustomMessage], Awaitable[object]]) -> None:
        self._output = output
        self._append = append
        self._refused = 0
        self.problem = ""
        """Why the last answer was refused; empty if it was accepted."""

    def checked(self, answer: AssistantMessage) -> AssistantMessage:
        """The answer to record; sets `problem`."""
        self.problem = ""
        try:
            return self._output.accepted(answer)
        except ValueError as error:
            self.problem = _problem(error)
        if answer.tool_calls:
            self.problem = f"it does not fit: {self.problem}. Correct it and call {FINAL_ANSWER} again."
            return answer
        message = f"no {self._output.name}: {self.problem}"
        return replace(answer, stop_reason="error", error_message=message)

    async def refuse(self, answer: AssistantMessage) -> None:
        """Counts the refusal, and tells the model the problem unless the result of a call does.

        Raises:
            OutputInvalid: no further answer may be wrong.
        """
        self._refused += 1
        if self._refused == MOST_ANSWERS:
            raise OutputInvalid(
                f"The model gave no valid {self._output.name} in {MOST_ANSWERS} answers. The last one: "
                f"{self.problem.rstrip('.')}. Loosen the type, describe its fields, or ask a stronger model."
            )
        if not answer.tool_calls:
            text = render("session/output_refused", problem=self.problem)
            await self._append(CustomMessage(custom_type=OUTPUT_TYPE, content=text))


def _problem(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        return problems_of(error)
    return "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
