"""Approximate functions on all 2^32 inputs: kernels that leave a hash for every 256 results.

Both devices execute the same PTX, hash included, so nothing but the hashes has to be compared. A
single wrong bit always changes its hash (each step is invertible); two wrong results in one hash
hide each other once in 2^32.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ptx.isa import rows

EACH = 256
"""Results a hash."""
THREADS = 1 << 20
"""Threads of a launch; it covers THREADS * EACH inputs."""
LAUNCHES = (1 << 32) // (THREADS * EACH)
BLOCK = 256


def opcodes() -> Iterator[str]:
    """The approximate functions of one f32, and those that look at the high word of an f64."""
    for row in rows():
        if "approx" in row.syntax and not row.warp and len(row.operands) == 2:
            for kind in sorted(row.modifiers["type"] & {"f32", "f64"}):
                for ftz in (".ftz", "") if "{.ftz}" in row.syntax else ("",):
                    base = row.syntax.split()[0].replace("{.ftz}", ftz)
                    yield base.replace(".type", f".{kind}")


def kernel(name: str, opcode: str) -> str:
    """PTX of `name(out, first)`: thread i takes first + i, first + i + THREADS, ..."""
    wide = opcode.endswith("f64")
    step = (
        f"mov.b64 %x, {{%h, %n}}; {opcode} %y, %x; mov.b64 {{%lo, %hi}}, %y;"
        "mad.lo.u32 %h, %h, 0x9E3779B1, %lo; mad.lo.u32 %h, %h, 0x9E3779B1, %hi;"
        if wide
        else f"{opcode} %f, %n; mad.lo.u32 %h, %h, 0x9E3779B1, %f;"
    )
    return f""".visible .entry {name}(.param .u64 p_out, .param .u32 p_first) {{
.reg .b32 %i, %block, %size, %n, %h, %f, %lo, %hi, %k; .reg .b64 %x, %y, %at; .reg .pred %p;
mov.u32 %i, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x;
mad.lo.u32 %i, %block, %size, %i;
ld.param.u32 %n, [p_first];
add.u32 %n, %n, %i;
mov.u32 %h, 0; mov.u32 %k, 0;
AGAIN:
{step}
add.u32 %n, %n, {THREADS};
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, {EACH};
@%p bra AGAIN;
ld.param.u64 %at, [p_out];
mad.wide.u32 %at, %i, 4, %at;
st.global.u32 [%at], %h;
ret; }}
"""
