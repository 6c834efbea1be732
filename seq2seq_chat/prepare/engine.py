"""The engines that evaluate Ibis expressions: DuckDB in this process, or Apache Spark.

They are imported where they are needed, as that takes half a second in which reading can begin.
"""

from __future__ import annotations

import glob
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.errors import UserError

if TYPE_CHECKING:
    import ibis.expr.types as ir

EngineName = Literal["duckdb", "spark"]

_ROWS_PER_BATCH = 1 << 16
_UNITS = {
    "": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}


class Engine(Protocol):
    """Evaluates expressions over Parquet files. Rows come as they are ordered by the expression."""

    def table(self, path: Path) -> ir.Table:
        """The rows of a Parquet file, or of all those in a folder."""

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        """The rows of an expression, without holding all of them in memory."""

    def store(self, expression: ir.Table, name: str) -> ir.Table:
        """Evaluate an expression once; a table of its rows, for as long as the engine is open."""


def memory_bytes(memory: str) -> int:
    """The bytes of a size such as 2GB or 512MiB. Raises UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)", memory.strip(), re.IGNORECASE)
    unit = match[2].upper() if match else ""
    unit = f"{unit}B" if unit and not unit.endswith("B") else unit
    if match is None or unit not in _UNITS:
        raise UserError(f"{memory} is no amount of memory. Write it like 2GB or 512MB.")
    size = int(float(match[1]) * _UNITS[unit])
    if size < 100_000_000:
        raise UserError(f"{memory} of memory is too little. Allow 100MB or more.")
    return size


@contextmanager
def open_engine(
    name: EngineName, folder: Path, *, memory: str = "2GB", threads: int = 2, spark_master: str = "local[*]"
) -> Iterator[Engine]:
    """An engine that keeps what does not fit into ``memory`` in ``folder``.

    Raises:
        UserError: Spark is not installed or cannot be reached, the memory does not do, or the disk is full.
    """
    import duckdb

    limit = memory_bytes(memory)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    try:
        if name == "duckdb":
            yield from _with_faults(_DuckDB(scratch, limit, threads))
        else:
            yield from _with_faults(_Spark(scratch, limit, spark_master))
    except duckdb.OutOfMemoryException as fault:
        if "max_temp_directory_size" in str(fault):
            raise UserError(
                f"{folder} has no room left for what does not fit into {memory} of memory. Make room there, name "
                "another folder, or allow more memory (--memory)."
            ) from fault
        raise UserError(
            f"{memory} of memory is too little for this corpus and {threads} threads. Allow more (--memory), or "
            "use fewer processors (--jobs); what is read is not read again."
        ) from fault
    except duckdb.IOException as fault:
        if "write" not in str(fault):
            raise
        raise UserError(
            f"{folder} cannot be written to by the engine: {str(fault).splitlines()[0]}. Make room there, or name "
            "another folder."
        ) from fault
    except RuntimeError as fault:
        if isinstance(fault.__cause__, KeyboardInterrupt):
            raise fault.__cause__ from None  # Ctrl-C during a query
        raise
    finally:
        _remove(scratch)


def _remove(folder: Path) -> None:
    for _ in range(20):  # Spark goes on tidying up for a moment after it has stopped
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def _with_faults(engine: _DuckDB | _Spark) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()


class _DuckDB:
    def __init__(self, scratch: Path, limit: int, threads: int) -> None:
        import ibis

        # A part of the memory is for what DuckDB does not count, and for this program.
        self._connection: Any = ibis.duckdb.connect(
            memory_limit=f"{limit * 3 // 4 // 1_000_000}MB",
            temp_directory=str(scratch / "spill"),
            preserve_insertion_order=False,  # nothing relies on it, and it takes memory
            threads=threads,
        )
        self._scratch = scratch

    def table(self, path: Path) -> ir.Table:
        name = glob.escape(str(path.absolute()))  # DuckDB takes every name for a pattern, and ~ for a home
        return self._connection.read_parquet(f"{name}/*.parquet" if path.is_dir() else name)

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        # A relation streams in order; a query that was executed is held in memory first.
        relation = self._connection.con.sql(self._connection.compile(expression))
        schema = expression.schema().to_pyarrow()
        for batch in relation.to_arrow_reader(_ROWS_PER_BATCH):
            yield batch.cast(schema)

    def store(self, expression: ir.Table, name: str) -> ir.Table:
        path = self._scratch / f"{name}.parquet"
        # DuckDB sums to integers of 128 bits, which Parquet has not.
        columns = ", ".join(
            f'CAST("{name}" AS BIGINT) AS "{name}"' if kind.is_int64() else f'"{name}"'
            for name, kind in expression.schema().items()
        )
        self._connection.con.sql(
            f"SELECT {columns} FROM ({self._connection.compile(expression)}) AS stored"
        ).write_parquet(str(path))
        return self.table(path)

    def close(self) -> None:
        self._connection.disconnect()


class _Spark:
    def __init__(self, scratch: Path, limit: int, master: str) -> None:
        import ibis

        try:
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError as fault:
            raise UserError(
                "Spark is not installed. Install it with pip install -c constraints.txt -e '.[spark]', or use "
                "--engine duckdb."
            ) from fault
        settings = {
            "spark.driver.memory": f"{limit // (1 << 20)}m",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home='{scratch}'",  # which may have spaces
        }
        if master.startswith("local"):
            settings["spark.sql.shuffle.partitions"] = "8"  # the 200 that suit a cluster take long to start here
        builder: Any = SparkSession.builder
        builder = builder.master(master).appName("seq2seq-chat prepare")
        for key, value in settings.items():
            builder = builder.config(key, value)
        try:
            self._session = builder.getOrCreate()
            self._connection: Any = ibis.pyspark.connect(self._session)
        except (PySparkException, RuntimeError, OSError) as fault:
            reason = str(fault).strip().splitlines()[0]
            raise UserError(
                f"Spark cannot be started with {master}: {reason}. It needs Java 17 or newer (JAVA_HOME) and, for a "
                "cluster, --spark-master with its address."
            ) from fault
        self._scratch = scratch

    def table(self, path: Path) -> ir.Table:
        return self._connection.read_parquet(_hadoop_path(path))

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        folder = self._write(expression, "rows")
        schema = expression.schema().to_pyarrow()
        # Sorted rows lie in files named in their order.
        for path in sorted(folder.glob("part-*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(_ROWS_PER_BATCH):
                yield batch.cast(schema)
        shutil.rmtree(folder, ignore_errors=True)

    def store(self, expression: ir.Table, name: str) -> ir.Table:
        return self.table(self._write(expression, name))

    def _write(self, expression: ir.Table, name: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._scratch)) / "rows"
        sql = self._connection.compile(expression)
        self._session.sql(sql).write.parquet(f"file://{folder.absolute()}")
        return folder

    def close(self) -> None:
        self._session.stop()


def _hadoop_path(path: Path) -> str:
    """What Spark reads: no URI, as a space stands for itself, but a pattern, as * and its like do not."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
