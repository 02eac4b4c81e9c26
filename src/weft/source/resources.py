"""Parses the assembler's report of kernel resources: registers, spills, memory.

NVRTC includes the assembler, so this needs neither a GPU nor `ptxas`.
"""

from __future__ import annotations

import re

from weft.records import dataclass

_KERNEL = re.compile(
    r"Compiling entry function '([^']+)'(.*?)(?=Compiling entry function|\Z)", re.S
)
_NUMBERS = {
    "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers",
    "local_bytes": r"(\d+) bytes cumulative stack size",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "shared_bytes": r"(\d+) bytes smem",
}


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel on one architecture.

    registers       per thread
    local_bytes     per thread: arrays outside of registers, and spills
    spill_stores    bytes of spill stores; `spill_loads` of spill loads
    shared_bytes    static shared memory per block
    barriers        per block
    constant_bytes  of the whole module; the report has it for few architectures

    Unknown values are None: spills and barriers of PTX assembled by the driver.
    """

    arch: str
    registers: int
    local_bytes: int
    spill_stores: int | None
    spill_loads: int | None
    shared_bytes: int
    barriers: int | None
    constant_bytes: int = 0

    def registers_for(self, threads: int) -> int:
        """Registers of a block: allocated per warp in units of 256."""
        # The allocation granularity of all supported architectures.
        warps, warp = -(-threads // 32), -(-self.registers * 32 // 256) * 256
        return warps * warp


def read(report: str, arch: str) -> dict[str, Resources]:
    """Entry -> its resources, from the assembler's report; missing values are 0."""
    return {
        entry: Resources(arch=arch, **{name: _number(p, text) for name, p in _NUMBERS.items()})
        for entry, text in _KERNEL.findall(report)
    }


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
