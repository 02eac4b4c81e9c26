"""`weft tune OP`: measure the kernels that an op of the library can use; store the fastest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from weft.cli import options, show
from weft.errors import ArgumentError
from weft.ops.core import bind

if TYPE_CHECKING:
    from weft.ops.sweep.tune import CandidateTime, Tuned


def run(
    op: Annotated[str, typer.Argument(help="An op of weft.ops: softmax, matmul, sum, …")] = "",
    shapes: Annotated[
        str, typer.Option(help="Calls: '64x4096,4096x4096;8x512,512x512'. Default: random calls.")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Data type of the tensors of --shapes.")] = "float32",
    set: Annotated[
        list[str] | None,
        typer.Option(help="Set an option of the op, with --shapes, e.g. dim=0. Repeatable."),
    ] = None,
    calls: Annotated[int, typer.Option(help="Number of random calls.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random calls.")] = 1,
    device: Annotated[
        str, typer.Option(help="gpu: measure. With --list also sim:MODEL. auto: the GPU or sim.")
    ] = options.AUTO,
    list: Annotated[
        bool, typer.Option("--list", help="List the candidates, or all ops; measure nothing.")
    ] = False,
    json: show.Json = False,
) -> None:
    """Measure the kernels that an op can use for some calls, and store the fastest.

    weft measures on the GPU of this machine and stores the results in the user's cache. Later calls
    with the same dtypes, shapes, strides and options use them. --list needs no GPU.
    """
    if not op:
        _list_ops(list, json)
        return
    # Options are named after their parameters, so `set` and `list` are not the built-ins here.
    word = None if device == options.AUTO else device
    if word is not None and not list:
        _require_gpu(word)
    tuning, gpu = (bind.with_torch(f"weft.ops.{name}") for name in ("sweep.tune", "sweep.gpu"))
    wanted: Any = (
        tuning.written(op, shapes, dtype, dict(map(_option, set or ())))
        if shapes
        else tuning.drawn(op, calls, seed)
    )
    if list:
        results = [tuning.listed(call, gpu.present(), word) for call in wanted]
    else:
        gpu.need("weft tune", f"`weft tune {op} --list` shows the candidates and modelled times")
        results = _tuned(wanted, seed, json)
    if json:
        show.data([one.to_dict() for one in results])
        return
    for one in results:
        _show(one, measured=not list)
    if not list:
        _changes(results)


def _list_ops(wanted: bool, json: bool) -> None:
    """Print the ops that can be tuned; raise unless they were asked for."""
    if not wanted:
        raise ArgumentError("weft tune needs an op", next="`weft tune --list` lists the ops")
    names = bind.with_torch("weft.ops.core.library").names()
    if json:
        show.data(names)
    else:
        show.line("\n".join(names))


def _require_gpu(word: str) -> None:
    """Raises for a simulated GPU, which has no times, and for any but the first real one."""
    chosen = options.device(word)
    chosen.first("weft tune measures on the first GPU")
    if not chosen.real:
        raise ArgumentError(
            "weft tune measures times, and the simulated GPU has none",
            got=f"--device {chosen.word}", allowed="--device gpu, or --list",
        )  # fmt: skip


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError("--set cannot be read", got=text, allowed="NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value  # a string, as in activation=relu


def _tuned(calls: Any, seed: int, json: bool) -> Any:
    tuning, clock = (bind.with_torch(f"weft.ops.{name}") for name in ("sweep.tune", "sweep.time"))
    results = []
    with show.ends_at_once(), show.bar(quiet=json) as progress:
        task = progress.add_task("", total=len(calls))
        for call in calls:
            progress.update(task, description=f"{call.op} {call}")
            results.append(tuning.tune(call, "cuda", clock.as_called, seed))
            progress.advance(task)
    return results


# ---- what is printed ---------------------------------------------------------------------------
def _show(one: Tuned, *, measured: bool) -> None:
    show.line(f"\n{one.call.op} {one.call} on {one.gpu}", "bold")
    columns = ("candidate", "modelled", *(["measured"] if measured else []), "", "why")
    rows = [_row(one, row, measured) for row in one.rows]
    show.table(columns, rows, right=("modelled", "measured"))


def _row(one: Tuned, row: CandidateTime, measured: bool) -> tuple[str | Text, ...]:
    time = show.duration(row.measured) if row.measured is not None else row.failure
    mark = Text("chosen", "green") if row.name == one.chosen else ""
    cells = (row.name, show.duration(row.modelled), *([time] if measured else []))
    return (*cells, mark, row.why)


def _changes(results: Any) -> None:
    changed = [one for one in results if one.chosen != one.before]
    show.line(f"\n{len(changed)} of {len(results)} calls now use another kernel", "bold")
    for one in changed:
        show.line(f"  {one.call}: {one.before} → {one.chosen}, {one.gain:.2f} x as fast")
    if not all(one.stored for one in results):
        show.line(
            "The cache cannot be used, so nothing is stored. `weft cache` shows why.", "yellow"
        )
