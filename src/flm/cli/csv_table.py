"""Tables from CSV files: a header, numbers, empty cells, one column of dates. Cells are text until numbers are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from flm.wording import FileMissingError, InputError, did_you_mean

EMPTY = {"", "nan", "na", "null", "none", "?"}


def read_csv(path: str | Path) -> pd.DataFrame:
    """The cells of a CSV file as text under its header, empty where a line is short; `attrs["name"]` is the file's name."""
    path = Path(path)
    if not path.is_file():
        raise FileMissingError(f"the file {str(path)!r} does not exist.")
    try:
        cells = pd.read_csv(path, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except ValueError as error:
        raise InputError(f"{path.name} must be a CSV file in UTF-8; got {error}.") from None
    if len(cells) < 2:
        raise InputError(f"{path.name} must have a header and at least one row; got {len(cells)} lines.")
    names = cells.iloc[0].str.strip()
    if not names.is_unique:
        raise InputError(
            f"{path.name} must have different names in its header; got {names[names.duplicated()].iloc[0]!r} again."
        )
    frame = cells.iloc[1:].set_axis(pd.Index(names.tolist()), axis=1).reset_index(drop=True)
    frame.attrs["name"] = path.name
    return frame


def columns(frame: pd.DataFrame, chosen: str | Iterable[str] | None, role: str, *, but: str | None = None) -> list[str]:
    """These names, "a,b,c" or one by one, or all but one; an error suggests the nearest name where there is no such column."""
    if chosen is None:
        return [name for name in frame if name != but]
    names = [name.strip() for name in chosen.split(",")] if isinstance(chosen, str) else list(chosen)
    for name in names:
        if name not in frame:
            known = f"{frame.attrs['name']} ({', '.join(frame)})"
            raise InputError(f"`{role}` must be a column of {known}; got {name!r}.{did_you_mean(name, frame)}")
    return names


def numbers(frame: pd.DataFrame, names: list[str], *, missing: bool = False, dates: str | None = None) -> pd.DataFrame:
    """Columns as numbers; empty cells are NaN where `missing`; the column `dates` in seconds."""
    found = {}
    for name in names:
        text = pd.Series(frame[name]).str.strip()
        empty = text.str.lower().isin(EMPTY)
        values = pd.Series(pd.to_numeric(text.mask(empty), errors="coerce"), dtype=float)
        if name == dates:
            clock = pd.to_datetime(text.str.replace("/", "-"), format="ISO8601", utc=True, errors="coerce")
            values = values.fillna((clock - pd.Timestamp(0, tz="UTC")).dt.total_seconds())
        may_be_empty = missing and name != dates
        for i in np.flatnonzero(values.isna() & ~(empty & may_be_empty))[:1]:
            place = f"{frame.attrs['name']}, line {i + 2}: column {name!r}"
            if empty[i]:
                raise InputError(f"{place} is empty; remove the row or use flm impute.")
            remedy = "Name the columns of numbers with --features or --columns."
            raise InputError(f"{place} must be a number; got {text[i]!r}. {remedy}")
        found[name] = values
    return pd.DataFrame(found)
