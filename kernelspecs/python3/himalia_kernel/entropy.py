"""Gives a forked process random numbers of its own."""

import random
import sys


def reseed():
    """Reseed the global generators of the modules that are loaded.

    Generators that user code made itself (`numpy.random.default_rng(...)`, `random.Random(...)`) continue from the state
    they had, in parent and branch alike. The hash seed of `str` and `bytes` was chosen when the interpreter started
    and stays.
    """
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "seed"):
        torch.seed()
