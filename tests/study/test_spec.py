"""Specifications: what they expand to, how mistakes are told, and that the paper's protocols are the paper's."""

import math
from pathlib import Path

import numpy as np
import pytest
from study_runners import decay

from flm.paper.printed import PARAMETERS, PDE_ERRORS
from flm.paper.protocol import POINTS, find_spec, protocol_names, read_protocol
from flm.study import Store, choose, local, read_rows, read_spec, run_study
from flm.study.results import estimate, score_tables, status
from flm.study.runs import run_one
from flm.study.spec import SpecError, parse_spec
from flm.study.store import run_key

SMALL = """
problems = ["heat"]
seeds = 3
[training]
epochs = 20
loss_tol = 1e-9
points = {equation = 50, initial = 10, boundary = 10}
[final]
epochs = 10
[[models]]
name = "flm"
sizes = [4, 9]
[[optimizers]]
name = "adam"
rate = 0.01
"""
OF_DECAY = SMALL.replace('"heat"', '"study_runners:decay"').replace(", boundary = 10", "")
QUICK = """
runner = "study_runners:score"
problems = ["p"]
seeds = 10
[selection]
metrics = ["mse", "mae"]
[[models]]
name = "m"
sizes = [1, 2, 4, 8]
[[optimizers]]
name = "adam"
rate = 0.01
"""


def parse(text):
    return parse_spec(text, file=Path("small.toml"))


def test_definitions_are_the_product():
    spec = parse(SMALL.replace('"heat"', '"heat", "poisson"') + '[[optimizers]]\nname = "lbfgs"\n')
    runs = list(spec.definitions())
    assert len(runs) == spec.num_runs == 2 * 2 * 2 * 3
    assert len({run_key(r) for r in runs}) == len(runs)
    assert [r["seed"] for r in runs[:4]] == [0, 1, 2, 0]
    assert runs[0]["training"] == {"points": {"equation": 50, "initial": 10, "boundary": 10}, "legs": [[20, 1e-9]]}
    final = spec.definition(spec.groups[0].configurations[0], 0, final=True)
    assert final["training"]["legs"] == [[20, 1e-9], [10, 0.0]]
    assert [c.label for c in spec.groups[0].configurations] == ["4, adam 0.01", "4, lbfgs", "9, adam 0.01", "9, lbfgs"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 20", "epoch = 20",
         "small.toml, [training]: 'epoch' is not one of epochs, loss_tol, points. Did you mean 'epochs'?"),
        ("epochs = 20\n", "", "small.toml, [training] epochs: an integer of at least 1 is wanted, and missing."),
        ("epochs = 20", "epochs = 0", "small.toml, [training] epochs: an integer of at least 1 is wanted; got 0."),
        ("epochs = 20", "epochs = true", "small.toml, [training] epochs: an integer of at least 1 is wanted; got True."),
        ("loss_tol", "losstol",
         "small.toml, [training]: 'losstol' is not one of epochs, loss_tol, points. Did you mean 'loss_tol'?"),
        ("initial = 10", "inital = 10",
         "small.toml, [training points]: 'inital' is not one of equation, initial, boundary. Did you mean 'initial'?"),
        ("seeds = 3", "seeds = [1, 1]", "small.toml, seeds: a number of at least 1 or a list of different integers"),
        ("seeds = 3", "seeds = 3\nseed = 4", "small.toml: 'seed' is not one of title, runner, problems, seeds"),
        ('"heat"', '"haet"', "got 'haet'. Did you mean 'heat'?"),
        ('"heat"', '"none.toml"',
         "small.toml, problems: files that exist, relative to the specification, are wanted; got 'none.toml'."),
        ('"flm"', '"fml"', "small.toml, [models 1]: one of flm, siren-1"),
        ("sizes = [4, 9]", "sizes = [4, 0]", "small.toml, [models 1] sizes: a list of different integers of at least 1 is wanted"),
        ("[[models]]", "[models]", "small.toml, models: one or more tables, each headed [[models]], is wanted; got {"),
        ('"adam"', '"adm"', "got 'adm'. Did you mean 'adam'?"),
        ("rate = 0.01", "rate = -1", "small.toml, [optimizers 1] rate: a positive number is wanted; got -1."),
        ("rate = 0.01", "rate = 0.01\nmomentum = 0.9", "small.toml, [optimizers 1]: 'momentum' is not one of name, rate, b1, b2."),
        ("[final]", "[selection]\nmetrics = ['mse', 'mea']\n[final]",
         "small.toml, [selection] metrics: one of mse, mae, max_error, epochs is wanted; got 'mea'. Did you mean"),
        ("[final]", "[selection]\nalpha = 5.0\n[final]",
         "small.toml, [selection] alpha: a number between 0 and 1 is wanted; got 5.0."),
        ("[final]", "[final", "small.toml: not a TOML file: "),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_file_table_and_key(old, new, message):
    assert old in SMALL
    with pytest.raises(SpecError) as error:
        parse(SMALL.replace(old, new, 1))
    assert message in str(error.value)


