"""Peak memory beside times: measured on a GPU, shown and recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.climbing import recorded_times
from weft.climbing.records import Climb
from weft.measure.bench import memory
from weft.report import climb_text
from weft.values.climb import RungResult, Time


class Allocator:
    """torch.cuda's counters: a call allocates `before` and more, and frees some."""

    def __init__(self) -> None:
        self.now = self.most = 500

    def is_initialized(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def reset_peak_memory_stats(self) -> None:
        self.most = self.now

    def memory_allocated(self) -> int:
        return self.now

    def max_memory_allocated(self) -> int:
        return self.most

    def take(self, count: int) -> None:
        self.now += count
        self.most = max(self.most, self.now)


def test_the_peak_is_beyond_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Allocator()
    monkeypatch.setitem(memory.sys.modules, "torch", SimpleNamespace(cuda=cuda))

    def call() -> None:
        cuda.take(300)
        cuda.take(-200)

    assert memory.peak(call) == 300
    assert memory.peak(call) == 300


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(memory.sys.modules, "torch", raising=False)
    called: list[int] = []
    assert memory.peak(lambda: called.append(1)) is None and not called


def times(*sizes: int | None) -> tuple[Any, ...]:
    rungs = tuple(
        RungResult(i, f"rung{i}", "", "", "f32", times=(Time("n=4", 1e-3, 1e-3, 1e-3, "graph",
                                                            memory=size),))
        for i, size in enumerate(sizes)
    )  # fmt: skip
    return rungs


def test_a_column_where_it_was_measured() -> None:
    with_memory = Climb("vecadd", "gpu", "H200", times(3 * 2**20, None), limits={"n=4": ""})
    (table,) = climb_text.summaries(with_memory)
    assert table.columns[-1] == "peak memory" and "peak memory" in table.right
    assert [row[-1] for row in table.rows] == ["3 MiB", ""]
    (table,) = climb_text.summaries(Climb("vecadd", "gpu", "H200", times(None), limits={"n=4": ""}))
    assert "peak memory" not in table.columns
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_it_is_recorded(tmp_path: Any) -> None:
    result = Climb("vecadd", "gpu", "H200", times(4096, None), limits={"n=4": ""})
    assert Climb.from_dict(result.to_dict()).rungs[0].times[0].memory == 4096
    (tmp_path / recorded_times.NAME).write_text(recorded_times.compact(result))
    source = SimpleNamespace(path=tmp_path)
    bare = Climb("vecadd", "sim", "H200", times(None, None), limits={"n=4": ""})
    shown = recorded_times.with_recorded(source, bare)  # type: ignore[arg-type]
    assert [r.times[0].memory for r in shown.rungs] == [4096, None]


def test_it_is_printed() -> None:
    timing = weft.Timing("mine", 1e-3, 1e-3, 1e-3, 10, 0, "graph", memory=2**21)
    result = weft.Bench("H200", True, (timing,))
    assert "2.0 MiB at the peak" in str(result)
    assert "2 MiB" in result._repr_html_()


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(2**20, device="cuda")
    result = weft.bench({"one": lambda: x + 1, "two": lambda: (x + 1) * 2}, budget=0.05)
    assert result["one"].memory == 2**22 and result["two"].memory == 2**23
