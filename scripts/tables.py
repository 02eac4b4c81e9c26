"""Fills the tables of the documents, and the files of recorded times that come with weft, from what
the program and its records say.

    python scripts/tables.py            writes them
    python scripts/tables.py --check    fails when one is stale

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`; NAME is a key of TABLES.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import accuracy_plot
import api_document
import cluster_tables
import conformance_tables
import course_figures
import course_tables
import family_tables
import install_sizes
import ladder_tables
import model_tables
import network_tables
import op_stubs
import ops_tables
import parallel_tables
import prediction_tables
import profile_tables
import quantisation_tables
import quantised_times
import ring_tables
import sanitizer_tables
import schedule_tables
import sparse_times
import step_tables
import test_tables
from benchmark_records import newest, rows_of

from weft.device import models
from weft.tasks import coverage

ROOT = Path(__file__).resolve().parents[1]
RECORDS = "sim_speed.jsonl"
API = ROOT / "docs" / "api.md"
FAMILIES = ROOT / "src" / "weft" / "ops" / "families"
SURVEY = ROOT / "tests" / "golden" / "opcodes_sm80.txt"
MARKED = re.compile(r"(<!-- table:(\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def documents() -> list[Path]:
    """Every document of the project."""
    chapters = (ROOT / "src" / "weft" / "learn" / "chapters").glob("*/chapter*.md")
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted(FAMILIES.glob("*/README.md")),
        *sorted(chapters),
    ]


def filled(text: str) -> str:
    """A document with its tables as they should be."""
    return MARKED.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}", text)


def table(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A Markdown table; columns whose name ends in `#` hold numbers."""
    rule = ["--:" if name.endswith("#") else "---" for name in header]
    lines = [[name.removesuffix("#") for name in header], rule, *body]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def coverage_table() -> str:
    """The files of the instruction table, and how much of real PTX they cover."""
    everything = coverage.coverage()
    body = [
        (f"`{f.name}`", f"`{' '.join(sorted(f.opcodes))}`", len(f.rows), f"{f.forms:,}", f.vectors)
        for f in everything.families
    ]
    total = everything.total
    header = ("file", "opcodes", "rows#", "full opcodes#", "vectors#")
    return (
        f"{_survey()}\n\n{table(header, body)}\n\n"
        f"{total['opcodes']} opcodes in {total['rows']} rows, {total['forms']:,} "
        "full opcodes (the optional words of memory and warp instructions are not counted)."
    )


def _survey() -> str:
    lines = [line for line in SURVEY.read_text("utf-8").splitlines() if not line.startswith("#")]
    opcodes = [line.split()[0] for line in lines]
    missing = [opcode for opcode in opcodes if not coverage.covered(opcode)]
    rest = f" The rest: {', '.join(missing)}." if missing else ""
    return (
        f"Of {len(opcodes)} full opcodes found in the PTX of 1,115 kernels of public projects at "
        f"sm_80, {len(opcodes) - len(missing)} are covered.{rest}"
    )


def devices_table() -> str:
    """The GPUs that can be simulated."""
    found = [models.get(name) for name in models.names()]
    body = [
        (m.name, f"`sim:{m.key}`", f"{m.compute_capability[0]}.{m.compute_capability[1]}", m.sms)
        for m in found
    ]
    return table(("GPU", "`device=`", "compute capability#", "SMs#"), body)


def speed_table() -> str:
    """The newest whole run of `benchmarks/sim_speed.py --record` on each architecture."""
    runs = [run for run in rows_of(RECORDS) if run["cases"] and not run["quick"]]
    if not runs:
        return "Not measured yet: `python benchmarks/sim_speed.py --record` does it."
    newest = {run["machine"]["architecture"]: run for run in runs}
    return "\n\n".join(_speed(newest[name], runs) for name in sorted(newest))


