"""A compiled function on any number of rows: in chunks of a few fixed sizes, so that few shapes are compiled."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

ROWS = (2048,)


def in_chunks(
    function: Callable[..., Sequence[npt.ArrayLike]], *arrays: np.ndarray, sizes: Sequence[int] = ROWS, axis: int = 0
) -> list[np.ndarray]:
    """The values of a function of rows, which are the first axis of the arrays and axis `axis` of what it returns.

    The function is called with as many rows as one of the `sizes`, which increase: the first that holds all rows, else the last,
    again and again. The last chunk is filled up with its first row.
    """
    count = len(arrays[0])
    size = next((rows for rows in sizes if count <= rows), sizes[-1])
    parts = [
        [np.asarray(value) for value in function(*(_filled(array[start : start + size], size) for array in arrays))]
        for start in range(0, max(count, 1), size)
    ]
    joined = parts[0] if len(parts) == 1 else [np.concatenate(values, axis) for values in zip(*parts, strict=True)]
    return [np.moveaxis(np.moveaxis(value, axis, 0)[:count], 0, axis) for value in joined]


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    if len(rows) == size:
        return rows
    first = rows[:1] if len(rows) else np.zeros((1, *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, np.repeat(first, size - len(rows), axis=0)])
