"""Warns of weft's own options behind the file of a verb that passes them to the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.cli import show
from weft.cli.program_options import PANEL

_PROGRAMS = (".cu", ".cpp", ".cc", ".cxx", ".c")
COMMON = ("-h", "--help", "-m")
"""Options that programs have themselves."""


def warn(command: Any, given: Mapping[str, Any]) -> None:
    """Warn if everything behind the file reads as options of the command; `given` by parameter."""
    file, words = given.get("file"), given.get("args") or []
    # A script may have options such as --gpus itself.
    is_program = str(file).endswith(_PROGRAMS)
    options = {
        name: option
        for option in command.params
        if is_program or not _is_of_builds(option)
        for name in (*option.opts, *option.secondary_opts)
        if name[0] == "-" and name not in COMMON
    }
    if words and _are_options(words, options):
        shown = " ".join(word if word.split() == [word] else f'"{word}"' for word in words)
        show.warning(
            f"the program gets {shown}, because it stands behind {file};"
            " options of weft stand before the file"
        )


def _is_of_builds(option: Any) -> bool:
    return getattr(option, "rich_help_panel", None) == PANEL


def _are_options(words: Sequence[str], options: Mapping[str, Any]) -> bool:
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        if word[:2] in options and name not in options:
            name, has_value, value = word[:2], "=", word[2:]  # as in -lcublas
        option = options.get(name)
        if option is None or (len(name) == 2 and _is_of_builds(option) and not has_value):
            return False  # -l 3 is an option of the program
        if not option.is_flag and not has_value:
            value = next(rest, "")
        if name == "--device" and not value.startswith("sim"):
            return False  # such as cuda, of a script
    return True
