"""Execute the notebooks in notebooks/, and show them in the manual.

    python tools/notebooks.py [NAME ...]   execute them, and store what they print and draw
    python tools/notebooks.py --render     write docs/notebooks/, as the build of the manual does

Cells are executed as plain Python in an empty folder, so no Jupyter is needed. Where the metadata
of the package name its repository, the pages have links that open the notebooks in Colab.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
PAGES = ROOT / "docs" / "notebooks"
COLAB = "https://colab.research.google.com/github/{}/blob/HEAD/notebooks/{}"
GITHUB = "https://github.com/"
DPI = 70
JSON = dict[str, Any]


def execute(notebook: JSON) -> JSON:
    """The notebook with the outputs of its code cells, executed in this folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run("".join(cell["source"]), names, f"cell {count}")
            cell = {**cell, "execution_count": count, "outputs": outputs}
            for output in outputs:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run(source: str, names: dict[str, object], title: str) -> list[JSON]:
    """What a cell prints, and the value of its last expression: a figure, or its repr."""
    tree, printed = ast.parse(source), io.StringIO()
    names["_"] = None
    if isinstance(last := tree.body[-1], ast.Expr):
        target = ast.Name("_", ast.Store())
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.fix_missing_locations(tree), title, "exec"), names)
    value: Any = names["_"]
    outputs: list[JSON] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "savefig"):
            image = io.BytesIO()
            value.savefig(image, format="png", dpi=DPI, metadata={"Software": None})
            data["image/png"] = base64.b64encode(image.getvalue()).decode("ascii")
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def execute_all(names: Sequence[str] = ()) -> None:
    """Execute notebooks, by default all, each in an empty folder; print how long they take."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        started, here = time.process_time(), Path.cwd()
        with tempfile.TemporaryDirectory() as empty:
            os.chdir(empty)
            try:
                done = execute(json.loads(path.read_text(encoding="utf-8")))
            finally:
                os.chdir(here)
        text = json.dumps(done, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {time.process_time() - started:.0f} CPU s, {len(text):,} bytes")


def render_all(pages: Path = PAGES) -> None:
    """Write a page and its pictures for each notebook; those of an earlier call are removed."""
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = urls.get("urls", {}).get("Repository", "").removeprefix(GITHUB)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        parts, pictures = [], 0
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            code = cell["cell_type"] == "code"
            parts.append(f"```python\n{source}\n```" if code else source)
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                if "image/png" in data:
                    name, pictures = f"{path.stem}-{pictures}.png", pictures + 1
                    (pages / name).write_bytes(base64.b64decode(data["image/png"]))
                    parts.append(f"![What the cell above draws]({name})")
                else:
                    text = "".join(output.get("text") or data["text/plain"])
                    parts.append(f"```text\n{text.rstrip()}\n```")
        if repository:
            link = f"[Open in Colab]({COLAB.format(repository, path.name)})"
            parts.insert(1, f"{link}; there, first `%pip install pdno`.")
        text = "\n\n".join(parts) + "\n"
        (pages / f"{path.stem}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", action="store_true", help="write the pages of the manual")
    parser.add_argument("names", nargs="*", help="of notebooks, without .ipynb")
    options = parser.parse_args()
    render_all() if options.render else execute_all(options.names)
