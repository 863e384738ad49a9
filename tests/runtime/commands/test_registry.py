"""Which commands there are for whom, and what becomes of words that are none."""

from __future__ import annotations

import pytest

from nacre.runtime.commands.command import Command, CommandRun, Outcome
from nacre.runtime.commands.registry import Called, Commands
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.policy import ChatPolicy

OWNER = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
IN_GROUP = ChatPolicy(chat_kind="group", is_owner=True, session_key_is_private=False)
STRANGER = ChatPolicy(chat_kind="group", is_owner=False, session_key_is_private=False)


async def _silent(run: CommandRun) -> Outcome:
    return run.turn, None


def _command(**changes: object) -> Command:
    return Command(**{"name": "honey", "help": "what a hive has", "run": _silent, **changes})  # type: ignore[arg-type]  # a test varies one field


def test_the_owner_sees_the_built_in_commands_in_their_order() -> None:
    """`/help` is last, and what was added stands before it."""
    commands = Commands([_command()]).offered(OWNER)

    assert [command.usage for command in commands] == [
        "/new [model] [text]",
        "/reset [text]",
        "/resume [id]",
        "/rewind [place]",
        "/fork [place]",
        "/label name",
        "/compact [focus]",
        "/model [name]",
        "/search words",
        "/remember text",
        "/forget words",
        "/undo [commit]",
        "/review [id]",
        "/status",
        "/context",
        "/usage",
        "/approve [id]",
        "/deny id [reason]",
        "/queue [mode]",
        "/send [mode]",
        "/honey",
        "/help",
    ]


def test_the_owners_words_for_a_fresh_session_stand_in_the_list() -> None:
    """Help and completion show what works, and no `/reset` where that word does nothing."""
    commands = Commands(reset_triggers=("neu", "/frisch")).offered(OWNER)

    assert commands[0].usage == "neu [model] [text]"
    assert commands[0].called_by == ("neu", "/frisch")
    assert "reset" not in [command.name for command in commands]


def test_others_have_no_list_until_there_is_something_for_them() -> None:
    """`/help` of a stranger is words, as before; with a command for anyone it lists that one."""
    for_anyone = _command(who="anyone", where=("group",))

    assert Commands([_command()]).offered(STRANGER) == ()
    assert Commands([_command()]).called("/help", STRANGER) is None
    assert [command.name for command in Commands([for_anyone]).offered(STRANGER)] == ["honey", "help"]


@pytest.mark.parametrize("text", ["/new", "/honey pot", "/hony", "/status"])
def test_what_others_may_not_use_are_words(text: str) -> None:
    """Nothing tells a stranger which commands the owner has."""
    assert Commands([_command()]).called(text, STRANGER) is None


def test_a_command_for_anyone_works_where_it_is_offered_and_nowhere_else() -> None:
    """In the group, not in a direct chat with a stranger."""
    commands = Commands([_command(who="anyone", where=("group",), aliases=("hive",))])
    direct = ChatPolicy(chat_kind="direct", is_owner=False, session_key_is_private=True)

    called = commands.called("@bees /HIVE: garden", STRANGER)
    assert isinstance(called, Called)
    assert (called.command.name, called.rest) == ("honey", "garden")
    assert commands.called("/honey garden", direct) is None


def test_the_owner_is_told_where_a_command_works() -> None:
    """A private command that is typed in a group is not said to the assistant of the group."""
    called = Commands([_command(where=("private",))]).called("/honey garden", IN_GROUP)

    assert called is not None
    assert called.rest == "/honey can be used in a private chat."


@pytest.mark.parametrize("text", ["/honny", "/honny garden", "/reewind 3", "/xyzzy"])
def test_a_slip_is_not_said_to_the_assistant(text: str) -> None:
    """A single unknown word, or one that is very like a command before more text."""
    called = Commands([_command()]).called(text, OWNER)

    assert called is not None
    assert called.command.name == "unknown"
    assert called.rest == text.split()[0]


@pytest.mark.parametrize("text", ["/usr is full", "/etc/hosts", "/newer than what?", "/ hello", "//status"])
def test_words_with_a_slash_stay_words(text: str) -> None:
    """A path or an aside is said as it is."""
    assert Commands([_command()]).called(text, OWNER) is None


@pytest.mark.parametrize("name", ["", "Honey", "/honey", "a b", "9lives", "x" * 33, "hön"])
def test_a_malformed_name_is_refused(name: str) -> None:
    """With a sentence that says what a name looks like."""
    with pytest.raises(ConfigError, match="cannot name a chat command"):
        Commands([_command(name=name)])


@pytest.mark.parametrize("changes", [{"name": "new"}, {"aliases": ("status",)}, {"aliases": ("honey",)}])
def test_a_name_that_is_taken_is_refused(changes: dict[str, object]) -> None:
    """By a built-in command, or by its own other name."""
    with pytest.raises(ConfigError, match="two chat commands"):
        Commands([_command(**changes)])


def test_a_name_is_free_when_the_owner_calls_the_built_in_one_otherwise() -> None:
    """The words of the settings stand in place of `/new`."""
    commands = Commands([_command(name="reset")], reset_triggers=("neu",))

    called = commands.called("/reset hive", OWNER)
    assert called is not None
    assert called.command.help == "what a hive has"
