"""What a request about variables asks for."""

import operator
from dataclasses import dataclass, field

# Rows of a page as JSON and as Arrow, conditions of a filter, characters of a name or of a value to compare with.
JSON_ROWS = 1000
ARROW_ROWS = 50_000
_CONDITIONS = 8
_TEXT = 1000
# The operators of conditions: those that compare a column with a value, as functions, and all.
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATORS = (*COMPARE, "contains", "is_null", "not_null")


@dataclass
class Condition:
    """One condition of a filter: a column (its name, or its number if it has no such name), an operator, a value."""

    column: str | int
    operator: str
    value: object


@dataclass
class Query:
    """A request that was understood. `name`: None asks for the list."""

    name: str | None = None
    offset: int = 0
    limit: int = 50
    sort_by: str | int | None = None
    descending: bool = False
    filters: list = field(default_factory=list)
    arrow: bool = False

    @classmethod
    def parse(cls, content):
        """Read the content of a request; ValueError names the field that is wrong."""
        name = content.get("name")
        if name is not None and (type(name) is not str or len(name) > _TEXT):
            raise ValueError("name: the name of a variable is needed")
        kind = content.get("format") or "json"
        if kind not in ("json", "arrow"):
            raise ValueError("format: json or arrow is needed")
        most = ARROW_ROWS if kind == "arrow" else JSON_ROWS
        page = _object(content, "page")
        offset = page.get("offset", 0)
        limit = page.get("limit", 50 if name is not None else JSON_ROWS)
        if type(offset) is not int or not 0 <= offset < 1 << 62:
            raise ValueError("page.offset: a number from 0 is needed")
        if type(limit) is not int or not 1 <= limit <= most:
            raise ValueError(f"page.limit: a number from 1 to {most} is needed")
        sort = _object(content, "sort")
        by = _column(sort.get("by"), "sort.by") if sort else None
        return cls(name, offset, limit, by, sort.get("descending") is True, _filters(content.get("filter")), kind == "arrow")


def _object(content, key):
    found = content.get(key)
    if found is None:
        return {}
    if type(found) is not dict:
        raise ValueError(f"{key}: an object is needed")
    return found


def _column(value, field_name):
    if type(value) is not int and (type(value) is not str or len(value) > _TEXT):
        raise ValueError(f"{field_name}: the name or the number of a column is needed")
    return value


def _filters(given):
    """The conditions of a filter, an object or a list of them; all must hold."""
    conditions = [] if not given else given if type(given) is list else [given]
    if len(conditions) > _CONDITIONS:
        raise ValueError(f"filter: at most {_CONDITIONS} conditions")
    found = []
    for condition in conditions:
        if type(condition) is not dict or condition.get("op") not in OPERATORS:
            raise ValueError(f"filter: a column and an op, one of {', '.join(OPERATORS)}, are needed")
        value = condition.get("value")
        if not isinstance(value, str | int | float | bool) and condition["op"] not in ("is_null", "not_null"):
            raise ValueError("filter.value: a string, a number or a boolean is needed")
        if condition["op"] == "contains" and type(value) is not str:
            raise ValueError("filter.value: contains needs a string")
        found.append(Condition(_column(condition.get("column"), "filter.column"), condition["op"], value))
    return found
