"""A check that arrays are laid out like earlier ones, as one call of machine code.

Reading dtype, device, shape, strides and address of a tensor in Python takes ten times as long as
comparing them: DLPack's C exchange interface gives all of them in some 20 ns. The function is
compiled once, as in `native_launch.py`, and gets what it compares with as its `self`:

    guard(*arrays) -> 1 where all are of the same type and layout as before, else 0
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

from weft.device import arrays, driver
from weft.device.gpu import machine, native_launch

Guard = Callable[..., int]

_HEAD = ("count", "describe", "clear", "from_long", "none", "first_type", "second_type")
"""The words of a record, before those of each array."""
_ARRAY = ("is_none", "place", "rank_and_dtype", "aligned", "sizes")
"""The words of an array; `sizes` is the address of its shape, followed by its strides."""

_BODY = """
define ptr @run(ptr %self, ptr %args, i64 %n) {{
entry:
  %record = getelementptr i8, ptr %self, i64 {data}
{head}
  %describe.p = inttoptr i64 %describe to ptr
  %clear.p = inttoptr i64 %clear to ptr
  %from_long.p = inttoptr i64 %from_long to ptr
  %tensor = alloca [6 x i64], align 16
  %as.many = icmp eq i64 %n, %count
  br i1 %as.many, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %same ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %look, label %yes
look:
  %object.at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.at
  %skip = mul i64 %i, {step}
  %skipped = add i64 %skip, {first}
  %array = getelementptr i8, ptr %record, i64 %skipped
{words}
  %object.word = ptrtoint ptr %object to i64
  %object.none = icmp eq i64 %object.word, %none
  %wants.none = icmp ne i64 %a.is_none, 0
  %both = icmp eq i1 %object.none, %wants.none
  br i1 %both, label %kind, label %no
kind:
  br i1 %object.none, label %same, label %typed
typed:
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load i64, ptr %type.at
  %is.first = icmp eq i64 %type, %first_type
  %is.second = icmp eq i64 %type, %second_type
  %is.known = or i1 %is.first, %is.second
  br i1 %is.known, label %ask, label %no
ask:
  %status = call i32 %describe.p(ptr %object, ptr %tensor)
  %is.described = icmp eq i32 %status, 0
  br i1 %is.described, label %described, label %complained
described:
  %base = load i64, ptr %tensor
  %place.at = getelementptr i8, ptr %tensor, i64 8
  %place = load i64, ptr %place.at
  %rank.at = getelementptr i8, ptr %tensor, i64 16
  %rank.dtype = load i64, ptr %rank.at
  %rank = and i64 %rank.dtype, 4294967295
  %shape.at = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %tensor, i64 32
  %strides = load ptr, ptr %strides.at
  %shift.at = getelementptr i8, ptr %tensor, i64 40
  %shift = load i64, ptr %shift.at
  %start = add i64 %base, %shift
  %low = and i64 %start, 15
  %same.low = icmp eq i64 %low, %a.aligned
  %same.place = icmp eq i64 %place, %a.place
  %same.rank = icmp eq i64 %rank.dtype, %a.rank_and_dtype
  %any.strides = icmp ne ptr %strides, null
  %c1 = and i1 %same.low, %same.place
  %c2 = and i1 %same.rank, %any.strides
  %c3 = and i1 %c1, %c2
  %sizes = inttoptr i64 %a.sizes to ptr
  br i1 %c3, label %dims, label %no
dims:
  %d = phi i64 [ 0, %described ], [ %d.next, %equal ]
  %inside = icmp slt i64 %d, %rank
  br i1 %inside, label %dim, label %same
dim:
  %size.at = getelementptr i64, ptr %shape, i64 %d
  %size = load i64, ptr %size.at
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %stride = load i64, ptr %stride.at
  %want.size.at = getelementptr i64, ptr %sizes, i64 %d
  %want.size = load i64, ptr %want.size.at
  %behind = add i64 %d, %rank
  %want.stride.at = getelementptr i64, ptr %sizes, i64 %behind
  %want.stride = load i64, ptr %want.stride.at
  %same.size = icmp eq i64 %size, %want.size
  %same.stride = icmp eq i64 %stride, %want.stride
  %c4 = and i1 %same.size, %same.stride
  br i1 %c4, label %equal, label %no
equal:
  %d.next = add i64 %d, 1
  br label %dims
same:
  %i.next = add i64 %i, 1
  br label %next
complained:
  call void %clear.p()
  br label %no
yes:
  %one = call ptr %from_long.p(i64 1)
  ret ptr %one
no:
  %zero = call ptr %from_long.p(i64 0)
  ret ptr %zero
}}
"""


def _loads(words: Sequence[str], base: str, prefix: str) -> str:
    return "\n".join(
        f"  %{prefix}{name}.at = getelementptr i8, ptr %{base}, i64 {8 * i}\n"
        f"  %{prefix}{name} = load i64, ptr %{prefix}{name}.at"
        for i, name in enumerate(words)
    )


@functools.cache
def _code() -> tuple[Any, object]:
    text = _BODY.format(
        # `bytes.__basicsize__` includes the NUL that ends the data.
        data=bytes.__basicsize__ - 1, head=_loads(_HEAD, "record", ""),
        words=_loads(_ARRAY, "array", "a."), first=8 * len(_HEAD), step=8 * len(_ARRAY),
    )  # fmt: skip
    return machine.compiled("native guard", b"guard", text)


def guard(
    values: Sequence[Any], types: tuple[type, type], keep: list[object] | None = None
) -> Guard:
    """The check for arrays like these (None for one that is left out) of one of two types.

    The check always returns 0 where the arrays or the interpreter are not supported. Objects that
    must live as long as the check are added to `keep`; without it, they live indefinitely.
    """
    exchange = getattr(types[0], native_launch.EXCHANGE, None)
    # With several GPUs the launch behind the guard is not native either (`addressed_launch`).
    if exchange is None or not machine.is_known_python() or driver.count() != 1:
        return never
    api = arrays.exchange(exchange)
    python = ctypes.pythonapi
    numbers = [
        len(values), api.describe, machine.address(python.PyErr_Clear),
        machine.address(python.PyLong_FromLong), id(None), id(types[0]), id(types[1]),
    ]  # fmt: skip
    kept: list[object] = []
    for value in values:
        if value is None:
            numbers += [1, 0, 0, 0, 0]
            continue
        shape = (*value.shape, *value.stride())
        sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        kept.append(sizes)
        number = value.device.index or 0
        rank_and_dtype = len(value.shape) | api.dtype(value) << 32
        # Device type and number, as one word of DLPack's tensor.
        place = native_launch.CUDA | number << 32
        # The alignment is part of a plan: its kernels load 16 bytes at once where they can.
        numbers += [0, place, rank_and_dtype, value.data_ptr() % 16, ctypes.addressof(sizes)]
    record = struct.pack(f"<{len(numbers)}q", *(_signed(n) for n in numbers))
    (_KEPT if keep is None else keep).append(kept)
    return machine.function(_code()[0], record)


def never(*values: Any) -> int:
    """A check that always fails."""
    return 0


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_KEPT: list[object] = []
"""Memory that records point at: some hundred bytes for each plan that was ever made."""
