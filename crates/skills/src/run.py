async def _himalia_run_skill(given):
    import base64, importlib.util, inspect, json, linecache, os, shutil, sys, tempfile

    given = json.loads(base64.b64decode(given))
    place = tempfile.mkdtemp(prefix="himalia-skill-")
    before = set(sys.modules)
    sys.path.insert(0, place)
    try:
        for name, content in given["files"].items():
            path = os.path.join(place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))
        main = os.path.join(place, "main.py")
        # A traceback is written when the file is gone.
        lines = base64.b64decode(given["files"]["main.py"]).decode().splitlines(True)
        linecache.cache[main] = (0, None, lines, main)
        spec = importlib.util.spec_from_file_location(given["module"], main)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        outputs = module.main(**given["inputs"])
        if inspect.isawaitable(outputs):
            outputs = await outputs
        text = json.dumps({"outputs": outputs}, allow_nan=False)
        if len(text) > given["most"]:
            raise ValueError(f"the outputs have {len(text)} bytes as JSON, at most {given['most']} are allowed")
    finally:
        sys.path.remove(place)
        # Files beside main.py are those of this run alone.
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(place):
                del sys.modules[name]
        shutil.rmtree(place, ignore_errors=True)
    return json.loads(text)


def _himalia_show_outputs(outputs, kind):
    from IPython.display import display

    display({kind: outputs, "text/plain": "outputs of the skill"}, raw=True)


