"""Profiles the kernels of a script or program, or compares the profiles of two."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.device.selection import Selection
from weft.errors import Error
from weft.frontends.files import is_script, runner
from weft.measure.profile import record
from weft.measure.profile.difference import Changes, diff
from weft.measure.profile.result import Profile
from weft.measure.profile.session import Recording, recording
from weft.report import model as model_report
from weft.tasks import model, real_gpu
from weft.tasks.ended import ProgramEnded
from weft.tasks.program import Build, words
from weft.values.analysis import AnalysedProfile, Launched
from weft.values.model import ModelProfile

RECORD = ".json"
Waiting = Callable[[Path], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class ProfileOptions:
    """A file to profile.

    kernel, launch  profile only kernels with this name, only this launch
    args            arguments of the program, in one string
    counters        on a GPU: read counters also of a whole script, which is shown by times else
    quiet           what the program prints goes to standard error
    """

    file: Path
    device: Selection
    kernel: str | None = None
    launch: int | None = None
    args: str = ""
    build: Build = field(default_factory=Build)
    counters: bool = False
    quiet: bool = False

    @property
    def flags(self) -> list[str]:
        """Options of `weft profile` for the same file on the simulated GPU."""
        values = {"--kernel": self.kernel, "--launch": self.launch}
        return [str(word) for pair in values.items() if pair[1] is not None for word in pair]


@dataclass(frozen=True)
class Profiled:
    """The kernels of a file, the model of a PyTorch script, and a note on missing counters."""

    launches: tuple[Launched, ...]
    model: ModelProfile | None = None
    note: str | None = None

    @property
    def profiles(self) -> list[AnalysedProfile]:
        """The profiles of the simulator."""
        return [one.sim for one in self.launches if one.sim is not None]

    def to_dict(self) -> dict[str, Any]:
        """The record of the profiles, for JSON."""
        if self.note is not None:
            return real_gpu.dump(self.launches, self.note)
        shown = {} if self.model is None else {"model": model_report.data(self.model)}
        return {**record.dump(self.profiles), **shown}


def profile(options: ProfileOptions) -> Profiled:
    """Profile every kernel that a file launches; launches of one kernel and shape are added up."""
    return _on_gpu(options) if options.device.real else _simulated(options)


def _on_gpu(options: ProfileOptions) -> Profiled:
    if options.file.suffix == RECORD:
        raise one_file(options.file)
    # Counters of ncu are for selected kernels; a model is shown as a whole, by times.
    selected = options.counters or options.kernel is not None or options.launch is not None
    if not selected and is_script(options.file):
        found = model.on_gpu(options.file, options.args, options.device, _output(options))
        if found is not None:
            return Profiled((), model.value(options.file, found, []))
    launches, note = real_gpu.launched(
        options.file, options.args, options.kernel, options.launch, options.device
    )
    return Profiled(tuple(launches), note=note)


def one_file(*files: Path) -> Error:
    """The error for files that a GPU cannot profile."""
    return Error(
        "only one file can be profiled on a GPU",
        got=" ".join(map(str, files)),
        allowed="a script (.py), a program (.cu) or what nvcc has built",
        next="to compare files or show a record, leave out --device gpu",
    )


def _simulated(options: ProfileOptions) -> Profiled:
    file = options.file
    if file.suffix == RECORD:
        return Profiled(tuple(Launched(None, p) for p in Profile.load(file)))
    models: list[model.Found] = []
    wanted = Recording(options.device.model.key, options.kernel, options.launch)
    with recording(wanted) as recorded, _output(options):
        settings = options.build.keywords(file)
        if is_script(file):
            settings["on_torch"] = functools.partial(model.watch, options.device.model, models)
        arguments = words((), options.args)
        code = runner(file).run(str(file), arguments, device=options.device, **settings)
    if code:
        raise ProgramEnded(code)
    if recorded.fault:  # results after a failed kernel are not meaningful
        raise Error("a kernel failed, so there is no report", got=recorded.fault)
    found = next((one for one in models if one.calls([])), None)
    profiles = recorded.profiles
    if not profiles and found is None:
        raise _nothing(file, recorded)
    launches = tuple(Launched(None, p) for p in profiles)
    return Profiled(launches, None if found is None else model.value(file, found, profiles))


def _output(options: ProfileOptions) -> contextlib.AbstractContextManager[None]:
    return _to_standard_error() if options.quiet else contextlib.nullcontext()


@contextlib.contextmanager
def _to_standard_error() -> Iterator[None]:
    """Redirect standard output of this process and its children to standard error."""
    # What is still in the buffer belongs to standard output.
    sys.stdout.flush()
    # The descriptor itself: child processes and native code do not write through `sys.stdout`.
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _nothing(file: Path, recorded: Recording) -> Error:
    seen = ", ".join(f"{name} ({n} x)" for name, n in recorded.seen.items())
    return Error(
        "no launch was profiled",
        where=str(file),
        got=f"launches of {seen}" if seen else "no launch on the simulated GPU",
        next="--kernel and --launch select among these"
        if seen
        else "launch a kernel in it; launches inside weft.profile do not count",
    )


# ---- two of them ---------------------------------------------------------------------------------
def compare(
    first: ProfileOptions, second: Path, waiting: Waiting = lambda file: contextlib.nullcontext()
) -> list[Changes]:
    """Return the changes from one file or record to another.

    Each file runs in its own process; `waiting(file)` is entered while it runs.
    """
    if first.device.real:
        raise one_file(first.file, second)
    flags = [*first.flags, "--device", first.device.word, "--args", first.args]
    before, after = (_recorded(file, flags, waiting) for file in (first.file, second))
    return _matched(before, after)


def _recorded(file: Path, flags: Sequence[str], waiting: Waiting) -> list[Profile]:
    if file.suffix == RECORD:
        return Profile.load(file)
    runner(file)
    command = [sys.executable, "-m", "weft", "profile", str(file), *flags, "--json"]
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", suffix=RECORD) as out, waiting(file):
        if code := subprocess.run(command, stdout=out).returncode:
            raise ProgramEnded(code)
        return Profile.load(out.name)


def _matched(before: Sequence[Profile], after: Sequence[Profile]) -> list[Changes]:
    """Pair kernels by name, in order. If each side has one kernel, they are a pair."""
    # Two versions of a kernel may have different names.
    if len(before) == len(after) == 1:
        return [diff(before[0], after[0])]
    left, out = list(after), []
    for one in before:
        pair = next((p for p in left if p.launch.kernel == one.launch.kernel), None)
        if pair is not None:
            left.remove(pair)
            out.append(diff(one, pair))
    if not out:
        names = [sorted({p.launch.kernel for p in side}) for side in (before, after)]
        raise Error(
            "the two files have no kernel in common",
            got=" and ".join(", ".join(side) for side in names),
            next="--kernel NAME --json writes a record of one kernel; compare two such records",
        )
    return out
