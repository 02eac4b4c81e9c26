"""The seeds of randomised tests, and what a failure of a fresh case does to a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seeds
import weft
from folders import ROOT, SUPPORT, TESTS

TEST = f"""
import pytest

@pytest.mark.draws
@pytest.mark.parametrize("number", range({seeds.EVERY}))
def test_luck(number, seed):
    assert seed == "{seeds.KNOWN}", f"bad luck with {{seed}}"

@pytest.mark.parametrize("subject", "abcdefgh")
def test_known(subject, seed):
    assert seed == "{seeds.KNOWN}", "drawn anew"
"""


def run(folder: Path, *options: str, **variables: str) -> tuple[int, str]:
    """Exit code and output of a run of TEST under these variables."""
    for file in (TESTS / "conftest.py", SUPPORT / "seeds.py", SUPPORT / "devices.py"):
        shutil.copy(file, folder)
    (folder / "test_luck.py").write_text(TEST)
    env = {k: v for k, v in os.environ.items() if k not in ("WEFT_SEED", "WEFT_TEST_SEEDS")}
    env = {k: v for k, v in env.items() if not k.startswith("PYTEST_")}
    env["PYTHONPATH"] = str(Path(weft.__file__).parents[1])
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take longer to load than the test runs
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml")]
    command += ["--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += ["-p", "xdist", "-p", "pytest_timeout", *options, str(folder)]
    done = subprocess.run(
        command, env={**env, **variables}, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_fresh_failure_is_a_finding(workers: str, tmp_path: Path) -> None:
    code, text = run(tmp_path, "-n", workers)
    assert code == 0, text
    assert "11 passed, 1 xfailed" in text
    assert "repeat: WEFT_SEED=" in text and "test_luck[3]'" in text and "bad luck with" in text
    assert "Please file an issue" in text


def test_all_fresh(tmp_path: Path) -> None:
    code, text = run(tmp_path, WEFT_SEED="fresh")
    assert code == 1 and "12 failed" in text


def test_a_given_seed_is_everyones(tmp_path: Path) -> None:
    code, text = run(tmp_path, WEFT_SEED="5")
    assert code == 1 and "12 failed" in text and "bad luck with 5" in text
