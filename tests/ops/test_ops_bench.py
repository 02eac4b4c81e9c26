"""`weft bench ops` and the tables of its record: what can be held without a GPU."""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import pool_tasks
import weft
from folders import ROOT
from pool_tasks import clock
from weft import progress
from weft.cli import app, show
from weft.cluster import processes
from weft.ops.sweep import compiled, gpu, host, run, whole, worker
from weft.ops.sweep.case import arguments
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.gpu_lock import GpuLock
from weft.ops.sweep.measure import Broken, Meter
from weft.pytest_plugin import no_gpu
from weft.report import sweep
from weft.values.sweep import HostTime, Swept, SweptCall

sys.path.insert(0, str(ROOT / "scripts"))

import ops_tables
import tables

SEED, COUNT, MOST = 3, 3, 200
"""The seed, the number of calls and their size in sweeps on the simulated GPU."""
EAGER = functools.partial(torch.compile, backend="eager")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "ops", *arguments])


def case(op: str) -> Any:
    (found,) = run.cases([op])
    return found


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks" / "records" / "ops_sweep.jsonl"
    monkeypatch.setattr(ops_tables, "RECORDS", path)
    return path


MACHINE = {"date": "2026-01-02", "gpu": "NVIDIA H200", "driver": "1", "torch": "2.13",
           "python": "3.12", "kernels": "1a2b"}  # fmt: skip


# ---- the sweep ---------------------------------------------------------------------------------
def swept(case: Any, compiler: Any = None) -> Swept:
    """The sweep of an op in this process."""
    meter, batch = Meter("cpu", compiler, clock), whole.drawn(case, SEED, COUNT, MOST)
    return Swept(
        case.name, batch.seed, batch.most, tuple(meter(case, c, SEED) for c in batch.calls)
    )


@pytest.mark.sim
def test_a_sweep_and_its_record(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "about", lambda: MACHINE)
    plain = swept(case("add"))
    assert plain.mean == pytest.approx(1.5) and not plain.wrong
    both = swept(case("add"), compiled.Compiler(math.inf, EAGER, least=0.0))
    assert both.mean == pytest.approx(0.5)
    assert [r.call for r in both.results] == [r.call for r in plain.results]
    times = host.times(["add"], "cpu", clock)
    whole.append(record, [plain], times)
    whole.append(record, [both], [])
    first, host_line, second = map(json.loads, record.read_text().splitlines())
    assert first["results"][0]["us"] == {"weft": 2, "torch": 3}
    assert second["results"][0]["us"] == {"weft": 2, "torch": 3, "compile": 1}
    assert [row["op"] for row in host_line["host"]] == ["add", "add"]
    text = tables.TABLES["ops_elementwise"]()
    assert "| `add` | 3 | 1a2b | 3 | 0.50 x | 0.50 x | 3 |  |  | 0.50 x |" in text
    assert "NVIDIA H200, driver 1, torch 2.13, 2026-01-02, seed 3;" in text


@pytest.mark.sim
def test_processes_measure_the_same_calls(tmp_path: Path) -> None:
    job = worker.SweepJob(tmp_path, "cpu", None, clock=clock)
    told: list[str] = []
    batch = whole.drawn(case("add"), SEED, COUNT, MOST)
    pool = functools.partial(processes.run, jobs=2)
    (one,) = whole.sweep([batch], job, pool, report=told.append)
    assert [r.call for r in one.results] == [str(c) for c in batch.calls]
    assert one.mean == pytest.approx(1.5) and not one.wrong and len(told) == 3


@pytest.mark.sim
def test_a_wrong_result_is_found() -> None:
    wrong = dataclasses.replace(case("mul"), torch=lambda a, b: a * b + 1)
    assert len(swept(wrong).wrong) == 3


