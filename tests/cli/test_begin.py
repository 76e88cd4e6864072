"""What one begins with: the catalogue, a file of one's own, many values at once, and sentences for common slips."""

import concurrent.futures as futures
import json
import tomllib

import pytest

from flm.cli import output, study, sweep
from flm.cli.run import run
from flm.problems import catalogue, parse_problem, read_problem
from flm.study.execution import Workers
from flm.wording import InputError

DECAY = """
title = "Something that decays"
[domain]
t = [0, 1]
[parameters]
k = 1.0
[equation]
ode = "u_t = -k * u"
[conditions]
"t=0" = "u = 1"
"""


def test_problems_lists_the_whole_catalogue(capsys):
    assert run(["problems", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(catalogue())
    assert found["heat"]["set"] == ["alpha"]
    assert run(["problems"]) == 0
    assert "flm new pde" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["pde", "ode", "control", "inverse"])
def test_new_writes_a_file_that_can_be_read_and_overwrites_nothing(kind, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert run(["new", kind, str(path)]) == 0
    assert read_problem(path) is not None
    assert tomllib.loads(path.read_text())["title"]
    assert "KIND" not in path.read_text()
    before = path.read_bytes()
    assert run(["new", kind, str(path)]) == 2
    assert "which is there already" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("-k * u", "-k * u''", "u_tt or u_xx for u''"),
        ("-k * u", "-3 u", "a product needs its *: write 3 * u"),
        ("-k * u", "-2 sin(u)", "a product needs its *: write 2 * sin"),
        ("-k * u", "-b * u", "in a file into [parameters]"),
        ("[equation]", "[equations]", "Did you mean 'equation'?"),
        ("1.0", "{learn = 1.0}", "must come with measured values: add flm.data(points, values), or [data] in a file."),
    ],
)
def test_common_slips_get_the_sentence_that_helps(old, new, words):
    with pytest.raises(InputError) as error:
        parse_problem(DECAY.replace(old, new))
    assert words in str(error.value)
    assert "Eigenvalue" not in str(error.value)


def test_an_eigenvalue_problem_is_told_that_it_is_not_supported():
    text = '[domain]\nx = [0, 1]\n[parameters]\nq = {learn = 9.0}\n[equation]\nf = "-u_xx = q * u"\n[conditions]\n'
    with pytest.raises(InputError, match="Eigenvalue problems are not supported"):
        parse_problem(text + '"x=0" = "u = 0"\n"x=1" = "u = 0"\n')


def test_a_power_may_be_written_with_a_roof():
    assert parse_problem(DECAY.replace("-k * u", "-k^2 * u^3")) is not None


@pytest.mark.slow
def test_a_file_may_name_a_problem_of_the_catalogue_and_open_shows_the_page(tmp_path, monkeypatch, capsys):
    shown, path = [], tmp_path / "mine.toml"
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.chdir(tmp_path)
    path.write_text('problem = "oscillator"\ntitle = "A spring"\n[units]\nt = "s"\n[set]\nfrequency = 2.0\n')
    assert run(["solve", "mine.toml", "--tol", "1e-3", "--open", "--quiet"]) == 0
    assert shown == [(tmp_path / "flm-mine" / "index.html").as_uri()]
    page = (tmp_path / "flm-mine" / "index.html").read_text()
    assert "<h1>A spring</h1>" in page
    assert "&#34;units&#34;: [&#34;s&#34;]" in page
    assert run(["problems", "--open", "--quiet"]) == 2
    assert "`--open` must come with a page" in capsys.readouterr().err
    for old, new, words in (
        ("frequency", "frequncy", "Did you mean 'frequency'?"),
        ("2.0", '"2"', "[set] frequency: a number is wanted"),
        ('"s"', "1", '[units] t: a text in quotes is wanted, such as "m"; got 1.'),
        ('"oscillator"', '"oscilator"', "Did you mean 'oscillator'?"),
    ):
        path.write_text(path.read_text().replace(old, new))
        assert run(["solve", str(path)]) == 2
        assert words in capsys.readouterr().err
        path.write_text(path.read_text().replace(new, old))


def test_methods_are_listed(capsys):
    assert run(["solve", "heat", "--method", "list"]) == 0
    said = capsys.readouterr().out
    for name in ("pieces", "march", "waves", "reduced", "penalty"):
        assert name in said


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """A folder with a problem, and sweeps by a thread of this process; the list has what was solved."""
    solved, solve_one = [], sweep.solve_one

    def watched(definition):
        solved.append(definition["set"])
        return solve_one(definition)

    monkeypatch.setattr(sweep, "solve_one", watched)
    monkeypatch.setattr(sweep, "who_works", lambda *_: Workers(1, lambda: futures.ThreadPoolExecutor(1)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "decay.toml").write_text(DECAY)
    return solved


@pytest.mark.slow
def test_a_sweep_solves_every_value_once_and_goes_on(swept, tmp_path, monkeypatch, capsys):
    arguments = ["sweep", "decay.toml", "--set", "k=1:2:3", "--tol", "1e-4", "--json", "-o", "out"]
    real = study.watching

    def stopping(*a, **k):  # Ctrl-C when the first value is there
        class Interrupted:
            def __enter__(self):
                def listen(event):
                    if event.extras.get("done"):
                        raise KeyboardInterrupt

                return listen

            def __exit__(self, *_):
                return False

        return Interrupted()

    monkeypatch.setattr(study, "watching", stopping)
    assert run(arguments) == 1
    told = capsys.readouterr()
    assert "the same command goes on from there" in told.err
    kept = [one for one in json.loads(told.out)["runs"] if "error_estimate" in one]
    assert 1 <= len(kept) < 3
    monkeypatch.setattr(study, "watching", real)
    before = len(swept)
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert [one["k"] for one in found] == [1.0, 1.5, 2.0]
    assert all(one["converged"] for one in found)
    assert len(swept) - before == 3 - len(kept)
    assert run(arguments) == 0
    assert len(swept) - before == 3 - len(kept)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "3 of 3 values were solved" in page
    assert page.count('class="answer"') == 1


def test_a_bad_sweep_is_refused_before_it_runs(swept, capsys):
    for setting in ("k=1:2", "k=2:1:3", "k=a", "k=0:1:1"):
        assert run(["sweep", "decay.toml", "--set", setting]) == 2
        assert "name=low:high:count" in capsys.readouterr().err
    assert run(["sweep", "decay.toml", "--set", "q=1:2:3"]) == 2
    assert not swept
    assert output.WRITTEN.get() is None
