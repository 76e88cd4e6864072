"""The one interface of all models: values and jets at points."""

import abc
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PyTree

from flm.domains import AbstractDomain
from flm.series import PhaseSeries
from flm.series.arrays import Numbers, device, host
from flm.series.waves import Frame, Orders, Waves, wave_columns, wave_jets
from flm.wording import InputError, InputTypeError

Inputs = int | AbstractDomain  # how many, or the domain whose extent is mapped
Key = int | np.integer | np.ndarray | Array  # a seed, or a JAX key


class InputMap(eqx.Module):
    """The affine map z = scale * (x - center) from physical to model inputs, one number per axis.

    Example:
        >>> InputMap(center=(1.0,), scale=(2.0,), axes=("x",))(np.array([[1.5]]))
        Array([[1.]], dtype=float64)
    """

    center: tuple[float, ...] = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)
    axes: tuple[str, ...] | None = eqx.field(static=True)

    def __check_init__(self):
        count, numbers = len(self.center), (*self.center, *self.scale)
        fits = count == len(self.scale) and (self.axes is None or len(self.axes) == count)
        if not fits or not all(isinstance(v, float) and np.isfinite(v) for v in numbers):
            raise InputError(f"an input map must have one center, scale and name per axis; got {self}.")

    def __call__(self, points: Float[Array, "P m"]) -> Float[Array, "P m"]:
        """Mapped points, in the points' precision."""
        return (points - jnp.asarray(self.center, points.dtype)) * jnp.asarray(self.scale, points.dtype)

    def series(self, frequencies: npt.ArrayLike, amplitudes: npt.ArrayLike, phases: npt.ArrayLike) -> PhaseSeries:
        """The series of mapped inputs with these numbers, as a series in physical units."""
        return PhaseSeries(frequencies, amplitudes, phases, self.axes).rescale(self.scale).shift(self.center)


def input_map(inputs: Inputs, width: float, period: npt.ArrayLike | None = None) -> InputMap:
    """The map under which one period becomes `width`: 2 for [-1, 1], 2 pi for waves of frequency 1.

    The period is one number or one per axis; by default it is the domain's extent, and without a domain there is no map.

    Example:
        >>> import flm
        >>> input_map(flm.Box(x=(0, 4)), 2.0)
        InputMap(center=(2.0,), scale=(0.5,), axes=('x',))
    """
    if isinstance(inputs, AbstractDomain):
        axes, extent = tuple(inputs.axes), np.asarray(inputs.bounds, float)
        center, periods = extent.mean(axis=1), extent[:, 1] - extent[:, 0]
    elif isinstance(inputs, int | np.integer) and not isinstance(inputs, bool) and inputs >= 1:
        axes, center, periods = None, np.zeros(int(inputs)), np.full(int(inputs), float(width))
    else:
        raise InputError(
            f"`num_inputs` must be a positive integer or a domain such as flm.Box(x=(0, 1)); got {inputs!r}."
        )
    if period is not None:
        try:
            periods = np.broadcast_to(np.asarray(period, float), center.shape)
        except (TypeError, ValueError):
            periods = np.full(len(center), np.nan)
    with np.errstate(over="ignore", divide="ignore"):
        scale = width / periods
    if not (np.isfinite(scale) & np.isfinite(periods) & (periods > 0)).all():  # a denormal period has no frequencies
        raise InputError(f"`period` must be one positive number, or one per axis ({len(center)}); got {period!r}.")
    return InputMap(tuple(map(float, center)), tuple(map(float, scale)), axes)


