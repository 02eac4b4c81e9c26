"""Tables of the op library: its ops from their definitions, its speed from the sweep's records."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "ops_sweep.jsonl"
MISSING = "There is no record yet: `weft bench ops --record {file}` makes one on a GPU."
WORST = 10
"""The slowest calls that the page of a family lists."""
LOW = 0.8
LISTED = 5
"""The most ops that a row names."""
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


VALUES: dict[str, Any] = {"number": 1, "float": 1.0, "str": "a"}
"""A value for an option without a default, by its type in the schema."""
OPTIONS = {"quantise.dtype": "int8", "swiglu_quantise.dtype": "int8"}
"""A dtype for an option without a default."""
OF_FP8 = ("scaled_mm",)
"""Ops whose operands may be fp8."""
SHAPES = {(2,): [0], (2, 2): [1, 0], (2, 2, 2): [2], (2, 2, 2, 2): [2], (2, 2, 2, 8): [2]}
"""The shape of all tensors of a call, and a value for its options that are lists."""
DRAWN, SMALL = 8, 256
"""Random calls of an op that are tried, and the most elements of their tensors."""


def list_table(table: Table) -> str:
    """Every op with its arguments, what it computes and the dtypes that it takes."""
    import torch

    from weft.ops.core import library, source  # these need torch, which other tables do not

    every = list(source.CTYPES)
    rows = []
    # A function that calls one op of its family has that op as an attribute.
    calling = [n for n in library.makers() if hasattr(library.call(n), "op")]
    for name in (*definitions(), *calling):
        call = library.call(name)
        d = call.op.definition
        takes = [dtype for dtype in (*every, torch.complex64) if _takes(call.op, dtype)]
        if name in OF_FP8:
            fp8 = (torch.float8_e4m3fn, torch.float8_e5m2)
            takes = [*(dtype for dtype in fp8 if _takes(call.op, dtype)), *takes]
        assert takes, f"{name}: give it a call that it accepts"
        shown = "all" if takes == every else ", ".join(map(_short, takes))
        gradient = "yes" if d.backward else ""
        own = inspect.signature(call) if name in calling else _arguments(d.schema)
        rows.append((f"`{name}{own}`", _first(call.__doc__), shown, gradient))
    names = ", ".join(map(_short, every))
    return f"{table(('op', 'what it computes', 'dtypes', 'gradient'), rows)}\n\nall: {names}."


def definitions() -> list[str]:
    """The names of all ops that users call, by family."""
    from weft.ops.core import library

    return [name for name, d in library.definitions().items() if d.public]


_OWN = {
    "index": "int64", "condition": "bool", "cu_seq_q": "int32", "cu_seq_k": "int32",
    "block_table": "int32", "lengths": "int32", "linear_cross_entropy.target": "int64",
    "temperature": "float32", "top_k": "int32", "top_p": "float32", "seed": "int64",
    "position": "int32",
}  # fmt: skip
"""Dtypes of arguments, of all ops or of one, that do not have that of the others."""
_DIMENSIONS = {
    "running_mean": 1, "running_var": 1, "cu_seq_q": 1, "cu_seq_k": 1, "lengths": 1,
    "block_table": 2, "linear_cross_entropy.target": 1, "temperature": 1, "top_k": 1, "top_p": 1,
    "seed": 1, "position": 1,
}  # fmt: skip
"""Dimensions of arguments, whatever the others have."""


def _takes(function: Any, dtype: Any) -> bool:
    """True if an op has a kernel for a call with a dtype; nothing is computed."""
    return any(_accepts(function, *call) for call in _calls(function, dtype))


def _calls(function: Any, dtype: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments with a dtype: as the sweep draws them, and tensors of one shape."""
    import torch

    from weft.ops.sweep.cases import CASES

    name, word = function.definition.name, _short(dtype)
    # Cases with a function of their own have other arguments than the op.
    for case in (c for c in CASES if c.op == name and not c.backward and c.weft is None):
        rng = random.Random(name)
        for call in (case.draw(rng, SMALL) for _ in range(DRAWN)):
            words = [t.dtype for t in call.tensors if t is not None]
            floats = (w for w in words if "float" in w or "complex" in w)
            main = words[0] if name in OF_FP8 else next(floats, words[0])
            given = [
                replace(t, dtype=word, contents="plain") if t and t.dtype == main else t
                for t in call.tensors
            ]
            yield [t and t.empty("cpu") for t in given], call.options

    needed = [a for a in function.arguments if not a.has_default_value()]
    for (shape, whole), integer in itertools.product(SHAPES.items(), (0, 1)):
        values = {**VALUES, "List[int]": whole, "int": integer}
        tensors = {
            n: torch.ones(
                (2,) * rank if (rank := _own(_DIMENSIONS, name, n)) else shape,
                dtype=getattr(torch, _own(_OWN, name, n) or word),
            )
            for n in function.tensors
        }
        for option in (a.name for a in needed if f"{name}.{a.name}" in OPTIONS):
            tensors[option] = getattr(torch, OPTIONS[f"{name}.{option}"])
        yield [], {a.name: tensors.get(a.name, values.get(str(a.type))) for a in needed}


