"""The model of a search, begun before click is imported to read the command line. Edge."""

from __future__ import annotations

from collections.abc import Sequence

SEARCH = ("memory", "search")
_ELSEWHERE = ("-h", "--help", "--agent", "--model", "--state-dir", "--workspace")
"""Options that ask for help, or for another place than the environment names."""


def begin_model_of_search(arguments: Sequence[str]) -> None:
    """Begins to load the model that ships if these are the arguments of a search, and the last one asked it.

    It takes longer than all the rest of a search. A wrong guess costs that work, and changes nothing else.
    """
    if tuple(arguments[:2]) != SEARCH or any(each.startswith(_ELSEWHERE) for each in arguments[2:]):
        return
    from nacre.cli.memory.opening.remembered_search import asked_the_model
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.settings.config import process_environment

    try:
        is_likely = asked_the_model(process_environment())
    except ConfigError:  # the search tells it
        return
    if is_likely:
        from nacre.memory.embedders.question_ahead import begin_model

        begin_model()
