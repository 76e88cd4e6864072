"""Files: safetensors with a JSON header, written atomically, read without running anything that they contain.

A saved object is a tree: dataclass fields of the kinds registered below, tuples, dicts, arrays and plain values.
The tree is JSON in the header; arrays are named by their place in it. Only registered kinds are ever built.
"""

import contextlib
import csv
import dataclasses
import importlib
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flm._version import __version__
from flm.wording import FileError, FileMissingError, InputError, InputTypeError

FORMAT = 2
REFUSED = ("Solution", "ControlSolution")  # kinds whose fields have changed: files of an older format are refused
RENEWED = ("FLMImputer", "FLMRegressor")  # kinds that are still read from an older format, see `format1`


# What can be saved, by where it lives.
_OBJECTS = {
    "flm.conservation.moving": "MovingFLM",
    "flm.control.law": "ControlLaw StateNetworks",
    "flm.control.solution": "ControlSolution",
    "flm.control.starts": "Starts Symmetry",
    "flm.estimators": "FLMImputer FLMRegressor",
    "flm.models": "FLM FourierNetwork MLP RandomFourierFeatures SideBySide Silvescu Siren",
    "flm.results": "Solution",
    "flm.series": "ExponentialSeries PhaseSeries ProductSeries SeparableSeries",
    "flm.training.run": "Checkpoint",
}
# What is stored only as a part of these.
_PARTS = {
    "flm.domains": "Ball Box Combination Disk Ellipse NotHeld Outline Polygon Product Region",
    "flm.estimators.evidence": "Compressed",
    "flm.estimators.imputer.blend": "Mixture",
    "flm.estimators.imputer.coupled": "Coupled",
    "flm.estimators.imputer.cross_spectrum": "CrossSpectrum",
    "flm.estimators.imputer.curve": "Curve",
    "flm.estimators.imputer.dense": "Dense DenseSpectrum",
    "flm.estimators.imputer.estimator": "ImputerState",
    "flm.estimators.imputer.holes": "Calibration",
    "flm.estimators.imputer.lags": "LagRegression",
    "flm.estimators.imputer.units": "Units Warp",
    "flm.estimators.regressor.estimator": "RegressorState",
    "flm.estimators.regressor.noise": "Noise",
    "flm.estimators.regressor.wave_fit": "WaveFit",
    "flm.estimators.regressor.wave_model": "WaveModel",
    "flm.estimators.table": "Feature",
    "flm.estimators.waves": "Scale Waves",
    "flm.models.base": "InputMap",
    "flm.models.family": "Blend FamilyFLM",
    "flm.models.march": "MarchedFLM",
    "flm.models.pieces": "PiecewiseFLM",
    "flm.models.products": "Part ProductFLM SparseFLM",
    "flm.results": "LearnedFunction Parameter",
}
KINDS = {kind: module for places in (_PARTS, _OBJECTS) for module, kinds in places.items() for kind in kinds.split()}


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that at any moment it is absent, old or complete."""
    path = as_path(path)
    if path.is_dir() or path.name == "" or (path.exists() and not path.is_file()):
        raise FileError(f"`path` must be a file, new or old; got {str(path)!r}, which is a folder or a device.")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise FileError(
            f"`path` must be in a folder that can be written; got {str(path)!r} ({error.strerror})."
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if not isinstance(error, OSError):
            raise
        raise FileError(
            f"`path` must be on a disk that takes the file; got {str(path)!r} ({error.strerror or error}). What was there "
            "before is unchanged."
        ) from None


def write_csv(path: str | os.PathLike[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, with all digits of its numbers."""
    text = io.StringIO()
    cells = ([f"{v:.17g}" if isinstance(v, float) else v for v in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells)
    write_atomic(path, text.getvalue().encode())


def to_json(record: object) -> str:
    """JSON for people and machines: NumPy numbers and arrays as plain ones, and null for numbers that are not finite."""
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def as_path(path: object) -> Path:
    """A path from a string or path; other things, and strings with a null character, are refused."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise InputTypeError(f'`path` must be a path such as "model.safetensors"; got {path!r}.')
    return Path(path)


def save(obj: object, path: str | os.PathLike[str]) -> None:
    """Write a series, model, solution or fitted estimator to a `.safetensors` file.

    Args:
        obj: what to save. A problem is code and is not stored; a region that is a Python function is stored as its outline.
        path: where; an existing file is replaced in one step.

    Example:
        >>> import flm
        >>> flm.save(flm.PhaseSeries([[1.0]], [[2.0]], [[0.0]], axes="x"), "wave.safetensors")
        >>> float(flm.load("wave.safetensors")(x=0.0))
        2.0
    """
    from safetensors.numpy import save as to_bytes

    if not _is_registered(obj) or type(obj).__name__ not in " ".join(_OBJECTS.values()).split():
        known = "a series, a model, a solution or a fitted estimator"
        raise InputTypeError(f"`obj` must be {known}; got {type(obj).__name__}. A problem is code and is not stored.")
    arrays: dict[str, np.ndarray] = {}
    tree = _encode(obj, "root", arrays)
    header = {"format": FORMAT, "kind": type(obj).__name__, "version": __version__, "tree": tree}
    write_atomic(path, to_bytes(arrays, metadata={"flm": json.dumps(header)}))


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote. Safe to use on a file from a stranger: nothing in it is executed.

    Example:
        >>> import flm
        >>> flm.save(flm.FLM(2, 5, key=0), "model.safetensors")
        >>> flm.load("model.safetensors").num_parameters
        30
    """
    from safetensors import SafetensorError, safe_open

    path = as_path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
        raise FileMissingError(f"`path` must be a file written by flm.save; got {str(path)!r}, which {what}.")
    damaged = f"`path` must be an undamaged file written by flm.save; got {str(path)!r}"
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["flm"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        newer, old = header["format"] > FORMAT, header["format"] < FORMAT
        kind = "" if newer else header["tree"]["kind"]
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError):  # a number of 4,301 digits too
        raise InputError(f"{damaged}.") from None
    got = f"got format {header['format']} in {str(path)!r}"
    if newer:
        raise InputError(f"`path` must be of format {FORMAT} or older; {got}. Upgrade flm.")
    if old and kind in REFUSED:
        remedy = "Solve the problem again and save it with this version."
        raise InputError(f"`path` must hold a {kind} of format {FORMAT}; {got}. {remedy}")
    try:
        if old and kind in RENEWED:
            from flm.estimators.format1 import renewed

            fields = {name: _decode(node, arrays) for name, node in header["tree"]["fields"].items()}
            return _class(kind)._unpack(renewed(kind, fields))
        return _decode(header["tree"], arrays)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise InputError(f"{damaged} ({' '.join(str(error).split())}).") from None


def _class(kind: str) -> Any:
    if kind not in KINDS:
        raise InputError(f"this version of flm knows no {kind!r}")
    return getattr(importlib.import_module(KINDS[kind]), kind)


def _is_registered(value: object) -> bool:
    kind = type(value).__name__
    return kind in KINDS and _class(kind) is type(value)


def _encode(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    kind = type(value).__name__
    if _is_registered(value):
        by_field = lambda: {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        named = value._pack() if hasattr(value, "_pack") else by_field()
        return {"kind": kind, "fields": {k: _encode(v, f"{place}.{k}", arrays) for k, v in named.items()}}
    if isinstance(value, tuple | list):
        return {"tuple": [_encode(v, f"{place}.{i}", arrays) for i, v in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, place, arrays), _encode(v, f"{place}.{k}", arrays)] for k, v in value.items()]}
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise InputTypeError(f"`obj` must hold numbers, names and arrays only; got {kind} at {place}.")
    while place in arrays:  # a dict key may hold a dot
        place += "'"
    if array.dtype.kind == "c":  # safetensors has no complex128: the last axis holds real and imaginary parts
        arrays[place] = np.ascontiguousarray(np.stack([np.real(array), np.imag(array)], axis=-1))
        return {"complex": place}
    arrays[place] = np.ascontiguousarray(array).reshape(array.shape)
    return {"array": place}


def _decode(node: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(node, dict):
        return node
    if "array" in node:
        return arrays[node["array"]]
    if "complex" in node:
        parts = arrays[node["complex"]]
        return parts[..., 0] + 1j * parts[..., 1]
    if "tuple" in node:
        return tuple(_decode(v, arrays) for v in node["tuple"])
    if "dict" in node:
        return {_decode(k, arrays): _decode(v, arrays) for k, v in node["dict"]}
    kind = _class(node["kind"])
    fields = {k: _decode(v, arrays) for k, v in node["fields"].items()}
    if hasattr(kind, "_unpack"):
        return kind._unpack(fields)
    # A plain dataclass holds NumPy arrays and needs no JAX.
    plain = not type(kind).__module__.startswith("equinox")
    by_default = lambda f: plain and (f.default, f.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
    names = {f.name for f in dataclasses.fields(kind)}
    # Fields that have come since have a default that means what was true before.
    if not {f.name for f in dataclasses.fields(kind) if not by_default(f)} <= set(fields) <= names:
        raise InputError(f"the fields of {node['kind']} are {sorted(names)}; the file has {sorted(fields)}")
    if plain:
        return kind(**fields)
    import jax
    import jax.numpy as jnp

    obj = object.__new__(kind)
    for name, value in fields.items():  # arrays become JAX arrays, also inside tuples and dicts
        object.__setattr__(obj, name, jax.tree.map(lambda v: jnp.asarray(v) if isinstance(v, np.ndarray) else v, value))
    for check in (vars(base).get("__check_init__") for base in kind.__mro__):
        if check is not None:
            check(obj)
    return obj
