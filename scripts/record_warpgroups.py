"""Asks a Hopper GPU for the results of every form of `wgmma`; writes them to tests/golden/hardware.

    python scripts/record_warpgroups.py [FOLDER]

Needs an NVIDIA GPU of compute capability 9.0 and PyTorch. `warpgroup_samples.npz` has, under the
name of each probe, the results of its first products; `warpgroup_sums.npz` has checksums of all;
`warpgroup_layouts.npz` has the results that show where each element of a matrix was read
(tests/support/warpgroup_forms.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import warpgroup_forms as forms  # noqa: E402
import weft  # noqa: E402

KEPT = 8
"""Products of which the results are kept: one for each distribution."""
PART = 24
"""Probes of a module: the driver assembles several modules at the same time."""


def loaded(probes: Sequence[forms.WarpgroupProbe]) -> dict[str, weft.Kernel]:
    """The kernels of these probes, by name, assembled."""
    module = weft.load_ptx(forms.module(probes), device="gpu")
    return {name: module.kernel(name) for name in {forms.entry(p) for p in probes}}


def results(kernel: weft.Kernel, probe: forms.WarpgroupProbe, words: np.ndarray) -> np.ndarray:
    """The GPU's results [tiles, registers, 128]."""
    given = torch.from_numpy(words.view(np.int32)).cuda()
    out = torch.zeros((len(words), probe.registers, forms.LANES), dtype=torch.int32, device="cuda")
    kernel[len(words), forms.LANES](given, out, *forms.descriptors(probe))
    return out.cpu().numpy().view(np.uint32)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "hardware"
    start = time.time()
    numeric, layouts = forms.numeric(), forms.layouts()
    distinct = list({forms.entry(p): p for p in [*numeric, *layouts]}.values())
    parts = [distinct[i : i + PART] for i in range(0, len(distinct), PART)]
    torch.cuda.init()
    kernels: dict[str, weft.Kernel] = {}
    for part in parts:
        kernels |= loaded(part)
    print(f"{len(kernels)} kernels after {time.time() - start:.1f} s", flush=True)
    samples, sums = {}, {}
    with ThreadPoolExecutor(12) as pool:  # most of the time is the host's
        for probe, words in zip(numeric, pool.map(forms.operands, numeric), strict=True):
            answer = results(kernels[forms.entry(probe)], probe, words)
            samples[probe.name] = answer[: KEPT if probe.n < 64 else 1]
            sums[probe.name] = np.array(list(forms.checksums(answer)), np.uint32)
    np.savez_compressed(folder / "warpgroup_samples.npz", **samples)
    np.savez_compressed(folder / "warpgroup_sums.npz", **sums)
    print(f"{len(sums)} forms after {time.time() - start:.1f} s", flush=True)
    found = {}
    for probe in layouts:
        answer = results(kernels[forms.entry(probe)], probe, forms.operands(probe))
        found[probe.name] = forms.read_addresses(probe, answer[0])
    np.savez_compressed(folder / "warpgroup_layouts.npz", **found)
    print(f"{len(found)} layouts after {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
