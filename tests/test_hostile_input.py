"""Bad input, one line a case: a sentence that names the argument, or an answer whose status says what happened."""

import math

import numpy as np
import optax
import pytest

import flm

nan, inf = math.nan, math.inf
LINE = flm.PhaseSeries([[1.0]], [[1.0]], [[0.0]])
BOX = flm.Box(x=(0, 1))
SQUARE = flm.Box(x=(0, 1), y=(0, 1))
STRIP = flm.Box(x=(0, 1), t=(0, 1))
OBJECTS = np.array([[object()]])
TIMES = np.linspace(0, 1, 30)[:, None]
WAVE = np.sin(np.pi * TIMES[:, 0] / TIMES[-1, 0] / 2)


def pde(equation=lambda u_xx: u_xx + 1, conditions=(), domain=BOX, **options):
    return flm.PDE(domain, equation, conditions, **options)


def march(start):
    return flm.PDE(STRIP, lambda u_t, u_xx: u_t - u_xx, [start, flm.dirichlet("x=0"), flm.dirichlet("x=1")])


def law(flux=lambda u: u, initial=0.0, domain=STRIP):
    return flm.ConservationLaw(flux, domain, initial)


def train(model=None, optimizer=None, epochs=1, points=None, **options):
    points = {"equation": 4, "boundary": 2} if points is None else points
    problem = pde(conditions=[flm.dirichlet("x=0"), flm.dirichlet("x=1")])
    return flm.train(
        problem, model or flm.FLM(BOX, 1, key=0), optimizer or optax.adam(1e-3), epochs, points=points, **options
    )


def sample(f, **options):
    return flm.distill(f, 1, domain=BOX, **options)


def control(**changes):
    given = {
        "dynamics": lambda x, u: u,
        "running_cost": lambda x, u: x**2 + u**2,
        "horizon": 1.0,
        "states": ("x",),
        "controls": ("u",),
        "initial": [1.0],
    } | changes
    first = [given.pop(k) for k in ("dynamics", "running_cost", "horizon", "states", "controls")]
    return flm.OptimalControl(*first, **given)


