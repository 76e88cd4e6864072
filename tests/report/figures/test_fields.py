"""Figures of solutions: what is drawn, from solutions built by hand."""

import sys
import warnings

import numpy as np
import pytest

import flm
from flm.report.figures.fields import plot_amplitudes, plot_solution
from flm.report.figures.style import limits, to_svg
from flm.report.pages.layout import Picture
from flm.results import Ending, Solution, Word


def solution(axes, unknowns=("u",), exact=None, domain=None):
    m, k = len(axes), len(unknowns)
    model = flm.FLM(m, 3, key=0, num_outputs=k)
    amplitudes = np.linspace(0.5, 1.0, model.amplitudes.size).reshape(model.amplitudes.shape)
    object.__setattr__(model, "amplitudes", amplitudes)
    bounds = np.tile([[0.0, 2.0]], (m, 1))
    return Solution(
        model=model,
        axes=tuple(axes),
        unknowns=unknowns,
        bounds=bounds,
        ending=Ending(Word.CONVERGED),
        error_estimate=1e-9,
        tolerance=1e-8,
        exact=exact,
        domain=domain,
    )


def test_one_axis_is_a_curve_with_its_values():
    found = solution("t")
    (panel,) = found.plot().axes
    line = panel.lines[0]
    np.testing.assert_allclose(line.get_ydata(), np.asarray(found(line.get_xdata())), rtol=1e-12)
    assert panel.get_xlabel() == "t"


def test_two_axes_are_a_map_with_its_values_and_time_to_the_right():
    found = solution("xt")
    panel = found.plot(shape=7).axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("t", "x")
    drawn = np.asarray(panel.images[0].get_array())  # rows are x, columns t
    _, values = found.on_grid(7)
    np.testing.assert_allclose(drawn, values, rtol=1e-12)
    panel = solution("xy").plot(shape=7).axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("x", "y")


def test_error_panel_where_the_exact_solution_is_known():
    found = solution("x", exact=lambda points: np.zeros(len(points)))
    left, right = found.plot().axes
    np.testing.assert_allclose(right.lines[0].get_ydata(), np.abs(left.lines[0].get_ydata()), atol=1e-16)
    assert len(found.plot(error=False).axes) == 1
    with pytest.raises(ValueError, match="`error` must be False"):
        solution("x").plot(error=True)


def test_slices_and_systems():
    figure = solution("xyz", ("u", "v")).plot(at={"z": 0.25}, shape=5)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert [t for t in titles if t] == ["u at z = 0.25", "v at z = 0.25"]
    with pytest.raises(ValueError, match="`axes` must be one or two of x, y, z; got"):
        solution("xyz").plot(axes=("x", "w"))
    with pytest.raises(ValueError, match="`at` must fix axes that are not drawn"):
        solution("xyz").plot(at={"x": 0.0})


def test_outside_of_a_region_nothing_is_drawn():
    disk = flm.Disk(x=1, y=1, radius=1)
    panel = solution("xy", domain=disk).plot(shape=9).axes[0]
    drawn = np.ma.filled(panel.images[0].get_array().astype(float), np.nan)
    assert np.isnan(drawn[0, 0])
    assert np.isfinite(drawn[4, 4])


def test_spectrum_shows_every_amplitude():
    found = solution("x")
    panel = plot_amplitudes(found).axes[0]
    heights = panel.lines[0].get_ydata()
    np.testing.assert_allclose(sorted(heights), sorted(np.ravel(found.series.amplitudes)), rtol=1e-12)
    assert len(plot_solution(found, spectrum=True).axes) == 2


def test_pictures_for_pages():
    figure = solution("x").plot()
    assert to_svg(figure).startswith("<svg")
    assert Picture(figure).address.startswith("data:image/png;base64,iVBOR")
    assert limits(np.array([-1.0, 2.0]))["vmin"] == -2.0
    assert limits(np.array([0.5, 2.0]))["vmin"] == 0.5
    assert "matplotlib.pyplot" not in sys.modules or figure.number


@pytest.mark.slow
def test_the_names_of_many_pieces_fit_beside_their_spectrum():
    solution = flm.solve(flm.problems.oscillator(), tol=1e-3)
    assert len(solution.pieces) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns where a legend leaves no room for its panel
        to_svg(plot_amplitudes(solution))
