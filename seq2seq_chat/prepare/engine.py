"""The engines that evaluate Ibis expressions: DuckDB in this process, or Apache Spark.

They are imported lazily: importing takes half a second, during which reading can already start.
"""

from __future__ import annotations

import glob
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_cores

if TYPE_CHECKING:
    import ibis.expr.types as ir

EngineName = Literal["duckdb", "spark"]

_ROWS_PER_BATCH = 1 << 16
_MATERIALIZED_GROUP = 10 * 2048  # rows; DuckDB reads whole groups, whose texts it keeps in memory while it sorts


class QueryEngine(Protocol):
    """Evaluates expressions over Parquet files."""

    def table(self, path: Path) -> ir.Table:
        """The rows of a Parquet file, or of all Parquet files in a folder."""

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        """The rows of an expression, in its order, without holding all of them in memory."""

    def materialize(self, expression: ir.Table, name: str) -> ir.Table:
        """Evaluate an expression; return a table of its rows that is valid while the engine is open."""


def fetch_rows(engine: QueryEngine, expression: ir.Table) -> list[dict[str, Any]]:
    """The rows of a small result as dictionaries."""
    return [row for batch in engine.rows(expression) for row in batch.to_pylist()]


def memory_bytes(memory: str) -> int:
    """The number of bytes of a size such as 2GB or 512MiB. Raises UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(I?)B?)?", memory.strip(), re.IGNORECASE)
    if match is None:
        raise UserError(f"{memory} is not a valid memory size. Use a size such as 2GB or 512MB.")
    power = "KMGT".index(match[2].upper()) + 1 if match[2] else 0
    size = float(match[1]) * (1024 if match[3] else 1000) ** power
    if size > 2**60:
        raise UserError(f"{memory} is more memory than any machine has. Use a size such as 2GB or 512MB.")
    if size < 100_000_000:
        raise UserError(f"{memory} of memory is not enough. Use at least 100MB.")
    return int(size)


@contextmanager
def open_engine(
    name: EngineName, folder: Path, *, memory: str = "2GB", threads: int = 2, spark_master: str = "local[*]"
) -> Iterator[QueryEngine]:
    """Open an engine that spills to ``folder`` when it exceeds ``memory``.

    Raises:
        UserError: Spark is not installed or cannot be reached, the memory is too small, or the disk is full.
    """
    import duckdb

    limit = memory_bytes(memory)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    try:
        opened = _DuckDB(scratch, limit, threads) if name == "duckdb" else _Spark(scratch, limit, spark_master)
        with closing(opened) as engine:
            yield engine
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error):
            raise UserError(
                f"No disk space left in {folder} for data that exceeds {memory} of memory. Free some space, choose "
                "another folder, or allow more memory (--memory)."
            ) from error
        raise UserError(
            f"{memory} of memory is not enough for this corpus and {threads} threads. Allow more memory (--memory) or "
            "use fewer threads (--jobs); files that have been read are not read again."
        ) from error
    except duckdb.IOException as error:
        if "write" not in str(error):
            raise
        raise UserError(
            f"{folder} could not be written by the engine: {str(error).splitlines()[0]}. Free some space, or choose "
            "another folder."
        ) from error
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None  # Ctrl-C during a query
        raise
    finally:
        _remove(scratch)


def _remove(folder: Path) -> None:
    for _ in range(20):  # Spark still removes files for a moment after it has stopped
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


class _DuckDB:
    def __init__(self, scratch: Path, limit: int, threads: int) -> None:
        import ibis

        # The rest is for this program and for memory that DuckDB does not account for.
        self._connection: Any = ibis.duckdb.connect(
            memory_limit=f"{limit * 3 // 4 // 1_000_000}MB",
            temp_directory=str(scratch / "spill"),
            preserve_insertion_order=False,  # not needed, and costs memory
            threads=threads,
        )
        self._scratch = scratch

    def table(self, path: Path) -> ir.Table:
        name = glob.escape(str(path.absolute()))  # DuckDB expands patterns, and ~ in relative paths
        return self._connection.read_parquet(f"{name}/*.parquet" if path.is_dir() else name)

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        # A relation streams in order, whereas an executed query is first held in memory.
        relation = self._connection.con.sql(self._connection.compile(expression))
        schema = expression.schema().to_pyarrow()
        for batch in relation.to_arrow_reader(_ROWS_PER_BATCH):
            yield batch.cast(schema)

    def materialize(self, expression: ir.Table, name: str) -> ir.Table:
        path = self._scratch / f"{name}.parquet"
        # DuckDB sums to 128-bit integers, which Parquet does not support.
        columns = ", ".join(
            f'CAST("{name}" AS BIGINT) AS "{name}"' if kind.is_int64() else f'"{name}"'
            for name, kind in expression.schema().items()
        )
        self._connection.con.sql(
            f"SELECT {columns} FROM ({self._connection.compile(expression)}) AS stored"
        ).write_parquet(str(path), row_group_size=_MATERIALIZED_GROUP)
        return self.table(path)

    def close(self) -> None:
        self._connection.disconnect()


class _Spark:
    def __init__(self, scratch: Path, limit: int, master: str) -> None:
        import ibis

        try:
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise UserError(
                "Spark is not installed. Install it with pip install -c constraints.txt -e '.[spark]', or use "
                "--engine duckdb."
            ) from error
        settings = {
            "spark.driver.memory": f"{limit // (1 << 20)}m",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            # the path may contain spaces; pauses of the garbage collector do not matter
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={shlex.quote(str(scratch))} -XX:+UseParallelGC",
            # a first, small hash table of words or n-grams is full before it saves anything
            "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
        }
        if master.startswith("local"):
            # the default, 200, suits a cluster but is slow locally
            settings["spark.sql.shuffle.partitions"] = str(max(8, available_cores()))
        builder: Any = SparkSession.builder
        builder = builder.master(master).appName("seq2seq-chat prepare")
        for key, value in settings.items():
            builder = builder.config(key, value)
        try:
            self._session = builder.getOrCreate()
            self._connection: Any = ibis.pyspark.connect(self._session)
        except (PySparkException, RuntimeError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"Could not start Spark with {master}: {reason}. It requires Java 17 or newer (JAVA_HOME) and, for a "
                "cluster, its address as --spark-master."
            ) from error
        self._scratch = scratch

    def table(self, path: Path) -> ir.Table:
        # Spark takes a path for a glob pattern, but not for a percent-encoded URI.
        pattern = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
        return self._connection.read_parquet(f"file://{pattern}")

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        folder = self._write(expression, "rows")
        schema = expression.schema().to_pyarrow()
        # The names of the files are in the order of the rows.
        for path in sorted(folder.glob("part-*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(_ROWS_PER_BATCH):
                yield batch.cast(schema)
        shutil.rmtree(folder, ignore_errors=True)

    def materialize(self, expression: ir.Table, name: str) -> ir.Table:
        return self.table(self._write(expression, name))

    def _write(self, expression: ir.Table, name: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._scratch)) / "rows"
        sql = self._connection.compile(expression)
        self._session.sql(sql).write.parquet(f"file://{folder.absolute()}")
        return folder

    def close(self) -> None:
        self._session.stop()
