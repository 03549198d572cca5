"""The kernel manager of nbclient and of what is made with it, for kernels of a gateway."""

from jupyter_server.gateway.managers import GatewayKernelManager


class Manager(GatewayKernelManager):
    """The manager as nbclient makes it: without arguments, and with a gateway client of the environment's settings."""

    client_class = "jupyter_server.gateway.managers.GatewayKernelClient"
