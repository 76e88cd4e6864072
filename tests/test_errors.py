"""Bad call -> exact message, for series and models: `argument` must be <rule>; got <value>. <what to do>."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import flm

BOX = flm.Box(x=(0, 1), t=(0, 1))
wave = flm.PhaseSeries([[1.0, 2.0]], [[1.0, 0.0]], [[0.0, 0.0]], axes=("x", "t"))
plain = flm.PhaseSeries([[1.0, 2.0]], [[1.0, 0.0]], [[0.0, 0.0]])
line = flm.PhaseSeries([[1.0]], [[1.0]], [[0.0]])
twice = flm.PhaseSeries([[1.0]], np.ones((1, 1, 2)), np.zeros((1, 1, 2)))
spiral = flm.ExponentialSeries([[1.0]], [1.0])
model = flm.FLM(BOX, 2, key=0)

CALLS = [
    # series: construction
    (lambda: flm.PhaseSeries([1.0], [[1.0]], [[0.0]]), "`frequencies` must have 2 axes; got shape (1,)."),
    (
        lambda: flm.PhaseSeries([[1.0, 2.0]], [[1.0]], [[0.0]]),
        "`amplitudes` must have shape (1, 2) or (1, 2, K) to match frequencies of shape (1, 2); got (1, 1).",
    ),
    (
        lambda: flm.PhaseSeries([[1.0]], np.ones((1, 1, 2)), np.ones((1, 1, 3))),
        "`phases` must have the shape of `amplitudes`; got (1, 1, 3) and (1, 1, 2).",
    ),
    (lambda: flm.PhaseSeries([[1j]], [[1.0]], [[0.0]]), "`frequencies` must be real; got complex128."),
    (
        lambda: flm.SeparableSeries([[1.0, 2.0]], [[1.0, 2.0]]),
        "`coefficients` must have shape (1, 4) or (1, 4, K) to match frequencies of shape (1, 2); got (1, 2).",
    ),
    (
        lambda: flm.ExponentialSeries([[1.0], [2.0]], [1.0]),
        "`coefficients` must have one row per frequency; got (1,) for frequencies of shape (2, 1).",
    ),
    (
        lambda: flm.PhaseSeries(np.ones((1, 13)), np.ones((1, 4096)), np.ones((1, 4096))),
        "the phase and separable forms must have at most 12 inputs; got m=13, where one sub-network has 2^12 = 4096 "
        "cosines. Use an ExponentialSeries.",
    ),
    (
        lambda: flm.PhaseSeries([[1.0, 2.0]], [[1.0, 0.0]], [[0.0, 0.0]], axes=("x",)),
        "`axes` must be 2 different names, one per input; got ('x',).",
    ),
    (
        lambda: flm.PhaseSeries([[1.0, 2.0]], [[1.0, 0.0]], [[0.0, 0.0]], axes="xx"),
        "`axes` must be 2 different names, one per input; got 'xx'.",
    ),
    # series: calls
    (lambda: wave(np.ones((3, 3))), "`points` must have 2 columns, one per input; got shape (3, 3)."),
    (lambda: wave(), "call with points (..., 2) or with every axis by name; got nothing."),
    (lambda: wave(x=1.0), "call with points (..., 2) or with every axis by name (x, t); got ['x']."),
    (
        lambda: plain(x=1.0, t=0.0),
        "call with points (..., 2) or with every axis by name (no names: it was built without `axes`); got ['t', 'x'].",
    ),
    # series: algebra and calculus
    (lambda: wave + line, "series must share their inputs; got 2 ('x', 't') and 1 ."),
    (lambda: line + twice, "series must have equally many outputs; got one and 2."),
    (lambda: line * 1j, "`factor` must be real; got complex128."),
    (lambda: line + 1j, "`constant` must be real; got complex128."),
    (lambda: wave.d("y"), "`d` must name axes among ('x', 't'); got 'y'."),
    (lambda: plain.d("x"), "`d` must name axes among None; got 'x'."),
    (lambda: wave.d((2,)), "`d` must number axes from 0 to 1; got 2."),
    (lambda: wave.d((-1,)), "`d` must number axes from 0 to 1; got -1."),
    (lambda: wave.integrate([(0, 1)]), "`box` must give finite (lower, upper) for 2 axes; got [(0, 1)]."),
    (lambda: line.integrate((0, np.inf)), "`box` must give finite (lower, upper) for 1 axes; got (0, inf)."),
    (lambda: wave.integrate({"x": (0, 1)}), "`box` must name the axes ('x', 't'); got ['x']."),
    (lambda: spiral.phase(), "the series must be real to have a phase form: c(-k) = conj c(k); got one that is not."),
    (lambda: spiral.terms(), "`terms` needs a real series with one output; take one output or the real part first."),
    (lambda: twice.terms(), "`terms` needs a real series with one output; take one output or the real part first."),
    # models
    (
        lambda: flm.FLM(0, 4, key=0),
        "`num_inputs` must be a positive integer or a domain such as flm.Box(x=(0, 1)); got 0.",
    ),
    (
        lambda: flm.FLM("x", 4, key=0),
        "`num_inputs` must be a positive integer or a domain such as flm.Box(x=(0, 1)); got 'x'.",
    ),
    (lambda: flm.FLM(2, 0, key=0), "`num_subnets` must be an integer of at least 1; got 0."),
    (lambda: flm.FLM(2, 4.0, key=0), "`num_subnets` must be an integer of at least 1; got 4.0."),
    (lambda: flm.FLM(2, 4, key=0, num_outputs=0), "`num_outputs` must be an integer of at least 1; got 0."),
    (lambda: flm.FLM(2, 4, key="seed"), "`key` must be an integer or a JAX key; got 'seed'."),
    (lambda: flm.FLM(2, 4, key=True), "`key` must be an integer or a JAX key; got True."),
    (lambda: flm.FLM(2, 4, key=0, period=-1), "`period` must be one positive number, or one per axis (2); got -1."),
    (
        lambda: flm.FLM(2, 4, key=0, period=(1, 2, 3)),
        "`period` must be one positive number, or one per axis (2); got (1, 2, 3).",
    ),
    (lambda: flm.FLM(2, 4, key=0, frequencies=[[1.0, 2.0]]), "`frequencies` must have shape (4, 2); got (1, 2)."),
    (
        lambda: flm.FLM(13, 2, key=0),
        "`num_inputs` must be at most 12; got 13: 2 sub-networks would have 16410 parameters, 2^13 per sub-network and "
        "output.",
    ),
    (lambda: model(np.ones((4, 3))), "`points` must have shape (P, 2); got (4, 3)."),
    (lambda: model(np.ones(2)), "`points` must have shape (P, 2); got (2,)."),
    (
        lambda: model.jets(np.ones((4, 2)), ((1,),)),
        "`orders` must be multi-indices of 2 nonnegative integers, at least one; got ((1,),).",
    ),
    (
        lambda: model.jets(np.ones((4, 2)), ()),
        "`orders` must be multi-indices of 2 nonnegative integers, at least one; got ().",
    ),
    (
        lambda: model.jets(np.ones((4, 2)), ((0, -1),)),
        "`orders` must be multi-indices of 2 nonnegative integers, at least one; got ((0, -1),).",
    ),
    (lambda: model.with_coefficients(jnp.ones(3)), "`coefficients` must have shape (8,); got (3,)."),
    (lambda: flm.MLP(2, 0, key=0), "`width` must be an integer of at least 1; got 0."),
    (lambda: flm.Siren(2, 4, 0, key=0), "`depth` must be an integer of at least 1; got 0."),
    (lambda: flm.Siren(2, 4, key=0, omega=0.0), "`omega` must be a positive number; got 0.0."),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_call(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_unknown_activation_lists_the_known():
    with pytest.raises(ValueError, match=r"^`activation` must be one of 'tanh', 'relu', .*; got 'tan'\.$"):
        flm.MLP(2, 4, key=0, activation="tan")


@pytest.mark.parametrize("other", ["text", None, [1, 2], np.ones(3)])
def test_python_says_what_cannot_be_added(other):
    with pytest.raises((TypeError, ValueError)):
        line + other
    with pytest.raises((TypeError, ValueError)):
        line * other
