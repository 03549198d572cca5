"""Entry point of `python -m himalia_kernel`."""

import os
import sys

if __name__ == "__main__":
    # The working directory is not a place to import the kernel's own modules from: a user's `random.py` there would
    # break the start. IPython puts it back for the user's code. Without `-P` Python has put it there, and has looked
    # there for this package too.
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

    from himalia_kernel.launcher import main

    main()
