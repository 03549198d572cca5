import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

# Its client sends no token on the WebSocket.
PREFIX = f"/t/{os.environ['HIMALIA_TOKEN']}/api"
with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]
with TemporaryDirectory() as directory:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(6 * 7, 'on the page')")])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, Path(directory) / "page.ipynb")
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "voila", "page.ipynb", "--no-browser", f"--port={PORT}"),
            "--VoilaConfiguration.multi_kernel_manager_class=jupyter_server.gateway.managers.GatewayMappingKernelManager",
        ],
        cwd=directory,
        env={
            **os.environ,
            "JUPYTER_GATEWAY_URL": os.environ["HIMALIA_URL"],
            "JUPYTER_GATEWAY_KERNELS_ENDPOINT": f"{PREFIX}/kernels",
            "JUPYTER_GATEWAY_KERNELSPECS_ENDPOINT": f"{PREFIX}/kernelspecs",
        },
    )
    try:
        page = None
        end = time.monotonic() + 200
        while page is None and server.poll() is None and time.monotonic() < end:
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=60).read().decode()
            except OSError:
                time.sleep(0.3)
        assert page and "42 on the page" in page, page
    finally:
        server.terminate()
        server.wait()
