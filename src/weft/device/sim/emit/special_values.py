"""The values of special registers: threads and blocks, lane masks, clocks, the device itself."""

from __future__ import annotations

import platform
from collections.abc import Callable

from weft.device.sim.analyse.form import AFFINE, VECTOR
from weft.device.sim.analyse.special import MASKS, special_form
from weft.device.sim.lane_sets import spread
from weft.device.sim.layout import ContextFields, SlotFields, WorkerFields
from weft.device.sim.memory.checks import cluster_size
from weft.device.sim.protocols import Located
from weft.ir import CONSTANT, Val

CLOCKS = {
    "aarch64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "arm64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "x86_64": 'asm sideeffect "rdtsc; shlq $$32, %rdx; orq %rdx, %rax", "={rax},~{rdx}"()',
    "AMD64": 'asm sideeffect "rdtsc; shlq $$32, %rdx; orq %rdx, %rax", "={rax},~{rdx}"()',
}
"""Host architecture -> the instruction that reads its counter."""


class Specials:
    """Special registers of a warp under emission."""

    def __init__(self, e: Located) -> None:
        self.e = e
        self.values: dict[str, Val] = {}

    def _thread_base(self, axis: str) -> Val:
        """%tid of lane 0 where it is known to start a row, else 0."""
        x, y, z = self.e.program.shape
        b = self.e.b
        if y == z == 1 or (x % 32 and 32 % x):
            return self._linear() if axis == "x" and y == z == 1 else b.integer("i32", 0)
        if x % 32 == 0:
            linear = self._linear()
            rows = b.binary("udiv", linear, b.integer("i32", x))
            if axis == "x":
                return linear - rows * x
        else:
            if axis == "x":
                return b.integer("i32", 0)
            rows = self.e.warp * (32 // x)
        return b.binary("urem" if axis == "y" else "udiv", rows, b.integer("i32", y))

    def _linear(self) -> Val:
        """The number of lane 0 in its block, masked to its possible range."""
        return (self.e.warp & ((1 << (self.e.program.warps - 1).bit_length()) - 1)) << 5

    def read(self, name: str) -> Val:
        """The value of a special register."""
        form = special_form(name, self.e.program.shape)
        if form.const is not None:
            return self.e.b.integer("i32", form.const)
        if name in MASKS:
            return self.e.b.lanes("i32", [MASKS[name](i) for i in range(32)])
        if form.kind == VECTOR:
            return self._thread_lanes(name[-1])
        base = self.base(name)
        return spread(base, form.off) if form.kind == AFFINE else base

    def _thread_lanes(self, axis: str) -> Val:
        x, y, _ = self.e.program.shape
        b = self.e.b
        linear = (self.e.warp << 5) + b.lanes("i32", range(32))
        if axis == "x":
            return b.binary("urem", linear, b.integer("i32", x))
        rows = b.binary("udiv", linear, b.integer("i32", x))
        return b.binary("urem" if axis == "y" else "udiv", rows, b.integer("i32", y))

    def base(self, name: str) -> Val:
        """The scalar part; computed once in a block, but for clocks."""
        if name not in self.values or name.startswith(("clock", "globaltimer")):
            self.values[name] = self._value(name)
        return self.values[name]

    def _value(self, name: str) -> Val:
        b = self.e.b
        kind, _, axis = name.partition(".")
        if kind == "tid":
            return self._thread_base(axis)
        if kind == "ctaid":
            at = {"x": SlotFields.BLOCK_X, "y": SlotFields.BLOCK_Y, "z": SlotFields.BLOCK_Z}[axis]
            return b.load("i32", 0, b.at(self.e.slot, at), flags=CONSTANT)
        if kind == "nctaid":
            at = {"x": ContextFields.GRID_X, "y": ContextFields.GRID_Y, "z": ContextFields.GRID_Z}[
                axis
            ]
            return b.load("i32", 0, b.at(self.e.context, at), flags=CONSTANT)
        if "cluster" in kind:
            return self._of_cluster(kind, axis)
        return self._counter(kind)

    def _of_cluster(self, kind: str, axis: str) -> Val:
        """Special registers of the cluster."""
        e, b = self.e, self.e.b
        if kind == "cluster_ctarank":
            return b.load("i32", 0, b.at(e.slot, SlotFields.RANK), flags=CONSTANT)
        if kind == "is_explicit_cluster":
            told = b.at(e.context, ContextFields.CLUSTER_EXPLICIT)
            return b.load("i32", 0, told, flags=CONSTANT).ne(0)
        if kind == "cluster_nctarank":
            return cluster_size(b, e.context)
        at = {
            "x": ContextFields.CLUSTER_X,
            "y": ContextFields.CLUSTER_Y,
            "z": ContextFields.CLUSTER_Z,
        }[axis]
        side = b.load("i32", 0, b.at(e.context, at), flags=CONSTANT)
        derived = {
            "clusterid": ("udiv", "ctaid"),
            "nclusterid": ("udiv", "nctaid"),
            "cluster_ctaid": ("urem", "ctaid"),
        }
        if kind not in derived:
            return side
        operation, of = derived[kind]
        return b.binary(operation, self.base(f"{of}.{axis}"), side)

    def _counter(self, kind: str) -> Val:
        """Properties of the device, and clocks; 0 for all others."""
        e, b = self.e, self.e.b
        table: dict[str, Callable[[], Val]] = {
            "warpid": lambda: e.warp,
            # As on an H200: 64 warps on each of 132 SMs. Blocks on one host thread share its
            # number, as blocks on one SM do.
            "nwarpid": lambda: b.integer("i32", 64),
            "smid": lambda: b.load("i64", 0, b.at(e.worker, WorkerFields.ID)).trunc("i32"),
            "nsmid": lambda: b.integer("i32", 132),
            "gridid": lambda: b.load("i64", 0, b.at(e.context, ContextFields.GRID_ID)),
            "dynamic_smem_size": lambda: b.load(
                "i64", 0, b.at(e.context, ContextFields.DYNAMIC_SHARED)
            ).trunc("i32"),
            "total_smem_size": lambda: e.shared_bytes,
            "aggr_smem_size": lambda: e.shared_bytes,
            "clock": lambda: self._clock().trunc("i32"),
            "clock_hi": lambda: (self._clock() >> 32).trunc("i32"),
            "clock64": lambda: self._clock(),
            "globaltimer": lambda: self._clock(),
            "globaltimer_lo": lambda: self._clock().trunc("i32"),
            "globaltimer_hi": lambda: (self._clock() >> 32).trunc("i32"),
            # cooperative_groups takes the address of the grid's workspace from these two halves.
            "envreg1": lambda: self._workspace() >> 32,
            "envreg2": lambda: self._workspace(),
        }
        if kind in table:
            v = table[kind]()
            return v.trunc("i32") if kind.startswith("envreg") else v
        return b.integer("i32", 0)

    def _workspace(self) -> Val:
        return self.e.b.load("i64", 0, self.e.b.at(self.e.context, ContextFields.GRID_WORKSPACE))

    def _clock(self) -> Val:
        """The host's own cycle or time counter."""
        return self.e.b.val("i64", 0, f"call i64 {CLOCKS[platform.machine()]}")
