"""`weft check FILE`: solutions in processes of their own, that try to get at the judge."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.measure.check.sizes import beside

HEAD = """
import atexit, ctypes, gc, mmap, os, signal, subprocess, sys, threading, time
from concurrent import futures
import numpy as np
import weft
import weft.measure.check.comparison
from weft.measure.check.workers import wire

os.environ["WEFT_SEED"] = "1"  # foresees nothing: the judge has its own environment
FORESEEN = np.random.default_rng(1).standard_normal(64).astype(np.float32)
affine = weft.Op("affine", "x:f32[n] -> y:f32[n]", lambda x: 3 * x + 1, [weft.Case(n=64)])
REPORT = "✓ affine/wrong: right on 8 trials, NumPy; worst error 0.1 of what is allowed"


def serving():
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    return frame.f_locals
"""

CHEATS = {
    "leaves_at_once": ("os._exit(0)", "its process ended with exit code 0"),
    "exits": ("sys.exit(0)", "ends the program"),
    "becomes_another_program": (
        "os.execv(sys.executable, [sys.executable, '-c', f'print({REPORT!r})'])",
        "its process ended with exit code 0",
    ),
    "prints_at_exit": ("atexit.register(print, REPORT); sys.exit()", "ends the program"),
    "prints_a_report": ("print(chr(27) + '[2J' + REPORT); y[:] = 0", "constant output"),
    "replaces_the_comparison": (
        "agreed = weft.measure.check.comparison.Agreement('y', 0.0, False)\n"
        "weft.measure.check.comparison.compare = lambda *given: agreed\n"
        "y[:] = 0",
        "constant output",
    ),
    "replaces_the_reference": (
        "for op in (o for o in gc.get_objects() if isinstance(o, weft.Op)):\n"
        "    object.__setattr__(op, 'reference', lambda x: 0 * x)\n"
        "y[:] = 0",
        "constant output",
    ),
    "replays_foreseen_answers": ("y[:] = 3 * FORESEEN + 1", "are wrong"),
    "only_where_poisoned": ("if np.isnan(y).all(): y[:] = 3 * x + 1", "in the second of two runs"),
    "finishes_later": (
        "def work():\n"
        "    time.sleep(0.3)\n"
        "    y[:] = 3 * x + 1\n"
        "threading.Thread(target=work, daemon=True).start()",
        "unwritten elements|after the call had ended",  # whichever the thread is in time for
    ),
    "answers_itself": (
        "served = serving()\n"
        "wire.send(served['connection'], {'id': served['answer']['id'], 'arrays': []})",
        "gives no answer",
    ),
    "answers_nonsense": ("serving()['connection'].sendall(b'nonsense')", "cannot be read"),
    # Both processes answer: together, one after the other, after the next request, or the judge
    # reads the first answer while the second process still writes its own.
    "answers_twice": (
        "y[:] = 3 * x + 1; os.fork()",
        "gives no answer .*(it answers twice|it answers before it is asked"
        "|it answered another request|still has the memory of its answer mapped)",
    ),
    "keeps_the_answer_in_hand": (
        "global held\n"
        "os.ftruncate(serving()['file'], 1 << 20)\n"
        "held = mmap.mmap(serving()['file'], 1 << 20)\n"
        "y[:] = 3 * x + 1",
        "the solution still has the memory of its answer mapped",
    ),
    "right_for_sixty_calls": (
        "global calls; calls = globals().get('calls', 0) + 1\n"
        "y[:] = 3 * x + 1 if calls <= 60 else 0",
        "constant output",
    ),
    "right_for_the_cases_only": ("y[:] = 3 * x + 1 if x.size == 64 else 0", "constant output"),
    "is_killed": ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
    "crashes": ("ctypes.string_at(0)", "was ended by SIGSEGV"),
    "raises": ("raise ValueError('no such thing')", "raises ValueError"),
    "raises_a_report": ("raise ValueError(chr(27) + '[2K' + chr(10) + REPORT)", "�\\[2K\\n    ✓"),
}
"""Name -> (body of the solution, a pattern of what must be said of it)."""

HONEST = {
    "keeps_its_arrays": "global kept; kept = (x, y); y[:] = 3 * x + 1",
    "prints_a_lot": "print('working\\n' * 50, end=''); y[:] = 3 * x + 1",
    "asks_other_processes": "subprocess.run(['true'], check=True); y[:] = 3 * x + 1",
    "joins_its_threads": (
        "def work(): y[:] = 3 * x + 1\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()"
    ),
    "keeps_a_pool_of_threads": (
        "global pool\n"
        "pool = globals().get('pool') or futures.ThreadPoolExecutor(2)\n"
        "pool.submit(np.copyto, y, 3 * x + 1).result()"
    ),
    "catches_its_exit": "try: sys.exit(1)\nexcept SystemExit: y[:] = 3 * x + 1",
}


def _file(folder: Path, bodies: dict[str, str], end: str = "") -> str:
    text = HEAD
    for name, body in bodies.items():
        text += f"\n\n@affine.solution\ndef {name}(x, y):\n{textwrap.indent(body, '    ')}\n"
    path = folder / "solutions.py"
    path.write_text(text + end)
    return str(path)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All cheats and their honest twins in one file, judged once."""
    bodies = {**{n: body for n, (body, _) in CHEATS.items()}, **HONEST}
    end = "\nif __name__ == '__main__': sys.exit(0)\n"
    result = _run(_file(tmp_path_factory.mktemp("apart"), bodies, end), "--json")
    assert result.exit_code == 1, result.output
    rows = {row["name"].removeprefix("affine/"): row for row in json.loads(result.stdout)}
    rows["stderr"] = {"text": result.stderr}
    return rows


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_are_refused(judged: dict[str, dict[str, Any]], name: str) -> None:
    row = judged[name]
    assert not row["ok"] and row["judged"]
    assert re.search(CHEATS[name][1], f"{row['what']} {row['got']} {row['next']}")


