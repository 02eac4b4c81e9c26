"""Ladders: every rung is right and does what its header says; ladders of one's own; bad ones."""

from __future__ import annotations

import ast
import json
import math
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from limits import PROCESS_SECONDS
from small_ladder import GOOD, OP, run, timed
from weft.cli import app
from weft.climbing import counters, ladder, records, rung, timing
from weft.climbing.climb import climb, prepare, zeros
from weft.climbing.recorded_times import with_recorded
from weft.climbing.records import Climb
from weft.device import models
from weft.measure import expressions
from weft.pytest_plugin import no_gpu
from weft.report import climb_text
from weft.values.climb import RungResult

QUICK = {"vecadd", "transpose", "reduce"}
"""`make climb` climbs all ladders; the others are behind the marker here."""
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow], id=name)
    for name in ladder.names()
]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "op.py").write_text(OP)
    (tmp_path / "rung_00_naive.cu").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize("name", ladder.names())
def test_every_ladder_tells_its_story(name: str) -> None:
    found = ladder.find(name)
    assert found.text.startswith("# ") and found.op.target, "ladder.md, and what is to be reached"


@pytest.mark.slow
@pytest.mark.parametrize("sms", [2, 3, 5, 132])
@pytest.mark.parametrize("size", [(300, 600, 64), (256, 512, 200), (400, 1000, 36), (128, 128, 64)])
def test_the_last_wave_of_a_matmul_is_shared(sms: int, size: tuple[int, int, int]) -> None:
    """With few SMs small products have full waves, a rest, and shares of less than a step."""
    (m, n, k), rng = size, np.random.default_rng(sms)
    found = ladder.find("matmul")
    (tail,) = [r for r in found.rungs if r.name == "shared tail"]
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = np.full((m, n), np.nan, np.float32)
    rung.Runner(tail, found.op, sms=sms, empty=zeros)(A=a, B=b, C=c, M=m, N=n, K=k)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_attention_with_scores_of_minus_infinity() -> None:
    """The first query has no weights; others leave the first key out. Every rung agrees."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    found, rng = ladder.find("attention"), np.random.default_rng(3)
    q, k, v = (torch.from_numpy(rng.random((1, 2, 40, 32), np.float32) + 0.5) for _ in range(3))
    k[0, 1, 0, 5] = -torch.inf
    want = found.op.reference(*(x.bfloat16().double().numpy() for x in (q, k, v)))
    assert not want[0, 1, 0].any() and np.isfinite(want).all()
    given = {n: x.bfloat16() for n, x in zip("qkv", (q, k, v), strict=True)}
    for r in found.rungs:
        prepare(r, "sim")
        o = torch.full((1, 2, 40, 32), torch.nan, dtype=torch.bfloat16)
        runner = rung.Runner(r, found.op, sms=132, empty=zeros)
        runner(**given, o=o, b=1, h=2, m=40, s=40, d=32)
        np.testing.assert_allclose(o.double(), want, rtol=2e-2, atol=1e-2, err_msg=r.name)


@pytest.mark.parametrize("name", NAMES)
def test_every_rung_is_right_and_does_what_it_says(name: str) -> None:
    for reached in climb(ladder.find(name)).rungs:
        assert reached.right, f"{reached.number:02} {reached.name}: {reached.error}"


WITHOUT_TRITON = {"conv2d", "conv_block", "fft", "quantised_gemv", "rfft"}
"""Ladders that end with the kernel of the op library, and have no rung in Triton yet."""


def test_rungs_are_numbered_and_say_their_idea() -> None:
    triton = set()
    for name in ladder.names():
        found = ladder.find(name)
        assert [r.number for r in found.rungs] == list(range(len(found.rungs))), name
        if any(r.language == "Triton" for r in found.rungs):
            triton.add(name)
    assert set(ladder.names()) - triton == WITHOUT_TRITON


def test_a_folder_of_ones_own(own: Path) -> None:
    result = run(str(own), "--json")
    assert result.exit_code == 0, result.output
    (reached,) = json.loads(result.stdout)["rungs"]
    assert reached["right"] and reached["facts"]["load sectors per request"] == 4


def test_a_wrong_rung_fails_the_climb(own: Path) -> None:
    (own / "rung_01_wrong.cu").write_text(GOOD.replace("2 * x", "3 * x").replace("00", "01"))
    result = run(str(own))
    assert result.exit_code == 1 and "missing factor: every element is 1.5 times" in result.stdout


def test_a_rung_that_raises_fails_alone(own: Path) -> None:
    text = (
        '"""\nrung: 01 broken\nidea: it raises\n"""\n\ndef run(x, y, n):\n    raise OSError("no")\n'
    )
    (own / "rung_01_broken.py").write_text(text)
    result = run(str(own))
    assert result.exit_code == 1
    assert "✓ right" in result.stdout and "rung_01_broken.py:7: OSError: no" in result.stdout


def test_a_module_that_is_spelt_wrong_is_a_failure(own: Path) -> None:
    text = '"""\nrung: 01 typo\nidea: a module that is not there\n"""\n\nimport numpyy\n'
    (own / "rung_01_typo.py").write_text(text)
    result = run(str(own))
    assert result.exit_code == 1
    assert "rung_01_typo.py:6: ModuleNotFoundError: No module named 'numpyy'" in result.stdout


def test_a_rung_that_does_not_do_what_it_says(own: Path) -> None:
    (own / "rung_00_naive.cu").write_text(GOOD.replace("<= 4", "= 1"))
    assert "load sectors per request 4" in run(str(own)).stdout


def test_to_stops_at_a_rung(own: Path) -> None:
    (own / "rung_01_again.cu").write_text(GOOD)
    assert len(json.loads(run(str(own), "--to", "0", "--json").stdout)["rungs"]) == 1


def test_a_record_is_appended(own: Path, tmp_path: Path) -> None:
    record = tmp_path / "records.jsonl"
    run(str(own), "--record", str(record))
    run(str(own), "--record", str(record))
    assert [json.loads(line)["ladder"] for line in record.read_text().splitlines()] == ["twice"] * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("// idea: a thread for each element\n", ""), "says its idea"),
        (("// launch: twice<<<cdiv(n, 64), 64>>>\n", ""), "says how it is launched"),
        (("<<<cdiv(n, 64), 64>>>", "[1, 64]"), "a launch cannot be read"),
        (("load sectors per request <= 4", "bank sectors"), "an expectation cannot be read"),
        (("// expect:", "// expct:"), "did you mean 'expect:'?"),
        (("cdiv(n, 64)", "cdiv(n,, 64)"), "rung_00_naive.cu: 'cdiv(n,, 64)' is not an expression"),
        (("cdiv(n, 64)", "cdiv(n)"), "rung_00_naive.cu: 'cdiv(n)' cannot be computed"),
        (("cdiv(n, 64)", "n // 0"), "rung_00_naive.cu: 'n // 0' cannot be computed"),
        (("cdiv(n, 64)", "9**9**9**9"), "rung_00_naive.cu: '9**9**9**9' cannot be computed"),
        (("// expect:", "// clear: z\n// expect:"), "rung_00_naive.cu: nothing says what 'z' is"),
        (("// expect:", "// bench: n\n// expect:"), "sizes cannot be read"),
    ],
)
def test_bad_headers(own: Path, change: tuple[str, str], says: str) -> None:
    (own / "rung_00_naive.cu").write_text(GOOD.replace(*change))
    result = run(str(own))
    assert says in result.output and isinstance(result.exception, SystemExit)
    assert result.exit_code == 1


def test_two_rungs_of_one_number_are_refused(own: Path) -> None:
    (own / "rung_00_again.cu").write_text(GOOD)
    result = run(str(own))
    assert "rung_00_again.cu, rung_00_naive.cu" in result.output and "rung_01_" in result.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import weft\nop = (\n", "op.py:2: the file raises an error when it is imported"),
        ("import weft\n\nop = weft.Operation()\n", "op.py:3: the file raises an error"),
        (OP.replace("x:f32", "x:f33"), "no element type 'f33'\n  got: f33\n  allowed: f64"),
    ],
)
def test_an_operation_that_cannot_be_imported(own: Path, text: str, says: str) -> None:
    (own / "op.py").write_text(text)
    result = run(str(own))
    assert says in result.output and isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["vecadd", "--to", "99"], "got: 99\n  allowed: 0 to "),
        (["vecadd", "--device", "cpu"], "no such device\n  got: 'cpu'\n  allowed: sim"),
        (["--html", "page.html"], "the name of a ladder is missing"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], says: str) -> None:
    result = run(*arguments)
    assert says in result.output and result.exit_code == 1


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_no_gpu_to_time_on() -> None:
    result = run("vecadd", "--device", "gpu")
    assert "there is no GPU to time on" in result.output and result.exit_code == 1


def test_names_with_a_typo() -> None:
    assert "did you mean 'transpose'?" in run("transpos").output
    with pytest.raises(weft.ArgumentError, match="not the name of a rung"):
        rung.read(Path("rung_one.cu"))


def test_expectations_compare() -> None:
    counters.verify("here", ["instructions < 5", "instructions = 4"], {"instructions": 4.0})
    with pytest.raises(weft.CheckFailed, match="instructions 4"):
        counters.verify("here", ["instructions >= 5"], {"instructions": 4.0})


def test_the_list() -> None:
    listed = run().stdout
    for name in ladder.names():
        assert name in listed


def test_a_new_operation_can_be_climbed(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["new", "ladder", "mine", "--in", str(tmp_path), "--json"])
    folder = Path(json.loads(made.stdout)["folder"])
    assert sorted(p.name for p in folder.iterdir())[0] == "op.py"
    result = run(str(folder), "--to", "0")
    assert result.exit_code == 0 and "✓ right" in result.stdout, result.output
    again = CliRunner().invoke(app, ["new", "ladder", "mine", "--in", str(tmp_path)])
    assert again.exit_code == 1 and "already" in again.output
    odd = CliRunner().invoke(app, ["new", "ladder", "my op", "--in", str(tmp_path)])
    assert "a C++ and Python name" in odd.output


# ---- all of them, and records ----------------------------------------------------------------
@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of two ladders, of which the second is wrong."""
    for name, text in (("first", GOOD), ("second", GOOD.replace("2 * x", "3 * x"))):
        folder = tmp_path / "home" / name
        folder.mkdir(parents=True)
        (folder / "op.py").write_text(OP.replace('"twice"', f'"{name}"'))
        (folder / "rung_00_naive.cu").write_text(text)
    monkeypatch.setattr(ladder, "HOME", tmp_path / "home")
    return tmp_path / "home"


