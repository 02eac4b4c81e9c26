"""What kernels need of a real GPU, as its assembler reports it: registers, spills, memory.

NVRTC brings the assembler along, so this takes neither a GPU nor `ptxas`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    """What one kernel needs on one architecture.

    registers       of each thread
    local_bytes     of each thread: arrays that registers cannot hold, and what was spilled
    spill_stores    bytes that its own code spills, `spill_loads` those that it fetches back
    shared_bytes    of a block, static
    barriers        of a block
    constant_bytes  of the whole module; the report has it for few architectures

    What is not known is None: spills and barriers of PTX that a GPU's driver has assembled.
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
        """Registers that a block takes: each warp its own, in units of 256."""
        warps, warp = -(-threads // 32), -(-self.registers * 32 // 256) * 256
        return warps * warp


def read(report: str, arch: str) -> dict[str, Resources]:
    """Entry -> its resources, from the assembler's report; what it leaves out is 0."""
    return {
        entry: Resources(arch=arch, **{name: _number(p, text) for name, p in _NUMBERS.items()})
        for entry, text in _KERNEL.findall(report)
    }


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
