"""Precompiled headers: a process that compiles many sources with the same headers reads them once.

NVRTC writes the headers at the start of a source, as parsed, to a file, which only the same process
can use. To write it takes up to a third longer than to compile as usual. So the first source is
compiled as usual, the second one writes the file, and later ones use it. Large headers are written
by the third one: a module and one instance of a template are two compilations.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence

from weft import cache
from weft.records import dataclass
from weft.source import nvrtc, remarks
from weft.source.scan import File, without_comments

LONG = 0.5
"""Seconds: the headers of a source that takes longer are large."""
MOST_BYTES = 1 << 29
"""The limit on all files: the least recently used are removed. CUB's headers take 300 MB."""


@dataclass(slots=True, eq=False)
class _Headers:
    """Headers that sources begin with, and the folder of their file.

    refused  NVRTC cannot write the file, or cannot use it
    """

    wait: int = 1
    """Sources that are still compiled as usual."""
    writing: bool = False
    ready: bool = False
    long: bool = False
    refused: bool = False
    folder: str = ""


_PREFIX = "weft-headers-"
_known: OrderedDict[str, _Headers] = OrderedDict()
_lock = threading.Lock()


def compile(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str], own: Sequence[File]
) -> nvrtc.NvrtcOutput:
    """Compile as `nvrtc.compile`, with precompiled headers where that saves time.

    own  all headers that are not NVIDIA's
    """
    contents = [(file.name, file.text) for file in own]
    key = cache.key(os.getpid(), _preamble(source), name, list(options), contents)
    headers, precompiled = _begin(key)
    if precompiled:
        further = ["--pch", f"--pch-dir={headers.folder}"]
        further += ["--pch-messages=false", "--pch-verbose=false"]
        made = _attempt(headers, source, name, [*options, *further], expressions)
        if made is not None:
            return made
    begin = time.thread_time()
    made = nvrtc.compile(source, name, options, expressions)  # raises what is wrong, as usual
    if time.thread_time() - begin > LONG and not headers.long:
        headers.long, headers.wait = True, headers.wait + 1
    # A warning of a header would not be repeated where the file is used.
    if precompiled or remarks.read(made.log, own):
        headers.ready, headers.refused = False, True
        shutil.rmtree(headers.folder or os.devnull, ignore_errors=True)
    headers.wait -= 1
    return made


def _preamble(source: str) -> str:
    """The directives before the first other line."""
    lines, continued = [], False
    for line in without_comments(source).split("\n"):
        if line.strip() and not continued and not line.lstrip().startswith("#"):
            break
        continued = line.endswith("\\")
        lines.append(line)
    return "\n".join(lines).rstrip()


def _begin(key: str) -> tuple[_Headers, bool]:
    """The headers, and whether the file is there or this thread is to write it."""
    with _lock:
        headers = _known.setdefault(key, _Headers())
        _known.move_to_end(key)
        if headers.wait > 0 or headers.ready or headers.refused or headers.writing:
            return headers, headers.ready
        try:
            headers.folder = tempfile.mkdtemp(dir=_root(os.getpid()))
        except (OSError, nvrtc.NvrtcRefused):  # a full disk, or too little memory
            headers.refused = True
            return headers, False
        headers.writing = True
        return headers, True


def _attempt(
    headers: _Headers, source: str, name: str, options: Sequence[str], expressions: Sequence[str]
) -> nvrtc.NvrtcOutput | None:
    """Write or use the file; None if that fails, or the source has an error."""
    try:
        made = nvrtc.compile(source, name, options, expressions)
    except nvrtc.NvrtcRefused:
        return None
    finally:
        headers.writing = False
    # NVRTC warns where its memory does not suffice. It writes a second file where it takes other
    # lines for the headers than weft.
    if "precompiled header" in made.log or _files(headers.folder) != 1:
        return None
    with _lock:
        headers.ready = True
        _make_room()
    return made


def _files(folder: str) -> int:
    return len(os.listdir(folder)) if os.path.isdir(folder) else 0


def _make_room() -> None:
    ready = [(key, x) for key, x in _known.items() if x.ready]
    sizes = {key: sum(e.stat().st_size for e in os.scandir(x.folder)) for key, x in ready}
    total = sum(sizes.values())
    for key, headers in ready[:-1]:
        if total > MOST_BYTES:
            total -= sizes[key]
            del _known[key]
            shutil.rmtree(headers.folder, ignore_errors=True)


@functools.cache
def _root(process: int) -> str:
    """The folder of a process: a fork has another one."""
    nvrtc.reserve_for_headers(MOST_BYTES)
    _remove_leftovers()
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-")

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _remove_leftovers() -> None:
    """Folders of processes that were killed. One that is in use after all costs only time."""
    if os.name == "nt":  # where `os.kill` ends processes
        return
    for entry in os.scandir(tempfile.gettempdir()):
        process = entry.name.removeprefix(_PREFIX).partition("-")[0]
        if not entry.name.startswith(_PREFIX) or not process.isdigit():
            continue
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:  # it lives, and is another user's
            continue


def _new_lock() -> None:
    """In a child of `fork`: the thread that held the lock may be one of its parent."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