def _own(table: dict[str, Any], op: str, argument: str) -> Any:
    """The entry of an argument of one op, else of any op; None if there is none."""
    return table.get(f"{op}.{argument}", table.get(argument))


def _accepts(function: Any, tensors: Sequence[Any], options: dict[str, Any]) -> bool:
    import weft

    named = dict(zip(function.tensors, tensors, strict=False))
    try:
        function.choice(function.request(*function.bound((), {**named, **options})))
    except weft.ArgumentError:
        return False
    return True


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _first(doc: str) -> str:
    """The first paragraph, as one line."""
    return " ".join(doc.partition("\n\n")[0].split())


def _arguments(schema: str) -> str:
    """A schema in Python's notation: "(Tensor x, int dim=-1) -> Tensor" is "(x, dim=-1)"."""
    inside = schema[1 : schema.rindex(") ->")]
    parts = re.split(r", (?![^\[]*\])", inside)  # not between the numbers of a list
    return f"({', '.join(part.split(maxsplit=1)[-1] for part in parts if part)})"


def family_table(table: Table) -> str:
    """A row for each group of families of the newest sweep, and one for all backward passes."""
    from weft.ops.core import library
    from weft.ops.sweep.cases import CASES, families

    found, host = newest(), _host()
    if not found:
        return MISSING.format(file=_shown())
    header = ("ops", "calls#", "geometric mean#", "worst#", f"below {LOW} x#", "host µs#",
              "host µs, torch#")  # fmt: skip
    groups: dict[str, list[str]] = {}
    for family, op in library.modules("op").items():
        names = [case.name for case in families()[family] if not case.backward]
        groups.setdefault(op.GROUP, []).extend(names)
    groups["forward and backward"] = [c.name for c in CASES if c.backward]
    rows = []
    for words, names in groups.items():
        names = [name for name in names if name in found]
        ratios = [ratio(result) for name in names for result in _compared(found[name])]
        times = [row for name in names for row in host.get(name, [])]
        if ratios:
            cells = (_host_cell(times, who) for who in ("weft_us", "torch_us"))
            rows.append([f"{words}: {_listed(names)}", *_speeds(ratios), *cells])
    return f"{_machine(found.values())}\n\n{table(header, rows)}"


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many others there are."""
    others = len(names) - LISTED
    shown = ", ".join(f"`{name}`" for name in names[:LISTED])
    return f"{shown} and {others} others" if others > 0 else shown


def host_table(table: Table) -> str:
    """The host time of eager calls of small tensors, forward, and forward plus backward."""
    found = _host()
    if not found:
        return MISSING.format(file=f"{_shown()} --host")
    lines = [line for line in _lines() if line.get("host")]
    shapes = list(dict.fromkeys(tuple(row["shape"]) for rows in found.values() for row in rows))
    header = ["op"]
    for shape in shapes:
        text = "x".join(map(str, shape))
        header += [f"{text}, µs#", f"{text}, torch#", "ratio#"]
    rows = []
    for name, times in found.items():
        by_shape = {tuple(row["shape"]): row for row in times}
        cells = [_three_cells(by_shape.get(shape)) for shape in shapes]
        rows.append([f"`{name}`", *(cell for three in cells for cell in three)])
    days = sorted({line["date"] for line in lines})
    last = lines[-1]
    about = f"{last['gpu']}, driver {last['driver']}, torch {last['torch']}, {days[-1]}."
    return f"{about}\n\n{table(header, rows)}"


def _three_cells(row: dict[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "", "", ""
    weft, torch = row["weft_us"], row["torch_us"]
    return f"{weft:.1f}", f"{torch:.1f}", f"{torch / weft:.2f} x"


def line(table: Table) -> str:
    """One sentence about all calls of the newest sweep, for README."""
    found = newest()
    if not found:
        return MISSING.format(file=_shown())
    forward = {op: record for op, record in found.items() if not op.endswith("backward")}
    ratios = [ratio(result) for record in forward.values() for result in _compared(record)]
    count, mean, worst, low = _speeds(ratios)
    gpu = ", ".join(sorted({record["gpu"] for record in forward.values()}))
    return (
        f"{count:,} random calls of {len(forward)} ops on an {gpu}: {mean} as fast as the faster "
        f"of PyTorch and torch.compile (geometric mean), {low} of them below {LOW} x, the worst "
        f"{worst}."
    )


def low_table(table: Table) -> str:
    """The number of calls that lose to a peer by a fifth, and the ops that have such calls."""
    found = newest()
    if not found:
        return MISSING.format(file=_shown())
    counts = {False: [0, 0], True: [0, 0]}
    rows = []
    for op, record in found.items():
        compared = _compared(record)
        low = sorted((r for r in compared if ratio(r) < LOW), key=ratio)
        of_kind = counts[op.endswith("backward")]
        of_kind[0] += len(compared)
        of_kind[1] += len(low)
        if low:
            ratios = dict.fromkeys(f"{ratio(r):.2f} x" for r in (low[0], low[-1]))
            worst = low[0]
            rows.append((f"`{op}`", len(low), " to ".join(ratios), worst["call"], worst["plan"]))
    forward, both = (f"{low} of {every:,}" for every, low in counts.values())
    header = ("op", f"below {LOW} x#", "ratio#", "the worst of these calls", "kernel")
    return (
        f"{forward} forward calls are below {LOW} x, and {both} calls forward plus backward:\n\n"
        f"{table(header, rows)}"
    )


def of_family(family: str, table: Table) -> str:
    """The ops of one family in the newest sweep, and the calls that lose most."""
    from weft.ops.sweep.cases import families

    found = {case.name: newest()[case.name] for case in families()[family] if case.name in newest()}
    if not found:
        return MISSING.format(file=_shown())
    header = ("op", "seed#", "kernels", "calls#", "geometric mean#", "worst#", f"below {LOW} x#",
              "again#", "peak memory#", "beside torch.compile#")  # fmt: skip
    again = _again()
    rows = [_summary(record, again.get((op, record["seed"]))) for op, record in found.items()]
    summary = f"{_machine(found.values())}\n\n{table(header, rows)}"
    return f"{summary}\n\n{_worst(found.values(), table)}"


# ---- records -----------------------------------------------------------------------------------
def newest() -> dict[str, dict[str, Any]]:
    """The newest sweep of each op, in the order of their first records."""
    return {record["op"]: record for record in _sweeps()}


def _sweeps() -> list[dict[str, Any]]:
    """The sweeps of all ops that were compared; calls that were timed again are none."""
    records = [record for record in _lines() if "op" in record and "again" not in record]
    return [record for record in records if _compared(record)]


def _again() -> dict[tuple[str, int], dict[str, Any]]:
    """The newest records of calls that were timed again, by op and seed."""
    return {(record["op"], record["seed"]): record for record in _lines() if "again" in record}


def _host() -> dict[str, list[dict[str, Any]]]:
    """The newest times of the host, by op."""
    newest = {(row["op"], *row["shape"]): row for line in _lines() for row in line.get("host", [])}
    by_op: dict[str, list[dict[str, Any]]] = {}
    for row in newest.values():
        by_op.setdefault(row["op"], []).append(row)
    return by_op


def _lines() -> list[dict[str, Any]]:
    text = RECORDS.read_text("utf-8") if RECORDS.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def _shown() -> str:
    return str(RECORDS.relative_to(RECORDS.parents[2]))


def _machine(records: Iterable[dict[str, Any]]) -> str:
    return (
        f"{_where(records)}; random calls, made eagerly. The "
        "contenders take turns. The ratio is the time of the fastest peer (PyTorch and, where it "
        "was timed, torch.compile) divided by the time of weft: above 1, weft is faster."
    )


def _where(records: Iterable[dict[str, Any]]) -> str:
    """The GPU, the versions, the days and the seeds of records."""
    every = list(records)
    days = sorted({r["date"] for r in every})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    gpus = ", ".join(sorted({r["gpu"] for r in every}))
    torches = ", ".join(sorted({r["torch"] for r in every}))
    seeds = ", ".join(str(seed) for seed in sorted({r["seed"] for r in every}))
    drivers = ", ".join(sorted({r["driver"] for r in every}))
    return f"{gpus}, driver {drivers}, torch {torches}, {when}, seed {seeds}"


# ---- rows --------------------------------------------------------------------------------------
def ratio(result: dict[str, Any]) -> float:
    """The speed of a call relative to the best peer."""
    us = result["us"]
    return float(min(t for name, t in us.items() if name != "weft") / us["weft"])


def _compared(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that were timed with at least one peer."""
    return [r for r in record["results"] if len(r["us"]) > 1]


