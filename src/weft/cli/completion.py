"""Scripts that complete weft's command line in a shell.

A script holds all words, so that a shell starts no Python while the user types. The words of verbs
come from their options, those of arguments from `ARGUMENTS`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo

from weft.cli import MODULES, NAMES, command
from weft.tasks.climb import ladders
from weft.tasks.devices import devices

COMMANDS = ("weft", "weft-gpu")


class Shell(StrEnum):
    """The shells that weft has a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def op_names() -> list[str]:
    """The ops of weft.ops, from their stubs: they are known where PyTorch is not installed."""
    stubs = (files("weft.ops") / "__init__.pyi").read_text("utf-8")
    return sorted(set(re.findall(r"^def ([a-z]\w*)\(", stubs, re.MULTILINE)))


def ladder_names() -> list[str]:
    """The ladders that come with weft."""
    return [one.name for one in ladders()]


def device_words() -> list[str]:
    """The words of `--device` on this machine."""
    found = devices()
    simulated = [f"sim:{gpu.key}" for gpu in found.simulated]
    return ["sim", *simulated, "gpu", *(f"gpu:{gpu.number}" for gpu in found.real)]


ARGUMENTS: Mapping[str, Callable[[], list[str]]] = {
    "climb": ladder_names,
    "bench": ladder_names,
    "tune": op_names,
}
"""Verb -> the words of its first argument; those with choices of their own are not listed."""


@dataclass(frozen=True)
class VerbWords:
    """The words that may follow a verb: options, options with a device, and first arguments."""

    verb: str
    options: tuple[str, ...]
    has_device: bool
    arguments: tuple[str, ...]


def script(shell: Shell) -> str:
    """The script that completes weft's command line in a shell."""
    verbs, places = [_words(name) for name in NAMES], device_words()
    return {Shell.bash: _bash, Shell.zsh: _zsh, Shell.fish: _fish}[shell](verbs, places)


def _words(name: str) -> VerbWords:
    parameters: list[Any] = command(name).params
    shown = [p for p in parameters if p.param_type_name == "option" and not p.hidden]
    options = [o for p in shown for o in (*p.opts, *p.secondary_opts)]
    words = [*_choices(name), *(ARGUMENTS[name]() if name in ARGUMENTS else ())]
    seconds = [n.split()[1] for n in NAMES if n.startswith(f"{name} ")]
    return VerbWords(_spelt(name), (*options, "--help"), "--device" in options, (*seconds, *words))


def _choices(name: str) -> list[str]:
    """The words of the first argument of a verb that is one of several."""
    hints = get_type_hints(importlib.import_module(MODULES[name]).run, include_extras=True)
    for hint in hints.values():
        kind, *about = get_args(hint) or (hint,)
        if any(isinstance(one, ArgumentInfo) for one in about):
            return [*kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []
    return []


def _spelt(name: str) -> str:
    """A verb as it is typed: `bench ops` belongs to `bench`; `trace-values` is one word."""
    return name if name.split()[0] in NAMES else name.replace(" ", "-")


def _firsts(verbs: list[VerbWords]) -> str:
    return " ".join([*(v.verb for v in verbs if " " not in v.verb), "--help", "--version"])


def _cases(verbs: list[VerbWords]) -> str:
    """The branches of `case`, which bash and zsh read alike."""
    return "\n".join(
        f'        "{v.verb}") flags="{" ".join(v.options)}"'
        f' found="{" ".join(v.arguments)}" devices={int(v.has_device)} ;;'
        for v in verbs
    )


def _pairs(verbs: list[VerbWords]) -> str:
    return "|".join(f'"{v.verb}"' for v in verbs if " " in v.verb)


_CHOOSE = """\
    local verb=$second flags="" found="" devices=0
    case "$second $third" in
        {pairs}) verb="$second $third" ;;
    esac
    case "$verb" in
{cases}
    esac
    if [[ $previous == --device && $devices == 1 ]]; then
        found="{places}"
    elif [[ $count == 2 ]]; then
        found="{firsts}"
    elif [[ $current == -* ]]; then
        found=$flags
    elif [[ ($count != 3 && "$verb" == "$second") || $previous == -* ]]; then
        found=""
    fi
"""
"""The choice of words by the words before: bash and zsh read it alike. zsh has variables of its own
that are named `words` and `options`.
"""

_BASH = """\
# Completion of weft in bash. In ~/.bashrc: eval "$(weft completion bash)"
_weft() {{
    local line=${{COMP_LINE:0:COMP_POINT}} typed
    read -ra typed <<< "$line"
    [[ $line == *" " ]] && typed+=("")  # a new word begins
    local count=${{#typed[@]}}  # from the line, since bash ends words at colons: sim:h200
    local current=${{typed[count-1]}} previous=${{typed[count-2]}}
    local second=${{typed[1]}} third=${{typed[2]}}
{choose}\
    COMPREPLY=($(compgen -W "$found" -- "$current"))
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{current%:*}}:"}}")
    fi
}}
complete -o default -F _weft {commands}
"""

_ZSH = """\
#compdef {commands}
# Completion of weft in zsh. In ~/.zshrc, after compinit: eval "$(weft completion zsh)"
_weft() {{
    local typed=("${{(@)words[1,CURRENT]}}") count=$CURRENT
    local current=${{typed[count]}} previous=${{typed[count-1]}}
    local second=${{typed[2]}} third=${{typed[3]}}
    _weft_words
}}
_weft_words() {{
{choose}\
    if [[ -n $found ]]; then
        compadd -- ${{=found}}
    fi
    if [[ $current != -* && $count != 2 ]]; then
        _files
    fi
}}
compdef _weft {commands}
"""


def _bash(verbs: list[VerbWords], places: list[str]) -> str:
    return _BASH.format(choose=_choose(verbs, places), commands=" ".join(COMMANDS))


def _zsh(verbs: list[VerbWords], places: list[str]) -> str:
    return _ZSH.format(choose=_choose(verbs, places), commands=" ".join(COMMANDS))


def _choose(verbs: list[VerbWords], places: list[str]) -> str:
    return _CHOOSE.format(
        pairs=_pairs(verbs), cases=_cases(verbs), places=" ".join(places), firsts=_firsts(verbs)
    )


def _fish(verbs: list[VerbWords], places: list[str]) -> str:
    lines = ["# Completion of weft in fish. Save it as ~/.config/fish/completions/weft.fish"]
    for name in COMMANDS:
        lines.append(f'complete -c {name} -n __fish_use_subcommand -f -a "{_firsts(verbs)}"')
        for one in verbs:
            lines += _fish_verb(name, one, " ".join(places))
    return "\n".join(lines) + "\n"


def _fish_verb(name: str, one: VerbWords, places: str) -> list[str]:
    """Lines that complete the words behind a verb; one of two words needs both."""
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in one.verb.split())
    head = f'complete -c {name} -n "{seen}"'
    lines = [f'{head} -a "{" ".join(one.arguments)}"'] if one.arguments else []
    for option in one.options:
        how = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        values = f' -x -a "{places}"' if option == "--device" else ""
        lines.append(f"{head} {how}{values}")
    return lines
