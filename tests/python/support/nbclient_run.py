"""Executes a notebook with nbclient and jupyter_server's gateway classes, as their users do: settings come from the
environment. Arguments: notebook in, notebook out."""

import sys

import nbformat
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient


class Manager(GatewayKernelManager):
    """The manager as nbclient makes it: without arguments, and with a gateway client of the environment's settings."""

    client_class = "jupyter_server.gateway.managers.GatewayKernelClient"


def main():
    source, target = sys.argv[1:]
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(notebook, timeout=60, kernel_manager_class=Manager, kernel_name="python3").execute()
    nbformat.write(notebook, target)


main()
