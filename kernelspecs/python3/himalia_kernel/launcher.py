"""Chooses between the kernel with Himalia's additions and plain ipykernel."""

import os
import sys


def main():
    """Run a kernel until it is shut down; the arguments are those of ipykernel (`-f <connection file>`).

    Set `HIMALIA_PLAIN_KERNEL=1` to start plain ipykernel, for instance to see whether a problem is ours.
    """
    from himalia_kernel import libraries, packages, preload, scheduling, working_directory

    scheduling.begin()
    packages.make_importable()
    application, problem = choose()
    if application is None:
        print(
            f"himalia_kernel: plain ipykernel is started, without bounded output: {problem}",
            file=sys.stderr,
            flush=True,
        )
        from ipykernel.kernelapp import IPKernelApp as application

        working_directory.extend(application)
    libraries.adapt()
    preload.load(preload.names())
    kernel = application.instance()
    kernel.initialize()
    scheduling.end()
    kernel.start()


def choose():
    """Return `(HimaliaKernelApp, None)`, or `(None, why it cannot be used)`."""
    # Read at import by pydevd. It looks for frozen modules, which are no problem for a kernel.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    if os.environ.get("HIMALIA_PLAIN_KERNEL") == "1":
        return None, "HIMALIA_PLAIN_KERNEL is set"
    try:
        from himalia_kernel import deferred

        deferred.defer_jupyter_client()
        try:
            from himalia_kernel import selftest

            problem = selftest.problem()
            if problem is None:
                deferred.defer_debugger()
                from himalia_kernel.app import HimaliaKernelApp

                return HimaliaKernelApp, None
        except Exception as error:  # a surprise here must not cost the user the kernel
            problem = f"{type(error).__name__}: {error}"
        deferred.undo()
        return None, problem
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
