"""An append-only record of runs in one SQLite file, which survives a kill at any moment.

A run is known by the SHA-256 of what defines it, as JSON with sorted keys. A row is written once, in a transaction, and
never changed: triggers refuse it. With write-ahead logging readers and the writer do not block each other; it needs a local disk.
One driver writes. It holds an exclusive SQLite lock on a file beside the store, which the operating system releases
with the process, however that ends: there are no stale locks.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flm.wording import FileError, FileMissingError, InputError

DONE, DIVERGED, FAILED = "done", "diverged", "failed"
Definition = Mapping[str, Any]  # all that defines a run, as JSON holds it
Record = dict[str, Any]  # what a run measured, likewise

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'diverged', 'failed')),
    definition TEXT NOT NULL,
    outcome TEXT NOT NULL,
    finished REAL NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (key, attempt)
);
CREATE UNIQUE INDEX IF NOT EXISTS once ON runs (key) WHERE status != 'failed';
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;
"""
_COLUMNS = ("key", "attempt", "status", "definition", "outcome", "finished", "checksum")


class StoreError(FileError):
    """A store that cannot be opened or written, with the reason."""


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def run_key(definition: Definition) -> str:
    """The key of a run: the SHA-256 of its definition.

    Example:
        >>> run_key({"seed": 1, "size": 4}) == run_key({"size": 4, "seed": 1})
        True
    """
    return hashlib.sha256(canonical(definition).encode()).hexdigest()


@dataclass(frozen=True)
class Row:
    """One stored run: what defined it, how it ended, and what it measured."""

    key: str
    status: str
    definition: Record
    outcome: Record
    finished: float
    attempt: int = 1


@dataclass(frozen=True)
class Audit:
    """The findings of a check of a store."""

    rows: int
    done: int
    diverged: int
    failed: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        counts = f"{self.rows} rows: {self.done} done, {self.diverged} diverged, {self.failed} failed."
        if self.sound:
            counts += " Nothing is damaged, and no run was stored twice."
        return "\n".join((counts, *self.problems))


class Store(AbstractContextManager["Store"]):
    """The runs of a study on disk.

    Args:
        path: the SQLite file.
        write: take the driver's lock and create the file where there is none; otherwise open it for reading.

    Raises:
        StoreError: another driver is writing, or the file is not a store of runs.
        FileNotFoundError: there is no file to read.
    """

    def __init__(self, path: str | os.PathLike[str], *, write: bool = False):
        self.path = Path(path)
        self._lock: sqlite3.Connection | None = None
        if write:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._acquire()
        elif not self.path.exists():
            start = "Start with: flm study run SPEC.toml"
            raise FileMissingError(f"There are no runs yet: {self.path} does not exist. {start}")
        self._connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            if write and self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise sqlite3.DatabaseError("its disk does not support write-ahead logging, a local one does")
            if write:
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.executescript(_SCHEMA)
            self._connection.execute("SELECT COUNT(*) FROM runs")
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(f"{self.path} is not a store of runs: {error}. Name another file.") from None

    def _acquire(self) -> None:
        lock = sqlite3.connect(self.path.with_name(self.path.name + ".lock"), timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            lock.close()
            raise StoreError(
                f"{self.path} is being written by another driver. One driver writes at a time; watch it with: "
                "flm study status"
            ) from None
        self._lock = lock

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the driver's lock."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def add(self, runs: Iterable[tuple[Definition, str, Mapping[str, object]]]) -> int:
        """Append runs (definition, status, outcome) in one transaction, repeating only failed ones; return how many are new."""
        if self._lock is None:
            raise StoreError(f"{self.path} was opened for reading. Open it with write=True.")
        added = 0
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for definition, status, outcome in runs:
                key = run_key(definition)
                before = self._connection.execute("SELECT status FROM runs WHERE key = ?", (key,)).fetchall()
                if any(row[0] != FAILED for row in before):
                    continue
                text, result = canonical(definition), canonical(_finite(outcome))
                values = (key, len(before) + 1, status, text, result, time.time())
                insert = f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
                self._connection.execute(insert, (*values, _checksum(values)))
                added += 1
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # Ctrl-C may come after the commit
                self._connection.execute("ROLLBACK")
            raise
        return added

    def rows(self, *, latest: bool = True) -> Iterator[Row]:
        """The runs in the order in which they finished: the last attempt of each, or all attempts."""
        which = "WHERE number IN (SELECT MAX(number) FROM runs GROUP BY key) " if latest else ""
        query = f"SELECT key, status, definition, outcome, finished, attempt FROM runs {which}ORDER BY number"
        for key, status, definition, outcome, *rest in self._connection.execute(query):
            yield Row(key, status, json.loads(definition), json.loads(outcome), *rest)

    def keys(self) -> set[str]:
        """Keys of the runs that are stored."""
        return {row[0] for row in self._connection.execute("SELECT DISTINCT key FROM runs")}

    def audit(self) -> Audit:
        """Check the file, every row's key and checksum, the numbering, and that no run was stored twice; return the findings."""
        problems = []
        check = self._connection.execute("PRAGMA integrity_check").fetchone()[0]
        if check != "ok":
            problems.append(f"SQLite finds the file damaged: {check}")
        counts, finals, attempts = Counter[str](), Counter[str](), Counter[str]()
        found = self._connection.execute(f"SELECT number, {', '.join(_COLUMNS)} FROM runs ORDER BY number")
        for number, (stored, *values, checksum) in enumerate(found, 1):
            key, attempt, status, definition = values[:4]
            counts[status] += 1
            attempts[key] += 1
            finals[key] += status != FAILED
            if stored != number:
                problems.append(f"Row {number} is missing: the next one has number {stored}.")
                break
            if attempt != attempts[key]:
                problems.append(f"Row {stored}: attempt {attempt} where {attempts[key]} was due.")
            if key != run_key(json.loads(definition)):
                problems.append(f"Row {stored}: its key is not that of its definition.")
            if checksum != _checksum(tuple(values)):
                problems.append(f"Row {stored}: its contents were changed.")
        problems += [f"Run {key[:12]} was stored {n} times." for key, n in finals.items() if n > 1]
        return Audit(counts.total(), counts[DONE], counts[DIVERGED], counts[FAILED], tuple(problems))

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write one line per run to a CSV file, with nested keys joined by dots, and return its path."""
        import pandas as pd  # here, because a worker does not need it

        from flm.files import write_atomic

        path = Path(path)
        if path.suffix != ".csv":
            raise InputError(f"`path` must end in .csv; got {path.name!r}.")
        named = lambda row: {key: getattr(row, key) for key in ("key", "status", "attempt", "finished")}
        table = [named(row) | row.definition | row.outcome for row in self.rows(latest=False)]
        write_atomic(path, pd.json_normalize(table).to_csv(index=False, lineterminator="\n").encode())
        return path


def _checksum(values: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _finite(value: object) -> object:
    """The value with the strings "inf", "-inf", "nan" for numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
