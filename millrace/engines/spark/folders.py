"""A folder of any Hadoop file system, by its URI."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Folder:
    """Renames are atomic on HDFS: a file is in one place or in the other."""

    spark: SparkSession
    uri: str

    def inner(self, name: str) -> Folder:
        """A folder in this one."""
        return Folder(self.spark, f"{self.uri}/{name}")

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        return bool(self._fs.exists(self._path(name)))

    def names(self) -> list[str]:
        """The names in the folder; empty if the folder does not exist."""
        if not self._fs.exists(self._path()):
            return []
        return sorted(status.getPath().getName() for status in self._fs.listStatus(self._path()))

    def below(self) -> list[str]:
        """The paths of all files in the folder and in those below it."""
        found, start = [], len(self._fs.makeQualified(self._path()).toString()) + 1
        files = self._fs.listFiles(self._path(), True)
        while files.hasNext():
            found.append(files.next().getPath().toString()[start:])
        return sorted(found)

    def modified_ms(self, name: str) -> int:
        """When the file was written."""
        return int(self._fs.getFileStatus(self._path(name)).getModificationTime())

    def read(self, name: str) -> str:
        """The text of a small file."""
        stream = self._fs.open(self._path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a small text to a new file."""
        stream = self._fs.create(self._path(name), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def replace(self, name: str, text: str) -> None:
        """Replace the text of a small file atomically."""
        arriving = f".{name}.arriving"
        self.delete(arriving)
        self.write(arriving, text)
        jvm, conf = self.spark._jvm, self.spark._jsc.hadoopConfiguration()
        rename = jvm.org.apache.hadoop.fs.Options.Rename
        options = self.spark.sparkContext._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path().toUri(), conf)
        context.rename(self._path(arriving), self._path(name), options)

    def move(self, name: str, to: str) -> None:
        """Move a file of the folder to a path outside it."""
        target = _path_class(self.spark)(to)
        self._fs.mkdirs(target.getParent())
        if not self._fs.rename(self._path(name), target):
            raise OSError(f"{self.uri}/{name} could not be moved to {to}; is it there already?")

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with its content."""
        self._fs.delete(self._path(name), True)

    @property
    def _fs(self) -> Any:
        return self._path().getFileSystem(self.spark._jsc.hadoopConfiguration())

    def _path(self, name: str = "") -> Any:
        return _path_class(self.spark)(f"{self.uri}/{name}" if name else self.uri)


@cache
def _path_class(spark: SparkSession) -> Any:
    # Each dot of a Java name is a search through all jars: 8 % of the driver's CPU, with a few looks a second.
    return spark._jvm.org.apache.hadoop.fs.Path
