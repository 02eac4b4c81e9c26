"""`weft devices`: list the GPUs that kernels can run on."""

from __future__ import annotations

from weft.cli import show
from weft.report import devices as report
from weft.tasks.devices import devices


def run(json: show.Json = False) -> None:
    """List the GPUs that can be simulated and the GPUs of this machine."""
    found = devices()
    show.result(json, found.to_dict, report.devices(found))
