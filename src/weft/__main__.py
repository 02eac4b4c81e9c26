"""`weft`, and `python -m weft`."""

import os
import sys


def main() -> None:
    """The command line; Ctrl-C ends it with 130, while it is still being imported, too."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `weft isa >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (as long as the process)
    try:
        from weft.cli import app

        app(prog_name="weft")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
