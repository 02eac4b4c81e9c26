"""Bad PTX never crashes or hangs the process: every case ends in a weft.Error or a result."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile
import weft

CHUNK = 2000
MUTANTS = int(os.environ.get("WEFT_MUTANTS", 1_000_000))
"""Cases of the slow set."""
PATIENCE = 120.0
"""Seconds without a sign of life before a process is said to hang."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled kernels that are broken beside the hand-written ones."""
    folder = tmp_path_factory.mktemp("kernels")
    for name, source in hostile.CUDA.items():
        (folder / f"{name}.ptx").write_text(weft.cuda(source).ptx.text)
    return folder


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The output of a process, line by line; end the process when it falls silent."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(PATIENCE):
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.decode() for line in whole)
    process.kill()


def run_batch(seed: str, start: int, count: int, kernels: Path, cache: Path) -> list[str]:
    """Findings among some cases; after a crash the rest goes on in a new process."""
    found, at = [], start
    folder = str(Path(hostile.__file__).parent)
    paths = os.pathsep.join([folder, str(Path(weft.__file__).parents[1])])
    env = {**os.environ, "WEFT_CACHE_DIR": str(cache), "PYTHONPATH": paths}
    while at < start + count:
        numbers = [seed, str(at), str(start + count - at), str(kernels)]
        command = [sys.executable, hostile.__file__, *numbers]
        open_case = -1
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
            for line in lines_of(process):
                number, _, outcome = line.partition(" ")
                at = int(number) + 1
                open_case = int(number) if outcome == "begins" else -1
                if outcome.startswith("HOLE"):
                    found.append(report(seed, int(number), outcome, kernels))
            code = process.wait()
        if open_case >= 0:
            found.append(report(seed, open_case, f"the process ended with {code}", kernels))
        elif code:
            return [*found, f"could not run: exit code {code}"]
    return found


def report(seed: str, number: int, what: str, kernels: Path) -> str:
    path = Path(tempfile.gettempdir()) / f"weft-hostile-{seed}-{number}.ptx"
    path.write_text(hostile.case(seed, number, hostile.corpus(kernels)))
    return f"WEFT_SEED={seed}, case {number}: {what}; its PTX is in {path}"


@pytest.mark.draws
@pytest.mark.parametrize("start", [0, 60, 120, 180])
def test_broken_ptx(start: int, seed: str, kernels: Path, tmp_path: Path) -> None:
    found = run_batch(seed, start, 60, kernels, tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(0)  # run_batch itself ends what hangs
@pytest.mark.parametrize("chunk", range(MUTANTS // CHUNK))
def test_mutants(chunk: int, seed: str, kernels: Path, tmp_path: Path) -> None:
    """A million by default, each chunk in processes of its own, so that a crash has a case."""
    found = run_batch(seed, chunk * CHUNK, CHUNK, kernels, tmp_path)
    assert not found, "\n".join(found)


def test_unbroken_kernels_run(kernels: Path) -> None:
    """The cases start from something that works."""
    for number, text in enumerate(hostile.corpus(kernels)):
        assert hostile.attempt(text, number, 120.0) == "ok", text