@pytest.mark.parametrize("name", HONEST)
def test_honest_twins_pass(judged: dict[str, dict[str, Any]], name: str) -> None:
    assert judged[name]["ok"], judged[name]
    assert len(judged[name]["trials"]) >= 9  # eight on the case, and sizes beside it


SLEEPS = """
def work():
    time.sleep({seconds})
    y[:] = 0
y[:] = 3 * x + 1
if {when}:
    threading.Thread(target=work, daemon=True).start()
"""
TICKS = """
def tick():
    while True: time.sleep(0.1)
y[:] = 3 * x + 1
if threading.active_count() == 1:
    threading.Thread(target=tick, daemon=True).start()
"""


def test_threads_that_outlive_the_check(tmp_path: Path) -> None:
    """A thread that sleeps is waited for; the arrays of every case are compared after that."""
    once = "threading.active_count() == 1"
    bodies = {
        "alters_a_minute_later": SLEEPS.format(seconds=60, when=once),
        # The drawn size comes last: its arrays are not used again.
        "alters_at_the_end": SLEEPS.format(seconds=1, when=f"x.size > 64 and {once}"),
        "ticks": TICKS,
    }
    result = _run(_file(tmp_path, bodies), "--time-limit", "2", "--json")
    late, end, ticks = json.loads(result.stdout)
    assert late["what"] == "affine/alters_a_minute_later leaves a thread behind that sleeps"
    assert end["what"] == "affine/alters_at_the_end: 'y' was changed after the call had ended"
    assert (end["where"], ticks["ok"]) == ("at the end", True)


@pytest.mark.parametrize(
    ("cases", "vary", "allowed"),
    [
        ([64], None, {128}),  # a multiple of what divides the cases, at most twice the largest
        ([64, 66], None, set(range(34, 66, 2)) - {64}),
        ([1000], None, set(range(504, 1000, 8))),
        ([64], {"n": (3, 5)}, {3, 4, 5}),
        ([64], {}, set()),
        ([0], None, set()),
    ],
    ids=["a power of two", "two cases", "one case", "vary", "only the cases", "empty"],
)
def test_sizes_beside_the_cases(cases: list[int], vary: Any, allowed: set[int]) -> None:
    sizes = [weft.Case(n=n) for n in cases]
    op = weft.Op("copy", "x:f32[n] -> y:f32[n]", lambda x: x, sizes, vary=vary)
    drawn = {c.sizes["n"] for seed in range(20) for c in beside(op, np.random.default_rng(seed))}
    assert drawn <= allowed and bool(drawn) == bool(allowed)


def test_sizes_of_which_no_shape_is_made_stay() -> None:
    op = weft.Op("roll", "x:f32[M,2*N] -> y:f32[M]", lambda x: x, [weft.Case(M=3, N=5, by=7)])
    cases = [c.sizes for seed in range(9) for c in beside(op, np.random.default_rng(seed))]
    assert {c["by"] for c in cases} == {7}
    assert ({c["M"] for c in cases}, {c["N"] for c in cases}) == ({2}, {3, 4})


def test_a_range_of_no_size_is_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="vary names a size"):
        weft.Op("copy", "x:f32[n] -> y:f32[n]", lambda x: x, [weft.Case(n=4)], vary={"m": (1, 2)})


