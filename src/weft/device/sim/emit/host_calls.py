"""Calls that the host carries out: once per warp, for all lanes that make the call.

    int32 host(int32 service, void* context, void* worker, void* slot, int32 warp, int32 lanes,
               void* local, int64 local_bytes, int64 values[arguments][32])

`lanes` are the bits of the lanes that call. The result of a lane is left in values[0][lane]. The
result is 0, or Fault.* + 256 * lane for a call that ends the launch.
"""

from __future__ import annotations

from weft.device.sim.layout import ContextFields, WorkerFields
from weft.device.sim.memory.accessing import Accessing
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Reg, Sink, Sym
from weft.ptx.services import NUMBERS

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


def call(e: Accessing, ins: Instruction) -> None:
    """`call result, function, arguments...`: what linking leaves of a call to the host."""
    b = e.b
    result, function, *arguments = ins.operands
    assert isinstance(function, Sym)
    values = e.memory.buffer(len(arguments))
    for i, argument in enumerate(arguments):
        kind = e.program.function.registers[argument.name] if isinstance(argument, Reg) else "b64"
        lanes = b.resize(b.bits(e.read_lanes(argument, kind)), "i64")
        b.store(lanes, b.at(values, 256 * i), 8)
    lanes = e.executing()
    number = b.integer("i32", NUMBERS[function.name])
    site = b.integer("i64", ins.index)
    size = b.integer("i64", e.program.local_bytes)
    host = b.helper(
        "host", [_I32, _P, _P, _P, _I32, _I32, _P, _I64, _P, _I64], ("i1", 0), _call_host
    )
    ok = host(number, e.context, e.worker, e.slot, e.warp, lanes, e.local, size, values, site)
    e.abort_unless(ok)
    e.forget_mask()
    if not isinstance(result, Sink):
        e.write(result, b.load("i64", 32, values, 8))


def _call_host(b: Builder, args: list[Val]) -> Val:
    """Call the host unless no lane runs; record the error that it reports."""
    lanes, worker, site = args[5], args[2], args[9]
    # The call enters Python and acquires its lock, so it is skipped where no lane calls.
    with b.when(lanes.eq(0), rare=True):
        b.ret(b.integer("i1", 1))
    host = b.load("ptr", 0, b.at(args[1], ContextFields.HOST))
    arguments = ", ".join(a.typed for a in args[:9])
    status = b.val("i32", 0, f"call i32 {host.ref}({arguments})")
    fine = status.eq(0)
    with b.when(fine ^ 1, rare=True):
        fields = {
            WorkerFields.ERROR: (status & 255).zext("i64"),
            WorkerFields.ERROR_LANE: (status >> 8).zext("i64"),
            WorkerFields.ERROR_SITE: site,
        }
        for at, v in fields.items():
            b.store(v, b.at(worker, at))
    return fine
