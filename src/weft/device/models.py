"""The GPUs that can be simulated: their sizes, limits and ceilings, from `model_table`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from weft.device.model_table import CAPABILITIES, GPUS
from weft.errors import LaunchError, expect
from weft.quoting import similar
from weft.records import dataclass

DEFAULT = "h200"


@dataclass(frozen=True)
class GpuModel:
    """One GPU. Sizes are in bytes unless a name says otherwise.

    tensor            type of the inputs -> dense tensor-core rate, 10^12 operations a second
    shared_per_block  the most that a block may ask for; above `static_shared_per_block` it must
                      be dynamic
    reserved_shared   shared memory that the system takes from an SM for each resident block
    compile_for       the architecture to give the compiler for this GPU
    gpcs              the SMs of each GPC, on GPUs with clusters; as the driver of an H200 reports
                      them, some form groups of their own, and chips differ
    max_cluster       blocks of the largest cluster; more than 8 are not portable
    *_per_sm          results a clock: of fp64, fp16 and integer arithmetic, of special functions
    """

    key: str
    name: str
    source: str
    compute_capability: tuple[int, int]
    compile_for: str
    sms: int
    cores_per_sm: int
    fp64_per_sm: int
    fp16_per_sm: int
    base_mhz: int | None
    boost_mhz: int
    memory: int
    memory_gb_per_s: float
    memory_bus_bits: int
    l2: int
    l1_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    reserved_shared: int
    max_warps_per_sm: int
    max_blocks_per_sm: int
    tensor: Mapping[str, float]
    static_shared_per_block: int = 48 * 1024
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    warp_size: int = 32
    integer_per_sm: int = 64
    special_per_sm: int = 16
    schedulers_per_sm: int = 4
    constant_memory: int = 64 * 1024
    max_cluster: int = 0
    gpcs: tuple[int, ...] = ()

    @property
    def machine(self) -> str:
        """The architecture of its machine code."""
        major, minor = self.compute_capability
        # Code with Hopper's own instructions is assembled for Hopper alone.
        return f"sm_{major}{minor}{'a' if self.compile_for.endswith('a') else ''}"

    @property
    def triton_arch(self) -> int:
        """The architecture for Triton: its own; after Hopper sm_89, the last without `wgmma`."""
        major, minor = self.compute_capability
        return 89 if major > 9 else 10 * major + minor

    @property
    def memory_khz(self) -> int:
        """The clock that gives its bandwidth: two transfers per clock over the whole bus."""
        return round(self.memory_gb_per_s * 1e6 * 8 / (2 * self.memory_bus_bits))

    @property
    def max_threads_per_sm(self) -> int:
        return self.max_warps_per_sm * self.warp_size

    @property
    def cores(self) -> int:
        return self.sms * self.cores_per_sm

    @property
    def fp32_tflops(self) -> float:
        """Peak of plain f32 fused multiply-adds at the boost clock."""
        return self.cores * 2 * self.boost_mhz / 1e6

    @property
    def fp64_tflops(self) -> float:
        return self.sms * self.fp64_per_sm * 2 * self.boost_mhz / 1e6


def names() -> list[str]:
    """The names that `get` takes, in the order of the table."""
    return list(_models())


def find(name: str) -> GpuModel | None:
    """The model called `name`: `h200`, `sim:h200`, `RTX 3070` all do; None where there is none."""
    return _models().get(_key(name))


def get(name: str) -> GpuModel:
    """The model called `name`, as `find` reads it; raises LaunchError where there is none."""
    expect("a GPU model", name, str, allowed='a string: "h200", "sim:rtx3070"')
    found = find(name)
    if found is None:
        near = similar(_key(name), _models(), 0.5)
        raise LaunchError(
            "no such GPU model",
            got=repr(name),
            allowed=", ".join(names()),
            next=f"did you mean {near!r}?" if near else "`weft devices` shows them all",
        )
    return found


def _key(name: str) -> str:
    # Drivers report `NVIDIA GeForce RTX 3070`, and people write `RTX-3070`.
    key = re.sub(r"[\s_-]", "", name.lower()).removeprefix("sim:")
    return re.sub(r"^(nvidia|geforce|tesla)+", "", key)


@functools.cache
def _models() -> dict[str, GpuModel]:
    return {key: _model(key, row) for key, row in GPUS.items()}


def _gpcs(sms: int) -> tuple[int, ...]:
    """GPCs of 16 SMs and the rest, for a GPU whose driver has not been asked."""
    whole, rest = divmod(sms, 16)
    return (16,) * whole + ((rest,) if rest else ())


def _model(key: str, row: Mapping[str, Any]) -> GpuModel:
    facts: dict[str, Any] = {"base_mhz": None, **CAPABILITIES[row["capability"]], **row}
    major, minor = row["capability"].split(".")
    derived = {
        "key": key,
        "compute_capability": (int(major), int(minor)),
        "memory": int(row["memory_gib"] * 2**30),
        "l2": facts["l2_kib"] * 1024,
        "l1_per_sm": facts["l1_kib"] * 1024,
        "shared_per_sm": facts["shared_kib_per_sm"] * 1024,
        "shared_per_block": facts["shared_kib_per_block"] * 1024,
        "reserved_shared": facts["reserved_shared_bytes"],
    }
    if "max_cluster" in facts and "gpcs" not in facts:
        derived["gpcs"] = _gpcs(row["sms"])
    # Rows also have sizes with a unit in their name (`l2_kib`), which are no fields.
    known = {field.name for field in fields(GpuModel)}
    return GpuModel(**{k: v for k, v in (facts | derived).items() if k in known})
