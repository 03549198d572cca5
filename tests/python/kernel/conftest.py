"""Fixtures: one kernel process for each test."""

import pytest
from rawkernel import RawKernel


@pytest.fixture
def kernel(kernel_python):
    """A running kernel with a subscriber that reads only when the test does."""
    running = RawKernel(kernel_python)
    yield running
    running.close()
