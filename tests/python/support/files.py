"""Files of a gateway that goes on working while a test looks at them."""

import os
from pathlib import Path


def beneath(directory):
    """Paths of all files and directories below a directory. What is removed meanwhile is left out, where `Path.rglob` raises an error."""
    return [Path(top, name) for top, folders, files in os.walk(directory) for name in (*folders, *files)]
