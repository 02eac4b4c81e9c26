"""Runs Triton's compiler up to PTX; the "binary" is the PTX, and `ptxas` is not needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.cache import FileCacheManager

from weft import cache
from weft.device.models import GpuModel
from weft.errors import MissingDependency
from weft.values import Ptx

SUPPORTED = ("3.6", "3.9")
"""Releases that the tests cover."""

_KEY = "weft-ptx"
_OWN = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep
_ASSEMBLY = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
"""Loads and stores are inline assembly to Triton; the line numbers that LLVM puts into it count
the lines of the assembly itself. The one ahead of it is right."""
_LOC = re.compile(r"^\s*\.loc[^\n]*$", re.MULTILINE)
_HOPPER = re.compile(r"^\s*(@\S+\s+)?griddepcontrol\.", re.MULTILINE)
"""Instructions that Triton's language emits for any target and that need sm_90."""
_FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"\n]+)"', re.MULTILINE)


_own_parse_options = CUDABackend.parse_options


def check_version() -> None:
    """Raise for unsupported releases of Triton."""
    if ".".join(triton.__version__.split(".")[:2]) not in SUPPORTED:
        raise MissingDependency(
            "this release of Triton is not supported",
            got=triton.__version__,
            allowed=", ".join(f"{version}.*" for version in SUPPORTED),
            next=f"pip install 'triton=={SUPPORTED[-1]}.*'",
        )


def target(model: GpuModel) -> GPUTarget:
    """The compile target; the backend is still called "cuda", since kernels branch on it."""
    return GPUTarget("cuda", model.triton_arch, model.warp_size)


def install() -> None:
    """Make Triton compile to PTX, with a cache in weft's folder."""
    knobs.cache.dir = cache.folder(f"triton-{triton.__version__.replace('.', '_')}")
    knobs.cache.manager_class = WholeGroups
    knobs.runtime.add_stages_inspection_hook = _stages
    CUDABackend.parse_options = _parse_options
    if os.environ.get("TRITON_DEFAULT_FP_FUSION") is None:
        # This is the default; a release of Triton warns at each kernel until it is set.
        os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"


@contextmanager
def installed() -> Iterator[None]:
    """The same inside of the block; Triton's settings are restored afterwards."""
    with knobs.cache.scope(), knobs.runtime.scope():
        install()
        yield


def load(text: str, name: str) -> Ptx:
    """The PTX of a kernel with the sources of the user's files."""
    text = _ASSEMBLY.sub(lambda block: _LOC.sub("", block[0]), text)
    arch = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    return Ptx(
        text=text,
        arch=arch[1] if arch else "",
        origin=name,
        entries={name: name},
        sources=_sources(text),
    )


def at_home(ptx: Ptx, file: str) -> Ptx:
    """Update the path of a moved file: Triton's cache keys kernels by their text."""
    for named in _FILE.findall(ptx.text):
        if os.path.basename(named) == os.path.basename(file) != named != file:
            text = ptx.text.replace(f'"{named}"', f'"{file}"')
            return replace(ptx, text=text, sources=_sources(text))
    return ptx


def _sources(text: str) -> dict[str, str]:
    """The files named in the PTX, without those of Triton."""
    named = [f for f in _FILE.findall(text) if not f.startswith(_OWN) and os.path.isfile(f)]
    return {file: Path(file).read_text(encoding="utf-8", errors="replace") for file in named}


def _parse_options(backend: Any, options: Any) -> Any:
    """Triton's function; a libdevice that is missing is replaced by Triton's own.

    A tutorial names the file of a source tree, which an installed Triton does not have.
    """
    libraries = dict(options.get("extern_libs") or {})
    if not os.path.exists(libraries.get("libdevice") or os.curdir):
        del libraries["libdevice"]
        options = {**options, "extern_libs": libraries}
    return _own_parse_options(backend, options)


def _stages(*arguments: Any) -> tuple[str, str] | None:
    """Triton's hook: without arguments returns its cache key, else changes the stages."""
    if not arguments:
        return _KEY, _KEY
    stages = arguments[1]
    stages["cubin"] = lambda ptx, metadata: ptx.encode()
    return None


def for_its_instructions(ptx: str) -> str:
    """Raise the target of PTX with instructions of sm_90, which inline assembly may contain.

    Code for GPUs after Hopper is compiled for sm_89: see `GpuModel.triton_arch`.
    """
    if not _HOPPER.search(ptx):
        return ptx
    return re.sub(r"^(\s*\.target\s+)sm_8\d", r"\1sm_90", ptx, flags=re.MULTILINE)


class WholeGroups(FileCacheManager):  # type: ignore[misc]
    """Triton's cache; a partly pruned group counts as missing."""

    def get_group(self, filename: str) -> dict[str, str] | None:
        files: dict[str, str] | None = super().get_group(filename)
        # Triton would fail on a group whose files were pruned one by one.
        complete = files is not None and {".json", ".cubin"} <= {Path(p).suffix for p in files}
        return files if complete else None
