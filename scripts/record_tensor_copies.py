"""Asks a GPU for the results of tensor copies, and writes them to tests/golden/hardware.

    python scripts/record_tensor_copies.py [copies | slices] [FOLDER]

Needs an NVIDIA GPU of sm_90 and PyTorch. `tensor_copies.npz` has for each case of
tests/support/tensor_probes.py a checksum of the bytes that it left and whether its mbarrier
completed; the maps that the driver encoded, with address 0; the results of `tensormap.replace`; and
the answers of the driver to unusual arguments. `tensor_slices.npz` has for each case of
tests/support/tensor_slices.py the checksum, the number of bytes that the mbarrier saw, and the map.
`..._full.npz` have all bytes, for the search for a difference; they stay outside the repository.

A copy that a GPU refuses ends its process. The cases run in a process of their own, which is
started again after such a case.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import tensor_probes  # noqa: E402
import tensor_slices  # noqa: E402
from tensor_probes import Case, Encoding  # noqa: E402

ENOUGH = 3
"""Refused cases of a group after which its other cases are skipped."""
SECONDS = 100
"""The time after which no process is started again."""
PLENTY = 1 << 16
"""Bytes that the mbarrier of a case with slices expects: more than arrive."""
STEP = 16
"""The kernel counts missing bytes in such steps."""


def cases_of(what: str) -> Sequence[Case]:
    """The cases of a record."""
    return tensor_slices.cases() if what == "slices" else tensor_probes.cases()


def encode(lib: Any, e: Encoding) -> tuple[int, np.ndarray]:
    """The driver's answer, and the 128 bytes of the map."""
    from weft.device.tensor_map import ask_driver

    code, data = ask_driver(lib, tensor_probes.request(e))
    return code, np.frombuffer(data, np.uint8).copy()


def run(module: Any, lib: Any, case: Case) -> dict[str, np.ndarray]:
    """One copy on the GPU."""
    import torch

    memory = torch.from_numpy(tensor_probes.tensor(case)).cuda()
    code, data = encode(lib, tensor_probes.encoding(case, memory.data_ptr() + case.origin))
    if code:
        return {"code": np.array(code)}
    staged = torch.from_numpy(tensor_probes.staged(case)).cuda()
    at = torch.tensor([*case.at, *case.offsets], dtype=torch.int32).cuda()
    out = torch.zeros(case.window, dtype=torch.uint8).cuda()
    seen = torch.zeros(4, dtype=torch.int32).cuda()
    kernel = module.kernel(case.kernel)[1, 128, case.window + 1024]
    map_ = torch.from_numpy(data).cuda()
    expected = PLENTY if isinstance(case, tensor_slices.SlicedCase) else case.nbytes
    kernel(map_, staged, at, out, seen.view(torch.uint32), case.window, case.shift, expected)
    torch.cuda.synchronize()
    after = out if case.kind == "load" else memory
    data[:8] = 0
    return {
        "code": np.array(0),
        "map": data,
        "after": after.cpu().numpy(),
        "seen": seen.cpu().numpy().view(np.uint32),
    }


def general(lib: Any) -> dict[str, np.ndarray]:
    """The driver's encodings and refusals, and what `tensormap.replace` writes."""
    import torch

    import weft
    from weft.device import driver

    found = [encode(lib, e) for e in tensor_probes.encodings()]
    plain = found[0][1]
    module = weft.cuda(tensor_probes.replacing(), device="gpu")
    replaced = []
    for start in (plain, np.zeros(128, np.uint8), np.full(128, 255, np.uint8)):
        out = torch.zeros(32 * len(tensor_probes.REPLACED), dtype=torch.int32).cuda()
        given = torch.from_numpy(start.view(np.int32)).cuda()
        module.kernel("replaces")[1, 32](given.view(torch.uint32), out.view(torch.uint32))
        torch.cuda.synchronize()
        replaced.append(out.cpu().numpy().view(np.uint8).reshape(-1, 128))
    return {
        "encoded": np.array([m for _, m in found]),
        "codes": np.array([c for c, _ in found]),
        "refused": np.array([encode(lib, e)[0] for e in tensor_probes.refused()]),
        "replaced": np.array(replaced),
        "replaced_from": plain,
        "driver": np.array(driver.version()),
    }


