"""The figure of a control law from several starts: a legend says what colors and line styles mean."""

import flm


def test_starts_are_named_and_have_one_style_on_every_panel():
    problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=flm.Box(x1=(0.5, 1.5)), horizon=1.0)
    figure = flm.solve(problem, tol=1e-2).plot()
    (legend,) = figure.legends
    assert [text.get_text().startswith("from ") for text in legend.get_texts()] == [True] * 3
    states, control = ([line.get_linestyle() for line in panel.lines[:3]] for panel in figure.axes[:2])
    assert states == control == ["-", "--", ":"]
    assert not {line.get_color() for line in figure.axes[1].lines} & {line.get_color() for line in figure.axes[0].lines}
