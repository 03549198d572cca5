"""What a kernel says about an execution in the metadata of its reply."""


def run(kernel, code, **more):
    """Run code; returns the whole reply message."""
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    content["stop_on_error"] = False  # the next one would be aborted
    msg_id = kernel.send("execute_request", content | more)
    while True:
        message = kernel.receive("shell", 60)
        if message["parent_header"].get("msg_id") == msg_id:
            return message


def about(kernel, code, **more):
    """Run code; returns what is under `himalia` in the reply's metadata, or None."""
    return run(kernel, code, **more)["metadata"].get("himalia")
