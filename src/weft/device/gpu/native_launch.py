"""A launch as one call of machine code: a tenth of what Python takes to look at the arguments.

DLPack's C exchange interface gives type, place, layout and address of an array in some 20 ns, but
only to native code. LLVM is at hand, so this function is compiled with it, once for all kernels:

    launch(*args) -> 0 when launched, REFUSED for all that it does not know, else the driver's error

What it must know of a kernel is a record of 64-bit words, which is the `self` of the function.
Everything lives on the stack, so any number of threads may launch at once, and the interpreter's
lock is let go around the driver's call. It is used for CPython with its lock and for one GPU.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.device import arrays, driver
from weft.device.arguments import Packer
from weft.device.gpu import machine, pending
from weft.device.gpu.call import KernelCall, LaunchSlot

REFUSED = -1
EXCHANGE = "__dlpack_c_exchange_api__"
_ARRAY, _WHOLE, _REAL = range(3)
ROOM = 4096
MANY = 128
"""Bytes of parameters, and parameters, that fit; kernels with more take the slow path. The bytes
are those that every driver takes: the seven tensor maps of a kernel alone are 896."""
CUDA = 2
"""DLPack's number for CUDA memory."""


class NativeLaunch(NamedTuple):
    """The function, and what it needs to stay alive: memory it points to, arrays it is bound to."""

    launch: Callable[..., int]
    kept: object


_HEAD = (
    "count", "launch", "save", "restore", "clear", "as_long", "from_long", "describe",
    "work_stream", "device", "place", "is_fixed", "stream", "function", "param_bytes",
    "param_count", "offsets", "config", "template", "ring", "id",
)  # fmt: skip
"""The words of a record, before those of each argument."""
_ARGUMENT = ("kind", "type", "low", "high", "size", "offset")
"""The words of an argument; an array's dtype is in `low`."""


def _word(names: Sequence[str], name: str) -> int:
    return 8 * names.index(name)


def _text() -> str:
    """The function in LLVM's language; `bytes` keeps its data behind a header of known size."""
    head = "\n".join(
        f"  %{name}.at = getelementptr i8, ptr %record, i64 {_word(_HEAD, name)}\n"
        f"  %{name} = load i64, ptr %{name}.at"
        for name in _HEAD
    )
    calls = (
        "launch",
        "save",
        "restore",
        "clear",
        "as_long",
        "from_long",
        "describe",
        "work_stream",
    )
    pointers = "\n".join(
        f"  %{name}.p = inttoptr i64 %{name} to ptr"
        for name in (*calls, "function", "offsets", "config", "template", "ring")
    )
    words = "\n".join(
        f"  %a.{name}.at = getelementptr i8, ptr %argument, i64 {_word(_ARGUMENT, name)}\n"
        f"  %a.{name} = load i64, ptr %a.{name}.at"
        for name in _ARGUMENT
    )
    return _BODY.format(
        # `bytes.__basicsize__` includes the NUL that ends the data.
        data=bytes.__basicsize__ - 1,
        head=head,
        pointers=pointers,
        words=words,
        first=8 * len(_HEAD),
        step=8 * len(_ARGUMENT),
        # Each parameter is stored as 8 bytes. The next one overwrites the excess of a shorter one;
        # that of the last runs past the block.
        room=ROOM + 16,
        many=MANY,
        refused=REFUSED,
        # A mask: the length of the ring is a power of two.
        kept=pending.RECORDED - 1,
        config_bytes=ctypes.sizeof(driver.CuLaunchConfig),
        stream_at=driver.CuLaunchConfig.stream.offset,
    )