def random_key(key: Key) -> Array:
    """A JAX key from an integer seed or a key."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise InputError(f"`key` must be an integer of 64 bits; got {key!r}.")
        return jax.random.key(int(key))
    raw = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.shape == (2,)
    if raw or (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0):
        return jnp.asarray(key)
    raise InputError(f"`key` must be an integer or a JAX key; got {key!r}.")


class AbstractModel(eqx.Module):
    """A parametric function of points (P, m), a pytree whose trainable leaves are its parameters.

    Values are (P,) for one output and (P, K) for several. `docs/extend.md` shows how to write a model.

    Example:
        >>> class Line(AbstractModel):
        ...     slopes: Array
        ...     map: InputMap
        ...     num_outputs: int = eqx.field(static=True)
        ...
        ...     def values(self, points):
        ...         return self.map(points) @ self.slopes
        ...
        >>> line = Line(slopes=np.array([2.0, 3.0]), map=input_map(2, 1.0), num_outputs=1)
        >>> line([[1.0, 1.0]])
        Array([5.], dtype=float64)
        >>> line.jets([[1.0, 1.0]], ((1, 0), (0, 1)))  # both first derivatives
        Array([[2.],
               [3.]], dtype=float64)
        >>> line.num_parameters
        2
    """

    map: eqx.AbstractVar[InputMap]
    num_outputs: eqx.AbstractVar[int]

    def __call__(self, points: npt.ArrayLike) -> Array:
        """Values at points (P, m); one input: also (P,)."""
        _, (found,) = host(self.jets(points, ((0,) * self.num_inputs,)))
        return device(found[0])

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """Values at checked points in plain JAX operations; `jets` differentiates them unless a model knows better."""
        raise NotImplementedError(f"{type(self).__name__} must have `values` or `jets`.")

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """The partial derivatives named by `orders`, one after the other: (A, P) or (A, P, K).

        Orders are multi-indices: ((0, 0), (2, 0)) is the value and the second derivative along the first input.
        """
        return _autodiff_jets(self, self._checked(points), self._orders(orders))

    def trainable(self) -> PyTree[bool]:
        """A pytree of booleans shaped like the model: which leaves training may change."""
        return jax.tree.map(eqx.is_inexact_array, self)

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return len(self.map.center)

    @property
    def num_parameters(self) -> int:
        """How many numbers training may change."""
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(self, self.trainable())))

    def _checked(self, points: npt.ArrayLike) -> Float[Array, "P m"]:
        _, (array,) = host(points)
        if self.num_inputs == 1 and array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self.num_inputs:
            raise InputError(f"`points` must have shape (P, {self.num_inputs}); got {array.shape}.")
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(jnp.result_type(float))
        return device(array)

    def _wave_jets(self, waves: Waves, points: npt.ArrayLike, orders: Orders) -> Array:
        """The jets of waves of the mapped inputs."""
        return wave_jets(waves, self._frame(waves.k.dtype), self._checked(points), self._orders(orders))

    def _wave_columns(self, k: Numbers, points: npt.ArrayLike, orders: Orders) -> Array:
        """The cosines of the mapped inputs, then the sines, and their derivatives: (A, P, 2M)."""
        return wave_columns(k, self._frame(k.dtype), self._checked(points), self._orders(orders))

    def _frame(self, dtype: np.dtype) -> Frame:
        return Frame(np.asarray(self.map.center, dtype), np.asarray(self.map.scale, dtype))

    def _orders(self, orders: Sequence[Sequence[int]]) -> Orders:
        checked = tuple(tuple(int(o) for o in alpha) for alpha in orders)
        if not checked or any(len(alpha) != self.num_inputs or min(alpha) < 0 for alpha in checked):
            raise InputError(
                f"`orders` must be multi-indices of {self.num_inputs} nonnegative integers, at least one; got {orders!r}."
            )
        return checked


class AbstractLinearModel(AbstractModel):
    """A model that is linear in its amplitudes: a least-squares solver sees only its columns.

    Example:
        >>> import flm
        >>> model = flm.FLM(1, 3, key=0).with_coefficients([1.0, 0.0, 0.0, 0.0, 0.0, 2.0])  # 1 + 2 sin 2x
        >>> model.coefficients.round(12)
        Array([1., 0., 0., 0., 0., 2.], dtype=float64)
        >>> model.basis([0.0], ((0,), (1,))).shape
        (2, 1, 6)
    """

    @abc.abstractmethod
    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """The columns and their derivatives: jets = basis @ coefficients."""

    @property
    @abc.abstractmethod
    def coefficients(self) -> Float[Array, "columns *K"]:
        """The amplitudes that multiply the columns."""

    @abc.abstractmethod
    def with_coefficients(self, coefficients: npt.ArrayLike) -> Self:
        """The model with other amplitudes; everything else is kept."""


class AbstractOutputWeights(AbstractLinearModel):
    """A linear model of which only the weights of the output layer are trained: f = basis @ weights.

    Example:
        >>> import flm
        >>> isinstance(flm.models.FourierNetwork.zp95(1, 3), AbstractOutputWeights)
        True
    """

    weights: eqx.AbstractVar[Float[Array, "*columns_K"]]

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Basis times weights."""
        return self.basis(points, orders) @ self.coefficients

    @property
    def coefficients(self) -> Float[Array, "columns *K"]:
        """The output weights, one per column."""
        return self.weights.reshape(-1) if self.num_outputs == 1 else self.weights.reshape(-1, self.num_outputs)

    def with_coefficients(self, coefficients: npt.ArrayLike) -> Self:
        """The network with other output weights."""
        new = jnp.asarray(coefficients, self.weights.dtype).reshape(self.weights.shape)
        return eqx.tree_at(lambda f: f.weights, self, new)

    def trainable(self) -> PyTree[bool]:
        """The output weights."""
        spec = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda f: f.weights, spec, True)


