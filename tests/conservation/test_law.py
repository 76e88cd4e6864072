import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm import Box, ConservationLaw
from flm.references import godunov

UNIT = Box(x=(0, 1), t=(0, 1))


@pytest.mark.slow
def test_burgers_is_the_papers():
    law = flm.problems.burgers()
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(law.initial(x), 1 + 0.35 * np.sin(2 * np.pi * x), rtol=1e-14)
    np.testing.assert_allclose(law.flux(x), x**2 / 2)
    np.testing.assert_allclose(law.speed(x), x, atol=1e-15)
    assert law.breaking_time == pytest.approx(1 / (0.7 * np.pi), rel=1e-6)
    assert law.state_range == pytest.approx((0.65, 1.35), abs=1e-6)
    assert law.axes == ("x", "t")
    assert law.unknowns == ("u",)
    # the exact solution against Godunov's, an independent method
    points = law.test_points((100, 11))
    volumes = godunov(law.flux, law.initial, times=1.0, cells=2000)
    assert np.mean(np.abs(law.exact_values(points) - volumes(points))) < 1e-3


def test_strong_residual_of_the_exact_solution_is_zero_before_the_shock():
    law = flm.problems.burgers()
    strong = law.strong()
    y, t = np.linspace(0, 1, 40), 0.3
    u0, u0_x = 1 + 0.35 * np.sin(2 * np.pi * y), 0.7 * np.pi * np.cos(2 * np.pi * y)
    # along x = y + t u0(y): u = u0, u_x = u0′/(1 + t u0′), u_t = −u u_x
    u_x = u0_x / (1 + t * u0_x)
    jets = {(0, 0): u0, (1, 0): u_x, (0, 1): -u0 * u_x}
    points = np.stack([y + t * u0, np.full_like(y, t)], axis=1)
    block = strong.equations[0].residual
    found = block(points, np.stack([jets[alpha] for _, alpha in block.jets]), np.zeros(0))
    np.testing.assert_allclose(found, 0.0, atol=1e-13)
    assert [b.kind for b in strong.conditions] == ["initial", "periodic"]


def test_strong_form_of_a_flux_with_parameters_can_be_traced():
    law = ConservationLaw(
        lambda u, a: u**2 / (u**2 + a * (1 - u) ** 2),
        UNIT,
        lambda x, b: b + 0.4 * jnp.sin(2 * jnp.pi * x),
        parameters={"a": 0.5, "b": 0.5},
    )
    u = np.linspace(0.1, 0.9, 9)
    slope = law.speed(u)
    np.testing.assert_allclose(slope, u * (1 - u) / (u**2 + 0.5 * (1 - u) ** 2) ** 2, rtol=1e-12)
    block = law.strong().equations[0].residual
    order = [alpha for _, alpha in block.jets]
    jets = np.stack([{(0, 0): u, (0, 1): 0 * u, (1, 0): 1 + 0 * u}[alpha] for alpha in order])
    found = jax.jit(lambda jets: block(np.zeros((9, 2)), jets, np.zeros(0)))(jets)
    np.testing.assert_allclose(found, slope, rtol=1e-12)


def test_numbers_and_names():
    law = ConservationLaw(lambda rho: rho * (1 - rho), Box(s=(0, 2), t=(1, 3)), 0.25)
    assert law.unknowns == ("rho",)
    assert law.breaking_time == np.inf
    np.testing.assert_array_equal(law.initial(np.zeros(3)), 0.25)
    points = law.test_points()
    assert points.shape == (251 * 101, 2)
    assert law.domain.contains(points).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ConservationLaw(lambda u: u, Box(x=(0, 1)), 1.0), r"`domain` must be a box of space and then time"),
        (lambda: ConservationLaw(lambda u: u, Box(t=(0, 1), x=(0, 1)), 1.0), r"`domain` must be a box of space"),
        (lambda: ConservationLaw(lambda u, v: u, UNIT, 1.0), r"`flux` must be a function of the unknown alone.*u, v"),
        (lambda: ConservationLaw(lambda x: x, UNIT, 1.0), r"`flux` must be a function of the unknown alone.*got.* x"),
        (lambda: ConservationLaw(lambda u: u, UNIT, lambda y: y), r"`initial` must be a function of x; got.*'y'"),
        (lambda: ConservationLaw(lambda u: u, UNIT, lambda x: 1 / (0 * x)), r"`initial` must be finite"),
        (lambda: ConservationLaw(lambda u: abs(u), UNIT, lambda x: np.sin(2 * np.pi * x)), r"`flux` must be smooth"),
        (lambda: ConservationLaw(lambda u, a: a * u, UNIT, 1.0, parameters={"a": flm.Learn(1.0)}), r"must be numbers"),
        (lambda: ConservationLaw(lambda u: u, UNIT, 1.0, exact=lambda z: z), r"`exact` must be a function of x and t"),
        (lambda: ConservationLaw(lambda u: u, UNIT, 1.0).exact_values([[0, 0]]), r"must have an `exact` solution"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()
