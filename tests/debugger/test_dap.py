"""`weft debug --dap`: sessions of an editor, each message checked against the protocol's schema."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from debugpy.common.messaging import JsonIOStream

from dap_client import Client, configure, start
from weft.cli import program_options
from weft.tasks.program import Build

SCRIPT = '''\
import numpy as np, weft
SOURCE = """
struct Pt { float x; int k[2]; };
__device__ float helper(float a, int n) {
    float s = 0;
    for (int j = 0; j < n; ++j) {
        s += a * j;
    }
    return s;
}
__global__ void k(float* x, int n) {
    __shared__ float tile[2][32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Pt p;
    p.x = 2.0f; p.k[0] = i; p.k[1] = n;
    tile[1][threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) {
        float acc = helper(tile[1][31 - threadIdx.x], 3);
        x[i] = acc + p.x + p.k[0];
    }
    if (i == 33) printf("from thread %d\\\\n", i);
}
"""
x = np.arange(64, dtype=np.float32)
kernel = weft.cuda(SOURCE).k
for n in (60, 61):
    kernel[2, 32](x, n)
print("sum", x.sum())
'''
CALL, STORE = 19, 20
FAULT = """\
import numpy as np, weft
SOURCE = '''
__global__ void bad(float* x, float zero) {
    float q = x[threadIdx.x] / zero;
    x[threadIdx.x * 100] = q;
}
'''
weft.cuda(SOURCE).bad[1, 32](np.zeros(32, np.float32), 0.0)
"""
ENDLESS = """\
import numpy as np, weft
SOURCE = '''
__global__ void spin(int* flag) {
    while (*(volatile int*)flag == 0) {
        int kept = flag[1];
        flag[2] = kept;
    }
}
'''
print("begins")
weft.cuda(SOURCE).spin[1, 32](np.zeros(3, np.int32))
"""
PROGRAM = """\
#include <cstdio>
__global__ void scale(float* x, int n) {
    int i = threadIdx.x;
    float v = x[i] * n;
    x[i] = v;
}
int main() {
    float h[32], *x;
    for (int i = 0; i < 32; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    scale<<<1, 32>>>(x, FACTOR);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("last %g\\n", h[31]);
    return 3;
}
"""


class Editor:
    """Files of a test, and a session that is ended after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[tuple[Client, subprocess.Popen[bytes]]] = []

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def open(self, *words: str) -> Client:
        self._open.append(start(*words))
        return self._open[-1][0]

    def close(self) -> None:
        for client, process in self._open:
            try:
                client.ask("disconnect")
                process.wait(timeout=60)
                client.check_all()
            finally:
                process.kill()
                client.close()
                process.wait()


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    made = Editor(tmp_path)
    yield made
    made.close()


def names(client: Client, reference: int) -> dict[str, dict[str, object]]:
    found = client.ask("variables", variablesReference=reference)["variables"]
    return {v["name"]: v for v in found}


def test_a_session_with_a_script(editor: Editor) -> None:
    file = editor.file("s.py", SCRIPT)
    client = editor.open(file)
    shown = configure(client, {file: [{"line": CALL, "condition": "i == 37"}, {"line": 999}]})
    assert [b["verified"] for b in shown] == [False, False]
    changed = client.event("breakpoint")["breakpoint"]
    assert changed["verified"] and changed["id"] == shown[0]["id"]
    stop = client.event("stopped")
    assert stop["reason"] == "breakpoint" and stop["hitBreakpointIds"] == [shown[0]["id"]]
    assert stop["allThreadsStopped"] and stop["threadId"] == 6

    threads = client.ask("threads")["threads"]
    assert len(threads) == 32
    assert threads[5] == {"id": 6, "name": "block (1,0,0) thread (5,0,0)"}
    (frame,) = client.ask("stackTrace", threadId=6)["stackFrames"]
    assert (frame["name"], frame["line"], frame["source"]["path"]) == ("k", CALL, file)

    scopes = client.ask("scopes", frameId=frame["id"])["scopes"]
    assert [s["name"] for s in scopes] == ["Locals", "Registers", "Shared memory", "Launch"]
    found, registers, shared, launch = (names(client, s["variablesReference"]) for s in scopes)
    assert (found["i"]["value"], found["i"]["type"], found["n"]["value"]) == ("37", "int", "60")
    point = names(client, found["p"]["variablesReference"])  # type: ignore[arg-type]
    assert point["x"]["value"] == "2.0" and point["k"]["indexedVariables"] == 2
    inner = names(client, point["k"]["variablesReference"])  # type: ignore[arg-type]
    assert [v["value"] for v in inner.values()] == ["37", "60"]
    assert inner["[1]"]["evaluateName"] == "p.k[1]"
    assert found["x"]["indexedVariables"] == 64
    assert "%r1" in registers
    rows = names(client, shared["tile"]["variablesReference"])  # type: ignore[arg-type]
    reference = rows["[1]"]["variablesReference"]
    some = client.ask("variables", variablesReference=reference, start=30, count=2)["variables"]
    assert [(v["name"], v["value"]) for v in some] == [("[30]", "62.0"), ("[31]", "63.0")]
    assert launch["threadIdx"]["value"] == "(5, 0, 0)" and launch["kernel"]["value"] == "k"

    assert (
        client.ask("evaluate", expression="i * 2 + p.k[1]", frameId=frame["id"])["result"] == "134"
    )
    whole = client.ask("evaluate", expression="p", frameId=frame["id"], context="watch")
    assert names(client, whole["variablesReference"])["x"]["value"] == "2.0"
    lanes = client.ask("evaluate", expression="lanes i", frameId=frame["id"], context="repl")
    assert "32    33    34" in lanes["result"]
    (other,) = client.ask("stackTrace", threadId=8)["stackFrames"]
    assert client.ask("evaluate", expression="i", frameId=other["id"])["result"] == "39"

    where = point["k"]["variablesReference"]
    new = client.ask("setVariable", variablesReference=where, name="[0]", value="1000")
    assert new["value"] == "1000"
    place = scopes[0]["variablesReference"]
    assert "in a register" in client.refused(
        "setVariable", variablesReference=place, name="i", value="1"
    )
    assert "no variable nothing" in client.refused(
        "evaluate", expression="nothing", frameId=frame["id"]
    )

    client.ask("stepIn", threadId=6)
    assert client.event("stopped")["reason"] == "step"
    frames = client.ask("stackTrace", threadId=6)["stackFrames"]
    assert [(f["name"], f["line"]) for f in frames] == [("helper", 5), ("k", CALL)]
    only = client.ask("stackTrace", threadId=6, startFrame=1, levels=1)
    assert (only["stackFrames"][0]["name"], only["totalFrames"]) == ("k", 2)
    client.ask("stepOut", threadId=6)
    client.event("stopped")
    client.ask("next", threadId=6)
    client.event("stopped")
    (frame,) = client.ask("stackTrace", threadId=6)["stackFrames"]
    assert frame["line"] == STORE
    assert client.ask("evaluate", expression="acc", frameId=frame["id"])["result"] == "174.0"

    before = int(frame["instructionPointerReference"], 16)
    listed = client.ask(
        "disassemble", memoryReference=hex(before), instructionOffset=-1, instructionCount=3
    )["instructions"]
    assert [int(x["address"], 16) for x in listed] == [before - 1, before, before + 1]
    assert listed[1]["line"] == STORE
    client.ask("next", threadId=6, granularity="instruction")
    client.event("stopped")
    (frame,) = client.ask("stackTrace", threadId=6)["stackFrames"]
    assert int(frame["instructionPointerReference"], 16) == before + 1

    client.ask("continue", threadId=6)
    assert client.event("stopped")["reason"] == "breakpoint"  # of the second launch
    cleared = client.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    assert cleared["breakpoints"] == []
    client.ask("continue", threadId=6)
    assert client.event("exited")["exitCode"] == 0
    client.event("terminated")
    assert client.output("stdout").count("from thread 33\n") == 2
    assert re.search(r"^sum \d", client.output("stdout"), re.M)


def test_kernels_by_name_and_the_way_back(editor: Editor) -> None:
    file = editor.file("s.py", SCRIPT)
    client = editor.open()
    wanted = [{"name": "k", "condition": "blockIdx.x == 1"}, {"name": "other"}]
    configure(client, {}, functions=wanted, program=file, cwd=str(editor.folder))
    assert client.event("stopped")["reason"] == "function breakpoint"
    added = client.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": STORE}])
    assert added["breakpoints"][0]["verified"]
    client.ask("continue", threadId=1)
    assert client.event("stopped")["reason"] == "breakpoint"
    (frame,) = client.ask("stackTrace", threadId=1)["stackFrames"]
    back = {"frameId": frame["id"], "context": "repl"}
    client.ask("evaluate", expression="back tile[1][3]", **back)
    client.event("stopped")
    frames = client.ask("stackTrace", threadId=4)["stackFrames"]
    assert frames[0]["line"] == 16
    client.ask("evaluate", expression="back n + 1", context="repl")
    assert "a result of operators" in client.event("output")["output"]
    client.event("stopped")

    info = client.ask("dataBreakpointInfo", name="x[40]", frameId=_frame(client, 4))
    assert client.ask("dataBreakpointInfo", name="n", frameId=_frame(client, 4))["dataId"] is None
    watched = client.ask("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"]}])
    assert watched["breakpoints"] == [{"verified": True}]
    client.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    client.ask("continue", threadId=1)
    assert client.event("stopped")["reason"] == "data breakpoint"
    assert client.ask("stackTrace", threadId=9)["stackFrames"][0]["line"] == STORE
    client.ask("terminate")
    client.event("terminated")
    assert "sum" not in client.output("stdout")


