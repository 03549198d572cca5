"""Waiting for conditions."""

import time


def eventually(condition, what, timeout=20.0):
    """Wait until `condition()` is true and return its value; fails naming `what`, or what it returns, after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(0.02)
