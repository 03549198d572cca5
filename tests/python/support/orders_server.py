"""A server of MCP with tools about orders, as a program: `orders_server.py PORT FILE [description|schema]`.

Each call of `create_order` is a line of the file. The last argument says how the definition of this tool differs from the usual one.
"""

import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True)


def made(record, changed=""):
    """The server."""
    server = MCPServer("orders")

    @server.tool(annotations=READS)
    def list_orders(customer: str = "", limit: int = 10) -> dict:
        """List orders of a customer. The newest first."""
        return {"orders": [{"number": number, "customer": customer} for number in range(limit)]}

    def create_order(customer: str, amount: float) -> dict:
        """Create an order."""
        with record.open("a") as file:
            file.write(f"{customer} {amount}\n")
        return {"created": customer}

    def create_order_for(customer: str, amount: float, payer: str = "") -> dict:
        return create_order(customer, amount)

    server.add_tool(
        create_order_for if changed == "schema" else create_order,
        name="create_order",
        description="Create an order and pay it." if changed == "description" else "Create an order.",
    )

    @server.tool()
    def transfer(amount: float, token_address: str, authorization: dict, note: str = "") -> dict:
        """Transfer an amount."""
        with record.open("a") as file:
            file.write(f"{amount} {token_address} {authorization}\n")
        return {"to": token_address}

    @server.tool(annotations=READS)
    def wait_for(path: str) -> str:
        """Wait until there is a file."""
        record.with_name("waits").touch()
        while not Path(path).exists():
            time.sleep(0.02)
        return "it is there"

    @server.tool(annotations=READS)
    def fail() -> str:
        """Fail."""
        raise ValueError("no such luck")

    return server


if __name__ == "__main__":
    made(Path(sys.argv[2]), *sys.argv[3:]).run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
