"""`weft`, and `python -m weft`."""

import sys


def main() -> None:
    """The command line; Ctrl-C ends it with 130, while it is still being imported, too."""
    try:
        from weft.cli import app

        app(prog_name="weft")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
