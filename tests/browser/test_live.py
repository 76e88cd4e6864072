"""What a page shows is what Python says: values under the pointer, sliders, trajectories of control laws, nothing cut off."""

import numpy as np
import pytest
from shown_problems import heat_on_a_square, ring

import flm
from flm.report.pages.answer import control_page, solution_page
from flm.report.pages.layout import Request

pytestmark = pytest.mark.browser


SOLVED = {
    "heat": lambda: flm.solve(flm.problems.heat(), 1e-6),
    "region": lambda: flm.solve(ring(), 1e-4),
    "family": lambda: flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-4),
    "plane and time": lambda: flm.solve(heat_on_a_square(), 1e-4),
}
LAWS = {
    "a ball on the simplex": lambda: flm.problems.rock_paper_scissors(initial=flm.Ball((0.2, 0.2, 0.6), 0.1)),
    "bounded, one start": lambda: flm.problems.double_integrator(),
    "free time, one start": lambda: flm.problems.minimum_time(),
    "free time, a ball": lambda: flm.problems.minimum_time(flm.Ball((1.0, 0.0), 0.2)),
}


def point_at(page, across, up):
    """Move the pointer over the first live figure; the point and the values that the page reads there."""
    canvas = page.locator("figure.answer canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + across * box["width"], box["y"] + up * box["height"])
    read = "f => ({point: JSON.parse(f.dataset.point), value: JSON.parse(f.dataset.value)})"
    return page.locator("figure.answer").first.evaluate(read)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("kind", SOLVED)
def test_the_value_under_the_pointer_is_the_solution(kind, opened, tmp_path):
    solution = SOLVED[kind]()
    path = solution_page(solution, Request(kind)).write(tmp_path / "index.html")
    assert path.stat().st_size < 300_000 or kind == "region"
    for width in (1280, 390):
        page = opened(path.as_uri(), width)
        sliders = page.locator("figure.answer input[type=range]")
        for moved in range(1 + sliders.count()):
            if moved:  # each slider in turn, by its keys
                sliders.nth(moved - 1).focus()
                page.keyboard.press("PageUp")
            places = [point_at(page, *at) for at in ((0.3, 0.4), (0.55, 0.2), (0.7, 0.6))]
            places = [place for place in places if place["value"]]
            assert places
            for place in places:
                wanted = np.asarray(solution(np.array([place["point"]]))).ravel()
                np.testing.assert_allclose(place["value"], wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max() + 1e-13)
        assert page.complaints == []
        assert fits(page)


def test_a_family_shows_its_own_axes_and_the_estimate_beside_the_parameter(opened, tmp_path):
    family = flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-4)
    page = opened(solution_page(family, Request("family")).write(tmp_path / "index.html").as_uri())
    assert page.locator("figure.answer input[data-axis]").get_attribute("data-axis") == "alpha"
    slider, told = page.locator("figure.answer input[data-axis=alpha]"), page.locator("figure.answer .told")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
        local = float(told.text_content().split()[-1])
        assert 0 < local <= family.error_estimate * 1.06
        alpha = page.locator("figure.answer").evaluate("f => f.live.at[2]")
        exact = flm.solve(flm.problems.heat(alpha=alpha), 1e-8)
        points = exact.test_points()
        wanted, found = np.asarray(exact(points)), np.asarray(family.at(alpha=alpha)(points))
        assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) <= local


def test_keys_and_zoom_evaluate_anew(opened, tmp_path):
    solution = flm.solve(flm.problems.heat(), 1e-6)
    page = opened(solution_page(solution, Request("heat")).write(tmp_path / "index.html").as_uri())
    before = point_at(page, 0.4, 0.4)["point"]
    page.locator("figure.answer canvas").first.focus()
    for key in ("+", "+", "ArrowRight"):
        page.keyboard.press(key)
    figure = page.locator("figure.answer").first
    now = figure.evaluate(
        "f => ({point: JSON.parse(f.dataset.point), value: JSON.parse(f.dataset.value), w: f.live.window})"
    )
    assert now["point"] != before
    assert all(high - low < 0.65 for low, high in now["w"])
    np.testing.assert_allclose(now["value"], np.asarray(solution(np.array([now["point"]]))), rtol=1e-9)
    page.keyboard.press("0")
    assert figure.evaluate("f => f.live.window") == [[0, 1], [0, 1]]
    page.select_option("figure.answer select >> nth=0", label="u_xx")
    place = point_at(page, 0.5, 0.5)
    wanted = solution.d("xx")(np.array([place["point"]]))
    np.testing.assert_allclose(place["value"], np.asarray(wanted), rtol=1e-9)
    assert page.complaints == []


def test_curves_that_share_a_figure_have_one_choice_and_numbers_are_not_broken(opened, tmp_path):
    solution = flm.solve(flm.problems.lotka_volterra(end=1.0), 1e-6)
    page = opened(solution_page(solution, Request("hares")).write(tmp_path / "index.html").as_uri(), 390)
    choice = page.locator("figure.answer select")
    assert choice.locator("option").all_text_contents() == ["x, y", "x_t", "y_t", "x_tt", "y_tt"]
    choice.select_option(label="y_t")
    place = point_at(page, 0.5, 0.5)
    np.testing.assert_allclose(
        place["value"], np.asarray(solution.d("t")(np.array([place["point"]])))[0, 1:], rtol=1e-9
    )
    choice.select_option(label="x, y")
    assert len(point_at(page, 0.4, 0.5)["value"]) == 2
    assert page.locator(".summary .whole").first.text_content() in solution.status.sentence
    assert page.locator(".facts .whole").all_text_contents()[1].startswith("t = ")  # nor is a place
    assert page.complaints == []


@pytest.mark.parametrize("kind", LAWS)
def test_a_control_law_is_followed_from_any_start(kind, opened, tmp_path):
    law = flm.solve(LAWS[kind](), 1e-3)
    page = opened(control_page(law, Request("law")).write(tmp_path / "index.html").as_uri(), 390)
    figure = page.locator("figure.answer").first
    starts = law.starts.lift(law.starts.spread(3, seed=5)) if law.starts.dimension else [None]
    for start in starts:
        x0 = law.starts.lift(law.starts.center) if start is None else start
        times = np.linspace(0.0, law.horizon(x0), 7)
        at = [[t, *x0[: law.starts.dimension]] for t in times]
        read = "(f, at) => at.map((p) => f.live.data.unknowns.map((_, k) => f.live.value(p, k)))"
        found = np.array(figure.evaluate(read, at), float)
        states, controls = law.trajectory(times, x0), law.control(times, x0).reshape(len(times), -1)
        np.testing.assert_allclose(found[:, : states.shape[1]], states, atol=1e-6)
        np.testing.assert_allclose(found[:, states.shape[1] :], controls, rtol=1e-9, atol=1e-9)
        cost = figure.evaluate("(f, v) => f.live.answer.from(v).cost", list(map(float, x0[: law.starts.dimension])))
        assert abs(cost - law.cost(x0)) < 1e-6 * (1 + abs(cost))
    for slider in page.locator("figure.answer input[type=range]").all():  # dragged out of the set it stays inside
        slider.evaluate("(s) => { s.value = 1000; s.dispatchEvent(new Event('input')); }")
        here = figure.evaluate("f => f.live.at.slice(1)")
        assert law.starts.contains(np.array([here])).all()
    assert page.complaints == []
    assert fits(page)
