"""Each reply says what its execution took, and which packages there are."""

import pytest
from observed import about
from rawkernel import RawKernel

MIB = 1 << 20


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python, env={"IPYTHONDIR": "/tmp/.no-profile"})
    yield kernel
    kernel.close()


def test_processor_time_of_the_process_and_of_those_that_it_waited_for(kernel):
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    assert about(kernel, spin)["usage"]["cpu_ms"] >= 290
    assert about(kernel, "1")["usage"]["cpu_ms"] < 250, "that of the one before is not counted"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    assert about(kernel, child)["usage"]["cpu_ms"] >= 290


def test_the_most_memory_is_that_of_the_execution(kernel):
    before = about(kernel, "1")["usage"]["peak_memory_bytes"]
    large = about(kernel, "x = bytearray(200 << 20); x[::4096] = b'x' * len(x[::4096]); del x")["usage"]["peak_memory_bytes"]
    after = about(kernel, "1")["usage"]["peak_memory_bytes"]
    assert large > 200 * MIB
    if before is None:  # the peak of the process's life is all that this system tells
        assert after is None
    else:
        assert after < large - 100 * MIB


def test_packages_have_another_hash_after_an_installation(kernel, tmp_path):
    first = about(kernel, "1")["packages"]
    assert len(first) == 16 and about(kernel, "2")["packages"] == first
    added = about(kernel, f"import sys; sys.path.append({str(tmp_path)!r})")["packages"]
    assert added == first, "an empty directory has no packages"
    (tmp_path / "thing-1.0.dist-info").mkdir()
    second = about(kernel, "3")["packages"]
    assert second != first and about(kernel, "4")["packages"] == second
    (tmp_path / "thing-1.0.dist-info").rename(tmp_path / "thing-1.1.dist-info")
    assert about(kernel, "5")["packages"] not in (first, second)
    assert about(kernel, "sys.path[-1:] = [3, None, '/nowhere', '\\0']")["packages"] == first


def test_silent_executions_say_nothing(kernel):
    assert about(kernel, "1", silent=True) is None
