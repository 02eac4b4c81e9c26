"""The code of a kernel grows with the kernel, not with its square.

LLVM's work on a value is the number of places where it is joined, and on a switch the number of
its targets; both are counted here, for they are the same on a busy machine.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from weft.device import jit
from weft.device.sim.emit.generate import generate
from weft.ptx.parse import parse

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 flags)
{
    .reg .pred %p<200>;
    .reg .b32 %r<200>;
    .reg .b64 %rd<200>;
    ld.param.u64 %rd0, [flags];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.u32 %r1, [%rd2];
"""

DIAMOND = """
    setp.lt.s32 %p{a}, %r1, {n};
    @%p{a} bra THEN{n};
    setp.gt.s32 %p{b}, %r1, 3;
    bra.uni JOIN{n};
THEN{n}:
    setp.lt.s32 %p{b}, %r1, 5;
JOIN{n}:
    selp.b32 %r1, %r1, {n}, %p{b};
"""
"""A predicate that either side of a branch writes for its own lanes."""

SCALAR = """
    ld.global.u32 %r{x}, [%rd0];
    bar.sync 0;
    setp.lt.s32 %p{a}, %r1, {n};
    @%p{a} bra PAST{n};
    st.global.u32 [%rd2], %r{x};
PAST{n}:
"""
"""A number that all lanes share, from ahead of a barrier to its end."""

SPIN = """
    setp.lt.s32 %p{a}, %r1, {n};
    @%p{a} bra PAST{n};
WAIT{n}:
    ld.volatile.global.u32 %r{x}, [%rd2];
    setp.eq.s32 %p{b}, %r{x}, 0;
    @%p{b} bra WAIT{n};
PAST{n}:
"""
"""A loop in which some lanes wait for somebody."""

TAIL = "    st.global.u32 [%rd2], %r1;\n{uses}    ret;\n}}\n"


GUARDED = """
    add.s32 %r{x}, %r1, {n};
    setp.lt.s32 %p{a}, %r{x}, 7;
    @%p{a} bra PAST{n};
    mul.wide.s32 %rd{x}, %r{x}, 4;
    add.s64 %rd{x}, %rd{x}, %rd2;
    st.global.u32 [%rd{x}], %r1;
PAST{n}:
"""
"""A store behind a branch: registers that live inside of one block."""


def code(step: str, steps: int) -> str:
    """The IR of a kernel of `steps` steps."""
    body = "".join(step.format(n=n, a=2 * n, b=2 * n + 1, x=n + 2) for n in range(steps))
    uses = "".join(f"    st.global.u32 [%rd2], %r{n + 2};\n" for n in range(steps))
    text = HEAD + body + TAIL.format(uses="" if step in (DIAMOND, GUARDED) else uses)
    ir, _ = generate(parse(text), "k", (64, 1, 1))
    return ir


def joins_and_targets(step: str, steps: int) -> int:
    """Values that are joined in the code of `steps` steps, and the targets of its switches."""
    module = llvm.parse_assembly(code(step, steps))
    jit.host()
    machine = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.run(module.get_function("warp"), builder)
    warp = str(module.get_function("warp"))
    return warp.count(" = phi ") + sum(
        line.lstrip().startswith("i32 ") and "label" in line for line in warp.splitlines()
    )


@pytest.mark.parametrize("step", [DIAMOND, SCALAR, SPIN], ids=["diamond", "scalar", "spin"])
def test_twice_the_kernel_is_twice_the_work(step: str) -> None:
    few, many = (joins_and_targets(step, n) for n in (20, 40))
    assert many < 2.5 * few


def test_a_register_of_one_block_is_not_set_at_the_start() -> None:
    """For a slot that is written at the start LLVM visits all blocks of the kernel."""
    few, many = (code(GUARDED, n).count(" zeroinitializer, ptr ") for n in (20, 40))
    assert many == few
