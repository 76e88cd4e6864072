"""Marched answers against exact solitons, Cole–Hopf, an independent ETDRK4, and what must be conserved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import flm
from flm.pde.march.recognize import recognize
from flm.pde.march.run import Run
from flm.pde.march.solve import as_model
from flm.pde.march.space import Space
from flm.pde.march.symbol import Dynamics
from flm.results import Record

PI = np.pi


def etdrk4(symbol, nonlinear, start, length, end, steps):
    """Kassam and Trefethen's scheme for real periodic u' = symbol(k) u + nonlinear(û, k): values at the end.

    Independent of the library: contour means for the phi functions, numpy's FFT, the two-thirds rule.
    """
    n, h = len(start), end / steps
    k = 2 * PI / length * np.fft.rfftfreq(n, 1 / n)
    L = symbol(k)
    circle = np.exp(1j * PI * (np.arange(1, 65) - 0.5) / 32)
    z = h * L[:, None] + circle
    mean = lambda f: h * np.mean(f, axis=1)
    full, half = np.exp(h * L), np.exp(h * L / 2)
    q = mean((np.exp(z / 2) - 1) / z)
    f1 = mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3)
    f2 = mean((2 + z + np.exp(z) * (-2 + z)) / z**3)
    f3 = mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3)
    N = lambda v: np.where(np.arange(len(k)) < n // 3, nonlinear(v, k), 0.0)
    v = np.fft.rfft(start)
    for _ in range(steps):
        nv = N(v)
        a = half * v + q * nv
        na = N(a)
        b = half * v + q * na
        nb = N(b)
        c = half * a + q * (2 * nb - nv)
        v = full * v + f1 * nv + 2 * f2 * (na + nb) + f3 * N(c)
    return np.fft.irfft(v, n)


END = 0.6  # of the march that several tests share


def kuramoto_sivashinsky(end=END):
    return flm.PDE(
        flm.Box(x=(0, 2 * PI), t=(0, end)),
        lambda u, u_t, u_x, u_xx, u_xxxx: u_t + 100 / 16 * u * u_x + 100 / 16**2 * u_xx + 100 / 16**4 * u_xxxx,
        [flm.initial(lambda x: jnp.cos(x) * (1 + jnp.sin(x))), flm.periodic("x")],
    )


@pytest.fixture(scope="module")
def turbulent():
    return flm.solve(kuramoto_sivashinsky(), 1e-6, method="march")


@pytest.fixture(scope="module")
def kdv():
    problem = flm.PDE(
        flm.Box(x=(-1, 1), t=(0, 0.35)),
        lambda u, u_t, u_x, u_xxx: u_t + u * u_x + 0.0025 * u_xxx,
        [flm.initial(lambda x: jnp.cos(PI * x)), flm.periodic("x")],
    )
    return flm.solve(problem, 1e-7, method="march")


def test_a_soliton_of_korteweg_and_de_vries():
    c, length = 20.0, 8.0  # u = 3c sech²(√c (x − ct) / 2): e^{-18} at half a period
    around = lambda x: x - length * jnp.floor(x / length + 0.5)
    soliton = lambda x, t: 3 * c / jnp.cosh(jnp.sqrt(c) / 2 * around(x - c * t)) ** 2
    problem = flm.PDE(
        flm.Box(x=(-length / 2, length / 2), t=(0, 0.05)),
        lambda u, u_t, u_x, u_xxx: u_t + u * u_x + u_xxx,
        [flm.initial(lambda x: soliton(x, 0.0)), flm.periodic("x")],
        exact=soliton,
    )
    solution = flm.solve(problem, 1e-5, method="march")
    assert solution.converged
    assert solution.errors().relative_l2 <= solution.error_estimate


@pytest.mark.slow
def test_kuramoto_sivashinsky_against_etdrk4(turbulent):
    assert turbulent.converged
    x = 2 * PI * np.arange(256) / 256
    reference = etdrk4(
        lambda k: 100 / 16**2 * k**2 - 100 / 16**4 * k**4,
        lambda v, k: -100 / 32 * 1j * k * np.fft.rfft(np.fft.irfft(v) ** 2),
        np.cos(x) * (1 + np.sin(x)), 2 * PI, 0.4, 1000,
    )  # fmt: skip
    found = np.asarray(turbulent(x=x, t=0.4))
    assert np.linalg.norm(found - reference) < 2e-6 * np.linalg.norm(reference)


def test_the_front_of_burgers_against_cole_hopf():
    nu = 0.05 / PI
    problem = flm.PDE(
        flm.Box(x=(-1, 1), t=(0, 0.6)),
        lambda u, u_t, u_x, u_xx: u_t + u * u_x - nu * u_xx,
        [flm.initial(lambda x: -jnp.sin(PI * x)), flm.dirichlet("x=-1"), flm.dirichlet("x=1")],
    )
    solution = flm.solve(problem, 1e-6, method="march")
    x, t = np.linspace(-1, 1, 41), 0.6
    # u = ∫ −sin(π(x − η)) f e^{−η²/4νt} dη / ∫ f e^{−η²/4νt} dη, f = exp(−cos(π(x − η)) / 2πν), by the trapezoidal rule
    eta = np.linspace(-1.5, 1.5, 3001)
    weight = np.exp(-np.cos(PI * (x[:, None] - eta)) / (2 * PI * nu) - eta**2 / (4 * nu * t))
    exact = -(np.sin(PI * (x[:, None] - eta)) * weight).sum(axis=1) / weight.sum(axis=1)
    assert solution.converged
    np.testing.assert_allclose(solution(x=x, t=t), exact, atol=2e-6)


def test_mass_and_momentum_are_conserved(kdv):
    x = -1 + 2 * np.arange(512) / 512
    values = np.asarray(kdv(x=x[:, None], t=np.linspace(0, 0.35, 7)))
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-7)
    np.testing.assert_allclose((values**2).mean(axis=0), 0.5, rtol=1e-7)


@pytest.mark.slow
def test_the_charge_of_schroedinger_is_conserved_and_the_soliton_moves():
    problem = flm.PDE(
        flm.Box(x=(-15, 15), t=(0, 0.4)),
        lambda h, h_t, h_xx: 1j * h_t + 0.5 * h_xx + abs(h) ** 2 * h,
        [flm.initial(lambda x: jnp.exp(1j * x) / jnp.cosh(x), unknown="h"), flm.periodic("x")],
        unknowns=("h",),
        complex_unknowns=("h",),
        exact={"h": lambda x, t: jnp.exp(1j * x) / jnp.cosh(x - t)},
    )
    assert problem.unknowns == ("h_re", "h_im")
    solution = flm.solve(problem, 1e-4, method="march")
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-4
    x = -15 + 30 * np.arange(512) / 512
    charge = np.sum(np.asarray(solution(x=x[:, None], t=np.array([0.0, 0.2, 0.4]))) ** 2, axis=(0, 2))
    np.testing.assert_allclose(charge, charge[0], rtol=1e-4)


def flow(nu):
    return flm.PDE(
        flm.Box(x=(0, 2 * PI), y=(0, 2 * PI), t=(0, 0.25)),
        [
            lambda u, v, u_t, u_x, u_y, u_xx, u_yy, p_x: u_t + u * u_x + v * u_y + p_x - nu * (u_xx + u_yy),
            lambda u, v, v_t, v_x, v_y, v_xx, v_yy, p_y: v_t + u * v_x + v * v_y + p_y - nu * (v_xx + v_yy),
            lambda u_x, v_y: u_x + v_y,
        ],
        [
            flm.initial(lambda x, y: jnp.cos(x) * jnp.sin(y) + 0.5 * jnp.sin(2 * y)),
            flm.initial(lambda x, y: -jnp.sin(x) * jnp.cos(y), unknown="v"),
            flm.periodic("x"),
            flm.periodic("y"),
        ],
        unknowns=("u", "v", "p"),
    )


@pytest.mark.slow
def test_an_unforced_flow_keeps_its_energy_and_its_momentum_balances():
    solution = flm.solve(flow(0.0), 1e-4, method="march")
    assert solution.converged
    line = 2 * PI * np.arange(24) / 24
    x, y, t = np.meshgrid(line, line, [0.0, 0.12, 0.25], indexing="ij")
    u, v, p = np.moveaxis(np.asarray(solution(x=x, y=y, t=t)), -1, 0)
    np.testing.assert_allclose(np.mean(u**2 + v**2, axis=(0, 1)), np.mean(u[..., 0] ** 2 + v[..., 0] ** 2), rtol=1e-4)
    assert np.abs(p.mean(axis=(0, 1))).max() < 1e-12
    at = {"x": x, "y": y, "t": t}
    balance = solution["u"].d("t")(**at) + u * solution["u"].d("x")(**at) + v * solution["u"].d("y")(**at)
    np.testing.assert_allclose(balance, -solution["p"].d("x")(**at), atol=1e-2)
    np.testing.assert_allclose(solution["u"].d("x")(**at), -solution["v"].d("y")(**at), atol=1e-10)


def test_waves_with_a_velocity_and_a_lift():
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 2)),
        lambda u_tt, u_xx: u_tt - u_xx,
        [
            flm.initial(lambda x: 1 + x, velocity=lambda x: PI * jnp.sin(PI * x)),
            flm.dirichlet("x=0", 1.0),
            flm.dirichlet("x=1", 2.0),
        ],
        exact=lambda x, t: 1 + x + jnp.sin(PI * x) * jnp.sin(PI * t),
    )
    solution = flm.solve(problem, 1e-9, method="march")
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-11
    box, series = solution.pieces[0]
    points = box.interior(20, seed=1, warp=False)
    np.testing.assert_allclose(series(points), solution(points), atol=1e-8)
    np.testing.assert_allclose(solution.d("x")(x=0.3, t=0.5), 1 + PI * np.cos(0.3 * PI), rtol=1e-9)


@pytest.mark.slow
def test_a_plucked_string_with_friction_jumps_in_its_velocity_alone():
    """u_tt + 2 g u_t = u_xx from a triangle: sines whose amplitudes swing at sqrt(k^2 - g^2) and fade."""
    pluck, g = lambda x: jnp.minimum(x / 0.3, (1 - x) / 0.7), 0.1
    string = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 2)),
        lambda u_tt, u_t, u_xx: u_tt + 2 * g * u_t - u_xx,
        [flm.initial(pluck, velocity=lambda x: 0 * x), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
    )
    found = flm.solve(string, 1e-2)
    x, t = np.random.default_rng(0).uniform(0, 1, (2, 500)) * [[1], [2]]
    k = np.pi * np.arange(1, 1001)[:, None]
    w, first = np.sqrt(k**2 - g**2), 2 * np.sin(0.3 * k) / (0.3 * 0.7 * k**2)
    exact = (first * np.sin(k * x) * np.exp(-g * t) * (np.cos(w * t) + g / w * np.sin(w * t))).sum(axis=0)
    error = np.linalg.norm(found(x=x, t=t) - exact) / np.linalg.norm(exact)
    assert found.converged
    assert error <= 2 * found.error_estimate


@pytest.mark.slow
def test_the_heat_of_a_cube():
    space = dict.fromkeys("xyz", (0.0, 1.0))
    problem = flm.PDE(
        flm.Box(**space, t=(0, 0.1)),
        lambda u_t, u_xx, u_yy, u_zz: u_t - u_xx - u_yy - u_zz,
        [
            flm.initial(lambda x, y, z: jnp.sin(PI * x) * jnp.sin(2 * PI * y) * jnp.sin(PI * z)),
            *(flm.dirichlet(f"{axis}={end}") for axis in "xyz" for end in ("min", "max")),
        ],
    )
    solution = flm.solve(problem, 1e-8)  # four axes: no piece, and nobody has to say march
    exact = np.sin(0.3 * PI) * np.sin(0.8 * PI) * np.sin(0.5 * PI) * np.exp(-6 * PI**2 * 0.1)
    assert solution.converged
    np.testing.assert_allclose(solution(x=0.3, y=0.4, z=0.5, t=0.1), exact, rtol=1e-8)


def advance(evolution, intervals, num_nodes, steps):
    """The states at the end after equal windows on a grid of one size, in a space that holds them all."""
    space = Space(evolution.kinds, evolution.bounds, (intervals,) * len(evolution.kinds))
    run, dynamics = Run(evolution, 1e-13, intervals, num_nodes, np.inf, Record()), Dynamics(evolution, space)
    states = dynamics.start()
    run.sizes = space.norms(states)
    h = run.whole / steps
    for i in range(steps):
        states = run._step(dynamics, states, run.begin + i * h, h).states[-1]
    return space.resized((96,)).padded(states, space)


@pytest.fixture(scope="module")
def steep():
    return recognize(
        flm.PDE(
            flm.Box(x=(0, 2 * PI), t=(0, 0.5)),
            lambda u, u_t, u_x, u_xx: u_t + u * u_x - 0.1 * u_xx,
            [flm.initial(lambda x: jnp.sin(x)), flm.periodic("x")],
        )
    )


def test_the_order_in_time_is_the_number_of_nodes(steep):
    """Errors at the end of nonlinear flow fall as h^K at least."""
    truth = advance(steep, 64, 10, 4)
    errors = [np.abs(advance(steep, 64, 4, steps) - truth).max() for steps in (4, 8)]
    assert errors[1] > 1e-9
    assert 3.7 < np.log2(errors[0] / errors[1]) < 7


def test_errors_in_space_fall_geometrically(steep):
    """Twice the waves square the error: it falls faster than any power of their number."""
    truth = advance(steep, 96, 8, 4)
    errors = [np.abs(advance(steep, n, 8, 4) - truth).max() for n in (12, 24, 48)]
    assert errors[1] < 0.1 * errors[0]
    assert errors[2] / errors[1] < (errors[1] / errors[0]) ** 1.5


def test_nodes_that_begin_where_earlier_ones_lead_need_fewer_sweeps(steep, monkeypatch):
    """Nodes of large grids are swept one after another, those of small ones together: the same windows, less work."""
    ends, work = [], []
    for together in (1, 10**9):
        monkeypatch.setattr("flm.pde.march.run.TOGETHER", together)
        run = Run(steep, 1e-10, 64, 10, np.inf, Record())
        found = run.march()
        assert not found.reason
        ends.append(found.windows[-1].at(np.array([0.5]))[0, 0, :20])
        work.append(found.work)
    np.testing.assert_allclose(*ends, atol=1e-10)
    assert work[0] < 0.8 * work[1]


def test_the_limit_of_work_holds_where_every_window_is_accepted(monkeypatch):
    monkeypatch.setattr("flm.pde.march.solve.WORK", 1.0)
    problem = flm.PDE(
        flm.Box(x=(0, 2 * PI), t=(0, 1)),
        lambda u, u_t, u_xx: u_t - 0.1 * u_xx + u**3,
        [flm.initial(lambda x: jnp.cos(x)), flm.periodic("x")],
    )
    solution = flm.solve(problem, 1e-4, method="march")
    assert solution.status.word == "stopped"
    assert "limit of work" in solution.status.sentence
    assert solution.error_estimate == np.inf
    assert 0 < solution.trusted_until < 1


def test_heat_backward_in_time_stops_before_rounding_takes_over():
    """The waves that grow are not those of the answer: more of them would only grow faster, which once took hours."""
    problem = flm.PDE(
        flm.Box(x=(0, 2 * PI), t=(0, 2)),
        lambda u_t, u_xx: u_t + u_xx,
        [flm.initial(lambda x: jnp.sin(x)), flm.periodic("x")],
    )
    solution = flm.solve(problem, 1e-6, method="march")
    assert solution.status.word == "stopped"
    assert solution.error_estimate == np.inf
    x, t = np.linspace(0, 6, 20), 0.99 * solution.trusted_until
    assert 0.05 < t < 1
    np.testing.assert_allclose(solution(x=x, t=t), np.exp(t) * np.sin(x), atol=1e-5)


def test_a_march_without_a_first_window_says_so(monkeypatch):
    monkeypatch.setattr("flm.pde.march.run.MOST", {1: 32})
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u, u_t, u_x: u_t + u * u_x,
        [flm.initial(lambda x: jnp.exp(jnp.sin(2 * PI * x))), flm.periodic("x")],
    )
    solution = flm.solve(problem, 1e-9, method="march")
    assert solution.status.word == "stopped"
    assert solution.error_estimate == np.inf
    assert solution.trusted_until == 0.0


@pytest.mark.slow
def test_chaos_is_noticed(turbulent):
    """One run at 1e-2 is far off at the end (0.1 and more); the bar sees it and tightens until it is true."""
    solution = flm.solve(kuramoto_sivashinsky(), 1e-2, method="march")
    assert solution.converged
    assert solution.errors(lambda p: np.asarray(turbulent(p))).relative_l2 <= solution.error_estimate


@pytest.mark.slow
def test_what_sweeps_leave_is_not_common_to_both_runs(turbulent):
    """Both runs of the estimate once stopped sweeping at like errors: their difference was less than the error."""
    evolution = recognize(kuramoto_sivashinsky())
    finer = as_model(Run(evolution, 1e-8, 32, 10, np.inf, Record()).march(), evolution, 1e-8)
    assert turbulent.errors(lambda p: np.asarray(finer(p))).relative_l2 <= turbulent.error_estimate


@pytest.mark.slow
def test_a_march_that_is_stopped_says_how_far_it_can_be_trusted(turbulent, monkeypatch):
    monkeypatch.setattr("flm.pde.march.solve.WORK", 1.5e5)
    solution = flm.solve(kuramoto_sivashinsky(), 1e-5, method="march")
    assert solution.status.word == "stopped"
    assert solution.error_estimate == np.inf
    assert 0 < solution.trusted_until < END
    assert solution.estimate_until <= 1e-5
    x = np.linspace(0, 6, 30)
    gap = np.asarray(solution(x=x, t=solution.trusted_until) - turbulent(x=x, t=solution.trusted_until))
    assert np.abs(gap).max() < 1e-3
    with pytest.warns(UserWarning, match="up to t ="):
        assert np.isnan(solution(x=1.0, t=0.999 * END))


@pytest.mark.slow
def test_answers_are_functions_like_any_other(kdv, tmp_path):
    points = np.random.default_rng(0).uniform([-1, 0], [1, 0.35], (40, 2))
    kdv.save(tmp_path / "kdv.safetensors")
    again = flm.load(tmp_path / "kdv.safetensors")
    np.testing.assert_array_equal(again(points), kdv(points))
    value = lambda x: kdv(x=x, t=0.3)
    bent = jax.jit(jax.vmap(jax.grad(jax.grad(value))))(points[:, 0])
    np.testing.assert_allclose(bent, kdv.d("xx")(x=points[:, 0], t=0.3), rtol=1e-11)
    grid, step = np.asarray(kdv(x=0.2, t=np.array([0.2999, 0.3001]))), 2e-4
    np.testing.assert_allclose(np.diff(grid) / step, kdv.d("t")(x=0.2, t=0.3), rtol=1e-4)
    residual = kdv.d("t")(points) + kdv(points) * kdv.d("x")(points) + 0.0025 * kdv.d("xxx")(points)
    assert np.abs(residual).max() < 1e-2
    box, series = kdv.pieces[0]
    inside = box.interior(20, seed=3, warp=False)
    np.testing.assert_allclose(series(inside), kdv(inside), atol=1e-7)
    assert len(kdv.plot().axes) == 2


@pytest.mark.slow
def test_the_march_takes_over_where_one_piece_is_not_enough():
    solution = flm.solve(kuramoto_sivashinsky(0.2), 1e-5)
    assert solution.converged
    assert type(solution.model).__name__ == "MarchedFLM"
    smooth = flm.solve(flm.problems.heat(), 1e-8)  # one piece is enough
    assert type(smooth.model).__name__ == "PiecewiseFLM"


def hidden(where):
    """Heat between cold ends with something that sixteen probes and a coarse grid do not see, and the exact answer."""
    k, wave = PI * np.arange(1, 2000), lambda x, t: np.sin(PI * x) * np.exp(-0.1 * PI**2 * t)
    if where == "in space":  # a source of width 8e-4
        b = 2 * 500 * 8e-4 * np.sqrt(PI) * np.exp(-((k * 8e-4) ** 2) / 4) * np.sin(0.6131 * k) / (0.1 * k**2)
        source = lambda x, t: 500 * jnp.exp(-(((x - 0.6131) / 8e-4) ** 2))
        return source, lambda x, t: wave(x, t) + np.sin(np.outer(x, k)) * -np.expm1(-0.1 * np.outer(t, k**2)) @ b
    # a kick that lasts 4e-4
    rate, at, s = 0.9 * PI**2, 0.6371, 2e-4
    source = lambda x, t: 2000 * jnp.exp(-(((t - at) / s) ** 2)) * jnp.sin(3 * PI * x)
    grown = lambda t: 1000 * s * np.sqrt(PI) * (1 + erf((t - at) / s - rate * s / 2)) * np.exp(-rate * (t - at))
    return source, lambda x, t: wave(x, t) + np.sin(3 * PI * x) * grown(t) * np.exp((rate * s) ** 2 / 4)


@pytest.mark.parametrize("where", ["in space", "in time"])
def test_a_source_between_the_nodes_of_a_march_is_found(where):
    source, exact = hidden(where)
    heat = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda x, t, u_t, u_xx: u_t - 0.1 * u_xx - source(x, t),
        [flm.initial(lambda x: jnp.sin(PI * x)), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
    )
    solution = flm.solve(heat, 1e-5)
    points = np.random.default_rng(0).uniform(size=(3000 if where == "in space" else 100_000, 2))
    found, truth = np.asarray(solution(points)), exact(*points.T)
    assert solution.converged
    assert np.linalg.norm(found - truth) <= 2 * solution.error_estimate * np.linalg.norm(truth)


def test_a_factor_that_varies_in_a_small_place_is_not_constant():
    narrow = lambda x: 100 * jnp.exp(-(((x - 0.4137) / 3e-3) ** 2))
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda x, u, u_t, u_xx: u_t - u_xx + narrow(x) * u,
        [flm.initial(lambda x: jnp.sin(PI * x)), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
    )
    assert [alpha for _, alpha in recognize(problem).linear] == [(2, 0)]


@pytest.mark.parametrize("method", [None, "march"])
def test_a_start_of_waves_that_the_grid_takes_for_others_is_not_lost(method):
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1e-3)),
        lambda u_t, u_xx: u_t - 1e-4 * u_xx,
        [flm.initial(lambda x: 1 + jnp.cos(2 * PI * 256 * x)), flm.periodic("x")],
        exact=lambda x, t: 1 + jnp.exp(-1e-4 * (512 * PI) ** 2 * t) * jnp.cos(512 * PI * x),
    )
    solution = flm.solve(problem, 1e-4, method=method)
    assert solution.converged == (method is None)
    assert method or solution.errors().relative_l2 <= 2 * solution.error_estimate
    assert solution.converged or solution.error_estimate == np.inf


def test_what_is_too_faint_to_be_measured_has_no_estimate(monkeypatch):
    """A march that runs out of work long before its pulse, where the solution is 1e-166 and its square vanishes."""
    monkeypatch.setattr("flm.pde.march.solve.WORK", 1e4)
    source = lambda x, t: jnp.cos(2 * jnp.pi * x) * jnp.exp(-(((t - 0.9) / 0.04) ** 2))
    equation = lambda x, t, u, u_t, u_xx: u_t - 0.01 * u_xx + u**2 - source(x, t)
    problem = flm.PDE(flm.Box(x=(0, 1), t=(0, 1)), equation, [flm.initial(0.0), flm.periodic("x")])
    solution = flm.solve(problem, 1e-6, method="march")
    assert solution.error_estimate == np.inf
    assert solution.trusted_until == 0.0
    assert solution.estimate_until == np.inf
