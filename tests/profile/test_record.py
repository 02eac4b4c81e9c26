"""Records of profiles from anywhere: what is damaged or made to do harm is an error or a page."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.device.selection import select
from weft.lab import view
from weft.report.page import page
from weft.report.text import launched, text
from weft.tasks import profile as tasks

SOURCE = """__global__ void k(float* y, const float* x, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = s[63 - threadIdx.x];
}
"""
Data = dict[str, Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Data:
    path = tmp_path_factory.mktemp("record") / "good.json"
    y = np.zeros(300, np.float32)
    weft.profile(weft.cuda(SOURCE, name="k.cu").k[5, 64], y, y.copy(), 300).save(path)
    record: Data = json.loads(path.read_text())
    return record


def load(record: object, folder: Path) -> list[weft.Profile]:
    path = folder / "record.json"
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    return weft.Profile.load(path)


def test_a_record_is_what_was_saved(good: Data, tmp_path: Path) -> None:
    (found,) = load(good, tmp_path)
    assert json.loads(json.dumps(found.to_dict())) == good["profiles"][0]


def test_a_task_gives_one_value_to_terminal_page_and_lab(good: Data, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(good))
    result = tasks.profile(tasks.ProfileOptions(path, select("sim")))
    assert json.loads(json.dumps(result.to_dict())) == good
    (found,) = result.profiles
    in_lab = view.view(found)
    terminal = "\n".join(line for line, _ in launched(result.launches))
    assert terminal == text(found)
    bound = f"Bound by {in_lab['bound']}: at least {in_lab['time']} (modelled)."
    assert bound in terminal
    html = page([found])
    assert all(f">{in_lab[name]}</dd>" in html for name in ("bound", "time", "floor"))
    assert [name for name, *_ in in_lab["arrays"]] == [a.name for a in found.arrays]


# where in the record, what is there instead, what is said of it
WRONG: dict[str, tuple[str, Any, str]] = {
    "no profiles": ("", [], "TypeError"),
    "a number for profiles": ("profiles", 3, "TypeError"),
    "a string for a list": ("profiles 0 lines", "x" * 9, "lines: a str, not a list"),
    "a string for a number": ("profiles 0 launches", "1", "launches: a str, not a number"),
    "true for a number": ("profiles 0 launches", True, "launches: a bool, not a number"),
    "a float for a count": ("profiles 0 lines 0 number", 1.5, "number: a float, not a number"),
    "a negative count": ("profiles 0 lines 0 threads", -1, "threads: a number that is not from 0"),
    "a number without end": ("profiles 0 launches", 10**400, "launches: a number that is not"),
    "a NaN": ("profiles 0 measured", float("nan"), "measured: a number that is not from 0"),
    "an infinity": ("profiles 0 measured", float("inf"), "measured: a number that is not from 0"),
    "registers to loop over": ("profiles 0 launch registers", 10**12, "registers: a number"),
    "shared memory to loop over": ("profiles 0 launch static_shared", 2**60, "static_shared: a nu"),
    "a block of too many": ("profiles 0 launch block", [1024, 1024, 1], "a block of 1048576 thre"),
    "a block of none": ("profiles 0 launch block", [0, 1, 1], "a block of 0 threads"),
    "an empty grid": ("profiles 0 launch grid", [0, 1, 1], "grid: a number that is not from 1"),
    "a flat grid": ("profiles 0 launch grid", [4, 1], "grid: 2 parts, not 3"),
    "a GPU that is none": ("profiles 0 gpu", "abacus", "abacus"),
    "a counter gone": ("profiles 0 totals", {}, "totals without sim:"),
    "an instruction gone": ("profiles 0 samples 0 instruction", 10**6, "instructions that are not"),
    "lanes gone": ("profiles 0 samples 0 offsets", [1, 2], "a sample has 32 offsets"),
    "nothing": ("profiles 0 launch", None, "launch: a NoneType, not a dict"),
    "another format": ("format", "weft profile 99", "weft profile 99"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_part_is_named(good: Data, tmp_path: Path, case: str) -> None:
    where, instead, said = WRONG[case]
    record: Any = copy.deepcopy(good)
    at, keys = record, [int(key) if key.isdigit() else key for key in where.split()]
    for key in keys[:-1]:
        at = at[key]
    if keys:
        at[keys[-1]] = instead
    with pytest.raises(weft.Error) as caught:
        load(record if keys else instead, tmp_path)
    assert said in str(caught.value)


TEXTS = {
    "empty": "",
    "no JSON": "hello",
    "nested": "[" * 100_000,
    "cut off": '{"format": "weft profile 1", "profiles": [{"launch"',
    "a list": "[]",
    "a long number": '{"format": ' + "9" * 10_000 + "}",
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_are_no_record(tmp_path: Path, case: str) -> None:
    with pytest.raises(weft.Error, match="not a record of profiles"):
        load(TEXTS[case], tmp_path)


def test_files_that_are_no_record(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    with pytest.raises(weft.Error, match="not a record of profiles"):
        weft.Profile.load(tmp_path / "binary")
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(weft.Error, match="cannot read the record"):
            weft.Profile.load(missing)


def test_a_page_is_as_long_as_its_record(good: Data, tmp_path: Path) -> None:
    """Two lines a billion apart: a page with a row for each line between took all memory."""
    record = copy.deepcopy(good)
    record["profiles"][0]["lines"][-1]["number"] = 10**9
    (found,) = load(record, tmp_path)
    assert len(page([found])) < 2 * len(page(load(good, tmp_path)))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


HOSTILE: list[Any] = [0, 1, -1, 2**31, 2**62, 2**64, 1e308, "", "x", "shared", None, [], {}, [1]]


def test_mutants_are_an_error_or_shown(good: Data, tmp_path: Path, seed: str) -> None:
    every, shown = [path for path in places(good) if path], 0
    for number in range(30):
        rng, record = random.Random(f"{seed} {number}"), copy.deepcopy(good)
        *way, last = rng.choice(every)
        at: Any = record
        for key in way:
            at = at[key]
        at[last] = rng.choice(HOSTILE)
        try:
            found = load(record, tmp_path)
        except weft.Error:
            continue
        shown += bool(text(found[0]) and page(found)) if found else 0
    assert shown