def work(what: str, first: int, folder: Path, skipped: set[str]) -> None:
    """Run the cases from number `first` on; each leaves a file, so a refused one loses no other."""
    import torch

    import weft
    from weft.device import driver

    torch.zeros(1).cuda()
    lib = driver.library()
    cases = cases_of(what)
    if first == 0 and what == "copies":
        (folder / "general").write_bytes(pickle.dumps(general(lib)))
    names = sorted({c.kernel for c in cases})
    module = weft.cuda(tensor_probes.source(names), device="gpu")
    for i, case in enumerate(cases[first:], first):
        if case.group in skipped:
            continue
        (folder / "next").write_text(str(i))
        result = run(module, lib, case)
        (folder / f"{case.name}.case").write_bytes(pickle.dumps(result))
    (folder / "next").write_text(str(len(cases)))


def collect(what: str, cases: Sequence[Case], name: str) -> list[str]:
    """Run all cases, in as many processes as it takes; return the messages of refused ones."""
    first, messages, folder = 0, list[str](), Path(name)
    refusals: Counter[str] = Counter()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        skipped = ",".join(g for g, n in refusals.items() if n >= ENOUGH)
        done = subprocess.run(
            [sys.executable, __file__, "--work", what, str(first), name, skipped],
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        at = folder / "next"
        reached = int(at.read_text()) if at.exists() else 0
        if reached == len(cases):
            break
        why = [x for x in done.stderr.splitlines() if "rror" in x]
        messages.append(f"{cases[reached].name}: {' '.join(why[:2])[:300]}")
        print(messages[-1])
        if not at.exists():
            break
        first = reached + 1
        refusals[cases[reached].group] += 1
    return messages


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        what, first, name, skipped = sys.argv[2:6]
        work(what, int(first), Path(name), set(skipped.split(",")))
        return
    arguments = sys.argv[1:]
    what = arguments.pop(0) if arguments[:1] in (["copies"], ["slices"]) else "copies"
    target = Path(arguments[0]) if arguments else ROOT / "tests" / "golden" / "hardware"
    cases = cases_of(what)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        messages = collect(what, cases, name)
        kept: dict[str, np.ndarray] = {}
        full: dict[str, np.ndarray] = {}
        if (folder / "general").exists():
            kept.update(pickle.loads((folder / "general").read_bytes()))
        sums, ended, missing, maps = [], [], [], []
        for case in cases:
            file = folder / f"{case.name}.case"
            result = pickle.loads(file.read_bytes()) if file.exists() else {"code": np.array(-1)}
            if int(result["code"]) == 0:
                full[case.name] = result["after"]
            nothing = {"map": np.zeros(128, np.uint8), "seen": np.zeros(4, np.uint32)}
            result = {**nothing, **result}
            good = int(result["code"]) == 0
            sums.append(tensor_probes.checksum(result["after"]) if good else np.uint32(0))
            ended.append(int(result["seen"][0]) if good else -1000 - int(result["code"]))
            missing.append(STEP * int(result["seen"][3]))
            maps.append(result["map"])
        kept.update(sums=np.array(sums), ended=np.array(ended), maps=np.array(maps))
        if what == "slices":
            kept["nbytes"] = PLENTY - np.array(missing)
        kept["names"] = np.array([c.name for c in cases])
        kept["messages"] = np.array("\n".join(messages))
    np.savez_compressed(target / f"tensor_{what}.npz", **kept)
    np.savez_compressed(target / f"tensor_{what}_full.npz", **full)
    print(f"{len(full)} of {len(cases)} copies recorded; {sum(e == 1 for e in ended)} completed")


if __name__ == "__main__":
    main()