@pytest.mark.sim
@pytest.mark.parametrize("who", ["weft", "torch", "reference", "compile"])
def test_a_contender_that_fails_is_recorded(who: str, record: Path) -> None:
    """The sweep goes on; only a failure of weft counts as a wrong result."""

    def fails(*args: Any, **options: Any) -> Any:
        raise RuntimeError("no such lowering\nand more")

    add = case("add")
    if who != "compile":
        add = dataclasses.replace(add, **{who: fails})
    if who == "torch":
        add = dataclasses.replace(add, reference=lambda a, b: a + b)
    compile = EAGER if who != "compile" else lambda function, dynamic: fails
    one = swept(add, compiled.Compiler(math.inf, compile, least=0.0))
    timed = {"weft": set(), "reference": set(), "torch": {"weft", "compile"},
             "compile": {"weft", "torch"}}  # fmt: skip
    for result in one.results:
        reason = "RuntimeError: no such lowering"
        assert result.failed.get(who) == reason and set(result.seconds) <= timed[who]
        assert result.wrong == (who == "weft")
    assert one.to_dict()["results"][0]["failed"][who] == reason


@pytest.mark.sim
def test_gradients_are_checked_where_torch_fails() -> None:
    """The shapes of gradients need no memory, and so no successful call by torch."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        if not x.is_meta:
            raise RuntimeError("misaligned address")
        return torch.nn.functional.silu(x)

    silu = dataclasses.replace(
        case("silu backward"), torch=fails, reference=torch.nn.functional.silu
    )
    for result in swept(silu).results:
        assert result.right and set(result.seconds) == {"weft"}
        assert result.failed == {"torch": "RuntimeError: misaligned address"}


def test_a_broken_process_is_replaced_and_the_peer_left_out() -> None:
    add, call = case("add"), next(run.calls(case("add"), 1, 1, 50))
    result = SweptCall("add", str(call), "", math.nan, False, failed={"torch": "misaligned"})

    class Meter:
        who = "torch"

        def __call__(self, case: Any, call: Any, seed: int, failed: Any, method: Any) -> Any:
            raise Broken(result, self.who)

    task, meter = worker.Task(add.name, call, 1), Meter()
    again = processes.Answer(again=worker.Task("add", call, 1, result.failed), broken=True)
    assert worker.measured(meter, task) == again  # type: ignore[arg-type]
    Meter.who = "reference"
    result.failed["reference"] = "misaligned"
    assert worker.measured(meter, task) == processes.Answer(result, broken=True)  # type: ignore[arg-type]


def test_slow_calls_are_timed_again(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record names its calls; the same are drawn from its seed. Their record is no sweep."""
    monkeypatch.setattr(gpu, "about", lambda: MACHINE)
    add = whole.drawn(case("add"), SEED, COUNT, MOST)
    times = [{"weft": 2e-6, "torch": t} for t in (1e-6, 3e-6, 4e-6)]
    results = [
        SweptCall("add", str(call), "flat", 0.5, seconds["torch"] < 4e-6, seconds)
        for call, seconds in zip(add.calls, times, strict=True)
    ]
    whole.append(record, [Swept("add", add.seed, add.most, tuple(results))], [])
    (batch,) = whole.slow(record, [case("mul"), case("add")], 0.8)
    assert batch.calls == (add.calls[0], add.calls[2]) and batch.seed == SEED  # slow, wrong
    whole.append(
        record, [Swept("add", batch.seed, batch.most, tuple(results[:1]), again=batch.again)], []
    )
    assert whole.slow(record, [case("add")], 0.8) == [batch]
    assert len(ops_tables.newest()["add"]["results"]) == 3
    page = tables.TABLES["ops_elementwise"]()
    assert "| `add` | 3 | 1a2b | 3 | 1.14 x | 0.50 x | 1 | 1 of 1 |" in page
    assert "nothing to time again" in invoke("--again", str(record), "--ops", "mul").stderr


def test_complex_gradients_stay_complex_in_the_reference() -> None:
    transform = case("rfft backward")
    made = arguments(transform, next(run.calls(transform, 1, 1, 50)), "cpu")
    (gradient,) = made.double().gradients or ()
    assert gradient.dtype == torch.complex128
    assert torch.equal(gradient.to(torch.complex64), (made.gradients or ())[0])


