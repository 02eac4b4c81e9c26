"""NCCL between processes: `weft run --procs`, ranks that fail, ranks that disagree."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import nvcc
from folders import TESTS
from weft import sanitize
from weft.errors import Error, LaunchError
from weft.frontends import program
from weft.frontends.program.start import copies
from weft.tasks.program import Build

PROGRAM = str(TESTS / "programs" / "ranks.cu")
FORKS = str(TESTS / "programs" / "forked_ranks.cu")
KILLED = 128 + signal.SIGKILL
LIMIT = "WEFT_NCCL_TIMEOUT"


class Ranks:
    """Copies of the program in which each passes a case; leaves nothing behind."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._id, self._capfd = str(folder / "id"), capfd

    def run(self, *names: str, procs: int = 3) -> tuple[int, str, str]:
        """The exit code, the lines of the output in their alphabetic order, and the errors."""
        before = _left_behind()
        code = program.run(PROGRAM, [self._id, *names], procs=procs)
        assert _left_behind() <= before
        captured = self._capfd.readouterr()
        return code, "\n".join(sorted(captured.out.splitlines())), captured.err


def _left_behind() -> set[str]:
    """Files of ranks, and abstract sockets of those that this process started."""
    files = {name for name in (*os.listdir("/dev/shm"), *os.listdir("/tmp")) if "nccl" in name}
    sockets = (line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines())
    return files | {name for name in sockets if "weft-nccl-" in name and _started(name)}


def _started(socket: str) -> bool:
    """True if the process of a socket is one of this process, or has lost its parent."""
    process = int(socket.split("-")[2])
    parents = [process]
    while parents[-1] > 1:
        try:
            stat = Path(f"/proc/{parents[-1]}/stat").read_text()
        except FileNotFoundError:  # it has just ended
            return False
        parents.append(int(stat.rpartition(")")[2].split()[1]))
    return os.getpid() in parents or parents[1:] == [1]


@pytest.fixture
def ranks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ranks:
    return Ranks(tmp_path, capfd)


def done(*numbers: int, of: int = 3) -> str:
    return "\n".join(f"rank {n} of {of}: done" for n in numbers)


