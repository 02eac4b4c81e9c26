"""A kernel of a PTX module, compiled for one block shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from weft import cache, progress
from weft.device import jit
from weft.device.sim.code_info import CodeInfo
from weft.device.version import generator

if TYPE_CHECKING:
    from weft.device.base import Dim3
    from weft.device.sim.run.observation import Observer
    from weft.ptx.model import Module


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code for one kernel and block shape."""

    info: CodeInfo
    code: jit.Code


def compile_kernel(
    parsed: Callable[[], Module],
    text: str,
    entry: str,
    shape: Dim3,
    *,
    fast: bool = False,
    observer: Observer | None = None,
    draft: bool = False,
) -> Compiled:
    """Takes the code from the cache, or makes it; only then `parsed` is asked for the module."""
    seen = observer.key if observer is not None else ""
    how = (fast, seen, *(("draft",) if draft else ()))
    # `jit.identity` names the CPU: code for another one may not run here.
    key = cache.key("sim", generator(), jit.identity(), text, entry, repr(shape), *how)
    if (data := cache.get("sim", key)) and (found := _load(data)):
        return found
    from weft.device.sim.emit.generate import generate  # cached code needs no generator

    with progress.compiling(f"{entry} for the simulated GPU"):
        ir, info = generate(parsed(), entry, shape, fast=fast, observer=observer)
        head = json.dumps(asdict(info)).encode()
        code = jit.compile_object(ir, draft=draft)
    cache.put("sim", key, len(head).to_bytes(4, "little") + head + code)
    return Compiled(info, jit.load_object(code))


def _load(data: bytes) -> Compiled | None:
    """What an entry of the cache holds; None for one that cannot be loaded."""
    size = int.from_bytes(data[:4], "little")
    try:
        info = CodeInfo(**json.loads(data[4 : 4 + size]))
        return Compiled(info, jit.load_object(data[4 + size :]))
    except (ValueError, TypeError, jit.BadObject):
        return None
