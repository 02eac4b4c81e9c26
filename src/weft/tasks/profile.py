"""Profiles the kernels of a script or program, or compares the profiles of two."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.device.selection import Selection
from weft.errors import Error
from weft.frontends import recorded as activities
from weft.frontends.files import is_script, runner
from weft.measure.profile import record
from weft.measure.profile.difference import Changes, diff
from weft.measure.profile.result import Profile
from weft.measure.profile.session import Recording, recording
from weft.measure.timeline.operations import measured
from weft.measure.timeline.timeline import modelled
from weft.report.model import operations as operations_report
from weft.tasks import real_gpu
from weft.tasks.ended import ProgramEnded
from weft.tasks.model import script
from weft.tasks.model.output import to_standard_error
from weft.tasks.program import Build, words
from weft.values.analysis import AnalysedProfile, Launched
from weft.values.layers import StepProfile
from weft.values.model import ModelProfile
from weft.values.time.timeline import Timeline

RECORD = ".json"
Waiting = Callable[[Path], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class ProfileOptions:
    """A file to profile.

    kernel, launch  profile only kernels with this name, only this launch
    args            arguments of the program, in one string
    timeline        also record the calls, copies and ranges
    quiet           what the program prints goes to standard error
    """

    file: Path
    device: Selection
    kernel: str | None = None
    launch: int | None = None
    args: str = ""
    build: Build = field(default_factory=Build)
    quiet: bool = False
    timeline: bool = False

    @property
    def flags(self) -> list[str]:
        """Options of `weft profile` for the same file on the simulated GPU."""
        values = {"--kernel": self.kernel, "--launch": self.launch}
        return [str(word) for pair in values.items() if pair[1] is not None for word in pair]


@dataclass(frozen=True)
class Profiled:
    """The kernels of a file, the operations of a PyTorch script, and a note on missing counters.

    step      the step of a PyTorch script by layers; None if it calls no module
    timeline  the timeline, if it was asked for and can be made
    """

    launches: tuple[Launched, ...]
    model: ModelProfile | None = None
    note: str | None = None
    step: StepProfile | None = None
    timeline: Timeline | None = None

    @property
    def profiles(self) -> list[AnalysedProfile]:
        """The profiles of the simulator."""
        return [one.sim for one in self.launches if one.sim is not None]

    def to_dict(self) -> dict[str, Any]:
        """The record of the profiles, for JSON."""
        if self.note is not None:
            return real_gpu.dump(self.launches, self.note)
        shown: dict[str, Any] = {}
        if self.timeline is not None:
            shown["timeline"] = self.timeline.to_dict()
        if self.model is not None:
            shown["model"] = operations_report.data(self.model)
        if self.step is not None:
            shown["step"] = self.step.to_dict()
        return {**record.dump(self.profiles), **shown}


def profile(options: ProfileOptions) -> Profiled:
    """Profile every kernel that a file launches; launches of one kernel and shape are added up."""
    if options.timeline:
        _check_timeline(options)
    return _on_gpu(options) if options.device.real else _simulated(options)


def _on_gpu(options: ProfileOptions) -> Profiled:
    if options.file.suffix == RECORD:
        raise one_file(options.file)
    # Counters of ncu are for selected kernels; a model is shown as a whole, by times.
    selected = options.kernel is not None or options.launch is not None
    if not selected and is_script(options.file):
        found = script.on_gpu(options.file, options.args, options.device, _output(options))
        if found is not None:
            profiled = _modelled(options.file, found, ())
            model = profiled.model if options.timeline else None
            seen = None if model is None else measured(options.file.name, model.gpu, model.calls)
            return replace(profiled, timeline=seen)
    launches, note = real_gpu.launched(
        options.file, options.args, options.kernel, options.launch, options.device
    )
    return Profiled(tuple(launches), note=note)


def _check_timeline(options: ProfileOptions) -> None:
    if options.file.suffix == RECORD:
        raise Error(
            "a record of profiles has no timeline",
            got=str(options.file),
            allowed="a script (.py), a program (.cu) or what `weft nvcc` has built",
        )
    if options.flags:
        raise Error(
            "a timeline needs every kernel",
            got=" ".join(options.flags),
            next="leave out --kernel and --launch, or --trace",
        )


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
    models: list[script.Found] = []
    gpu = options.device.model
    wanted = Recording(gpu.key, options.kernel, options.launch, timeline=options.timeline)
    if options.timeline and is_script(file):
        activities.follow(wanted)
    with recording(wanted) as recorded, _output(options):
        settings = options.build.keywords(file)
        if is_script(file):
            settings["on_torch"] = functools.partial(script.watch, gpu, models)
        arguments = words((), options.args)
        code = runner(file).run(str(file), arguments, device=options.device, **settings)
    if code:
        raise ProgramEnded(code)
    if recorded.fault:  # results after a failed kernel are not meaningful
        raise Error("a kernel failed, so there is no report", got=recorded.fault)
    found = next((one for one in models if one.calls([])), None)
    profiles = recorded.profiles
    if not profiles and found is None and not recorded.activities:
        raise _nothing(file, recorded)
    launches = tuple(Launched(None, p) for p in profiles)
    result = Profiled(launches) if found is None else _modelled(file, found, profiles)
    if not options.timeline:
        return result
    calls = () if result.model is None else result.model.calls
    seen = modelled(file.name, gpu, recorded.activities, profiles, calls)
    return replace(result, timeline=seen)


def _modelled(file: Path, found: script.Found, profiles: Sequence[Profile]) -> Profiled:
    model = script.value(file, found, profiles)
    launches = tuple(Launched(None, p) for p in profiles)
    return Profiled(launches, model, step=script.step(found, model))


def _output(options: ProfileOptions) -> contextlib.AbstractContextManager[None]:
    return to_standard_error() if options.quiet else contextlib.nullcontext()


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
