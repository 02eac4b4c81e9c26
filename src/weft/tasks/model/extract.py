"""Extracts a layer of a PyTorch script: runs the script, finds the layer, writes a ladder."""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
from dataclasses import dataclass
from pathlib import Path

from weft.climbing.extract import extract as ladders
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.frontends import script as scripts
from weft.frontends.files import must_be_script
from weft.measure.layers.layers import LayerNames
from weft.measure.layers.steps import choose, steps
from weft.tasks.ended import ProgramEnded
from weft.tasks.model import script
from weft.tasks.model.output import to_standard_error
from weft.tasks.program import words
from weft.values.model import BACKWARD, Call, ModelProfile


@dataclass(frozen=True)
class ExtractOptions:
    """A layer of a script.

    layer  its path as `weft profile` shows it, or without the class of the model
    name   the ladder's name; made of the path if empty
    where  the folder that the ladder's folder is made in
    quiet  what the script prints goes to standard error
    """

    file: Path
    layer: str
    device: Selection
    args: str = ""
    name: str = ""
    where: Path = Path(".")
    quiet: bool = False


@dataclass(frozen=True)
class ExtractedLadder:
    """The files of a ladder, and what is in it."""

    layer: str
    operation: str
    about: str
    sizes: dict[str, int]
    files: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return self.files[0].parent

    @property
    def command(self) -> str:
        """The command that climbs it."""
        folder = self.folder
        return f"weft climb {folder if folder.is_absolute() else f'./{folder}'}"


def extract(options: ExtractOptions) -> ExtractedLadder:
    """Write the dominating computation of a layer as a ladder."""
    model = _run(options)
    found = steps(model.calls, model.events)
    if not found:
        raise ArgumentError(
            "the script calls no module of PyTorch",
            where=str(options.file),
            next="call a model in it: model(x)",
        )
    calls = [c for c in choose(found)[0].calls if c.phase != BACKWARD]
    path = _path(options.layer, model)
    inside = [c for c in calls if _is_inside(c, path)]
    made = ladders.find(path, inside, model.modules)
    name = options.name or re.sub(r"\W", "_", path.partition(".")[2] or path).lower()
    name = name if name.isidentifier() else f"layer_{name}"
    files = ladders.write(made, str(options.file), name, options.where)
    kind = made.computation
    return ExtractedLadder(made.layer, made.operation, kind.about, dict(kind.sizes), tuple(files))


def _run(options: ExtractOptions) -> ModelProfile:
    must_be_script(options.file)
    models: list[script.Found] = []
    watch = functools.partial(script.watch, options.device.model, models)
    with to_standard_error() if options.quiet else contextlib.nullcontext():
        code = scripts.run(
            str(options.file), words((), options.args), device=options.device, on_torch=watch
        )
    if code:
        raise ProgramEnded(code)
    if not models:
        raise ArgumentError("the script does not use PyTorch", got=str(options.file))
    return script.value(options.file, models[0], [])


def _is_inside(call: Call, path: str) -> bool:
    module = call.place.module.rpartition(" > ")[2]
    return module == path or module.startswith(f"{path}.")


def _path(layer: str, model: ModelProfile) -> str:
    """The path of a module by its whole name, its name in the model, or its row in a profile."""
    names = LayerNames(model.modules)
    for path in model.modules:
        row = names.row(path)
        if layer in (path, path.partition(".")[2], row, row.partition(".")[2]):
            return path
    known = list(model.modules) + [p.partition(".")[2] for p in model.modules]
    near = difflib.get_close_matches(layer, known, 1)
    rows = list(dict.fromkeys(map(names.row, model.modules)))
    raise ArgumentError(
        "no such layer",
        where=model.script,
        got=layer,
        allowed=", ".join(rows[:20]) + (", …" if len(rows) > 20 else ""),
        next=f"did you mean '{near[0]}'?" if near else f"weft profile {model.script} lists them",
    )
