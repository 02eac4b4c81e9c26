"""The end of a program that a task runs."""

from __future__ import annotations


class ProgramEnded(Exception):
    """The program ended with an exit code other than 0; it has printed why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
