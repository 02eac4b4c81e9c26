"""`weft profile FILE`: profile the kernels of a script or program, or compare two profiles."""

from __future__ import annotations

import contextlib
import functools
import json as json_module
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from weft.cli import model_of, options, program_options, show
from weft.cli.real_gpu import Launched, dump, launched
from weft.device.selection import Selection
from weft.errors import Error
from weft.frontends.files import is_script, runner
from weft.measure.profile import record
from weft.measure.profile.difference import Changes, diff
from weft.measure.profile.result import Profile
from weft.measure.profile.session import Recording, recording
from weft.report import changes, model, text
from weft.report.files import write
from weft.report.page import page
from weft.report.words import Styled

_RECORD = ".json"


def run(
    file: Annotated[
        Path, typer.Argument(help="A script (.py), a program (.cu) or a record (.json).")
    ],
    other: Annotated[
        Path | None, typer.Argument(help="A second file to compare with the first.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Profile only kernels with this name.")] = None,
    launch: Annotated[
        int | None, typer.Option(min=0, help="Profile only this launch, counted from 0.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="sim or sim:MODEL: simulate. gpu: also read ncu's counters.")
    ] = "sim",
    gpu: options.Gpu = None,
    args: program_options.Args = "",
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="PyTorch: write a trace for Perfetto to this file.")
    ] = None,
    sources: program_options.Sources = None,
    include: program_options.Include = None,
    define: program_options.Define = None,
    std: program_options.Std = None,
    optimize: program_options.Optimize = None,
    library: program_options.Library = None,
    folder: program_options.Folder = None,
    nvcc: program_options.Nvcc = None,
    cuda: program_options.Cuda = None,
    gpus: program_options.Gpus = 1,
    json: show.Json = False,
) -> None:
    """Profile every kernel that a script or program launches. No GPU is needed.

    Launches of the same kernel and shape are added up. With two files, weft prints the differences.
    For a PyTorch script, it also lists operations by module, line and autograd node.
    """
    chosen = options.device(device, gpu)
    if chosen.real:
        if other is not None or file.suffix == _RECORD:
            raise Error(
                "only one file can be profiled on a GPU",
                got=" ".join(map(str, (file, other or ""))).strip(),
                allowed="a script (.py), a program (.cu) or what nvcc has built",
                next="to compare files or show a record, leave out --device gpu",
            )
        # Counters of ncu are for selected kernels; a model is shown as a whole, by times.
        whole = kernel is None and launch is None and html is None and is_script(file)
        output = _to_standard_error() if json else contextlib.nullcontext()
        profiled = model_of.on_gpu(file, args, chosen, output) if whole else None
        if profiled is not None:
            _model(file, profiled, [], trace, json)
            model_of.end()
        _on_gpu(*launched(file, args, kernel, launch, chosen), html, json)
        return
    if other is not None:
        flags = [*_flags(kernel, launch), "--device", chosen.word, "--args", args]
        _compare(file, other, flags, html, json)
        return
    build = program_options.Build(
        sources, include, define, std, optimize, library, folder, nvcc, gpus=gpus, cuda=cuda
    )
    wanted = Recording(chosen.model.key, kernel, launch)
    models: list[model_of.Found] = []
    profiles = _profiles(file, wanted, args, build, chosen, json, models)
    if models:
        _model(file, models[0], profiles, trace, json)
    elif trace is not None:
        raise Error("there is nothing for a trace", got=f"{file}, which does not use PyTorch")
    elif json:
        show.data(record.dump(profiles))
    else:
        _print_profiles(profiles)
    if html is not None:
        _page(html, profiles, quiet=json)


def _on_gpu(launches: list[Launched], note: str, html: Path | None, json: bool) -> None:
    """Prints the counters of ncu and of the simulator."""
    simulated = [one.sim for one in launches if one.sim is not None]
    if json:
        show.data(dump(launches, note))
    else:
        _print(_shown(launches, note, whole=not simulated))
    if html is not None:
        if not simulated:
            raise Error("there is nothing for a page", got=note)
        _page(html, simulated, quiet=json)


def _shown(launches: list[Launched], note: str, *, whole: bool) -> Iterator[Styled]:
    """Simulated kernels in full; kernels of libraries as a summary unless `whole`."""
    if note:
        yield note, "yellow"
    for one in launches:
        if one.ncu is not None and (one.sim is not None or whole):
            yield from text.of_ncu(one.ncu, one.sim)
        elif one.ncu is None and one.sim is not None:
            yield from text.view(one.sim)
    rest = [one.ncu for one in launches if one.sim is None and one.ncu is not None]
    if rest and not whole:
        yield from text.others(rest)


