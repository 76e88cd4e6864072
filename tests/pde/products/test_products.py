"""Kronecker sums in many variables: errors at points that are drawn where the answer is."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import flm
from flm.cli.run import run
from flm.pde.march.sides import Unfit
from flm.pde.products.line import Ends, Line, nodes
from flm.pde.products.sample import draw
from flm.pde.products.separate import Separation
from flm.pde.products.sums import Sum, Term
from flm.wording import InputError


def names(m):
    return tuple(f"x{j + 1}" for j in range(m))


def box(m, low=-1.0, high=1.0):
    return dict.fromkeys(names(m), (low, high))


def poisson(m, source, boundary=0.0):
    axes = names(m)
    equation = flm.Named(lambda *v: -sum(v[:m]) - source(*v[m:]), tuple(f"u_{a}{a}" for a in axes) + axes)
    value = flm.Named(boundary, axes) if callable(boundary) else boundary
    return flm.PDE(flm.Box(**box(m)), equation, [flm.dirichlet("boundary", value)])


def error(solution, exact, t=0.0, count=150):
    """Relative L2 error, at points drawn from the answer with another seed than the estimate's."""
    points, weights = draw(solution.model, t, count, seed=11)
    found, truth = np.asarray(solution.model(points)), exact(points)
    return float(np.sqrt(weights @ (found - truth) ** 2 / (weights @ truth**2)))


def product(values):
    return jnp.prod(jnp.stack(values), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("m", [5, 100])
def test_a_product_of_sines_is_one_term(m):
    problem = poisson(m, lambda *x: m * jnp.pi**2 * product([jnp.sin(jnp.pi * v) for v in x]))
    solution = flm.solve(problem, 1e-12)
    assert solution.converged
    assert error(solution, lambda X: np.prod(np.sin(np.pi * X), axis=1)) < 1e-12
    assert len(solution.model.parts) == len(solution.model.parts[0].times) == 1


@pytest.mark.slow
@pytest.mark.parametrize("m", [5, 40])
def test_a_gaussian_with_its_values_on_all_faces(m):
    width = 0.09 * m
    bell = lambda *x: jnp.exp(-sum((v - 0.3) ** 2 for v in x) / (2 * width))
    source = lambda *x: (m / width - sum((v - 0.3) ** 2 for v in x) / width**2) * bell(*x)
    solution = flm.solve(poisson(m, source, bell), 1e-8)
    wrong = error(solution, lambda X: np.exp(-((X - 0.3) ** 2).sum(axis=1) / (2 * width)))
    assert solution.converged
    assert wrong <= max(2 * solution.error_estimate, 1e-12)


def heated(x, t):
    """The heat equation from 1 with cold ends on [-1, 1], (P, T): images at early times, waves at late ones."""
    early = sum(
        (-1) ** k
        * (erf((x[:, None] - 2 * k + 1) / (2 * np.sqrt(t))) - erf((x[:, None] - 2 * k - 1) / (2 * np.sqrt(t))))
        / 2
        for k in range(-3, 4)
    )
    n = (2 * np.arange(40) + 1) * np.pi / 2
    late = np.einsum("pk,kt->pt", 2 * (-1.0) ** np.arange(40) / n * np.cos(np.outer(x, n)), np.exp(-np.outer(n**2, t)))
    return np.where(t < 0.2, early, late)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "tol"), [(10, 1e-6), (40, 1e-4)])
def test_a_source_of_one_with_zero_sides(m, tol):
    def exact(X):  # u = int_0^inf prod_j v(x_j, t) dt
        s = np.arange(-24, 5, 0.16)  # the trapezoidal rule in log t, which converges fast
        return np.prod([heated(x, np.exp(s)) for x in X.T], axis=0) @ (0.16 * np.exp(s))

    solution = flm.solve(poisson(m, lambda *x: 1.0), tol)
    assert solution.converged
    assert error(solution, exact, count=60) <= 2 * solution.error_estimate


