"""Asks a Hopper GPU for the results of every form of `wgmma`; writes them to tests/golden/hardware.

    python scripts/record_warpgroups.py [FOLDER]

Needs an NVIDIA GPU of compute capability 9.0 and PyTorch. `warpgroup_samples.npz` has, under the
names of some probes, the results of their first products; `warpgroup_sums.npz` has checksums of all
probes, and of the addresses at which the elements of matrices were read
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
    samples, sums, read = {}, [], []
    with ThreadPoolExecutor(12) as pool:  # most of the time is the host's
        for probe, words in zip(numeric, pool.map(forms.operands, numeric), strict=True):
            answer = results(kernels[forms.entry(probe)], probe, words)
            if forms.is_kept(probe):
                samples[probe.name] = answer[: forms.FIRST]
            sums.append([probe.seed, *forms.checksums(answer)])
    print(f"{len(sums)} forms after {time.time() - start:.1f} s", flush=True)
    for probe in layouts:
        answer = results(kernels[forms.entry(probe)], probe, forms.operands(probe))
        read.append([probe.seed, forms.checksum(forms.read_addresses(probe, answer[0]))])
    np.savez_compressed(folder / "warpgroup_samples.npz", **samples)
    made = {"numeric": np.array(sums, np.uint32), "layouts": np.array(read, np.uint32)}
    np.savez_compressed(folder / "warpgroup_sums.npz", **made)
    print(f"{len(read)} layouts after {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
