"""Problems as text: what is refused and where, and that every example is solved."""

import random
import time

import numpy as np
import pytest
from control_problems import simulate
from strange_texts import EXAMPLES, mutated

import flm
from flm.problems.text import ProblemError, parse_problem, read_outline, read_problem

HEAT = next(p for p in EXAMPLES if p.stem == "heat").read_text()

TOLERANCES = {"regulator": 1e-2, "two_solitons": 1e-2}
CATALOGUE = ("burgers", "rock_paper_scissors")  # the same as in Python, where they are solved


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.stem not in CATALOGUE], ids=lambda p: p.stem)
def test_examples_are_solved(path):
    problem, tol = read_problem(path), TOLERANCES.get(path.stem, 1e-3)
    solution = flm.solve(problem, tol)
    assert solution.converged
    if getattr(solution, "exact", None) is not None:
        assert solution.errors().relative_l2 < tol
    if path.stem == "find_diffusivity":
        alpha = solution.parameters["alpha"]
        assert abs(alpha.value - 0.1) < 4 * alpha.standard_error < 0.01


def test_there_are_a_dozen_examples_with_their_command():
    assert len(EXAMPLES) >= 12
    for path in EXAMPLES:
        assert f"flm solve examples/problems/{path.name}" in path.read_text()


def test_the_game_as_text_is_the_game_in_python():
    found = read_problem(next(p for p in EXAMPLES if p.stem == "rock_paper_scissors"))
    wanted = flm.problems.rock_paper_scissors()
    for control in (lambda t: 0.0 * t, lambda t: np.sin(t)):
        cost = [float(simulate(problem, control, (0.2, 0.2, 0.6)).cost[0]) for problem in (found, wanted)]
        assert cost[0] == pytest.approx(cost[1], rel=1e-9)


def test_the_shock_as_text_is_the_shock_in_python():
    found, wanted = read_problem(next(p for p in EXAMPLES if p.stem == "burgers")), flm.problems.burgers()
    u, x = np.linspace(-1, 2, 7), np.linspace(*wanted.domain["x"], 50)
    assert found.domain["x"] == wanted.domain["x"]
    np.testing.assert_allclose(found.flux(u), wanted.flux(u), rtol=1e-14)
    np.testing.assert_allclose(found.initial(x), wanted.initial(x), atol=1e-14)


def test_parameters_can_be_set_from_outside():
    path = next(p for p in EXAMPLES if p.stem == "heat")
    assert read_problem(path, parameters={"alpha": 0.3}).parameters == {"alpha": 0.3}
    with pytest.raises(ProblemError, match=r"the parameter 'alpa' is not declared\. Did you mean 'alpha'\?"):
        read_problem(path, parameters={"alpa": 0.3})


def test_laws_and_control_take_numbers_alone():
    law = "[domain]\nx = [0, 1]\nt = [0, 1]\n[parameters]\na = {range = [0.1, 0.2]}\n[conservation]\nflux = 'a * u'\ninitial = 1"
    with pytest.raises(
        ProblemError, match=r"\[parameters\] a: a conservation law takes numbers as parameters; got flm\.Range"
    ):
        parse_problem(law)
    with pytest.raises(ProblemError, match=r"an optimal control problem takes numbers as parameters; got flm\.Learn"):
        parse_problem(CONTROL + "[parameters]\nk = {learn = 1}")
    with pytest.raises(ValueError, match=r"`parameters` of a conservation law must be numbers; got Range\(.* for 'a'"):
        flm.ConservationLaw(lambda u, a: a * u, flm.Box(x=(0, 1), t=(0, 1)), 1.0, parameters={"a": flm.Range(0.1, 0.2)})


