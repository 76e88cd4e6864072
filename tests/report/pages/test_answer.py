"""Pages: self-contained, escaped, and working in a browser where there is one."""

import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import flm
from flm.report.facts import facts_of
from flm.report.figures.fields import plot_amplitudes
from flm.report.live import curves
from flm.report.pages.answer import UNSURE, solution_page
from flm.report.pages.layout import Code, Page, Request, Table
from flm.results import Ending, Solution, Word

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def page():
    model = flm.FLM(2, 3, key=0)
    object.__setattr__(model, "amplitudes", np.ones(model.amplitudes.shape))
    bounds = np.array([[0.0, 1.0], [0.0, 2.0]])
    exact = lambda points: np.ones(len(points))
    solution = Solution(
        model=model,
        axes=("x", "t"),
        unknowns=("u",),
        bounds=bounds,
        ending=Ending(Word.CONVERGED),
        error_estimate=1e-9,
        tolerance=1e-8,
        history={"columns": [3, 9]},
        exact=exact,
    )
    made = solution_page(solution, Request("A <test>", "u_t = u_xx & more", "flm solve test.toml"))
    extra = [
        "A & B",
        Table(["name", "value"], [["b", "10"], ["a", "9"], ["c", "1e-3"]]),
        curves(np.linspace(0, 3, 4), {"y": np.array([0.0, np.nan, 4.0, 6.0])}, "s", "Two pieces of a line."),
        Code("<script>alert(1)</script>"),
    ]
    return Page(made.title, made.summary, made.facts, made.sections | {"Extra": extra})


def test_sections_whose_titles_make_one_name_have_files_of_their_own():
    first, second = Table(["a"], [["1"]]), Table(["a"], [["2"]])
    page = Page("a page", sections={"Error, by size": [first], "Error by size": [second], "Other": [first]})
    assert page.files == {"error_by_size_1.csv": first, "error_by_size_2.csv": second, "other.csv": first}


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


