"""`pytest --dovetail-device[=h200] --dovetail-check=race,uninit`: Triton's kernels run on the software device.

A test whose kernel does what it must not fails with dovetail.triton.Fault, which names kernel, block, thread and the
line of the source; the next test begins on a device that is new.
"""
from typing import Any, List, Optional


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("dovetail", "GPU kernels without a GPU")
    group.addoption("--dovetail-device", nargs="?", const="h200", default=None, metavar="MODEL",
                    help="run Triton's kernels on the software device, which models this GPU (default: h200)")
    group.addoption("--dovetail-check", default=None, metavar="MODES",
                    help="what it watches for: race, uninit, barrier, all; with commas")


def pytest_configure(config: Any) -> None:
    model, check = config.getoption("--dovetail-device"), config.getoption("--dovetail-check")
    if model is None:
        if check is not None:
            import pytest
            raise pytest.UsageError("--dovetail-check needs --dovetail-device")
        return
    from . import cuda, errors, triton
    try:
        if _has_triton():
            triton.software(model, check or "none")
        else:
            cuda.software(model)
    except errors.Error as e:
        import pytest
        raise pytest.UsageError(str(e)) from None


def _has_triton() -> bool:
    import importlib.util
    return importlib.util.find_spec("triton") is not None


def pytest_report_header(config: Any) -> Optional[List[str]]:
    model = config.getoption("--dovetail-device")
    if model is None:
        return None
    check = config.getoption("--dovetail-check") or "none"
    version = "none"
    if _has_triton():
        import triton
        version = triton.__version__
    return [f"dovetail: software device, modelling {model}; checks: {check}; Triton {version}"]


def pytest_runtest_teardown(item: Any) -> None:
    if item.config.getoption("--dovetail-device") is None:
        return
    from .triton import driver
    if driver._soft is not None and driver._soft.faulted:
        driver.reset()
