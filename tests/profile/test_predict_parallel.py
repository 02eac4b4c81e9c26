"""Times of several GPUs: formulas against a simulation, laws, sources, refusals, the verb."""

from __future__ import annotations

import json
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.measure.parallel import collectives
from weft.measure.parallel.layouts.table import LAYOUTS
from weft.measure.parallel.simulation import messages
from weft.measure.parallel.simulation.engine import Graph, run
from weft.measure.parallel.simulation.messages import Network
from weft.measure.parallel.simulation.simulate import simulate
from weft.values.time.parallel import Attention, Fabric, Link, Schedule, Step

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import parallel_tables

pytestmark = pytest.mark.sim

EXACT = 1e-9
IN_NODES = {"1f1b": 0.1}
"""The largest error where GPUs are in nodes and a hop is shorter than a stage's forward pass."""
CASES = 6
FREE = Link("free", float("inf"), 0.0)
ATTENTION = Attention(1e-3, 1, 16, 16, 64, 4096, True, 2, "test")
STEP = Step(24e-3, 8e-3, 16, 10_000_000, 512, 16, 1024, 2, 2, "test")


def flat(gpus: int, link: Link = FREE) -> Fabric:
    return Fabric(gpus, link, link, gpus)


def timed(name: str, fabric: Fabric, **changes: Any) -> Any:
    layout = LAYOUTS[name]
    work = replace(ATTENTION if layout.kind is Attention else STEP, **changes)
    return layout.timed(work, fabric, Schedule())


# ---- the formulas and the simulation -------------------------------------------------------------
def test_the_engine_runs_tasks_in_order_on_free_resources() -> None:
    graph = Graph()
    a = graph.add(2.0, [("sends", 0)], [])
    b = graph.add(1.0, [("sends", 0), ("receives", 1)], [])  # waits for the port
    c = graph.add(1.0, [("computes", 0)], [a])
    graph.add(0.5, [("computes", 0)], [b, c])
    done = run(graph)
    assert done.seconds == 3.5
    assert done.held == {("sends", 0): 3.0, ("receives", 1): 1.0, ("computes", 0): 1.5}


