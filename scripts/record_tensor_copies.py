"""Asks a GPU for the results of tensor copies, and writes them to tests/golden/hardware.

    python scripts/record_tensor_copies.py [FOLDER]

Needs an NVIDIA GPU of sm_90 and PyTorch. `tensor_copies.npz` has for each case of
tests/support/tensor_probes.py a checksum of the bytes that it left and whether its mbarrier
completed; the maps that the driver encoded, with address 0; the results of `tensormap.replace`; and
the answers of the driver to unusual arguments. `tensor_copies_full.npz` has all bytes, for the
search for a difference; it stays outside the repository.

A copy that a GPU refuses ends its process. The cases run in a process of their own, which is
started again after such a case.
"""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import tensor_probes  # noqa: E402
from tensor_probes import Case, Encoding  # noqa: E402

ENOUGH = 3
"""Refused cases of a group after which its other cases are skipped."""
SECONDS = 100
"""The time after which no process is started again."""


def encode(lib: Any, e: Encoding) -> tuple[int, np.ndarray]:
    """The driver's answer, and the 128 bytes of the map."""
    room = ctypes.create_string_buffer(256)
    at = (ctypes.addressof(room) + 63) // 64 * 64

    def array(kind: Any, values: tuple[int, ...]) -> Any:
        return (kind * 8)(*values)

    head = (
        ctypes.c_void_p(at), ctypes.c_int(e.dtype), ctypes.c_uint(e.rank),
        ctypes.c_void_p(e.address), array(ctypes.c_uint64, e.dims),
        array(ctypes.c_uint64, e.strides),
    )  # fmt: skip
    tail = (
        array(ctypes.c_uint32, e.steps), ctypes.c_int(e.interleave), ctypes.c_int(e.swizzle),
        ctypes.c_int(e.l2), ctypes.c_int(e.fill),
    )  # fmt: skip
    if e.lower is None:
        code = lib.cuTensorMapEncodeTiled(*head, array(ctypes.c_uint32, e.box), *tail)
    else:
        code = lib.cuTensorMapEncodeIm2col(
            *head, array(ctypes.c_int, e.lower), array(ctypes.c_int, e.upper),
            ctypes.c_uint(e.channels), ctypes.c_uint(e.pixels), *tail,
        )  # fmt: skip
    return int(code), np.frombuffer(ctypes.string_at(at, 128), np.uint8).copy()


def run(module: Any, lib: Any, case: Case) -> dict[str, np.ndarray]:
    """One copy on the GPU."""
    import torch

    memory = torch.from_numpy(tensor_probes.tensor(case)).cuda()
    code, data = encode(lib, tensor_probes.encoding(case, memory.data_ptr()))
    if code:
        return {"code": np.array(code)}
    staged = torch.from_numpy(tensor_probes.staged(case)).cuda()
    at = torch.tensor([*case.at, *case.offsets], dtype=torch.int32).cuda()
    out = torch.zeros(case.window, dtype=torch.uint8).cuda()
    seen = torch.zeros(4, dtype=torch.int32).cuda()
    kernel = module.kernel(case.kernel)[1, 128, case.window + 1024]
    map_ = torch.from_numpy(data).cuda()
    kernel(map_, staged, at, out, seen.view(torch.uint32), case.window, case.shift, case.nbytes)
    torch.cuda.synchronize()
    after = out if case.kind == "load" else memory
    data[:8] = 0
    return {
        "code": np.array(0),
        "map": data,
        "after": after.cpu().numpy(),
        "seen": seen.cpu().numpy().view(np.uint32),
    }


def work(first: int, folder: Path, skipped: set[str]) -> None:
    """Run the cases from number `first` on; each leaves a file, so a refused one loses no other."""
    import torch

    import weft
    from weft.device import driver

    torch.zeros(1).cuda()
    lib = driver.library()
    cases = tensor_probes.cases()
    if first == 0:
        found = [encode(lib, e) for e in tensor_probes.encodings()]
        refused = [encode(lib, e)[0] for e in tensor_probes.refused()]
        plain = encode(lib, tensor_probes.encodings()[0])[1]
        module = weft.cuda(tensor_probes.replacing(), device="gpu")
        replaced = []
        for start in (plain, np.zeros(128, np.uint8), np.full(128, 255, np.uint8)):
            out = torch.zeros(32 * len(tensor_probes.REPLACED), dtype=torch.int32).cuda()
            given = torch.from_numpy(start.view(np.int32)).cuda()
            module.kernel("replaces")[1, 32](given.view(torch.uint32), out.view(torch.uint32))
            torch.cuda.synchronize()
            replaced.append(out.cpu().numpy().view(np.uint8).reshape(-1, 128))
        general = {
            "encoded": np.array([m for _, m in found]),
            "codes": np.array([c for c, _ in found]),
            "refused": np.array(refused),
            "replaced": np.array(replaced),
            "replaced_from": plain,
            "driver": np.array(driver.version()),
        }
        (folder / "general").write_bytes(pickle.dumps(general))
    names = sorted({c.kernel for c in cases})
    module = weft.cuda(tensor_probes.source(names), device="gpu")
    for i, case in enumerate(cases[first:], first):
        if case.group in skipped:
            continue
        (folder / "next").write_text(str(i))
        result = run(module, lib, case)
        (folder / f"{case.name}.case").write_bytes(pickle.dumps(result))
    (folder / "next").write_text(str(len(cases)))


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(int(sys.argv[2]), Path(sys.argv[3]), set(sys.argv[4].split(",")))
        return
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "hardware"
    cases, first, messages = tensor_probes.cases(), 0, list[str]()
    refusals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            skipped = ",".join(g for g, n in refusals.items() if n >= ENOUGH)
            done = subprocess.run(
                [sys.executable, __file__, "--work", str(first), name, skipped],
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
        kept: dict[str, np.ndarray] = {}
        full: dict[str, np.ndarray] = {}
        if (folder / "general").exists():
            kept.update(pickle.loads((folder / "general").read_bytes()))
        sums, ended, words, maps = [], [], [], []
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
            words.append(result["seen"][1:3])
            maps.append(result["map"])
        kept.update(sums=np.array(sums), ended=np.array(ended), words=np.array(words))
        kept.update(maps=np.array(maps), names=np.array([c.name for c in cases]))
        kept["messages"] = np.array("\n".join(messages))
    np.savez_compressed(target / "tensor_copies.npz", **kept)
    np.savez_compressed(target / "tensor_copies_full.npz", **full)
    print(f"{len(full)} of {len(cases)} copies recorded; {sum(e == 1 for e in ended)} completed")


if __name__ == "__main__":
    main()
