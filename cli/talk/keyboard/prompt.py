"""The input area: a status line, below it the line to edit, and a menu.

Enter sends, Alt-Enter or a backslash before Enter starts a new line, a paste keeps its lines. Messages are
kept in a history file that only the owner can read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth

from nacre.cli.talk.keyboard.attached_files import dropped_files
from nacre.cli.talk.keyboard.completion import Known, MessageCompleter

log = logging.getLogger(__name__)

_MOST_LINES = 12
_MOST_CHARS = 2_000
_SIGN = re.compile(r"\[paste (\d+): [^\]\n]*\]")


class Pastes:
    """The large pastes of a chat, each with a placeholder."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def shown(self, text: str) -> str:
        """The text shown for a paste: the paste, or a placeholder such as `[paste 1: 240 lines]`."""
        lines = text.count("\n") + 1
        if lines <= _MOST_LINES and len(text) <= _MOST_CHARS:
            return text
        if text not in self._texts:
            self._texts.append(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste {self._texts.index(text) + 1}: {size}]"

    def whole(self, typed: str) -> str:
        """A message with the pastes in place of their placeholders."""

        def paste(match: re.Match[str]) -> str:
            number = int(match[1])
            is_one = 0 < number <= len(self._texts) and self.shown(self._texts[number - 1]) == match[0]
            return self._texts[number - 1] if is_one else match[0]

        return _SIGN.sub(paste, typed)


_MARK: StyleAndTextTuples = [("bold", "› ")]  # not ">", which is a Markdown quote in answers
_MENU_ROWS = 8


class Prompt:
    """Reads messages from a terminal.

    `status_line` returns a line of at most so many columns, which is shown above the input. Ctrl-O calls
    `show_details`.
    """

    def __init__(
        self,
        history_file: Path,
        known: Known,
        *,
        is_colored: bool,
        status_line: Callable[[int], str],
        show_details: Callable[[], None],
    ) -> None:
        self._pastes = Pastes()
        self._status_line = status_line
        completer = MessageCompleter(known, Path.cwd())
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_bindings(completer, self._pastes, show_details),
            history=OwnerHistory(history_file, self._pastes),
            completer=completer,
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=min(_MENU_ROWS, len(known.commands)),
            enable_suspend=True,
            color_depth=None if is_colored else ColorDepth.MONOCHROME,
        )
        # A signal reports a change of the size; polling would wake the processor.
        self._session.app.terminal_size_polling_interval = None
        self._question: PromptSession[str] | None = None
        self._is_left = False

    async def read(self) -> str:
        """The next message.

        Raises:
            EOFError: Ctrl-D on an empty line, or `leave` was called.
            KeyboardInterrupt: Ctrl-C; `was_empty` says whether anything had been typed.
        """
        # Ctrl-C is a key here, and the chat keeps its own handler for it.
        typed = await self._session.prompt_async(
            set_exception_handler=False, handle_sigint=False, pre_run=self._end_if_left
        )
        return self._pastes.whole(typed)

    async def ask(self, question: str) -> str:
        """The answer to a question, of one line. It can be cancelled.

        Earlier typed keys are dropped, so that nobody agrees to a question that they have not read.

        Raises:
            EOFError: Ctrl-D on an empty line.
            KeyboardInterrupt: Ctrl-C.
        """
        if self._question is None:
            self._question = PromptSession(history=DummyHistory())
        clear_typeahead(self._question.input)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        return await self._question.prompt_async(question, set_exception_handler=False, handle_sigint=False)

    def leave(self) -> None:
        """Ends the current or the next `read` with `EOFError`."""
        self._is_left = True
        self._end_if_left()

    def _end_if_left(self) -> None:
        if self._is_left and self._session.app.is_running:
            self._session.app.exit(exception=EOFError())

    def redraw(self) -> None:
        """Draws the status line again, if the prompt is shown."""
        self._session.app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        app = self._session.app
        line = "" if app.is_done else self._status_line(app.output.get_size().columns - 1)
        return [("ansibrightblack", f"{line}\n"), *_MARK] if line else _MARK

    @property
    def was_empty(self) -> bool:
        """Whether the last line was empty."""
        return not self._session.default_buffer.text


@contextlib.contextmanager
def keys_held_back() -> Iterator[None]:
    """In this block, keys that are pressed between two prompts are not shown, and wait for the next one.

    Ctrl-C still interrupts, and drops no keys that were typed before it. Line editing by the kernel is off,
    because it would swallow a Ctrl-D.
    """
    off = termios.ECHO | termios.ICANON
    with _terminal_modes(lambda iflag, lflag: (iflag & ~termios.ICRNL, lflag & ~off | termios.NOFLSH)):
        yield


@contextlib.contextmanager
def keyboard_lent() -> Iterator[None]:
    """In this block, another program has the keyboard, with line editing by the kernel."""
    on = termios.ECHO | termios.ICANON
    with _terminal_modes(lambda iflag, lflag: (iflag | termios.ICRNL, lflag & ~termios.NOFLSH | on)):
        yield


@contextlib.contextmanager
def _terminal_modes(changed: Callable[[int, int], tuple[int, int]]) -> Iterator[None]:
    """The terminal with other input and local modes, as in termios(3)."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    modes = termios.tcgetattr(descriptor)
    modes[0], modes[3] = changed(modes[0], modes[3])
    termios.tcsetattr(descriptor, termios.TCSANOW, modes)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _bindings(completer: MessageCompleter, pastes: Pastes, show_details: Callable[[], None]) -> KeyBindings:
    bindings = KeyBindings()
    is_typing = has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=is_typing)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=is_typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add(Keys.BracketedPaste, filter=is_typing)
    def _paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(dropped_files(text) or pastes.shown(text))

    @bindings.add("c-o", filter=is_typing)
    def _details(_event: KeyPressEvent) -> None:
        run_in_terminal(show_details)

    @bindings.add("tab", filter=is_typing)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        fitting = completer.get_completions(buffer.document)
        if len(fitting) == 1:
            # At once, because the menu appears too late for fast typists.
            buffer.apply_completion(fitting[0])
        elif fitting:
            buffer.start_completion(insert_common_part=True)

    return bindings


class OwnerHistory(FileHistory):
    """A history file with mode 0600 and complete pastes. If it cannot be written, there is none."""

    def __init__(self, file: Path, pastes: Pastes) -> None:
        super().__init__(file)
        self._pastes = pastes
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

    def append_string(self, string: str) -> None:
        super().append_string(self._pastes.whole(string))

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError as error:
            log.warning("the history of the prompt cannot be written: %s", error)
