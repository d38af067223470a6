"""HDFS over WebHDFS: folders, sizes, and the Parquet that a pattern persisted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.errors import InfraError
from millrace.stores.changes import Change

if TYPE_CHECKING:
    from hdfs import InsecureClient

TIMEOUT_S = 30
ABSENT = "FileNotFoundException"


class NoFileError(InfraError):
    """A file that does not exist, or was removed since it was listed."""


@dataclass(frozen=True)
class File:
    """One file of a folder tree."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Hdfs:
    """A file system, by the address of its WebHDFS."""

    url: str
    user: str

    def ensure_folder(self, path: str, *, plan: bool = False) -> Change:
        """Create the folder unless it exists."""
        with self._client() as client:
            if _is_there(client, path):
                return Change("folder", path, "keep")
            if not plan:
                client.makedirs(path)
            return Change("folder", path, "create")

    def remove(self, path: str, *, plan: bool = False) -> Change:
        """Delete a folder and all in it."""
        with self._client() as client:
            if not _is_there(client, path):
                return Change("folder", path, "keep")
            if not plan:
                client.delete(path, recursive=True, skip_trash=True)
            return Change("folder", path, "remove")

    def files(self, path: str) -> Iterator[File]:
        """Every file below a folder, or the file itself; none if it does not exist."""
        with suppress(NoFileError), self._client() as client:
            own = client.status(path)
            if own["type"] != "DIRECTORY":
                yield File(path, own["length"], own["modificationTime"])
                return
            for folder, _, found in client.walk(path, status=True, ignore_missing=True):
                for name, status in found:
                    yield File(f"{folder[0]}/{name}", status["length"], status["modificationTime"])

    def files_since(self, path: str, since_ms: int, from_name: str = "") -> Iterator[File]:
        """The files down to two folders below that were written since; names that sort before are left out."""
        with suppress(NoFileError), self._client() as client:
            for name, outer in client.list(path, status=True):
                if name < from_name or name.startswith("_"):
                    continue
                if outer["type"] != "DIRECTORY":
                    yield from _since(File(f"{path}/{name}", outer["length"], outer["modificationTime"]), since_ms)
                    continue
                # A folder changes when a file in it does, but not when one in a folder below does.
                for inner, status in client.list(f"{path}/{name}", status=True):
                    place = f"{path}/{name}/{inner}"
                    if status["type"] != "DIRECTORY":
                        yield from _since(File(place, status["length"], status["modificationTime"]), since_ms)
                    elif status["modificationTime"] >= since_ms:
                        for file in self.files(place):
                            yield from _since(file, since_ms)

    def outline(self, path: str) -> Iterator[str]:
        """The files of a folder, and what is in the folders of it: their names from this folder on."""
        with suppress(NoFileError), self._client() as client:
            for name, status in client.list(path, status=True):
                inner = client.list(f"{path}/{name}") if status["type"] == "DIRECTORY" else ()
                yield from (f"{name}/{each}" for each in inner)
                yield from [] if status["type"] == "DIRECTORY" else [name]

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with self._client() as client, client.read(path) as reader:
            content: bytes = reader.read()
            return content

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file: it is not there until all of it is."""
        unfinished = f"{path}.unfinished"
        with self._client() as client:
            client.write(unfinished, content, overwrite=True)
            if _is_there(client, path):
                client.delete(path)
            client.rename(unfinished, path)

    @contextmanager
    def _client(self) -> Iterator[InsecureClient]:
        """A client whose errors name the address and the remedy."""
        # Here: the library and its HTTP client are a tenth of the start of a verb that reads no file.
        from hdfs import HdfsError, InsecureClient
        from requests import RequestException
        from urllib3.exceptions import HTTPError

        try:
            yield InsecureClient(self.url, user=self.user, timeout=TIMEOUT_S)
        except HdfsError as error:
            why = next(iter(str(error).splitlines()), "no reason given")
            if why.lstrip().startswith("<"):
                why = "it answered with a web page"
            if error.exception == ABSENT or "does not exist" in why:
                raise NoFileError(f"HDFS at {self.url}: {why}") from None
            if "Permission denied" in why or error.exception == "AccessControlException":
                remedy = f"give '{self.user}' the right, or name another user as HDFS_USER in MILLRACE_TARGET"
            else:
                remedy = "see `millrace status`; the WebHDFS address is in `millrace env`"
            raise InfraError(f"HDFS at {self.url} refused the request: {why[:200]}; {remedy}") from None
        except (RequestException, HTTPError) as error:
            raise InfraError(
                f"HDFS does not answer at {self.url} ({type(error).__name__}); see `millrace status`"
            ) from None


def _since(file: File, since_ms: int) -> Iterator[File]:
    if file.modified_ms >= since_ms:
        yield file


def _is_there(client: InsecureClient, path: str) -> bool:
    """Whether a file or folder exists; with `strict=False` the client would report a denied request as absent."""
    from hdfs import HdfsError  # here, as above

    try:
        client.status(path)
    except HdfsError as error:
        if error.exception != ABSENT:
            raise
        return False
    return True
