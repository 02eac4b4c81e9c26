"""The prompt of the debugger, with completion."""

from __future__ import annotations

import cmd
import json
import sys
from collections.abc import Iterable
from typing import IO, Any

from weft.debug.commands import Answer, Commands
from weft.debug.debugger import Debugger
from weft.device.sim.tools.debugger.evaluate import BUILT_IN
from weft.errors import Error

PROMPT = "(weft) "
_WITH_EXPRESSION = ("print", "p", "lanes", "watch", "back", "set")


def talk(debugger: Debugger) -> None:
    """Take commands from the user until the launch has ended."""
    Prompt(Commands(debugger)).cmdloop()


class Prompt(cmd.Cmd):
    """Reads commands; Ctrl-C discards a line, Ctrl-D ends the launch."""

    prompt = PROMPT

    def __init__(self, commands: Commands, stdin: IO[str] | None = None) -> None:
        super().__init__(stdin=stdin)
        self.commands = commands
        self.intro = commands.stopped().text

    def onecmd(self, line: str) -> bool:
        """Execute one line; True ends the prompt."""
        if line == "EOF":
            line = "quit"
        try:
            answer = self.commands.run(line)
        except Error as error:
            answer = Answer(str(error))
        if answer.text:
            self.stdout.write(answer.text + "\n")
        return self.commands.over

    def cmdloop(self, intro: Any = None) -> None:
        """Read commands until the launch has ended."""
        while not self.commands.over:
            try:
                super().cmdloop(intro)
            except KeyboardInterrupt:
                self.stdout.write("\n")
                self.intro = None

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        """Names of commands that begin so."""
        return [n for n in self.commands.names if n.startswith(text)]

    def completedefault(self, text: str, line: str, *ignored: Any) -> list[str]:
        """Variables and registers that begin so, where an expression is expected."""
        if line.split(" ", 1)[0] not in _WITH_EXPRESSION:
            return []
        d = self.commands.debugger
        known = [*d.source.variables(d.here), *d.source.shared, *BUILT_IN]
        return [n for n in known if n.startswith(text)]


class Script:
    """Commands that are given beforehand; after the last one the launch goes on without stops."""

    def __init__(self, lines: Iterable[str], *, as_json: bool = False) -> None:
        self._lines = iter(lines)
        self._json = as_json

    def __call__(self, debugger: Debugger) -> None:
        """Execute commands at a stop until the launch has ended."""
        commands = Commands(debugger)
        self._show("", commands.stopped())
        while not commands.over:
            line = next(self._lines, None)
            if line is None:
                debugger.detach()
                return
            try:
                answer = commands.run(line)
            except Error as error:
                answer = Answer(str(error), {"error": error.to_dict()})
            self._show(line, answer)

    def _show(self, line: str, answer: Answer) -> None:
        if self._json:
            sys.stdout.write(json.dumps({"command": line, **answer.data}) + "\n")
            return
        if line:
            sys.stdout.write(f"{PROMPT}{line}\n")
        if answer.text:
            sys.stdout.write(answer.text + "\n")
