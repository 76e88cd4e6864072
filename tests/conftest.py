"""Shared settings: examples enough to find mistakes, few enough to stay quick; no deadline, since XLA compiles."""

import ctypes
import gc
import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

# Half of the time of the tests was XLA's compiler. They run each program for moments only, so it does not have to make them fast;
# bench and soak, and whoever sets XLA_FLAGS, test what it makes by default. Another version may not know these flags: it aborts.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
if "XLA_FLAGS" not in os.environ and not {"bench", "soak"} & set(sys.argv):
    probe = [sys.executable, "-c", "import jax; jax.devices()"]
    known = (
        subprocess.run(probe, env=os.environ | {"XLA_FLAGS": QUICK}, capture_output=True, check=False).returncode == 0
    )
    os.environ["XLA_FLAGS"] = QUICK if known else ""

import jax
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["browser_window"]

settings.register_profile(
    "flm", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flm")

# Compiled programs are kept between runs. A folder for each kind of processor, since machine code is made for one, and for each
# worker, since two must not write one file.
CPU = Path("/proc/cpuinfo")
FLAGS = CPU.read_text().partition("flags")[2].partition("\n")[0] if CPU.exists() else platform.processor()
KIND = hashlib.sha256((FLAGS + os.environ.get("XLA_FLAGS", "")).encode()).hexdigest()[:12]
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache" / "xla" / KIND / WORKER))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# Tests press Ctrl-C in processes of their own. A shell starts what is in the background deaf to it, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """A twentieth of the time was Python's search for cycles, over everything that was imported too."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


TALLY = pytest.StashKey[dict[str, int]]()


@pytest.fixture
def tally(request):
    """Counts to be printed at the end of the tests: `tally("kills of training", 40)` adds 40."""
    counts = request.config.stash.setdefault(TALLY, {})
    return lambda what, count=1: counts.update({what: counts.get(what, 0) + count})


def pytest_terminal_summary(terminalreporter, config):
    """What the long tests did, in numbers."""
    counts = config.stash.get(TALLY, {})
    if counts:
        terminalreporter.section("counts")
        for what, count in sorted(counts.items()):
            terminalreporter.write_line(f"{count:8,}  {what}")


BEGAN, SOAK_SECONDS = time.monotonic(), 17 * 60


def pytest_runtest_setup(item):
    """No long test starts when `make soak` is close to its 20 minutes."""
    if item.get_closest_marker("soak") and time.monotonic() - BEGAN > SOAK_SECONDS:
        pytest.skip("the time for long tests is over")


MOST_MEMORY = 1_500_000_000  # bytes of a process before compiled programs are thrown away
ROOM = 600_000_000  # for new ones
STATM = Path("/proc/self/statm")  # Linux; elsewhere programs pile up
limit = MOST_MEMORY


def memory():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0


def pytest_runtest_teardown():
    """Keep a worker below 2 GB: XLA's programs pile up, and the C library keeps what they leave unless it is told otherwise."""
    global limit
    if "jax" in sys.modules and memory() > limit:
        sys.modules["jax"].clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        limit = max(MOST_MEMORY, memory() + ROOM)
