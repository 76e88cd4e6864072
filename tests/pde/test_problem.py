"""Problems written by argument name: what is understood, what is refused, and that every exact solution is one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.language.arguments import splits

CATALOGUE = [
    "heat",
    "poisson",
    "black_scholes",
    "advection",
    "wave",
    "helmholtz",
    "convection_diffusion",
    "reaction_diffusion",
    "klein_gordon",
    "allen_cahn",
    "viscous_burgers",
    "biharmonic",
    "acoustics",
    "poisson_3d",
    "poisson_5d",
    "oscillator",
    "stiff",
]
BOX = flm.Box(x=(0, 1), t=(0, 1))


def derivative(function, alpha):
    """D^alpha of a pointwise function by nested forward mode."""
    for j, order in enumerate(alpha):
        for _ in range(order):
            function = lambda p, f=function, j=j: jax.jvp(f, (p,), (jnp.zeros_like(p).at[:, j].set(1.0),))[1]
    return function


def exact_jets(problem, points, jets):
    exact = lambda k: lambda p: problem.exact[k](p, (), problem.parameter_start)
    every = jax.jit(lambda p: jnp.stack([derivative(exact(k), alpha)(p) for k, alpha in jets]))
    return np.asarray(every(points))


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_residual_of_the_exact_solution_is_zero(name):
    problem = getattr(flm.problems, name)()
    for block in problem.blocks:
        points, normals = block.sample(40, seed=1, warp=False)
        jets = exact_jets(problem, points, block.residual.jets)
        scale = 1 + np.abs(jets).max()
        if block.partner is not None:
            there, _ = block.partner.sample(40, seed=1, warp=False)
            value = jets - exact_jets(problem, there, block.residual.jets)
        else:
            value = block.residual.linearize(points, jets, problem.parameter_start, normals).value
        # Gauss-Hermite quadrature limits the reference of viscous Burgers
        assert np.abs(value).max() <= (1e-9 if name == "viscous_burgers" else 1e-13) * scale, block.name


def test_derivative_names_split_over_axes():
    assert splits("xxt", ("x", "t")) == {(2, 1)}
    assert splits("x1x2", ("x1", "x2")) == {(1, 1)}
    assert splits("aab", ("a", "aa", "b")) == {(2, 0, 1), (0, 1, 1)}
    assert splits("z", ("x", "t")) == set()


def test_argument_defaults_are_left_alone():
    speed = 2.0
    problem = flm.PDE(BOX, lambda u_t, u_x, c=speed: u_t + c * u_x)
    assert problem.equations[0].residual.jets == ((0, (0, 1)), (0, (1, 0)))


@pytest.mark.slow
def test_numpy_works_on_axes_and_derivatives_are_pointwise():
    problem = flm.PDE(BOX, lambda x, t, u, u_x: np.sin(x) * u**2 + t * u_x)
    points = BOX.interior(30, seed=0)
    jets = np.random.default_rng(0).normal(size=(2, 30))
    line = problem.equations[0].residual.linearize(points, jets, [])
    assert not problem.equations[0].residual.traceable
    np.testing.assert_allclose(line.by_jet[0], 2 * np.sin(points[:, 0]) * jets[0])
    np.testing.assert_allclose(line.by_jet[1], points[:, 1])


def test_normal_derivative_is_outward():
    condition = flm.neumann("x=0", 0.0)
    block = flm.PDE(BOX, lambda u: u, [condition]).conditions[0]
    points, normals = block.sample(5, seed=0)
    jets = np.ones((len(block.residual.jets), 5))
    assert (block.residual.linearize(points, jets, [], normals).value == -1).all()


def test_boundary_is_spatial_and_leaves_named_faces_alone():
    problem = flm.PDE(
        BOX, lambda u_t, u_xx: u_t - u_xx, [flm.initial(0.0), flm.dirichlet("x=0", 1.0), flm.dirichlet("boundary")]
    )
    points, _ = problem.conditions[2].sample(20, seed=0)
    assert (points[:, 0] == 1).all()


def faces(problem, index):
    return {part.name for part in problem.conditions[index].parts}


def test_values_and_slopes_can_both_be_given_on_the_boundary():
    """ "boundary" counts by kind of condition: a plate takes two on each side, a membrane one."""
    square = flm.Box(x=(0, 1), y=(0, 1))
    sides = ("x=0", "x=1", "y=0", "y=1")
    plate = lambda u_xxxx, u_xxyy, u_yyyy: u_xxxx + 2 * u_xxyy + u_yyyy - 1
    slopes = [flm.neumann(side) for side in sides]
    clamped = flm.PDE(square, plate, [flm.dirichlet("boundary"), *slopes])
    assert faces(clamped, 0) == set(sides)
    other_way = flm.PDE(square, plate, [*[flm.dirichlet(side) for side in sides], flm.neumann("boundary")])
    assert faces(other_way, 4) == set(sides)
    some = flm.PDE(square, plate, [flm.dirichlet("boundary"), flm.neumann("boundary"), flm.dirichlet("x=0", 1.0)])
    assert faces(some, 0) == set(sides) - {"x=0"}
    assert faces(some, 1) == set(sides)
    membrane = lambda u_xx, u_yy: u_xx + u_yy - 1
    mixed = flm.PDE(square, membrane, [flm.dirichlet("boundary"), flm.neumann("x=0")])
    assert faces(mixed, 0) == set(sides) - {"x=0"}
    joined = flm.PDE(square, membrane, [flm.dirichlet("boundary"), flm.periodic("x")])
    assert faces(joined, 0) == {"y=0", "y=1"}
    both = flm.PDE(
        square,
        [lambda u_xx, v: u_xx - v, lambda v_yy, u: v_yy - u],
        [flm.dirichlet("boundary"), flm.dirichlet("x=0", unknown="v")],
        unknowns=("u", "v"),
    )
    assert faces(both, 0) == set(sides)
    cut, hole = flm.Box(x=(0, 3), y=(0, 3)), flm.Box(x=(1, 2), y=(1, 2))
    frame = flm.PDE(cut - hole, membrane, [flm.dirichlet("boundary"), flm.dirichlet(hole, 1.0)])
    assert frame.conditions[0].piece.measure == pytest.approx(12.0, rel=1e-3)
    with pytest.raises(
        ValueError, match=r"on \"boundary\" must find a part .*; got conditions on all of it \(x=0, x=1, y=0, y=1\)"
    ) as e:
        flm.PDE(square, membrane, [flm.dirichlet("boundary"), *slopes])
    assert 'such as flm.on("x=0", …), or remove it.' in str(e.value)


def test_a_clamped_beam_is_solved():
    beam = flm.PDE(
        flm.Box(x=(0, 1)),
        lambda u_xxxx: u_xxxx - 24.0,
        [flm.dirichlet("boundary"), flm.neumann("x=0"), flm.neumann("x=1")],
        exact=lambda x: x**2 * (1 - x) ** 2,
    )
    solution = flm.solve(beam, 1e-7)
    assert solution.converged
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


def test_kinds_of_blocks():
    problem = flm.PDE(
        BOX,
        lambda u_tt, u_xx: u_tt - u_xx,
        [flm.initial(0.0, velocity=1.0), flm.on("t=0", lambda u: u), flm.periodic("x")],
    )
    assert [b.kind for b in problem.blocks] == ["equation", "initial", "initial", "initial", "periodic", "periodic"]
    assert problem.periodic_axes == (True, False)


def test_a_problem_shows_its_names_domain_and_conditions():
    hole = flm.Disk(x=0, y=0, radius=0.5)
    ring = flm.PDE(
        flm.Disk(radius=1) - hole,
        [lambda u_xx, u_yy, v, k: u_xx + u_yy - k * v, lambda u, v: u - v],
        [
            flm.dirichlet(hole, 1.0),
            flm.on("boundary", lambda x, u_n: u_n - x, where=lambda x: x > 0),
            flm.data([[0.7, 0.0]], [1.0], observe=lambda v: v),
        ],
        unknowns=("u", "v"),
        parameters={"k": 2.0},
    )
    assert repr(ring).splitlines() == [
        "PDE of u, v on Disk(x=0, y=0, radius=1) - Disk(x=0, y=0, radius=0.5)",
        "  equation: a function of u_xx, u_yy, v, k",
        "  equation: a function of u, v",
        "  Disk(x=0, y=0, radius=0.5): a function of u",
        "  boundary: a function of x, u_n, on a part of it",
        "  1 reading: a function of v",
        "  k = 2.0",
    ]
    waves = flm.PDE(BOX, lambda u_tt, u_xx: u_tt - u_xx, [flm.initial(0.0, velocity=1.0), flm.periodic("x")])
    assert repr(waves).splitlines()[2:] == ["  t=min: a function of u", "  t=min: a function of u_t", "  periodic in x"]
    many = flm.PDE(BOX, lambda u: u, [flm.on(f"x={i / 10}", lambda u: u) for i in range(11)])
    assert repr(many).splitlines()[-1] == "  and 3 more conditions"
    law = flm.ConservationLaw(
        lambda u, a: a * u**2, flm.Box(x=(0, 1), t=(0, 1)), lambda x: jnp.sin(2 * jnp.pi * x), parameters={"a": 0.5}
    )
    assert repr(law).splitlines() == [
        "ConservationLaw of u on Box(x=(0, 1), t=(0, 1)), periodic in x",
        "  u_t + f(u)_x = 0, f: a function of u, a",
        "  t=0: u = a function of x",
        "  a = 0.5",
    ]


BAD = [
    (lambda: flm.PDE(BOX, lambda u_z: u_z), "the argument 'u_z' of `equation` must be one of an axis (x, t)"),
    (lambda: flm.PDE(BOX, lambda v: v), "the argument 'v' of `equation` must be one of"),
    (lambda: flm.PDE(BOX, lambda alhpa, u: u, parameters={"alpha": 1.0}), "Did you mean 'alpha'?"),
    (lambda: flm.PDE(BOX, lambda *u: u[0]), "must name its arguments one by one"),
    (lambda: flm.PDE(BOX, 3), "`equation` must be a function of named arguments"),
    (lambda: flm.PDE(BOX, []), "`equation` must be a function or a list of at least one"),
    (lambda: flm.PDE(BOX, lambda u: (u, u)), "must return one number per point"),
    (lambda: flm.PDE(BOX, lambda u: u[:3]), "must return one number per point"),
    (lambda: flm.PDE(BOX, lambda x, u: u / (x - x)), "must be finite at interior points"),
    (lambda: flm.PDE(BOX, lambda u: np.sin(u)), "must use jax.numpy on the unknown"),
    (lambda: flm.PDE(BOX, lambda u: u, [flm.on("x=2", lambda u: u)]), "got 'x=2'"),
    (lambda: flm.PDE(BOX, lambda u: u, [flm.on("z=0", lambda u: u)]), "z"),
    (lambda: flm.PDE(BOX, lambda u: u, [lambda u: u]), "must come from on, initial, dirichlet"),
    (lambda: flm.PDE(BOX, lambda u: u, [flm.periodic("y")]), "`axis` of periodic must be an axis of a box"),
    (lambda: flm.PDE(BOX, lambda u: u, unknowns=("x",)), "must not reuse a name; got 'x'"),
    (lambda: flm.PDE(BOX, lambda u: u, parameters={"a": np.nan}), "the parameter 'a' must be a finite number"),
    (lambda: flm.PDE(BOX, lambda u, a: a * u, parameters={"a": flm.Learn(1.0)}), "must come with measured values"),
    (lambda: flm.PDE(flm.Box(a=(0, 1), aa=(0, 1)), lambda u_aa: u_aa), "must have one meaning; got 2"),
    (lambda: flm.PDE("box", lambda u: u), "`domain` must be a domain"),
    (lambda: flm.PDE(BOX, lambda u: u, exact={"v": lambda x: x}), "`exact` must give u; got v"),
    (lambda: flm.Learn(2.0, upper=1.0), "`start` must be a finite number between"),
    (lambda: flm.data([[0.1, 0.2]], [1.0, 2.0]), "`values` must have one entry per row"),
    (lambda: flm.data([[0.1, np.nan]], [1.0]), "must be finite"),
    (lambda: flm.data([[0.1, 0.2]], [1.0], sigma=0.0), "`sigma` must be a positive number"),
    (lambda: flm.PDE(BOX, lambda u: u, [flm.data([[3.0, 0.2]], [1.0])]), "must lie in the domain"),
    (lambda: flm.PDE(BOX, lambda u: u, [flm.data([[0.1]], [1.0])]), "one column per axis"),
    (lambda: flm.solve(flm.problems.heat(), tol=0), "`tol` must be a positive number; got 0"),
    (lambda: flm.solve(flm.problems.heat(), num_subnets=0), "`num_subnets` must be an integer of at least 1; got 0"),
    (lambda: flm.solve(flm.problems.heat(), method="magic"), "`method` must be None or one of"),
    (lambda: flm.solve(flm.problems.poisson(), max_columns=5, method="pieces"), "`method` must not be 'pieces'"),
    (lambda: flm.solve(flm.problems.poisson(), max_columns=5, method="sparse"), "`max_columns` must leave room"),
    (lambda: flm.solve("heat"), "`problem` must be a PDE"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "message"), BAD, ids=[m[:40] for _, m in BAD])
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


def test_singular_coefficient_at_an_edge_is_legitimate():
    disk = flm.PDE(
        flm.Box(r=(0, 1)),
        lambda r, u_r, u_rr: u_rr + u_r / r + 4.0,  # radial Poisson: u = 1 - r^2
        [flm.dirichlet("r=1"), flm.on("r=0", lambda u_r: u_r)],
        exact=lambda r: 1 - r**2,
    )
    assert flm.solve(disk, 1e-9).errors().relative_l2 < 1e-8
