"""Store the outputs of the example notebooks: python scripts/run_notebooks.py runs every cell and writes what it shows."""

import ast
import base64
import contextlib
import io
import json
import os
from pathlib import Path

from matplotlib.figure import Figure

from flm.report.figures.style import to_png

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def shown(value: object) -> dict[str, object]:
    """What Jupyter stores of a value."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, Figure):
        data["image/png"] = base64.b64encode(to_png(value, dpi=80)).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return data


def run(cell: dict[str, object], count: int, names: dict[str, object]) -> None:
    """Run one cell and store its outputs in it."""
    tree, said, value = ast.parse("".join(cell["source"])), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    stream = {"output_type": "stream", "name": "stdout", "text": said.getvalue().splitlines(keepends=True)}
    result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": shown(value)}
    cell["outputs"] = ([stream] if said.getvalue() else []) + ([result] if value is not None else [])
    cell["execution_count"] = count


def main() -> None:
    os.chdir(FOLDER)
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook, names = json.loads(path.read_text(encoding="utf-8")), {"__name__": "__main__"}
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for count, cell in enumerate(code, 1):
            run(cell, count, names)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
