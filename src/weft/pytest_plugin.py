"""The pytest plugin: runs kernel tests on the simulated GPU and, unchanged, on a real GPU.

    def test_scale(weft_array, weft_check):
        x, y = weft_array(np.ones(100, np.float32)), weft_array(np.zeros(100, np.float32))
        weft_check(scale[1, 128], x, y, 100, out=y, reference=lambda x: 3 * x)

    @pytest.mark.weft(sanitize=True)
    def test_no_race(): ...

`pytest --weft-device=sim,gpu` runs such tests on both; where there is no GPU they are skipped.
Words are those of `weft.check`: sim, sim:MODEL, gpu, gpu:N. `pytest --weft-schedules=16` lets
`weft_check` also try 16 schedules: orders of threads and of asynchronous copies. With
`pytest --weft-debug`, a test that fails in a kernel opens the debugger: at the fault, or where the
wrong element was written.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import numpy as np

    from weft.debug.failures import FailedLaunches
    from weft.values.check import CheckReport

_MARK = (
    "weft(device=None, sanitize=False): a test of kernels. It runs on the devices of --weft-device,"
    " or on the device that the mark names. With sanitize=True it runs under the sanitizer (on the"
    " simulated GPU)."
)


_FAILURES: pytest.StashKey[FailedLaunches] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("weft").addoption(
        "--weft-device",
        default="sim",
        metavar="DEVICE,...",
        help="where tests of kernels run: sim (default), sim:MODEL, gpu, gpu:N; separate several"
        " with commas",
    )
    parser.getgroup("weft").addoption(
        "--weft-schedules",
        default=0,
        type=int,
        metavar="N",
        help="let weft_check also try N orders of threads and copies, on the simulated GPU",
    )
    parser.getgroup("weft").addoption(
        "--weft-debug",
        action="store_true",
        help="open the debugger where the kernel of a failed test faulted, or wrote the wrong"
        " element that weft.check has found, on the simulated GPU",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    if config.getoption("--weft-debug") and _in_parallel(config):
        raise pytest.UsageError("--weft-debug needs the terminal: leave -n out")
    from weft.device.selection import select
    from weft.errors import Error

    for name in _wanted(config):
        try:
            select(name)
        except Error as error:
            raise pytest.UsageError(f"--weft-device={name}: {error}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("weft")
    if mark is not None and "weft_device" not in metafunc.fixturenames:
        # Marked tests are parametrised even if they do not use the fixture.
        metafunc.fixturenames.append("weft_device")
    if "weft_device" in metafunc.fixturenames:
        only = _device_of(mark)
        names = [only] if only else _wanted(metafunc.config)
        metafunc.parametrize("weft_device", names, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests on a GPU where there is none, also those with the mark and no fixture."""
    on_gpu = [item for item in items if (name := _device(item)) and _number(name) is not None]
    if on_gpu and (why := no_gpu()):
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a marked test under the sanitizer; findings fail the test. Errors show its frame."""
    from weft.errors import Error, SanitizerError

    complete = False
    try:
        # Around the call only: fixtures may launch kernels of their own.
        with _sanitizer(item), _failures(item):
            result = yield
            complete = True
        return result
    except SanitizerError as error:
        if complete:  # no frame of the test to show
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        cause = error.__cause__ or error  # the fault in the test, which is one of the findings
        _end_at_the_test(item, cause)
        raise error.with_traceback(cause.__traceback__) from None
    except Error as error:
        _end_at_the_test(item, error)
        raise


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """Open the debugger for a failed test, as `--pdb` opens pdb: nothing is captured then."""
    failures = node.stash.get(_FAILURES, None)
    if failures is None or call.when != "call" or call.excinfo is None:
        return
    capture = node.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    print(f"\n{node.nodeid} failed: {_first_line(call.excinfo.value)}")
    if not failures.debug(call.excinfo.value):
        print("weft debug: no launch of the simulated GPU has caused it")
    if capture is not None:
        capture.resume_global_capture()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_BELOW = frozenset(("weft", "triton", "torch", "numba", "cupy", "cuda"))
"""Packages whose frames are left out below the test: they lead to the line that raised."""


def _end_at_the_test(item: pytest.Item, error: BaseException) -> None:
    """Ends a traceback at the last frame of the user, unless pytest shows full traces."""
    if item.config.getoption("fulltrace", False):
        return
    last, here = None, error.__traceback__
    while here is not None:
        name = str(here.tb_frame.f_globals.get("__name__", ""))
        last = last if name.partition(".")[0] in _BELOW else here
        here = here.tb_next
    if last is not None:
        last.tb_next = None


@pytest.fixture
def weft_device(request: pytest.FixtureRequest) -> str:
    """The device that the test runs on, as a word: "sim", "sim:t4", "gpu"."""
    name: str = getattr(request, "param", "sim")
    return name


@pytest.fixture
def weft_array(weft_device: str) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Put a NumPy array where the test runs: the array itself, or a PyTorch or CuPy array."""
    number = _number(weft_device)
    if number is None:
        return lambda array: array
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        return lambda array: torch.from_numpy(array).cuda(number)
    cupy = pytest.importorskip("cupy", reason="arrays on a GPU need PyTorch or CuPy")
    cupy.cuda.Device(number).use()
    return lambda array: cupy.asarray(array)


