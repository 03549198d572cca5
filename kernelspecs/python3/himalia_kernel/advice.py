"""Advice for code that was right in earlier versions of numpy, pandas, scikit-learn, scipy and seaborn.

Each piece holds in the versions before the change too, so that it does not depend on what is installed.
"""

import re

from himalia_kernel import guesses, statics, subscripts

_args_of = BaseException.__dict__["args"].__get__

# Of pandas' own classes: an attribute that is gone, and what does the same.
_PANDAS = {
    "append": "pd.concat([one, other], ignore_index=True)",
    "applymap": "map",
    "as_matrix": "to_numpy()",
    "average": "mean",
    "avg": "mean",
    "backfill": "bfill",
    "first": "df.loc[:date], or head",
    "get_values": "to_numpy()",
    "is_monotonic": "is_monotonic_increasing",
    "iteritems": "items",
    "ix": "loc for labels, iloc for positions",
    "last": "df.loc[date:], or tail",
    "lookup": "loc, or melt and merge",
    "mad": "(x - x.mean()).abs().mean()",
    "pad": "ffill",
    "sort": "sort_values",
    "stdev": "std",
    "swapaxes": "T, or transpose",
    "tshift": "shift(freq=…)",
    "variance": "var",
    "week": "isocalendar().week",
    "weekofyear": "isocalendar().week",
}
# Of modules, by their first name: the same.
_MODULES = {
    "numpy": {
        **{name: f"{name}, of Python itself" for name in ("bool", "complex", "float", "int", "object", "str")},
        "NaN": "np.nan",
        "NAN": "np.nan",
        "Inf": "np.inf",
        "Infinity": "np.inf",
        "infty": "np.inf",
        "alltrue": "np.all",
        "sometrue": "np.any",
        "asfarray": "np.asarray(x, dtype=float)",
        "cumproduct": "np.cumprod",
        "float_": "np.float64",
        "in1d": "np.isin",
        "msort": "np.sort(x, axis=0)",
        "product": "np.prod",
        "round_": "np.round",
        "row_stack": "np.vstack",
        "string_": "np.bytes_",
        "trapz": "np.trapezoid",
        "unicode_": "np.str_",
    },
    "pandas": {
        "datetime": "from datetime import datetime",
        "Int64Index": "pd.Index(values, dtype='int64')",
        "Float64Index": "pd.Index(values, dtype='float64')",
        "Panel": "a frame with a MultiIndex",
    },
    "scipy": {
        "binom_test": "scipy.stats.binomtest",
        "cumtrapz": "scipy.integrate.cumulative_trapezoid",
        "median_absolute_deviation": "scipy.stats.median_abs_deviation",
        "simps": "scipy.integrate.simpson",
        "trapz": "scipy.integrate.trapezoid",
    },
    "seaborn": {"distplot": "histplot, or displot", "factorplot": "catplot", "tsplot": "lineplot"},
    "sklearn": {
        "Imputer": "sklearn.impute.SimpleImputer",
        "fetch_mldata": "fetch_openml",
        "jaccard_similarity_score": "jaccard_score",
        "load_boston": "load_diabetes, or fetch_openml",
        "plot_confusion_matrix": "ConfusionMatrixDisplay.from_estimator",
        "plot_precision_recall_curve": "PrecisionRecallDisplay.from_estimator",
        "plot_roc_curve": "RocCurveDisplay.from_estimator",
    },
    "matplotlib": {"get_cmap": "plt.get_cmap, or matplotlib.colormaps[name]"},
}
_GONE_MODULES = {
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals": "import joblib",
    "sklearn.externals.joblib": "import joblib",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.preprocessing.imputation": "sklearn.impute",
    "pandas.io.json.json_normalize": "pd.json_normalize",
}
# An argument that is gone: words of the failing line of which one is needed, and what does the same.
_ARGUMENTS = {
    "affinity": ((), "metric="),
    "axis": (("groupby", "rolling", "resample", "expanding"), "df.T first, then without axis"),
    "base_estimator": ((), "estimator="),
    "ci": ((), "errorbar="),
    "closed": (("range", "between"), "inclusive='both', 'left', 'right' or 'neither'"),
    "datetime_is_numeric": ((), "leave it out"),
    "date_parser": ((), "date_format=, or pd.to_datetime afterwards"),
    "delim_whitespace": ((), r"sep=r'\s+'"),
    "error_bad_lines": ((), "on_bad_lines='skip'"),
    "infer_datetime_format": ((), "leave it out"),
    "level": (("sum", "mean", "min", "max", "count", "median", "std", "var"), "groupby(level=…) first"),
    "line_terminator": ((), "lineterminator="),
    "method": (("fillna",), "ffill() or bfill()"),
    "normalize": ((), "a pipeline with StandardScaler"),
    "null_counts": ((), "show_counts="),
    "shade": ((), "fill="),
    "sheetname": ((), "sheet_name="),
    "sparse": ((), "sparse_output="),
    "squared": ((), "root_mean_squared_error(y, predicted)"),
    "squeeze": ((), ".squeeze('columns') afterwards"),
    "warn_bad_lines": ((), "on_bad_lines='warn'"),
}
_FREQUENCIES = {
    **{"M": "ME", "Q": "QE", "Y": "YE", "A": "YE", "BM": "BME", "BQ": "BQE", "BY": "BYE", "BA": "BYE", "SM": "SME", "CBM": "CBME"},
    **{"H": "h", "BH": "bh", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns", "AS": "YS", "BAS": "BYS"},
}
_ARGUMENT = re.compile(r"got an unexpected keyword argument '(\w+)'")
_FREQUENCY = re.compile(r"Invalid frequency: (?:[-+\d.]*)([A-Z]+)")
_NOT_A_FUNCTION = re.compile(r"'(\w+)' is not a valid function for")
_PARAMETER = re.compile(r"The '(\w+)' parameter of (\w+) must be .*Got '(\w+)' instead", re.DOTALL)
_OF_MODULE = re.compile(r"module '(\w+)[\w.]*' has no attribute '(\w+)'")
_ACCESSOR = re.compile(r"Can only use \.(\w+) accessor with ")
_ACCESSORS = {
    "str": "astype(str) first, if the values are to be text",
    "dt": "pd.to_datetime(…) first",
    "cat": "astype('category') first",
}
_UNDEFINED = re.compile(r"name '(.+)' is not defined")
_NOT_NUMBERS = re.compile(
    r"could not convert string to float|Could not convert .* to numeric|agg function failed"
    r"|Cannot perform reduction '\w+' with string dtype|dtype '(?:str|object|string)' does not support operation"
)
_SHOWN = 8


def for_attribute(thing, wanted):
    """What took the place of an attribute, or None."""
    if type(wanted) is not str:
        return None
    name = (statics.instance_dict(thing) or {}).get("__name__") if statics.module_name(type(thing)) == "builtins" else None
    if type(name) is str:
        return _instead(wanted, _MODULES.get(name.partition(".")[0], {}).get(wanted))
    if statics.module_name(type(thing)).partition(".")[0] == "pandas":
        return _instead(wanted, _PANDAS.get(wanted))
    if wanted == "get_feature_names":
        return _instead(wanted, "get_feature_names_out")
    return None


def for_import(module, name=None):
    """The same of a module, or of a name in it."""
    if name is None:
        return _instead(module, _GONE_MODULES.get(module))
    gone = _GONE_MODULES.get(f"{module}.{name}")
    return _instead(name, _MODULES.get(module.partition(".")[0], {}).get(name) if gone is None else gone)


def _instead(wanted, found):
    return None if found is None else f"{wanted!r} is gone in recent versions; use: {found}"


def for_message(problem, found):
    """By the text of a `TypeError`, `ValueError`, `AttributeError` or `SyntaxError`."""
    message, source = _message(problem), _statement(found)
    if match := _ACCESSOR.match(message):
        return _ACCESSORS.get(match[1])
    if match := _ARGUMENT.search(message):
        words, instead = _ARGUMENTS.get(match[1], ((), None))
        return _instead(f"{match[1]}=", instead) if not words or any(word in source for word in words) else None
    if (match := _FREQUENCY.match(message)) and match[1].partition("-")[0] in _FREQUENCIES:
        return _instead(match[1], repr(_FREQUENCIES[match[1]]))
    if match := _OF_MODULE.match(message):
        return for_import(match[1], match[2])
    if match := _NOT_A_FUNCTION.match(message):
        return _instead(match[1], _PANDAS.get(match[1]))
    if (match := _PARAMETER.match(message)) and match[1] == "max_features" and match[3] == "auto":
        return _instead("max_features='auto'", "'sqrt', or 1.0 for a regressor")
    if _NOT_NUMBERS.search(message):
        return _text_columns(found, source)
    if message == "assignment destination is read-only":
        return "the arrays of a frame are read-only: write to a .copy() of the array, or to df.loc[rows, column]"
    if statics.is_instance(problem, SyntaxError) and (".query(" in source or ".eval(" in source):
        return _spaces(found)
    return None


def for_query(problem, found):
    """For a name in `query` or `eval` that is no column."""
    match = _UNDEFINED.search(_message(problem))
    if match is None:
        return None
    for expression, keys in subscripts.containers(found):
        guess = guesses.meant(match[1], keys.names)
        if any(" " in name and match[1] in name.split() for name in keys.names):
            return _spaces(found)
        if guess is not None:
            return f"{expression}: {guess}"
        if keys.kind == "columns":
            return f"columns of {expression} are: {', '.join(subscripts.shown(keys.found, _SHOWN))}; a variable is @{match[1]}"
    return None


def _message(problem):
    arguments = _args_of(problem)
    return arguments[0] if arguments and type(arguments[0]) is str else ""


def _spaces(found):
    for _, keys in subscripts.containers(found):
        spaced = [name for name in keys.names if not name.isidentifier()][:_SHOWN]
        if spaced:
            return f"names that are no identifiers stand in backticks: {', '.join(f'`{name[:40]}`' for name in spaced)}"
    return None


def _text_columns(found, source):
    """Which columns of the frames in the failing statement are text."""
    for expression, thing in subscripts.values(found):
        if type(thing) is not statics.loaded_class("pandas", "DataFrame"):
            continue
        kinds = zip(thing.columns[: guesses.CANDIDATES].tolist(), thing.dtypes.tolist(), strict=False)
        names = [name for name, dtype in kinds if statics.is_of_library(dtype) and str(dtype) in ("object", "str", "string")]
        if names:
            fits = ".fit" in source or ".predict" in source or ".transform" in source
            way = "encode them (pd.get_dummies) or leave them out" if fits else "use numeric_only=True, or leave them out"
            return f"text columns of {expression}: {', '.join(subscripts.shown(names, _SHOWN))}; {way}"
    return "there is text among the numbers: pd.to_numeric(x, errors='coerce'), or leave out the text"


def _statement(found):
    """The failing line; of a call over several lines, those around it too."""
    text, line = found.compiled
    lines = text.split("\n")
    return "\n".join(lines[max(0, line - 4) : line + 3]) if lines and line else found.source or ""
