"""Instructions that PTX does not have: each is rejected with its line, before code is generated."""

from __future__ import annotations

import numpy as np
import pytest

import weft

REFUSED = {
    "vote without a mask": "vote.sync.any.pred %p1, %p0;",
    "a load that releases": "ld.release.gpu.global.u32 %r0, [%a];",
    "a store that acquires": "st.acquire.gpu.global.u32 [%a], %r0;",
    "A of 4 bits by columns": "wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r0}, [%a];",
    "B of 4 bits by rows": "wmma.load.b.sync.aligned.row.m8n8k32.global.u4 {%r0}, [%a];",
    "A of 1 bit by columns": "wmma.load.a.sync.aligned.col.m8n8k128.global.b1 {%r0}, [%a];",
    "B of 1 bit by rows": "wmma.load.b.sync.aligned.row.m8n8k128.global.b1 {%r0}, [%a];",
}
ACCEPTED = {
    "vote": "vote.sync.any.pred %p1, %p0, 0xffffffff;",
    "A of 4 bits by rows": "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r0}, [%a];",
    "B of 1 bit by columns": "wmma.load.b.sync.aligned.col.m8n8k128.global.b1 {%r0}, [%a];",
}
KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 x) {{
    .reg .u64 %a;
    .reg .u32 %r<2>;
    .reg .pred %p<2>;
    ld.param.u64 %a, [x];
    setp.ne.u64 %p0, %a, 0;
    {line}
    ret;
}}
"""


def _compile(line: str) -> None:
    weft.load_ptx(KERNEL.format(line=line)).k[1, 32](np.zeros(1024, np.uint32))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises((weft.PtxError, weft.UnsupportedInstruction)) as caught:
        _compile(REFUSED[name])
    assert REFUSED[name].partition(" ")[0] in str(caught.value)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    _compile(ACCEPTED[name])
