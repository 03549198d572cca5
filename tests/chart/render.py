"""Prints the objects of a chart as JSON: `render.py CHART STORE`. It runs in the environment of requirements.lock, which has Helm's library."""

import json
import sys

import helm_python

chart, store = sys.argv[1:]
with helm_python.Chart.load(chart) as loaded:
    values = {"store": store}
    loaded.validate_schema(values)
    print(json.dumps(loaded.render(values, name="himalia", namespace="himalia")))
