"""Asks a GPU for the results of every probe, and writes them to tests/golden/hardware.

    python scripts/record_probes.py [FOLDER [WARPS]]

Needs an NVIDIA GPU and CuPy. `probe_samples.npz` has, under the name of each probe, the results of
its first WARPS (16); `probe_sums.npz` has checksums of many more (tests/support/probes.py).
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cupy
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import scalar_forms  # noqa: E402
import sparse_forms  # noqa: E402
from probes import BATCH, WARPS_PER_BLOCK, Probe, batches, checksum, module  # noqa: E402

BATCHES = 32
"""Batches of 4,096 warps each: 131,072 tiles of a matrix instruction."""


def results(function: cupy.RawKernel, probe: Probe, words: np.ndarray) -> np.ndarray:
    """The GPU's results of one batch."""
    out = cupy.zeros((BATCH, probe.results, 32), np.uint32)
    grid, block = (BATCH // WARPS_PER_BLOCK,), (32 * WARPS_PER_BLOCK,)
    function(grid, block, (cupy.asarray(words), out, np.uint32(BATCH)))
    return cupy.asnumpy(out)


def record(function: cupy.RawKernel, probe: Probe, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """The results of the first warps, and checksums of all batches."""
    first, sums = None, []
    for words in batches(probe, BATCHES):
        answer = results(function, probe, words)
        first = answer[:kept].copy() if first is None else first
        sums.append(checksum(answer))
    return first, np.array(sums, np.uint32)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "hardware"
    samples, sums = {}, {}
    kept = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    for probes in (sparse_forms.probes(), scalar_forms.probes()):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".ptx") as file:
            file.write(module(probes))
            file.flush()
            loaded = cupy.RawModule(path=file.name)
            functions = [loaded.get_function(f"p{i}") for i in range(len(probes))]
        with ThreadPoolExecutor(12) as pool:  # most of the time is the host's
            found = pool.map(record, functions, probes, [kept] * len(probes))
            for probe, (first, check) in zip(probes, found, strict=True):
                samples[probe.name], sums[probe.name] = first, check
    np.savez_compressed(folder / "probe_samples.npz", **samples)
    np.savez_compressed(folder / "probe_sums.npz", **sums)
    print(f"{len(sums)} probes of {BATCH * BATCHES:,} warps each")


if __name__ == "__main__":
    main()
