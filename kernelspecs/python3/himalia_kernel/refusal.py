"""The content of a reply that says no."""


def error(name, problem, **more):
    """An error reply. `problem` becomes one line."""
    return {"status": "error", "ename": name, "evalue": " ".join(str(problem).split()), **more}
