"""The command `nacre admin completion`: a script with which a shell completes commands and options."""

from __future__ import annotations

import sys

import click

from nacre.cli.invocation import shared_options

VARIABLE = "_NACRE_COMPLETE"
"""The variable with which the shell asks the program; click derives its name from the program's."""


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
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    sys.stdout.write(kind(context.find_root().command, {}, "nacre", VARIABLE).source() + "\n")
    return 0
