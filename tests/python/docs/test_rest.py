"""The REST reference is made from the description of the API, and its examples are answered by a gateway as the pages show."""

import subprocess
import sys

import pytest
from pages import ROOT


def test_the_pages_are_current():
    done = subprocess.run([sys.executable, ROOT / "tests/rest/pages.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)
def test_a_gateway_answers_the_examples_in_the_same_shape(kernel_python):
    done = subprocess.run([sys.executable, ROOT / "tests/rest/run.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
