"""Asks a GPU for the results of the cluster probes, and writes them to tests/golden/hardware.

    python scripts/record_clusters.py [FOLDER]

Needs an NVIDIA GPU with clusters (compute capability 9.0) and PyTorch. `clusters.npz` has the
result of each probe (tests/support/cluster_probes.py); `clusters.json` has the driver's answers to
launches that it refuses, and to questions about occupancy.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import weft  # noqa: E402
from cluster_probes import ARCH, SOURCE, Dims, answers  # noqa: E402
from weft.device import driver  # noqa: E402
from weft.device.gpu.module import load  # noqa: E402

MODULE = weft.cuda(SOURCE, arch=ARCH)


def run(
    name: str, grid: Dims, threads: int, cluster: Dims | None, words: int, more: Sequence[int]
) -> np.ndarray:
    """One launch on the GPU."""
    out = torch.full((words,), -77, dtype=torch.int32, device="cuda")
    MODULE.kernel(name)[grid, threads, 0, None, cluster](out, *more)
    torch.cuda.synchronize()
    return out.cpu().numpy()


class Driver:
    """Direct calls of the driver about one kernel that uses no shared memory of its own."""

    def __init__(self, name: str) -> None:
        self.library = driver.library()
        self.handle = ctypes.c_void_p(int(load(MODULE.ptx.text).kernel(name).handle))
        self.function = ctypes.c_void_p()
        code = self.library.cuKernelGetFunction(ctypes.byref(self.function), self.handle)
        driver.check(code, "the function of a kernel")

    def config(self, grid: Dims, block: Dims, shared: int, cluster: Dims | None) -> Any:
        made = driver.CuLaunchConfig(grid, block, shared, None, None, 0)
        made.kept = driver.LaunchAttribute(driver.CLUSTER, 0, cluster or (1, 1, 1))
        if cluster is not None:
            made.attributes, made.attribute_count = ctypes.addressof(made.kept), 1
        return made

    def set(self, attribute: int, value: int) -> int:
        return int(self.library.cuFuncSetAttribute(self.function, attribute, value))

    def launch(self, grid: Dims, block: Dims, shared: int, cluster: Dims | None) -> int:
        out = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")
        pointer = ctypes.c_void_p(out.data_ptr())
        params = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
        config = self.config(grid, block, shared, cluster)
        code = self.library.cuLaunchKernelEx(ctypes.byref(config), self.function, params, None)
        torch.cuda.synchronize()
        return int(code)

    def active(self, threads: int, shared: int, cluster: Dims) -> list[int]:
        config = self.config(
            (cluster[0] * 64, cluster[1], cluster[2]), (threads, 1, 1), shared, cluster
        )
        found = ctypes.c_int(-1)
        code = self.library.cuOccupancyMaxActiveClusters(
            ctypes.byref(found), self.function, ctypes.byref(config)
        )
        return [int(code), found.value]

    def potential(self, threads: int, shared: int) -> list[int]:
        config = self.config((64, 1, 1), (threads, 1, 1), shared, None)
        found = ctypes.c_int(-1)
        code = self.library.cuOccupancyMaxPotentialClusterSize(
            ctypes.byref(found), self.function, ctypes.byref(config)
        )
        return [int(code), found.value]


REFUSED: list[tuple[Dims, Dims | None]] = [
    ((7, 1, 1), (2, 1, 1)), ((8, 3, 1), (1, 2, 1)), ((9, 1, 1), (9, 1, 1)),
    ((16, 1, 1), (16, 1, 1)), ((32, 1, 1), (32, 1, 1)), ((8, 1, 1), (0, 1, 1)),
    ((8, 8, 1), (4, 4, 1)), ((8, 1, 1), (8, 1, 1)), ((6, 1, 1), (3, 1, 1)),
]  # fmt: skip


def asked() -> dict[str, Any]:
    """The driver's answers: result codes of launches, and occupancy."""
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "driver": driver.version()}
    plain, compiled = Driver("registers"), Driver("compiled")
    one = (32, 1, 1)
    found["launches"] = [[*case, plain.launch(case[0], one, 0, case[1])] for case in REFUSED]
    found["compiled"] = [
        [grid, cluster, compiled.launch(grid, one, 0, cluster)]
        for grid, cluster in (
            ((4, 2, 3), None), ((4, 2, 3), (2, 1, 3)), ((4, 2, 3), (2, 2, 1)), ((3, 2, 3), None),
        )
    ]  # fmt: skip
    cases = [(t, s) for t in (32, 128, 256, 512, 1024) for s in (0, 8, 48, 64, 100, 113, 200, 226)]
    plain.set(8, 226 * 1024)
    for allowed in (0, 1):
        found[f"set large {allowed}"] = plain.set(driver.LARGE_CLUSTERS, allowed)
        found[f"active {allowed}"] = [
            [t, s * 1024, c, *plain.active(t, s * 1024, (c, 1, 1))]
            for t, s in cases
            for c in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16)
        ]
        found[f"shapes {allowed}"] = [
            [c, *plain.active(128, 65536, c)]
            for c in ((2, 2, 1), (2, 2, 2), (1, 4, 2), (1, 1, 8), (4, 4, 1))
        ]
        found[f"potential {allowed}"] = [
            [t, s * 1024, *plain.potential(t, s * 1024)] for t, s in cases
        ]
        found[f"launches {allowed}"] = [[*c, plain.launch(c[0], one, 0, c[1])] for c in REFUSED]
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "hardware"
    found = answers(run)
    np.savez_compressed(folder / "clusters.npz", **found)
    print(f"{len(found)} probes")
    rows = (f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in asked().items())
    (folder / "clusters.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
