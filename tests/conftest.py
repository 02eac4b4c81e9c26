"""The parts that all tests share: the device they run on, and the seeds of randomised tests."""

from __future__ import annotations

import compileall
import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import as_installed  # noqa: F401  before all that imports weft
import costs
import devices
import seeds
import suites
import weft
from weft.device.sim.run import draft, settings
from weft.frontends import race_hint
from weft.pytest_plugin import no_gpu

SEEDS = seeds.settle()  # before any test module is imported; workers of xdist inherit it

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so. Tests of Ctrl-C start processes, which would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

OPTIMISED = ("conformance", "differential", "gpu", "simulator", "whole_kernels")
"""Folders whose tests are about machine code: they run what users run, as the slow tests of all
folders do. Kernels of the others are drafts, the same instructions in code that is made in less
than half the time. (`lanewise.run`, which tests rows, compiles by itself.)"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", choices=list(devices.DEVICES), default="sim", help="where contract tests run"
    )
    parser.addoption(
        "--suite", choices=suites.NAMES, default="all", help="tests to run: tests/support/suites.py"
    )
    parser.addoption("--record-costs", metavar="FOLDER", help="measure: tests/support/costs.py")
    parser.addoption(
        "--unmeasured", action="store_true", help="only tests without a cost: docs/tests.md"
    )
    if importlib.util.find_spec("pytest_timeout") is None:  # a GPU machine may lack it
        parser.addini("timeout", "seconds a test may take; needs pytest-timeout")


def pytest_configure(config: pytest.Config) -> None:
    devices.current = devices.DEVICES[config.getoption("--device")]()
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        # Tests start hundreds of processes, each of which would compile all of weft's modules.
        compileall.compile_dir(Path(weft.__file__).parent, quiet=2)
    folder = config.getoption("--record-costs")
    if folder and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(costs.Recorder(Path(folder).absolute()))
    gc.disable()  # until all tests are collected


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.is_file() and not suites.needs_file(
        config.getoption("--suite"), collection_path
    ):
        return True
    return None


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no later collection of garbage looks at them."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries report what is left at exit as leaked


def pytest_report_header() -> str:
    return f"device {devices.current.name}, fuzzing with {SEEDS}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Chooses the suite, gives seeds, and skips what needs a real GPU where there is none."""
    suites.select(config, items)
    seeds.hand_out(items, SEEDS)
    for item in items:
        if devices.current.name == "gpu" and item.get_closest_marker("sim"):
            item.add_marker(pytest.mark.skip(reason="a matter of the simulated GPU"))
        needs = devices.current.name == "gpu" or item.get_closest_marker("gpu")
        if needs and (why := no_gpu()):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Chooses the machine code of this test and of the processes that it starts."""
    optimised = item.path.parent.name in OPTIMISED or item.get_closest_marker("slow")
    os.environ[draft.VARIABLE] = "0" if optimised else "1"
    # It would compile each kernel of each program once more; tests/frontends/test_race_hint.py.
    os.environ[race_hint.VARIABLE] = "0"


def _variables() -> dict[str, str]:
    """Those that weft reads; other libraries set theirs when they are imported."""
    return {n: os.environ[n] for n in os.environ if n.startswith("WEFT_") or n == "PYTHONPATH"}


@pytest.fixture(autouse=True)
def _leaves_the_process_as_it_was() -> Iterator[None]:
    """A test that leaves a variable or a session makes others fail, hundreds of tests later."""
    before, session = _variables(), settings.current
    yield
    after, left = _variables(), settings.current
    settings.current = session
    for name in after:
        del os.environ[name]
    os.environ.update(before)
    assert after == before, "the test has changed variables that processes read when they start"
    assert left is session, f"the test has left a session that receives launches: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    seeds.excuse(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seeds.summary(terminalreporter)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """The seed of this case: see `seeds`."""
    return request.node.stash[seeds.SEED]


@pytest.fixture
def device() -> devices.Sim | devices.Gpu:
    """The device of this run, which makes arrays of its own kind."""
    return devices.current
