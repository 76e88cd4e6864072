"""Execution: every run once, whatever dies."""

import contextlib
import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from study_runners import definitions

from flm.study import Store, dask, execute, local
from flm.study.execution import Counts
from flm.study.store import run_key

HERE = Path(__file__).parents[1]
PATHS = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills are sent by signal")

DRIVER = """
import sys
from flm.study import Store, dask, execute, local
from study_runners import definitions
path, count, address, note = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
with Store(path, write=True) as store:
    execute(definitions(count, sleep=0.01, note=note), store, workers=dask(address) if address else local(2),
            progress=lambda event: print(event.extras["done"], flush=True))
"""


def run(tmp_path, runs, **options):
    with Store(tmp_path / "s.sqlite", write=True) as store:
        live = execute(runs, store, workers=local(2), **options)
        return live, list(store.rows(latest=False)), store.audit()


def count_results(lines, wanted):
    """Read until so many lines told of new results, or the driver is done."""
    done = None
    while wanted and (line := lines.readline()):
        wanted -= done is not None and int(line) > done
        done = int(line)


def killed_study(tmp_path, count, kills, address=""):
    """Start drivers and kill them at random moments, then let one finish; returns the runs as the workers saw them."""
    path, note = tmp_path / "runs.sqlite", tmp_path / "note.txt"
    environment = os.environ | {"PYTHONPATH": PATHS}
    command = [sys.executable, "-c", DRIVER, str(path), str(count), address, str(note)]
    rng = random.Random(1)
    for _ in range(kills):
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        count_results(driver.stdout, rng.randrange(1, 4))
        time.sleep(rng.random() * 0.05)
        driver.kill()
        driver.stdout.close()
        driver.wait()
        with Store(path) as store:
            assert store.audit().sound
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    with Store(path) as store:
        audit = store.audit()
        seeds = [row.definition["seed"] for row in store.rows(latest=False)]
    assert audit.sound, str(audit)
    assert audit.done == count
    assert sorted(seeds) == list(range(count))
    return note.read_text().splitlines()


@pytest.mark.slow
def test_killed_drivers_lose_only_what_was_in_flight(tmp_path):
    executed = killed_study(tmp_path, 40, 2)
    # Two workers, four runs in flight: no kill costs more.
    assert 40 <= len(executed) <= 40 + 2 * 4


@pytest.mark.soak
def test_a_thousand_runs_and_twenty_kills(tmp_path, tally):
    executed = killed_study(tmp_path, 1000, 20)
    tally("kills of a study's driver", 20)
    assert 1000 <= len(executed) <= 1000 + 20 * 4


@pytest.mark.slow
def test_workers_end_with_their_driver(tmp_path):
    path = tmp_path / "runs.sqlite"
    command = [sys.executable, "-c", DRIVER, str(path), "5000", "", str(tmp_path / "note.txt")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": PATHS})
    while int(driver.stdout.readline()) == 0:
        pass
    driver.kill()
    driver.communicate(timeout=20)  # ends when the last process that has the driver's output open is gone


@pytest.mark.slow
def test_failures_are_rows_and_a_deadly_run_does_not_stop_the_others(tmp_path):
    live, rows, audit = run(tmp_path, definitions(6, "troubled", sleep=0.2))
    status = {row.definition["seed"]: row.status for row in rows}
    assert status == {0: "done", 1: "failed", 2: "diverged", 3: "failed", 4: "done", 5: "done"}
    reasons = {row.definition["seed"]: row.outcome.get("reason") for row in rows}
    assert reasons[1].startswith("MemoryError: no room (study_runners.py, line ")
    assert reasons[3].startswith("its worker ended 4 times: BrokenProcessPool")
    assert audit.sound
    assert (live.done, live.failed, live.total) == (4, 2, 6)


@pytest.mark.slow
def test_a_rerun_repeats_nothing_but_failures_when_asked(tmp_path):
    note = tmp_path / "note.txt"
    runs = definitions(10, note=str(note))
    bad = {"runner": "study_runners:nothing", "problem": "p", "model": "m", "size": 1, "seed": 0, "training": {}}
    run(tmp_path, [*runs[:7], bad])
    live, _, audit = run(tmp_path, [*runs, bad])
    assert (live.fresh, live.done, live.failed, audit.rows) == (3, 10, 1, 11)
    assert len(note.read_text().splitlines()) == 10
    live, rows, audit = run(tmp_path, [*runs, bad], retry_failed=True)
    assert (live.fresh, audit.failed, rows[-1].attempt) == (1, 2, 2)
    assert "must name a function" in rows[-1].outcome["reason"]


def test_spawned_workers_have_one_thread_and_progress_counts_up_to_the_whole(tmp_path):
    before, seen = dict(os.environ), []
    counts, rows, _ = run(tmp_path, [*definitions(2, "threads"), *definitions(28)], progress=seen.append)
    assert dict(os.environ) == before
    told = [row.outcome for row in rows if "environment" in row.outcome]
    assert len(told) == 2
    for outcome in told:
        assert outcome["environment"]["OMP_NUM_THREADS"] == outcome["environment"]["OPENBLAS_NUM_THREADS"] == "1"
        assert "--xla_cpu_multi_thread_eigen=false" in outcome["environment"]["XLA_FLAGS"]
        assert outcome["start"] == "SpawnProcess"
    shares = [event.share for event in seen]
    assert shares == sorted(shares)
    assert (shares[-1], seen[-1].extras) == (1.0, {"done": 30, "failed": 0, "running": 0, "of": 30})
    assert seen[-1].words == "runs, done 30, failed 0, running 0, of 30"
    assert (counts.total, counts.done, counts.fresh) == (30, 30, 30)
    lowest, label = counts.best["p", "m"]
    assert 1 <= lowest < 2
    assert label.startswith("1, seed ")
    assert Counts(10, 4, 1, fresh=4, seconds=2.0).event.seconds_left == pytest.approx(2.5)


@pytest.mark.bench
def test_overhead_per_run(tmp_path):
    run(tmp_path, definitions(1))
    with Store(tmp_path / "many.sqlite", write=True) as store:
        live = execute(definitions(2000), store, workers=local(1))
        spent = sum(row.outcome["seconds"] for row in store.rows())
    assert (live.seconds - spent) / 2000 < 5e-3


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    dask_config = importlib.import_module("dask.config")
    # A local cluster drops a killed worker for good when it is not back within 15 s, and then waits without workers: on a busy
    # machine starting one takes longer.
    with (
        dask_config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, worker_dashboard_address=None
        ) as found,
    ):
        yield found


