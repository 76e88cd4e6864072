"""Expressions: what they mean, and what is refused at which column."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flm.language.expressions import ExpressionError, compile_expression


@st.composite
def expressions(draw, depth=3):
    """A text in x and y, and the same in Python's own arithmetic."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["x", "y", "2", "0.5", "pi", "1e-3"]))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    shapes = [
        "({a}) + ({b})",
        "({a}) - ({b})",
        "({a}) * ({b})",
        "-({a})",
        "sin({a})",
        "cos({a})",
        "tanh({a})",
        "({a})**2",
    ]
    shapes += ["({a}) / (2 + ({b})**2)", "max({a}, {b})", "where(({a}) < ({b}), {a}, {b})", "exp(-abs({a}))"]
    return draw(st.sampled_from(shapes)).format(a=a, b=b)


@settings(max_examples=30, deadline=None)
@given(expressions(), st.floats(-2, 2), st.floats(-2, 2))
def test_expressions_mean_what_python_means(text, x, y):
    known = {
        "sin": math.sin,
        "cos": math.cos,
        "tanh": math.tanh,
        "exp": math.exp,
        "pi": math.pi,
        "abs": abs,
        "max": max,
    }
    known["where"] = lambda condition, yes, no: yes if condition else no
    wanted = eval(text, {"__builtins__": {}}, known | {"x": x, "y": y})  # the test's own text
    found = compile_expression(text)
    value = found(**{name: {"x": x, "y": y}[name] for name in found.names})
    assert float(value) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_names_come_in_order_with_columns():
    found = compile_expression("  u_t - alpha * u_xx + e")
    assert found.names == ("u_t", "alpha", "u_xx")
    assert found.columns == {"u_t": 3, "alpha": 9, "u_xx": 17}
    assert float(found(1.0, 2.0, 3.0)) == pytest.approx(1 - 6 + math.e)
    assert compile_expression("e * x", declared=["e"]).names == ("e", "x")
    assert float(compile_expression("a*x").fix({"a": 3.0})(x=2.0)) == 6.0


def test_whole_powers_stay_smooth_at_zero():
    import jax

    assert float(jax.grad(lambda x: compile_expression("x**3 + x**-0 + x**1")(x))(0.0)) == 1.0
    assert math.isnan(float(compile_expression("(-8) ** 0.5")()))  # not a complex number


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 + u''", 5, "a derivative is written with the axis, u_tt or u_xx for u''"),
        ("x + 2x", 5, "a product needs its *: write 2 * x"),
        ("1 + x.real", 5, "a dot is not allowed in an expression"),
        ("__import__('os')", 1, "the function '__import__' is not known"),
        ("sine(x)", 1, "the function 'sine' is not known. Did you mean 'sin'?"),
        ("(lambda: 0)()", 1, "only functions by their plain name may be called"),
        ("x if x else 1", 1, "an if (write where(condition, yes, no)) is not allowed in an expression"),
        ("[x for x in y]", 1, "this is not allowed in an expression"),
        ("x < 1", 1, "a comparison may only be the first argument of where(condition, yes, no)"),
        ("'text'", 1, "a number is wanted; got 'text'"),
        ("1j * x", 1, "a number is wanted; got '1j'"),
        ("True", 1, "a number is wanted; got 'True'"),
        ("x ** 65", 6, "an exponent must be at most 64 in size; got 65"),
        ("x + 1e999", 5, "the number is too large"),
        ("sin", 1, "the function sin needs its argument: sin(…)"),
        ("sin(x, y)", 1, "sin takes 1 argument; got 2"),
        ("max(*x)", 1, "max takes its arguments by position"),
        ("", 1, "an expression is missing"),
        ("x # y", 3, "'#' has no meaning in an expression"),
        ("where(x, 1, 2)", 7, "the first argument of where must be one comparison such as x < 0.5"),
        ("x @ y", 1, "the operator @ is not allowed"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_column(text, column, message):
    with pytest.raises(ExpressionError) as error:
        compile_expression(text)
    assert (str(error.value), error.value.column) == (message, column)


@pytest.mark.parametrize(
    "text", ["(" * 300 + "x" + ")" * 300, "-" * 3000 + "x", "+".join("x" * 4000), "x+" * 3000, "9" * 3900]
)
def test_large_expressions_are_refused(text):
    with pytest.raises(ExpressionError):
        compile_expression(text)


def test_a_caret_is_a_power_and_a_long_sum_is_not_deep():
    assert float(compile_expression("x^2 + 1").closure({"x": 3.0})) == 10
    assert float(compile_expression(" + ".join(["x"] * 200)).closure({"x": 3.0})) == 600


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text("xyu_t+-*/() .,0123456789esincoplw<=[]'\"", max_size=60)))
def test_any_text_is_an_expression_or_refused(text):
    refused, names = None, ()
    try:
        names = compile_expression(text).names
    except ExpressionError as error:
        refused = error
    assert all(name.isidentifier() for name in names)
    assert refused is None or (refused.column >= 1 and "\n" not in str(refused))
