import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

URL, PREFIX = os.environ["HIMALIA_URL"], f"/t/{os.environ['HIMALIA_TOKEN']}/api"
os.environ |= {
    "JUPYTER_GATEWAY_URL": URL,
    "JUPYTER_GATEWAY_KERNELS_ENDPOINT": f"{PREFIX}/kernels",
    "JUPYTER_GATEWAY_KERNELSPECS_ENDPOINT": f"{PREFIX}/kernelspecs",
}
sys.path.append(os.environ["SUPPORT"])
import nbformat  # noqa: E402
import papermill  # noqa: E402
from nbclient_manager import Manager  # noqa: E402

with TemporaryDirectory() as directory:
    cells = [nbformat.v4.new_code_cell("number = 0", metadata={"tags": ["parameters"]}), nbformat.v4.new_code_cell("print(6 * number)")]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    source, target = Path(directory) / "in.ipynb", Path(directory) / "out.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}), source)
    papermill.execute_notebook(source, target, {"number": 7}, progress_bar=False, kernel_manager_class=Manager)
    assert nbformat.read(target, as_version=4).cells[-1].outputs[0].text == "42\n"
