"""Writes docs/api.md from the docstrings of the public names; `scripts/tables.py` calls it.

A docstring is a summary, paragraphs, lines `name   what it is` for parameters or fields, and an
example after `>>>` prompts. Examples share their names, in the order of the document.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

INTRODUCTION = """\
# Python API

Every public name, generated from the docstrings. The tests run all examples in this order, and
an example can use the names of those before it.

A `device` is a word: `"sim"` is the simulated GPU of the default model, `"sim:rtx3070"` that of
another [model](devices.md), `"gpu"` the first real GPU, `"gpu:1"` or `"cuda:1"` another one.
"""

SECTIONS = {
    "Write and run kernels": (
        "weft",
        "cuda load_ptx kernel Module Kernel Launch cdiv synchronize"
        " texture Texture surface Surface tensor_map im2col_map TensorMap",
    ),
    "Check results": ("weft", "check schedule Report Verdict Op Case"),
    "Sanitize": ("weft", "sanitize"),
    "weft.sanitizer": ("weft.sanitizer", "empty filled sanitize Report Access Finding"),
    "Debug": ("weft", "breakpoint Breakpoint Debugger"),
    "Profile": ("weft", "profile Profile Prediction LineStalls Advice Roofline Section Changes"),
    "Several GPUs": ("weft", "predict_parallel ParallelPrediction ParallelRow"),
    "Bench": ("weft", "bench Bench Timing Contender"),
    "Climb ladders": ("weft", "climb Climb RungResult"),
    "PyTorch": ("weft", "as_op fuse graph explain"),
    "weft.ops": ("weft.ops", "as_op verify explain"),
    "weft.quant": (
        "weft.quant",
        "quantise Quantised calibrate Activations Calibration convert revert from_torchao Linear"
        " DynamicLinear report Report",
    ),
    "weft.sparse": (
        "weft.sparse",
        "prune report SparsityReport compress SemiStructured convert Linear",
    ),
    "weft.distributed": (
        "weft.distributed",
        "ring_attention ulysses_attention shard gather positions schedule Schedule RankError",
    ),
    "weft.llm": ("weft.llm", "load Generator Sampling Texts"),
    "weft.distributed.parallel": (
        "weft.distributed.parallel",
        "parallelise ParallelDecoder whole_state_dict load_whole ColumnParallelLinear"
        " RowParallelLinear ParallelAttention ParallelMLP ParallelSwiGLU VocabParallelEmbedding"
        " VocabParallelHead vocab_parallel_cross_entropy all_reduce_add_rms_norm"
        " all_reduce_add_layer_norm reduce_scatter_add_rms_norm reduce_scatter_add_layer_norm"
        " clip_grad_norm_ GradientBuckets named_failures",
    ),
    "weft.triton": ("weft.triton", "install allow"),
    "weft.numba": ("weft.numba", "install"),
    "Errors and warnings": (
        "weft",
        "Error CompileError PtxError UnsupportedInstruction LaunchError ArgumentError DeviceError"
        " IllegalAddress MisalignedAddress InvalidFree AssertFailed Trapped Deadlock TimeLimit"
        " CaptureError CheckFailed SanitizerError MissingDependency OutOfMemory NoCounters"
        " CacheError CompileWarning CacheWarning",
    ),
}
"""Title -> (module, its names in the order of the document)."""
MADE_BY_USERS = (
    "Case", "ColumnParallelLinear", "Contender", "DynamicLinear", "Generator", "GradientBuckets",
    "Linear", "Op", "ParallelAttention", "ParallelMLP", "ParallelSwiGLU", "RowParallelLinear",
    "Sampling", "Texts", "VocabParallelEmbedding", "VocabParallelHead",
)  # fmt: skip
"""Classes whose constructor is public; all others are results."""
_FIELD = re.compile(r"(?P<names>[a-z]\w*(?:,? \w+)*?) {2,}(?P<text>\S.*)")


@dataclass(frozen=True)
class Entry:
    """One public name."""

    module: str
    name: str

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def title(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def doc(self) -> str:
        """Its own docstring, never one of a base class."""
        return inspect.cleandoc(self.value.__doc__ or "")

    @property
    def home(self) -> tuple[str, str]:
        """The module and name of its definition: two names of one object are described once."""
        return self.value.__module__, self.value.__qualname__


def entries() -> dict[str, list[Entry]]:
    """Every public name, by section."""
    return {
        title: [Entry(module, name) for name in names.split()]
        for title, (module, names) in SECTIONS.items()
    }


def document() -> str:
    """The whole of docs/api.md."""
    parts, described = [INTRODUCTION], dict[tuple[str, str], str]()
    for title, found in entries().items():
        parts.append(f"## {title}\n")
        if title.startswith("weft."):
            summary = inspect.cleandoc(importlib.import_module(title).__doc__ or "")
            parts.append(summary + "\n")
        for entry in found:
            parts.append(f"### `{entry.title}`\n")
            if entry.home in described:
                parts.append(f"The same as `{described[entry.home]}`.\n")
                continue
            described[entry.home] = entry.title
            parts += _entry(entry)
        if title == "weft.ops":
            parts.append(_ops())
    return "\n".join(parts)


def markdown(doc: str) -> str:
    """A docstring as Markdown: its paragraphs and lists, then its example."""
    return "\n".join([*_paragraphs(doc), *(_example(doc) if ">>>" in doc else ())])


def example(doc: str) -> tuple[str, str]:
    """(the code of a docstring's example, what it prints)."""
    found = doctest.DocTestParser().get_examples(doc)
    return "".join(e.source for e in found), "".join(e.want for e in found)


def fields(doc: str) -> set[str]:
    """The parameters or fields that a docstring describes in lines of their own."""
    lines = filter(None, map(_FIELD.match, doc.splitlines()))
    return {name for line in lines for name in re.split(r",? ", line["names"])}


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class and its bases in weft, in order."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("weft"):
            continue
        for name, value in vars(base).items():
            known = isinstance(value, property | classmethod | staticmethod)
            known |= inspect.isfunction(value) or hasattr(value, "attrname")  # cached_property
            if known and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, getattr(value, "__func__", value)


# ---- one entry ---------------------------------------------------------------------------------
def _entry(entry: Entry) -> Iterator[str]:
    yield f"```py\n{_signature(entry)}\n```\n"
    yield from _paragraphs(entry.doc)
    if isinstance(entry.value, type) and not issubclass(entry.value, Exception):
        rows = [f"| `{name}` | {_first(value)} |" for name, value in members(entry.value)]
        if rows:
            yield "\n".join(["| member | |", "|---|---|", *rows]) + "\n"
    yield from _example(entry.doc)


def _signature(entry: Entry) -> str:
    value, name = entry.value, entry.title
    if isinstance(value, type) and entry.name not in MADE_BY_USERS:
        bases = [b.__name__ for b in value.__bases__ if b.__module__.startswith("weft.errors")]
        return f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    parameters = [_parameter(p) for p in inspect.signature(value).parameters.values()]
    star = next(
        (p for p in inspect.signature(value).parameters.values() if p.kind is p.KEYWORD_ONLY), None
    )
    kinds = [p.kind for p in inspect.signature(value).parameters.values()]
    if star is not None and star.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(star.KEYWORD_ONLY), "*")
    returns = inspect.signature(value).return_annotation
    arrow = f" -> {returns}" if isinstance(returns, str) else ""
    prefix = "class " if isinstance(value, type) else ""
    line = f"{prefix}{name}({', '.join(parameters)}){'' if prefix else arrow}"
    if len(line) <= 100:
        return line
    body = "".join(f"    {p},\n" for p in parameters)
    return f"{prefix}{name}(\n{body}){'' if prefix else arrow}"