def _frame(client: Client, thread: int) -> int:
    number: int = client.ask("stackTrace", threadId=thread)["stackFrames"][0]["id"]
    return number


@pytest.mark.parametrize(
    ("filters", "reason", "line"),
    [(["fault"], "IllegalAddress", 5), (["nan", "fault"], "the first NaN", 4)],
)
def test_faults_and_nans(editor: Editor, filters: list[str], reason: str, line: int) -> None:
    file = editor.file("bad.py", FAULT)
    client = editor.open(file)
    configure(client, {}, filters=filters)
    stop = client.event("stopped")
    assert stop["reason"] == "exception" and reason in stop["text"]
    frames = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"]
    assert [f["line"] for f in frames if "source" in f][-1] == line
    assert reason in client.ask("exceptionInfo", threadId=stop["threadId"])["exceptionId"]
    if "nan" not in filters:
        assert "cannot go on" in client.refused("next", threadId=stop["threadId"])
    client.ask("setExceptionBreakpoints", filters=[])
    client.ask("continue", threadId=stop["threadId"])
    assert client.event("exited")["exitCode"] == 1
    assert "IllegalAddress" in client.output("stderr")


def test_barriers_and_the_entry(editor: Editor) -> None:
    file = editor.file("s.py", SCRIPT)
    client = editor.open(file)
    configure(client, {}, filters=["barrier"], stopOnEntry=True)
    assert client.event("stopped")["reason"] == "function breakpoint"
    client.ask("continue", threadId=1)
    assert client.event("stopped")["text"] == "a barrier"


