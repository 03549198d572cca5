from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import E2BExecutor
from smolagents.utils import AgentError

executor = E2BExecutor([], AgentLogger())
try:
    assert executor("x = 2\nprint('text')\nx * 21").output == "42"
    executor.send_variables({"numbers": [1, 2]})
    answer = executor("print(numbers)\nnumbers + [x]")
    assert (answer.output, answer.logs) == ("[1, 2, 2]", "[1, 2]\n"), answer
    picture = executor("import matplotlib.pyplot as plt\nfrom PIL import Image\nImage.new('RGB', (3, 2))").output
    assert picture.size == (3, 2), picture
    try:
        executor("1 / 0")
    except AgentError as error:
        assert "ZeroDivisionError" in str(error)
    else:
        raise AssertionError("no error")
finally:
    executor.cleanup()
