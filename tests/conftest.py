"""What all tests share: the device they run on, and one seed a run, settable by WEFT_SEED."""

from __future__ import annotations

import importlib.util
import os
import secrets

import pytest

import devices
from weft.pytest_plugin import no_gpu

os.environ.setdefault("WEFT_SEED", str(secrets.randbelow(2**31)))  # workers of xdist inherit it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", choices=list(devices.DEVICES), default="sim", help="where contract tests run"
    )
    if importlib.util.find_spec("pytest_timeout") is None:  # a GPU machine may lack it
        parser.addini("timeout", "seconds a test may take; needs pytest-timeout")


def pytest_configure(config: pytest.Config) -> None:
    devices.current = devices.DEVICES[config.getoption("--device")]()


def pytest_report_header() -> str:
    return f"device {devices.current.name}, fuzzing with WEFT_SEED={os.environ['WEFT_SEED']}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a real GPU is skipped where there is none, with the reason."""
    for item in items:
        if devices.current.name == "gpu" and item.get_closest_marker("sim"):
            item.add_marker(pytest.mark.skip(reason="a matter of the simulated GPU"))
        needs = devices.current.name == "gpu" or item.get_closest_marker("gpu")
        if needs and (why := no_gpu()):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def device() -> devices.Sim | devices.Gpu:
    """The device of this run, which makes arrays of its own kind."""
    return devices.current
