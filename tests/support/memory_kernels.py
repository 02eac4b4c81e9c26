"""Kernels of one memory instruction each, whose lanes' addresses come from a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import weft
from weft.device.sim.tools.counters.counting import Counting
from weft.kernels import Kernel
from weft.measure.profile import aggregate
from weft.values.profile import Access

OFF = 0xFFFFFFFF
SHARED, LOCAL = 33 * 1024, 1040

HEAD = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 table, .param .u64 data, .param .u32 first, .param .u32 count) {{
    .reg .pred %on, %more, %p;
    .reg .b16 %h<8>;
    .reg .b32 %i, %end, %lane, %at, %to, %place, %start, %shift, %x<8>;
    .reg .b64 %rows, %row, %data, %a, %y<8>;
    .reg .f32 %f<8>;
    .reg .f64 %d<8>;
    .shared .align 1024 .b8 mem[{SHARED}];
    .local .align 16 .b8 own[{LOCAL}];
"""


@dataclass(frozen=True)
class Kind:
    """An instruction; `{{a}}` in it is the address, `{{t}}` the target of a copy."""

    space: str
    width: int
    text: str
    rows: int = 1
    """Rows of the table for each access: a copy has two."""


def register(width: int) -> tuple[str, str]:
    """The type and the registers of an access of so many bytes."""
    return {
        1: ("u8", "%h0"), 2: ("u16", "%h0"), 4: ("u32", "%x0"), 8: ("v2.u32", "{%x0, %x1}"),
        16: ("v4.u32", "{%x0, %x1, %x2, %x3}"),
    }[width]  # fmt: skip


def plain(space: str, op: str, width: int, how: str = "") -> Kind:
    """A load or store."""
    ty, reg = register(width)
    operands = f"{reg}, [{{a}}]" if op == "ld" else f"[{{a}}], {reg}"
    return Kind(space, width, f"{op}{how}.{space}.{ty} {operands};")


@dataclass(frozen=True)
class Loaded:
    """A kernel and the index of the instruction that is asked about."""

    kernel: Kernel
    kind: Kind

    def run(self, rows: np.ndarray, data_bytes: int = 1 << 17) -> Access | None:
        """All rows of offsets (OFF: the lane does nothing), one access after the other."""
        table = np.ascontiguousarray(rows, np.uint32).ravel()
        data = np.zeros(data_bytes, np.uint8)
        counting = Counting(l1_lines=1024, resident=132)
        launch = self.kernel[1, 32]
        launch.observe(counting, data, table, 0, len(rows) // self.kind.rows)
        assert counting.counts is not None
        found = aggregate.instructions(counting.counts)
        asked = next(i for i in found if i.guard == "@%on")
        mine = [a for a in asked.accesses if a.space == self.kind.space]
        return mine[0] if mine else None


def load(kind: Kind) -> Loaded:
    """The kernel; `data` comes first in memory, so that its offsets are pretended addresses."""
    start = {
        "shared": "mov.u32 %start, mem; add.u32 %at, %at, %start;",
        "local": "mov.u32 %start, own; add.u32 %at, %at, %start;",
        "global": "cvt.u64.u32 %a, %at; add.u64 %a, %a, %data;",
    }[kind.space]
    second = ""
    if kind.rows == 2:
        second = (
            "ld.volatile.global.u32 %to, [%row+128]; mov.u32 %start, mem;add.u32 %to, %to, %start;"
        )
    address = "%a" if kind.space == "global" else "%at"
    text = kind.text.replace("{a}", address).replace("{t}", "%to")
    body = f"""
    ld.param.u64 %data, [table];
    ld.param.u64 %rows, [data];
    ld.param.u32 %i, [first];
    ld.param.u32 %end, [count];
    mov.u32 %lane, %laneid;
    mov.u32 %x0, 3;
    mov.u64 %y0, 1;
    mov.f32 %f0, 0f3f800000;
    mov.f64 %d0, 0d3ff0000000000000;
LOOP:
    setp.ge.u32 %more, %i, %end;
    @%more bra DONE;
    mul.lo.u32 %place, %i, {32 * kind.rows};
    add.u32 %place, %place, %lane;
    mul.wide.u32 %row, %place, 4;
    add.u64 %row, %row, %rows;
    ld.volatile.global.u32 %at, [%row];
    setp.ne.u32 %on, %at, {OFF};
    {second}
    {start}
    @%on {text}
    add.u32 %i, %i, 1;
    bra LOOP;
DONE:
    ret;
}}
"""
    return Loaded(weft.load_ptx(HEAD + body).k, kind)
