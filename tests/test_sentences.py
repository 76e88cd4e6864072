"""Sentences about mistakes that strangers made: each names the place, the rule and what to do."""

import math

import optax
import pytest

import flm
from flm.problems.text import parse_problem
from flm.wording import FLMError, counted, with_article

PDE = '[domain]\nt = [0, 1]\n[equation]\node = "u_t = -u"\n[conditions]\n"t=0" = "u = 1"\n'
LAW = '[domain]\nx = [0, 1]\nt = [0, 1]\n[conservation]\nflux = "FLUX"\ninitial = "sin(2*pi*x)"\n'
CONTROL = (
    '[control]\nstates = ["x"]\ncontrols = ["u"]\nhorizon = 1\nrunning_cost = "x^2 + u^2"\ninitial = [1]\n'
    '[dynamics]\nx = "u"\n'
)
READINGS = '\n[data]\nfile = "FILE"\n'

TEXTS = {
    "a flux of a derivative": (
        LAW.replace("FLUX", "u_x"),
        "p, [conservation] flux, column 1: the flux may use u; got 'u_x'.",
    ),
    "a flux of another unknown": (
        LAW.replace("FLUX", "v"),
        "p, [conservation] flux, column 1: the flux may use u; got 'v'.",
    ),
    "a flux of nothing": (
        LAW.replace("FLUX", "2"),
        "p, [conservation] flux: the flux must be a function of the unknown u, such as u**2 / 2; got '2'.",
    ),
    "an axis named sin": (
        PDE.replace("t = [", "sin = [").replace("u_t", "u_sin").replace("t=0", "sin=0"),
        "p, [domain]: `axes` must not be named like a function or a constant; got 'sin', a function. Rename the axis.",
    ),
    "a parameter named sin": (
        PDE.replace("-u", "-sin(u)") + "[parameters]\nsin = 2\n",
        "p, [equation] ode, column 8: 'sin' is a name of this problem and cannot be called; rename it, or write a product "
        "with *.",
    ),
    "two problems": (
        PDE + CONTROL,
        "p: one of the tables [equation], [conservation] and [control] is wanted; got [equation] and [control]. A file has "
        "one problem: leave out the others.",
    ),
    "a box of starts": (
        CONTROL.replace("initial = [1]", "initial = {x = [1, 0]}"),
        "p, [control]: `x` must be a finite interval with low < high; got (1, 0).",
    ),
    "a negative radius": (CONTROL.replace("initial = [1]", "initial = [1]\nradius = -1"), "p, [control]: "),
    "nothing to learn from": (
        PDE.replace("-u", "-k * u") + "[parameters]\nk = {learn = 1}\n",
        "p: `parameters` with flm.Learn must come with measured values: add flm.data(points, values), or [data] in a file.",
    ),
    "a title that is a number": ("title = 3\n" + PDE, "p, title: a text in quotes is wanted; got 3."),
    "a unit of no name": (PDE + '[units]\nq = "m"\n', "p, [units]: 'q' is not one of t, u."),
    "a file elsewhere": (
        PDE + READINGS.replace("FILE", "/etc/passwd"),
        "p, [data] file: a file beside or below the problem file is wanted; got '/etc/passwd'. Copy it there.",
    ),
    "a file above": (
        PDE + READINGS.replace("FILE", "../readings.csv"),
        "p, [data] file: a file beside or below the problem file is wanted; got '../readings.csv'. Copy it there.",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused_in_one_sentence(name, tmp_path):
    text, sentence = TEXTS[name]
    with pytest.raises(FLMError) as refused:
        parse_problem(text, name="p", folder=tmp_path)
    assert str(refused.value) == sentence or (sentence.endswith(": ") and str(refused.value).startswith(sentence))


def test_a_law_may_name_its_unknown():
    law = parse_problem('unknowns = ["rho"]\n' + LAW.replace("FLUX", "rho * (1 - rho)"))
    assert law.unknowns == ("rho",)


def test_readings_below_the_problem_file_are_read(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "readings.csv").write_text("t,u\n0.5,0.6\n")
    text = PDE + READINGS.replace("FILE", "below/readings.csv")
    assert len(parse_problem(text, folder=tmp_path).conditions) == 2


def decay():
    return flm.solve(flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.initial(1.0)]), 1e-4)