def _summary(record: dict[str, Any], again: dict[str, Any] | None) -> list[object]:
    ratios = [ratio(r) for r in _compared(record)]
    compiled = [r["us"] for r in record["results"] if "compile" in r["us"]]
    beside = _speeds([us["compile"] / us["weft"] for us in compiled])[1] if compiled else ""
    return [
        f"`{record['op']}`", record["seed"], record.get("kernels", ""), *_speeds(ratios),
        _still_low(again), _memory(record), beside,
    ]  # fmt: skip


def _speeds(ratios: Sequence[float]) -> list[object]:
    """Their number, geometric mean and least, and how many are low."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    low = sum(r < LOW for r in ratios)
    return [len(ratios), f"{mean:.2f} x", f"{min(ratios):.2f} x", low]


def _still_low(again: dict[str, Any] | None) -> str:
    """The number of calls that are low again among those that were timed again."""
    ratios = [ratio(r) for r in _compared(again)] if again else []
    return f"{sum(r < LOW for r in ratios)} of {len(ratios)}" if ratios else ""


def _memory(record: dict[str, Any]) -> str:
    """The peak memory of all calls over PyTorch's."""
    peaks = [r["bytes"] for r in record["results"] if "torch" in r.get("bytes", {})]
    torch = sum(p["torch"] for p in peaks)
    return f"{sum(p['weft'] for p in peaks) / torch:.2f} x" if torch else ""


def _host_cell(host: Sequence[dict[str, Any]], who: str) -> str:
    """The mean over the shapes."""
    return f"{sum(row[who] for row in host) / len(host):.1f}" if host else ""


def _worst(records: Iterable[dict[str, Any]], table: Table) -> str:
    compared = [(ratio(r), record["op"], r) for record in records for r in _compared(record)]
    worst = sorted(compared, key=lambda row: row[0])[:WORST]
    names = [n for n in ("weft", "torch", "compile") if any(n in r["us"] for _, _, r in worst)]
    header = ("ratio#", "op", "call", "kernel", *(f"{n}, µs#" for n in names))
    rows = [
        (f"{low:.2f} x", f"`{op}`", r["call"], r["plan"], *(r["us"].get(n, "") for n in names))
        for low, op, r in worst
    ]
    return table(header, rows)
