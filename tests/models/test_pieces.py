"""Functions in pieces, in windows and of parameters as arguments of traced programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.models.family import Blend, FamilyFLM
from flm.models.march import MarchedFLM
from flm.models.pieces import PiecewiseFLM
from flm.models.products import Part, ProductFLM, SparseFLM
from flm.wording import InputError

RNG = np.random.default_rng(0)
LOWER, UPPER = np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([[0.5, 1.0], [1.0, 1.0]])


def pieces(outputs=1):
    return PiecewiseFLM(LOWER, UPPER, RNG.normal(size=(2, 4, 3, outputs)), ("x", "t"))


def march():
    blocks = [RNG.normal(size=(3, 2, n)) for n in (5, 7)]
    return MarchedFLM([0.0, 0.4, 1.0], blocks, ("fourier",), [[0.0, 1.0]], RNG.normal(size=(2, 1, 3)), ("x", "t"), 1)


def product():
    one = {"modes": RNG.normal(size=(2, 4, 3)), "rates": RNG.uniform(size=(2, 3)), "first": np.array([[0, 1]])}
    return ProductFLM(
        [Part(**one, pools=(RNG.normal(size=(2, 3)),) * 2, slopes=np.zeros((0, 2), int), times=[0.1], weights=[1.0])],
        [[0.0, 1.0]] * 2,
        ("x", "t"),
    )


MODELS = {
    "pieces": pieces,
    "several unknowns": lambda: pieces(2),
    "march": march,
    "family": lambda: FamilyFLM(
        [PiecewiseFLM([[0.0]], [[1.0]], RNG.normal(size=(1, 4, 1)), ("x",)) for _ in range(3)], [[0.0, 1.0]], [3], ["t"]
    ),
    "blend": lambda: Blend([pieces(), pieces()], [0.3, 0.7]),
    "sparse": lambda: SparseFLM([[0.0, 1.0]] * 2, [[0, 0], [2, 1]], RNG.normal(size=(2, 1)), ("x", "t")),
    "product": product,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_an_argument_of_a_traced_program(name):
    model, points = MODELS[name](), RNG.uniform(0.05, 0.45, size=(5, 2))
    assert np.array_equal(jax.jit(lambda m, x: m(x))(model, points), model(points))
    total = lambda m, p: jnp.sum(m(p[None]))
    exact = np.asarray(model.jets(points, ((1, 0), (0, 1)))).reshape(2, 5, -1).sum(axis=-1).T
    slope = jax.jit(lambda m, x: jax.vmap(jax.grad(total, argnums=1), (None, 0))(m, x))
    assert np.allclose(slope(model, points), exact, rtol=1e-12)
    mixed = jax.jit(lambda m, p: jax.hessian(total, argnums=1)(m, p)[0, 1])(model, points[0])
    assert np.allclose(mixed, np.sum(model.jets(points[:1], ((1, 1),))), rtol=1e-12)


def test_several_models_of_one_shape_are_mapped_together():
    first, second, points = pieces(), pieces(), RNG.uniform(size=(5, 2))
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), first, second)
    expected = np.stack([first(points), second(points)])
    each = jax.vmap(lambda m, x: m(x), (0, None))
    assert np.allclose(each(both, points), expected, atol=1e-14)
    one = lambda m, p: m(p[None])[0]
    assert np.allclose(jax.vmap(jax.vmap(one, (None, 0)), (0, None))(both, points), expected, atol=1e-14)
    assert np.allclose(jax.vmap(jax.vmap(one, (0, None)), (None, 0))(both, points), expected.T, atol=1e-14)


def test_a_gradient_with_respect_to_the_coefficients_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="derivatives of a PiecewiseFLM must be with respect to points"):
        jax.grad(lambda m: m(np.full((1, 2), 0.3)).sum())(pieces())


def test_the_model_of_a_solution_is_an_argument():
    solution = flm.solve(flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.initial(1.0)]))
    t = np.linspace(0, 1, 5)
    assert np.array_equal(jax.jit(lambda m, x: m(x))(solution.model, t), solution.model(t))