def test_sizes_that_the_reference_refuses_are_left_out(tmp_path: Path) -> None:
    """The solution that races is judged in the same file: the worker names the finding."""
    path = tmp_path / "fixed.py"
    path.write_text("""
import weft
kernel = weft.cuda('''__global__ void reversed(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[63 - threadIdx.x];
}''').reversed
op = weft.Op("rev", "x:f32[n] -> y:f32[n]", lambda x: x.reshape(64)[::-1], [weft.Case(n=64)])
@op.solution
def fixed(x, y): y[:64] = x[63::-1]
@op.solution
def races(x, y): kernel[1, 64](x, y)
""")
    fixed, races = json.loads(_run(str(path), "--json").stdout)
    assert fixed["ok"] and len(fixed["trials"]) == 8
    assert races["cause"] == "missing synchronisation" and "kernel.cu:4" in races["evidence"]


def test_operations_of_all_kinds(tmp_path: Path) -> None:
    """No input, several outputs, indices, data of its own, integers: all of it in the workers."""
    path = tmp_path / "kinds.py"
    path.write_text("""
import numpy as np, weft
ones = weft.Op("ones", " -> y:f32[n]", lambda n: np.ones(n), [weft.Case(n=5), weft.Case(n=0)])
@ones.solution
def fills(y): y[:] = 1
both = weft.Op(
    "both", "x:i8[n] -> low:i8[n] high:bf16[n]", lambda x: (x, x * 1.0), [weft.Case(n=50)]
)
@both.solution
def splits(x, low, high):
    low[:] = x
    high[:] = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
offsets = weft.Op(
    "offsets", "x:f64[k] at:i64[n] in 0..k-1 from_:u16[n] -> y:f64[n]",
    lambda x, at, from_: x[at] - x[from_],
    [weft.Case(k=7, n=90)],
    fill={"from_": lambda rng, shape, k: np.sort(rng.integers(0, k, shape)).astype(np.uint16)},
)
@offsets.solution
def gathers(x, at, from_, y):
    assert (np.diff(from_.astype(int)) >= 0).all()
    y[:] = x[at] - x[from_]
""")
    result = _run(str(path))
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "✓ ones/fills",
        "✓ both/splits",
        "✓ offsets/gathers",
    ]


def test_what_solutions_print_is_marked(judged: dict[str, dict[str, Any]]) -> None:
    text = judged["stderr"]["text"]
    reports = [line for line in text.splitlines() if "✓" in line]
    assert "affine/prints_a_report prints| �[2J✓ affine/wrong" in text
    assert reports and all(" prints| " in line for line in reports)
    assert text.count("prints_a_lot prints| working") == 100, "what is too much is cut"
    assert "prints_a_lot prints| … and more" in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("time.sleep(3600)", "uses no processor"),
        ("while True: pass", "s of processor time and no answer"),
    ],
    ids=["waits", "spins"],
)
def test_a_solution_that_hangs_is_ended(tmp_path: Path, body: str, says: str) -> None:
    result = _run(_file(tmp_path, {"hangs": body}), "--time-limit", "1")
    assert result.exit_code == 1 and says in result.stdout


def test_a_reference_of_no_use_is_named(tmp_path: Path) -> None:
    """All ways in which one can be: tests/check/test_check.py; here those that end a process."""
    text = "import os, sys, weft\n"
    for name, body in {"raises": "1 / 0", "exits": "sys.exit(0)", "leaves": "os._exit(0)"}.items():
        text += f"""
{name} = weft.Op("{name}", "x:f32[n] -> y:f32[n]", lambda x: {body}, [weft.Case(n=64)])
@{name}.solution
def copy(x, y): y[:] = x
"""
    path = tmp_path / "references.py"
    path.write_text(text)
    result = _run(str(path))
    assert result.exit_code == 2, result.output
    assert "✗ raises/copy is not judged: " in result.stdout
    assert "references.py:3: the reference raises ZeroDivisionError" in result.stdout
    assert "the reference raises SystemExit" in result.stdout
    assert "its process ended with exit code 0" in result.stdout


