"""The host of the simulated GPU: LLVM, the CPU and its vectors, the threads."""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite
import llvmlite.binding as llvm

from weft.device import jit
from weft.device.sim.run.host_threads import thread_count

_VECTORS = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "neon", "sve", "sve2")


@dataclass(frozen=True)
class SimulatorHost:
    """The machine under the simulator."""

    llvmlite: str
    llvm: str
    cpu: str
    vectors: tuple[str, ...]
    threads: int


def describe() -> SimulatorHost:
    """Query LLVM about this machine."""
    cpu, features = jit.host()
    present = {name[1:] for name in features.split(",") if name.startswith("+")}
    return SimulatorHost(
        llvmlite=llvmlite.__version__,
        llvm=".".join(map(str, llvm.llvm_version_info)),
        cpu=cpu,
        vectors=tuple(name for name in _VECTORS if name in present),
        threads=thread_count(),
    )
