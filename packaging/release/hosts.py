"""Files that connect hosts of MCP to a gateway: the bundle of Claude Desktop, the plugin of Claude Code, `server.json` of the MCP registry."""

import hashlib
import json

import archives
import project

BUNDLE = project.ROOT / "packaging" / "mcpb"
PLUGIN = project.ROOT / "packaging" / "claude-code"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def bundle(out):
    """`himalia-VERSION.mcpb`."""
    target = out / f"himalia-{project.version()}.mcpb"
    archives.zipped(target, archives.below(BUNDLE) | {"LICENSE": ((project.ROOT / "LICENSE").read_bytes(), 0o644)})
    return target


def plugin(out):
    """`himalia-VERSION-claude-code.zip`."""
    target = out / f"himalia-{project.version()}-claude-code.zip"
    archives.zipped(target, archives.below(PLUGIN))
    return target


def registry(bundle, repository, out):
    """`server.json`; `repository` is OWNER/NAME on GitHub, where the release has the bundle."""
    owner, version = repository.split("/")[0], project.version()
    entry = {
        "$schema": SERVER_SCHEMA,
        "name": f"io.github.{owner}/himalia",
        "title": "Himalia",
        "description": project.DESCRIPTION,
        "version": version,
        "repository": {"url": f"https://github.com/{repository}", "source": "github"},
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"https://github.com/{repository}/releases/download/v{version}/{bundle.name}",
                "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
                "transport": {"type": "stdio"},
            }
        ],
    }
    target = out / "server.json"
    target.write_text(json.dumps(entry, indent=2) + "\n")
    return target
