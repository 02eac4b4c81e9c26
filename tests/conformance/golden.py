"""The recording: what the hardware answered, kept small.

findings.json.xz   every finding, without the answers themselves
answers.npz        of each form: a checksum of all its results, and SAMPLE of them
"""

from __future__ import annotations

import collections
import json
import lzma
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conformance import catalogue
from conformance.assemble import find_ptxas

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "conformance"
FINDINGS, ANSWERS = "findings.json.xz", "answers.npz"
Finding = dict[str, Any]


def opcodes(forms: Sequence[Finding]) -> dict[str, list[str]]:
    """Base opcode -> full opcodes of lane-wise rows that both devices took."""
    out = collections.defaultdict(list)
    for name in sorted(x["name"] for x in forms if "lanewise" in x and "simulator" not in x):
        out[name.split(".")[0]].append(name)
    return dict(out)


def write(found: Mapping[str, list[Finding]], folder: Path) -> None:
    """Findings and answers of one run."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = sorted((x for x in found["forms"] if "sum" in x), key=lambda x: str(x["name"]))
    samples = [bytes.fromhex(x.get("sample", "")) for x in forms]
    np.savez_compressed(
        folder / ANSWERS,
        names=np.array([x["name"] for x in forms]),
        sums=np.array([int(x["sum"], 16) for x in forms], np.uint64),
        lengths=np.array([len(x) for x in samples], np.uint32),
        samples=np.frombuffer(b"".join(samples), np.uint8),
    )
    kept = {
        kind: [{k: v for k, v in x.items() if k != "sample"} for x in items]
        for kind, items in found.items()
    }
    record = {"machine": machine(), "findings": kept, "left_out": catalogue.left_out()}
    save(record, folder)


def save(record: Mapping[str, Any], folder: Path) -> None:
    """The findings alone."""
    text = json.dumps(record, separators=(",", ":"))
    (folder / FINDINGS).write_bytes(lzma.compress(text.encode(), preset=6))


def machine() -> dict[str, str]:
    """The versions that the answers depend on, from programs: this process must not start CUDA."""
    query = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    name, _, driver = _said(query).strip().partition(", ")
    ptxas = _said(f"{find_ptxas()} --version").partition("release ")[2].partition(",")[0]
    return {"gpu": name, "driver": driver, "ptxas": ptxas, "host": platform.machine()}


def _said(command: str) -> str:
    words = command.split()
    if shutil.which(words[0]) is None:
        return ""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@cache
def read() -> dict[str, Any]:
    """The findings: {"machine": ..., "findings": {kind: [...]}}."""
    out: dict[str, Any] = json.loads(lzma.decompress((FOLDER / FINDINGS).read_bytes()))
    return out


@cache
def answers() -> dict[str, tuple[int, bytes]]:
    """Name of a form -> (checksum of all its results, its sample)."""
    with np.load(FOLDER / ANSWERS) as archive:
        ends = np.cumsum(archive["lengths"])
        blob = archive["samples"].tobytes()
        rows = zip(archive["names"], archive["sums"], archive["lengths"], ends, strict=True)
        return {str(n): (int(s), blob[int(e) - int(k) : int(e)]) for n, s, k, e in rows}


def whole() -> dict[str, list[Finding]]:
    """The findings with their samples, to be added to."""
    found: dict[str, list[Finding]] = read()["findings"]
    for x in found["forms"]:
        if "lanewise" in x:
            x["sample"] = answers()[x["name"]][1].hex()
    return found