def _model(
    file: Path, found: model_of.Found, profiles: list[Profile], trace: Path | None, json: bool
) -> None:
    """Shows the kernels and the operations of a PyTorch script, and writes the trace."""
    calls = found.calls(profiles)
    if json:
        show.data({**record.dump(profiles), "model": model.data(calls, found.peak())})
    else:
        _print_profiles(profiles)
        _print(model.view(str(file), found.gpu, calls, found.peak(), found.tuning))
    if trace is not None:
        _write(trace, json_module.dumps(model.trace(calls)), quiet=json)


def _print_profiles(profiles: Iterable[Profile]) -> None:
    for profile in profiles:
        _print(text.view(profile))


def _page(html: Path, profiles: list[Profile], *, quiet: bool) -> None:
    _write(html, page(profiles), quiet=quiet)


def _write(html: Path, text: str, *, quiet: bool) -> None:
    write(html, text)
    if not quiet:
        show.line(f"wrote {html}", "bold")


def _flags(kernel: str | None, launch: int | None) -> list[str]:
    values = {"--kernel": kernel, "--launch": None if launch is None else str(launch)}
    return [word for flag, value in values.items() if value is not None for word in (flag, value)]


def _print(lines: Iterable[Styled]) -> None:
    for line, style in lines:
        show.line(line, style)


def _profiles(
    file: Path,
    wanted: Recording,
    args: str,
    build: program_options.Build,
    device: Selection,
    json: bool,
    models: list[model_of.Found],
) -> list[Profile]:
    """The profiles of kernels; `models` gets the profile of a PyTorch script."""
    if file.suffix == _RECORD:
        return Profile.load(file)
    output = _to_standard_error() if json else contextlib.nullcontext()
    with recording(wanted) as recorded, output:  # standard output has the JSON only
        words = program_options.words((), args)
        settings = build.keywords(file)
        if is_script(file):
            settings |= {"on_torch": functools.partial(model_of.watch, device.model, models)}
        code = runner(file).run(str(file), words, device=device, **settings)
    if code:
        raise typer.Exit(code)  # the program has printed why it failed
    if recorded.fault:  # results after a failed kernel are not meaningful
        raise Error("a kernel failed, so there is no report", got=recorded.fault)
    models[:] = [found for found in models if found.calls([])]
    if not recorded.profiles and not models:
        raise _nothing(file, recorded)
    return recorded.profiles


@contextlib.contextmanager
def _to_standard_error() -> Iterator[None]:
    """Redirects standard output of this process and its children to standard error."""
    # What is still in the buffer belongs to standard output.
    sys.stdout.flush()
    # The descriptor itself: child processes and native code do not write through `sys.stdout`.
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


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
def _compare(first: Path, second: Path, flags: list[str], html: Path | None, json: bool) -> None:
    before, after = ([*_recorded(file, flags)] for file in (first, second))
    differences = _matched(before, after)
    if json:
        show.data([_facts(c) for c in differences])
    for one in [] if json else differences:
        _print(text.differences(one))
    if html is not None:
        _write(html, changes.page(differences), quiet=json)


def _recorded(file: Path, flags: list[str]) -> list[Profile]:
    """Runs one file in its own process."""
    if file.suffix == _RECORD:
        return Profile.load(file)
    runner(file)
    command = [sys.executable, "-m", "weft", "profile", str(file), *flags, "--json"]
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", suffix=_RECORD) as out, _waiting(file):
        if code := subprocess.run(command, stdout=out).returncode:
            raise typer.Exit(code)
        return Profile.load(out.name)


def _waiting(file: Path) -> Progress:
    hidden = not sys.stderr.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    progress = Progress(*columns, transient=True, disable=hidden)
    progress.add_task(f"profiling {file}", total=None)
    return progress


def _matched(before: list[Profile], after: list[Profile]) -> list[Changes]:
    """Pairs kernels by name, in order. If each side has one kernel, they are a pair."""
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


def _facts(c: Changes) -> dict[str, object]:
    return {
        "before": c.names[0],
        "after": c.names[1],
        "sections": {name: [vars(row) for row in rows] for name, rows in c.sections},
        "lines": [
            {**vars(line), "counters": [vars(row) for row in line.counters]} for line in c.lines
        ],
    }
