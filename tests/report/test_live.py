"""Live figures: what the page evaluates is what Python evaluates, to the last digits, and sliders move it."""

import dataclasses
import html
import json
import re
import shutil
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest
from shown_problems import heat_on_a_square, ring

import flm
from flm.report.live import live, tape
from flm.report.pages.layout import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def needs_browser(test):
    return pytest.mark.browser(pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")(test))


PROBE = """<script>
window.addEventListener("load", () => {
  const figure = document.querySelector("figure.answer"), live = figure.live, found = {};
  found.range = live.range(0);
  found.values = POINTS.map(([point, unknown, orders]) => live.value(point, unknown, orders));
  const canvas = figure.querySelector("canvas"), box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + 0.6 * box.width, clientY: box.top + 0.4 * box.height };
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
  const pointed = () => ({ point: JSON.parse(figure.dataset.point), value: JSON.parse(figure.dataset.value) });
  found.pointed = [pointed()];
  for (const slider of figure.querySelectorAll("input[type=range]")) {
    slider.value = 700;
    slider.dispatchEvent(new Event("input"));
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
    found.pointed.push(pointed());
  }
  found.milliseconds = Number(figure.dataset.ms);
  found.wide = document.documentElement.scrollWidth > window.innerWidth;
  found.errors = window.errors;
  const time = live.axes.indexOf("t");
  if (time >= 0) {  // opacities along columns of the map (or the curves) and of a curve in time
    const columns = () => COLUMNS.map((part) => {
      const { inner } = live.plot, ratio = canvas.width / canvas.clientWidth;
      const at = [live.pad.left + part * inner.w, live.pad.top + 2, 1, inner.h - 4];
      const { data } = canvas.getContext("2d").getImageData(...at.map((v) => Math.round(v * ratio)));
      return [...new Set(data.filter((_, i) => i % 4 === 3))];
    });
    canvas.dispatchEvent(new PointerEvent("pointerleave"));
    found.opacities = [columns()];
    live.choose([time]);
    live.draw();
    found.opacities.push(columns());
    found.end = live.plot.right;
  }
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script></body>"""
WATCH = """<head><script>window.errors = []; window.onerror = (message) => { window.errors.push(message); };</script>"""


SOLVED = {
    "one piece": lambda: flm.solve(flm.problems.heat(), 1e-6),
    "sub-networks": lambda: flm.solve(flm.problems.heat(), num_subnets=9),
    "a region": lambda: flm.solve(ring(), 1e-6),
    "a march": lambda: flm.solve(flm.problems.korteweg_de_vries(0.05), 1e-4, method="march"),
    "a system": lambda: flm.solve(flm.problems.lotka_volterra(5.0), 1e-4),
    "a family": lambda: flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-4),
    "a square in time": lambda: flm.solve(heat_on_a_square(), 1e-4),
}


def browsed(solution, tmp_path, points, width=900, columns=()):
    page = Page("A live figure", sections={"Live": [live(solution)]}).html()
    path = tmp_path / "page.html"
    probe = PROBE.replace("POINTS", json.dumps(points)).replace("COLUMNS", json.dumps(columns))
    path.write_text(page.replace("<head>", WATCH, 1).replace("</body>", probe), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    flags += [f"--window-size={width},900", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True, timeout=240, check=True)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert match, "the script of the page did not run to its end"
    return json.loads(html.unescape(match.group(1)))


@needs_browser
@pytest.mark.parametrize("kind", SOLVED)
def test_the_page_evaluates_the_answer(kind, tmp_path):
    solution, m = (found := SOLVED[kind]()), len(found.axes)
    draw = np.random.default_rng(1).uniform(*np.asarray(solution.reach).T, (60, m))
    points = draw[solution.domain.contains(draw)][:6]
    orders = [tuple(order * (i == j) for i in range(m)) for order in (1, 2) for j in range(m)]
    orders = [(0,) * m, *orders]
    unknowns = range(len(solution.unknowns))
    asked = [(p.tolist(), k, d) for p in points for k in unknowns for d in orders]
    found = browsed(solution, tmp_path, asked, width=390)
    jets = np.asarray(solution.model.jets(points, orders)).reshape(len(orders), len(points), -1)
    wanted = np.array([jets[a, i, k] for i in range(len(points)) for k in unknowns for a in range(len(orders))])
    sizes = np.array([np.abs(jets[a, :, k]).max() for _ in points for k in unknowns for a in range(len(orders))])
    assert np.max(np.abs(np.array(found["values"], float) - wanted) / sizes) < 1e-9
    for place in found["pointed"]:
        values = np.asarray(solution(np.array([place["point"]]))).ravel()
        if place["value"]:  # the pointer may be outside of a region
            shown = values if len(place["value"]) == len(values) else values[:1]
            np.testing.assert_allclose(place["value"], shown, rtol=1e-9, atol=1e-12)
    assert len(found["pointed"]) == 1 + max(m - 2, 0)
    assert found["errors"] == []
    assert not found["wide"]


@needs_browser
@pytest.mark.parametrize("most_bytes", [None, 100])
def test_what_lies_beyond_the_trusted_time_is_shaded_and_empty(most_bytes, monkeypatch, tmp_path):
    if most_bytes:  # the same where the answer is sampled
        monkeypatch.setattr("flm.report.live.MOST_BYTES", most_bytes)
    part = 0.3  # of the time; the model goes on beyond it
    whole = flm.solve(flm.problems.korteweg_de_vries(0.05), 1e-3, method="march")
    solution = dataclasses.replace(whole, trusted_until=part)
    columns = [part / 2, part - 0.01, part + 0.01, part + 0.05, 0.99]  # words stand in the middle of the shade
    found = browsed(solution, tmp_path, [([0.1, solution.trusted_until + 0.01], 0, (0, 0))], columns=columns)
    assert found["errors"] == []
    assert found["values"] == [None]  # NaN
    assert found["end"] == 1.0
    shade = round(0.35 * 255)
    for before, *rest in found["opacities"]:
        assert max(before) == 255
        assert all(len(column) == 1 and abs(column[0] - shade) <= 1 for column in rest[1:])
        assert rest[0] != rest[1]


def test_a_large_answer_is_sampled_and_says_so():
    solution = flm.solve(flm.problems.heat(), 1e-4)
    assert not live(solution).sampled
    import flm.report.live as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BYTES", 100)
        sampled = live(solution)
    assert sampled.sampled
    assert "interpolated" in sampled.caption


def test_a_page_refuses_what_it_would_compute_otherwise():
    assert tape(lambda x, y: [jnp.abs(x - y) % 2], 2) is not None
    assert tape(lambda x: [x.astype(int) % 2], 1) is None  # cut to a whole number
    assert tape(lambda x, y: [jnp.abs(x + 1j * y)], 2) is None


def test_a_conservation_law_is_live_up_to_the_number_of_waves_that_a_page_sums():
    law = flm.solve(flm.problems.burgers(), tol=1e-2)
    assert len(law.series.frequencies) < 4_000
    figure = law.live()
    assert not figure.sampled


@needs_browser
def test_the_page_finds_the_range_of_waves(tmp_path):
    law = flm.solve(flm.problems.burgers(), tol=1e-2)
    (low, high), values = browsed(law, tmp_path, [])["range"], law.on_grid(41)[1]
    assert values.min() - 0.05 <= low <= values.min() + 0.05
    assert values.max() - 0.05 <= high <= values.max() + 0.05