class SideBySide(AbstractModel):
    """Models of one output each, with equal inputs, whose outputs are stacked last: f(x) = (f_1(x), ..., f_K(x)).

    Example:
        >>> import flm
        >>> pair = flm.models.SideBySide([flm.FLM(1, 3, key=0), flm.FLM(1, 3, key=1)])
        >>> pair.num_outputs
        2
    """

    models: tuple[AbstractModel, ...]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, models: Iterable[AbstractModel]):
        self.models = tuple(models)
        sizes = [(model.num_inputs, model.num_outputs) for model in self.models]
        if len(set(sizes)) != 1 or sizes[0][1] != 1:
            raise InputError(f"`models` must have equal inputs and one output each; got {sizes}.")
        self.map, self.num_outputs = self.models[0].map, len(self.models)

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """The jets of every model, (A, P, K); (A, P) for one."""
        columns = [model.jets(points, orders) for model in self.models]
        return columns[0] if len(columns) == 1 else jnp.stack(columns, axis=-1)

    def trainable(self) -> PyTree[bool]:
        """Which leaves of each model training may change."""
        spec = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda s: s.models, spec, tuple(m.trainable() for m in self.models))


Model = TypeVar("Model", bound=AbstractLinearModel)


def least_squares(model: Model, points: npt.ArrayLike, values: npt.ArrayLike) -> Model:
    """The model with the amplitudes of least squared error at points (of those, the ones of least norm).

    Example:
        >>> import flm
        >>> x = np.linspace(0, 1, 50)
        >>> network = flm.models.FourierNetwork.zp95(flm.Box(x=(0, 1)), 3)
        >>> fitted = flm.models.least_squares(network, x, np.sin(2 * np.pi * x))
        >>> bool(np.abs(fitted(x) - np.sin(2 * np.pi * x)).max() < 1e-12)
        True
    """
    if not isinstance(model, AbstractLinearModel):
        raise InputTypeError(f"`model` must be linear in its amplitudes; got {type(model).__name__}. Use flm.train.")
    columns = np.asarray(model.basis(points, ((0,) * model.num_inputs,))[0])
    targets = np.asarray(values, float)
    expected = (len(columns),) if model.num_outputs == 1 else (len(columns), model.num_outputs)
    if targets.shape != expected:
        raise InputError(f"`values` must have shape {expected}, one row per point; got {targets.shape}.")
    return model.with_coefficients(np.linalg.lstsq(columns, targets, rcond=1e-14)[0])


@eqx.filter_jit  # called outside of a larger program, compile once per shape
def _autodiff_jets(model: AbstractModel, points: Array, orders: Orders) -> Array:
    """Every D^alpha by nested forward mode: the function is pointwise, so one tangent serves all points."""
    along = lambda function, direction, x: jax.jvp(function, (x,), (direction,))[1]
    found = []
    for alpha in orders:
        function = model.values
        for j in (j for j, order in enumerate(alpha) for _ in range(order)):
            function = partial(along, function, jnp.zeros_like(points).at[:, j].set(1))
        found.append(function(points))
    return jnp.stack(found)
