"""Entry point of `python -m himalia_kernel.zygote`."""

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # as in a kernel that is started by itself

    from himalia_kernel.zygote.host import main

    main()
