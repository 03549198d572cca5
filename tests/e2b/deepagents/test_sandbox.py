"""The standard tests of LangChain for sandboxes of deepagents, through E2B's client."""

import e2b
import pytest
from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class Backend(BaseSandbox):
    """A sandbox of E2B as deepagents use it."""

    def __init__(self):
        self.sandbox = e2b.Sandbox.create()

    @property
    def id(self):
        return self.sandbox.sandbox_id

    def execute(self, command, *, timeout=None):
        try:
            done = self.sandbox.commands.run(command, timeout=timeout or 60)
        except e2b.CommandExitException as failed:
            done = failed
        return ExecuteResponse(
            output=done.stdout + done.stderr, exit_code=done.exit_code, truncated=False
        )

    def upload_files(self, files):
        return [
            FileUploadResponse(path=path, error=self._failure(path, content))
            for path, content in files
        ]

    def _failure(self, path, content):
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self.sandbox.files.write(path, content)
        except e2b.SandboxException:
            return "permission_denied"

    def download_files(self, paths):
        return [self._download(path) for path in paths]

    def _download(self, path):
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(
                path=path, content=bytes(self.sandbox.files.read(path, format="bytes"))
            )
        except e2b.NotFoundException:
            return FileDownloadResponse(path=path, error="file_not_found")
        except e2b.InvalidArgumentException:
            return FileDownloadResponse(path=path, error="is_directory")
        except e2b.SandboxException:
            return FileDownloadResponse(path=path, error="permission_denied")


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        backend = Backend()
        yield backend
        backend.sandbox.kill()
