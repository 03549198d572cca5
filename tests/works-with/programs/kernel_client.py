import os

from jupyter_kernel_client import JupyterKernelClient

WHERE = {"server_url": os.environ["HIMALIA_URL"], "token": os.environ["HIMALIA_TOKEN"]}
with JupyterKernelClient(**WHERE) as kernel:
    done = kernel.execute("x = 6\nprint('text')\nx * 7")
    assert done["status"] == "ok" and done["outputs"][0]["text"] == "text\n", done
    assert done["outputs"][1]["data"]["text/plain"] == "42", done
    assert kernel.execute("1 / 0")["outputs"][0]["ename"] == "ZeroDivisionError"
    with JupyterKernelClient(**WHERE, kernel_id=kernel.id) as other:
        assert other.execute("x")["outputs"][0]["data"]["text/plain"] == "6"
    kernel.restart()
    assert kernel.execute("x")["outputs"][0]["ename"] == "NameError"