@pytest.fixture
def weft_check(
    weft_device: str, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> Callable[..., CheckReport]:
    """`weft.check` on the test's device. Its result is a property of the test's report."""
    from weft.tasks import launches

    count = pytestconfig.getoption("--weft-schedules") if _number(weft_device) is None else 0

    def check(subject: Any, *args: Any, **options: Any) -> CheckReport:
        given = {"device": weft_device, "schedules": count, **options}
        report = launches.check(subject, *args, **given)
        record_property("weft", str(report))
        return report

    return check


@pytest.fixture
def weft_sanitize() -> Callable[..., AbstractContextManager[Any]]:
    """`weft.sanitize`: launches inside its `with` run under the sanitizer."""
    from weft.tasks import launches

    return launches.sanitize


def no_gpu() -> str:
    """The reason why there is no GPU, or ""."""
    from weft.tasks import devices

    why = devices.no_gpu()
    return f"no NVIDIA GPU can be used here: {why}" if why else ""


def _number(device: str) -> int | None:
    """The number of a real GPU; None for a simulated one."""
    from weft.device.selection import select

    return select(device).number


def _device(item: pytest.Item) -> str | None:
    """The device of a test, or None for one without fixture and mark."""
    spec = getattr(item, "callspec", None)
    named = _device_of(item.get_closest_marker("weft"))
    return named if spec is None else spec.params.get("weft_device", named)


def _device_of(mark: pytest.Mark | None) -> str | None:
    """The device that a mark names."""
    if mark is None:
        return None
    named: str | None = mark.kwargs.get("device", mark.args[0] if mark.args else None)
    return named


def _wanted(config: pytest.Config) -> list[str]:
    text: str = config.getoption("--weft-device")
    return [name.strip() for name in text.split(",") if name.strip()]


def _in_parallel(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput") or bool(config.getoption("numprocesses", None))


def _failures(item: pytest.Item) -> AbstractContextManager[Any]:
    """Keep the launch of a test that fails, for `--weft-debug`."""
    if not item.config.getoption("--weft-debug"):
        return nullcontext()
    from weft.debug.failures import FailedLaunches

    item.stash[_FAILURES] = failures = FailedLaunches()
    return failures


def _sanitizer(item: pytest.Item) -> AbstractContextManager[Any]:
    mark = item.get_closest_marker("weft")
    if mark is None or not mark.kwargs.get("sanitize"):
        return nullcontext()
    from weft.tasks import launches

    return launches.sanitize()