@pytest.mark.slow
def test_heat_in_six_variables_and_a_steady_source():
    m, axes = 6, names(6)
    start = flm.Named(lambda *x: product([jnp.sin((1 + j % 2) * jnp.pi * v) for j, v in enumerate(x)]), axes)
    sides = [flm.dirichlet(f"{a}={end}") for a in axes for end in ("min", "max")]
    laplacian = tuple(f"u_{a}{a}" for a in axes)
    domain = flm.Box(**box(m, 0.0, 1.0), t=(0.0, 1.0))
    free = flm.PDE(
        domain, flm.Named(lambda rate, *v: rate - 0.1 * sum(v), ("u_t", *laplacian)), [flm.initial(start), *sides]
    )
    solution = flm.solve(free, 1e-9)
    rate = 0.1 * np.pi**2 * 15
    exact = lambda P: (
        np.prod([np.sin((1 + j % 2) * np.pi * P[:, j]) for j in range(m)], axis=0) * np.exp(-rate * P[:, -1])
    )
    assert error(solution, exact, t=0.4) < 1e-9
    forced = flm.Named(lambda rate, *v: rate - 0.1 * sum(v) - 1, ("u_t", *laplacian))
    warm = flm.solve(flm.PDE(domain, forced, [flm.initial(0.0), *sides]), 1e-5)
    points = np.random.default_rng(0).uniform(0.3, 0.7, (10, m + 1))
    residual = warm.d("t")(points) - 0.1 * sum(warm.d((j, j))(points) for j in range(m)) - 1
    assert np.abs(residual).max() < 1e-3
    assert np.abs(warm(np.where(np.arange(m + 1) == m, 0.0, points))).max() < 1e-4


@pytest.mark.slow
def test_schroedinger_in_four_variables_turns():
    m, axes = 4, names(4)
    wave = lambda k, x: product([jnp.sin(k * jnp.pi * v) for v in x])
    equation = flm.Named(lambda rate, *v: 1j * rate + 0.5 * sum(v), ("h_t", *(f"h_{a}{a}" for a in axes)))
    start = flm.Named(lambda *x: wave(1, x) + 1j * wave(2, x), axes)
    sides = [flm.dirichlet(f"{a}={end}", unknown="h") for a in axes for end in ("min", "max")]
    domain = flm.Box(**box(m, 0.0, 1.0), t=(0.0, 0.3))
    problem = flm.PDE(
        domain, equation, [flm.initial(start, unknown="h"), *sides], unknowns=("h",), complex_unknowns=("h",)
    )
    solution = flm.solve(problem, 1e-8)
    points = np.random.default_rng(0).uniform(0, 1, (50, m + 1)) * [1, 1, 1, 1, 0.3]
    each = [
        np.prod(np.sin(k * np.pi * points[:, :m]), axis=1) * np.exp(-0.5j * m * (k * np.pi) ** 2 * points[:, m])
        for k in (1, 2)
    ]
    found = np.asarray(solution(points))
    assert np.abs(found[:, 0] + 1j * found[:, 1] - (each[0] + 1j * each[1])).max() < 1e-8


@pytest.mark.slow
def test_an_answer_is_a_series_a_file_and_a_function_to_jax(tmp_path):
    solution = flm.solve(poisson(5, lambda *x: 1.0), 1e-4)
    points = np.random.default_rng(0).uniform(-0.9, 0.9, (6, 5))
    assert isinstance(solution.series, flm.ProductSeries)
    assert solution.series_error < 1e-8
    solution.save(tmp_path / "many.safetensors")
    assert np.allclose(flm.load(tmp_path / "many.safetensors")(points), solution(points), rtol=1e-12)
    slope = jax.jit(jax.grad(lambda x: solution(x[None])[0]))(jnp.asarray(points[0]))
    assert np.allclose(slope, [solution.d((j,))(points[:1])[0] for j in range(5)], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: jnp.sin(a) * b + jnp.exp(-(a**2 + b**2 + c * c)),
        lambda a, b, c: jnp.sin(a + 2 * b - c) * jnp.cos(a - b),
        lambda a, b, c: 1 / (1 + a**2 + b**2 + c**2),
        lambda a, b, c: jnp.tanh(a + b + c) + (a * b + 1) ** 2 / (2 + jnp.tanh(c)),
        lambda a, b, c: jnp.where(c > 0, c, 0.0) ** 3 * jnp.sqrt(2 + a + b),
        flm.products([{"a": np.sin, "b": np.cos}, {"c": lambda c: np.interp(c, [-1, 1], [0, 1])}]),
    ],
)
def test_functions_are_factored_by_looking_at_them(function):
    lines = tuple(np.linspace(-0.9, 1, 7) for _ in range(3))
    parts = Separation(lines)
    (found,) = parts.run(jax.make_jaxpr(function)(0.5, 0.5, 0.5), [Sum(Term(1.0, {j: x})) for j, x in enumerate(lines)])
    places = np.random.default_rng(0).integers(0, 7, (40, 3))
    total = sum(np.real(t.c * np.prod([v[places[:, j]] for j, v in t.factors.items()], axis=0)) for t in found.terms)
    expected = np.asarray(function(*(x[places[:, j]] for j, x in enumerate(lines))))
    assert np.abs(total - expected).max() <= 1e-12 * np.abs(expected).max()


