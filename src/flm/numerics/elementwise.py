"""Functions of one point that JAX traces, run by NumPy on many points at once.

XLA takes tenths of a second to compile a function that a whole solve calls for milliseconds. Here the traced program of a
function of a few numbers is taken apart into operations on single numbers: vectors and small matrices, as derivatives make
them, are lists of numbers, and what is a constant, a sum with zero or a product with zero or one is worked out once. Each
operation then runs on the arrays of all points. A function with loops, lookups or large arrays has no such program: it is
compiled, and called on chunks of few fixed sizes, so that few shapes are compiled.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

import jax
import numpy as np
import numpy.typing as npt
import scipy.special
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

Values = float | np.ndarray
Step = tuple[tuple[object, ...], Callable[..., Values], tuple[int, ...]]  # its name and settings, itself, its arguments
Places = np.ndarray  # of the numbers of an array among the inputs and the results of earlier steps
ROWS = 2048  # points at a time, so that what lies between stays in the processor's cache
SHAPES = (32, ROWS)  # points of a call of a compiled function
LARGE = 512  # numbers of an array, and
LONG = 4000  # steps beyond which a function is left to the compiler


_PLAIN: dict[str, Callable[..., Values]] = {
    **{
        name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log")
    },
    **{name: getattr(np, name) for name in ("log1p", "sqrt", "cbrt", "square", "sign", "floor", "ceil", "real")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "abs": lambda a: np.sqrt(a.real**2 + a.imag**2) if np.iscomplexobj(a) else np.abs(a),  # np.abs guards against overflow
    "imag": np.imag, "conj": np.conj, "neg": np.negative, "rsqrt": lambda a: 1 / np.sqrt(a),
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "logistic": scipy.special.expit, "is_finite": np.isfinite,
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "rem": np.fmod, "clamp": lambda low, a, high: np.clip(a, low, high),
    "atan2": np.arctan2, "complex": lambda a, b: a + 1j * b, "not": np.invert,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "select_n": lambda which, *cases: np.where(which, cases[1], cases[0]),
}  # fmt: skip
_MOVES: dict[str, Callable[..., list[np.ndarray]]] = {
    "reshape": lambda p, a: [a.reshape(p["new_sizes"])],
    "squeeze": lambda p, a: [np.squeeze(a, p["dimensions"])],
    "transpose": lambda p, a: [a.transpose(p["permutation"])],
    "rev": lambda p, a: [np.flip(a, p["dimensions"])],
    "slice": lambda p, a: [a[tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * a.ndim))]],
    "broadcast_in_dim": lambda p, a, *_: [_broadcast(a, p["shape"], p["broadcast_dimensions"])],
    "concatenate": lambda p, *given: [np.concatenate(given, p["dimension"])],
    "stack": lambda p, *given: [np.stack(given, p["axis"])],
    "unstack": lambda p, a: list(np.moveaxis(a, p["axis"], 0)),
    "split": lambda p, a: np.split(a, np.cumsum(p["sizes"])[:-1], p["axis"]),
    "pad": lambda p, a, filling: [np.pad(a, [row[:2] for row in p["padding_config"]], constant_values=filling)],
    "copy": lambda p, a: [a], "stop_gradient": lambda p, a: [a],
}  # fmt: skip
_UNITS = {"add": 0, "add_any": 0, "sub": 0, "mul": 1, "div": 1}  # a ∘ unit = a
_FOLDS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}
NESTED = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where a call keeps the program that it calls


class Program:
    """A flat list of NumPy operations in which nothing is computed twice.

    A step holds the places of its arguments among the inputs and the results of earlier steps.
    """

    def __init__(self, count: int):
        self.count = count
        self.steps: list[Step] = []
        self.outputs: list[int] = []  # the places of all numbers that the function returns,
        self.shapes: list[tuple[int, ...]] = []  # which are arrays of these shapes
        self._known: dict[tuple[object, ...], int] = {}
        self._constants: dict[int, np.ndarray] = {}  # by place, ()

    def __call__(self, *values: Values) -> list[Values]:
        """All outputs for values of the inputs that broadcast together."""
        found: list[Values] = list(values)
        for _, run, arguments in self.steps:
            found.append(run(*[found[i] for i in arguments]))
        return [found[i] for i in self.outputs]

    def rows(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """What the function returns at each row of its arguments; an argument with one row serves all."""
        count = next((len(a) for a in arrays if len(a) != 1), 1)
        arrays = tuple(a if a.ndim == 2 else a.reshape(len(a), math.prod(a.shape[1:])) for a in arrays)
        out = np.empty((len(self.outputs), count))
        with np.errstate(all="ignore"):  # what is not finite is for the caller to judge
            for start in range(0, count, ROWS):
                some = slice(start, start + ROWS)
                parts = arrays if count <= ROWS else [a[some] if len(a) == count else a for a in arrays]
                for row, value in zip(out, self(*(column for part in parts for column in part.T)), strict=True):
                    row[some] = value
        found, start = [], 0
        for shape in self.shapes:
            end, n = start + math.prod(shape), len(shape)
            found.append(out[start:end].reshape(*shape, count).transpose(n, *range(n)))
            start = end
        return found

    def add(self, jaxpr: Jaxpr, consts: Sequence[npt.ArrayLike], places: Sequence[Places]) -> list[Places]:
        """Append a traced program whose inputs have these places, and return the places of its outputs."""
        own = dict(zip(jaxpr.invars, places, strict=True))
        own.update((v, self._constant(value)) for v, value in zip(jaxpr.constvars, consts, strict=True))
        read = lambda v: self._constant(v.val) if isinstance(v, Literal) else own[v]
        # Sums and products turn real numbers into complex ones as they go; no other operation does.
        others = [e.invars for e in jaxpr.eqns if e.primitive.name not in ("add", "sub", "mul")]
        exact = {id(v) for variables in (*others, jaxpr.outvars) for v in variables}
        for equation in jaxpr.eqns:
            given = [read(v) for v in equation.invars]
            inner = next((v for key in NESTED if isinstance(v := equation.params.get(key), ClosedJaxpr)), None)
            if inner is not None:
                found = self.add(inner.jaxpr, inner.consts, given)
            elif np.dtype(equation.params.get("new_dtype", float)).kind == "c" and id(equation.outvars[0]) not in exact:
                found = given
            else:
                found = self._results(equation, given)
            if sum(part.size for part in found) > LARGE or len(self.steps) > LONG:
                raise LookupError("a large program")
            own.update(zip(equation.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _results(self, equation: JaxprEqn, given: list[Places]) -> list[Places]:
        """The places of the results of one traced operation."""
        name, params, shape = equation.primitive.name, equation.params, _type(equation).shape
        if (moves := moved(equation, given)) is not None:
            return moves
        if name == "iota":
            return [self._constant(np.indices(shape, params["dtype"])[params["dimension"]])]
        if name in _FOLDS:
            first = np.moveaxis(given[0], params["axes"], range(len(params["axes"])))
            return [self._folded(_FOLDS[name], first.reshape(-1, *shape), equation)]
        if name == "dot_general":
            (left, right), (both, same) = params["dimension_numbers"]
            a = np.moveaxis(given[0], (*both, *left), (*range(len(both)), *range(-len(left), 0)))
            b = np.moveaxis(given[1], (*same, *right), (*range(len(same)), *range(-len(right), 0)))
            rows, inner = a.shape[: len(both)], math.prod(a.shape[a.ndim - len(left) :])
            pairs = np.broadcast_arrays(a.reshape((*rows, -1, 1, inner)), b.reshape((*rows, 1, -1, inner)))
            terms = np.moveaxis(self._each("mul", equation, pairs), -1, 0)
            return [self._folded("add", terms, equation).reshape(shape)]
        return [self._each(name, equation, np.broadcast_arrays(*given))]

    def _folded(self, name: str, rows: Places, equation: JaxprEqn) -> Places:
        """Sums, products or largest values along the first axis."""
        if not len(rows):
            return np.broadcast_to(self._constant({"add": 0.0, "mul": 1.0}[name]), rows.shape[1:])
        return reduce(lambda a, b: self._each(name, equation, [a, b]), rows)

    def _each(self, name: str, equation: JaxprEqn, given: Sequence[Places]) -> Places:
        """An operation on single numbers, on arrays of equal shape."""
        run, real = operation(name, equation), _type(equation).dtype.kind == "f"
        key = (name, *(map(str, equation.params.values()) if name == equation.primitive.name else ()))
        flat = zip(*(a.ravel().tolist() for a in given), strict=True)
        return np.array([self._step(key, run, arguments, real) for arguments in flat], int).reshape(given[0].shape)

    def _constant(self, value: npt.ArrayLike) -> Places:
        """The places of the numbers of an array."""
        own = np.asarray(value)
        if own.size > LARGE:
            raise LookupError("a large array")
        return np.array([self._place(number) for number in own.ravel()], int).reshape(own.shape)

    def _place(self, number: np.ndarray) -> int:
        place = self._once(("constant", number.dtype, number.tobytes()), lambda: number, ())
        self._constants[place] = number
        return place

    def _step(self, key: tuple[str, ...], run: Callable[..., Values], arguments: tuple[int, ...], real: bool) -> int:
        """The place of an operation's result, worked out here where that is possible."""
        name, known = key[0], [self._constants.get(i) for i in arguments]
        if all(c is not None for c in known):
            with np.errstate(all="ignore"):
                return self._place(np.asarray(run(*known))[()])
        if real and name in _UNITS and len(arguments) == 2:
            if known[1] == _UNITS[name]:
                return arguments[0]
            if known[0] == _UNITS[name] and name not in ("sub", "div"):
                return arguments[1]
            if name == "mul" and 0 in known:
                return arguments[0 if known[0] == 0 else 1]
        return self._once((*key, *(sorted(arguments) if name in ("add", "mul") else arguments)), run, arguments)

    def _once(self, key: tuple[object, ...], run: Callable[..., Values], arguments: tuple[int, ...]) -> int:
        """The place of a step, which is appended unless an equal one is there."""
        if key not in self._known:
            self.steps.append((key, run, arguments))
            self._known[key] = self.count + len(self.steps) - 1
        return self._known[key]

    def finish(self, found: Sequence[Places]) -> None:
        """Take these places as outputs, and leave out the steps that none of them needs."""
        outputs = [int(i) for part in found for i in part.ravel()]
        needed, todo = set[int](), [i for i in outputs if i >= self.count]
        while todo:
            place = todo.pop()
            if place not in needed:
                needed.add(place)
                todo += [i for i in self.steps[place - self.count][2] if i >= self.count]
        new = {i: i for i in range(self.count)} | {old: self.count + k for k, old in enumerate(sorted(needed))}
        kept = [self.steps[i - self.count] for i in sorted(needed)]
        self.steps = [(key, run, tuple(new[i] for i in arguments)) for key, run, arguments in kept]
        self.outputs, self.shapes = [new[i] for i in outputs], [part.shape for part in found]
        self._known.clear()
        self._constants.clear()


