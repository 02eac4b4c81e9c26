"""A kernel of a PTX module, compiled for one block shape."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import weft.ir
from weft import cache
from weft.device.sim import jit, validate
from weft.device.sim.emit import WarpEmitter
from weft.device.sim.layout import Slot
from weft.device.sim.program import Program, prepare
from weft.device.sim.runtime import emit_run
from weft.device.sim.special import Shape
from weft.ir import IrModule
from weft.ptx.model import Module


@functools.cache
def generator() -> str:
    """Which weft writes the code: its files by size and time, so that no edit meets old code."""
    root = Path(weft.ir.__file__).parents[1]
    parts = [
        f"{path.relative_to(root)}:{stat.st_size}:{stat.st_mtime_ns}"
        for folder in ("ir", "ptx", "device/sim")
        for path in sorted((root / folder).rglob("*.py"))
        for stat in (path.stat(),)
    ]
    return "|".join(parts)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a launch must know about compiled code."""

    warps: int
    threads: int
    frame_bytes: int
    slot_bytes: int
    sites: int
    shared_bytes: int
    local_bytes: int
    loops: bool
    waits: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code for one kernel and block shape."""

    facts: Facts
    code: jit.Code


def emit(program: Program, *, fast: bool = False) -> tuple[str, Facts]:
    """The IR of a prepared program."""
    module = IrModule()
    warp = WarpEmitter(program, module, fast_math=fast)
    with validate.naming(lambda: warp.ins):
        warp.emit()
    frame = warp.schedule.frame_bytes
    slot = Slot.FRAMES + program.warps * frame
    slot = -(-slot // 64) * 64
    emit_run(
        module,
        warps=program.warps,
        threads=program.threads,
        frame_bytes=frame,
        slot_bytes=slot,
        barriers=bool(warp.schedule.barriers) or warp.schedule.arrives,
        waits=bool(warp.schedule.spin_heads),
    )
    facts = Facts(
        warps=program.warps,
        threads=program.threads,
        frame_bytes=frame,
        slot_bytes=slot,
        sites=len(warp.access.sites),
        shared_bytes=program.shared_bytes,
        local_bytes=program.local_bytes,
        loops=bool(program.graph.loops),
        waits=bool(warp.schedule.spin_heads),
    )
    return module.text(), facts


def compile_kernel(
    module: Module | None, text: str, entry: str, shape: Shape, *, fast: bool = False
) -> Compiled:
    """Compiles, or takes from the cache; `module` may be a callable's later work (None: parse)."""
    from weft.ptx.parse import parse

    key = cache.key("sim", generator(), jit.identity(), text, entry, repr(shape), fast)
    data = cache.get("sim", key)
    if data is None:
        parsed = module or parse(text)
        ir, facts = emit(prepare(parsed, parsed.functions[entry], shape), fast=fast)
        head = json.dumps(asdict(facts)).encode()
        data = len(head).to_bytes(4, "little") + head + jit.compile_object(ir)
        cache.put("sim", key, data)
    size = int.from_bytes(data[:4], "little")
    facts = Facts(**json.loads(data[4 : 4 + size]))
    return Compiled(facts, jit.load_object(data[4 + size :]))
