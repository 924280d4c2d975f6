"""Both pages in headless Chromium: draw, predict, compare, play, look inside, on any screen."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import pdno
from pdno.laboratory.page import runtime_files, write_page

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
MISSING = [name for name in ("node", "npm") if shutil.which(name) is None]
MISSING += [] if CHROMIUM else ["chromium"]
SCREENSHOTS = os.environ.get("PDNO_SCREENSHOTS")  # a folder for the screenshots, to look at them

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not found: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """Playwright, from npm."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm cannot fetch playwright-core: {done.stderr[-200:]}")
    return folder / "node_modules"


def visit(address, backend, modules, folder):
    """What a reader saw."""
    screenshots = Path(SCREENSHOTS or folder)
    screenshots.mkdir(parents=True, exist_ok=True)
    names = {"flow": "darcy: PDNO", "other": "darcy: FNO", "fluid": "flow: steps"}
    task = {"url": address, "backend": backend, "chromium": CHROMIUM, "modules": str(modules)}
    task |= {"screenshots": str(screenshots), **names}
    command = ["node", str(HERE / "browser.mjs"), json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == [] and report["outside"] == []
    return report["steps"]


def field(step):
    return torch.tensor(step["input"]).reshape(1, 1, *step["shape"])


def prediction(step, number=0):
    frames = step["predictions"][number]
    return torch.tensor(frames["values"]).reshape(frames["shape"])


def close(result, expected, tolerance):
    return float((result - expected).norm() / expected.norm()) < tolerance


def check(steps, runs, tolerance):
    """What both pages have to show."""
    ours, theirs, fluid = (pdno.load(runs[number]) for number in (0, 1, 2))
    for name in ("random", "painted", "keyboard", "finer"):
        expected = ours.predict(field(steps[name]))[0]
        assert close(prediction(steps[name]), expected, tolerance), name
    drawn = [steps[name]["input"] for name in ("random", "painted", "keyboard")]
    assert drawn[0] != drawn[1] and drawn[1] != drawn[2]
    compared = steps["compared"]
    assert close(prediction(compared, 1), theirs.predict(field(compared))[0], tolerance)
    truth = torch.tensor(compared["truth"]["values"]).reshape(compared["truth"]["shape"])
    for row, number in zip(compared["numbers"], (0, 1), strict=True):
        error = float((prediction(compared, number) - truth).norm() / truth.norm())
        assert float(row[1]) == pytest.approx(error, rel=1e-2)
    assert steps["finer"]["shape"] == [32, 32]
    played = steps["played"]
    expected = fluid.predict(field(played), times=range(3, 9))[0, :, 0]
    assert close(prediction(played), expected, 10 * tolerance)
    assert steps["paused"] and steps["stepped"] in (1, -5) and played["frame"] == 0
    assert {"space", "real", "imaginary"} <= set(steps["symbol"]["figures"])
    assert "S^1" in steps["symbol"]["assessment"] and "channel is from 0 to 3" in steps["message"]
    assert steps["opened"] == [True, "flow: steps"]  # what is there to see moves
    assert steps["cleared"] == 1 and steps["undone"]
    assert (
        steps["phone"]
        and steps["cut"] == []
        and steps["unnamed"] == []
        and steps["skip"] == "skip"
    )


def test_the_laboratory_in_a_browser(runs, laboratory, modules, tmp_path):
    with laboratory(runs) as address:
        steps = visit(f"{address}/", "server", modules, tmp_path)
    check(steps, runs, 1e-5)
    assert steps["hesitated"]  # no certificate under another operator
    assert {"before", "after"} <= set(steps["symbol"]["figures"])


def test_the_page_without_a_server(runs, modules, tmp_path):
    pytest.importorskip("onnxruntime", reason="pip install 'pdno[export]'")
    try:
        runtime_files()
    except ValueError as problem:
        pytest.skip(str(problem))
    page = tmp_path / "page.html"
    message = write_page([runs[0], runs[1], runs[2]], page)
    assert "MiB" in message
    steps = visit(page.as_uri(), "browser", modules, tmp_path)  # as by a double click
    check(steps, runs, 1e-4)
    print("seconds of predictions in the browser:", steps["seconds"])
