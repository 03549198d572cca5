"""Skills of the gateway: `himalia.skills.NAME(...)` runs one in a session of its own, and returns its outputs."""

import contextlib
import inspect
import uuid

from himalia_inside import blocking, connections, people
from himalia_inside.api import (
    run_request,
    run_state_request,
    skill_request,
    skills_request,
    stop_run_request,
)
from himalia_inside.errors import SkillFailed, ToolError

# Seconds that one request waits for the end of a run.
_WAIT = 50
# Seconds that a look at the signature of a skill may take, and each request that ends a run.
_LOOK = 2
_STOP = 5

# What was listed last, by the name that code uses: a name of a skill has hyphens, one of Python underscores.
_listed = {}
_shown = {}


def _python_name(name):
    return name.replace("-", "_")


def _note(listed):
    _listed.clear()
    _listed.update({_python_name(one["name"]): one for one in listed})
    return listed


class _Begun:
    """A run: the request that begins it, or finds it again, and its id once that is known."""

    request = None
    run = None


def _running(name, version, inputs, timeout, begun):
    """Run a skill to its end; its outputs. The same key finds the same run, also after a gateway was away."""
    begun.request = run_request(name, version, inputs, timeout, uuid.uuid4().hex)
    run = yield from people.persistent(begun.request)
    begun.run = run["id"]
    while run["status"] == "running":
        run = yield from people.persistent(run_state_request(run["id"], _WAIT))
    if run["status"] != "succeeded":
        raise _failed(run)
    return run["outputs"]


def _failed(run):
    exception = run["exception"] or {}
    name = f"{run['name']} {run['version']}"
    if exception:
        reason = f"{name} raised {exception['name']}: {exception['value']}"
    elif run["violations"]:
        reason = f"the outputs of {name} do not fit its schema"
    else:
        reason = f"{name} has no outputs: {run['error']['message']}"
    return SkillFailed(
        reason,
        "skill_failed",
        violations=run["violations"],
        run=run["id"],
        traceback=exception.get("traceback", ""),
        text=run["text"],
        error_name=exception.get("name"),
    )


def _stop(begun):
    """End a run that nothing waits for any more."""
    if begun.request is None:
        return
    # A connection that was kept may be that to an earlier gateway.
    for _ in range(2):
        with contextlib.suppress(ToolError):
            # It may have begun, although its answer has not come.
            begun.run = begun.run or blocking.answer(begun.request, _STOP)["id"]
            blocking.ask(stop_run_request(begun.run), _STOP)
            return


def _annotation(schema):
    kinds = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
    kind = schema.get("type")
    return kinds.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty


def _signature(schema):
    """The signature of a skill whose inputs have this schema."""
    members = (schema or {}).get("properties") or {}
    required = (schema or {}).get("required") or ()
    parameters = []
    for name in sorted(members, key=lambda name: name not in required):
        if name.isidentifier():
            of_member = members[name] if isinstance(members[name], dict) else {}
            default = inspect.Parameter.empty if name in required else of_member.get("default")
            annotation = _annotation(of_member)
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return inspect.Signature(parameters)


class _Skill:
    """A skill, to be called with its inputs."""

    def __init__(self, name, run):
        self._name, self._run = name, run
        self.__name__ = self.__qualname__ = _python_name(name)
        listed = _listed.get(self.__name__)
        self.__doc__ = listed["description"] if listed else f"The skill {name}."

    def __call__(self, **inputs):
        return self._run(self._name, inputs)

    @property
    def __signature__(self):
        if self._name not in _shown:
            try:
                request = skill_request(self._name, None)
                _shown[self._name] = _signature(blocking.answer(request, _LOOK).get("inputs"))
            except ToolError:
                return None
        return _shown[self._name]

    def __repr__(self):
        return f"<skill {self._name}>"


class _Skills:
    """Skills by their names. `list()` says which there are."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        known = _listed.get(name)
        return _Skill(known["name"] if known else name.replace("_", "-"), self._run)

    def __dir__(self):
        return [*super().__dir__(), *_listed]

    def _run(self, name, inputs):
        return self.run(name, inputs)


def _merged(inputs, more):
    return {**(inputs or {}), **more}


class Skills(_Skills):
    """Skills by their names: `await himalia.skills.reconcile(month="2026-10")`. `await himalia.skills.list()` says which there are."""

    async def list(self):
        """The skills that this session may run or read."""
        return _note(await connections.answer(skills_request()))

    async def show(self, name, version=None):
        """All about a skill: schemas of inputs and outputs, or the text of instructions."""
        return await connections.answer(skill_request(name, version))

    async def run(self, name, inputs=None, /, *, version=None, timeout=None, **more):
        """Run a skill in a session of its own, and return its outputs. Inputs are keywords, or a dict. `timeout` is in seconds.

        `InvalidArguments`: they do not fit, nothing was started. `SkillFailed`: it raised, and has the traceback. The run continues while
        the gateway is away. If the code that waits is interrupted, the run is too.
        """
        begun = _Begun()
        try:
            return await people.run(_running(name, version, _merged(inputs, more), timeout, begun), connections.answer)
        except BaseException as error:
            if not isinstance(error, Exception):
                _stop(begun)
            raise


class BlockingSkills(_Skills):
    """The same for code that does not await."""

    def list(self):
        """The skills that this session may run or read."""
        return _note(blocking.answer(skills_request()))

    def show(self, name, version=None):
        """All about a skill: schemas of inputs and outputs, or the text of instructions."""
        return blocking.answer(skill_request(name, version))

    def run(self, name, inputs=None, /, *, version=None, timeout=None, **more):
        """Run a skill in a session of its own, and return its outputs. Inputs are keywords, or a dict. `timeout` is in seconds."""
        begun = _Begun()
        try:
            return people.run_blocking(_running(name, version, _merged(inputs, more), timeout, begun), blocking.answer)
        except BaseException as error:
            if not isinstance(error, Exception):
                _stop(begun)
            raise


skills = Skills()
blocking_skills = BlockingSkills()
