"""The store: append-only, one driver, and nothing lost when that driver is killed."""

import csv
import json
import math
import random
import sqlite3
import subprocess
import sys
import time

import pytest

from flm.study.store import Store, StoreError, canonical, run_key

WRITER = """
import sys
from flm.study.store import Store
with Store(sys.argv[1], write=True) as store:
    done = store.keys()
    from flm.study.store import run_key
    for seed in range(int(sys.argv[2])):
        definition = {"seed": seed, "model": "flm"}
        if run_key(definition) not in done:
            store.add([(definition, "done", {"mse": seed / 7, "seconds": 0.0})])
            print(seed, flush=True)
"""


def writer(path, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(count)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ten_kills_lose_nothing(tmp_path):
    path, rng, said = tmp_path / "runs.sqlite", random.Random(0), []
    for _ in range(10):
        process = writer(path, 100_000)
        told = []
        for _ in range(rng.randrange(1, 30)):
            told.append(int(process.stdout.readline()))
        process.kill()
        told += [int(line) for line in process.stdout if line.endswith("\n")]
        process.wait()
        said += told
    assert len(said) == len(set(said))
    with Store(path) as store:
        audit = store.audit()
        assert audit.sound, str(audit)
        seeds = [row.definition["seed"] for row in store.rows()]
    assert sorted(seeds) == list(range(len(seeds)))
    assert set(said) <= set(seeds)  # whatever was said to be stored is
    assert len(seeds) <= len(said) + 10  # at most one run per kill was stored and not said
    assert audit.done == len(seeds)


def test_a_second_driver_is_refused_and_a_reader_is_not(tmp_path):
    path = tmp_path / "runs.sqlite"
    process = writer(path, 100_000)
    process.stdout.readline()
    try:
        with pytest.raises(StoreError, match="is being written by another driver"):
            Store(path, write=True)
        with Store(path) as store:
            assert store.audit().sound
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    with Store(path, write=True) as store:  # the lock died with its process
        assert store.audit().done > 0


def test_a_run_is_stored_once_and_a_failed_one_may_be_tried_again(tmp_path):
    with Store(tmp_path / "s.sqlite", write=True) as store:
        assert store.add([({"seed": 1}, "done", {"mse": 1.0}), ({"seed": 2}, "failed", {"reason": "no memory"})]) == 2
        assert store.add([({"seed": 1}, "done", {"mse": 2.0})]) == 0
        assert store.keys() == {run_key({"seed": 1}), run_key({"seed": 2})}
        assert store.add([({"seed": 2}, "diverged", {"mse": math.inf})]) == 1
        rows = {row.definition["seed"]: row for row in store.rows()}
        assert rows[1].outcome == {"mse": 1.0}
        assert (rows[2].status, rows[2].attempt, rows[2].outcome) == ("diverged", 2, {"mse": "inf"})
        assert len(list(store.rows(latest=False))) == 3
        assert str(store.audit()) == (
            "3 rows: 1 done, 1 diverged, 1 failed. Nothing is damaged, and no run was stored twice."
        )


def test_half_a_batch_is_never_stored(tmp_path):
    with Store(tmp_path / "s.sqlite", write=True) as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add([({"seed": 1}, "done", {}), ({"seed": 2}, "finished", {})])
        assert store.audit().rows == 0


def test_rows_cannot_be_changed(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path, write=True) as store:
        store.add([({"seed": i}, "done", {"mse": i}) for i in range(3)])
    raw = sqlite3.connect(path)
    for statement in ("UPDATE runs SET outcome = '{}'", "DELETE FROM runs"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)
    raw.close()


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("""UPDATE runs SET outcome = '{"mse":0}' WHERE number = 2""", "Row 2: its contents were changed."),
        (
            """UPDATE runs SET definition = '{"seed":9}' WHERE number = 2""",
            "Row 2: its key is not that of its definition.",
        ),
        ("DELETE FROM runs WHERE number = 2", "Row 2 is missing: the next one has number 3."),
        (
            "DROP INDEX once; INSERT INTO runs (key, attempt, status, definition, outcome, finished, checksum) "
            "SELECT key, 2, status, definition, outcome, finished, checksum FROM runs WHERE number = 1",
            "was stored 2 times.",
        ),
    ],
)
def test_the_audit_finds_damage(tmp_path, damage, finding):
    path = tmp_path / "s.sqlite"
    with Store(path, write=True) as store:
        store.add([({"seed": i}, "done", {"mse": i}) for i in range(3)])
    raw = sqlite3.connect(path)
    raw.executescript("DROP TRIGGER no_update; DROP TRIGGER no_delete; " + damage)
    raw.close()
    with Store(path) as store:
        audit = store.audit()
    assert not audit.sound
    assert finding in str(audit)


def test_a_reader_cannot_write_and_nothing_is_not_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="There are no runs yet"):
        Store(tmp_path / "none.sqlite")
    Store(tmp_path / "s.sqlite", write=True).close()
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(StoreError, match="opened for reading"):
        store.add([({"seed": 1}, "done", {})])
    other = tmp_path / "other.sqlite"
    other.write_text("a letter" * 1000)
    for write in (True, False):
        with pytest.raises(StoreError, match="is not a store of runs"):
            Store(other, write=write)


def test_export(tmp_path):
    with Store(tmp_path / "s.sqlite", write=True) as store:
        store.add([({"seed": 1, "optimizer": {"rate": 0.1}}, "done", {"mse": 0.5})])
        store.add([({"seed": 2, "optimizer": {"rate": 0.1}}, "failed", {"reason": "a, b"})])
        path = store.export(tmp_path / "runs.csv")
        with path.open() as file:
            lines = list(csv.DictReader(file))
        assert [(r["seed"], r["optimizer.rate"], r["mse"], r["reason"]) for r in lines] == [
            ("1", "0.1", "0.5", ""),
            ("2", "0.1", "", "a, b"),
        ]
        with pytest.raises(ValueError, match=r"must end in \.csv; got 'runs\.xls'"):
            store.export(tmp_path / "runs.xls")


def test_a_row_costs_under_five_milliseconds(tmp_path):
    with Store(tmp_path / "s.sqlite", write=True) as store:
        times = []
        for batch in range(5):
            start = time.perf_counter()
            store.add([({"seed": batch * 100 + i}, "done", {"mse": 0.1}) for i in range(100)])
            times.append((time.perf_counter() - start) / 100)
        assert min(times) < 5e-3


def test_keys_do_not_depend_on_order():
    assert canonical({"b": 1, "a": [1.5, "x"]}) == '{"a":[1.5,"x"],"b":1}'
    assert run_key({"b": 1, "a": 2}) == run_key(json.loads('{"a": 2, "b": 1}'))
    assert run_key({"a": 1}) != run_key({"a": 1.5})