@pytest.mark.draws
@pytest.mark.parametrize("several", [False, True], ids=["flat", "nodes"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_formulas_agree_with_the_simulation(name: str, several: bool, seed: str) -> None:
    draw = random.Random(f"{seed} {name} {several}")
    for _ in range(CASES):
        work, fabric, schedule = parallel_tables.drawn_case(draw, name, several, slow=False)
        formula = LAYOUTS[name].timed(work, fabric, schedule)
        steps = simulate(name, work, fabric, schedule)
        most = IN_NODES.get(name, EXACT) if several else EXACT
        assert formula.seconds == pytest.approx(steps.seconds, rel=most), (work, fabric, schedule)
        assert formula.compute == pytest.approx(steps.compute, rel=EXACT)
        assert formula.communication == pytest.approx(steps.communication, rel=EXACT)


@pytest.mark.parametrize("gpus, node", [(2, 2), (5, 5), (8, 8), (8, 4), (12, 3)])
@pytest.mark.parametrize("size", [1e3, 1e8])
@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_collectives_agree_with_their_messages(
    name: str, size: float, gpus: int, node: int
) -> None:
    fabric = Fabric(gpus, Link("in", 400e9, 2e-6), Link("out", 50e9, 5e-6), node)
    net = Network(fabric)
    getattr(messages, name)(net, size, net.start())
    taken = getattr(collectives, name)(fabric, size)
    assert taken.seconds == pytest.approx(run(net.graph).seconds, rel=EXACT)


def test_small_sums_use_a_tree_and_large_ones_rings() -> None:
    fabric = flat(64, Link("x", 400e9, 2e-6))
    small, large = (collectives.all_reduce(fabric, size).seconds for size in (1e3, 1e9))
    assert small == pytest.approx(2 * 6 * (2e-6 + 1e3 / 400e9))
    assert large == pytest.approx(2 * 63 * (2e-6 + 1e9 / 64 / 400e9))


# ---- laws ----------------------------------------------------------------------------------------
@pytest.mark.draws
@pytest.mark.parametrize("name", LAYOUTS)
def test_more_bandwidth_and_less_latency_are_never_slower(name: str, seed: str) -> None:
    draw = random.Random(f"{seed} {name}")
    for _ in range(4 * CASES):
        work, fabric, schedule = parallel_tables.drawn_case(
            draw, name, draw.random() < 0.5, slow=True
        )
        before = LAYOUTS[name].timed(work, fabric, schedule).seconds
        for field, factor in (("bandwidth", 3.0), ("latency", 0.3)):
            for where in ("inside", "between"):
                link = getattr(fabric, where)
                better = replace(link, **{field: getattr(link, field) * factor})
                after = LAYOUTS[name].timed(work, replace(fabric, **{where: better}), schedule)
                assert after.seconds <= before * (1 + 1e-12), (work, fabric, schedule)


@pytest.mark.parametrize("gpus", [2, 4, 16, 64, 512])
def test_idle_share_of_causal_rings(gpus: int) -> None:
    length = 64 * 1024
    idle = {
        name: 1 - found.compute / found.seconds
        for name in ("ring", "striped", "zigzag")
        for found in [timed(name, flat(gpus), length=length)]
    }
    # Blocks on the diagonal are half a block: (W - 1) / (2 W - 1), which tends to (W - 1) / (2 W).
    assert idle["ring"] == pytest.approx((gpus - 1) / (2 * gpus - 1), rel=gpus / length)
    assert abs(idle["ring"] - (gpus - 1) / (2 * gpus)) < 1 / (4 * gpus) + gpus / length
    assert idle["striped"] < gpus / length
    assert idle["zigzag"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["ring", "striped", "zigzag", "ulysses"])
def test_attention_to_all_keys_leaves_no_gpu_idle(name: str) -> None:
    found = timed(name, flat(16), causal=False)
    assert found.seconds == pytest.approx(ATTENTION.seconds / 16)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages, batches", [(2, 1), (4, 8), (8, 3), (16, 64)])
def test_bubble_of_pipelines(name: str, stages: int, batches: int) -> None:
    found = LAYOUTS[name].timed(STEP, flat(stages), Schedule(batches))
    bubble = 1 - found.compute / found.seconds
    assert bubble == pytest.approx((stages - 1) / (batches + stages - 1))


def test_data_parallelism_hides_its_sums_behind_backward() -> None:
    fast, slow = Link("fast", 400e9, 0.0), Link("slow", 4e8, 0.0)
    hidden, shown = (timed("data", flat(8, link)) for link in (fast, slow))
    # The last bucket has nothing left to hide behind.
    size = STEP.parameters * STEP.gradient
    assert hidden.seconds - STEP.seconds == pytest.approx(
        collectives.all_reduce(flat(8, fast), size).seconds
    )
    assert shown.seconds > 2 * STEP.seconds


# ---- weft.predict_parallel -----------------------------------------------------------------------
def test_parts_of_the_time_add_up_and_show_themselves(tmp_path: Path) -> None:
    found = weft.predict_parallel("llama-1b", gpus="2..16", between="network", simulate=True)
    assert {row.layout for row in found.rows} == set(LAYOUTS)
    for row in found.rows:
        assert row.compute + row.exposed + row.idle == pytest.approx(row.seconds)
        assert 0 < row.efficiency <= 1 and row.simulated == pytest.approx(row.seconds, rel=0.1)
    assert "ulysses on 16 GPUs: 8 key heads cannot be split evenly" in str(found)
    step = r"llama-1b train bf16 batch=4 length=2048, measured: 1\d\d\.\d ms by weft compile"
    assert re.search(step, str(found))
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["layout"] == "ring"
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<polyline") == page.count("<figure") == len(LAYOUTS)


def test_attention_is_scaled_from_its_record() -> None:
    rows = [
        weft.predict_parallel("llama-1b", layouts="ring", gpus=2, length=n).rows[0]
        for n in (4096, 8192)
    ]
    assert rows[1].single == pytest.approx(4 * rows[0].single)
    assert rows[0].single == pytest.approx(0.00062885 / 4)


def test_times_of_the_user(tmp_path: Path) -> None:
    def one(**options: Any) -> Any:
        return weft.predict_parallel("gpt2-774m", layouts="data", gpus=2, **options)

    assert one(time="80ms").rows[0].single == one(time=0.08).rows[0].single == 0.08
    launches = [
        [{"seconds": 0.02, "launches": 3, "gpu": "h200"}],
        [{"seconds": 0.01, "launches": 1}],
    ]
    path = tmp_path / "predicted.json"
    path.write_text(json.dumps({"launches": launches}))
    found = one(time=path)
    assert found.rows[0].single == pytest.approx(0.07)
    assert "predicted for h200 by weft predict" in found.sources[0]


REFUSED = [
    ({"model": "gtp2-124m"}, "no such model\n  got: 'gtp2-124m'.*did you mean 'gpt2-124m'"),
    ({"layouts": "strped"}, "layouts has no such name.*did you mean 'striped'"),
    ({"layouts": ""}, "layouts has no such name"),
    ({"link": "nvlnk"}, "link names no link.*did you mean 'nvlink'"),
    ({"link": "-5GB/s,2us"}, "the bandwidth of link is no positive quantity\n  got: '-5GB/s'"),
    ({"link": "5GB/s,-2us"}, "the latency of link is no quantity"),
    ({"link": Link("mine", 0.0, 0.0)}, "the bandwidth of link is no positive quantity"),
    ({"between": "etherne"}, "between names no link"),
    ({"gpus": 0}, "gpus is no number of GPUs\n  got: 0"),
    ({"gpus": 1}, "gpus is no number of GPUs\n  got: 1"),
    ({"gpus": "2..2048"}, "gpus is no number of GPUs"),
    ({"gpus": "5..7"}, "gpus is no number of GPUs"),
    ({"gpus": "two"}, "gpus is no number of GPUs"),
    ({"gpus": 8, "layouts": "tensor"}, "tensor does not fit 8 GPUs\n  got: 12 heads cannot"),
    ({"gpus": 8, "layouts": "1f1b"}, "1f1b does not fit 8 GPUs\n  got: 12 layers cannot"),
    ({"gpus": 3, "layouts": "ring"}, "ring does not fit 3 GPUs\n  got: 1,024 tokens cannot"),
    ({"gpus": 2, "layouts": "zigzag", "length": 1026}, "1,026 tokens cannot.*into 2 parts"),
    ({"gpus": "8..64", "layouts": "ulysses"}, "ulysses fits no number of GPUs of the range"),
    ({"gpus": 12, "between": "network", "layouts": "data"}, "nodes of 8 do not divide the GPUs"),
    ({"model": "llama-8b", "layouts": "data"}, "llama-8b has no recorded.*--time 120ms"),
    ({"batch": 9, "layouts": "data"}, "was recorded with other sizes\n  got: batch=9 length=1024"),
    ({"dtype": "fp8"}, "dtype has no such name"),
    ({"node": 0}, "node is no whole number that fits"),
    ({"micro_batches": 0}, "micro_batches is no whole number that fits"),
    ({"batch": -1}, "batch is no whole number that fits"),
    ({"length": 2**25}, "length is no whole number that fits.*0 to 16,777,216"),
    ({"bucket": "10kB"}, "bucket is too small\n  got: 10000 bytes\n  allowed: 1,000,000 bytes"),
    ({"bucket": "0MB"}, "bucket is no positive quantity"),
    ({"time": "12 parsecs"}, "time is no positive quantity"),
    ({"time": "missing.json"}, "missing.json: the file holds no prediction"),
]


@pytest.mark.parametrize(
    "options, message", REFUSED, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        weft.predict_parallel(**options)
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)


# ---- the verb and the records --------------------------------------------------------------------
def test_the_verb(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = [
        "--layout",
        "zigzag,data",
        "--gpus",
        "2,4",
        "--link",
        "450GB/s,2us",
        "--html",
        str(page),
    ]
    done = CliRunner().invoke(app, ["predict-parallel", *words])
    assert done.exit_code == 0, done.output
    assert "efficiency" in done.output and "zigzag" in done.output and page.exists()
    done = CliRunner().invoke(app, ["predict", "parallel", *words[:6], "--json"])
    assert [row["gpus"] for row in json.loads(done.output)["rows"]] == [2, 4, 2, 4]
    done = CliRunner().invoke(app, ["predict-parallel", "--layout", "rng", "--json"])
    assert (
        done.exit_code == 1 and json.loads(done.output)["error"]["next"] == "did you mean 'ring'?"
    )


def test_recorded_times_are_those_of_the_records() -> None:
    pytest.importorskip("torch")
    assert parallel_tables.FILE.read_text("utf-8") == parallel_tables.recorded(), (
        "run `make tables`"
    )
