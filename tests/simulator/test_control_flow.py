"""Branches, switches and loops of the IR builder: what they compute, and how their arms join."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from weft.ir import Builder, IrFunction, IrModule, Val

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def run(body: Callable[[Builder, Val], Val | None], x: int) -> int:
    """`i32 f(i32 x)` from a body that gives the result or returns by itself."""
    module = IrModule()
    fn = IrFunction("f", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "i32", 0, "%x")]
    out = body(b, fn.params[0])
    if out is not None:
        b.ret(out)
    module.functions["f"] = fn.text().replace("define internal", "define")
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(engine.get_function_address("f"))
    return int(call(x))


def one_value(b: Builder, x: Val) -> Val:
    return b.either(x.sgt(10), lambda: x * 2, lambda: x + 100)


def several_values(b: Builder, x: Val) -> Val:
    low, high = b.either(x.sgt(10), lambda: [x, x + 1], lambda: [x + 5, x * x])
    return low * 1000 + high


def no_value(b: Builder, x: Val) -> Val:
    place = b.alloca("i32")
    b.either(x.sgt(10), lambda: b.store(x, place), lambda: b.store(x * 3, place), likely=True)
    return b.load("i32", 0, place)


def an_arm_returns(b: Builder, x: Val) -> Val:
    def leave() -> Val:
        b.ret(x - 1)
        return x

    return b.either(x.sgt(10), leave, lambda: x + 7) * 2


def all_arms_return(b: Builder, x: Val) -> None:
    b.either(x.sgt(10), lambda: b.ret(x), lambda: b.ret(-x))


def when_returns(b: Builder, x: Val) -> Val:
    with b.when(x.eq(3), rare=True):
        b.ret(b.integer("i32", 33))
    return x


def nested(b: Builder, x: Val) -> Val:
    return b.either(
        x.sgt(10),
        lambda: b.either(x.sgt(20), lambda: x + 1, lambda: x + 2),
        lambda: b.either(x.sgt(5), lambda: x + 3, lambda: x + 4),
    )


def switched(b: Builder, x: Val) -> Val:
    arms = {0: lambda: x + 10, 3: lambda: x + 20}
    return b.switch(x, arms, lambda: -x)


def switch_returns(b: Builder, x: Val) -> None:
    b.switch(x, {1: lambda: b.ret(x + 1)}, lambda: b.ret(x + 2))


def bits(b: Builder, x: Val) -> Val:
    """Set bits, by clearing the lowest until none is left."""
    count = b.alloca("i32")
    b.store(b.integer("i32", 0), count)

    def clear(left: Val) -> Val:
        b.store(b.load("i32", 0, count) + 1, count)
        return left & (left - 1)

    last = b.while_(x, lambda left: left.ne(0), clear)
    return b.load("i32", 0, count) + last


def doubled(b: Builder, x: Val) -> Val:
    """The last value that was not yet above 100."""
    return b.until(x, lambda v: (v * 2, (v * 2).sgt(100)))


def forever(b: Builder, x: Val) -> None:
    i = b.alloca("i32")
    b.store(b.integer("i32", 0), i)
    with b.forever() as again:
        now = b.load("i32", 0, i)
        b.store(now + 1, i)
        with b.when((now & 1).ne(0)):
            b.jump(again)  # odd numbers are passed over
        with b.when(now.sge(x)):
            b.ret(now)


CASES = [
    (one_value, {11: 22, 10: 110}),
    (several_values, {11: 11012, 4: 9016}),
    (no_value, {11: 11, 2: 6}),
    (an_arm_returns, {11: 10, 2: 18}),
    (all_arms_return, {11: 11, 2: -2}),
    (when_returns, {3: 33, 4: 4}),
    (nested, {21: 22, 11: 13, 6: 9, 1: 5}),
    (switched, {0: 10, 3: 23, 5: -5}),
    (switch_returns, {1: 2, 5: 7}),
    (bits, {0: 0, 7: 3, -1: 32}),
    (doubled, {1: 64, 60: 60}),
    (forever, {0: 0, 3: 4, 8: 8}),
]


@pytest.mark.parametrize("body, expected", CASES, ids=[f.__name__ for f, _ in CASES])
def test_control_flow(body: Callable[[Builder, Val], Val | None], expected: dict[int, int]) -> None:
    assert {x: run(body, x) for x in expected} == expected


def test_code_after_the_end_of_a_block_is_refused() -> None:
    b = Builder(IrModule(), IrFunction("f", [], "void", "#0"))
    b.ret()
    with pytest.raises(AssertionError, match="unreachable: fence"):
        b.emit("fence seq_cst")
