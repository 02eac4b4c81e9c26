"""The lab without a browser: who may talk to it, what a job may hold, what each action answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.climbing import ladder
from weft.lab import actions, formula, includes, job, origins, sass

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, TURN, Lab, running
from weft.lab.process import LabWorker
from weft.lab.saving import Files, version
from weft.learn import chapter

pytestmark = pytest.mark.sim


def do(lab: Lab, action: str, **change: Any) -> dict[str, Any]:
    return lab.post(f"do/{action}", {**JOB, **change})


# ---- who may talk to it --------------------------------------------------------------------------
def test_the_address_that_is_printed_gives_the_browser_its_token(lab: Lab) -> None:
    assert lab.request("GET", "/", cookie="").status == 403
    assert lab.request("GET", "/?token=wrong", cookie="").status == 403
    late = lab.request("GET", f"/api/start?token={lab.token}", cookie="")
    assert late.status == 403, "only the first page takes it"
    first = lab.request("GET", f"/?token={lab.token}", cookie="")
    assert first.status == 303 and first.headers["location"] == "/"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    page = lab.request("GET", "/", cookie=cookie.partition(";")[0])
    assert page.status == 200 and "weft" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),  # DNS rebinding
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),  # another site's script
        ({"Origin": "null"}, 403),  # a sandboxed frame
        ({"Cookie": "weft-lab=guess"}, 403),
        ({"Content-Length": "999999999"}, 413),
    ],
)
def test_requests_of_others_are_refused(lab: Lab, headers: dict[str, str], status: int) -> None:
    assert lab.request("POST", "/api/stop", headers=headers).status == status


def test_python_runs_only_after_it_was_allowed(worker: LabWorker, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    source = f"open({str(proof)!r}, 'w').close()\ndef run(x): print('ran')"
    with running(worker) as lab:
        for action in ("inspect", "run", "check", "sanitize", "profile"):
            assert do(lab, action, kind="numba", source=source) == {"ok": False, "needs": "python"}
        assert not proof.exists()
        lab.post("allow-python")
        assert "ran" in do(lab, "run", kind="numba", source=source)["said"]
        assert proof.exists()
        large = do(lab, "run", kind="numba", source="def run(x): bytearray(64 << 30)")
        assert "no memory left" in large["error"]["text"]
        # A worker that ends is replaced.
        gone = do(lab, "run", kind="numba", source="import os\ndef run(x): os.abort()")
        assert "SIGABRT" in gone["error"]["text"]
        assert do(lab, "run")["ok"]


# ---- files -----------------------------------------------------------------------------------
INCLUDES = {
    "absolute": '#include "/etc/passwd"',
    "in angle brackets": "#include </etc/passwd>",
    "upwards": '#include "../../../etc/passwd"',
    "upwards inside": '#include "crt/../../passwd"',
    "spliced": '#inc\\\nlude "/etc/passwd"',
    "commented": '# /* x */ include /**/ "/etc/passwd"',
    "carriage return": '#\rinclude "/etc/passwd"',
    "digraph": '%:include "/etc/passwd"',
    "next": "#include_next <stdio.h>",
    "embed": 'const char x[] = {\n#embed "/etc/passwd"\n};',
    "import": '#import "/etc/passwd"',
    "asks": '#if __has_include("/etc/passwd")\n#endif',
    "asks by a macro": "#define P </etc/passwd>\n#if __has_include(P)\n#endif",
    "a macro": '#define P "/etc/passwd"\n#include P',
    "behind a raw string": 'auto s = R"(" /* )";\n#include "/etc/passwd"\n/* */',
}


@pytest.mark.parametrize("name", INCLUDES)
def test_a_source_includes_nothing_outside_of_the_folders(name: str, tmp_path: Path) -> None:
    with pytest.raises(weft.CompileError, match="does not include this"):
        includes.refuse(f"{INCLUDES[name]}\n{TURN}", "kernel.cu", [str(tmp_path)])


def test_rungs_include_kernels_of_ops_and_of_other_ladders() -> None:
    """A way from one of the folders to another is no way out; the origin also has macros."""
    for name in ladder.names():
        for rung in ladder.find(name).rungs:
            if rung.path.suffix == ".cu":
                folders = map(str, origins.folders(f"ladder:{name}/{rung.path.stem}"))
                includes.refuse(rung.path.read_text("utf-8"), rung.path.name, list(folders))
    answer = actions.perform("check", origins.opened("ladder:max_pool/rung_02_vectors"), 60, [])
    assert answer["passed"], answer


def test_a_source_includes_headers(tmp_path: Path) -> None:
    folder, secret = tmp_path / "folder", tmp_path / "secret.h"
    folder.mkdir()
    secret.write_text("int secret;")
    (folder / "own.h").write_text("int own;")
    (folder / "out.h").symlink_to(secret)
    mine = '#include <stdio.h>\n#include "own.h"\n// #include what is needed\n#define A 1\n'
    includes.refuse(mine, "kernel.cu", [str(folder)])
    with pytest.raises(weft.CompileError, match="outside of the folders"):
        includes.refuse('#include "out.h"', "kernel.cu", [str(folder)])
    said = f"/usr/x.h(3): error: in {folder}/own.h:4"
    assert includes.outside(said, [str(folder)]) == "/usr/x.h"
    assert includes.outside(said, [str(folder), "/usr"]) == ""


def test_no_action_shows_a_file(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "secret.cu"
    secret.write_text("__global__ void secret() { int hidden_word = nothing; }")
    for source in (f'#include "{secret}"\n{TURN}', str(secret), f'#line 1 "{secret}"\nint x = y;'):
        for action in ("inspect", "check", "profile"):
            answer = do(lab, action, source=source)
            assert not answer["ok"] and "hidden_word" not in json.dumps(answer), (source, action)
    launch = do(lab, "inspect", launches=[f'turn<\n#include "{secret}"\n><<<1, 1>>>'])
    assert "a launch is one line" in launch["error"]["text"]


def test_exercises_are_saved_in_the_folder_and_counted(worker: LabWorker, tmp_path: Path) -> None:
    course = tmp_path / "learn"
    mine = course / "ch01_gpu" / "exercise_parallel.cu"
    solution = chapter.find(1).exercises[1].solution.read_text()
    with running(worker, files=Files(course)) as lab:
        opened = lab.get("open", origin="learn:01/parallel")["job"]
        assert not course.exists() and opened["version"] == ""
        wrong = lab.post("save", opened)
        assert wrong["ok"] and wrong["file"] == str(mine) and mine.read_text() == opened["source"]
        right = {**opened, "source": solution, "version": wrong["version"]}
        assert lab.post("do/check", right)["passed"]
        assert lab.get("menu")["progress"]["exercises"][0] == 0, "the file does not pass yet"
        mine.write_text("// from elsewhere")
        refused = lab.post("save", right)
        assert refused["conflict"] and mine.read_text() == "// from elsewhere"
        assert lab.get("open", origin="learn:01/parallel")["job"]["source"] == "// from elsewhere"
        assert lab.post("save", {**right, "force": True})["ok"] and mine.read_text() == solution
        progress = lab.get("menu")["progress"]
        all_of_them = sum(len(one.exercises) for one in chapter.chapters())
        assert progress["exercises"] == [1, all_of_them]
        assert progress["passed"] == ["learn:01/parallel"]
        assert "01 parallel" in (course / "progress.jsonl").read_text()
        for origin in ("", "file:", "example:transpose", "ladder:transpose/rung_00_naive"):
            assert "has no file" in lab.post("save", {**right, "origin": origin})["error"]["text"]
        nowhere = lab.post("save", {**right, "origin": "learn:01/../../parallel"})
        assert "nothing of this name" in nowhere["error"]["text"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    files = Files(tmp_path / "learn")
    link = tmp_path / "learn" / "ch01_gpu" / "exercise_parallel.cu"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    with pytest.raises(weft.ArgumentError, match="link out of the folder"):
        files.opened("learn:01/parallel")
    with pytest.raises(weft.ArgumentError, match="link out of the folder"):
        files.save("learn:01/parallel", "mine", "", True)
    assert secret.read_text() == "secret"


def test_the_file_of_the_command_line_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text("before")
    saved = Files(tmp_path, file).save("file:", "after", version("before"), False)
    assert saved["ok"] and file.read_text() == "after"


# ---- actions -------------------------------------------------------------------------------------
def test_run_shows_results_and_printf(lab: Lab) -> None:
    ran = do(lab, "run")
    assert ran["ok"], ran
    assert ran["said"] == "lane 5\n"
    x, y = ran["results"]
    assert y["out"] and y["changed"] and not x["changed"]
    assert float(y["rows"][0][1]) == pytest.approx(3 * float(x["rows"][1][2]), rel=1e-4)


def test_check_uses_the_formula(lab: Lab) -> None:
    right = do(lab, "check")
    assert right["ok"], right
    assert right["passed"] and len(right["trials"]) > 5
    wrong = do(lab, "check", reference="3 * x[:, 2]")
    assert wrong["error"]["kind"] == "CheckFailed" and "elements of 'y' are wrong" in str(wrong)
    assert "Reference" in do(lab, "check", reference="")["error"]["text"]


def test_profile_gives_facts_for_each_line_and_traces_of_warps(lab: Lab) -> None:
    answer = do(lab, "profile")
    launch = answer["launches"][0]
    facts = {line["line"]: line for line in launch["lines"]}
    assert facts[5]["sectors"] == "4" and facts[5]["wavefronts"] == "1"
    assert facts[8]["wavefronts"] == "8" and facts[8]["deep"] and facts[8]["conflicts"] == 7
    assert facts[8]["lanes"] == "8" and facts[7]["diverged"] == 1
    assert any(row[2] == 8 and "ld.shared" in row[1] for row in launch["ptx"])
    assert launch["roofline"].startswith("<svg") and launch["registers"]

    def trace(line: int) -> list[dict[str, Any]]:
        query = {"run": answer["run"], "launch": 0, "line": line}
        warps = lab.get("trace", **query)["warps"]
        assert list(warps) == ["0"], "the block has one warp"
        steps: list[dict[str, Any]] = warps["0"]
        return steps

    loads = [a for a in trace(5) if a["space"] == "global"]
    assert sum(a["executions"] for a in loads) == 32, "a loop of 32 turns"
    rows = [step["offsets"][0] // 128 for step in loads[0]["steps"]]
    assert rows == [*range(32)], "in the order of the loop, though the compiler unrolls it"
    assert loads[0]["steps"][0]["place"] == "x" and loads[0]["steps"][0]["offsets"][1] == 4
    shared = next(a for a in trace(8) if a["space"] == "shared")
    (step,) = shared["steps"]
    assert [lane for lane in range(32) if step["offsets"][lane] is not None] == [*range(1, 32, 4)]
    assert step["offsets"][1] == 128 + 8 and (step["wavefronts"], step["ideal"]) == (8, 1)
    (branch,) = trace(7)
    assert branch["space"] == "lanes" and None not in branch["steps"][0]["offsets"]

    better = do(lab, "profile", source=TURN.replace("tile[32][32]", "tile[32][33]"))
    changes = lab.get("compare", a=answer["run"], b=better["run"])
    (load,) = [line for line in changes["launches"][0]["lines"] if line[0] == line[1] == 8]
    assert ["shared wavefronts", "8", "1", "0.125x"] in load[3]


def test_a_profile_shows_the_life_of_a_blocks_stages(lab: Lab) -> None:
    opened = origins.opened("example:ring")
    answer = do(lab, "profile", **{**opened, "block": 1})
    assert do(lab, "check", **opened)["passed"]
    (launch,) = answer["launches"]
    lines = opened["source"].splitlines()
    stages = launch["stages"]
    assert stages["block"] == 1 and stages["chart"].count('<rect class="used"') == 16
    read = next(i for i, row in enumerate(lines, 1) if "2 * stage[i]" in row)
    assert stages["chart"].count(f'<rect class="used" data-line="{read}"') == 16
    assert [head for head, _ in launch["columns"]] == ["TMA", "waits", "time"]
    waits = {f["line"]: f["more"][1] for f in launch["lines"] if f["more"][1]}
    assert [lines[n - 1].strip() for n in waits] == [
        "__syncthreads();",
        "stages.wait_empty(turn);",
        "stages.wait_full(turn);",
    ]
    assert list(waits.values()) == ["10", "32", "128"], "five warps; one and four of 32 parts"
    assert do(lab, "profile")["launches"][0]["stages"] is None


def test_findings_are_marks_at_both_lines_that_name_both_threads(lab: Lab) -> None:
    found = do(lab, "sanitize", **origins.opened("example:race"))
    assert {mark["line"] for mark in found["marks"]} == {6, 7}
    for mark in found["marks"]:
        assert mark["text"].count("thread (") == 2 and "data race" in mark["text"]
    reads = {
        "source": TURN.replace("y[t] =", "y[t] +="),
        "arrays": [JOB["arrays"][0], {**JOB["arrays"][1], "fill": "uninitialised"}],
    }
    blank = do(lab, "sanitize", **reads)
    assert blank["findings"][0]["kind"] == "uninitialised" and "leaves y" in blank["note"]
    beyond = do(lab, "run", **origins.opened("example:out_of_bounds"))["error"]
    assert beyond["kind"] == "IllegalAddress" and beyond["marks"][0]["line"] == 6


def test_inspect_gives_code_marks_and_missing_rows(lab: Lab) -> None:
    found = do(lab, "inspect", sizes=[], arrays=[], launches=[])
    assert [row["name"] for row in found["suggest"]["arrays"]] == ["x", "y"]
    assert [row["out"] for row in found["suggest"]["arrays"]] == [False, True]
    assert found["suggest"]["sizes"] == [{"name": "n", "value": 1024}]
    assert found["suggest"]["launches"] == ["turn<<<cdiv(n, 256), 256>>>"]
    assert any(row[2] == 8 for row in found["ptx"])
    try:
        sass.nvdisasm()
    except weft.MissingDependency:
        assert "pip install nvidia-cuda-nvdisasm" in found["sass_note"]
    else:
        assert any(row[2] == 8 and row[1].startswith("LDS") for row in found["sass"])
    template = "template <typename T> __global__ void f(T* x, T by) { x[threadIdx.x] += by; }"
    one = do(lab, "inspect", source=template, arrays=[], launches=["f<double><<<1, 32>>>"])
    assert [(row["name"], row["dtype"]) for row in one["suggest"]["arrays"]] == [("x", "f64")]
    assert (
        any(row[1].startswith("add.") and ".f64" in row[1] for row in one["ptx"])
        and one["suggest"]["sizes"]
    )
    broken = do(lab, "inspect", source="__global__ void f() {\n    x = 1;\n}")
    assert broken["error"]["marks"] == [
        {"line": 2, "severity": "error", "text": 'identifier "x" is undefined'}
    ]


def test_a_kernel_that_does_not_end_is_stopped(lab: Lab, worker: LabWorker) -> None:
    endless = "__global__ void f(int* y) { for (;;) atomicAdd(y, 1); }"
    array = {"name": "y", "dtype": "int32", "shape": "1", "fill": "zeros"}
    change = {"source": endless, "launches": ["f<<<1, 1>>>"], "arrays": [array]}
    limit, worker.limit = worker.limit, 0.3
    try:
        assert do(lab, "run", **change)["error"]["kind"] == "TimeLimit"
    finally:
        worker.limit = limit


def test_a_job_can_be_stopped(lab: Lab) -> None:
    endless = "__global__ void f(int* y) { for (;;) atomicAdd(y, 2); }"
    array = {"name": "y", "dtype": "int32", "shape": "1", "fill": "zeros"}
    answers: list[dict[str, Any]] = []
    change = {"source": endless, "launches": ["f<<<1, 1>>>"], "arrays": [array]}
    job = threading.Thread(target=lambda: answers.append(do(lab, "run", **change)))
    job.start()
    while job.is_alive():  # a stop that comes before the job has begun does nothing
        lab.post("stop")
        job.join(0.2)
    assert answers[0]["error"] == {"kind": "Stopped", "text": "stopped", "marks": []}
    assert do(lab, "run")["ok"]


def test_exercises_are_graded(lab: Lab) -> None:
    strip = origins.opened("learn:04/strip")
    graded = do(lab, "check", **strip)
    assert not graded["passed"] and "load sectors per request is 32" in graded["text"]
    lines = strip["source"].splitlines()
    assert ["3 * x[i]" in lines[mark["line"] - 1] for mark in graded["marks"]] == [True]
    chapter = lab.get("chapter", number=4)
    assert "<h1>" in chapter["html"] and chapter["exercises"]


def test_occupancy_follows_the_sliders(lab: Lab) -> None:
    query = {"threads": 256, "registers": 64, "shared": 0, "device": "sim:h200"}
    fit = lab.get("occupancy", **query)
    assert (fit["blocks"], fit["warps"], fit["limiter"]) == (4, 32, ["registers"])
    assert len(fit["curves"]) == 3
    refused = lab.get("occupancy", **{**query, "threads": 2000})
    assert "1024" in refused["error"]["text"]
    assert lab.request("GET", "/api/occupancy").status == 400


# ---- what a job may hold -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "bash"}, "no such language"),
        ({"device": "gpu"}, "simulated GPU"),
        ({"sizes": [{"name": "n", "value": "many"}]}, "no number"),
        ({"sizes": [{"name": "n; rm", "value": 1}]}, "no name"),
        ({"sizes": [{"name": "x", "value": 1}]}, "used twice"),
        ({"arrays": [{"name": "x", "dtype": "f31", "shape": "n"}]}, "no element type"),
        ({"arrays": [{"name": "x", "fill": "magic"}]}, "no such data"),
        ({"block": -1}, "a block is a number"),
        ({"source": "x" * (job.LONGEST + 1)}, "at most"),
    ],
)
def test_a_job_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError, match=words):
        job.read({**JOB, **change})


def test_arrays_are_bounded() -> None:
    large = {"arrays": [{"name": "x", "dtype": "f64", "shape": "n, n, n", "fill": "zeros"}]}
    with pytest.raises(weft.ArgumentError, match="too large for the lab"):
        job.read({**JOB, **large, "sizes": [{"name": "n", "value": 4096}]}).make()


@pytest.mark.parametrize(
    "text",
    [
        "x.__class__", "open('file')", "__import__('os')", "(lambda: 1)()", "[y for y in x]",
        "x.tofile('file')", "sum(x, out=x)", "'a' * 10**9", "x if x else x", "",
    ],
)  # fmt: skip
def test_a_reference_is_a_formula_and_no_code(text: str) -> None:
    with pytest.raises(weft.ArgumentError):
        formula.evaluate(text, {"x": __import__("numpy").ones(3)})


def test_everything_of_the_menu_is_named_as_it_is_opened() -> None:
    menu = origins.catalogue()
    for example in menu["examples"]:
        opened = origins.opened(example["origin"])
        assert job.read(opened).source and opened["title"] == example["title"]
    assert len(menu["chapters"]) >= 19 and len(menu["ladders"]) >= 25
    answer = menu["puzzles"][0]["answers"][2]
    assert job.read(origins.opened(answer["origin"])).kind == "numba"
    rung = menu["ladders"][[one["name"] for one in menu["ladders"]].index("transpose")]["rungs"][1]
    assert job.read(origins.opened(rung["origin"])).launches
    for wrong in ("ladder:../../etc/rung_00_x", "learn:04/none", "learn:xx/y", "file:/etc/passwd"):
        with pytest.raises(weft.Error):
            origins.opened(wrong)


# ---- the command ---------------------------------------------------------------------------------
def test_the_command_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(TURN)
    command = [sys.executable, "-m", "weft", "lab", "mine.cu", "--no-browser", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            url = json.loads("".join(lines))["url"]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(url, timeout=60) as page:
                assert b"weft lab" in page.read()
            with opener.open(url.partition("?")[0] + "api/start", timeout=60) as answer:
                start = json.load(answer)
            assert start["job"]["source"] == TURN and start["job"]["kind"] == "cuda"
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
