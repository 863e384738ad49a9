"""Where the owner types: the only importer of prompt_toolkit, and of termios.

Enter sends, Alt-Enter starts a new line, a paste keeps its lines. What was typed stays in a history
file that only the owner can read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import termios
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

log = logging.getLogger(__name__)

_MARK: StyleAndTextTuples = [("bold", "› ")]  # not ">", which begins a Markdown quote in answers
_CONTINUATION = "  "


class Prompt:
    """Reads messages from a terminal. `commands` maps each `/name` to what it does."""

    def __init__(self, history_file: Path, commands: dict[str, str]) -> None:
        self._session: PromptSession[str] = PromptSession(
            message=_MARK,
            multiline=True,
            prompt_continuation=_CONTINUATION,
            key_bindings=_bindings(completer := CommandCompleter(commands)),
            history=OwnerHistory(history_file),
            completer=completer,
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=len(commands),
            enable_suspend=True,
        )
        # A signal tells when the terminal's size changes; looking at it would wake the processor.
        self._session.app.terminal_size_polling_interval = None
        self._question: PromptSession[str] | None = None

    async def read(self) -> str:
        """The next message.

        Raises:
            EOFError: Ctrl-D on an empty line.
            KeyboardInterrupt: Ctrl-C; `was_empty` says whether anything had been typed.
        """
        return await self._session.prompt_async(set_exception_handler=False)

    async def ask(self, question: str) -> str:
        """The answer to a question, of one line. It can be cancelled.

        What was typed before the question showed is thrown away: nobody agrees to what they have not read.

        Raises:
            EOFError: Ctrl-D on an empty line.
            KeyboardInterrupt: Ctrl-C.
        """
        if self._question is None:
            self._question = PromptSession(history=DummyHistory())
        clear_typeahead(self._question.input)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        # The handler of Ctrl-C that a turn has stays where it is; here Ctrl-C is a key.
        return await self._question.prompt_async(question, set_exception_handler=False, handle_sigint=False)

    @property
    def was_empty(self) -> bool:
        """Whether the line that was left last had nothing on it."""
        return not self._session.default_buffer.text


class CommandCompleter(Completer):
    """Completes a `/name` that is the whole message so far."""

    def __init__(self, commands: dict[str, str]) -> None:
        self._commands = commands

    def get_completions(
        self, document: Document, _complete_event: CompleteEvent | None = None
    ) -> list[Completion]:
        """The commands that begin with what stands before the cursor."""
        typed = document.text_before_cursor
        return [
            Completion(name, start_position=-len(typed), display_meta=meaning)
            for name, meaning in self._commands.items()
            if typed.startswith("/") and name.startswith(typed) and name != typed
        ]


class OwnerHistory(FileHistory):
    """A history file with mode 0600; one that cannot be written is done without."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            file.chmod(0o600)
        except OSError as error:
            log.warning("the history of the prompt cannot be kept in %s: %s", file, error)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError as error:
            log.warning("the history of the prompt cannot be read: %s", error)
            return []

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError as error:
            log.warning("the history of the prompt cannot be written: %s", error)


@contextlib.contextmanager
def keyboard_held_back() -> Iterator[None]:
    """While this is open, keys that are pressed between two prompts do not show, and wait for the next.

    Ctrl-C still interrupts, and throws away nothing that was typed before it. Line editing by the kernel is
    off: it would swallow a Ctrl-D.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    held = termios.tcgetattr(descriptor)
    held[0] &= ~termios.ICRNL
    held[3] &= ~(termios.ECHO | termios.ICANON)
    held[3] |= termios.NOFLSH
    termios.tcsetattr(descriptor, termios.TCSANOW, held)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _bindings(completer: CommandCompleter) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=has_focus(DEFAULT_BUFFER))
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("tab", filter=has_focus(DEFAULT_BUFFER))
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        fitting = completer.get_completions(buffer.document)
        if len(fitting) == 1:
            # At once: the menu comes a moment later, which a fast typist does not wait for.
            buffer.apply_completion(fitting[0])
        elif fitting:
            buffer.start_completion(insert_common_part=True)

    return bindings
