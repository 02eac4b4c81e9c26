"""Matrix multiply and accumulate of a warpgroup: `wgmma`."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from weft.errors import PtxError
from weft.ir.tensor_layout import shape_of
from weft.ptx.isa.columns import (
    ANY_COUNT,
    Accepts,
    Async,
    AsyncStep,
    Completion,
    InstructionWork,
    Participants,
    Waits,
    WorkUnit,
)
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.matrix.warpgroup_form import WarpgroupForm
from weft.ptx.isa.registry import decode, instruction
from weft.ptx.model import Imm, Instruction, Operand, Vec

_MANUAL = "asynchronous-warpgroup-level-matrix-instructions-wgmma-"
_SIGNS, _ORDERS = (1, -1), (0, 1)
ISSUE = Async(AsyncStep.ISSUE, Completion.PRODUCTS)

_warpgroup = functools.partial(
    instruction, warp=True, participants=Participants.WARPGROUP, aligned=True
)
_product = functools.partial(
    _warpgroup,
    manual=_MANUAL + "mma-async",
    # Each of the four warps computes a quarter of the rows.
    work=InstructionWork(WorkUnit.TENSOR, 2),
    accepts=Accepts.FRAGMENT | Accepts.TRUTH,
    async_=ISSUE,
    accumulates=True,
)

_OF_FLOATS, _OF_INTEGERS = range(8, 257, 8), (8, 16, 24, *range(32, 257, 16))
"""The numbers of columns."""


def _shapes(k: int, columns: Iterable[int] = _OF_FLOATS) -> str:
    return " ".join(f"m64n{n}k{k}" for n in columns)


@_warpgroup(
    "wgmma.fence.sync.aligned",
    manual=_MANUAL + "fence",
    work=WorkUnit.SYNC,
    notes="Orders accesses to registers of products; no effect in plain runs.",
)
def fence(w: Warp, ins: Instruction) -> None:
    """Do nothing: registers are read and written in the order of the program."""


@_warpgroup(
    "wgmma.commit_group.sync.aligned",
    manual=_MANUAL + "commit-group",
    work=WorkUnit.SYNC,
    async_=Async(AsyncStep.COMMIT, Completion.PRODUCTS),
)
def commit_group(w: Warp, ins: Instruction) -> None:
    w.warpgroups.commit()


@_warpgroup(
    "wgmma.wait_group.sync.aligned  n",
    manual=_MANUAL + "wait-group",
    work=WorkUnit.SYNC,
    waits=Waits.PARTICIPANTS,
    async_=Async(AsyncStep.WAIT, Completion.PRODUCTS),
    literals={"n": ANY_COUNT},
)
def wait_group(w: Warp, ins: Instruction) -> None:
    groups = ins.operands[0]
    assert isinstance(groups, Imm), "the row takes nothing else"
    w.warpgroups.wait(groups.value)


def form_of(ins: Instruction) -> WarpgroupForm:
    """The form of a product, by its words and literals."""
    d = decode(ins)
    words, named = d.words, _named(ins)
    left = not isinstance(named["a"], Vec)
    if not left and "ta" in named:
        raise PtxError(
            f"{ins.opcode}: A is in registers and has no order in memory",
            allowed=d.row.syntax.replace("{, ta}", ""),
        )
    if left and "tb" in named and "ta" not in named:
        raise PtxError(f"{ins.opcode}: A is in shared memory", allowed=d.row.syntax)
    selector = _literal(named["f"]) if "f" in named else None
    most = 1 if "sp" in d.parts and words["atype"] in _BYTES else 2
    if selector is not None and not 0 <= selector < most:
        raise PtxError(f"{ins.opcode}: no such sparsity selector", allowed=f"below {most}")
    return WarpgroupForm(
        n=shape_of(words["shape"])[1],
        a=words["atype"],
        b=words["btype"],
        accumulator=words.get("dtype") or "s32",
        saturate=bool(words.get("satfinite")),
        left=left,
        turned=(_literal(named.get("ta")) == 1, _literal(named.get("tb")) == 1),
        negated=_literal(named.get("sa")) == -_literal(named.get("sb")) != 0,
        selector=selector,
    )


_BYTES = ("e4m3", "e5m2", "s8", "u8")


def operand(ins: Instruction, name: str) -> Operand | None:
    """An operand of a product by its name in the row."""
    return _named(ins).get(name)


def _named(ins: Instruction) -> dict[str, Operand]:
    specs = decode(ins).row.written
    if len(ins.operands) < len(specs):
        specs = tuple(x for x in specs if not x.optional)
    return {x.name: value for x, value in zip(specs, ins.operands, strict=True)}


def _literal(value: Operand | None) -> int:
    return value.value if isinstance(value, Imm) else 0


_FLOATS = [
    # k, accumulators, A, B, stored in either order
    (16, "f16 f32", "f16", True),
    (16, "f32", "bf16", True),
    (8, "f32", "tf32", False),
    (32, "f16 f32", "e4m3 e5m2", False),
]
_SCALES = {"sa": _SIGNS, "sb": _SIGNS}
_EITHER = {**_SCALES, "ta": _ORDERS, "tb": _ORDERS}


def product(w: Warp, ins: Instruction, **words: str) -> None:
    w.warpgroups.issue(ins)


for _sparse in (False, True):
    _name = "wgmma.mma_async" + (".sp" if _sparse else "")
    _meta = ", e:b32, f" if _sparse else ""
    for _k, _acc, _types, _orders in _FLOATS:
        _product(
            f"{_name}.sync.aligned.shape.dtype.atype.btype  "
            f"d, a, b{_meta}, s:pred, sa, sb" + ("{, ta}, tb" if _orders else ""),
            shape=_shapes(2 * _k if _sparse else _k), dtype=_acc, atype=_types, btype=_types,
            literals=_EITHER if _orders else _SCALES,
        )(product)  # fmt: skip
    _product(
        f"{_name}.sync.aligned.shape{{.satfinite}}.s32.atype.btype  d, a, b{_meta}, s:pred",
        shape=_shapes(64 if _sparse else 32, _OF_INTEGERS),
        satfinite="satfinite",
        atype="s8 u8",
        btype="s8 u8",
    )(product)

_product(
    "wgmma.mma_async.sync.aligned.shape.s32.atype.btype.and.popc  d, a, b, s:pred",
    shape=_shapes(256, _OF_INTEGERS),
    atype="b1",
    btype="b1",
)(product)