def _speed(run: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    """One run. Processor time hardly depends on what else runs. Figures of the clock do: they come
    from the newest run on a machine that was idle."""
    machine = run["machine"]
    idle = next((r for r in reversed(runs) if _was_idle(r["machine"], machine)), run)
    clocked = {case["name"]: case for case in idle["cases"]}
    targets = {t["name"]: t for t in idle["targets"] if t["name"] in BY_THE_CLOCK}
    times = ("kernel", "weft, ms#", "C++, ms#", "weft / C++#", "1 to 2 cores#")
    reached = ("figure", "measured#", "target#", "")
    later = "" if idle is run else f" Launches and two cores: measured on {idle['when'][:10]}."
    return "\n\n".join(
        [
            "CPU time of the simulation in milliseconds, compared with the same algorithm written "
            "by hand as C++ loops over threads (`g++ -O3 -march=native`, one core). Measured by "
            f"`benchmarks/sim_speed.py` on {run['when'][:10]}: {machine['cpu']}, "
            f"{machine['cores']} cores, load {machine['load']:.1f}.{later}",
            table(
                times,
                (x for case in run["cases"] for x in _case(case, clocked.get(case["name"], case))),
            ),
            table(reached, (_target(targets.get(t["name"], t)) for t in run["targets"])),
        ]
    )


BY_THE_CLOCK = (
    "one core to two, least of the large",
    "first launch from source",
    "first launch from the cache",
    "warm launch of an empty kernel",
)
"""Targets that other processes disturb."""


def _was_idle(machine: dict[str, Any], like: dict[str, Any]) -> bool:
    """True if it is the same machine, with no load but the benchmark's own."""
    same = all(machine[key] == like[key] for key in ("cpu", "cores"))
    return same and machine["load"] < machine["cores"] + 1


def _case(case: dict[str, Any], clocked: dict[str, Any]) -> Iterator[list[str]]:
    for mode, ratios in case["against"].items():
        for twin, ratio in ratios.items():
            mine, other = (
                f"{case['times'][name]['cpu_median'] * 1e3:.1f}"
                for name in (f"{mode} 1", f"c++ {twin}")
            )
            name = case["name"] + (", fast mode" if mode == "fast" else "")
            name += f" / {twin}" if len(ratios) > 1 else ""
            yield [name, mine, other, f"{ratio:.2f}", f"{clocked['two_cores'][mode]:.2f}"]


def _target(target: dict[str, Any]) -> list[str]:
    verdict = "reached" if target["met"] else "**not reached**"
    name = target["name"]
    return [name, *(_readable(name, target[key]) for key in ("value", "limit")), verdict]


def _readable(name: str, value: float) -> str:
    """A figure in the unit people use for it."""
    if "memory" in name:
        return f"{value / 1e6:.0f} MB"
    if "launch" in name:
        return f"{value * 1e3:.0f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
    return f"{value:,.0f} x" if value >= 100 else f"{value:.2f} x"


def launch_table() -> str:
    """The newest run of `benchmarks/launch_overhead.py --record`."""
    run = newest("launch_overhead.jsonl")
    times = sorted(run["times"].items(), key=lambda row: row[1]["median"])
    body = [
        (f"`{name}`", f"{t['median'] * 1e6:.2f}", f"{t['lowest'] * 1e6:.2f}") for name, t in times
    ]
    body += [(f"`{name}`", f"absent: {why}", "") for name, why in run["absent"].items()]
    mine, other = (run["first"][name] for name in ("weft", "torch load_inline"))
    known = run["versions"]
    return (
        f"Host time of one launch of a kernel with two arrays and an int: median of "
        f"{run['rounds']} rounds of {run['launches']} launches, measured by "
        f"`benchmarks/launch_overhead.py` on {run['when'][:10]}: {run['gpu']}, "
        f"driver {run['driver']}, {run['cpu']}, Python "
        f"{known['python']}, torch {known['torch']}, CuPy {known['cupy-cuda13x']}, cuda.core "
        f"{known['cuda-core']}, Triton {known['triton']}.\n\n"
        f"{table(('launch', 'median, µs#', 'lowest, µs#'), body)}\n\n"
        f"Time from the source string to the first result, in a new process with an empty cache: "
        f"weft {mine:.2f} s, torch's `load_inline` {other:.1f} s, {other / mine:.0f} times as long."
    )


def front_end_table(name: str) -> str:
    """The newest run of a front end's cases by `benchmarks/frontends_speed.py --record`."""
    runs = [run for run in rows_of("frontends_speed.jsonl") if run["front_end"] == name]
    if not runs:
        return f"Not measured yet: `python benchmarks/frontends_speed.py --only {name} --record`."
    run = runs[-1]
    machine = run["machine"]
    header = ("kernel", "size", "weft, ms#", f"{run['rival']}, ms#", "times faster#", "target#",
              "error of weft#", "error of the other#")  # fmt: skip
    return (
        f"CPU time on one core, {machine['cpu']}, on {run['when'][:10]}, without the first launch, "
        "which compiles. The error is the largest difference from float64, as a fraction of the "
        f"largest value.\n\n{table(header, map(_front_end_case, run['cases']))}"
    )


def _front_end_case(case: dict[str, Any]) -> list[str]:
    return [
        case["case"],
        case["size"],
        f"{case['weft']['seconds'] * 1e3:.2f}",
        f"{case['rival']['seconds'] * 1e3:,.0f}",
        f"{case['times']:,.0f}",
        f"{case['target']:,.0f}" if case["target"] else "",
        *(f"{max(case[who]['errors']):.1e}" for who in ("weft", "rival")),
    ]


def ncu_table() -> str:
    """The newest run of `benchmarks/profile_vs_ncu.py --record`."""
    near, some = profile_tables.within()
    header = ("kernel", "equal#", "differ", "DRAM bytes#", "L1 misses#", "lanes#")
    return (
        f"{table(header, profile_tables.ncu_rows())}\n\n"
        f"For {near} of the {some} kernels with significant traffic, DRAM bytes are within 25 %."
    )


def profile_cost_table() -> str:
    """The newest run of `benchmarks/profile_cost.py --record`."""
    header = ("kernel", "plain, ms#", "totals, ms#", "times#", "all parts, ms#", "times#")
    return table((*header, "predicted: more#"), profile_tables.cost_rows())


def debugger_cost_table() -> str:
    """The newest run of `benchmarks/debugger.py --record`."""
    header = ("kernel", "plain, ms#", "never hit, ms#", "times#", "step, ms#")
    return table(header, profile_tables.debugger_rows())


TABLES: dict[str, Callable[[], str]] = {
    "launch": launch_table,
    **{name: functools.partial(front_end_table, name) for name in ("numba", "triton")},
    **{name: functools.partial(make, table) for name, make in conformance_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in course_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in family_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in network_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in parallel_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in model_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in step_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in prediction_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in quantisation_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in quantised_times.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in ring_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in cluster_tables.TABLES.items()},
    **{name: functools.partial(make, table) for name, make in sparse_times.TABLES.items()},
    "coverage": coverage_table,
    "install_sizes": lambda: install_sizes.sizes(table),
    "suites": lambda: test_tables.suites(table),
    "slowest_tests": lambda: test_tables.slowest(table),
    "devices": devices_table,
    "large_filters": course_figures.filters_table,
    "memory_levels": course_figures.levels_table,
    "memory_levels_de": lambda: course_figures.levels_table(course_figures.GERMAN),
    "speed": speed_table,
    "ncu": ncu_table,
    "profile_cost": profile_cost_table,
    "debugger_cost": debugger_cost_table,
    "ladders": lambda: ladder_tables.best_table(table),
    "rungs": lambda: ladder_tables.rungs_table(table),
    "ops_families": lambda: ops_tables.family_table(table),
    "ops_low": lambda: ops_tables.low_table(table),
    "ops_host": lambda: ops_tables.host_table(table),
    "ops_list": lambda: ops_tables.list_table(table),
    "ops_line": lambda: ops_tables.line(table),
    **{
        f"ops_{path.name}": functools.partial(ops_tables.of_family, path.name, table)
        for path in FAMILIES.iterdir()
        if (path / "cases.py").exists()
    },
    "sanitizer": lambda: sanitizer_tables.found_table(table),
    "sanitizer_cost": lambda: sanitizer_tables.cost_table(table),
    "schedule_rates": lambda: schedule_tables.rates_table(table),
    "schedule_cost": lambda: schedule_tables.cost_table(table),
}


def main(arguments: Sequence[str]) -> int:
    """Write or check every document; return the exit code."""
    wanted = {path: filled(path.read_text("utf-8")) for path in documents()} | ladder_tables.files()
    wanted |= accuracy_plot.files() | course_figures.files() | {API: api_document.document()}
    wanted |= {op_stubs.FILE: op_stubs.text()} | ring_tables.files()
    wanted |= {op_stubs.FILE: op_stubs.text(), parallel_tables.FILE: parallel_tables.recorded()}
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)}: stale; run `make tables`")
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: written")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
