"""Replaces what times kernels in Triton: autotuning, `do_bench` and `perf_report`.

Times of the simulation say nothing about a GPU, and a simulated launch takes milliseconds. So an
autotuner takes its first valid configuration, `do_bench` calls its function once or twice, and
`perf_report` labels its numbers and stops after some seconds.
"""

from __future__ import annotations

import csv
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import triton.testing
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from weft.frontends import autotuning, clock
from weft.frontends.triton.launcher import capturing

REPORT_SECONDS = 2.0
"""The time after which `perf_report` begins no further row."""

_INVALID = (OutOfResources, CompileTimeAssertionFailure, PTXASError)

_prune_configs = Autotuner.prune_configs


def install(*, autotune: bool) -> None:
    """Replace Triton's functions; `autotune` keeps its autotuner and all rows of reports."""
    Autotuner.prune_configs = _prune_configs if autotune else _first_valid
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, _do_bench)
    triton.testing.Mark.run = lambda mark, *args, **options: _report(
        mark, float("inf") if autotune else REPORT_SECONDS, *args, **options
    )


def _first_valid(tuner: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """The first configuration that compiles for these arguments; all if none does."""
    configs: list[Any] = _prune_configs(tuner, kwargs)
    if len(configs) == 1:
        return configs
    autotuning.say_once()
    return next(([config] for config in configs if _compiles(tuner, config, kwargs)), configs)


def _compiles(tuner: Any, config: Any, kwargs: Mapping[str, Any]) -> bool:
    arguments = {**tuner.nargs, **kwargs, **config.all_kwargs()}
    if config.pre_hook is not None:
        # It may set the block shapes of tensor descriptors, which are part of the types.
        config.pre_hook(arguments)
    try:
        with capturing():
            tuner.fn.run(**arguments)
    except _INVALID:
        return False
    return True


def _do_bench(
    fn: Callable[[], Any],
    *_: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **__: Any,
) -> float | list[float]:
    """Milliseconds of one call, for each of Triton's ways to ask."""
    took = clock.bench(fn)
    if quantiles is not None:
        return [took] * len(quantiles)
    return [took] if return_mode == "all" else took


def _report(
    mark: Any,
    limit: float,
    show_plots: bool = False,
    print_data: bool = False,
    save_path: str = "",
    return_df: bool = False,
    **kwargs: Any,
) -> Any:
    """Measure and print each benchmark; numbers are those of the simulation."""
    several = isinstance(mark.benchmarks, (list, tuple))
    tables, stop = [], time.perf_counter() + limit
    for benchmark in mark.benchmarks if several else [mark.benchmarks]:
        header = [*benchmark.x_names, *(f"{n} (simulated)" for n in benchmark.line_names)]
        rows = list(_rows(mark.fn, benchmark, stop, kwargs))
        if print_data:
            _print(benchmark, header, rows)
        if save_path:
            os.makedirs(save_path, exist_ok=True)
            path = os.path.join(save_path, f"{benchmark.plot_name}.csv")
            with open(path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([header, *rows])
        if return_df:
            pandas: Any = importlib.import_module("pandas")

            tables.append(pandas.DataFrame(rows, columns=header))
    if not return_df:
        return None
    return tables if several else tables[0]


def _rows(
    fn: Callable[..., Any], benchmark: Any, stop: float, kwargs: Mapping[str, Any]
) -> Iterator[list[Any]]:
    names = benchmark.x_names
    for x in benchmark.x_vals:
        if time.perf_counter() > stop:
            return
        values = x if isinstance(x, (tuple, list)) else [x] * len(names)
        at = dict(zip(names, values, strict=True))
        measured = (
            fn(**at, **{benchmark.line_arg: line}, **benchmark.args, **kwargs)
            for line in benchmark.line_vals
        )
        yield [*values, *(y[0] if isinstance(y, (tuple, list)) else y for y in measured)]


def _print(benchmark: Any, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [header, *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"{benchmark.plot_name}: times of the simulation on this CPU, not of a GPU")
    for row in cells:
        print("  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True)))
    missing = len(benchmark.x_vals) - len(rows)
    if missing:
        print(f"{missing} more rows are left out; `weft run --autotune` measures them")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