CONTROL = """[control]
states = ["x"]
controls = ["f"]
horizon = 1
running_cost = "x**2 + f**2"
initial = [1]
[dynamics]
x = "f"
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "u_t = alpha",
            "u_y = alpha",
            "heat.toml, [equation] pde, column 1: the argument 'u_y' of the equation must be one of",
        ),
        (
            "alpha * u_xx",
            "alpa * u_xx",
            "heat.toml, [equation] pde, column 7: the argument 'alpa' of the equation must be one of",
        ),
        (
            '"u = sin(pi * x)"',
            '"u = sinn(pi * x)"',
            "heat.toml, [conditions] \"t=0\", column 5: the function 'sinn' is not known. Did you mean 'sin'?",
        ),
        (
            '"u = sin(pi * x)"',
            '"u sin(pi * x)"',
            "heat.toml, [conditions] \"t=0\": an equation must have one '=', left = right",
        ),
        ('"u = 0"', '"u == 0"', "heat.toml, [conditions] \"x=0\", column 3: an equation has one '=', not two."),
        ("x = [0, 1]", "x = [1, 0]", "heat.toml, [domain] x: an interval [low, high] is wanted; got [1, 0]."),
        ("x = [0, 1]", "x = 3", "heat.toml, [domain] x: a list of numbers is wanted; got 3."),
        (
            "x = [0, 1]",
            'x = [0, "two"]',
            "heat.toml, [domain] x, column 1: a plain number is wanted here; got the name 'two'.",
        ),
        ('"x=1" =', '"y=1" =', 'heat.toml, [conditions] "y=1": `where` must name an axis of the domain (x, t)'),
        ("[exact]\nu", "[exact]\nv", "heat.toml, [exact] v: the unknowns are u; got 'v'."),
        ("[exact]", "[exactly]", "heat.toml: 'exactly' is not one of domain, parameters"),
        (
            "[equation]",
            "[equations]",
            "heat.toml: one of the tables [equation], [conservation] and [control] is wanted",
        ),
        ("alpha = 0.1", "alpha = true", "heat.toml, [parameters] alpha: a number is wanted; got True."),
        (
            "alpha = 0.1",
            "alpha = {learn = 0.5}",
            "heat.toml: `parameters` with flm.Learn must come with measured values",
        ),
        (
            "alpha = 0.1",
            "alpha = {start = 0.5}",
            "heat.toml, [parameters] alpha: 'start' is not one of learn, lower, upper, axes.",
        ),
        ("[domain]", "[domain", "heat.toml: not a TOML file: Expected ']'"),
        ('pde = "u_t = alpha * u_xx"', "pde = 3", "heat.toml, [equation] pde: an equation in quotes such as"),
    ],
)
def test_bad_files_are_refused_with_their_place(before, after, message):
    assert before in HEAT
    with pytest.raises(ProblemError) as error:
        parse_problem(HEAT.replace(before, after, 1), name="heat.toml")
    text = str(error.value)
    assert text.startswith(message)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('x = "f"', 'y = "f"', "p, [dynamics] y: the states are x; got 'y'."),
        ("x**2 +", "z**2 +", "p, [control] running_cost, column 1: this may use t, x, f; got 'z'."),
        ("horizon = 1", "", "p, [control]: horizon is missing."),
        ("horizon = 1", "horizon = {free = -1}", "p, [control] horizon: a positive guess is wanted; got -1."),
        ("horizon = 1", "horizon = 1\nbounds = {g = [0, 1]}", "p, [control] bounds: 'g' is not one of f."),
        ("horizon = 1", 'horizon = 1\npath = "x"', "p, [control] path: a bound such as \"x <= 1\" is wanted; got 'x'."),
        (
            "horizon = 1",
            'horizon = 1\npath = "x + y <= 2"',
            "p, [control] path, column 5: this may use t, x, f; got 'y'.",
        ),
        (
            "horizon = 1",
            'horizon = 1\npath = "2 >= x + y"',
            "p, [control] path, column 10: this may use t, x, f; got 'y'.",
        ),
        ("initial = [1]", "initial = [1, 2]", "p: "),
    ],
)
def test_bad_control_problems_are_refused_with_their_place(before, after, message):
    with pytest.raises(ProblemError) as error:
        parse_problem(CONTROL.replace(before, after, 1), name="p")
    assert str(error.value).startswith(message)


def test_control_options_arrive():
    text = CONTROL.replace(
        "initial = [1]", 'initial = [1]\nradius = 0.2\nbounds = [-1, "inf"]\npath = "x <= 2"\nterminal = "x = 0"'
    )
    problem = parse_problem(text)
    assert problem.starts.kind == "ball"
    assert (problem.lower[0], problem.upper[0]) == (-1.0, np.inf)
    assert problem.constrained
    assert parse_problem(CONTROL.replace("horizon = 1", "horizon = {free = 2.0}")).free


@pytest.mark.parametrize("bound", ["x <= 2", "2 >= x"])
def test_path_bounds_in_both_directions_mean_the_same(bound):
    seen = []
    text = CONTROL.replace("horizon = 1", f'horizon = 1\npath = "{bound}"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flm.control.text.OptimalControl", lambda *a, **options: seen.append(options["path"][0]))
        parse_problem(text)
    assert float(seen[0](x=5.0)) == 3.0


def test_shapes():
    text = '[domain]\nshape = "{}"\n[equation]\np = "u_xx + u_yy = 0"\n[conditions]\nboundary = "u = x"\n'
    domain = parse_problem(text.format("Box(x=(0, 2), y=(0, 2)) - Disk(x=1, y=1, radius=1/2)")).domain
    assert domain.contains(np.array([[0.1, 0.1], [1.0, 1.0]])).tolist() == [True, False]
    for shape, message in {
        "Disc(x=0, y=0, radius=1)": "column 1: the shape 'Disc' is not one of Disk, Ellipse, Polygon, Box, Region. "
        "Did you mean 'Disk'?",
        "Disk(0, 0, 1)": "column 1: Disk takes its arguments by name",
        "Disk(x=0, y=0, radius=-1)": "column 1: ",
        "open('/etc/passwd')": "column 1: the shape 'open' is not one of",
        "Disk.__class__": "column 1: a shape is wanted",
    }.items():
        with pytest.raises(ProblemError) as error:
            read_outline(text.format(shape), name="p")
        assert str(error.value).startswith(f"p, [domain] shape, {message}")


# --- strangers' files ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_mutated_files_give_one_sentence_and_no_harm():
    rng, began, messages = random.Random(0), time.perf_counter(), []
    texts = [path.read_text() for path in EXAMPLES]
    for _ in range(1500):
        text = mutated(rng.choice(texts), rng)
        try:
            read_outline(text, name="p.toml", folder=EXAMPLES[0].parent)
        except ProblemError as error:
            messages.append(str(error))
    assert len(messages) > 500
    assert all("\n" not in message and len(message) < 1000 for message in messages)
    assert time.perf_counter() - began < 60


def test_large_files_are_refused(tmp_path):
    path = tmp_path / "large.toml"
    path.write_text("# " + "x" * 70_000)
    with pytest.raises(ProblemError, match="at most 65536 bytes"):
        read_problem(path)
    with pytest.raises(ProblemError, match="not a TOML file"):
        read_outline("a = " + "[" * 20_000)
    with pytest.raises(FileNotFoundError, match=r"cannot be read \(No such file or directory\)"):
        read_problem(tmp_path / "none.toml")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProblemError, match="text in UTF-8"):
        read_problem(path)
