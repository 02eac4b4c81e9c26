"""Runs the front ends of nvcc, `cudafe++` and `cicc`, from the point where headers were read."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import resource
import shlex
import shutil
import threading
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from weft import cache
from weft.frontends.program.headers import folder as kept
from weft.frontends.program.headers.split import Split, split
from weft.source.toolkit import Toolkit

UNIT = "unit"
"""The name of all files that nvcc's steps make: it is part of their contents."""
_RESUME = Path(__file__).with_name("resume.cpp")
_MACRO = re.compile(r"#(define|undef|pragma (push|pop)_macro)\b")
NAME = re.compile(r"-DTORCH_EXTENSION_NAME=.*")
"""The option that gives an extension its name."""
_one_at_a_time = threading.Lock()
_ANY = "weft_any_extension"
"""The name of extensions in headers, which are the same for all of them."""


@dataclass
class Side:
    """The first two steps for the host or for the device: preprocessor and front end.

    source  the path of the source
    folder  of all files that nvcc makes
    """

    preprocess: str
    compile: str
    source: str
    folder: str
    environment: dict[str, str]
    files: list[str] = field(default_factory=list)
    """Set by `front_end`: the headers that were read."""


def front_end(side: Side, toolkit: Toolkit) -> str | None:
    """Run both steps of a side; return what they print, or None if they must be run as usual."""
    parts = split(side.source)
    library = _library(toolkit.host) if parts and _is_possible() else None
    if parts is None or library is None:
        return None
    # ValueError: another nvcc, whose steps have other options. OSError: a full disk.
    with contextlib.suppress(ValueError, OSError):
        options = _options(side)
        key = (toolkit.identity, parts.headers, parts.options, _compiler(side, ""))
        with kept.alone(*key, _layout(library), [*map(_generic, options)]) as folder:
            if folder is not None and _preprocessed(side, parts, options, folder):
                side.files = [side.source, *kept.own(kept.files(folder), options)]
                return _compiled(side, folder, library)
    return None


def _layout(library: str) -> tuple[object, ...]:
    """The facts that decide at which addresses a process has its memory."""
    maps = Path("/proc/self/maps").read_text("utf-8", errors="replace")
    libc = re.search(r"/\S*/libc\.so\.\d+", maps)
    state = os.stat(libc[0]).st_mtime_ns if libc else 0
    return library, resource.getrlimit(resource.RLIMIT_STACK), os.uname().release, state


def _options(side: Side) -> list[str]:
    """The command of the preprocessor without its files."""
    words = shlex.split(side.preprocess)
    out = words.index("-o")
    words[out : out + 2] = []
    words.remove(side.source)
    return words


def _generic(option: str) -> str:
    return NAME.sub(f"-DTORCH_EXTENSION_NAME={_ANY}", option)


def _compiler(side: Side, folder: str) -> list[str]:
    """The command of the front end, with files of another folder."""
    text = side.compile.replace("$CICC_PATH", side.environment["CICC_PATH"])
    words = [word.replace(f"{side.folder}/", f"{folder}/") for word in shlex.split(text)]
    for option in ("--orig_src_file_name", "--orig_src_path_name"):
        words[words.index(option) + 1] = f"{UNIT}.cu"
    return [f"{folder}/in.ii" if word.endswith(".ii") else word for word in words]


def _preprocessed(side: Side, parts: Split, options: list[str], folder: Path) -> bool:
    """Write the preprocessed headers, if they are not there, and the preprocessed rest."""
    macros = folder / "macros.h"
    # The cache removes single files.
    if not all((folder / name).exists() for name in ("macros.h", "headers.ii", "in.ii")):
        headers, raw, listing = (folder / name for name in ("headers.cu", "raw.ii", "raw.d"))
        headers.write_text(f"{parts.headers}__COUNTER__\n", encoding="utf-8")
        command = [*map(_generic, options), "-dD", "-MD", "-MF", str(listing), *parts.options]
        if kept.succeeds([*command, str(headers), "-o", str(raw)], side.environment) is None:
            return False
        if not _sort(raw.read_text("utf-8", errors="replace"), folder):
            return False
        kept.keep_files(folder, listing)
        raw.unlink()
    rest = folder / "rest.cu"
    rest.write_text(f'# {parts.line} "{side.source}"\n{parts.rest}', encoding="utf-8")
    command = [*_without_include(options), "-imacros", str(macros), *parts.options, str(rest)]
    command += ["-o", str(folder / "rest.ii")]
    return kept.succeeds(command, side.environment) is not None


def _without_include(options: list[str]) -> list[str]:
    at = options.index("-include")
    return options[:at] + options[at + 2 :]


def _sort(text: str, folder: Path) -> bool:
    """Sort the lines of preprocessed headers into their text and their macros.

    The last line is the number of times that they used `__COUNTER__`: the rest counts on.
    """
    text, counted = text.rstrip().rsplit("\n", 1)
    lines, macros = text.split("\n"), []
    for number, line in enumerate(lines):
        if _MACRO.match(line):
            macros.append(line)
            if not line.startswith("#pragma"):
                lines[number] = ""
    text = "\n".join(lines)
    if _ANY in text:  # headers that depend on the extension
        return False
    macros = [line for line in macros if _ANY not in line]
    macros += ["#if __COUNTER__\n#endif"] * int(counted)
    (folder / "headers.ii").write_text(f"{text}\n", encoding="utf-8")
    (folder / "in.ii").write_text('#include "headers.ii"\n#include "rest.ii"\n', encoding="utf-8")
    (folder / "macros.h").write_text("\n".join(macros) + "\n", encoding="utf-8")
    return True


def _compiled(side: Side, folder: Path, library: str) -> str | None:
    """Run the front end: resume it after the headers, or save it there."""
    image, new = folder / "image", folder / "image.new"
    shutil.copy(f"{side.folder}/{UNIT}.module_id", folder)
    action = f"WEFT_RESUME={image}" if image.exists() else f"WEFT_SAVE={new}"
    preload = [f"LD_PRELOAD={library}", f"WEFT_REST={folder / 'rest.ii'}", action]
    command = ["setarch", "-R", "env", *preload, *_compiler(side, str(folder))]
    printed = kept.succeeds(command, side.environment)
    (folder / f"{UNIT}.module_id").unlink()
    made = list(folder.glob(f"{UNIT}.*"))
    if printed is None or not made:
        image.unlink(missing_ok=True)
        return None
    for path in made:
        shutil.move(path, side.folder)
    if new.exists():
        new.rename(image)
    return printed


@functools.cache
def _is_possible() -> bool:
    """Decide whether a process can be resumed: tested on x86-64; needs fixed addresses."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return bool(shutil.which("setarch")) and kept.succeeds(["setarch", "-R", "true"]) is not None


def _library(host: str) -> str | None:
    """The path of the compiled resume.cpp."""
    name = f"resume-{sha256(_RESUME.read_bytes()).hexdigest()[:16]}.so"
    path = os.path.join(os.path.abspath(cache.folder("locks")), name)
    with _one_at_a_time:  # both sides of a source need it
        if os.path.exists(path):
            return path
        made = f"{path}.{os.getpid()}"
        flags = ["-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
        flags += ["-fno-stack-protector", "-shared", "-fPIC", "-Wl,-z,now"]
        if kept.succeeds([host, *flags, str(_RESUME), "-o", made, "-ldl"]) is None:
            return None
        os.replace(made, path)
    return path