# ---- turns and processes -----------------------------------------------------------------------
def free(path: Path) -> bool:
    """True if no turn is held: another process could take one at once."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_turn_is_given_up_while_something_compiles(tmp_path: Path) -> None:
    path, lock = tmp_path / "lock", GpuLock(tmp_path)
    seen: list[bool] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(free(path))

        def compiled(*args: Any) -> Any:
            seen.append(free(path))
            return graph(*args)

        return compiled

    add = case("add")
    made = arguments(add, next(run.calls(add, 1, 1, 50)), "cpu")
    compile = functools.partial(torch.compile, backend=backend)
    with lock:
        assert not free(path)
        compiled.Compiler(math.inf, compile, lock=lock)(add, made)
        assert seen == [True, False]  # compiled, then run
        with lock.paused():
            assert free(path)
            with lock.paused():
                assert free(path)
        assert not free(path)
    assert free(path)


def test_weft_gives_up_the_turn_while_nvrtc_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock = tmp_path / "lock", GpuLock(tmp_path)
    monkeypatch.setattr(progress, "around", lock.paused)
    with lock, progress.compiling("a kernel"):
        assert free(path)


def state(process: int) -> str:
    """The letter of a process's state in /proc; T is stopped."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_other_processes_stop_while_a_call_is_timed(tmp_path: Path) -> None:
    lock = (tmp_path / "locked").open("a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    with (
        subprocess.Popen(["sleep", "60"], pass_fds=[lock.fileno()]) as other,
        subprocess.Popen(["sleep", "60"]) as stranger,
    ):
        lock.close()  # the process keeps it locked
        (tmp_path / "locked").rename(tmp_path / f"{other.pid}.process")
        (tmp_path / f"{stranger.pid}.process").touch()  # of an ended process with this number
        lock = GpuLock(tmp_path)
        with lock, lock.alone():
            deadline = time.monotonic() + 10
            while state(other.pid) != "T" and time.monotonic() < deadline:
                time.sleep(0.01)  # a signal is delivered when the process is next scheduled
            assert state(other.pid) == "T" and state(stranger.pid) != "T"
        while state(other.pid) == "T" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert state(other.pid) != "T"
        other.kill()
        stranger.kill()


def test_the_turn_ends_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the call"), GpuLock(tmp_path):
        raise RuntimeError("the call")
    assert free(tmp_path / "lock")


def test_the_pool_survives_its_processes() -> None:
    """Each kind of failure costs its own task; a task that comes again is done elsewhere."""
    tasks = ["1", "die", "2", "hang", "break", "again", "3"]
    answers = dict(processes.run(tasks, 2, pool_tasks.start, patience=4.0))
    values = [a and a.value for a in (answers[i] for i in range(len(tasks)))]
    assert values == ["did 1", None, "did 2", None, "broke", "did it again", "did 3"]


