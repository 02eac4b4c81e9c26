"""The exit code after Ctrl-C."""

INTERRUPTED = 130
"""128 + SIGINT, as in shells."""


def exit_code() -> int:
    """The exit code of a process that has handled a KeyboardInterrupt."""
    # CPython notes an interrupt that leaves the exec of a string, also when it is caught later, and
    # then ends itself by SIGINT. Every class of dataclasses and namedtuples runs such a string. The
    # next string resets the note.
    exec("pass")
    return INTERRUPTED
