"""The program `nacre`, also as `python -m nacre`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

_SEARCH = ("memory", "search")
_ELSEWHERE = ("-h", "--help", "--agent", "--model", "--state-dir", "--workspace")
"""Options that ask for help, or for another folder than the environment's."""
_COLLECTED_AFTER = (10_000, 20, 20)
"""So many new objects until the collector looks at them. Python's 700 are for small programs: an eighth of a
short command went into looking at what it had just imported."""


def begin_model_of_search(arguments: Sequence[str]) -> None:
    """Starts loading the built-in embedding model if these are the arguments of a search that needs it.

    The last search decides whether it does. Loading takes longer than the rest of a search, so it starts
    before click is imported. A wrong guess costs that work and changes nothing else.
    """
    if tuple(arguments[:2]) != _SEARCH or any(each.startswith(_ELSEWHERE) for each in arguments[2:]):
        return
    from nacre.cli.memory.remembered_search import last_search_used_model
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.settings.config import process_environment

    try:
        is_likely = last_search_used_model(process_environment())
    except ConfigError:  # the search reports it
        return
    if is_likely:
        from nacre.memory.embedders.question_ahead import begin_model

        begin_model()


def main() -> NoReturn:
    """Runs one command and exits with its code."""
    gc.set_threshold(*_COLLECTED_AFTER)
    # Looking for pydantic's plugins reads the metadata of every package. The owner's variable wins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    begin_model_of_search(sys.argv[1:])
    from nacre.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