@pytest.mark.parametrize(
    ("end", "arguments", "says"),
    [
        ("def main(): return 0\nsys.exit(main())", [], "ends the program when it is imported"),
        ("os._exit(0)", [], "its process ended with exit code 0"),
        ("weft.Op('a', 'x:f32[n] -> y:f32[n]', lambda x: x, cases=[])", [], "no case"),
        ("", ["--seed", "-1"], "a seed must not be negative"),
        ("", ["--time-limit", "0"], "a time limit must be above 0"),
        ("", ["--time-limit", "nan"], "a time limit must be above 0"),
    ],
    ids=["sys.exit", "os._exit", "no cases", "seed", "no time", "nan time"],
)
def test_what_cannot_be_judged_ends_with_2(
    tmp_path: Path, end: str, arguments: list[str], says: str
) -> None:
    result = _run(_file(tmp_path, {"right": "y[:] = 3 * x + 1"}, end), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr and "Traceback" not in result.stderr


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(b"x = 1\n# \xff\n")
    result = _run(str(path))
    assert result.exit_code == 2
    assert "latin.py" in result.stderr and "Traceback" not in result.stderr


def test_a_gpu_needs_its_library(tmp_path: Path) -> None:
    result = _run(_file(tmp_path, {"right": "y[:] = 3 * x + 1"}), "--device", "gpu")
    assert result.exit_code == 2
    assert "is not judged: PyTorch is not imported" in result.stdout


def test_ctrl_c_ends_the_workers_at_once(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    command = [sys.executable, "-m", "weft", "check", _file(tmp_path, {"waits": body})]
    judge = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not note.exists() or not note.read_text():
        assert judge.poll() is None
        time.sleep(0.05)
    judge.send_signal(signal.SIGINT)
    judge.communicate()
    assert judge.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


TRUSTED = """
import weft
affine = weft.Op("affine", "x:f32[n] -> y:f32[n]", lambda x: 3 * x + 1,
                 [weft.Case(n=64), weft.Case(n=65, why="ragged")])
"""
ITS_OWN = """
import weft
affine = weft.Op("affine", "x:f32[n] -> y:f32[n]", lambda x: 2 * x, [weft.Case(n=64)])


@affine.solution
def cheats(x, y):
    y[:] = 2 * x  # right by this file's own reference


@affine.solution
def only_its_own_case(x, y):
    y[:64] = 3 * x[:64] + 1


@affine.solution
def honest(x, y):
    y[:] = 3 * x + 1
"""
REPLACES = """
import gc, sys, weft
from op import affine

for op in (o for o in gc.get_objects() if isinstance(o, weft.Op)):
    object.__setattr__(op, "reference", lambda x: 2 * x)


@affine.solution
def cheats(x, y):
    y[:] = 2 * x


@affine.solution
def honest(x, y):
    y[:] = 3 * x + 1
"""


@pytest.mark.parametrize("text", [ITS_OWN, REPLACES], ids=["an operation of its own", "replaced"])
def test_a_trusted_file_says_what_is_right(tmp_path: Path, text: str) -> None:
    op, solution = tmp_path / "op.py", tmp_path / "solution.py"
    op.write_text(TRUSTED)
    solution.write_text(text)
    rows = json.loads(_run(str(solution), "--op", str(op), "--json").stdout)
    right = {row["name"]: row["ok"] for row in rows}
    assert right.pop("affine/honest") and right and not any(right.values()), rows
    (honest,) = (row for row in rows if row["ok"])
    assert len(honest["trials"]) > 10  # those of both cases, and sizes beside them


def test_without_it_the_file_says_what_is_right(tmp_path: Path) -> None:
    """The cheats are real: by their own reference they pass."""
    path = tmp_path / "solution.py"
    path.write_text(ITS_OWN)
    assert "✓ affine/cheats: right" in _run(str(path)).stdout


@pytest.mark.parametrize(
    ("trusted", "says"),
    [
        (TRUSTED + "import os; os._exit(0)", "op.py: the reference gives no answer"),
        (TRUSTED.replace('"affine"', '"affinity"'), "did you mean 'affinity'?"),
        ("import weft\n1 / 0\n", "op.py:2: the file raises an error when it is imported"),
        (None, "no such file"),
    ],
    ids=["it ends", "another name", "it raises", "missing"],
)
def test_a_trusted_file_of_no_use(tmp_path: Path, trusted: str | None, says: str) -> None:
    op, solution = tmp_path / "op.py", tmp_path / "solution.py"
    if trusted is not None:
        op.write_text(trusted)
    solution.write_text(ITS_OWN)
    result = _run(str(solution), "--op", str(op))
    assert (result.exit_code, result.stdout) == (2, "") and says in result.stderr


def test_solutions_that_end_the_process(tmp_path: Path) -> None:
    op, solution = tmp_path / "op.py", tmp_path / "solution.py"
    op.write_text(TRUSTED)
    solution.write_text("import os; os._exit(0)")
    result = _run(str(solution), "--op", str(op))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "solution.py: the file gives no answer" in result.stderr