def test_all_ladders_say_which_is_wrong(home: Path, tmp_path: Path) -> None:
    record = tmp_path / "all.jsonl"
    result = run("--all", "--record", str(record))
    assert result.exit_code == 1
    assert "✓ first          1 of 1 rungs right" in result.stdout
    assert "✗ second         0 of 1 rungs right\n  00 naive: " in result.stdout
    assert set(records.newest(record)) == {"first", "second"}
    assert "leave it out" in run("--all", "first").output


def test_a_record_is_shown_as_the_climb_was(own: Path, tmp_path: Path) -> None:
    record = tmp_path / "records.jsonl"
    (own / "rung_01_again.cu").write_text(GOOD)
    climbed = run(str(own), "--record", str(record)).stdout
    assert "✓ 01 again" in climbed and "counted: by the simulated GPU on n=" in climbed
    assert "recorded" not in climbed and "█" not in climbed, "counters rank nothing"
    shown = run("--from", str(record)).stdout
    assert shown.splitlines()[1:] == climbed.splitlines()[1:]
    assert json.loads(run("--from", str(record), "twice", "--json").stdout)["ladder"] == "twice"
    assert "did you mean 'twice'?" in run("--from", str(record), "twise").output


def test_recorded_times_come_first() -> None:
    """Without a GPU rungs are not ranked by what was counted on a small size."""
    shown = run("transpose", "--to", "1").stdout
    words = ("\nrecorded: NVIDIA H200", "\nmodelled: ", "\ncounted: ")
    places = [shown.index(word) for word in words]
    assert places == sorted(places) and "nothing was timed here" in shown
    assert re.search(r"01 shared tile +[\d.]+ [mµ]s +█+", shown), shown
    found = json.loads(run("transpose", "--to", "1", "--json").stdout)
    assert found["recorded"].startswith("NVIDIA H200") and found["rungs"][1]["times"]
    assert found["device"] == "sim:h200" and found["counted"] == "rows=128, columns=128"
    assert list(found["floors"]) == ["rows=16384, columns=16384"]


