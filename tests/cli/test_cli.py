"""The command line: every verb, as text and as JSON; failures, exit codes and colours."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import weft
import weft.__main__ as main
from commands import run_weft
from limits import PROCESS_SECONDS
from weft import cache, cli
from weft.cli import app, misplaced
from weft.device import driver, jit, models
from weft.ptx.isa import rows
from weft.source import nvrtc, toolkit
from weft.tasks import coverage, doctor, tour

SQUARE = """\
template <class T> __global__ void square(const T* x, T* y) { y[0] = x[0] * x[0]; }
#ifdef TWICE
extern "C" __global__ void twice(const float* x, float* y) { y[0] = TWICE * x[0]; }
#endif
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "square.cu"
    path.write_text(SQUARE)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def facts(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_version() -> None:
    assert run("--version").stdout == f"weft {weft.__version__}\n"


def test_a_verb_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, weft.cli; print([m for m in sys.modules if m.startswith('weft.cli.verbs.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_every_verb_has_help() -> None:
    listed = run("--help").stdout
    for verb in ("cache", "devices", "doctor", "isa", "ptx", "tour"):
        assert verb in listed
        assert run(verb, "--help").exit_code == 0


def test_unknown_verb_is_a_usage_error() -> None:
    assert run("devcies").exit_code == 2


@pytest.mark.parametrize(
    ("verb", "file", "words", "warns"),
    [
        ("run", "a.cu", "--sanitize", True),
        ("run", "a.cu", "--device sim:t4 --gpus=2", True),
        ("run", "a.cu", "-lcublas -DN=3", True),
        ("run", "a.py", "--device sim", True),
        ("run", "a.py", "--device cuda", False),
        ("run", "a.py", "--gpus 2", False),
        ("run", "a.cu", "-l 3", False),
        ("run", "a.cu", "--help", False),
        ("run", "a.cu", "--sanitize --size 5", False),
        ("run", "a.cu", "--sanitize data.txt", False),
        ("debug", "a.cu", "-b 5 -c locals --json", True),
        ("trace values", "a.cu", "--var x", True),
    ],
)
def test_own_options_behind_the_file_are_named(
    verb: str, file: str, words: str, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    misplaced.warn(cli.command(verb), {"file": file, "args": words.split()})
    said = capsys.readouterr().err
    assert (words in said) == warns and bool(said) == warns


def test_an_option_behind_the_file_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import sys; print(sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "a.py", "--sanitize"], cwd=tmp_path,
        capture_output=True, text=True, timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert done.stdout == "['--sanitize']\n"
    assert "gets --sanitize, because it stands behind a.py" in done.stderr


def test_the_short_way_to_a_script_knows_all_options() -> None:
    names = {n for p in cli.command("run").params for n in (*p.opts, *p.secondary_opts)}
    others = {"file", "args", *misplaced.COMMON}
    assert names - others == main.OPTIONS_OF_RUN


# ---- devices ---------------------------------------------------------------------------------
def test_devices_lists_every_model_and_marks_the_default() -> None:
    text = run("devices").stdout
    for name in models.names():
        assert name in text
    (marked,) = (line for line in text.splitlines() if "h200 *" in line)
    assert "132" in marked
    assert "Real GPUs\n" in text
    assert ("none: " if not driver.count() else "gpu:0") in text.partition("Real GPUs")[2]


def test_devices_as_json() -> None:
    found = facts("devices")
    assert len(found["real"]) == driver.count()
    default = [m["device"] for m in found["simulated"] if m["default"]]
    assert default == [f"sim:{models.DEFAULT}"]


# ---- ptx -------------------------------------------------------------------------------------
def test_ptx_prints_plain_text(source: str) -> None:
    text = run("ptx", source, "-k", "square<double>", "--arch", "sm_75").stdout
    assert ".target sm_75" in text and "mul.f64" in text and "\x1b" not in text


def test_warnings_of_the_compiler_go_to_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "w.cu"
    file.write_text("__global__ void k(int* x) {\n    int unused;\n    x[0] = 1;\n}\n")
    command = [sys.executable, "-m", "weft", "ptx", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "warning: " not in done.stdout
    assert done.stderr.startswith(f"warning: {file}:2: variable ")


def test_ptx_takes_definitions_and_writes_a_file(source: str, tmp_path: Path) -> None:
    out = tmp_path / "out.ptx"
    result = run("ptx", source, "-D", "TWICE=2.0f", "-o", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert ".entry twice" in out.read_text()


def test_ptx_as_json_has_the_signature(source: str) -> None:
    (kernel,) = facts("ptx", source, "-D", "TWICE=2")["kernels"]
    assert kernel["name"] == "twice"
    assert [p["ctype"] for p in kernel["parameters"]] == ["float const*", "float*"]


def test_ptx_takes_include_folders_and_fast_math(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "mine.h").write_text("#define FN sinf\n")
    path = tmp_path / "k.cu"
    path.write_text('#include "mine.h"\n__global__ void k(float* y) { y[0] = FN(y[0]); }\n')
    exact = run("ptx", str(path), "-I", str(tmp_path / "inc")).stdout
    fast = run("ptx", str(path), "-I", str(tmp_path / "inc"), "--fast-math").stdout
    assert "sin.approx.ftz.f32" not in exact and "sin.approx.ftz.f32" in fast


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.cu"], "missing.cu: cannot read the source file"),
        (["{source}", "--arch", "80"], "not a GPU architecture"),
        (["{source}", "--device", "rtx3071"], "did you mean 'sim:rtx3070'?"),
        (["{source}", "-k", "sqare<float>"], 'identifier "sqare" is undefined'),
        (["{source}", "-o", "no/such/folder.ptx"], "no/such/folder.ptx: cannot write the file"),
    ],
    ids=["no file", "bad arch", "bad device", "bad template", "bad output"],
)
def test_ptx_failures_are_text(source: str, arguments: list[str], said: str) -> None:
    result = run("ptx", *(a.replace("{source}", source) for a in arguments))
    assert result.exit_code == 1
    assert said in result.stderr and "Traceback" not in result.output


# ---- isa -------------------------------------------------------------------------------------
def test_isa_counts_what_the_rows_say() -> None:
    found = facts("isa")
    assert found["total"]["rows"] == len(rows())
    assert sum(len(f["rows"]) for f in found["families"]) == len(rows())
    assert found["total"]["forms"] == sum(f["forms"] for f in found["families"])
    assert f"{found['total']['rows']} rows" in run("isa").stdout


def test_isa_families_are_files() -> None:
    for family in coverage.coverage().families:
        assert family.title and family.opcodes
        (home,) = {row.file for row in family.rows}
        assert home.startswith("weft/ptx/isa/") and home.endswith(f"/{family.name}.py")


def test_isa_counts_forms_by_hand() -> None:
    (mad,) = (row for row in rows("mad24") if row.syntax.startswith("mad24.mode.type"))
    assert coverage.forms(mad) == 2 * 2  # lo hi, two integer types
    (load,) = rows("ldu")
    assert coverage.forms(load) == len(load.modifiers["type"])  # spaces and vectors not counted


def test_isa_shows_the_rows_of_an_opcode() -> None:
    text = run("isa", "mad").stdout
    assert "mad.wide.type  d:type*2, a, b, c:type*2" in text
    assert "mad.lo.s32  2 3 4 -> 10" in text
    assert "#integer-arithmetic-instructions-mad" in text
    assert {row["opcode"] for row in facts("isa", "mad")} == {"mad"}


def test_isa_finds_the_row_of_a_full_opcode() -> None:
    assert "add.rn.f32 is covered by this row" in run("isa", "add.rn.f32").stdout
    found = facts("isa", "add.rn.ftz.f32")
    assert found["words"] == {"rnd": "rn", "ftz": "ftz", "type": "f32"}
    assert found["file"] == "weft/ptx/isa/floating/floating.py"


@pytest.mark.parametrize(
    ("opcode", "said"),
    [
        ("maad.lo.s32", "did you mean mad"),
        ("add.rn.f23", "no row of add takes .f23"),
        ("add.rn.f23", "did you mean .f32"),
        ("add.rn.s32", "these modifiers together"),
        ("q", "`weft isa` lists every opcode"),
    ],
)
def test_isa_says_what_is_near(opcode: str, said: str) -> None:
    result = run("isa", opcode)
    assert result.exit_code == 1 and said in result.stderr


# ---- cache -----------------------------------------------------------------------------------
def test_cache_status_clear_path(source: str) -> None:
    assert run("cache", "path").stdout.strip() == str(cache.directory())
    run("ptx", source)
    assert facts("cache")["kinds"]["ptx"]["entries"] == 1
    assert "PTX of CUDA C++ sources" in run("cache", "status").stdout
    assert facts("cache", "clear")["removed"] == 1
    assert facts("cache", "status")["kinds"] == {}
    assert "removed 0 entries" in run("cache", "clear").stdout


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    result = run("cache")
    assert result.exit_code == 1 and "the cache cannot be used" in result.stderr


# ---- errors ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("verb", "code"), [("profile", 1), ("check", 2)])
def test_an_error_is_data_with_json(verb: str, code: int, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [verb, str(tmp_path / "none.cu"), "--json"])
    assert done.exit_code == code and done.stderr == ""
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "ArgumentError" and error["got"].endswith("none.cu")
    assert set(error) == {"kind", "what", "where", "got", "allowed", "next"}


def test_bench_of_a_file_without_an_operation_says_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.touch()
    said = CliRunner().invoke(app, ["bench", str(file)])
    assert said.exit_code == 1 and "@op.solution" in said.stderr and "docs/bench.md" in said.stderr


def test_check_of_a_cuda_program_names_the_sanitizer(tmp_path: Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text("int main() {}")
    said = CliRunner().invoke(app, ["check", str(file)])
    assert said.exit_code == 2 and f"weft check --sanitize {file}" in said.stderr


def test_tune_lists_the_ops() -> None:
    pytest.importorskip("torch")
    listed = CliRunner().invoke(app, ["tune", "--list"]).stdout.split()
    assert {"softmax", "matmul", "rand"} <= set(listed) and listed == sorted(listed)
    assert "`weft tune --list` lists the ops" in CliRunner().invoke(app, ["tune"]).stderr


# ---- doctor ----------------------------------------------------------------------------------
def test_doctor_is_well_here() -> None:
    found = facts("doctor")
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert found["ok"]
    assert by_name["self-test"]["found"].startswith("compiled, ran and verified a kernel")
    assert by_name["<mma.h>"]["found"].startswith("nvidia-cuda-runtime")
    assert ": compiled and ran a program in " in by_name["nvcc and g++"]["found"]


def test_doctor_runs_a_program_to_judge_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper that answers --version and cannot compile, and one whose nvcc has no header."""
    wrapper = tmp_path / "nvcc"
    wrapper.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo no ptxas >&2; exit 1; }\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv(toolkit.VARIABLE, str(wrapper))
    toolkit.find.cache_clear()
    try:
        (finding,) = doctor._nvcc()
    finally:
        toolkit.find.cache_clear()
    assert not finding.ok and "nvcc cannot compile: no ptxas" in finding.found
    assert "[nvcc]" in finding.fix
    steps = f'#$ _HERE_={tmp_path}\n#$ INCLUDES="-I{tmp_path}/include"'
    wrapper.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{steps}\nEND\n")
    toolkit.find.cache_clear()
    try:
        (finding,) = doctor._nvcc()
    finally:
        toolkit.find.cache_clear()
    assert f"no driver_types.h in {tmp_path}/include" in finding.found


def test_doctor_says_what_mends_a_broken_compiler(tmp_path: Path) -> None:
    """NVRTC's library is hidden by an empty file, as an interrupted installation leaves it."""
    library = tmp_path / nvrtc._WHEEL
    library.parent.mkdir(parents=True)
    library.touch()
    path = os.pathsep.join([str(tmp_path), str(Path(weft.__file__).parents[1])])
    done = run_weft("doctor", path=path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ NVRTC" in done.stdout
    assert "pip install 'cuda-bindings" in done.stdout
    assert "✗ self-test" in done.stdout and "Kernels cannot run yet." in done.stdout


def test_doctor_imports_the_optional_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch whose libraries are incomplete is installed, but cannot be used."""
    (tmp_path / "torch.py").write_text("raise OSError('libcupti.so.13: cannot open')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = {finding.name: finding for finding in doctor._friends()}
    assert not found["torch"].ok
    assert "cannot be imported: OSError: libcupti.so.13" in found["torch"].found
    assert found["numba-cuda"].ok


def test_doctor_knows_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a CPU that is named, or that LLVM cannot ask, there are no features."""
    monkeypatch.setattr(jit, "host", lambda: ("generic", ""))
    monkeypatch.delenv("WEFT_THREADS", raising=False)
    found = {finding.name: finding.found for finding in doctor._llvm()}
    assert found["CPU"] == "generic: LLVM does not know its vector units"
    assert found["threads"].endswith("(WEFT_THREADS sets another number)")


# ---- tour ------------------------------------------------------------------------------------
@pytest.mark.parametrize("stop", tour.STOPS, ids=lambda stop: stop.name)
def test_example_agrees_with_numpy(stop: tour.Stop) -> None:
    visit = tour.visit(stop)
    assert visit.ok, f"error {visit.max_error} > {visit.tolerance}"


def test_every_example_is_on_the_tour() -> None:
    files = {path.stem for path in tour.EXAMPLES.glob("*.cu")}
    assert files == {stop.name for stop in tour.STOPS} | {tour.BUG, tour.RACE}


def test_tour_shows_the_bug_with_its_line() -> None:
    result = run("tour")
    assert result.exit_code == 0, result.output
    assert f"{len(tour.STOPS)} of {len(tour.STOPS)} agree with NumPy" in result.stdout
    assert "out_of_bounds.cu:6" in result.stdout and "4 bytes past its end" in result.stdout
    assert "write: race.cu:6" in result.stdout and "read: race.cu:7" in result.stdout
    assert "nothing found in 1 launches" in result.stdout
    last = [line.split()[:2] for line in result.stdout.splitlines()[-2:]]
    assert last == [["weft", "learn"], ["weft", "lab"]]


def test_tour_fails_when_an_example_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tour.STOPS[0]
    wrong = tour.Stop(first.name, first.shows, -1.0, first.prepare)
    monkeypatch.setattr(tour, "STOPS", (wrong,))
    result = run("tour")
    assert result.exit_code == 1 and "✗ more than" in result.stdout


# ---- terminals and signals -------------------------------------------------------------------
def test_colour_only_on_a_terminal() -> None:
    assert "\x1b[" not in run("isa", "mad").stdout
    parent, child = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "isa", "mad"],
        stdout=child,
        env={**clean, "TERM": "xterm-256color"},
    )
    os.close(child)
    assert "\x1b[" in os.read(parent, 4096).decode()
    process.wait(60)
    os.close(parent)


INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *more):
        if name == "weft.cli.show":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from weft.__main__ import main
main()
"""


def test_ctrl_c_while_weft_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "weft: interrupted\n")


def test_ctrl_c_while_other_threads_compile() -> None:
    """The process ends at once, as in a climb and in a benchmark."""
    code = "from weft.cli import show\nwith show.ends_at_once():\n    raise KeyboardInterrupt"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "weft: interrupted\n")


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """The compiler waits for a source that never comes: a pipe without a writer."""
    pipe = tmp_path / "slow.cu"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "ptx", str(pipe)], stderr=subprocess.PIPE, text=True
    )
    writer = os.open(pipe, os.O_WRONLY)  # returns when the reader is there
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PROCESS_SECONDS)
    os.close(writer)
    assert process.returncode == 130 and said == "weft: interrupted\n"
