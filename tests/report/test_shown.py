"""How answers are shown: in notebooks, in axes of one's own, as animations, with their readings."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest

import flm
from flm.report import files
from flm.report.pages.answer import solution_page
from flm.report.pages.layout import Request

ALPHA = 0.1


@pytest.fixture(scope="module")
def heat():
    return flm.solve(flm.problems.heat(), 1e-4)


@pytest.mark.slow
def test_a_notebook_has_the_status_the_figure_and_the_series(heat, monkeypatch):
    text = heat._repr_html_()
    assert text.index("converged") < text.index("<iframe") < text.index("$$u(x, t) = 0.7")
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    text = heat._repr_html_()
    assert "<iframe" not in text
    assert "data:image/png" in text


def test_a_formula_is_the_series(heat):
    shown = files.formula("u", flm.PhaseSeries([[2.0, 1.0]], [[3.0, 0.0]], [[0.5, 0.0]], ("x", "t")))
    assert shown.startswith(r"u(x, t) = 3 \cos(2 x +1 t -0.5)")


def test_plot_draws_where_it_is_told_and_shows_its_signature(heat):
    figure, ax = plt.subplots()
    assert heat.plot(ax=ax) is figure
    assert ax.get_title(loc="left") == "u"
    assert len(ax.images) == 1
    assert heat.plot(axes="x", at={"t": 0.5}, ax=plt.subplots()[1]) is not figure
    assert list(inspect.signature(flm.Solution.plot).parameters)[1:] == [
        "axes",
        "at",
        "shape",
        "error",
        "spectrum",
        "ax",
    ]
    with pytest.raises(ValueError, match="`ax` must be left out with `error`"):
        heat.plot(ax=ax, error=True)
    plt.close("all")


def test_an_animation_shows_the_solution_at_each_time(heat):
    moving = heat.animate("t", frames=3)
    moving._func(2)
    (line,) = moving._fig.axes[0].lines
    x, u = line.get_data()
    np.testing.assert_allclose(u, heat(x=x, t=1.0), rtol=1e-12, atol=1e-14)
    assert moving._fig.axes[0].get_title(loc="left") or moving._fig.axes[0].get_title()
    moving._draw_was_started = True
    with pytest.raises(ValueError, match="`axis` must be one of x, t; got"):
        heat.animate("y")


@pytest.mark.slow
def test_readings_are_on_the_page_with_what_is_expected_of_them():
    rng, sigma = np.random.default_rng(2), 0.01
    points = rng.uniform(0.1, 0.9, (30, 1))
    values = np.exp(-ALPHA * points[:, 0]) + sigma * rng.standard_normal(30)
    problem = flm.PDE(
        flm.Box(t=(0, 1)),
        lambda u, u_t, alpha: u_t + alpha * u,
        [flm.initial(1.0), flm.data(points, values, sigma=sigma)],
        parameters={"alpha": flm.Learn(0.5)},
    )
    solution = flm.solve(problem, 1e-4)
    page = solution_page(solution, Request("decay", problem=problem)).html()
    away = np.asarray(solution(points)) - values
    assert f"add to {np.sum((away / sigma) ** 2):.4g}; 29 ±" in page
    assert "30 readings" in page
    assert "&#34;readings&#34;" in page
    without = solution_page(solution, Request("decay")).html().partition("<script>")[0]
    assert "&#34;readings&#34;" not in without
    assert "30 readings" not in without
