"""How long the live figure takes to redraw a field of 160 x 160 points, by the page's own clock, in the system's Chromium.

python benchmarks/pages.py        (Playwright and Chromium; prints a sentence where they are missing)
"""

import shutil
import statistics
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import flm
from flm.report.pages.answer import solution_page
from flm.report.pages.layout import Request

REDRAWS = 21
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def square() -> flm.PDE:
    sides = [flm.dirichlet(side) for side in ("x=0", "x=1", "y=0", "y=1")]
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, u_yy: u_t - 0.05 * (u_xx + u_yy),
        [flm.initial(lambda x, y: jnp.sin(np.pi * x) * jnp.sin(2 * np.pi * y)), *sides],
    )


PROBLEMS = {
    "heat, a line and time": (flm.problems.heat, 1e-8),
    "heat, a square and time": (square, 1e-4),
    "heat, a family": (lambda: flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-4),
}


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("The redraw of live figures was not timed: Chromium or Playwright is missing.")
        return
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, (make, tol) in PROBLEMS.items():
            path = solution_page(flm.solve(make(), tol), Request(name)).write(Path(folder) / "page.html")
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            redraw = "(f, n) => Array.from({length: n}, () => { f.live.draw(); return Number(f.dataset.ms); })"
            times = page.locator("figure.answer").first.evaluate(redraw, REDRAWS)
            spread = f"median {statistics.median(times):.1f} ms, best {min(times):.1f} ms of {REDRAWS}"
            print(f"{name}: 160 x 160 points, {spread}; page {path.stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
