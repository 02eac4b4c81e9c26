"""Runs `ptxas` on PTX to determine the resources of its kernels.

NVRTC assembles CUDA C++ itself (`resources.measure`). PTX of other compilers needs the assembler of
a toolkit or of NVIDIA's wheel for nvcc.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from weft.errors import LaunchError, MissingDependency
from weft.source.resources import Resources, read

_WHEEL = "nvidia-cuda-nvcc"


def assemble(ptx: str, arch: str, registers: int | None = None) -> dict[str, Resources]:
    """Entry -> its resources on an architecture, e.g. "sm_90"; `registers`: the most allowed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx, encoding="utf-8")
        command = [str(_ptxas()), "-v", f"--gpu-name={arch}", "-o", f"{folder}/out", str(source)]
        command += [f"--maxrregcount={registers}"] if registers else []
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise LaunchError(f"ptxas refuses this kernel for {arch}", got=done.stderr.strip()[:1000])
    return read(done.stdout + done.stderr, arch)


def _ptxas() -> Path:
    """Find ptxas. The wheel's comes first: one on PATH may be too old for this PTX."""
    try:
        files = metadata.files(_WHEEL) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "ptxas":
            return Path(str(file.locate()))
    on_path = shutil.which("ptxas")
    if on_path is None:
        raise MissingDependency(
            "ptxas, which reports the registers of a kernel, was not found",
            allowed="ptxas on the PATH, or NVIDIA's wheel",
            next=f"pip install {_WHEEL}",
        )
    return Path(on_path)