def _parameter(p: inspect.Parameter) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    note = "" if p.annotation is p.empty else f": {p.annotation}"
    if p.default is p.empty:
        return f"{stars}{p.name}{note}"
    plain = isinstance(p.default, str | int | float | tuple | None.__class__)
    shown = repr(p.default).replace("'", '"') if plain else "..."
    return f"{p.name}{note} = {shown}" if note else f"{p.name}={shown}"


def _paragraphs(doc: str) -> Iterator[str]:
    text, _, _ = doc.partition(">>>")
    for paragraph in text.strip().split("\n\n"):
        yield _paragraph(paragraph) + "\n"


def _example(doc: str) -> Iterator[str]:
    code, want = example(doc)
    yield f"```python\n{code}```" + ("" if want else "\n")
    if want:
        yield f"```text\n{want}```\n"


def _paragraph(text: str) -> str:
    """A paragraph, or a list where its lines are `name   what it is`."""
    if not _FIELD.match(text):
        return " ".join(text.split("\n"))
    items: list[str] = []
    for line in text.splitlines():
        if field := _FIELD.match(line):
            names = re.split(r",? ", field["names"])
            items.append(f"- {', '.join(f'`{n}`' for n in names)}: {field['text']}")
        else:
            items[-1] += f" {line.strip()}"
    return "\n".join(items)


def _first(value: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    doc = inspect.cleandoc(getattr(value, "__doc__", "") or "")
    return " ".join(doc.partition("\n\n")[0].split()).replace("|", "\\|")


def _ops() -> str:
    """A row for each op of the library."""
    ops = importlib.import_module("weft.ops")
    rows = []
    for name in dir(ops):
        if name not in ops.__all__:
            op = getattr(ops, name)
            rows.append(f"| `{name}{inspect.signature(op)}` | {_first(op)} |")
    return "\n".join(["| op | |", "|---|---|", *rows, ""])
