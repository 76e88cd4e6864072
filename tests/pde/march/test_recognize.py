"""What is recognized as an evolution in a series, and the sentence for what is not."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.models.march import lift_jet
from flm.pde.march.recognize import recognize
from flm.pde.march.sides import Unfit

BOX = flm.Box(x=(0, 1), t=(0, 1))
START = flm.initial(lambda x: jnp.sin(2 * jnp.pi * x))
AROUND = flm.periodic("x")
HEAT = lambda u_t, u_xx: u_t - u_xx
ENDS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]


def test_the_linear_part_is_split_off():
    problem = flm.PDE(
        flm.Box(t=(0, 1), x=(0, 1)),  # time may come first
        lambda x, u, u_t, u_x, u_xx, u_xxxx: 2 * u_t + 4 * u * u_x + 6 * u_xx + u_xxxx + jnp.sin(x) * u - 3 * u,
        [START, AROUND],
    )
    found = recognize(problem)
    assert {alpha: float(row[0]) for (_, alpha), row in found.linear.items()} == {(0, 2): -3.0, (0, 4): -0.5}
    assert {alpha for _, alpha in found.evaluated} == {(0, 0), (0, 1)}
    assert found.kinds == ("fourier",)


def test_kinds_of_sides_and_the_lift():
    values = [flm.dirichlet("x=0", 1.0), flm.dirichlet("x=1", 3.0)]
    found = recognize(flm.PDE(BOX, HEAT, [START, *values]))
    assert found.kinds == ("sine",)
    np.testing.assert_allclose(
        lift_jet(found.lift[0], found.bounds, (0,), [np.array([0.0, 0.5, 1.0])]), [1.0, 2.0, 3.0]
    )
    slopes = [flm.neumann("x=0", 1.0), flm.neumann("x=1", 2.0)]  # outward
    found = recognize(flm.PDE(BOX, HEAT, [START, *slopes]))
    assert found.kinds == ("cosine",)
    np.testing.assert_allclose(lift_jet(found.lift[0], found.bounds, (1,), [np.array([0.0, 1.0])]), [-1.0, 2.0])


def test_a_mass_that_depends_on_place():
    found = recognize(flm.PDE(BOX, lambda x, u, u_t, u_xx: (2 + x) * u_t - (2 + x) * u_xx + u, [START, AROUND]))
    assert {alpha: float(row[0]) for (_, alpha), row in found.linear.items()} == {(2, 0): 1.0}
    x = np.array([0.1, 0.7])
    np.testing.assert_allclose(found.rates([x, 0.0], np.array([[1.0, 2.0]])), [[-1 / 2.1, -2 / 2.7]])


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (lambda: flm.PDE(flm.Box(x=(0, 1), y=(0, 1)), lambda u_xx, u_yy: u_xx + u_yy), "an axis t"),
        (lambda: flm.PDE(BOX, lambda u_t, u_xx: u_t**2 - u_xx, [START, AROUND]), "affine in the highest time"),
        (lambda: flm.PDE(BOX, lambda u, u_t, u_xx: u * u_t - u_xx, [START, AROUND]), "affine in the highest time"),
        (lambda: flm.PDE(BOX, lambda u_t, u_xxt: u_t - u_xxt, [START, AROUND]), "must not be differentiated in space"),
        (lambda: flm.PDE(BOX, HEAT, [START, flm.dirichlet("x=0"), flm.neumann("x=1")]), "values alone or slopes alone"),
        (lambda: flm.PDE(BOX, HEAT, [START, flm.dirichlet("x=0")]), "at each end of x"),
        (
            lambda: flm.PDE(BOX, HEAT, [START, flm.robin("x=0", 1.0, 1.0), flm.dirichlet("x=1")]),
            "one normal derivative",
        ),
        (lambda: flm.PDE(BOX, HEAT, [START, ENDS[0], flm.dirichlet("x=1", lambda t: t)]), "along them or in time"),
        (lambda: flm.PDE(BOX, HEAT, [flm.on("t=1", lambda u: u), AROUND]), "a time other than the start"),
        (lambda: flm.PDE(BOX, HEAT, [flm.on("t=0", lambda u: u**2 - 1), AROUND]), "an initial condition must give"),
        (lambda: flm.PDE(BOX, lambda u_tt, u_xx: u_tt - u_xx, [START, AROUND]), "initial condition for each"),
        (lambda: flm.PDE(BOX, HEAT, [START, AROUND, flm.data([[0.5, 0.5]], [1.0])]), "no data"),
        (
            lambda: flm.PDE(
                BOX,
                [HEAT, lambda u, p_x: p_x - u],
                [START, AROUND, flm.periodic("x", unknown="p")],
                unknowns=("u", "p"),
            ),
            None,
        ),
    ],
)
def test_what_does_not_fit_is_said(problem, sentence):
    if sentence is None:
        assert recognize(problem()).algebraic == (1,)
        return
    with pytest.raises(Unfit, match=sentence):
        recognize(problem())


def test_a_right_hand_side_that_leaves_the_series_is_refused():
    leaving = flm.PDE(BOX, lambda u_t, u_x, u_xx: u_t - u_xx + u_x, [START, *ENDS])
    with pytest.raises(
        ValueError, match=r"^`method` must not be 'march' for this problem: the right-hand side must be smooth"
    ):
        flm.solve(leaving, method="march")