@nvcc.needed
@pytest.mark.parametrize("procs", [1, 3])
def test_operations_between_processes(
    ranks: Ranks, procs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["types", "collectives"] + ["splits"] * (procs > 1)
    for name, value in copies.variables(0, 1).items():  # of a program that is alone
        monkeypatch.setenv(name, value)
    code, said, errors = ranks.run(*names, procs=procs)
    assert (code, said) == (0, done(*range(procs), of=procs)), errors


ENDED = "ended without ncclCommDestroy before its part in ncclAllReduce of 1 elements"
MISTAKES: dict[str, tuple[int, int, str, list[str]]] = {
    # case: (processes, exit code, output, parts of the errors)
    "counts": (2, 0, done(0, 1, of=2), [
        "NCCL, rank 0 of 2: operation 0 differs between ranks",
        "NCCL, rank 1 of 2: operation 0 differs between ranks",
        "rank 0 calls ncclAllReduce of 1 elements of ncclFloat32, ncclSum",
        "rank 1 calls ncclAllReduce of 2 elements of ncclFloat32, ncclSum",
    ]),
    "kinds": (2, 0, done(0, 1, of=2), [
        "rank 0 calls ncclAllReduce of 1 elements of ncclInt32",
        "rank 1 calls ncclAllReduce of 1 elements of ncclFloat32",
    ]),
    "roots": (2, 0, done(0, 1, of=2), [
        "ncclBroadcast: rank 1 of 2: root 2: 0 to 1 are allowed",
        "ncclSend: rank 0 of 2: peer -1: 0 to 1 are allowed",
        "is too short: 12 bytes at byte 0 of an allocation of 8",
        "ncclAllReduce: rank 0 of 2: no type of NCCL has number 10",
        "reduction 9 is none of this communicator",
        "ncclGroupEnd: no ncclGroupStart before it",
        "ncclCommSplit: rank 0 of 2: color -5; 0 or more, or NCCL_SPLIT_NOCOLOR are allowed",
        "ncclBroadcast of 1 elements of ncclFloat32, root 0",
        "ncclBroadcast of 1 elements of ncclFloat32, root 1",
    ]),
    "dies": (3, KILLED, done(0, 2), ["NCCL, rank 0 of 3: rank 1 of 3 (process ", ENDED]),
    "first_dies": (2, KILLED, done(1, of=2), [
        "NCCL, rank 1 of 2: process ", ", which made the unique id, does not answer: it has ended",
    ]),
    "leaves": (3, 0, done(0, 1, 2), []),
    "idle": (2, 0, done(0, 1, of=2), [
        "NCCL, rank 0 of 2: rank 1 of 2 did not take part in operation 0, ncclAllReduce of 1 "
        "elements of ncclFloat32, ncclSum, within 5 s (WEFT_NCCL_TIMEOUT sets the limit)",
    ]),
    "aborts": (2, 0, done(0, 1, of=2), ["NCCL, rank 0 of 2: rank 1 of 2", "called ncclCommAbort"]),
    "unasked": (2, 70, done(0, 1, of=2), [
        "an operation of NCCL failed and the program never asked: exit code 70 instead of 0",
    ]),
    "absent": (2, 0, "rank 0: system error", [
        "ncclCommInitRank: rank 0 of 2: rank 1 of 2 did not join within 1.5 s "
        "(WEFT_NCCL_TIMEOUT sets the limit)",
    ]),
    "twice": (2, 0, "rank 0: invalid usage\nrank 1: invalid usage", [
        "rank 0 in process ", "has this rank already; give each its own",
    ]),
    "outside": (2, 0, "rank 0: invalid argument\nrank 1: invalid argument", [
        "rank 2 in process ", "is out of range: 0 to 1 are allowed",
    ]),
    "sizes": (2, 0, "rank 0: invalid argument\nrank 1: invalid argument", [
        "says that there are ", " ranks, others say ",
    ]),
    "forged": (2, 0, "rank 0: invalid argument\nrank 1: invalid argument", [
        "ncclCommInitRank: the unique id was not made by ncclGetUniqueId",
    ]),
}  # fmt: skip
WITH_LIMIT = {"idle": "5", "absent": "1.5"}
"""Seconds; the ranks of idle meet before they join."""


@nvcc.needed
@pytest.mark.parametrize("name", MISTAKES)
def test_a_failure_is_named(name: str, ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    procs, code, said, errors = MISTAKES[name]
    monkeypatch.setenv(LIMIT, WITH_LIMIT.get(name, "60"))
    found = ranks.run(name, procs=procs)
    assert found[:2] == (code, said), found[2]
    for error in errors:
        assert error in found[2], found[2]


@nvcc.needed
def test_the_sanitizer_sees_all_processes(ranks: Ranks) -> None:
    with sanitize(raises=False) as report:
        code, said, _ = ranks.run("reuses", procs=2)
    assert (code, said) == (0, done(0, 1, of=2))
    races = [found for found in report.findings if found.kind == "data race"]
    assert len(races) == 2, str(report)  # one of each process
    for race in races:
        sends, fills = race.accesses
        assert "(ncclSend in stream 1)" in sends.line, str(race)
        assert "(cudaMemsetAsync in stream 2)" in fills.line, str(race)


@nvcc.needed
def test_a_program_that_forks(capfd: pytest.CaptureFixture[str]) -> None:
    assert program.run(FORKS, [], gpus=2) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "child 0: 6 6",
        "child 1: 6 6",
        "parent: both",
    ]


@nvcc.needed
def test_a_limit_that_is_none(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "soon")
    code, _, errors = ranks.run("idle_not", procs=2)
    assert code == 0
    assert 'WEFT_NCCL_TIMEOUT is "soon": seconds from above 0 to 1e+06 are allowed' in errors


@nvcc.needed
@pytest.mark.parametrize("procs", [0, 65])
def test_a_number_of_processes_that_is_refused(procs: int) -> None:
    with pytest.raises(LaunchError) as caught:
        program.run(PROGRAM, [], procs=procs)
    assert f"--procs {procs}" in str(caught.value) and "1 to 64" in str(caught.value)


def test_scripts_have_a_launcher_of_their_own() -> None:
    with pytest.raises(Error, match="torchrun"):
        Build(procs=2).keywords(Path("train.py"))


def test_copies_end_after_one_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_GRACE", 0.2)
    script = 'import os, time; os.environ["RANK"] == "1" and exit(3); time.sleep(600)'
    assert copies.ended(["python3", "-c", script], (), None, 2) == 3
