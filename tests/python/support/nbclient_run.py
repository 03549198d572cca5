"""Executes a notebook with nbclient and jupyter_server's gateway classes, as their users do: settings come from the
environment. Arguments: notebook in, notebook out."""

import sys

import nbformat
from nbclient import NotebookClient
from nbclient_manager import Manager


def main():
    source, target = sys.argv[1:]
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(notebook, timeout=60, kernel_manager_class=Manager, kernel_name="python3").execute()
    nbformat.write(notebook, target)


main()
