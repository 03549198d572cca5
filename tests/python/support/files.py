"""Files of a gateway that keeps working while a test reads them."""

import os
from pathlib import Path


def beneath(directory):
    """Paths of all files and directories below a directory. What is removed meanwhile is left out, where `Path.rglob` raises an error."""
    return [Path(top, name) for top, folders, files in os.walk(directory) for name in (*folders, *files)]