def kill_workers_at_random(cluster, kills, stop):
    """Kill a worker every few seconds, `kills` times; returns the thread and the list of those killed."""
    rng = random.Random(2)
    killed = []

    def work():
        while len(killed) < kills and not stop.wait(1.0 + 2 * rng.random()):
            # A nanny starts another worker when a running one dies, but gives up when one dies while it starts.
            ready = [n for n in list(cluster.workers.values()) if n.worker_address in cluster.scheduler.workers]
            process = rng.choice(ready).process if ready else None
            if process is not None and process.pid is not None and process.pid not in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, killed


@pytest.mark.soak
def test_dask_with_a_thousand_runs_and_killed_workers_and_drivers(tmp_path, cluster, monkeypatch, tally):
    monkeypatch.setenv("PYTHONPATH", PATHS)
    stop = threading.Event()
    thread, killed = kill_workers_at_random(cluster, 20, stop)
    try:
        executed = killed_study(tmp_path, 1000, 20, cluster.scheduler_address)
    finally:
        stop.set()
        thread.join()
    tally("kills of a study's driver", 20)
    tally("kills of Dask workers", len(killed))
    assert len(killed) >= 10
    assert len(set(executed)) == 1000


def test_a_dask_result_that_cannot_be_fetched_is_sent_again(tmp_path, cluster, monkeypatch):
    """What distributed's own executor answers with a future that never ends."""
    import distributed

    fetch, lost = distributed.Client._gather, []

    async def lose_some(self, wanted, *rest, **options):
        if len(lost) < 3:
            lost.append(wanted)
            raise distributed.scheduler.KilledWorker("task", None, 4)
        return await fetch(self, wanted, *rest, **options)

    monkeypatch.setattr(distributed.Client, "_gather", lose_some)
    with Store(tmp_path / "s.sqlite", write=True) as store:
        live = execute(definitions(20), store, workers=dask(cluster.scheduler_address))
        assert store.audit().sound
    assert len(lost) == 3
    assert (live.done, live.failed) == (20, 0)


def test_dask_runs_the_same_tasks(tmp_path, cluster):
    runs = definitions(20)
    with Store(tmp_path / "s.sqlite", write=True) as store:
        live = execute(runs, store, workers=dask(cluster.scheduler_address))
        assert {row.key for row in store.rows()} == {run_key(d) for d in runs}
    assert (live.done, live.failed) == (20, 0)


@pytest.mark.slow
def test_an_interrupted_study_says_what_is_kept(tmp_path):
    spec = tmp_path / "s.toml"
    spec.write_text(
        'runner = "study_runners:score"\nproblems = ["p"]\nseeds = 2000\n[training]\nsleep = 0.02\n'
        '[[models]]\nname = "m"\nsizes = [1]\n[[optimizers]]\nname = "adam"\nrate = 0.1\n'
    )
    command = [sys.executable, "-m", "flm", "study", "run", str(spec), "--workers", "1"]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": PATHS})
    path = tmp_path / "s.sqlite"
    give_up = time.monotonic() + 600  # on a busy machine the imports alone take minutes
    kept = 0
    while not kept and time.monotonic() < give_up:
        time.sleep(0.2)
        with contextlib.suppress(OSError), Store(path) as store:
            kept = len(store.keys())
    driver.send_signal(signal.SIGINT)
    _, told = driver.communicate(timeout=300)
    assert driver.returncode == 1
    assert "stopped." in told
    assert "the same command goes on from there" in told
    with Store(path) as store:
        audit = store.audit()
    assert audit.sound
    assert f"{audit.done:,} new runs are kept" in told