def test_what_cannot_be_factored_is_refused_with_what_to_do():
    lines = (np.linspace(0, 1, 5),) * 2
    with pytest.raises(Unfit, match="of a product cannot be factored"):
        Separation(lines).run(
            jax.make_jaxpr(lambda x, y: jnp.sin(x * y))(0.5, 0.5),
            [Sum(Term(1.0, {j: x})) for j, x in enumerate(lines)],
        )
    with pytest.raises(InputError, match=r"more than 8 variables; got 12: .* flm.products"):
        flm.solve(poisson(12, lambda *x: jnp.sin(x[0] * x[1])))
    with pytest.raises(InputError, match="`method` must not be 'products'"):
        flm.solve(flm.problems.viscous_burgers(), method="products")
    with pytest.raises(TypeError, match="`terms` must be a list of dicts"):
        flm.products([])


def test_a_line_has_the_eigenvalues_of_its_ends():
    bounds, count = np.array([-1.0, 1.0]), 32
    one = np.ones_like(nodes(bounds, count))
    rates = lambda ends, b=0.0, c=0.0: Line(bounds, count, ends, one, b * one, c * one).rates[:4]
    k = np.arange(4)
    assert np.allclose(rates(Ends()), ((k + 1) * np.pi / 2) ** 2, rtol=1e-12)
    assert np.allclose(rates(Ends((True, False))), ((k + 0.5) * np.pi / 2) ** 2, rtol=1e-12)
    assert np.allclose(rates(Ends((False, False))), (k * np.pi / 2) ** 2, atol=1e-11)
    assert np.allclose(rates(Ends((False, False), is_periodic=True)), (np.array([0, 1, 1, 2]) * np.pi) ** 2, atol=1e-11)
    assert np.allclose(rates(Ends(), b=2.0, c=-3.0), ((k + 1) * np.pi / 2) ** 2 + 1 + 3, rtol=1e-12)  # -u'' - 2u' + 3u


def test_an_operator_that_is_not_positive_is_refused():
    axes = names(4)
    equation = flm.Named(lambda *v: sum(v[:4]) + 400 * v[4] - 1.0, (*(f"u_{a}{a}" for a in axes), "u"))
    problem = flm.PDE(flm.Box(**box(4)), equation, [flm.dirichlet("boundary")])
    with pytest.raises(InputError, match="positive"):
        flm.solve(problem, method="products")


@pytest.mark.slow
def test_slopes_that_differ_from_face_to_face():
    """Insulated axes have the eigenvalue zero, next to which any function once passed for an eigenfunction."""
    m, axes = 5, names(5)
    exact = lambda X: np.exp(X / 2).sum(axis=1) + X[:, 0] * X[:, 1]

    def side(j, end, at):
        slope = lambda *x: (2 * at - 1) * (jnp.exp(at / 2) / 2 + (x[1 - j] if j < 2 else 0.0))
        return flm.neumann(f"{axes[j]}={end}", flm.Named(slope, axes))

    sides = [side(j, end, at) for j in range(m) for end, at in (("min", 0.0), ("max", 1.0))]
    source = lambda x: sum(1.75 * jnp.exp(v / 2) for v in x) + 2 * x[0] * x[1]
    equation = flm.Named(lambda u, *v: 2 * u - sum(v[:m]) - source(v[m:]), ("u", *(f"u_{a}{a}" for a in axes), *axes))
    solution = flm.solve(flm.PDE(flm.Box(**box(m, 0.0, 1.0)), equation, sides), 1e-8)
    assert solution.converged
    assert error(solution, exact) < 1e-12


