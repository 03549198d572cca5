"""Himalia's start of the IPython kernel: `python -P -m himalia_kernel -f <connection file>`.

It is ipykernel with three things added, each in its own module:

* `app` sets `XPUB_NODROP` and a small high-water mark on the IOPub socket before it is bound, so that the kernel's own
  publisher waits where it would drop messages;
* `stream`, `iopub` and `budget` bound what is printed but not yet sent, so that a flood of output cannot fill the
  memory, while an interrupt still gets through;
* `deferred` leaves out imports that a kernel does not need at its start.

They lean on names that ipykernel does not promise. `selftest` knows the minor versions that they were tested with;
with any other one `launcher` starts plain ipykernel and says so on stderr.
"""

__version__ = "0.1.0"
