"""Names of variables that code assigns into: `name[…] = …`, `name.at[…] = …`, `name.attribute = …`, `del name[…]`."""

import ast

# Characters of code that is parsed.
_CODE = 20_000


def of(code, transform):
    """The names, from statements outside of functions and classes. `transform` makes Python of what IPython understands in addition."""
    if len(code) > _CODE or "]" not in code and "." not in code:
        return set()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        try:
            tree = ast.parse(transform(code))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return set()
    found = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            continue
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        for target in targets if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete | ast.For) else ():
            found.update(_roots(target))
        waiting += ast.iter_child_nodes(node)
    return found


def _roots(target):
    """The names at the beginning of targets that are more than a name."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for one in target.elts for name in _roots(one)]
    if isinstance(target, ast.Starred):
        return _roots(target.value)
    inner = target
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    return [inner.id] if isinstance(inner, ast.Name) and inner is not target else []
