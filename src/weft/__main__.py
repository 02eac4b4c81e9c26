"""`python -m weft` is `weft`."""

from weft.cli import app

app(prog_name="weft")