def test_pause_while_a_launch_runs(editor: Editor) -> None:
    file = editor.file("spin.py", ENDLESS)
    client = editor.open(file)
    configure(client, {})
    assert client.event("output")["output"] == "begins\n"
    assert client.ask("threads")["threads"][0]["id"] == 1
    client.ask("pause", threadId=1)
    assert client.event("stopped")["reason"] == "pause"
    added = client.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": 6}])
    assert added["breakpoints"][0]["verified"]
    client.ask("continue", threadId=1)
    assert client.event("stopped")["reason"] == "breakpoint"
    assert client.ask("evaluate", expression="kept", frameId=_frame(client, 1))["result"] == "0"
    client.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    client.ask("continue", threadId=1)
    assert "needs a stopped launch" in client.refused("scopes", frameId=1)
    client.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": 5}])  # as it runs
    assert client.event("stopped")["reason"] == "breakpoint"


def test_a_program_of_cuda(editor: Editor) -> None:
    file = editor.file("p.cu", PROGRAM)
    client = editor.open("-D", "FACTOR=3", file)
    configure(client, {file: [{"line": 5, "condition": "i == 31"}]})
    stop = client.event("stopped")
    (frame,) = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"]
    assert (frame["line"], frame["source"]["path"]) == (5, file)
    assert client.ask("evaluate", expression="v", frameId=frame["id"])["result"] == "93.0"
    client.ask("continue", threadId=1)
    assert client.event("exited")["exitCode"] == 3
    assert "last 93" in client.output("stdout")


