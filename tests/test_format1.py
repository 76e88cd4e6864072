"""Files that the first format wrote: what still loads gives the same values, what does not is refused in one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

import flm

OLD = Path(__file__).parent / "data" / "format1"
VALUES = json.loads((OLD / "values.json").read_text())
FUNCTIONS = ("phase_series", "separable_series", "exponential_series", "flm", "mlp", "siren")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_series_and_models_of_the_first_format(name):
    values = np.asarray(flm.load(OLD / f"{name}.safetensors")(np.array(VALUES["points"])))
    np.testing.assert_allclose(values, VALUES[name], rtol=1e-12, atol=1e-12 * np.abs(VALUES[name]).max())


@pytest.mark.parametrize(("name", "kind"), [("solution", "Solution"), ("control_solution", "ControlSolution")])
def test_solutions_of_the_first_format_are_refused(name, kind):
    with pytest.raises(
        ValueError, match=rf"^`path` must hold a {kind} of format 2; got format 1 in '.*'\. Solve the"
    ) as e:
        flm.load(OLD / f"{name}.safetensors")
    assert "\n" not in str(e.value)


def test_a_regressor_of_the_first_format():
    model = flm.load(OLD / "regressor.safetensors")
    np.testing.assert_allclose(model.predict(np.linspace(1, 9, 5)[:, None]), VALUES["regressor"], rtol=1e-9)


def test_an_imputer_of_the_first_format():
    imputer = flm.load(OLD / "imputer.safetensors")
    holes = np.array(VALUES["holes"], float)
    # Its model has hardly any noise, so that its equations turn rounding into a billionth: 1.5e-9 on another processor.
    np.testing.assert_allclose(imputer.transform(holes)[:5], VALUES["imputer"], rtol=1e-7)
