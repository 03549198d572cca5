"""Executes a notebook with papermill and jupyter_server's gateway classes. Arguments: notebook in, notebook out, JSON of parameters."""

import json
import sys

import papermill
from nbclient_manager import Manager

source, target, parameters = sys.argv[1:]
papermill.execute_notebook(source, target, json.loads(parameters), kernel_name="python3", progress_bar=False, kernel_manager_class=Manager)