POINTS = {"equation": 9, "initial": 5, "boundary": 5}


CALLS = {
    "a class to train": (
        lambda: flm.train(flm.problems.heat(), flm.FLM, optax.adam(1e-3), 5, points=POINTS),
        "`model` must be a model, or a function of a key alone that makes one, such as lambda key: "
        "flm.FLM(problem.domain, 9, key=key); got FLM, which needs other arguments.",
    ),
    "an axis named pi": (
        lambda: flm.PDE(flm.Box(pi=(0, 1)), lambda u, u_pi: u_pi + u, [flm.on("pi=0", lambda u: u - 1)]),
        "`axes` must not be named like a function or a constant; got 'pi', a constant. Rename the axis.",
    ),
    "a region in pi": (
        lambda: flm.Region("pi**2 + y**2 - 1", flm.Box(pi=(-2, 2), y=(-2, 2))),
        "`axes` must not be named like a function or a constant; got 'pi', a constant. Rename the axis.",
    ),
    "a flux of a derivative": (
        lambda: flm.ConservationLaw(lambda u_x: u_x, flm.Box(x=(0, 1), t=(0, 1)), 1.0),
        "`flux` must be a function of the unknown itself, as in `lambda u: u**2 / 2`; got u_x, a derivative.",
    ),
    "an animation of one axis": (
        lambda: decay().animate("t"),
        "`animate` must be of a function of two axes or more; got one of t alone. Use plot().",
    ),
    "a unit of no name": (lambda: decay().live(units={"q": "m"}), "`units` must be of names among t, u; got 'q'."),
    "one column": (
        lambda: flm.solve(flm.problems.heat(), max_columns=1),
        "`max_columns` must leave room for the smallest set of functions; got 1: stopped at the size limit of 1 columns. "
        "Raise it, or leave it out.",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused_in_one_sentence(name):
    call, sentence = CALLS[name]
    with pytest.raises(FLMError) as refused:
        call()
    assert str(refused.value) == sentence


def test_a_folder_is_not_a_file_that_is_missing(tmp_path):
    with pytest.raises(FLMError, match="which is a folder"):
        flm.load(tmp_path)
    with pytest.raises(FLMError, match="which does not exist"):
        flm.load(tmp_path / "none.safetensors")


def test_words_agree_with_their_number():
    two = flm.PhaseSeries([[1.0], [2.0]], [[1.0], [0.5]], [[0.0], [0.0]])
    assert two.describe(1).endswith("… and 1 smaller one")
    assert (counted(1, "seed"), counted(2, "seed")) == ("1 seed", "2 seeds")
    names = ["MLP", "FLM", "Siren", "SparseFLM", "Ellipse", "UniformGrid"]
    articles = ["an MLP", "an FLM", "a Siren", "a SparseFLM", "an Ellipse", "a UniformGrid"]
    assert [with_article(name) for name in names] == articles


def test_the_series_error_of_an_answer_without_a_series_is_not_zero():
    box = flm.Box(t=(0, 1))
    problem = flm.PDE(box, lambda u, u_t: u_t + u, [flm.initial(1.0)])
    points = {"equation": 9, "initial": 1}
    network = flm.train(problem, lambda key: flm.models.MLP(box, 3, key=key), optax.adam(1e-3), 2, points=points)
    assert math.isnan(network.series_error)
    waves = flm.train(problem, lambda key: flm.FLM(box, 3, key=key), optax.adam(1e-3), 2, points=points)
    assert waves.series_error == 0.0
