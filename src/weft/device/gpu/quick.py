"""The short way to a launch: a function written for one kernel, one shape and one GPU.

Most launches are given arrays like those of the launch before. What must be looked at is then
known: the type, dtype, contiguity and device of each array, the type of each number. The checks
are written out as one expression and compiled, as dataclasses are: a loop over the arguments
takes as long as the driver does. Whatever does not pass takes the long way, which explains it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.device import arrays
from weft.device.arguments import Packer
from weft.device.gpu import pending, streams
from weft.device.gpu.call import Call, Slot

Quick = Callable[[Sequence[Any]], bool]
"""Arguments -> launched? False for all that it does not know."""

_CHECKS = {
    "torch": "{a}.is_contiguous() and {a}.get_device() == device",
    "cupy": "{a}.flags.c_contiguous and {a}.device.id == device",
}
_ADDRESS = {"torch": "{a}.data_ptr()", "cupy": "{a}.data.ptr"}

_WHOLE = frozenset({int, *(np.dtype(c).type for c in "bBhHiIlL")})
_REAL = frozenset({int, float, np.float16, np.float32, np.float64})
"""Types that `struct` packs as an integer, or as a floating-point number, of the parameter."""

_SOURCE = """
def quick(args):
    if len(args) != {count}:
        return False
    {names} = args
    if not ({checks}):
        return False
    stream = {stream}
    try:
        slot = take()
    except IndexError:
        slot = make()
    try:
        pack_into(slot.buffer, 0, {values})
    except REFUSED:
        give(slot)
        return False
    if slot.stream != stream:
        slot.config.stream = slot.stream = stream
    note(name)
    code = launch(*slot.given)
    if code:
        failed(code, slot)
    give(slot)
    return True
"""


class Shortcut:
    """The quick launch of one plan, and the arrays that it knows by now."""

    def __init__(self, packer: Packer, call: Call, stream: int | None, library: str) -> None:
        self._library = library
        self._known: list[tuple[set[type], set[object]]] = [(set(), set()) for _ in packer.params]
        self.run: Quick = _compile(packer, call, stream, library, self._known)

    def learn(self, packer: Packer, args: Sequence[Any]) -> None:
        """Takes note of arrays that the long way found to be right."""
        for value, want, (types, dtypes) in zip(args, packer.types, self._known, strict=True):
            if want is not None and want.pointer and arrays.library(value) == self._library:
                types.add(type(value))
                dtypes.add(value.dtype)


def shortcut(packer: Packer, call: Call, stream: int | None, library: str) -> Shortcut | None:
    """The quick way for kernels whose parameters are all pointers and plain numbers."""
    if packer.whole is None or library not in _CHECKS:
        return None
    return Shortcut(packer, call, stream, library)


def _compile(
    packer: Packer,
    call: Call,
    stream: int | None,
    library: str,
    known: Sequence[tuple[set[type], set[object]]],
) -> Quick:
    assert packer.whole is not None
    names = [f"a{i}" for i in range(len(packer.params))]
    room: dict[str, Any] = {
        "REFUSED": (struct.error, OverflowError, TypeError),
        "current": streams.getter(library),
        "device": call.device,
        "failed": call.failed,
        "give": call.idle.append,
        "launch": call.launcher,
        "make": lambda: Slot(call),
        "name": call.name,
        "note": pending.launched.append,
        "pack_into": packer.whole.pack_into,
        "take": call.idle.pop,
    }
    checks: list[str] = []
    values: list[str] = []
    for i, (name, want) in enumerate(zip(names, packer.types, strict=True)):
        if want is not None and want.pointer:
            room[f"types{i}"], room[f"dtypes{i}"] = known[i]
            checks.append(f"type({name}) in types{i} and {name}.dtype in dtypes{i}")
            checks.append(_CHECKS[library].format(a=name))
            values.append(_ADDRESS[library].format(a=name))
        else:
            room[f"types{i}"] = _REAL if want is not None and want.format in "fd" else _WHOLE
            checks.append(f"type({name}) in types{i}")
            values.append(name)
    text = _SOURCE.format(
        count=len(names),
        names=", ".join(names) + ",",
        checks=" and ".join(checks),
        values=", ".join(values),
        stream="current(device)" if stream is None else repr(stream),
    )
    exec(compile(text, f"<launch of {call.name}>", "exec"), room)
    made: Quick = room["quick"]
    return made
