"""Recorded times that `weft predict-parallel` starts from, and the tables of its page.

`recorded()` is the text of src/weft/measure/parallel/recorded.json: sizes of networks, times of
their training steps from benchmarks/records/networks.jsonl, and times of attention from
benchmarks/records/attention_tiles.jsonl.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmark_records import rows_of

from weft.measure.parallel.layouts.table import LAYOUTS
from weft.measure.parallel.links import PRESETS
from weft.measure.parallel.simulation.simulate import simulate
from weft.values.time.parallel import Attention, Fabric, Link, Schedule, Step

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "src" / "weft" / "measure" / "parallel" / "recorded.json"
NETWORKS = ("gpt2", "llama", "bert")
"""Networks of texts, whose layers are equal."""
LEAST = 4096
"""Tokens of a recorded attention: shorter calls do not fill the GPU."""
DRAWN = 12
"""Cases of each row of the table of errors."""
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]
Row = dict[str, Any]


def recorded() -> str:
    """The text of the file of recorded times: one line per fact."""
    parts = {"networks": list(_networks()), "steps": _steps(), "attention": _attention()}
    lists = (
        f'"{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]"
        for name, rows in parts.items()
    )
    return "{\n" + ",\n".join(lists) + "\n}\n"


def _networks() -> Iterator[Row]:
    """The sizes of networks, from their definitions."""
    from weft.networks.network import network, sizes  # here: PyTorch takes long to import

    for name in NETWORKS:
        for size in sizes(name):
            if size == "tiny":
                continue
            net = network(name, size, device="meta")
            config = net.config
            yield {
                "name": f"{name}-{size}",
                "layers": config.depth,
                "parameters": sum(p.numel() for p in net.module.parameters()),
                "width": config.width,
                "heads": config.heads,
                "key_heads": getattr(config, "kv_heads", config.heads),
                "length": config.length,
                "causal": name in ("gpt2", "llama"),
            }


def _steps() -> list[Row]:
    """The newest training step of each network, by its fastest contender as called."""
    newest: dict[tuple[str, str], Row] = {}
    for line in rows_of("networks.jsonl"):
        if not line["training"] or line["network"] not in NETWORKS or line["dtype"] == "fp32":
            continue
        times = {
            name: statistics.median(result["seconds"])
            for name, result in line["results"].items()
            if result.get("seconds")
        }
        best = min(times, key=times.__getitem__)
        name = f"{line['network']}-{line['size']}"
        newest[name, line["dtype"]] = {
            "name": name,
            "dtype": line["dtype"],
            "batch": line["batch"],
            "length": line["length"],
            "seconds": times[best],
            "by": best,
            "gpu": line["gpu"],
            "date": line["date"],
        }
    return list(newest.values())


def _attention() -> list[Row]:
    """The newest long forward call of each head size, causal or not, by its fastest kernel."""
    newest: dict[tuple[int, bool], Row] = {}
    for line in rows_of("attention_tiles.jsonl"):
        call = line.get("call", {})
        if call.get("rows", 0) < LEAST or call["keys"] != call["rows"] or call.get("mask"):
            continue
        best = min((n for n in line["us"] if line["us"][n]), key=line["us"].__getitem__)
        newest[call["head"], call["causal"]] = {
            **{name: call[name] for name in ("batch", "heads", "rows", "head", "causal")},
            "dtype": line["dtype"],
            "seconds": round(line["us"][best] * 1e-6, 10),
            "by": best,
            "gpu": line["gpu"],
            "date": line["date"],
        }
    return list(newest.values())


# ---- tables ------------------------------------------------------------------------------------
def links(table: Table) -> str:
    """The presets of links."""
    body = [
        (f"`{name}`", f"{link.bandwidth / 1e9:g} GB/s", f"{link.latency * 1e6:g} µs")
        for name, link in PRESETS.items()
    ]
    return table(("link", "bandwidth in each direction#", "latency#"), body)


def networks(table: Table) -> str:
    """The models, and the recorded times of their training steps."""
    data = json.loads(FILE.read_text("utf-8"))
    steps = {(row["name"], row["dtype"]): row for row in data["steps"]}

    def cell(name: str, dtype: str) -> str:
        row = steps.get((name, dtype))
        if row is None:
            return ""
        return f"{row['seconds'] * 1e3:.1f} ms, {row['batch']} x {row['length']:,}, {row['by']}"

    body = [
        (
            f"`{n['name']}`", f"{n['parameters'] / 1e6:,.0f} M", n["layers"], n["heads"],
            cell(n["name"], "bf16"), cell(n["name"], "autocast"),
        )
        for n in data["networks"]
    ]  # fmt: skip
    header = ("model", "parameters#", "layers#", "heads#", "step in bf16", "under autocast")
    return table(header, body)


def errors(table: Table) -> str:
    """The largest differences of the formulas from the simulation, on drawn cases."""
    body = []
    for name in LAYOUTS:
        row = [f"`{name}`"]
        for several in (False, True):
            for slow in (False, True):
                found = [abs(e) for e in drawn_errors(name, several, slow, seed=1)]
                row.append(f"{_shown(statistics.median(found))}, {_shown(max(found))}")
        body.append(row)
    header = ("layout", "one node#", "one node, slow links#", "nodes#", "nodes, slow links#")
    return table(header, body)


def _shown(error: float) -> str:
    return "0" if error < 1e-9 else f"{error:.1%}"


def drawn_errors(name: str, several: bool, slow: bool, seed: int | str) -> Iterator[float]:
    """formula / simulation - 1 of drawn cases.

    several  GPUs are in nodes
    slow     a hop between stages may take longer than a stage's forward pass
    """
    draw = random.Random(f"{seed} {name} {several} {slow}")
    for _ in range(DRAWN):
        work, fabric, schedule = drawn_case(draw, name, several, slow)
        formula = LAYOUTS[name].timed(work, fabric, schedule).seconds
        yield formula / simulate(name, work, fabric, schedule).seconds - 1


def drawn_case(
    draw: random.Random, name: str, several: bool, slow: bool
) -> tuple[Attention | Step, Fabric, Schedule]:
    """A work, the links and a schedule that fit a layout."""
    node = draw.choice((2, 3, 4)) if several else draw.choice((2, 3, 4, 5, 6, 8))
    gpus = node * draw.choice((2, 3)) if several else node
    schedule = Schedule(draw.randrange(1, 24), 10 ** draw.uniform(6, 7))
    causal, key_heads = draw.random() < 0.7, gpus * draw.choice((1, 2))
    length, heads = 2 * gpus * draw.choice((4, 16, 33)), key_heads * draw.choice((1, 4))
    seconds = 10 ** draw.uniform(-3, -1)
    attention = Attention(seconds, 1, heads, key_heads, 64, length, causal, 2, "drawn")
    forward, layers = seconds * draw.uniform(0.2, 0.5), gpus * draw.choice((1, 2))
    parameters, tokens = draw.randrange(10**5, 10**7), gpus * draw.choice((16, 128))
    step = Step(seconds, forward, layers, parameters, 512, gpus, tokens, 2, 2, "drawn")
    work = attention if LAYOUTS[name].kind is Attention else step
    # Half of the time of a slowest hop is latency.
    size = tokens * 512 * 2
    most = forward / gpus * (8 if slow else 1) * draw.random()
    slowest = Link("slow", 2 * size / most, most / 2)
    faster = draw.random()
    fastest = Link("fast", slowest.bandwidth / faster, slowest.latency * faster)
    inside, between = (fastest, slowest) if several else (slowest, slowest)
    return work, Fabric(gpus, inside, between, node), schedule


TABLES: dict[str, Callable[[Table], str]] = {
    "parallel_links": links,
    "parallel_models": networks,
    "parallel_errors": errors,
}

if __name__ == "__main__":
    FILE.write_text(recorded(), encoding="utf-8")
