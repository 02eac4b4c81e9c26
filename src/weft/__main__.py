"""`weft`, and `python -m weft`."""

import os
import sys

import weft


def main() -> None:
    """The command line; Ctrl-C ends it with one line and 130, also while it is imported."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `weft isa >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (as long as the process)
    try:
        if sys.argv[1:] == ["--version"]:  # the command line itself takes longer to import
            print(f"weft {weft.__version__}", flush=True)
            return
        from weft.cli import app, ascii

        # what a script prints under `weft run` is its own
        ascii.settle("stderr", *(["stdout"] if sys.argv[1:2] != ["run"] else []))
        app(prog_name="weft")
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:  # the help of weft itself, to a full disk
        print(f"error: the output cannot be written\n  got: {error.strerror}", file=sys.stderr)
        _silence()
        sys.exit(1)


def _silence() -> None:
    """What standard output still holds cannot be written: Python must not try again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
