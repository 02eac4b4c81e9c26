"""PTX to machine code by ptxas, kernel by kernel: what it refuses is dropped, with its reason."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REFUSAL = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
ROUNDS = 40
"""Tries before a module is given up: ptxas may report one kind of mistake at a time."""


@dataclass(frozen=True)
class Assembled:
    """Machine code of the kernels that were taken, and why the others were not."""

    cubin: bytes
    text: str
    refused: Mapping[str, str]


def find_ptxas() -> str | None:
    """The assembler of the CUDA toolkit, or of its wheel."""
    found = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if found is None:
        import nvidia  # a namespace of wheels; without it there is no assembler at all

        roots = [Path(p) for p in nvidia.__path__]
        found = next((str(p) for r in roots for p in r.glob("cu*/bin/ptxas")), None)
    return found


def assemble(ptxas: str, head: str, kernels: Mapping[str, str], arch: str) -> Assembled:
    """One module of many kernels; a kernel with an error is left out and the rest goes on."""
    left, refused = dict(kernels), dict[str, str]()
    for _ in range(ROUNDS):
        text = head + "".join(left.values())
        result, cubin = _run(ptxas, text, arch)
        if not result.returncode:
            return Assembled(cubin, text, refused)
        named = _owners(head, left, REFUSAL.findall(result.stderr))
        if not named:
            raise RuntimeError(f"ptxas: {result.stderr[:500]}")
        for name, reason in named.items():
            refused[name] = reason
            del left[name]
        if not left:
            break
    return Assembled(b"", "", refused)


def _run(ptxas: str, text: str, arch: str) -> tuple[subprocess.CompletedProcess[str], bytes]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        command = [ptxas, f"-arch={arch}", "-o", str(target), str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result, target.read_bytes() if not result.returncode else b""


def _owners(head: str, kernels: Mapping[str, str], errors: list[tuple[str, str]]) -> dict[str, str]:
    """The kernel in whose lines each error is; the first error of a kernel is its reason."""
    found: dict[str, str] = {}
    at = head.count("\n")
    for name, text in kernels.items():
        end = at + text.count("\n")
        for line, reason in errors:
            if at < int(line) <= end:
                found.setdefault(name, reason.strip())
        at = end
    return found
