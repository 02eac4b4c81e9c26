"""`weft profile FILE --device gpu`: counters of ncu and of the simulator for the same launches.

Where ncu cannot read counters, the result has the simulator's counters and times by events.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from weft.device import driver
from weft.device.selection import Selection
from weft.errors import Error, NoCounters
from weft.frontends import timed
from weft.measure.profile import ncu, record
from weft.measure.profile.result import Profile
from weft.source import toolkit
from weft.tasks.ended import ProgramEnded
from weft.values.analysis import KernelCounters, Launched

SIMULATED = (".py", ".cu")
"""Suffixes of files that the simulator can run. ncu alone profiles a built program."""


def dump(launches: Sequence[Launched], note: str) -> dict[str, Any]:
    """The record of a run. Each entry of ncu has the index of its simulated profile."""
    profiles = [one.sim for one in launches if one.sim is not None]
    # By identity: several entries of ncu may belong to one simulated profile.
    numbers = {id(p): i for i, p in enumerate(profiles)}
    counted = [
        {**asdict(one.ncu), "profile": numbers.get(id(one.sim))}
        for one in launches
        if one.ncu is not None
    ]
    return {**record.dump(profiles), "note": note, "ncu": counted}


def launched(
    file: Path, args: str, kernel: str | None, launch: int | None, device: Selection
) -> tuple[list[Launched], str]:
    """The launches, and a note if some counters are missing."""
    if not file.is_file():
        raise Error("there is no such file", where=str(file))
    # Which model a real GPU is follows from its driver; without one the default is simulated.
    model = device.model if driver.count() else device.simulated
    flags = ["--device", f"sim:{model.key}", "--args", args]
    flags += ["--kernel", kernel] if kernel else []
    flags += ["--launch", str(launch)] if launch is not None else []
    try:
        with _program(file) as program:
            counted = ncu.counters([*program, *shlex.split(args)], kernel, launch)
    except NoCounters as error:
        return _without(file, args, flags, error)
    if not counted:
        raise Error(
            "no launch was counted",
            where=str(file),
            next="--kernel and --launch select launches; check that the file launches a kernel",
        )
    try:
        # The counters of ncu are shown also where the simulator cannot run the file, so its error
        # becomes a note.
        simulated = _simulated(file, flags, stderr=subprocess.PIPE)
    except Error as error:
        return [Launched(c, None) for c in counted], f"no column sim: {error.what} ({error.got})"
    return [Launched(c, _same(c, simulated)) for c in counted], ""


def _without(
    file: Path, args: str, flags: Sequence[str], error: NoCounters
) -> tuple[list[Launched], str]:
    if file.suffix not in SIMULATED:
        raise error
    why = "; ".join(part for part in (error.got, error.next) if part)
    note = f"{error.what} ({why}): these are the simulator's facts"
    profiles = _simulated(file, flags)
    if file.suffix == ".py" and driver.count():
        taken = timed.times(str(file), shlex.split(args))
        profiles = [
            replace(p, measured=taken.of(s.kernel, s.grid, s.block))
            for p, s in ((p, p.launch) for p in profiles)
        ]
    return [Launched(None, p) for p in profiles], note


@contextmanager
def _program(file: Path) -> Iterator[list[str]]:
    """The command that ncu runs. A CUDA program is built for the GPU in this machine."""
    if file.suffix != ".cu":
        yield [sys.executable, str(file)] if file.suffix == ".py" else [str(file.resolve())]
        return
    ncu.tool()  # raises before the build if ncu is not there
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, file.stem))
        arguments = ["-arch=native", "-lineinfo", "-o", out, str(file)]
        toolkit.find().run(arguments, what=f"compile {file}")
        yield [out]


def _simulated(file: Path, flags: Sequence[str], stderr: int | None = None) -> list[Profile]:
    """Profile the file on the simulated GPU, in its own process with this `stderr`."""
    if file.suffix not in SIMULATED:
        raise Error("a built program cannot be simulated", got=str(file), next="pass its .cu file")
    command = [sys.executable, "-m", "weft", "profile", str(file), *flags, "--json"]
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", suffix=".json") as out:
        done = subprocess.run(command, stdout=out, stderr=stderr, text=True, encoding="utf-8")
        if done.returncode and stderr is None:
            raise ProgramEnded(done.returncode)  # it has printed why
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise Error("the file does not run on the simulated GPU", got=last[0].strip())
        return Profile.load(out.name)


def _same(c: KernelCounters, simulated: Sequence[Profile]) -> Profile | None:
    """The simulator's profile of the same launches."""
    shapes = ((p, p.launch) for p in simulated)
    return next((p for p, s in shapes if ncu.same_launch(c, s.kernel, s.grid, s.block)), None)
