"""What a kernel may ask of the host: the functions that no PTX text defines."""

from __future__ import annotations

SERVICES = {"vprintf": 2, "__assertfail": 5, "malloc": 1, "free": 1}
"""Functions that the host carries out, and how many arguments they have."""

STACK_FULL, NOT_A_FUNCTION = "stack:full", "call:unknown"
"""Calls that end the launch; linking puts them in."""

STACK_BYTES = 16 << 10
"""Of each thread, for the frames of recursive functions; a GPU's own default is 1 KiB."""

NUMBERS = {name: i for i, name in enumerate((*SERVICES, STACK_FULL, NOT_A_FUNCTION))}
"""The number of each service, as compiled code says it."""