@pytest.mark.slow
def test_values_that_differ_from_face_to_face():
    """From 2 to 5 along the first axis between insulated faces; a face with a wave that vanishes where faces meet."""
    m, axes = 12, names(12)
    laplacian = flm.Named(lambda *v: sum(v), tuple(f"u_{a}{a}" for a in axes))
    others = [flm.neumann(f"{a}={end}") for a in axes[1:] for end in ("min", "max")]
    ends = [flm.dirichlet("x1=min", 2.0), flm.dirichlet("x1=max", 5.0)]
    solution = flm.solve(flm.PDE(flm.Box(**box(m)), laplacian, [*ends, *others]), 1e-10)
    assert solution.converged
    assert error(solution, lambda X: 3.5 + 1.5 * X[:, 0]) <= 2 * solution.error_estimate
    wave = lambda *x: jnp.cos(jnp.pi * x[0] / 2) * jnp.cos(jnp.pi * x[1] / 2)
    plane = flm.Named(lambda *v: sum(v), ("u_x1x1", "u_x2x2", "u_x3x3"))
    cold = [flm.dirichlet(f"{a}={end}") for a in ("x1", "x2") for end in ("min", "max")]
    faces = [*cold, flm.dirichlet("x3=min"), flm.dirichlet("x3=max", flm.Named(wave, ("x1", "x2", "x3")))]
    hot = flm.solve(flm.PDE(flm.Box(**box(3)), plane, faces), 1e-8, method="products")
    k = np.pi / np.sqrt(2)
    exact = lambda X: np.cos(np.pi * X[:, :2] / 2).prod(axis=1) * np.sinh(k * (X[:, 2] + 1)) / np.sinh(2 * k)
    assert error(hot, exact) <= 2 * hot.error_estimate <= 2e-8


@pytest.mark.slow
def test_a_narrow_peak_is_not_overlooked():
    solution = flm.solve(poisson(9, lambda *x: 1 + 1e4 * jnp.exp(-(((x[0] - 0.3) / 4e-3) ** 2))), 1e-4)
    assert solution.error_estimate == np.inf


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (lambda u, first, second: 300 * first - second - 1, "first derivatives that do not outweigh the second"),
        (lambda u, first, second: -second - 5 * u - 1, "all its eigenvalues above zero"),
        (lambda u, first, second: -second + u**3 - 1, "linear in the unknown"),
        (lambda u, first, second: -second + jnp.exp(jnp.sin(u)), "linear in the unknown"),
    ],
)
def test_what_is_no_positive_sum_over_the_axes_is_refused_with_the_reason(terms, reason):
    axes = names(9)
    equation = flm.Named(
        lambda u, *v: sum(terms(u / 9, a, b) for a, b in zip(v[:9], v[9:], strict=True)),
        ("u", *(f"u_{a}" for a in axes), *(f"u_{a}{a}" for a in axes)),
    )
    problem = flm.PDE(
        flm.Box(**box(9)), equation, [flm.neumann("boundary") if "zero" in reason else flm.dirichlet("boundary")]
    )
    with pytest.raises(InputError, match=reason):
        flm.solve(problem)


def test_an_eigenfunction_is_refused_where_it_is_one_of_many_answers():
    """Twice the first wave along each axis keeps the equation, and so does that plus another wave of the same eigenvalue."""
    m = 9
    shift = (m + 8) * np.pi**2 / 4
    axes = names(m)
    equation = flm.Named(
        lambda u, *v: -sum(v[:m]) - shift * u - product([jnp.sin(jnp.pi * x) for x in v[m:]]),
        ("u", *(f"u_{a}{a}" for a in axes), *axes),
    )
    with pytest.raises(InputError, match="positive"):
        flm.solve(flm.PDE(flm.Box(**box(m)), equation, [flm.dirichlet("boundary")]))


@pytest.mark.slow
def test_a_file_of_nine_axes_is_solved_and_written(tmp_path):
    """Neither a grid in all axes nor a list of plane waves is asked for."""
    axes = names(9)
    lines = ["[domain]", *(f"{a} = [0, 1]" for a in axes), "[equation]"]
    lines.append(f'pde = "u - ({" + ".join(f"u_{a}{a}" for a in axes)}) = x1**2 * (x2 + x3)"')
    lines += ["[conditions]", 'boundary = "u_n = 0"']
    (tmp_path / "nine.toml").write_text("\n".join(lines))
    assert run(["solve", str(tmp_path / "nine.toml"), "--tol", "1e-4", "--out", str(tmp_path / "out")]) == 0
    assert {"index.html", "solution.csv", "model.safetensors"} <= {p.name for p in (tmp_path / "out").iterdir()}


@pytest.mark.slow
def test_functions_of_numpy_are_factors_however_often():
    for _ in range(300):  # traced bare, they crashed the process within some hundred times
        flm.products([{"x": np.sin}])
    gc.collect()
    assert float(flm.products([{"x": np.sin}])(0.5)) == pytest.approx(np.sin(0.5), rel=1e-15)