def test_a_source_that_is_in_no_file(editor: Editor) -> None:
    text = SCRIPT.replace("weft.cuda(SOURCE)", 'weft.cuda(SOURCE.replace("2.0f", "4.0f"))')
    client = editor.open(editor.file("s.py", text))
    configure(client, {}, functions=[{"name": "k"}])
    client.event("stopped")
    (frame,) = client.ask("stackTrace", threadId=1)["stackFrames"]
    reference = frame["source"]["sourceReference"]
    content = client.ask("source", sourceReference=reference)["content"]
    assert "4.0f" in content.splitlines()[13]
    source = {"name": "kernel.cu", "sourceReference": reference}
    client.ask("setBreakpoints", source=source, breakpoints=[{"line": STORE - 1}])
    client.ask("continue", threadId=1)
    assert client.event("stopped")["reason"] == "breakpoint"
    assert client.ask("stackTrace", threadId=1)["stackFrames"][0]["line"] == STORE - 1


def test_mistakes(editor: Editor) -> None:
    file = editor.file("s.py", SCRIPT)
    client = editor.open()
    assert "does not run" in client.refused("threads")
    assert "no program" in client.refused("launch")
    missing = str(editor.folder / "missing")
    assert "cannot be started" in client.refused("launch", program=file, cwd=missing)
    wanted = [{"line": CALL, "condition": "i =="}, {"line": CALL, "condition": "nothing > 1"}]
    shown = configure(client, {file: wanted}, functions=[{"name": "k"}], program=file)
    assert "message" in shown[0] and not shown[0]["verified"]
    told = client.event("breakpoint")["breakpoint"]
    assert told["id"] == shown[1]["id"] and "no variable nothing" in told["message"]
    client.event("stopped")
    assert "started already" in client.refused("launch", program=file)
    assert "no such source" in client.refused("source", sourceReference=9)
    assert "no request goto" in client.refused("goto", threadId=1, targetId=1)
    assert "no such thread" in client.refused("stackTrace", threadId=99)
    assert "no such frame" in client.refused("scopes", frameId=99)
    assert "no such variables" in client.refused("variables", variablesReference=99)
    assert "no such instruction" in client.refused(
        "disassemble", memoryReference="x", instructionCount=1
    )
    listed = client.ask(
        "disassemble", memoryReference="0x0", instructionOffset=-2, instructionCount=3
    )
    hints = [x.get("presentationHint") for x in listed["instructions"]]
    assert hints == ["invalid", "invalid", None]


def test_a_program_that_does_not_start(editor: Editor) -> None:
    client = editor.open(editor.file("broken.cu", "int main() { return nothing; }\n"))
    client.ask("initialize", adapterID="weft")
    client.ask("launch")
    assert client.event("exited")["exitCode"] != 0
    assert "nothing" in client.output("stderr")


def test_a_port(tmp_path: Path) -> None:
    file = tmp_path / "s.py"
    file.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "weft", "debug", "--dap", "--port", "0", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().rsplit(" ", 1)[-1])
        client = Client(JsonIOStream.from_socket(socket.create_connection(("127.0.0.1", port))))
        configure(client, {str(file): [{"line": STORE}]})
        client.event("stopped")
        client.ask("disconnect")
        client.check_all()
        client.close()
        assert process.wait(timeout=60) != 0  # the program was ended


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file to debug"),
        (["--port", "1", "x.py"], "--port is an option of --dap"),
        (["--dap", "--port", "70000"], "cannot listen on the port"),
    ],
)
def test_refused_commands(words: list[str], said: str) -> None:
    command = [sys.executable, "-m", "weft", "debug", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and said in done.stderr


def test_words_of_a_build() -> None:
    build = Build(include=["a", "b"], define=["N=3"], std="c++20", nvcc=["-rdc=true"], poison=True)
    expected = ["-Ia", "-Ib", "-DN=3", "--std=c++20", "--nvcc=-rdc=true", "--poison"]
    assert program_options.words(build) == expected
    assert program_options.words(Build()) == []


@pytest.mark.parametrize("sent", [b"Nonsense\r\n\r\n", b"Content-Length: 2\r\n\r\n[]"])
def test_bytes_that_are_no_message(sent: bytes) -> None:
    command = [sys.executable, "-m", "weft", "debug", "--dap"]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60)
    assert done.returncode != 0 and b"a message" in done.stderr
