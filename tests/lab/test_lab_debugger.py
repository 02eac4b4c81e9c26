"""The debugger of the lab without a browser: stops, steps, lanes, values, the way back, the end."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, Lab, running
from weft.lab.debugger.api import DebugApi
from weft.lab.process import LabWorker

pytestmark = pytest.mark.sim

SUM = """\
__device__ float twice(float v) {
    return 2 * v;
}
__global__ void total(const float* x, float* y, int n) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = twice(x[t]);
    __syncthreads();
    for (int s = 32; s > 0; s /= 2) {
        if (t < s) {
            part[t] += part[t + s];
        }
        __syncthreads();
    }
    if (t == 0) *y = part[0];
}
"""
TOTAL: dict[str, Any] = {
    **JOB,
    "source": SUM,
    "sizes": [{"name": "n", "value": 64}],
    "arrays": [
        {"name": "x", "dtype": "f32", "shape": "n", "fill": "ones"},
        {"name": "y", "dtype": "f32", "shape": "1", "fill": "zeros", "out": True},
    ],
    "launches": ["total<<<1, 64>>>"],
}


class Session:
    """A session of the debugger, as a page has it."""

    def __init__(self, lab: Lab, job: dict[str, Any], *breakpoints: dict[str, Any]) -> None:
        self._lab = lab
        self.at = lab.post("debug/start", {"job": job, "breakpoints": list(breakpoints)})
        self.name = self.at.get("session", "")
        self._settle()

    def __call__(self, command: str, **given: Any) -> dict[str, Any]:
        self.at = self._lab.post(f"debug/{command}", {"session": self.name, **given})
        return self._settle()

    def _settle(self) -> dict[str, Any]:
        """Waits while the launch runs, as the page does."""
        while self.at.get("state") == "running":
            self.at = self._lab.post("debug/wait", {"session": self.name})
        return self.at


def test_without_breakpoints_it_stops_at_the_first_line_and_steps(lab: Lab) -> None:
    one = Session(lab, TOTAL)
    assert (one.at["state"], one.at["function"], one.at["line"]) == ("stopped", "total", 6)
    assert one("next")["line"] == 7
    assert one("step")["function"] == "twice"
    assert [frame[0] for frame in one.at["frames"]] == ["twice", "total"]
    assert one("finish")["function"] == "total"
    before = next(row for row in one.at["ptx"] if row[3])
    after = next(row for row in one("stepi")["ptx"] if row[3])
    assert before[0] < after[0], "one instruction on"
    second = one("continue")
    assert (second["line"], second["warp"]) == (6, 1), "the other warp begins"
    done = one("continue")
    assert done["state"] == "ended" and done["results"][1]["rows"] == [["128"]]
    late = one("step")
    assert not late["ok"] and "no longer under the debugger" in late["error"]["text"]


def test_what_a_kernel_prints_is_kept(lab: Lab) -> None:
    one = Session(lab, JOB, {"line": 10})
    assert one.at["said"].strip() == "lane 5", "printed in the line before"
    assert one("continue")["said"].strip() == "lane 5"


def test_lanes_and_masks_show_who_is_where(lab: Lab) -> None:
    one = Session(lab, TOTAL, {"line": 11, "condition": "s == 8 && t == 5"})
    assert one.at["reason"].startswith("breakpoint") and one.at["lane"] == 5
    assert one.at["breakpoints"][0]["hits"] == 1 and one.at["breakpoints"][0]["verified"]
    first, second = one.at["warps"]
    assert first["active"] == 0xFF and first["lines"][:8] == [11] * 8
    assert second["state"] == "waits at a barrier"
    found = one("value", expression="t * 2 + s")
    assert (found["value"], found["lanes"][:3]) == ("18", ["8", "10", "12"])
    other = one("thread", thread=[2, 0, 0])
    assert (other["thread"], other["lane"]) == ([2, 0, 0], 2)
    values = {v["name"]: v["value"] for v in other["variables"]}
    assert (values["t"], values["s"]) == ("2", "8")
    assert one("registers")["registers"]
    assert one("end")["state"] == "ended"


def test_it_goes_back_to_the_last_write(lab: Lab) -> None:
    one = Session(lab, TOTAL, {"line": 15})
    assert one.at["line"] == 15
    back = one("back", expression="part[0]")
    assert back["line"] == 11 and back["reason"] == "the last write of part[0]"
    assert {v["name"]: v["value"] for v in back["variables"]}["s"] == "1"
    never = one("back", expression="x[3]")
    assert never["state"] == "stopped" and "nothing has written x[3]" in never["problem"]
    assert one("wait")["line"] == 11, "the launch is where it was"
    one("end")


def test_breakpoints_change_while_a_launch_is_stopped(lab: Lab) -> None:
    one = Session(lab, TOTAL, {"line": 7})
    changed = one("breakpoints", breakpoints=[{"line": 15}, {"line": 12}, {"line": 8,
                  "condition": "nobody == 1"}, {"line": 8, "condition": "1 +"}])  # fmt: skip
    here, none, unknown, wrong = changed["breakpoints"]
    assert here["verified"] and not here["message"]
    assert "has no code" in none["message"]
    assert "nobody" in unknown["message"] and wrong["message"]
    assert one("continue")["line"] == 15
    one("end")


def test_a_fault_is_a_stop_and_an_error_ends_it(lab: Lab) -> None:
    wild = {**TOTAL, "source": SUM.replace("x[t]", "x[t + 100000000]")}
    one = Session(lab, wild, {"line": 15})
    assert one.at["state"] == "stopped" and "IllegalAddress" in one.at["reason"]
    assert one.at["failed"] and one.at["line"] == 7
    assert "cannot go on" in one("step")["problem"]
    ended = one("continue")
    assert ended["state"] == "ended" and ended["error"]["marks"][0]["line"] == 7
    broken = Session(lab, {**TOTAL, "source": "__global__ void f( {"})
    assert broken.at["error"]["kind"] == "CompileError" and broken.at["error"]["marks"]
    other = Session(lab, {**TOTAL, "source": '#include "/etc/passwd"\n' + SUM})
    assert "does not include this" in other.at["error"]["text"]


def test_a_loop_without_end_is_paused_and_ended(lab: Lab) -> None:
    forever = {**TOTAL, "source": SUM.replace("s /= 2", "s += 0")}
    one = Session(lab, forever, {"line": 7, "condition": "t == 0"})
    assert lab.post("debug/continue", {"session": one.name})["state"] == "running"
    busy = lab.post("debug/step", {"session": one.name})
    assert "the launch runs" in busy["error"]["text"]
    assert one("pause")["reason"] == "interrupted"
    assert lab.post("debug/continue", {"session": one.name})["state"] == "running"
    assert lab.post("debug/end", {"session": one.name})["state"] == "ended"


def test_wrong_commands_are_refused(lab: Lab) -> None:
    one = Session(lab, TOTAL)
    for command, given, words in [
        ("dance", {}, "no such command"),
        ("value", {}, "an expression is missing"),
        ("value", {"expression": "nobody"}, "nobody"),
        ("thread", {"thread": [1]}, "three numbers"),
        ("thread", {"thread": [99, 0, 0]}, "no such thread"),
        ("frame", {"frame": "x"}, "whole number"),
        ("frame", {"frame": 7}, "no such frame"),
        ("breakpoints", {"breakpoints": [{"line": 0}]}, "1 or above"),
        ("breakpoints", {"breakpoints": 3}, "list of at most"),
    ]:
        answer = one(command, **given)
        assert words in (answer.get("problem") or answer["error"]["text"]), command
    stranger = lab.post("debug/step", {"session": "other"})
    assert "no longer under the debugger" in stranger["error"]["text"]
    assert lab.post("debug/start", {"job": 3})["error"]["text"].startswith("no such language")
    second = Session(lab, TOTAL)
    assert second.at["line"] == 6
    assert "no longer" in one("step")["error"]["text"], "one session at a time"
    second("end")


def test_python_asks_first_and_numba_stops(worker: LabWorker) -> None:
    source = (
        "from numba import cuda\n@cuda.jit(debug=True, opt=False)\ndef twice(x, y):\n"
        "    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = 2 * x[i]\n"
        "def run(x, y):\n    twice[1, 32](x, y)\n"
    )
    job = {**TOTAL, "kind": "numba", "source": source, "launches": []}
    with running(worker) as lab:
        assert lab.post("debug/start", {"job": job}) == {"ok": False, "needs": "python"}
        lab.post("allow-python")
        one = Session(lab, job, {"line": 6})
        assert (one.at["line"], one.at["state"]) == (6, "stopped")
        assert {v["name"]: v["value"] for v in one.at["variables"]}["i"] == "0"
        one("end")


def test_a_forgotten_session_ends_by_itself(worker: LabWorker) -> None:
    debugger = DebugApi(worker, idle=0.5)
    with running(worker, debugger=debugger) as lab:
        one = Session(lab, TOTAL)
        assert one.at["state"] == "stopped" and debugger.active
        deadline = time.monotonic() + 30
        while debugger.active and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not debugger.active
        assert "no longer under the debugger" in one("step")["error"]["text"]
        assert lab.post("do/run", TOTAL)["ok"], "the other worker goes on"
