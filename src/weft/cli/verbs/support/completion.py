"""`weft completion SHELL`: print the script that completes weft's command line."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli import show
from weft.cli.completion import Shell, script


def run(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")], json: show.Json = False
) -> None:
    """Print the script that completes weft's commands, options, ops, ladders and devices.

    In ~/.bashrc: eval "$(weft completion bash)". In ~/.zshrc, after compinit: eval "$(weft
    completion zsh)". In fish: weft completion fish > ~/.config/fish/completions/weft.fish
    """
    text = script(shell)
    if json:
        show.data({"shell": shell.value, "script": text})
    else:
        print(text, end="")