def test_the_pool_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a task that is not finished nor those that are not begun keep it."""
    monkeypatch.setattr(processes, "GRACE", 0.1)
    seen: list[Any] = []
    for _, answer in processes.run(
        ["1", "hang", "2"], 1, pool_tasks.start, stop=lambda: bool(seen)
    ):
        seen.append(answer and answer.value)
    assert seen == ["did 1"]
    assert not list(processes.run(["1"], 1, pool_tasks.start, limit=0.0))


def test_a_process_that_cannot_start() -> None:
    with pytest.raises(weft.Error, match="ended while it started"):
        next(processes.run(["1"], 1, pool_tasks.fail))


def test_every_row_of_host_times_calls_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.library, "call", lambda name: lambda *args, **options: None)
    assert {row.op for row in host.times(list(host.HOST), "cpu", clock)} == set(host.HOST)


def test_compiling_ends_at_its_time() -> None:
    now = time.time()
    assert compiled.Compiler(now + 60).may_win(1e-3)
    assert not compiled.Compiler(now + 60).may_win(1e-6)
    assert compiled.Compiler(now + 60).may_win(100e-6)
    assert not compiled.Compiler(now + 60).may_win(100e-6, backward=True)
    assert not compiled.Compiler(now).may_win(1e-3)


# ---- the command line --------------------------------------------------------------------------
@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    result = invoke()
    assert result.exit_code == 1
    assert "weft bench ops measures on a GPU, and there is none to use here" in result.stderr


def test_messages() -> None:
    assert "add, mul, fma" in invoke("--ops", "add,nope").stderr
    assert "the simulated GPU has none" in invoke("--device", "sim").stderr
    assert invoke("--count", "0").exit_code == 2


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    results = tuple(
        SweptCall("add", f"call {i}", "flat", 0.5, i != 2, {"weft": 2e-6, "torch": (i + 1) * 1e-6})
        for i in range(12)
    )
    one = Swept("add", SEED, MOST, results)
    show.blocks(sweep.summary([one], [HostTime("add", (64, 64), 3.14, 2.72)]))
    out = capsys.readouterr().out
    assert "0.50 x  call 0" in out.replace("│", "") and "call 10" not in out
    assert "WRONG by 0.5 x the allowed error: call 2" in out and "3.1" in out


def test_host_times(capsys: pytest.CaptureFixture[str]) -> None:
    show.blocks(sweep.host_times([HostTime("add backward", (1, 1024), 50.0, 40.0)]))
    out = capsys.readouterr().out
    assert all(word in out for word in ("add backward", "1x1024", "50.0", "40.0", "0.80 x"))
    assert "add backward" in invoke("--host", "--ops", "nope").stderr


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    result = invoke("--ops", "add", "--count", "2", "--most", "1000", "--record", str(path))
    assert result.exit_code == 0, result.output
    swept, times = map(json.loads, path.read_text().splitlines())
    assert set(swept["results"][0]["us"]) == {"weft", "torch", "compile"} and times["host"]


# ---- tables ------------------------------------------------------------------------------------
def line(op: str, seed: int, *ratios: float) -> str:
    results = [
        {"call": f"float32 {i}", "plan": "flat", "error": 0.1, "right": True,
         "us": {"weft": 10.0, "torch": 10.0 * r, **({"compile": 20.0 * r} if i else {})},
         "bytes": {"weft": 300, "torch": 200}}
        for i, r in enumerate(ratios)
    ]  # fmt: skip
    return json.dumps({"op": op, "seed": seed, "mean": 1.0, "results": results, **MACHINE})


def test_without_a_record(record: Path) -> None:
    said = "There is no record yet: `weft bench ops --record benchmarks/records/ops_sweep.jsonl`"
    for name in ("ops_line", "ops_families", "ops_reduce"):
        assert said in tables.TABLES[name]()


def test_the_newest_record_of_each_op_counts(record: Path) -> None:
    record.parent.mkdir(parents=True)
    times = [{"op": "sum", "shape": s, "weft_us": 4.0, "torch_us": 5.0} for s in ([64, 64], [1, 9])]
    host_line = json.dumps({"host": times, **MACHINE})
    many = [2.0, 0.5, *[1.0] * 12]
    record.write_text(
        "\n".join([line("sum", 1, 9.0), host_line, line("add", 1, 4.0, 1.0), line("sum", 2, *many)])
    )
    page = tables.TABLES["ops_reduce"]()
    assert "| `sum` | 2 | 1a2b | 14 | 1.00 x | 0.50 x | 1 |  | 1.50 x | 1.90 x |" in page
    assert "seed 2" in page and "`add`" not in page
    assert "| 0.50 x | `sum` | float32 1 | flat | 10.0 | 5.0 | 10.0 |" in page
    assert page.count("| flat |") == 10
    page = tables.TABLES["ops_elementwise"]()
    assert "| `add` | 1 | 1a2b | 2 | 2.00 x | 1.00 x | 0 |  | 1.50 x | 2.00 x |" in page
    sentence = tables.TABLES["ops_line"]()
    assert "16 random calls of 2 ops" in sentence
    assert "1 of them below 0.8 x, the worst 0.50 x" in sentence


def test_families_have_a_row_each(record: Path) -> None:
    record.parent.mkdir(parents=True)
    times = [{"op": "add", "shape": [64, 64], "weft_us": 4.0, "torch_us": 5.0}]
    lines = [line("add", 1, 2.0, 0.5), line("mul", 1, 1.0), json.dumps({"host": times, **MACHINE})]
    record.write_text("\n".join(lines))
    text = tables.TABLES["ops_families"]()
    assert "| elementwise: `add`, `mul` | 3 | 1.00 x | 0.50 x | 1 | 4.0 | 5.0 |" in text
    assert "matmul" not in text


def test_every_op_is_listed() -> None:
    text = tables.TABLES["ops_list"]()
    assert "| `softmax(x, dim=-1)` |" in text and "| `matmul(a, b" in text
    assert all(f"| `{c.op}(" in text for c in CASES if c.weft is None)
