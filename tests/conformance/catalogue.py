"""Every form that is judged, and for rows that have none: the reason."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from conformance import memory_forms, warp_forms
from conformance.forms import Form, lanewise
from weft.ptx.isa import InstructionRow, rows

NO_RESULT = "leaves no result to compare"
PROGRAMS = "judged by the random programs and the kernels, which are made of it"
TILES = "judged on tiles, below"
SPARSE = "judged on 131,072 recorded tiles each (tests/support/sparse_forms.py)"
NONE = "no recipe yet"
REASONS = {
    "bra": PROGRAMS, "brx": PROGRAMS, "ret": PROGRAMS, "exit": PROGRAMS, "call": PROGRAMS,
    "bar": PROGRAMS, "barrier": PROGRAMS, "membar": NO_RESULT, "fence": NO_RESULT,
    "trap": "ends the launch with an error", "brkpt": "ends the launch with an error",
    "pmevent": NO_RESULT, "nanosleep": NO_RESULT, "prefetch": NO_RESULT, "prefetchu": NO_RESULT,
    "applypriority": NO_RESULT, "griddepcontrol": NO_RESULT, "setmaxnreg": NO_RESULT,
    "discard": "leaves memory undefined", "createpolicy": "its result is opaque to PTX",
    "cvta": "its result is an address; every load by a generic address goes through it",
    "cp": "orders copies; judged with the copies", "mbarrier": "judged within mbarrier.arrive",
    "mma": TILES, "wmma": TILES,
}  # fmt: skip
"""Opcode -> why a row of it has no form of its own."""


@cache
def forms() -> tuple[Form, ...]:
    """All forms, lane-wise rows first; a name stands for one form."""
    found: dict[str, Form] = {}
    for form in (*lanewise(), *_warp()):
        found.setdefault(form.name, form)
    return tuple(found.values())


def _warp() -> Iterator[Form]:
    for row in rows():
        recipe = _recipe(row)
        if recipe is not None:
            yield from recipe(row)


def _recipe(row: InstructionRow):  # type: ignore[no-untyped-def]
    if not row.warp:
        return None
    if row.base in ("bar", "barrier") and ".red" in row.syntax:
        return warp_forms.barrier_reduce
    if row.base == "wmma":
        return memory_forms.fragments if ".mma" not in row.syntax else None
    return {**warp_forms.RECIPES, **memory_forms.RECIPES}.get(row.base)


def left_out() -> dict[str, str]:
    """Syntax of each row without a form -> the reason."""
    covered = {id(form.row) for form in forms()}
    return {
        row.syntax: SPARSE if row.syntax.startswith("mma.sp") else REASONS.get(row.base, NONE)
        for row in rows()
        if id(row) not in covered
    }
