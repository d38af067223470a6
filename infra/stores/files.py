"""HDFS over WebHDFS: folders, sizes, and the Parquet that a pattern persisted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hdfs import HdfsError, InsecureClient
from requests import RequestException

from infra.errors import InfraError
from infra.stores.changes import Change


class NoFileError(InfraError):
    """A file that was there when it was listed is not there any more."""


@dataclass(frozen=True)
class File:
    """One file of a folder tree."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Hdfs:
    """A file system by the address of its WebHDFS."""

    url: str
    user: str

    def ensure_folder(self, path: str, *, plan: bool = False) -> Change:
        """Make the folder unless it is there."""
        client = self._client()
        if client.status(path, strict=False) is not None:
            return Change("folder", path, "keep")
        if not plan:
            client.makedirs(path)
        return Change("folder", path, "create")

    def remove(self, path: str, *, plan: bool = False) -> Change:
        """Delete a folder and all in it."""
        client = self._client()
        if client.status(path, strict=False) is None:
            return Change("folder", path, "keep")
        if not plan:
            client.delete(path, recursive=True, skip_trash=True)
        return Change("folder", path, "remove")

    def files(self, path: str) -> Iterator[File]:
        """Every file below a folder; none when there is no such folder."""
        client = self._client()
        try:
            for folder, _, found in client.walk(path, status=True, ignore_missing=True):
                for name, status in found:
                    yield File(f"{folder[0]}/{name}", status["length"], status["modificationTime"])
        except HdfsError as error:
            if "does not exist" not in str(error):
                raise

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        try:
            with self._client().read(path) as reader:
                content: bytes = reader.read()
                return content
        except HdfsError as error:
            if "does not exist" not in str(error):
                raise
            raise NoFileError(f"HDFS has no file {path}") from None

    def _client(self) -> InsecureClient:
        client = InsecureClient(self.url, user=self.user, timeout=30)
        try:
            client.status("/", strict=False)
        except RequestException as error:
            raise InfraError(
                f"HDFS does not answer at {self.url} ({type(error).__name__}); see `millrace status`"
            ) from None
        return client
