import asyncio
import os
import socket
import subprocess
import sys
import time

SOURCE = os.environ["SOURCE"]
sys.path.insert(0, SOURCE)
with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]


async def episode():
    from jupyter_env.client import JupyterEnv

    async with JupyterEnv(base_url=f"http://127.0.0.1:{PORT}") as env:
        await env.reset()
        assert len(await env.list_tools()) == 5
        assert "42" in await env.call_tool("add_and_execute_code_cell", code="x = 6\nx * 7")
        plot = await env.call_tool("add_and_execute_code_cell", code="import matplotlib.pyplot as plt\nplt.plot([1, x])\nplt.show()")
        assert "1 image(s)" in plot, plot
        assert "ZeroDivisionError" in await env.call_tool("edit_and_execute_current_cell", code="1 / 0")
        # Where its verifier looks.
        reward = "mkdir -p /home/user/logs/verifier && echo 1 > /home/user/logs/verifier/reward.txt && cat /home/user/logs/verifier/reward.txt"
        assert "1" in await env.call_tool("execute_shell_command", command=reward)
        assert "[Cell 1]" in await env.call_tool("get_notebook_state")
        await env.call_tool("final_answer", answer="42")


server = subprocess.Popen(
    [sys.executable, "-m", "uvicorn", "jupyter_env.server.app:app", "--port", str(PORT)],
    env={**os.environ, "PYTHONPATH": SOURCE},
)
try:
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            break
        except OSError:
            time.sleep(0.2)
    asyncio.run(episode())
finally:
    server.terminate()
    server.wait()
