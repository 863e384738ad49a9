"""The command `nacre admin completion`: what a shell needs to complete commands and options with Tab."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import shared_options

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

VARIABLE = "_NACRE_COMPLETE"
"""The variable with which the shell asks the program; click's rule makes it of the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared_options
def command(context: click.Context, shell: str) -> int:
    """Print a script for Tab completion in your shell.

    \b
    bash: nacre admin completion bash > ~/.local/share/bash-completion/completions/nacre
    zsh:  nacre admin completion zsh > ~/.zfunc/_nacre   (a folder of $fpath)
    fish: nacre admin completion fish > ~/.config/fish/completions/nacre.fish
    """
    sys.stdout.write(_completer(context, shell).source() + "\n")
    return 0


def _completer(context: click.Context, shell: str) -> ShellComplete:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "one of the shells that click knows"
    return kind(context.find_root().command, {}, "nacre", VARIABLE)
