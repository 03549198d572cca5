"""Return addresses are known by the call before them."""

import ctypes
import platform
import sys

import pytest
from rawkernel import PACKAGE

sys.path.insert(0, str(PACKAGE))
from himalia_kernel.fork import stacks  # noqa: E402

CALLS = ["e8 12 34 56 78", "ff d0", "41 ff d4", "ff 50 18", "ff 54 24 08", "ff 15 01 02 03 04", "ff 94 24 01 02 03 04", "ff 14 25 01 02 03 04"]
OTHERS = ["90 90 90", "ff c0", "ff 50 18 00", "ff 14 25 01 02", "e9 12 34 56 78", "00 00 00 00 00 00 00", ""]


@pytest.mark.parametrize("code", CALLS)
def test_calls(code):
    assert stacks.is_call(bytes.fromhex(code).rjust(7, b"\x90"))


@pytest.mark.parametrize("code", OTHERS)
def test_what_is_no_call(code):
    assert not stacks.is_call(bytes.fromhex(code).rjust(7, b"\x90"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls can be distinguished from other instructions on x86-64 only")
def test_an_address_in_a_library_is_no_return_address_by_itself():
    start = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert not stacks._follows_call(start), "nothing is called right before a function begins"
    assert not stacks._follows_call(0), "nothing is mapped there"
