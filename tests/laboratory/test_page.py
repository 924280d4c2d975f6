"""The page is whole: its colours are those of the report, and what it lacks is said."""

import base64
import gzip
import json
import re
from pathlib import Path

import matplotlib
import pytest
from matplotlib.colors import to_hex

from pdno.figures.fields import signed
from pdno.figures.style import COLOURS
from pdno.laboratory import page
from pdno.laboratory.server import page_files

WEB = Path(page.__file__).parent / "web"


def test_the_colours_are_those_of_the_report():
    text = (WEB / "colours.js").read_text(encoding="utf-8")
    for name, map_name in (("SEQUENTIAL", "viridis"), ("DIVERGING", signed()["cmap"])):
        table = re.search(rf"const {name} = \[(.*?)\]", text, re.DOTALL)[1]
        result = re.findall(r'"(#[0-9a-f]{6})"', table)
        colours, last = matplotlib.colormaps[map_name], len(result) - 1
        assert result == [to_hex(colours(k / last)) for k in range(last + 1)]
    lines = re.search(r"LINES = \[(.*?)\]", text)[1]
    assert json.loads(f"[{lines}]") == list(COLOURS[:6])


def test_the_page_has_all_that_it_names_and_names_nothing_outside():
    files = page_files()
    for name, content in files.items():
        text = content.decode()
        for module in re.findall(r'from "\./([\w.]+)"', text):
            assert module in files, (name, module)
        addresses = set(re.findall(r"https?://[\w./]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
    html = files["index.html"].decode()
    named = re.findall(r'(?:href|src)="([\w.]+)"', html)
    assert named == ["style.css", "app.js"]
    assert set(named) <= set(files)
    ids = set(re.findall(r'id="([\w-]+)"', html))
    script = files["app.js"].decode()
    assert set(re.findall(r'\$\("([\w-]+)"\)', script)) <= ids
    assert set(re.findall(r'^  on\("([\w-]+)"', script, re.MULTILINE)) <= ids


def test_the_lock_file_names_no_host():
    for folder in (WEB, Path(__file__).parent):
        text = (folder / "package-lock.json").read_text(encoding="utf-8")
        assert "resolved" not in text and "registry" not in text


def test_without_npm_the_cure_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PDNO_ONNXRUNTIME_WEB", raising=False)
    monkeypatch.setattr(page.shutil, "which", lambda _: None)
    with pytest.raises(ValueError, match="install Node.js, or set PDNO_ONNXRUNTIME_WEB"):
        page.runtime_files()
    monkeypatch.setenv("PDNO_ONNXRUNTIME_WEB", str(tmp_path))
    with pytest.raises(ValueError, match="ort.wasm.bundle.min.mjs is not .* name another"):
        page.runtime_files()
    assert page.try_pages({"a": [tmp_path]}, tmp_path).startswith("no page for a: ")


def test_a_page_is_one_file(tmp_path):
    """It opens by a double click: a browser loads nothing beside a file:// page."""
    inside = {"operators.json": b"[1, 2]", "model.onnx": bytes(range(256))}
    text = page.one_file(page_files(), inside)
    assert not re.findall(r'(?:href|src)="(?!data:|#)', text)
    modules = json.loads(re.search(r'"importmap">(.*?)</script>', text)[1])["imports"]
    for address in modules.values():
        code = base64.b64decode(address.partition(",")[2]).decode()
        assert set(re.findall(r'from "(.*?)"', code)) <= set(modules) and "</script" not in code
    assert "<style>:root" in text and 'import "app.js"' in text and "default-src 'none'" in text
    for name, content in inside.items():
        packed = re.search(f'<script type="application/gzip" id="{name}">(.*?)</script>', text)[1]
        assert gzip.decompress(base64.b64decode(packed)) == content


def test_only_the_known_runtime_is_published(tmp_path, monkeypatch):
    """What lies in the cache may have been changed since npm verified it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PDNO_ONNXRUNTIME_WEB", raising=False)
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))
    version = lock["packages"]["node_modules/onnxruntime-web"]["version"]
    folder = page.cache_path() / f"onnxruntime-web-{version}"
    folder.mkdir(parents=True)
    for name in page.RUNTIME:
        (folder / name).write_text("alert(1)")
    with pytest.raises(ValueError, match=f"is not the file of ONNX Runtime Web {version}: remove"):
        page.runtime_files()


def test_a_page_is_an_html_file(tmp_path):
    with pytest.raises(ValueError, match="expected a name that ends .html"):
        page.write_page([tmp_path], tmp_path / "site")
