"""The fast path of a launch in Python: a function generated for one kernel, configuration and GPU.

Most launches take arrays like those of the launch before. It is then enough to check the type,
dtype, contiguity and device of each array and the type of each number. The checks are generated
as one expression and compiled, as dataclasses do: a loop over the arguments takes as long as the
driver does. Arguments that do not pass take the slow path, which raises the error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.device import arrays
from weft.device.arguments import Packer
from weft.device.gpu import pending, streams
from weft.device.gpu.call import KernelCall, LaunchSlot

Run = Callable[[Sequence[Any]], bool]
"""Arguments -> whether it has launched; False for arguments that it does not know."""

_CHECKS = {
    "torch": "{a}.is_contiguous() and {a}.get_device() == device",
    "cupy": "{a}.flags.c_contiguous and {a}.device.id == device",
}
_ADDRESS = {"torch": "{a}.data_ptr()", "cupy": "{a}.data.ptr"}

_WHOLE = frozenset({int, *(np.dtype(c).type for c in "bBhHiIlL")})
_REAL = frozenset({int, float, np.float16, np.float32, np.float64})
"""Types that `struct` packs as an integer, or as a floating-point number, of the parameter."""

_SOURCE = """
def launch(args):
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
    code = driver_launch(*slot.given)
    if code:
        failed(code, slot)
    give(slot)
    return True
"""


class FastLaunch:
    """The fast path of one plan, and the array types that it accepts so far."""

    def __init__(self, packer: Packer, call: KernelCall, stream: int | None, library: str) -> None:
        self._library = library
        self._accepted = [(set[type](), set[object]()) for _ in packer.params]
        self.run: Run = _compile(packer, call, stream, library, self._accepted)

    def learn(self, packer: Packer, args: Sequence[Any]) -> None:
        """Accept the types of arrays that the slow path has checked."""
        for value, want, (types, dtypes) in zip(args, packer.types, self._accepted, strict=True):
            if want is not None and want.pointer and arrays.library(value) == self._library:
                types.add(type(value))
                dtypes.add(value.dtype)


def fast_launch(
    packer: Packer, call: KernelCall, stream: int | None, library: str
) -> FastLaunch | None:
    """The fast path of a kernel whose parameters are all pointers and plain numbers."""
    if packer.whole is None or library not in _CHECKS:
        return None
    return FastLaunch(packer, call, stream, library)


def _compile(
    packer: Packer,
    call: KernelCall,
    stream: int | None,
    library: str,
    accepted: Sequence[tuple[set[type], set[object]]],
) -> Run:
    assert packer.whole is not None
    names = [f"a{i}" for i in range(len(packer.params))]
    namespace: dict[str, Any] = {
        # What `struct` raises for a number out of range; the slow path then explains it.
        "REFUSED": (struct.error, OverflowError, TypeError),
        "current": streams.getter(library),
        "device": call.device,
        "failed": call.failed,
        "give": call.idle.append,
        "driver_launch": call.launcher,
        "make": lambda: LaunchSlot(call),
        "name": call.name,
        "note": pending.launched.append,
        "pack_into": packer.whole.pack_into,
        # `list.pop` and `append` are atomic, so threads share the idle slots without a lock.
        "take": call.idle.pop,
    }
    checks: list[str] = []
    values: list[str] = []
    for i, (name, want) in enumerate(zip(names, packer.types, strict=True)):
        if want is not None and want.pointer:
            namespace[f"types{i}"], namespace[f"dtypes{i}"] = accepted[i]
            checks.append(f"type({name}) in types{i} and {name}.dtype in dtypes{i}")
            checks.append(_CHECKS[library].format(a=name))
            values.append(_ADDRESS[library].format(a=name))
        else:
            namespace[f"types{i}"] = _REAL if want is not None and want.format in "fd" else _WHOLE
            checks.append(f"type({name}) in types{i}")
            values.append(name)
    text = _SOURCE.format(
        count=len(names),
        # The comma at the end unpacks a single argument as well.
        names=", ".join(names) + ",",
        checks=" and ".join(checks),
        values=", ".join(values),
        stream="current(device)" if stream is None else repr(stream),
    )
    exec(compile(text, f"<launch of {call.name}>", "exec"), namespace)
    made: Run = namespace["launch"]
    return made