def test_rungs_timed_on_a_size_of_their_own_say_so() -> None:
    shown = with_recorded(ladder.find("matmul"), Climb("matmul", "sim", "H200", (
        RungResult(0, "python", "", "Python", "f32"),
        RungResult(9, "warp tiles", "", "CUDA C++", "f32"),
        RungResult(99, "new", "", "CUDA C++", "f32"),
    )))  # fmt: skip
    (table,) = climb_text.summaries(shown)
    times = [row[1] for row in table.rows[:3]]
    assert re.fullmatch(r"[\d.]+ ms at M=64, N=64, K=64", times[0])
    assert re.fullmatch(r"[\d.]+ ms", times[1]) and times[2] == "not recorded"


def test_triton_rungs_are_counted_by_themselves() -> None:
    """Other rungs run in other threads meanwhile: none of their launches may be among the facts."""
    pytest.importorskip("triton")
    whole = ladder.find("vecadd")
    last = whole.rungs[-1]
    assert last.language == "Triton"
    together = climb(whole).rungs[-1].facts
    alone = climb(replace(whole, rungs=(last,))).rungs[0].facts
    assert together == alone
    assert alone["bytes read per result"] == 8 and alone["load sectors per request"] == 16


@pytest.mark.parametrize("text", ["{}", "no", '{"rungs": [1], "peers": {}}', "[]"])
def test_what_is_no_record(tmp_path: Path, text: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(text)
    assert "this is no record of a climb" in run("--from", str(file)).output
    assert "no such file" in run("--from", str(tmp_path / "none")).output


def test_times_are_held_against_limit_rung_and_peer() -> None:
    (table,) = climb_text.summaries(timed())
    title, rows = table.title, table.rows
    assert title == "n=9: limit copy: 4.00 TB/s"
    assert rows[0][1:] == ["8 ms", "███", "12.5%", "", "0.25 x"]
    assert rows[1][1:] == ["1.25 ms", climb_text.bar(0.8), "80.0%", "6.40 x", "1.60 x"]
    assert rows[2][0] == "torch.add(a, b)"
    assert Climb.from_dict(json.loads(json.dumps(timed().to_dict()))) == timed()


def test_one_query_is_bounded_by_memory() -> None:
    """A share of the GPU's arithmetic says nothing of one query that reads every key."""
    op = ladder.find("attention").op
    h200 = models.get("h200")
    kinds = [timing.bound(op, h200, case) for case in op.bench]
    assert kinds == ["compute", "compute", "read"]


LAUNCH = """
def rung_00_naive(n, sms):
    if n >= 100:
        yield "twice", 4, (32, 2), 0
    yield "twice", (0, sms), 64, 16
"""


def test_launches_in_python_beside_a_rung(own: Path) -> None:
    text = "".join(line for line in GOOD.splitlines(True) if "launch:" not in line)
    (own / "rung_00_naive.cu").write_text(text)
    with pytest.raises(weft.ArgumentError, match="says how it is launched") as caught:
        ladder.find(str(own))
    assert "a function rung_00_naive in launch.py" in caught.value.next
    (own / "launch.py").write_text(LAUNCH)
    rung = ladder.find(str(own)).rungs[0]
    small = ("twice", (0, 8), (64,), 16)
    assert list(rung.dims({"n": 5, "m": 3, "sms": 8})) == [small]
    assert list(rung.dims({"n": 100, "sms": 8})) == [("twice", (4,), (32, 2), 0), small]


def test_macros_beside_rungs(own: Path) -> None:
    (own / "launch.py").write_text('DEFINES = {"FACTOR": "2"}')
    (own / "rung_00_naive.cu").write_text(GOOD.replace("2 * x", "FACTOR * x"))
    (result,) = climb(ladder.find(str(own))).rungs
    assert result.right, result.error


def test_structs_of_ops_are_declared_once() -> None:
    """A rung gets them from `launch.py`; a second declaration would go out of step."""
    files = [p for p in ladder.HOME.glob("*/*.cu*") if "#define STRUCT_" in p.read_text("utf-8")]
    assert not files


@pytest.mark.parametrize("sizes", [(8, 8, 8), (300, 516, 64), (5000, 5000, 24), (64, 63, 4)])
def test_the_launches_of_the_last_matmul(sizes: tuple[int, int, int]) -> None:
    """Every tile of C is computed once: by full waves, by the shared last wave, or as ragged."""
    rung = ladder.find("matmul").rungs[12]
    (m, n, k), sms = sizes, 132
    blocks = {
        name: math.prod(grid)
        for name, grid, _, _ in rung.dims({"M": m, "N": n, "K": k, "sms": sms})
    }
    tiles = weft.cdiv(n, 256) * weft.cdiv(m, 128)
    if n % 4 or k % 4:
        assert blocks == {"ragged": weft.cdiv(n, 128) * weft.cdiv(m, 128)}
    elif tiles <= sms or tiles % sms == 0:
        assert blocks == {"whole": tiles}
    else:
        assert blocks == {"whole": tiles // sms * sms, "rest": sms}


def test_threads_parse_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 fails now and then when two threads make syntax trees at a time."""
    header = (
        "// scratch: spare:f32[8*sms]\n// launch: twice<<<cdiv(n, 32) if n > 99 else 0, 64>>>\n"
    )
    (own / "rung_01_more.cu").write_text(header + GOOD.replace("00", "01"))
    found, real, threads = ladder.find(str(own)), ast.parse, []

    def parse(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return real(*args, **options)

    expressions.expression.cache_clear()
    monkeypatch.setattr(ast, "parse", parse)
    assert climb(found).right
    assert set(threads) == {threading.current_thread()}


def test_ctrl_c_does_not_wait(own: Path) -> None:
    (own / "rung_01_slow.py").write_text(
        '"""\nrung: 01 slow\nidea: it sleeps\narrays: numpy\n"""\nimport sys\nimport time\n\n\n'
        'def run(x, y, n):\n    print("asleep", file=sys.stderr, flush=True)\n    time.sleep(999)\n'
    )
    command = [sys.executable, "-m", "weft", "climb", str(own)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and process.stderr.readline() == "asleep\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PROCESS_SECONDS) == 130
        assert process.stderr.read() == "weft: interrupted\n"


def test_a_rung_that_exits_is_wrong(own: Path) -> None:
    text = (
        '"""\nrung: 01 out\nidea: it leaves\n"""\n\n\ndef run(x, y, n):\n    raise SystemExit(3)\n'
    )
    (own / "rung_01_out.py").write_text(text)
    naive, out = climb(ladder.find(str(own))).rungs
    assert naive.right and not out.right
    assert "ends the program" in out.error and "SystemExit(3)" in out.error
