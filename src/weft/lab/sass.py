"""The machine code of a kernel as text, each instruction with its source line.

NVRTC assembles CUDA C++; `nvdisasm` disassembles. It comes in NVIDIA's wheel of that name, in
Triton's wheel and in toolkits.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.errors import Error, MissingDependency
from weft.lab.job import Job
from weft.source.from_cuda import compile_machine

_WHEEL = "nvidia-cuda-nvdisasm"
_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_FUNCTION = re.compile(r"^\.text\.(\S+):")
_CODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;?\s*$")
_LABEL = re.compile(r"^(\.L_\w+):")

Row = tuple[int, str]
"""(source line or 0, text)"""


def sass(job: Job, arch: str, names: Sequence[str]) -> dict[str, list[Row]]:
    """Function -> its instructions and labels; `names` are instances of templates."""
    tool = nvdisasm()
    machine = compile_machine(
        job.source,
        arch=arch,
        name=job.file,
        include=job.include,
        defines=job.defines,
        name_expressions=names,
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(machine.cubin)
        cubin.flush()
        command = [str(tool), "-g", "-c", cubin.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, encoding="utf-8")
    if done.returncode:
        raise Error("nvdisasm refuses the machine code", got=done.stderr.strip()[:1000])
    return read(done.stdout, job.file)


def read(text: str, file: str) -> dict[str, list[Row]]:
    """Parse what `nvdisasm -g -c` prints. Lines of other files count for the last own line."""
    out: dict[str, list[Row]] = {}
    rows: list[Row] = []
    line = 0
    for one in text.splitlines():
        if match := _FUNCTION.match(one):
            rows, line = out.setdefault(match[1], []), 0
        elif match := _LINE.search(one):
            if match[1].rpartition("/")[2] == file:
                line = int(match[2])
        elif match := _LABEL.match(one):
            rows.append((0, f"{match[1]}:"))
        elif (match := _CODE.match(one)) and match[1]:
            rows.append((line, match[1]))
    return out


def nvdisasm() -> Path:
    """Find nvdisasm: in its wheel, in Triton's, on PATH."""
    try:
        files = importlib.metadata.files(_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = [Path(str(f.locate())) for f in files if f.name == "nvdisasm"]
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        places.append(Path(triton.origin).parent / "backends/nvidia/bin/nvdisasm")
    on_path = shutil.which("nvdisasm")
    if on_path:
        places.append(Path(on_path))
    for place in places:
        if place.is_file():
            return place
    raise MissingDependency(
        "nvdisasm, which shows machine code, was not found",
        allowed="NVIDIA's wheel, Triton's wheel, or a toolkit on the PATH",
        next=f"pip install {_WHEEL}",
    )