def as_numpy(function: Callable[..., object], *shapes: tuple[int, ...]) -> Program | None:
    """A function of numbers and arrays of these shapes as NumPy operations; None if it has others than `Program` knows."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    inputs = [np.arange(a, b).reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]
    try:
        closed = jax.make_jaxpr(function)(*(np.full(shape, 0.5)[()] for shape in shapes))
        program = Program(int(ends[-1]))
        program.finish(program.add(closed.jaxpr, closed.consts, inputs))
    except (TypeError, ValueError, LookupError, jax.errors.JAXTypeError):
        return None
    return program


def at_rows(
    function: Callable[..., object], *shapes: tuple[int, ...], common: int = 0
) -> Callable[..., list[np.ndarray]]:
    """A function of arrays of these shapes at one point as a function of arrays (P, *shape) at P points.

    Of the first `common` arguments there is one row for all points. A function without a `Program` is compiled.
    """
    program = as_numpy(function, *shapes)
    if program is not None:
        return lambda *arrays: [np.ascontiguousarray(part) for part in program.rows(*arrays)]
    batched = jax.vmap(function, (None,) * common + (0,) * (len(shapes) - common))
    compiled = jax.jit(lambda *arrays: jax.tree.leaves(batched(*arrays)))
    return lambda *arrays: in_chunks(partial(compiled, *(a[0] for a in arrays[:common])), *arrays[common:])


def in_chunks(function: Callable[..., Sequence[npt.ArrayLike]], *arrays: np.ndarray) -> list[np.ndarray]:
    """The values of a function of rows, called with as many rows as one of the `SHAPES`.

    The first that holds all rows is taken, else the last, again and again. The last chunk is filled up with its first row.
    """
    count = len(arrays[0])
    size = next((rows for rows in SHAPES if count <= rows), SHAPES[-1])
    parts = [
        [np.asarray(value) for value in function(*(_filled(array[start : start + size], size) for array in arrays))]
        for start in range(0, max(count, 1), size)
    ]
    return [np.concatenate(values)[:count] for values in zip(*parts, strict=True)]


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    if len(rows) == size:
        return rows
    first = rows[:1] if len(rows) else np.zeros((1, *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, np.repeat(first, size - len(rows), axis=0)])


def moved(equation: JaxprEqn, given: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The results of a traced operation that only moves numbers, on arrays of whatever stands for them; None of any other."""
    move = _MOVES.get(equation.primitive.name)
    others = any(low < 0 or high < 0 or inside for low, high, inside in equation.params.get("padding_config", ()))
    return None if move is None or others else move(equation.params, *given)


def _broadcast(a: np.ndarray, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> np.ndarray:
    new = tuple(axis for axis in range(len(shape)) if axis not in dimensions)
    return np.broadcast_to(np.expand_dims(a, new), shape)


def _type(equation: JaxprEqn) -> jax.ShapeDtypeStruct:
    """Shape and precision of the first result."""
    return equation.outvars[0].aval  # type: ignore[return-value]


def operation(name: str, equation: JaxprEqn) -> Callable[..., Values]:
    """NumPy's version of one traced operation on numbers; `LookupError` where there is none."""
    params = equation.params
    if name == "integer_pow":
        power = abs(params["y"])
        raised = lambda a: reduce(np.multiply, [a] * power, 1.0) if power != 2 else np.multiply(a, a)
        return raised if params["y"] >= 0 else lambda a: 1.0 / raised(a)
    if name == "convert_element_type":
        to = np.dtype(params["new_dtype"])
        return lambda a: np.asarray(a if to.kind == "c" else np.real(a), to)
    whole = _type(equation).dtype.kind in "iu"
    if (name == "div" and whole) or (name == "select_n" and len(equation.invars) > 3):
        raise LookupError("NumPy's version of it is another")
    return _PLAIN[name]
