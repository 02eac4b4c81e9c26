"""Runs scripts and programs on a real GPU under NVIDIA's compute-sanitizer.

Each tool runs the program once; its output is converted to the simulator's report format.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.device.sim.tools.sanitizer.session import Report
from weft.errors import Error, MissingDependency
from weft.frontends.compute_sanitizer_text import complete, findings
from weft.source import toolkit

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
VARIABLE = "WEFT_COMPUTE_SANITIZER"
_OPTIONS = {"memcheck": ("--leak-check", "full")}
_PRINTED = "10000"
"""The most findings that a tool prints."""
_LIBRARIES = {
    "cublas_v2": "cublas", "cublasXt": "cublas", "cublasLt": "cublasLt", "cudnn": "cudnn",
    "cufft": "cufft", "cufftXt": "cufft", "curand": "curand", "cusolverDn": "cusolver",
    "cusparse": "cusparse", "nccl": "nccl",
}  # fmt: skip
"""Header -> library that has its functions; `weft run` serves them without a flag as well."""
_UNTOUCHED = "before first instrumented API call"


class GpuReport(Report):
    """The findings of the tools, which do not count their checks."""

    def __init__(self, tools: Sequence[str] = TOOLS) -> None:
        super().__init__()
        self.tools = tuple(tools)

    @property
    def summary(self) -> str:
        return f"one run each of compute-sanitizer's {', '.join(self.tools)}"

    def to_dict(self) -> dict[str, Any]:
        return {"tools": self.tools, "findings": [f.to_dict() for f in self.findings]}


def run(
    path: str,
    args: Sequence[str],
    progress: Callable[[str], None] = lambda tool: None,
    *,
    to_stderr: bool = False,
) -> tuple[int, GpuReport]:
    """Run a script or program under each tool; return its exit code and the report.

    progress   called with the name of each tool before it runs
    to_stderr  sends the program's output to stderr; only the first run prints
    """
    sanitizer, quote, report = find(), _quote(path), GpuReport()
    codes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [*command_of(path, folder), *args]
        for tool in TOOLS:
            progress(tool)
            # The program prints the same in every run, so only the first one is shown.
            output = subprocess.DEVNULL if codes else sys.stderr.fileno() if to_stderr else None
            code, log = _under(sanitizer, tool, command, output)
            if not complete(log):
                raise _ended(tool, log)
            codes.append(code)
            report.findings += findings(log, quote)
    return codes[0], report


def _under(
    sanitizer: str, tool: str, command: Sequence[str], output: int | None
) -> tuple[int, str]:
    """Run the program under one tool; return its exit code and the tool's log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        options = ["--log-file", str(log), "--print-limit", _PRINTED, *_OPTIONS.get(tool, ())]
        # Host frames belong to Python and the driver, not to the kernel.
        options += ["--show-backtrace", "device"]
        errors = output if output == subprocess.DEVNULL else None
        whole = [sanitizer, "--tool", tool, *options, *command]
        code = subprocess.run(whole, stdout=output, stderr=errors, check=False).returncode
        return code, log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def find() -> str:
    """Find the tool: WEFT_COMPUTE_SANITIZER, this environment, PATH, the default folder."""
    path = toolkit.locate("compute-sanitizer", VARIABLE)
    if path is None:
        raise MissingDependency(
            "compute-sanitizer was not found; it checks kernels on a real GPU",
            allowed=f"NVIDIA's wheel, the CUDA toolkit's on PATH, or its path in {VARIABLE}",
            next="pip install nvidia-cuda-sanitizer-api, or leave out --device gpu: the simulated"
            " GPU's sanitizer needs neither",
        )
    return path


def libraries(source: str) -> list[str]:
    """Linker flags for those of NVIDIA's libraries whose headers a program includes."""
    included = set(re.findall(r"^\s*#\s*include\s*[<\"](\w+)\.h", source, re.MULTILINE))
    return sorted({f"-l{name}" for header, name in _LIBRARIES.items() if header in included})


def command_of(path: str, folder: str, flags: Sequence[str] = ()) -> list[str]:
    """The command that runs a file on the GPU; a CUDA program is compiled into the folder."""
    if not path.endswith(".cu"):
        return [sys.executable, path]
    out = os.path.join(folder, Path(path).stem)
    linked = libraries(Path(path).read_text(encoding="utf-8", errors="replace"))
    arguments = ["-arch=native", "-lineinfo", *flags, "-o", out, path, *linked]
    toolkit.find().run(arguments, what=f"compile {path}")
    return [out]


def _quote(path: str) -> Callable[[str, int], str]:
    """Return a function that quotes lines of the file; the tools print base names only."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise Error("cannot read the file", where=path, got=error.strerror or "") from None

    def quote(file: str, line: int) -> str:
        is_script = Path(file).name == Path(path).name and 0 < line <= len(lines)
        return lines[line - 1].strip() if is_script else ""

    return quote


def _ended(tool: str, log: str) -> Error:
    last = log.strip().splitlines()[-1:] or ["nothing"]
    if _UNTOUCHED in log:
        return Error(
            "the program ended before it used the GPU",
            got=f"{tool}: {_UNTOUCHED.removeprefix('before ')} was never made",
            next="is there a GPU, and does the program launch a kernel?",
        )
    return Error(
        f"{tool} of compute-sanitizer did not come to its end",
        got=last[0].removeprefix("=========").strip(),
    )
