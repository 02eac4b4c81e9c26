"""Matrix fragments to and from memory: ldmatrix, stmatrix, movmatrix, wmma.load, wmma.store."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.tensor_layout import WIDTH, shape_of
from weft.ptx.isa.columns import Accepts, Participants, Per, Words, WorkUnit, reads, writes
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_MATRIX = "warp-level-matrix-instructions-"
_SHARED = "shared shared::cta"


@instruction(
    "ldmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16  d, [a]",
    accepts=Accepts.COUNTED,
    manual=_MATRIX + "ldmatrix",
    num="x1 x2 x4", trans="trans", space=_SHARED, warp=True, participants=Participants.WARP,
    # A matrix of 8 x 8 elements of 16 bits has 128 bytes.
    effects=(reads("a", "space", "128*num", Per.WARP),),
)  # fmt: skip
def ldmatrix(w: Warp, ins: Instruction, *, num: str, trans: str, space: str) -> None:
    w.matrices.load_rows(ins, int(num[1:]), space, transposed=bool(trans))


@instruction(
    "stmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16  [a], r",
    accepts=Accepts.COUNTED,
    manual=_MATRIX + "stmatrix",
    num="x1 x2 x4", trans="trans", space=_SHARED, warp=True, participants=Participants.WARP,
    effects=(writes("a", "space", "128*num", Per.WARP),),
)  # fmt: skip
def stmatrix(w: Warp, ins: Instruction, *, num: str, trans: str, space: str) -> None:
    w.matrices.store_rows(ins, int(num[1:]), space, transposed=bool(trans))


@instruction(
    "movmatrix.sync.aligned.m8n8.trans.b16  d, a",
    work=WorkUnit.MOVE,
    manual=_MATRIX + "movmatrix",
    warp=True,
    participants=Participants.WARP,
)
def movmatrix(w: Warp, ins: Instruction) -> None:
    w.matrices.transpose(ins)


_SPACE = "global shared shared::cta"

OPERANDS = {
    "m16n16k16 m8n32k16 m32n8k16": "f16 bf16 s8 u8",
    "m16n16k8": "tf32",
    "m8n8k4": "f64",
    "m8n8k32": "s4 u4",
    "m8n8k128": "b1",
}
"""The shapes of A and B, and which types they have."""

ACCUMULATORS = {
    "m16n16k16 m8n32k16 m32n8k16": "f16 f32 s32",
    "m16n16k8": "f32",
    "m8n8k4": "f64",
    "m8n8k32 m8n8k128": "s32",
}
"""The shapes of C and D, and which types they have."""


def _tile_bytes(words: Words) -> int:
    """Bytes of the matrix that a fragment is of; a store writes the matrix d."""
    m, n, k = shape_of(words["shape"])
    rows, columns = {"a": (m, k), "b": (k, n)}.get(words.get("matrix", "d"), (m, n))
    return rows * columns * WIDTH[words["type"]] // 8


def _load(
    w: Warp, ins: Instruction, *, matrix: str, layout: str, shape: str, space: str, type: str
) -> None:
    w.matrices.load_fragment(ins, matrix, shape, type, layout, space)


def _store(w: Warp, ins: Instruction, *, layout: str, shape: str, space: str, type: str) -> None:
    w.matrices.store_fragment(ins, shape, type, layout, space)


NARROW = ("m8n8k32", "m8n8k128")
"""Shapes of types below a byte: A has rows and B has columns that are whole bytes in memory."""


def _loads() -> Iterator[tuple[str, str, str, str]]:
    """(matrices, layouts, shapes, types) of every row of wmma.load."""
    for shape, types in OPERANDS.items():
        if shape in NARROW:
            yield from (("a", "row", shape, types), ("b", "col", shape, types))
        else:
            yield "a b", "row col", shape, types
    for shape, types in ACCUMULATORS.items():
        yield "c", "row col", shape, types


for _matrix, _layout, _shape, _types in _loads():
    instruction(
        "wmma.load.matrix.sync.aligned.layout.shape{.space}.type  d, [a]{, stride}",
        accepts=Accepts.FRAGMENT,
        manual=_MATRIX + "wmma-ld",
        matrix=_matrix, layout=_layout, shape=_shape, space=_SPACE, type=_types,
        warp=True, participants=Participants.WARP,
        effects=(reads("a", "space", _tile_bytes, Per.WARP),),
    )(_load)  # fmt: skip

for _shape, _types in ACCUMULATORS.items():
    instruction(
        "wmma.store.d.sync.aligned.layout.shape{.space}.type  [a], r{, stride}",
        accepts=Accepts.FRAGMENT,
        manual=_MATRIX + "wmma-st",
        layout="row col", shape=_shape, space=_SPACE, type=_types, warp=True,
        participants=Participants.WARP, effects=(writes("a", "space", _tile_bytes, Per.WARP),),
    )(_store)  # fmt: skip