# call -> how the sentence begins
REFUSED = [
    # the sign matrix and lattices
    (lambda: flm.sign_matrix(2.5), "`m` must be an integer of at least 1; got 2.5."),
    (lambda: flm.sign_matrix(True), "`m` must be an integer of at least 1; got True."),
    (lambda: flm.sign_matrix(40), "`m` must be at most 20; got 40: the matrix would have 2^39 rows."),
    (lambda: flm.lattice("2", 3), "`m` must be an integer of at least 1; got '2'."),
    (lambda: flm.lattice(2, 2.5), "`n` must be an integer of at least 0; got 2.5."),
    (lambda: flm.lattice(2, 10**12), "`n` must be at most 5000000 points of 2 axes; got 1000000000000."),
    (lambda: flm.lattice(2, 3, order=None), "`order` must be one of 'euclid'"),
    # series
    (lambda: flm.PhaseSeries([["a"]], [[1.0]], [[0.0]]), "`frequencies` must be an array of numbers"),
    (lambda: flm.PhaseSeries([[1.0], [1.0, 2.0]], [[1.0]], [[0.0]]), "`frequencies` must be an array of numbers"),
    (lambda: flm.PhaseSeries([[1.0]], OBJECTS, [[0.0]]), "`amplitudes` must be an array of numbers"),
    (lambda: flm.PhaseSeries([[1.0]], [[1.0]], None), "`phases` must be an array of numbers"),
    (lambda: flm.PhaseSeries([[1.0]], [[1.0]], [[0.0]], axes=3), "`axes` must be 1 different names"),
    (lambda: flm.PhaseSeries([[1.0]], [[1.0]], [[0.0]], axes=(1,)), "`axes` must be 1 different names"),
    (lambda: flm.SeparableSeries([["a"]], [[1.0, 0]]), "`frequencies` must be an array of numbers"),
    (lambda: flm.ExponentialSeries([[1.0]], ["a"]), "`coefficients` must be an array of numbers"),
    (lambda: LINE("a"), "`points` must be an array of numbers"),
    (lambda: LINE(OBJECTS), "`points` must be an array of numbers"),
    (lambda: LINE.d(None), "`d` must name axes"),
    (lambda: LINE.d((0.5,)), "`d` must number axes from 0 to 0; got 0.5."),
    (lambda: LINE.integrate("ab"), "`box` must give finite (lower, upper)"),
    (lambda: LINE.integrate((nan, 1)), "`box` must give finite (lower, upper)"),
    (lambda: LINE.truncate("a"), "`n` must be an integer of at least 0; got 'a'."),
    (lambda: LINE.truncate(-1), "`n` must be an integer of at least 0; got -1."),
    (lambda: LINE.terms(2.5), "`n` must be an integer of at least 0; got 2.5."),
    # domains
    (lambda: flm.Box(x=(1, 0)), "`x` must be a finite interval with low < high; got (1, 0)."),
    (lambda: flm.Box(x=(0, 0)), "`x` must be a finite interval with low < high; got (0, 0)."),
    (lambda: flm.Box(x=(0, nan)), "`x` must be a finite interval"),
    (lambda: flm.Box(x=(-inf, 0)), "`x` must be a finite interval"),
    (lambda: flm.Box(x=(-1e308, 1e308)), "`x` must be an interval of width 1e-307 to 1e308"),
    (lambda: flm.Box(x=(0, 5e-324)), "`x` must be an interval of width 1e-307 to 1e308"),
    (lambda: flm.Box(x="ab"), "`x` must be an interval (low, high); got 'ab'."),
    (lambda: flm.Box(**{"x y": (0, 1)}), "`axes` must be valid Python names; got 'x y'."),
    (lambda: BOX.interior("a", seed=0), "`n` must be an integer of at least 1; got 'a'."),
    (lambda: BOX.interior(3, seed="a"), "`seed` must be an integer; got 'a'."),
    (lambda: BOX.grid("a"), "`shape` must be one number"),
    (lambda: BOX.contains("a"), "`points` must be numbers of shape (P, 1); got 'a'."),
    (lambda: BOX.piece("y=0"), "`where` must name an axis of the domain (x); got 'y' in 'y=0'."),
    (lambda: BOX.piece("x=__import__('os')"), "`where` must be a place like"),
    (lambda: flm.Disk(x=0, y=0, radius=nan), "`radius` must be a positive number; got nan."),
    (lambda: flm.Ellipse(x=0, y=0, a="1", b=1), "`a` must be a positive number; got '1'."),
    (lambda: flm.Polygon(x=["a", "b", "c"], y=[0, 1, 0]), "`Polygon` must have numbers for vertices"),
    (lambda: flm.Polygon(x=0, y=1), "`Polygon` must have at least three finite vertices; got 1."),
    (lambda: flm.Polygon(x=[0, 1, 2], y=[0, 0, 0]), "`Polygon` must have an area"),
    (lambda: flm.Ball("abc", 1), "`center` must be numbers"),
    (lambda: flm.Curve(3), "`path` must be a function s -> (x, y); got 3."),
    (lambda: flm.Curve(lambda s: 1 / 0), "`path` must return numbers, elementwise; it failed with: division by zero"),
    (lambda: flm.Region(3, bounds=SQUARE), "`function` must be a function of the axes of `bounds`; got 3."),
    (lambda: flm.Region(lambda x, y: "a", bounds=SQUARE), "`function` must return numbers, elementwise"),
    (lambda: flm.Region(lambda x, y: x + nan, bounds=SQUARE), "`function` must be finite in its bounds"),
    # equations
    (lambda: pde(domain=3), "`domain` must be a domain such as"),
    (lambda: pde(None), "`equation` must be a function of named arguments"),
    (lambda: pde("u_xx"), "`equation` must be a function of named arguments"),
    (lambda: pde(max), "`equation` must name its arguments; got <built-in function max>. Wrap it"),
    (lambda: pde(lambda: 0.0), "`equation` must ask for an unknown (u or their derivatives)"),
    (lambda: pde(lambda x: x), "`equation` must ask for an unknown (u or their derivatives)"),
    (lambda: pde(lambda u_xx: u_xx + nan), "`equation` must be finite at interior points"),
    (lambda: pde(lambda u_xx: "a"), "`equation` must work elementwise on arrays"),
    (lambda: pde(lambda u_xx: u_xx / 0), "`equation` must be finite at interior points"),
    (lambda: pde(lambda u_xx: 1 / 0), "`equation` must work elementwise on arrays; it failed with: division by zero"),
    (lambda: pde(lambda u_xx: u_xx if u_xx > 0 else 0), "`equation` must work elementwise on arrays; it failed with"),
    (lambda: pde(lambda u_yy: u_yy), "the argument 'u_yy' of `equation` must be one of an axis (x)"),
    (lambda: pde(unknowns=3), "`unknowns` must be names"),
    (lambda: pde(unknowns=("u", "x")), "`unknowns` must not reuse a name"),
    (lambda: pde(parameters=3), "`parameters` must be a dict of numbers by name; got 3."),
    (lambda: pde(parameters={"a": nan}), "the parameter 'a' must be a finite number"),
    (lambda: pde(parameters={"a": 1j}), "the parameter 'a' must be a finite number"),
    (lambda: pde(parameters={"a": flm.Learn(1.0)}), "`parameters` with flm.Learn must come with measured values"),
    (lambda: pde(exact="a"), "`exact` must be a number or a function"),
    # conditions
    (lambda: pde(conditions=None), "`conditions` must be a list"),
    (lambda: pde(conditions=3), "`conditions` must be a list"),
    (lambda: pde(conditions="x=0"), "`conditions` must be a list"),
    (lambda: pde(conditions=[None]), "`conditions[0]` must come from on, initial"),
    (lambda: pde(conditions=flm.dirichlet("x=2")), "`where` must be a place in the domain, 0 <= x <= 1"),
    (lambda: pde(conditions=flm.dirichlet("x=0", nan)), "`conditions[0]` must be finite at interior points"),
    (lambda: flm.dirichlet("x=0", "a"), "`value` of dirichlet must be a number or a function"),
    (lambda: flm.dirichlet("x=0", unknown=3), "`unknown` must be the name of an unknown; got 3."),
    (lambda: flm.robin("x=0", "a", 0, 1), "`a`, `b` or `value` of robin must be a number"),
    (lambda: flm.robin("x=0", 0, 0, 1), "`a` and `b` of robin must not both be zero; got 0 and 0."),
    (lambda: flm.initial(None), "`value` of initial must be a number or a function"),
    (lambda: pde(conditions=flm.initial(1.0)), "`where` must name an axis of the domain (x); got 't'"),
    (lambda: pde(conditions=flm.periodic("y")), "`conditions[0]`: `axis` of periodic must be an axis of a box (x)"),
    (lambda: pde(conditions=flm.on("x=0", lambda u: u, where=3)), "`where` must be a function of axes (x); got 3."),
    (lambda: pde(conditions=flm.on("x=0", lambda u: u, where=lambda x: x > 5)), "`where` must hold somewhere"),
    (lambda: flm.data([["a"]], [1.0]), "`points` of data must be real numbers; got [['a']]."),
    (lambda: flm.data([[0.5]], [1j]), "`values` of data must be real numbers; got [1j]."),
    (lambda: flm.data(OBJECTS, [1.0]), "`points` of data must be real numbers"),
    (lambda: flm.data([[0.5]], [nan]), "`points` and `values` of data must be finite"),
    (lambda: flm.data([], []), "`values` must have one entry per row of `points`"),
    (lambda: flm.data([[0.5]], [1.0], sigma="a"), "`sigma` of data must be real numbers; got 'a'."),
    (lambda: flm.data([[0.5]], [1.0], sigma=-1), "`sigma` must be a positive number"),
    (lambda: pde(conditions=flm.data([[2.0]], [1.0])), "`points` of data must lie in the domain"),
    (lambda: flm.Piecewise("a", {BOX: 1.0}), "`value` of Piecewise must be a finite number; got 'a'"),
    (lambda: flm.Piecewise(nan, {BOX: 1.0}), "`value` of Piecewise must be a finite number; got nan"),
    (lambda: flm.Piecewise(1.0, {BOX: inf}), "a value of Piecewise must be a finite number; got inf"),
    (lambda: flm.Piecewise(1.0, {}), "`where` of Piecewise must be values by box"),
    (lambda: flm.Piecewise(1.0, 3), "`where` of Piecewise must be values by box"),
    (
        lambda: flm.Piecewise(1.0, {"x<1": 2.0}),
        "`where` of Piecewise must have boxes with sides along the axes as keys",
    ),
    (
        lambda: flm.Piecewise(1.0, {flm.Disk(x=0, y=0, radius=1): 2.0}),
        "`where` of Piecewise must have boxes with sides along the axes as keys; got Disk",
    ),
    (
        lambda: flm.Piecewise(1.0, {BOX: 2.0, flm.Box(x=(0.5, 2)): 3.0}),
        "`where` of Piecewise must have boxes that do not overlap where their values differ; got 2 in Box(x=(0, 1)) and 3",
    ),
    (
        lambda: pde(parameters={"a": flm.Piecewise(1.0, {flm.Box(z=(0, 1)): 2.0})}),
        "the boxes of the parameter 'a' must have axes of the domain (x); got Box(z=(0, 1))",
    ),
    (
        lambda: pde(parameters={"a": flm.Piecewise(1.0, {flm.Box(x=(2, 3)): 2.0})}),
        "the boxes of the parameter 'a' must lie in the domain; got Box(x=(2, 3))",
    ),
    (lambda: pde(flux=lambda u_n: u_n), "`flux` must come with a parameter that jumps"),
    (lambda: pde(flux=3), "`flux` of u must be a function of named arguments"),
    (lambda: pde(flux={"v": lambda u_n: u_n}), "`flux` must be given by unknown (u); got 'v'"),
    (lambda: pde(flux=lambda x: x), "`flux` of u must ask for u or u_n; got a function of neither"),
    (
        lambda: pde([lambda u_xx: u_xx, lambda v_xx: v_xx], unknowns=("u", "v"), flux=lambda u_n: u_n),
        "`flux` must be a dict by unknown for a system",
    ),
    (
        lambda: pde(lambda a, u_xxxx: a * u_xxxx, parameters={"a": flm.Piecewise(1.0, {flm.Box(x=(0, 0.5)): 2.0})}),
        "`equation` must have at most second derivatives along x",
    ),
    (lambda: flm.Learn("a"), "`start` must be a finite number between `lower` and `upper`; got start='a'"),
    (lambda: flm.Learn(1, lower="a"), "`start` must be a finite number between"),
    (lambda: flm.Learn(1, lower=2), "`start` must be a finite number between"),
    (lambda: flm.Learn(1, axes=3), "`axes` must be different names of axes"),
    (lambda: flm.Learn(0, lower=0, axes="x"), "`start` of a function must be inside its limits"),
    (lambda: pde(parameters={"a": flm.Learn(1.0, axes="q")}), "`axes` of the parameter 'a' must be among"),
    # slabs
    (lambda: march(flm.initial(lambda x: x + nan)), "`conditions[0]` must be finite"),
    (lambda: march(flm.initial("a")), "`value` of initial must be"),
    (lambda: march(flm.initial(0.0, axis="q")), "`where` must name an axis of the domain"),
    (lambda: march(flm.initial(0.0, velocity="a")), "`velocity` of initial must be"),
    (
        lambda: flm.solve(flm.problems.poisson(), method="windows"),
        "`method` must be 'pieces', which has replaced it; got 'windows'",
    ),
    (
        lambda: flm.solve(march(flm.initial(lambda x: x)), method="pieces", max_columns=5),
        "`method` must not be 'pieces' for this problem",
    ),
    # conservation laws and control
    (lambda: law(flux=3), "`flux` must be a function of named arguments"),
    (lambda: law(flux=lambda u: "a"), "`flux` must return numbers, elementwise on arrays"),
    (lambda: law(flux=lambda u: u + nan), "`flux` must be finite on the range of the initial state"),
    (lambda: law(initial="a"), "`initial` must be a number or a function of x; got 'a'."),
    (lambda: law(initial=None), "`initial` must be a number or a function of x; got None."),
    (lambda: law(initial=nan), "`initial` must be finite on the domain"),
    (lambda: law(domain=BOX), "`domain` must be a box of space and then time"),
    (lambda: flm.Free("a"), "`guess` must be a positive time; got 'a'."),
    (lambda: flm.Free(nan), "`guess` must be a positive time; got nan."),
    (lambda: control(initial="abc"), "`initial` must be numbers, one for each state x; got 'abc'."),
    (lambda: control(initial=[nan]), "`initial` must be finite; got [nan]."),
    (lambda: control(initial=[1.0, 2.0]), "`initial` must"),
    (lambda: control(horizon=-1), "`horizon` must"),
    (lambda: control(horizon=nan), "`horizon` must"),
    (lambda: control(states=()), "`states` must"),
    (lambda: control(dynamics=3), "`dynamics` must"),
    (lambda: flm.problems.heat(alpha=nan), "the parameter 'alpha' must be a finite number"),
    # solve, train, distill
    (lambda: flm.solve("heat"), "`problem` must be a PDE, a ConservationLaw or an OptimalControl; got str."),
    (lambda: flm.solve(pde(), nan), "`tol` must be a positive number; got nan."),
    (lambda: flm.solve(pde(), "a"), "`tol` must be a positive number; got 'a'."),
    (lambda: flm.solve(pde(), seed="a"), "`seed` must be an integer of at least 0; got 'a'."),
    (lambda: flm.solve(pde(), seed=-1), "`seed` must be an integer of at least 0; got -1."),
    (lambda: flm.solve(pde(), num_subnets=True), "`num_subnets` must be an integer of at least 1; got True."),
    (lambda: flm.solve(pde(), num_subnets=10**9), "`num_subnets` must have at most `max_columns` = 3000 coefficients"),
    (lambda: flm.solve(pde(), max_columns="a"), "`max_columns` must be an integer of at least 1; got 'a'."),
    (lambda: train(3), "`model` must be a model"),
    (lambda: train(flm.FLM(2, 1, key=0)), "`model` must have 1 inputs (x) and 1 outputs (u); got 2 and 1."),
    (lambda: train(optimizer=3), "`optimizer` must be an optax optimizer"),
    (lambda: train(epochs=0), "`epochs` must be an integer of at least 1; got 0."),
    (lambda: train(points=3), "`points` must be a dict"),
    (lambda: train(points={"equation": 4}), "`points` must count every set of the problem"),
    (
        lambda: train(points={"equation": 4, "boundry": 2}),
        "`points` must be for the loss terms equation, initial, boundary; got",
    ),
    (lambda: train(loss_tol=nan), "`loss_tol` must be a number of at least 0; got nan."),
    (
        lambda: train(points={"equation": 10**15, "boundary": 2}),
        "`points['equation']` must be an integer from 1 to 10,000,000",
    ),
    (lambda: train(weights=3), "`weights` must be a dict by term (equation, boundary); got 3."),
    (lambda: train(checkpoint=3), "`checkpoint` must be a path; got 3."),
    (lambda: train(seed=-1), "`seed` must be an integer of at least 0; got -1."),
    (lambda: flm.distill(lambda p: p, 1), "`domain` must be given for a plain function"),
    (lambda: flm.distill(lambda p: p, 1, domain=3), "`domain` must be a domain such as flm.Box(x=(0, 1)); got 3."),
    (lambda: flm.distill(lambda p: p, 1.5, domain=BOX), "`num_subnets` must be an integer of at least 1; got 1.5."),
    (lambda: sample(lambda p: p), "`f` must return one value per point, shape (4,) here; got (4, 1)."),
    (lambda: sample(lambda p: nan * p[:, 0]), "`f` must return finite real numbers in `domain`; got"),
    (lambda: sample(lambda p: p[:, 0], seed="a"), "`seed` must be an integer of at least 0; got 'a'."),
    (lambda: sample(lambda p: p[:, 0], tol=nan), "`tol` must be a positive number; got nan."),
    # models
    (lambda: flm.FLM(1, 1, key=2**70), "`key` must be an integer of 64 bits"),
    (lambda: flm.FLM(1, 1, key=0, period="a"), "`period` must be one positive number"),
    (lambda: flm.FLM(1, 1, key=0, period=1e-320), "`period` must be one positive number"),
    (lambda: flm.FLM(1, 1, key=0, frequencies="a"), "`frequencies` must be an array of numbers"),
    (lambda: flm.FLM(1, 1, key=0, frequencies=[[nan]]), "`frequencies` must be finite; got values that are not."),
    (lambda: flm.FLM(2, 10**12, key=0), "`n` must be at most 5000000 points of 2 axes"),
    # estimators: the first words are often scikit-learn's
    (lambda: flm.FLMRegressor().fit([[nan], [1.0]], [1, 2]), "`X` must have no NaN; got 1 in column 0."),
    (lambda: flm.FLMRegressor().fit(TIMES, [inf] * 30), "Input y contains infinity"),
    (lambda: flm.FLMRegressor().fit(TIMES, 1e300 * WAVE), "`y` must be at most 1e+150 in size; got 1e+300."),
    (lambda: flm.FLMRegressor().fit(TIMES, WAVE[:5]), "Found input variables with inconsistent numbers of samples"),
    (lambda: flm.FLMRegressor().fit([["a"], ["b"]], [1, 2]), "could not convert string to float: 'a'"),
    (lambda: flm.FLMRegressor().fit(OBJECTS, [1]), "float() argument must be a string or a real number"),
    (lambda: flm.FLMRegressor().fit(np.empty((0, 1)), []), "Found array with 0 sample(s)"),
    (lambda: flm.FLMRegressor().fit(TIMES, WAVE, -np.ones(30)), "Negative values in data passed to `sample_weight`."),
    (lambda: flm.FLMRegressor(num_subnets=-1).fit(TIMES, WAVE), "`num_subnets` must be an integer of at least 1"),
    (lambda: flm.FLMRegressor().predict(TIMES), "This FLMRegressor instance is not fitted yet."),
    (lambda: flm.FLMImputer().fit_transform([[inf], [1.0], [nan]]), "Input X contains infinity"),
    (
        lambda: flm.FLMImputer().fit_transform([[1e300], [1.0], [nan]]),
        "`X` must be at most 1e+150 in size; got 1e+300.",
    ),
    (lambda: flm.FLMImputer().fit_transform([[nan], [nan]]), "`X` must have an observed value in every column"),
    (lambda: flm.FLMImputer().fit_transform([["a"], ["b"]]), "could not convert string to float: 'a'"),
    (lambda: flm.FLMImputer().fit_transform(np.empty((0, 2))), "Found array with 0 sample(s)"),
    (lambda: flm.FLMImputer(method="x").fit_transform(TIMES), "`method` must be one of 'auto', 'coupled', 'dense'"),
]


