"""Runs a user's file in a process of its own, and describes the error that ends it.

    python -m weft.tasks.support.failing FILE RESULT    writes a `Failure` as JSON to RESULT

The launch is found in the traceback, so nothing is recorded while kernels run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from weft.errors import Error
from weft.frontends.files import is_script, runner
from weft.kernels import Launch
from weft.values.support.bug_report import Argument, Failure

_PACKAGES = ("site-packages", "lib" + os.sep + "python", "<frozen")


def main(file: str, result: str) -> int:
    """Run a file and write the failure that ends it; return the exit code of the file."""
    found: list[Failure] = []

    def hook(_: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        found.append(describe(error, trace))

    sys.excepthook = hook
    try:
        code = int(runner(Path(file)).run(file, []))
    except Error as error:
        found.append(describe(error, error.__traceback__))
        code = 1
    if code and not found:
        sources = {} if is_script(Path(file)) else {file: Path(file).read_text("utf-8", "replace")}
        found.append(Failure("exit code", f"the program ended with {code}", sources=sources))
    if found:
        Path(result).write_text(json.dumps(asdict(found[0])), encoding="utf-8")
    return code


def describe(error: BaseException, trace: TracebackType | None) -> Failure:
    """The failure of an error: its kind and places, the launch and its source; no values."""
    frames = list(_frames(trace))
    kernel, arguments, sources = _launch(frames)
    return Failure(
        kind=type(error).__name__,
        what=error.what.partition("\n")[0] if isinstance(error, Error) else "",
        where=error.where.partition("  `")[0] if isinstance(error, Error) else "",
        frames=tuple(
            f"{f.f_code.co_filename}:{line}"
            for f, line in frames
            if _is_users(f.f_code.co_filename)
        ),
        kernel=kernel,
        arguments=arguments,
        sources=sources,
    )


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_users(file: str) -> bool:
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return not (file.startswith(own + os.sep) or any(part in file for part in _PACKAGES))


def _launch(
    frames: list[tuple[FrameType, int]],
) -> tuple[str, tuple[Argument, ...], dict[str, str]]:
    """The innermost launch of a traceback, its arguments and the source of its kernel."""
    for frame, _ in reversed(frames):
        here = frame.f_locals
        if isinstance(launch := here.get("self"), Launch) and "args" in here:
            config, names = launch.config, launch.kernel.packer.names
            labels = [*names, *(f"argument {i}" for i in range(len(names), len(here["args"])))]
            arguments = tuple(map(_argument, labels, here["args"]))
            title = f"{launch.name}, grid {config.grid}, block {config.block}"
            return title, arguments, dict(launch.kernel.program.ptx.sources)
        if frame.f_code.co_name == "cuda" and "source_or_path" in here:  # it does not compile
            return "", (), _text(here["source_or_path"])
    return "", (), {}


def _argument(name: str, value: Any) -> Argument:
    shape = getattr(value, "shape", None)
    kind = str(getattr(value, "dtype", type(value).__name__))
    return Argument(name, kind, None if shape is None else tuple(map(int, shape)))


def _text(source: str | Path) -> dict[str, str]:
    """The text of a source that is given as itself or by its path."""
    if isinstance(source, str) and "\n" in source:
        return {"kernel.cu": source}
    path = Path(source)
    return {path.name: path.read_text("utf-8", "replace")} if path.is_file() else {}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
