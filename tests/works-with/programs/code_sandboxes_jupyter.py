import os

from code_sandboxes import Sandbox

with Sandbox.create(
    variant="jupyter-server", server_url=os.environ["HIMALIA_URL"], token=os.environ["HIMALIA_TOKEN"], reuse_kernel=False
) as sandbox:
    done = sandbox.run_code("x = 6\nprint('text')\nx * 7")
    assert done.results[0].text == "42" and done.logs.stdout[0].line == "text", done
    assert sandbox.run_code("x").results[0].text == "6"
    assert sandbox.run_code("1 / 0").code_error.name == "ZeroDivisionError"
    assert sandbox.commands.run("exit 3").exit_code == 3
