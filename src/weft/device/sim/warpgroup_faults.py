"""Wrong uses of `wgmma`: the numbers that compiled code records, and what they mean."""

from __future__ import annotations

from weft.records import dataclass

PARTIAL, INCOMPLETE, LANES, WARPS, OUTSIDE = range(1, 6)
"""Lanes are missing; warps are missing; descriptors differ between lanes, or between warps; a part
of a matrix is outside of shared memory."""

OPERANDS = ("A", "B", "scale-d")
"""The operands that a fault may be about."""
_OPERAND, _VALUE = 8, 16


def encoded(kind: int, operand: int = 0) -> int:
    """The bits of a fault's address below its value."""
    return kind | operand << _OPERAND


VALUE = _VALUE
"""The bits by which a fault's value is shifted to the left."""


@dataclass(frozen=True)
class Explanation:
    """The parts of a message."""

    what: str
    got: str
    allowed: str
    next: str


def explain(address: int, warps: int, shared_bytes: int) -> Explanation:
    """The message of a recorded fault of a block with these warps and this shared memory."""
    kind, value = address & 0xFF, address >> _VALUE & 0xFFFFFFFFFFFF
    operand = OPERANDS[address >> _OPERAND & 0xFF]
    match kind:
        case 1:
            return Explanation(
                "is executed by a part of a warp",
                f"lanes {value & 0xFFFFFFFF:#010x}",
                "all 32 lanes together (.sync.aligned)",
                "move it out of branches that only some threads of a warp take",
            )
        case 2:
            return Explanation(
                "is executed by a warp that is in no warpgroup",
                f"warp {value} of a block of {warps} warps",
                "four consecutive warps, of which the first has a multiple of 4 as its number",
                "launch a multiple of 128 threads for the warps that multiply",
            )
        case 3:
            return Explanation(
                f"has a {_described(operand)} that differs between the lanes of a warp",
                f"lanes with different values of {operand}",
                "the same value in all threads of a warpgroup",
                "compute it from values that are the same in the warpgroup",
            )
        case 4:
            return Explanation(
                "differs between the warps of a warpgroup",
                f"warp {value} executes another wgmma, or one with other descriptors",
                "the same instructions with the same descriptors in all four warps",
                "compute descriptors from threadIdx.x / 128, not from threadIdx.x / 32",
            )
    return Explanation(
        f"reads {operand} outside of shared memory",
        f"16 bytes at offset {value:#x}",
        f"{shared_bytes} bytes of shared memory",
        "compare the descriptor's start and distances with the size of the tile",
    )


def _described(operand: str) -> str:
    return operand if operand == OPERANDS[2] else f"descriptor of {operand}"