_BODY = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define ptr @run(ptr %self, ptr %args, i64 %n) {{
entry:
  %record = getelementptr i8, ptr %self, i64 {data}
{head}
{pointers}
  %params = alloca i8, i64 {room}, align 16
  %tensor = alloca [6 x i64], align 16
  %overflow = alloca i32
  %found = alloca ptr
  %given = alloca [8 x i64], align 16
  %pointers = alloca [{many} x ptr], align 16
  %as.many = icmp eq i64 %n, %count
  br i1 %as.many, label %begin, label %refuse
begin:
  call void @llvm.memcpy.p0.p0.i64(ptr %params, ptr %template.p, i64 %param_bytes, i1 false)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %packed ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %look, label %all
look:
  %object.at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.at
  %skip = mul i64 %i, {step}
  %skipped = add i64 %skip, {first}
  %argument = getelementptr i8, ptr %record, i64 %skipped
{words}
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load i64, ptr %type.at
  %expected = icmp eq i64 %type, %a.type
  br i1 %expected, label %which, label %refuse
which:
  switch i64 %a.kind, label %refuse [ i64 0, label %array i64 1, label %whole i64 2, label %real ]

array:
  %status = call i32 %describe.p(ptr %object, ptr %tensor)
  %is.described = icmp eq i32 %status, 0
  br i1 %is.described, label %described, label %complained
described:
  %kind.at = getelementptr i8, ptr %tensor, i64 8
  %there = load i64, ptr %kind.at
  %is.there = icmp eq i64 %there, %place
  %rank.at = getelementptr i8, ptr %tensor, i64 16
  %rank = load i32, ptr %rank.at
  %dtype.at = getelementptr i8, ptr %tensor, i64 20
  %dtype = load i32, ptr %dtype.at
  %dtype.wide = zext i32 %dtype to i64
  %is.dtype = icmp eq i64 %dtype.wide, %a.low
  %right = and i1 %is.there, %is.dtype
  %shape.at = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %tensor, i64 32
  %strides = load ptr, ptr %strides.at
  %any.strides = icmp ne ptr %strides, null
  %walk = select i1 %any.strides, i32 %rank, i32 0
  br i1 %right, label %dense, label %refuse
dense:
  %axis = phi i32 [ %walk, %described ], [ %axis.next, %fits ]
  %run = phi i64 [ 1, %described ], [ %run.next, %fits ]
  %is.dense = icmp sle i32 %axis, 0
  br i1 %is.dense, label %address, label %one
one:
  %axis.next = sub i32 %axis, 1
  %axis.wide = zext i32 %axis.next to i64
  %length.at = getelementptr i64, ptr %shape, i64 %axis.wide
  %length = load i64, ptr %length.at
  %stride.at = getelementptr i64, ptr %strides, i64 %axis.wide
  %stride = load i64, ptr %stride.at
  %is.single = icmp eq i64 %length, 1
  %follows = icmp eq i64 %stride, %run
  %is.fine = or i1 %is.single, %follows
  br i1 %is.fine, label %fits, label %refuse
fits:
  %run.next = mul i64 %run, %length
  br label %dense
address:
  %base = load i64, ptr %tensor
  %shift.at = getelementptr i8, ptr %tensor, i64 40
  %shift = load i64, ptr %shift.at
  %start = add i64 %base, %shift
  br label %store

whole:
  %long = call i64 %as_long.p(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %is.long = icmp eq i32 %over, 0
  %above = icmp sge i64 %long, %a.low
  %below = icmp sle i64 %long, %a.high
  %between = and i1 %above, %below
  %is.whole = and i1 %is.long, %between
  br i1 %is.whole, label %store, label %refuse

real:
  %double.at = getelementptr i8, ptr %object, i64 16
  %double = load double, ptr %double.at
  %float = fptrunc double %double to float
  %float.bits = bitcast float %float to i32
  %float.wide = zext i32 %float.bits to i64
  %double.bits = bitcast double %double to i64
  %is.float = icmp eq i64 %a.size, 4
  %real.bits = select i1 %is.float, i64 %float.wide, i64 %double.bits
  br label %store

store:
  %value = phi i64 [ %start, %address ], [ %long, %whole ], [ %real.bits, %real ]
  %to = getelementptr i8, ptr %params, i64 %a.offset
  store i64 %value, ptr %to, align 1
  br label %packed
packed:
  %i.next = add i64 %i, 1
  br label %next

all:
  %fixed = icmp ne i64 %is_fixed, 0
  br i1 %fixed, label %go, label %ask
ask:
  %device.narrow = trunc i64 %device to i32
  %asked = call i32 %work_stream.p(i32 2, i32 %device.narrow, ptr %found)
  %is.known = icmp eq i32 %asked, 0
  br i1 %is.known, label %current, label %complained
current:
  %current.stream = load i64, ptr %found
  br label %go
go:
  %on = phi i64 [ %stream, %all ], [ %current.stream, %current ]
  call void @llvm.memcpy.p0.p0.i64(ptr %given, ptr %config.p, i64 {config_bytes}, i1 false)
  %stream.to = getelementptr i8, ptr %given, i64 {stream_at}
  store i64 %on, ptr %stream.to
  br label %point
point:
  %p = phi i64 [ 0, %go ], [ %p.next, %pointed ]
  %p.more = icmp slt i64 %p, %param_count
  br i1 %p.more, label %pointed, label %fire
pointed:
  %offset.at = getelementptr i64, ptr %offsets.p, i64 %p
  %offset = load i64, ptr %offset.at
  %param = getelementptr i8, ptr %params, i64 %offset
  %pointer.to = getelementptr ptr, ptr %pointers, i64 %p
  store ptr %param, ptr %pointer.to
  %p.next = add i64 %p, 1
  br label %point
fire:
  %turn = load i64, ptr %ring.p
  %turn.next = add i64 %turn, 1
  store i64 %turn.next, ptr %ring.p
  %turn.place = and i64 %turn, {kept}
  %turn.word = add i64 %turn.place, 1
  %note.at = getelementptr i64, ptr %ring.p, i64 %turn.word
  store i64 %id, ptr %note.at
  %thread = call ptr %save.p()
  %code = call i32 %launch.p(ptr %given, ptr %function.p, ptr %pointers, ptr null)
  call void %restore.p(ptr %thread)
  %answer = sext i32 %code to i64
  %result = call ptr %from_long.p(i64 %answer)
  ret ptr %result
complained:
  call void %clear.p()
  br label %refuse
refuse:
  %no = call ptr %from_long.p(i64 {refused})
  ret ptr %no
}}
"""


@functools.cache
def _code() -> tuple[machine.Method, object]:
    return machine.compiled("native launch", b"launch", _text())


def native_launch(
    packer: Packer,
    call: KernelCall,
    stream: int | None,
    args: Sequence[Any],
    bound: bytes | None = None,
) -> NativeLaunch | None:
    """The launch for arguments like these, or one that is `bound` to their parameter block.

    None where it cannot be.
    """
    # With several GPUs the context of the arrays may not be current: `KernelCall` looks first.
    if driver.count() > 1 or not machine.is_known_python():
        return None
    size, offsets = call.layout
    if packer.whole is None or size > ROOM or len(offsets) > MANY:
        return None
    kinds = {type(a) for a in args if hasattr(type(a), EXCHANGE)}
    apis = {arrays.exchange(getattr(kind, EXCHANGE)) for kind in kinds}
    # One function describes all arrays. Without an array it is unknown whose stream is current.
    if len(apis) > 1 or (not apis and stream is None):
        return None
    api = apis.pop() if apis else arrays.NO_EXCHANGE
    # Nothing is left to check: the record has no arguments, and its template is the whole block.
    if bound is not None:
        return make(call, stream, api, [], bound, args)
    words = [_argument(packer, i, value, api) for i, value in enumerate(args)]
    return None if None in words else make(call, stream, api, words, bytes(size))


def _argument(packer: Packer, i: int, value: Any, api: arrays.Exchange) -> Sequence[int] | None:
    """The words of one argument; None for what native code does not take."""
    param, want = packer.params[i], packer.types[i]
    if want is not None and want.pointer:
        if not hasattr(type(value), EXCHANGE):
            return None
        return _ARRAY, id(type(value)), api.dtype(value), 0, 8, param.offset
    if want is None or type(value) not in (int, float):
        return None
    if want.format in "fd":
        return _REAL, id(float), 0, 0, param.size, param.offset
    # `PyLong_AsLongLongAndOverflow` is signed: larger u64 take the slow path.
    low, high = packer.limits(i)
    return _WHOLE, id(int), low, min(high, 2**63 - 1), param.size, param.offset


def address_word(offset: int) -> Sequence[int]:
    """The words of an argument that is an address, as a Python integer."""
    return _WHOLE, id(int), -(2**63), 2**63 - 1, 8, offset


def make(
    call: KernelCall,
    stream: int | None,
    api: arrays.Exchange,
    words: Sequence[Sequence[int] | None],
    params: bytes,
    keep: object = None,
) -> NativeLaunch:
    """The launch of a parameter block, whose open arguments `words` describe."""
    python, slot = ctypes.pythonapi, LaunchSlot(call)
    template = ctypes.create_string_buffer(params, ROOM)
    offsets = (ctypes.c_int64 * MANY)(*call.layout.offsets)
    head = {
        "count": len(words),
        "launch": machine.address(driver.library().cuLaunchKernelEx),
        "save": machine.address(python.PyEval_SaveThread),
        "restore": machine.address(python.PyEval_RestoreThread),
        "clear": machine.address(python.PyErr_Clear),
        "as_long": machine.address(python.PyLong_AsLongLongAndOverflow),
        "from_long": machine.address(python.PyLong_FromLong),
        "describe": api.describe,
        "work_stream": api.work_stream,
        "device": call.device,
        "place": CUDA | call.device << 32,
        "is_fixed": stream is not None,
        "stream": stream or 0,
        "function": call.function,
        "param_bytes": call.layout.size,
        "param_count": len(call.layout.offsets),
        "offsets": ctypes.addressof(offsets),
        "config": ctypes.addressof(slot.config),
        "template": ctypes.addressof(template),
        "ring": ctypes.addressof(pending.ring),
        "id": pending.number(call.name),
    }
    numbers = [*(head[name] for name in _HEAD), *(n for row in words for n in row or ())]
    record = struct.pack(f"<{len(numbers)}q", *numbers)
    return NativeLaunch(machine.function(_code()[0], record), (slot, template, offsets, keep))
