"""`weft debug`: scripts, programs, commands, the prompt."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.debug.commands import Commands, parse_breakpoint
from weft.debug.terminal import Prompt

KERNEL = """\
__global__ void scale(float* x, int n) {
    int i = threadIdx.x;
    float v = x[i];
    v = v * n;
    x[i] = v;
}
"""
SCRIPT = f"""\
import numpy as np, weft
x = np.ones(32, np.float32)
weft.cuda('''{KERNEL}''').scale[1, 32](x, 3)
print("sum", x.sum())
"""
PROGRAM = f"""\
#include <cstdio>
{KERNEL}
int main() {{
    float h[32], *x;
    for (int i = 0; i < 32; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    scale<<<1, 32>>>(x, 3);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("last %g\\n", h[31]);
}}
"""


def debug(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "debug", *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


def test_a_script_with_commands_as_json(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT, encoding="utf-8")
    commands = ["print v", "nonsense", "set x[0] = 5", "next"]
    words = [word for c in commands for word in ("-c", c)]
    done = debug("--json", "-b", "5 if i == 7", *words, str(tmp_path / "s.py"))
    assert done.returncode == 0, done.stderr
    *answers, last = done.stdout.splitlines()
    stop, value, error, changed, moved = map(json.loads, answers)
    assert (stop["stop"]["thread"], stop["stop"]["line"]) == ([7, 0, 0], 5)
    assert (value["value"], value["type"]) == (3.0, "float")
    assert "no command" in error["error"]["what"]
    assert changed["value"] == 5.0
    assert moved["stop"]["line"] == 6
    assert last == "sum 96.0"


def test_a_program_at_the_prompt(tmp_path: Path) -> None:
    file = tmp_path / "p.cu"
    file.write_text(PROGRAM, encoding="utf-8")
    said = debug("-b", "p.cu:6 if i == 31", str(file), given="p v\nbt\nq\n")
    assert said.returncode == 1, said.stderr
    assert "(weft) v = 93.0" in said.stdout
    assert f"* 0  scale  {file}:6" in said.stdout
    assert "the launch was ended" in said.stdout and "last" not in said.stdout


@pytest.mark.parametrize("kind", ["s.py", "p.cu"])
def test_a_breakpoint_without_code_is_named_at_the_end(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind).write_text(SCRIPT if kind == "s.py" else PROGRAM, encoding="utf-8")
    done = debug("-b", "999", str(tmp_path / kind))
    assert "line 999 stopped no launch" in done.stderr, done.stderr
    assert "the last line with code is" in done.stderr


def test_the_debugger_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT, encoding="utf-8")
    code = """
import sys
from typer.testing import CliRunner
from weft.cli import app
from weft.device.sim.run import settings
before = settings.current
print(CliRunner().invoke(app, ["debug", "-b", "999", sys.argv[1]]).output)
print(settings.current is before)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "s.py")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "sum 96" in said and said.endswith("True\n")


def test_only_the_simulated_gpu(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT, encoding="utf-8")
    done = debug("--device", "gpu", str(tmp_path / "s.py"))
    assert done.returncode != 0
    assert "the debugger stops launches on the simulated GPU only" in done.stderr


@pytest.mark.parametrize("text", ["x", "12 when i", ":3", "12 if", "-3"])
def test_a_breakpoint_that_cannot_be_read(text: str) -> None:
    with pytest.raises(weft.Error):
        parse_breakpoint(text)


def test_every_command_of_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, said = weft.cuda(KERNEL).scale, io.StringIO()

    def talk(d: weft.Debugger) -> None:
        prompt = Prompt(Commands(d))
        prompt.stdout = said
        for line in (
            "where", "list", "ptx", "locals", "registers", "lanes v", "warps", "thread 3", "p i",
            "block 0", "frame 0", "watch x[9]", "break", "break 6", "delete", "barriers on",
            "barriers", "p", "thread 99", "block 7", "frame 9", "set v", "back nothing", "help",
            "finish", "step 1", "", "stepi 1", "detach",
        ):  # fmt: skip
            if prompt.onecmd(line):
                break
        assert prompt.commands.over
        assert prompt.completenames("ste") == ["step", "stepi"]
        assert prompt.completedefault("threa", "print threa", 0, 0) == ["threadIdx"]

    x = np.ones(32, np.float32)
    with weft.breakpoint(kernel, 4, "i == 2", on_stop=talk):
        kernel[1, 32](x, 3)
    assert x.tolist() == [3.0] * 32
    text = said.getvalue()
    for expected in (
        "* 0  scale  kernel.cu:4", ">    4      v = v * n;", "i = 2", "%r1 = ",
        "    0: 1.0  1.0", "block (0, 0, 0) warp 0  ffffffff  runs  kernel.cu:4", "i = 3",
        "watching x[9]", "an expression is missing", "the block has no such thread",
        "the block does not run now", "no such frame", "barriers takes on or off",
        "no variable nothing is visible", "the kernel itself has no caller", "short: b = break",
        "the launch has ended",
    ):  # fmt: skip
        assert expected in text, expected
    assert "Traceback" not in capsys.readouterr().err
