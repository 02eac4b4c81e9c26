"""Runs a few PTX instructions on every thread of one block, with per-thread operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import weft

_BITS = {1: "8", 2: "16", 4: "32", 8: "64"}


def run(
    body: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[type],
    *,
    memory: np.ndarray | None = None,
    shared: int = 16,
    uniform: bool = False,
    threads: int | None = None,
    declare: str = "",
) -> list[np.ndarray]:
    """`%a0 ...` are a thread's inputs, `%d0 ...` its outputs, which start as 0xEE bytes.

    `%memory` is the address of `memory`, `pool` is shared memory, `%i` the thread; `%p0 ... %p9`,
    `%r0 ... %r99` (b32), `%l0 ... %l99` (b64) are free. With `uniform`, input i is loaded from
    its first element by all threads, so that the code sees one value for the warp.
    """
    n = threads or len(inputs[0])
    arrays = [np.ascontiguousarray(x) for x in inputs]
    results = [np.full(n, 0xEE, np.uint8).repeat(np.dtype(t).itemsize).view(t) for t in outputs]
    space = np.zeros(1, np.uint64) if memory is None else memory
    pointers = [*arrays, *results, space]
    lines = []
    for i, x in enumerate(arrays):
        bits = _BITS[x.itemsize]
        lines.append(f".reg .b{bits} %a{i};")
        lines.append(_address(i, x.itemsize, 0 if uniform else None))
        lines.append(f"ld.global.b{bits} %a{i}, [%at];")
    for j, r in enumerate(results):
        bits = _BITS[r.itemsize]
        lines.append(f".reg .b{bits} %d{j};")
        lines.append(_address(len(arrays) + j, r.itemsize, None))
        lines.append(f"ld.global.b{bits} %d{j}, [%at];")
    lines.append(f"ld.param.u64 %memory, [p{len(pointers) - 1}];")
    lines.append(body)
    for j, r in enumerate(results):
        lines.append(_address(len(arrays) + j, r.itemsize, None))
        lines.append(f"st.global.b{_BITS[r.itemsize]} [%at], %d{j};")
    params = ", ".join(f".param .u64 p{i}" for i in range(len(pointers)))
    text = f"""
.version 8.3
.target sm_90
.address_size 64
.visible .entry k({params}) {{
.reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<100>; .reg .b64 %l<100>;
.reg .b32 %i; .reg .b64 %at; .reg .b64 %off; .reg .b64 %memory;
.shared .align 128 .b8 pool[{shared}];
{declare}
mov.u32 %i, %tid.x;
{chr(10).join(lines)}
ret;
}}
"""
    weft.load_ptx(text).k[1, n](*pointers)
    return results


def _address(param: int, size: int, fixed: int | None) -> str:
    load = f"ld.param.u64 %at, [p{param}];"
    if fixed is not None:
        return f"{load} add.u64 %at, %at, {fixed * size};"
    return f"{load} mul.wide.u32 %off, %i, {size}; add.u64 %at, %at, %off;"
