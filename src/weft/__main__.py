"""`weft`, and `python -m weft`."""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import weft
from weft import interrupted

OPTIONS_OF_RUN = {
    *("--device", "--gpu", "--sanitize", "--schedule", "--autotune", "--show-kernels", "--args"),
    *("--race-hint", "--no-race-hint", "--printf-from", "--with", "-I", "-D", "-std", "--std"),
    *("-O", "-l", "-L", "--nvcc", "--cuda", "--gpus", "--procs", "--poison"),
}
"""Those of `weft run`; behind the file they may be a mistake, of which the command line warns."""


def main() -> None:
    """The command line; Ctrl-C ends it with one line and 130, also while it is imported."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `weft isa >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (as long as the process)
    try:
        if sys.argv[1:] == ["--version"]:  # the command line itself takes longer to import
            print(f"weft {weft.__version__}", flush=True)
            return
        if sys.argv[1:2] == ["run"] and _has_no_options(sys.argv[2:4]):
            sys.exit(_run(sys.argv[2], sys.argv[3:]))
        from weft.cli import app, ascii

        # what a script prints under `weft run` is its own
        ascii.settle("stderr", *(["stdout"] if sys.argv[1:2] != ["run"] else []))
        app(prog_name="weft")
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        sys.exit(interrupted.exit_code())
    except OSError as error:  # the help of weft itself, to a full disk
        print(f"error: the output cannot be written\n  got: {error.strerror}", file=sys.stderr)
        _silence()
        sys.exit(1)


def _has_no_options(words: list[str]) -> bool:
    """Decide whether `weft run` has a file first, and no option of its own right behind it."""
    file, after = (*words, "", "")[:2]
    own = after.partition("=")[0] in OPTIONS_OF_RUN or after[:2] in OPTIONS_OF_RUN
    return bool(file) and not file.startswith("-") and not own


def _run(file: str, arguments: list[str]) -> int:
    """`weft run FILE ...` without options: what parses options takes longer to import.

    Options come before the file. The words behind it are the program's.
    """
    from weft import garbage, progress

    with garbage.paused():
        from weft.frontends.files import runner

    progress.enabled = True
    plain = warnings.showwarning
    warnings.showwarning = functools.partial(_warn, plain)
    try:
        return int(runner(Path(file)).run(file, arguments))
    except (weft.Error, OSError, MemoryError, KeyboardInterrupt) as error:
        from weft.cli import ascii, report

        ascii.settle("stderr")
        return report(error)
    finally:
        warnings.showwarning = plain


def _warn(
    plain: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any
) -> None:
    if issubclass(category, weft.CompileWarning | weft.CacheWarning):
        from weft.cli import show

        show.warning(str(message))
    else:
        plain(message, category, *place)


def _silence() -> None:
    """Discard the text that standard output cannot write: Python must not try again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