PROBE = """<script>
window.addEventListener("load", () => {
  const found = {};
  const table = [...document.querySelectorAll("table")].pop();
  const column = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i].textContent);
  table.querySelectorAll("th button")[1].click();
  found.ascending = column(1);
  table.querySelectorAll("th button")[1].click();
  found.descending = column(1);
  const live = [...document.querySelectorAll("figure.answer")];
  found.shown = live.map((figure) => !figure.hidden && figure.querySelector("canvas").width > 100);
  const canvas = live[live.length - 1].querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + 58 + (box.width - 72) * 5 / 6, clientY: box.top + 20 };
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
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


def browse(html_text, tmp_path, width):
    """What a script at the end of a page found in a browser of that width."""
    path = tmp_path / "page.html"
    path.write_text(html_text, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
    ]
    command = [CHROMIUM, *flags, "--virtual-time-budget=2000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert match, "the script of the page did not run to its end"
    return json.loads(html.unescape(match.group(1)))


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(page, tmp_path, width):
    found = browse(page.html().replace("</body>", PROBE), tmp_path, width)
    assert found["ascending"] == ["1e-3", "9", "10"]
    assert found["descending"] == ["10", "9", "1e-3"]
    assert all(found["shown"])
    assert len(found["shown"]) == 2
    for text in (found["value"], found["after"]):
        s, y = map(float, re.fullmatch(r"s = (\S+): y = (\S+)", text).groups())
        assert 2.4 < s < 2.6
        assert y == pytest.approx(2 * s)
    assert found["value"] != found["after"]
    assert not found["wide"]


def test_dark_is_for_screens_and_print_cuts_nothing(page):
    text = page.html()
    assert re.findall(r"@media[^{]*dark\)", text) == ["@media screen and (prefers-color-scheme: dark)"]
    printed = text[text.index("@media print") :]
    assert ".scroll, figure { overflow: visible; }" in printed
    assert re.search(r"\nth {[^}]*white-space: normal", text)  # headers of wide tables break, on screens too
    assert "pre { white-space: pre-wrap" in printed
    assert re.search(r"\npre {[^}]*white-space: pre; overflow-x: auto", text)  # on screens, long lines are scrolled
    assert re.search(r"\ntable.wide td {[^}]*white-space: normal", text)  # and wide tables fit, by wrapping


def test_numbers_of_wide_tables_do_not_break():
    table = Table(["a", "b", "c", "d"], [["1", "2", "3", "1.2e-05 ± 4.5e-06 (9 of 10 runs)"]])
    text = Request("s", "t", "c").page("s", {"runs": "1"}, {"table": [table]}).html()
    assert '<span class="whole">±\u00a04.5e-06</span>' in text


@pytest.fixture(scope="module")
def others():
    """The pages of a control law and of a fit."""
    from flm.report.pages.answer import control_page, fit_page

    problem = flm.OptimalControl(
        dynamics=lambda x, f: (f - x,),
        running_cost=lambda x, f: x**2 + f**2,
        horizon=1.0,
        states=("x",),
        controls=("f",),
        initial=(1.0,),
    )
    law = flm.solve(problem, tol=1e-2)
    X = np.linspace(0, 10, 60)[:, None]
    y = np.sin(3 * X[:, 0])
    model = flm.FLMRegressor(2).fit(X, y)
    return {
        "control": control_page(law, Request("A law", "x' = f - x", "flm solve law.toml --tol " + "9" * 200)),
        "fit": fit_page(model, X, y, Request("y by x", "y by x", "flm fit xy.csv --target y")),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["control", "fit"])
def test_pages_of_laws_and_fits_say_what_was_found(others, kind):
    text = others[kind].html()
    for part in ("What was asked", "What was found", "How sure", "How to reproduce it"):
        assert f"<h2>{part}</h2>" in text
    assert not re.search(r"(>|± )(nan|inf)<", text)
    if kind == "fit":
        assert re.search(
            r'<span class="whole">1(\.0+)?</span> <span class="whole">±\xa0\S+</span>', text
        )  # sin 3x, and its error
        assert "The constant is" in text


def answered(amplitudes=((-2.0,), (3.0,)), **changes):
    """An answer 3 cos t − 2 on [0, 2], as far as it is trusted."""
    model = flm.FLM(1, 2, key=0)
    for name, value in (("frequencies", [[0.0], [1.0]]), ("amplitudes", amplitudes), ("phases", [[0.0], [0.0]])):
        object.__setattr__(model, name, np.asarray(value))
    known = {"model": model, "axes": ("t",), "unknowns": ("u",), "bounds": np.array([[0.0, 2.0]]), "tolerance": 1e-8}
    return Solution(**known | {"ending": Ending(Word.STOPPED), "error_estimate": np.inf} | changes)


def test_without_an_estimate_the_figure_says_so_and_small_values_are_values():
    facts = facts_of(answered())
    assert facts["values of u"] == "-3.248 to 1, largest at t = 0"
    assert facts["estimated relative L2 error"] == "not known"
    assert UNSURE in solution_page(answered(), Request("u")).html()
    sure = solution_page(answered(ending=Ending(Word.CONVERGED), error_estimate=1e-9), Request("u")).html()
    assert UNSURE not in sure
    far = facts_of(answered([[3e9 + 1], [-3e9]]))
    assert far["values of u"].startswith("1 to 4.2")  # not 0: nothing says that 1 is rounding


@pytest.mark.slow
def test_an_axis_along_which_the_largest_value_stays_is_not_named():
    family = flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-3)
    assert facts_of(family)["values of u"] == "0 to 1, largest at x = 0.5, t = 0"  # for every alpha


def test_pieces_show_the_series_of_the_first():
    solution = flm.solve(flm.problems.lotka_volterra(end=4.0), 1e-6)
    text = solution_page(solution, Request("hares")).html()
    assert text.count("cosines A cos") == 2  # one for each unknown
    panel = plot_amplitudes(solution).axes[0]
    assert panel.get_title(loc="left") == "spectrum of the first piece"
    assert [entry.get_text() for entry in panel.get_legend().get_texts()] == ["x", "y"]


def test_an_estimate_until_some_time_is_not_called_none():
    stopped = answered(trusted_until=0.5, estimate_until=1e-9)
    assert "Estimated relative L2 error until then: 1.00e-09." in solution_page(stopped, Request("u")).html()
    words = answered(ending=Ending(Word.STOPPED, "stopped at t = 0.5", estimate_until=1e-9)).status.sentence
    assert words.endswith("up to there the error estimate is 1.0e-09; there is none for the whole.")


def test_the_norm_of_an_estimate_is_that_of_its_problem():
    law, exact = flm.problems.burgers(), lambda points: 3 * np.cos(points[:, 0]) - 1.9
    facts = facts_of(answered(error_estimate=1e-2, exact=exact), law)
    assert facts["estimated relative L1 error"] == "0.01"
    size = np.mean(np.abs(exact(answered().test_points())))
    assert float(facts["true relative L1 error"]) == pytest.approx(0.1 / size, rel=1e-2)


def test_a_problem_of_a_page_is_there_to_be_read(page):
    sections = {"What was asked": [Code("line\n" * 20)], "More": [Code("line\n" * 50)]}
    assert Page("Folded", sections=sections).html().count("<details>") == 1


CLICK = """<script>
window.addEventListener("load", () => {
  const found = { errors: window.errors || [], lost: [], sorted: 0 };
  for (const link of document.querySelectorAll("nav a")) {
    link.click();
    const target = document.querySelector(location.hash);
    if (!target || target.querySelector("h2").textContent !== link.textContent) found.lost.push(link.textContent);
  }
  for (const button of document.querySelectorAll("th button")) {
    button.click();
    found.sorted += button.parentElement.getAttribute("aria-sort") === "ascending";
  }
  found.buttons = document.querySelectorAll("th button").length;
  found.wide = document.documentElement.scrollWidth > window.innerWidth;
  found.live = [...document.querySelectorAll("figure.answer")].map((figure) => {
    const canvas = figure.querySelector("canvas"), box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 40 }));
    return figure.querySelector("output").textContent;
  });
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script></body>"""
WATCH = """<head><script>window.errors = []; window.onerror = (message) => { window.errors.push(message); };</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize(("kind", "width"), [("control", 390), ("fit", 1280)])
def test_clicking_through_laws_and_fits(others, kind, width, tmp_path):
    text = others[kind].html().replace("<head>", WATCH, 1).replace("</body>", CLICK)
    found = browse(text, tmp_path, width)
    assert (found["errors"], found["lost"], found["wide"]) == ([], [], False)
    assert found["sorted"] == found["buttons"] > 0
    assert all("=" in line for line in found["live"])
    assert len(found["live"]) == 1
