"""Instructions as messages name them."""

from __future__ import annotations

from weft.ptx.model import Instruction


def line_of(ins: Instruction | None) -> str:
    """file:line of the user's, its text, the library's line in it, and the calls around it."""
    if ins is None:
        return "unknown line"
    if ins.loc is None:
        return f"PTX line {ins.ptx_line}: {ins.text}"
    line = ins.loc.own
    quoted = f"  `{line.quote}`" if line.quote else ""
    library = "" if line is ins.loc else f", in {ins.loc}"
    return f"{line}{quoted}{library}{line.calls}"


def width_of(ins: Instruction | None) -> int:
    """Bytes one lane accesses."""
    if ins is None:
        return 1
    from weft.ptx.isa import decode  # the instruction table: only a fault needs it

    return decode(ins).lane_bytes
