"""Pages: self-contained, escaped, and working in a browser where there is one."""

import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import flm
from flm.report.page import Code, Curves, HeatMap, Page, Picture, Section, Table, Text
from flm.report.solution_page import solution_page
from flm.solution import Solution, Status

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def page():
    model = flm.FLM(2, 3, key=0)
    object.__setattr__(model, "amplitudes", np.ones(model.amplitudes.shape))
    bounds = np.array([[0.0, 1.0], [0.0, 2.0]])
    exact = lambda points: np.ones(len(points))
    status = Status("converged", "converged: done.")
    solution = Solution(model, ("x", "t"), ("u",), bounds, status, 1e-9, {}, {"columns": [3, 9]}, exact=exact)
    made = solution_page(solution, title="A <test>", asked="u_t = u_xx & more", command="flm solve test.toml")
    extra = Section(
        "Extra",
        [
            Text("A & B"),
            Table(["name", "value"], [["b", "10"], ["a", "9"], ["c", "1e-3"]]),
            Curves([0.0, 1.0, 2.0], {"y": [0.0, float("nan"), 4.0]}, "s"),
            HeatMap([0.0, 1.0], [0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]], ("p", "q", "w")),
            Code("<script>alert(1)</script>"),
        ],
    )
    return Page(made.title, made.summary, made.facts, [*made.sections, extra])


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.addresses, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "img", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_network(page):
    text = page.html()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.addresses
    assert all(a.startswith(("data:", "#")) for a in reader.addresses)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", text)


def test_what_was_asked_is_escaped(page):
    text = page.html()
    assert "<title>A &lt;test&gt;</title>" in text
    assert "u_t = u_xx &amp; more" in text
    assert "<script>alert(1)</script>" not in text


def test_the_page_says_what_was_found(page):
    text = page.html()
    for part in ("What was asked", "What was found", "The series", "How sure", "flm solve test.toml", "1.00e-09"):
        assert part in text


def test_numbers_for_the_script_are_json():
    curves = json.loads(Curves([0.0, 1.0], {"y": [float("nan"), 1 / 3]}).data)
    assert curves["curves"]["y"] == [None, 0.33333]
    picture = Picture(solution_figure())
    assert picture.address.startswith("data:image/png;base64,")


def solution_figure():
    from flm.report.style import new_figure

    figure = new_figure(1, 1)
    figure.subplots().plot([0, 1])
    return figure


PROBE = """<script>
window.addEventListener("load", () => {
  const found = {};
  const table = [...document.querySelectorAll("table")].pop();
  const column = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i].textContent);
  table.querySelectorAll("th button")[1].click();
  found.ascending = column(1);
  table.querySelectorAll("th button")[1].click();
  found.descending = column(1);
  const live = [...document.querySelectorAll("figure.live")];
  found.shown = live.map((figure) => !figure.hidden && figure.querySelector("canvas").width > 100);
  const canvas = live[live.length - 1].querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width - 20, clientY: box.top + 20 }));
  found.value = live[live.length - 1].querySelector("output").textContent;
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
  found.after = live[live.length - 1].querySelector("output").textContent;
  found.wide = document.documentElement.scrollWidth > window.innerWidth;
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(page, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(page.html().replace("</body>", PROBE), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
    ]
    command = [CHROMIUM, *flags, "--virtual-time-budget=2000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert match, "the script of the page did not run to its end"
    found = json.loads(html.unescape(match.group(1)))
    assert found["ascending"] == ["1e-3", "9", "10"]
    assert found["descending"] == ["10", "9", "1e-3"]
    assert all(found["shown"])
    assert len(found["shown"]) == 3
    assert found["value"] == "p = 1, q = 1: w = 4"
    assert found["after"] == "p = 0, q = 1: w = 2"
    assert not found["wide"]