@pytest.mark.parametrize(("call", "begins"), REFUSED, ids=[f"{i}-{b[:40]}" for i, (_, b) in enumerate(REFUSED)])
def test_refused(call, begins):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(begins), str(caught.value)
    assert "\n" not in str(caught.value) or begins.startswith("Input")  # scikit-learn's sentence on NaN has two lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("X", "y", "wanted"),
    [
        (TIMES, np.full(30, 3.0), 3.0),
        (0 * TIMES, np.full(30, 3.0), 3.0),
        (np.r_[TIMES, TIMES], np.r_[WAVE, WAVE], WAVE[0]),
        (TIMES, 1e-310 * WAVE, 0.0),
    ],
    ids=["constant y", "constant X", "duplicate rows", "denormals"],
)
def test_poor_tables_are_fitted(X, y, wanted):
    fitted = flm.FLMRegressor().fit(X, y)
    np.testing.assert_allclose(fitted.predict(np.asarray(X)[:1]), wanted, atol=1e-6)


WALLS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
# problem -> the words that its status may have
ANSWERED = {
    "two values on one face": (lambda: pde(conditions=[*WALLS, flm.dirichlet("x=0", 1.0)]), ("inconsistent",)),
    "a value inside as well": (
        lambda: pde(conditions=[*WALLS, flm.dirichlet("x=0.5", 5.0)]),
        ("size", "stalled", "inconsistent"),
    ),
    "two equations that differ": (
        lambda: pde([lambda u_xx: u_xx + 1, lambda u_xx: u_xx - 1], WALLS),
        ("size", "stalled", "inconsistent"),
    ),
    "fluxes that do not balance": (
        lambda: pde(conditions=[flm.neumann("x=0", 0.0), flm.neumann("x=1", 0.0)]),
        ("inconsistent",),
    ),
    "diffusion backwards": (
        lambda: pde(
            lambda u_t, u_xx: u_t + 0.1 * u_xx,
            [flm.initial(lambda x: x * (1 - x)), *WALLS],
            domain=STRIP,
        ),
        ("size", "stalled", "inconsistent"),
    ),
    "a source of 1e300": (lambda: pde(lambda u_xx: u_xx + 1e300, WALLS), ("not finite",)),
    "a source that is denormal": (lambda: pde(lambda u_xx: u_xx + 1e-310, WALLS), ("trivial",)),
    "a diffusivity of 1e-300": (lambda: pde(lambda u_xx: 1e-300 * u_xx + 1, WALLS), ("not finite", "undetermined")),
    "nothing to solve": (lambda: pde(lambda u_xx: u_xx, WALLS), ("trivial",)),
    "an axis far from zero": (
        lambda: pde(domain=flm.Box(x=(1e6, 1e6 + 1)), conditions=[flm.dirichlet("x=min"), flm.dirichlet("x=max")]),
        ("converged", "stalled"),
    ),
    "a short axis": (
        lambda: pde(domain=flm.Box(x=(0, 1e-12)), conditions=[flm.dirichlet("x=min"), flm.dirichlet("x=max")]),
        ("converged",),
    ),
    "a name that is not ASCII": (
        lambda: pde(
            lambda u_θθ: u_θθ + 1,
            [flm.dirichlet("θ=0"), flm.dirichlet("θ=1")],
            domain=flm.Box(θ=(0, 1)),
        ),
        ("converged",),
    ),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_answered_with_a_status(name):
    problem, words = ANSWERED[name]
    solution = flm.solve(problem(), 1e-4, max_columns=60)
    assert solution.status.word in words
    assert solution.status.sentence.endswith(".")
    assert solution.converged == (solution.status.word == "converged")
    if solution.converged:
        assert solution.error_estimate <= 1e-4