def test_unknown_protocols():
    with pytest.raises(SpecError, match=r"must be a TOML file or one of .*got 'haet'\. Did you mean 'heat'\?"):
        find_spec("haet")
    with pytest.raises(FileNotFoundError, match=r"the specification file 'none\.toml' cannot be read"):
        find_spec("none.toml")


@pytest.mark.parametrize("name", ["heat", "poisson", "black_scholes", "burgers"])
def test_the_papers_protocols_are_the_papers(name):
    spec = read_protocol(name)
    assert spec.problems == (name,)
    assert spec.seeds == tuple(range(10))
    assert (spec.training["epochs"], spec.training["loss_tol"]) == (10_000, 1e-4)
    assert (spec.final["epochs"], spec.final["loss_tol"]) == (30_000, 1e-8)
    assert spec.training["points"] == POINTS
    assert dict(spec.models) == {m: tuple(PARAMETERS[m]) for m in PDE_ERRORS[name]}
    assert {o["rate"] for o in spec.optimizers} == {1e-3, 5e-3, 1e-2}
    assert all(18 <= len(group.configurations) <= 27 for group in spec.groups)


def test_every_protocol_is_valid():
    assert {"heat", "poisson", "black_scholes", "burgers", "n_versus_mse", "quick", "uztack20"} == set(protocol_names())
    for name in protocol_names():
        assert read_protocol(name).num_runs > 0


@pytest.mark.slow
def test_a_problem_file_and_a_function_are_problems(tmp_path):
    (tmp_path / "mine.toml").write_text("""
[domain]
t = [0, 1]
[equation]
pde = "u_t = -u"
[conditions]
"t=0" = "u = 1"
[exact]
u = "exp(-t)"
""")
    text = OF_DECAY.replace("problems = [", 'problems = ["mine.toml", ').replace("seeds = 3", "seeds = 1")
    (tmp_path / "study.toml").write_text(text.replace("sizes = [4, 9]", "sizes = [4]"))
    runs = list(read_spec(tmp_path / "study.toml").definitions())
    before = run_key(runs[0])
    scores = []
    for run in runs:
        word, outcome = run_one(run)
        assert word == "done", outcome
        scores.append(outcome["mse"])
    assert scores[1] == pytest.approx(scores[0], rel=1e-6)  # one equation, written in two ways
    (tmp_path / "mine.toml").write_text((tmp_path / "mine.toml").read_text() + "\n# changed\n")
    assert run_key(next(read_spec(tmp_path / "study.toml").definitions())) != before


@pytest.mark.slow
def test_the_default_runner_is_the_papers_protocol():
    spec = parse(OF_DECAY)
    configuration = spec.groups[0].configurations[0]
    word, outcome = run_one(spec.definition(configuration, 1, final=True))
    assert word == "done"
    assert outcome["epochs"] == 30
    assert outcome["parameters"] == 12
    import optax

    import flm

    problem, points = decay(), {"equation": 50, "initial": 10}
    model, adam = lambda key: flm.FLM(problem.domain, 4, key=key), optax.adam(0.01)
    first = flm.train(problem, model, adam, 20, points=points, seed=1, loss_tol=1e-9)
    second = flm.train(problem, first.model, adam, 10, points=points, seed=1)
    assert outcome["mse"] == pytest.approx(second.errors().mse, rel=1e-12)


@pytest.mark.slow
def test_a_study_from_its_runs_to_its_choice(tmp_path):
    spec = parse(QUICK)
    with Store(tmp_path / "s.sqlite", write=True) as store:
        empty = status(spec, store)
        assert (empty.total, empty.done) == (40, 0)
        assert math.isnan(empty.seconds_left)
        run_study(spec, store, workers=local(2))
        rows = read_rows(store)
        done = status(spec, store)
    assert (done.done, done.seconds_left) == (40, 0)
    (group,) = spec.groups
    chosen = choose(spec, rows, group)
    assert chosen.configuration.size == 8  # the score is about 1.5 / size
    tables = score_tables(spec, rows, group)
    assert list(tables) == ["mse", "mae"]
    assert np.all(np.isfinite(tables["mse"]))
    del rows[run_key(spec.definition(group.configurations[0], 4))]
    assert np.isnan(score_tables(spec, rows, group)["mse"][0, 4])
    assert estimate(spec, 2, list(rows)).runs == 1


def test_the_estimate_counts_epochs_and_not_compiling():
    """The first run of a size compiles for five seconds; the next take 0.1 s and a millisecond per epoch."""
    seen = set()

    def timed(definition):
        (epochs, _), size = definition["training"]["legs"][0], definition["size"]
        cold = size not in seen
        seen.add(size)
        return 0.1 + 1e-3 * epochs + 5.0 * cold

    spec = read_protocol("quick")
    cost = estimate(spec, 1, timed=timed)
    count = lambda d: sum(leg[0] for leg in d["training"]["legs"])
    epochs = sum(count(d) for d in spec.definitions())
    epochs += sum(count(spec.definition(g.configurations[0], s, final=True)) for g in spec.groups for s in spec.seeds)
    least = 1e-3 * epochs + 0.1 * (cost.runs + cost.final_runs)
    assert least - 1e-6 <= cost.seconds <= least + 5.0 * sum(len(g.configurations) for g in spec.groups) + 1e-6
