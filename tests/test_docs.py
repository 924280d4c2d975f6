"""The documentation is true: its Python runs, its commands, links and names exist.

Each page is run from top to bottom in an empty folder: Python blocks share their names, lines of
shell blocks that start with `pdno` are run as commands, and a block of text is what the block
before it printed.
"""

import contextlib
import importlib
import importlib.util
import io
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import stand_ins
import torch
import yaml
from PIL import Image

import pdno
import pdno.data.generate as generation
from pdno.cli import main
from pdno.data.generate import make_shard

ROOT = Path(__file__).parents[1]
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*MANUAL, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
CALL = re.compile(r"(?<![\w/])(pdno(?:\.[A-Za-z_]\w*)+)\(")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
LARGEST_PICTURE = 150_000


def show(path):
    return path.relative_to(ROOT).as_posix()


def blocks(page):
    """Languages and contents of the fenced blocks of a page."""
    return FENCED.findall(page.read_text(encoding="utf-8"))


def spans(page):
    """Everything in inline code of a page."""
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", page.read_text(encoding="utf-8")))


def code(page):
    """Everything in inline code and in shell blocks of a page, line by line."""
    shell = [content for language, content in blocks(page) if language == "sh"]
    return spans(page) + [line for content in shell for line in content.splitlines()]


def heading_anchors(page):
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


every_page = pytest.mark.parametrize("page", PAGES, ids=show)


# Code blocks


@pytest.fixture
def published_files(tmp_path, monkeypatch):
    """An empty folder with small files of the names and layouts that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    fields = np.random.default_rng(0).standard_normal((2, 3, 16))
    scipy.io.savemat("burgers_data_R10.mat", {"a": fields[0], "u": fields[1]})
    sizes = {"fc0": (20, 12), "fc1": (128, 20), "fc2": (1, 128)}
    for layer in range(4):
        sizes[f"w{layer}"] = (20, 20, 1, 1)
        for part in ("net_real", "net_imag", "net_out"):
            name = f"conv{layer}.{part}"
            sizes |= {f"{name}.linear_in": (32, 2), f"{name}.linear_out": (400, 32)}
            sizes |= {f"{name}.hidden.{place}": (32, 32) for place in range(2)}
    state = {f"{name}.weight": torch.randn(size) / 10 for name, size in sizes.items()}
    state |= {f"{name}.bias": torch.zeros(size[0]) for name, size in sizes.items()}
    torch.save(state, "ns1e-5.bin")


@pytest.fixture
def in_process(monkeypatch):
    """Make shards in this process, which takes no time."""

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            yield make_shard(problem, folder, *entry)

    monkeypatch.setattr(generation, "_make_all", make_all)


@pytest.fixture
def other_packages(monkeypatch):
    """Packages that pages use and that need not be installed; wandb writes nothing."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    stand_ins.missing(monkeypatch)


def run_shell(content):
    for line in content.splitlines():
        # those with a plug-in are run by tests/runs/test_plugins.py
        if line.startswith("pdno ") and "--plugin" not in line:
            assert main(shlex.split(line)[1:]) == 0, line


@pytest.mark.parametrize(
    "page", [page for page in MANUAL if "```python" in page.read_text()], ids=show
)
@pytest.mark.usefixtures("published_files", "in_process", "forget", "other_packages")
def test_a_page_runs_from_top_to_bottom(page):
    names = {"__name__": "page"}
    printed = ""
    for number, (language, content) in enumerate(blocks(page), start=1):
        if language == "text":
            assert printed.rstrip() == content.rstrip(), f"block {number}"
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            if language == "python":
                exec(compile(content, f"{page.name}, block {number}", "exec"), names)
            elif language == "sh":
                run_shell(content)
        printed = output.getvalue()


# Links and names


@every_page
def test_links_and_pictures_exist(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.is_file(), f"{target} is not there"
        if anchor:
            assert anchor in heading_anchors(place), f"{target}: no such heading"


def test_pictures_are_used_and_small():
    used = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
    }
    images = (ROOT / "docs" / "images").rglob("*.*")
    pictures = sorted(path for path in images if path.is_file())
    assert pictures and set(pictures) <= used
    for path in pictures:
        assert path.stat().st_size <= LARGEST_PICTURE
        if path.suffix == ".svg":  # drawn from the code, see test_architecture.py
            continue
        with Image.open(path) as picture:
            assert np.ptp(np.asarray(picture.convert("L"))) > 100


@every_page
def test_targets_of_make_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    named = {target for text in code(page) for target in re.findall(r"\bmake ([a-z-]+)", text)}
    assert named <= targets


@every_page
def test_commands_and_their_options_exist(page, capsys):
    for text in code(page):
        for words in re.findall(r"(?:^|[ /])pdno ([a-z][^|;`]*)", text):
            parts = words.split()
            if "--plugin" in parts:
                continue
            options = [part.partition("=")[0] for part in parts if part.startswith("--")]
            # the command and, where it has kinds, the kind: what follows is the user's
            command = parts[: 2 if parts[0] in ("generate", "data", "reproduce") else 1]
            command = [part for part in command if part.islower() and not part.startswith("-")]
            with pytest.raises(SystemExit) as ended:
                main([*command, "--help"])
            assert ended.value.code == 0, text
            known = capsys.readouterr().out
            if command not in (["generate"], ["reproduce"]):
                assert [option for option in options if option not in known] == [], text


@every_page
def test_files_and_tests_exist(page):
    for span in spans(page):
        match = re.fullmatch(r"((?:pdno|tests|examples|docs)/[\w./-]+)(?:::(\w+))?", span)
        if match is None or "NAME" in span:
            continue
        path, test = ROOT / match[1], match[2]
        assert path.exists(), span
        if test:
            assert re.search(rf"def {test}\(", path.read_text(encoding="utf-8")), span


@every_page
def test_names_of_the_package_exist(page):
    for span in spans(page):
        for name in re.findall(r"(?<![\w/])pdno(?:\.[A-Za-z_]\w*)+", span):
            assert resolves(name), span


def test_calls_on_the_pages_need_no_import_but_pdno():
    """`pdno.name(...)` is an attribute right after `import pdno`, in a process of its own."""
    calls = {name for page in PAGES for span in spans(page) for name in CALL.findall(span)}
    program = (
        "import pdno, sys, operator\nfor name in sys.argv[1:]: operator.attrgetter(name)(pdno)"
    )
    names = sorted(name.removeprefix("pdno.") for name in calls)
    assert "tune_allocator" in names
    subprocess.run([sys.executable, "-c", program, *names], check=True)


def resolves(name):
    found = pdno
    path = "pdno"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
        elif importlib.util.find_spec(path) is not None:
            found = importlib.import_module(path)
        else:
            return False
    return True


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pdno.PDNO", True),
        ("pdno.spectral.fourier.transform", True),
        ("pdno.spectral.fourier.nothing", False),
    ],
)
def test_the_reader_of_names_can_tell(name, expected):
    if expected:
        assert resolves(name)
    else:
        with pytest.raises(ModuleNotFoundError):
            resolves(name)


@every_page
def test_marks_of_numbers_begin_no_line(page):
    """A comment at the beginning of a line would end the paragraph."""
    assert not re.search(r"^\s*<!-- =", page.read_text(encoding="utf-8"), re.M)


@every_page
def test_nothing_is_left_open(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|FIXME|TBD|XXX)\b", text)
    assert not re.search(r"(?<![\w.])/(work|home|root|tmp|Users)/", text)


def test_the_citation_is_that_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == pdno.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## {re.escape(citation['version'])}( - \d{{4}}-\d\d-\d\d)?$"
    assert re.search(heading, changelog, re.MULTILINE)
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Shin", "Lee", "Hwang"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


# Examples


def load(path):
    spec = importlib.util.spec_from_file_location(f"{path.stem}_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=show)
def test_an_example_says_how_to_run_it_and_is_run_by_a_test(path):
    assert f"python {show(path)}" in load(path).__doc__
    tests = [file for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__)]
    assert any(path.name in file.read_text(encoding="utf-8") for file in tests)


class Constant(torch.nn.Module):
    """The same frame whatever the window: the latest one times a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, window):
        return self.factor * window[:, -1:]


@pytest.mark.parametrize(("factor", "error"), [(1.0, 0.0), (0.0, 1.0)])
def test_the_error_that_the_published_weights_are_measured_by(factor, error, tmp_path):
    """On a flow that stands still, repeating the last frame is exact and zero is all wrong."""
    example = load(ROOT / "examples" / "published_weights.py")
    frames = torch.randn(9, 1, 1, 8, 8).expand(-1, 20, -1, -1, -1)
    grid = pdno.Grid((8, 8))
    data = pdno.OperatorDataset.from_arrays(frames[:, 0], frames, grid, range(1, 21))
    found = example.measure(Constant(factor), data.window(inputs=10), tmp_path / "first.png")
    steps = [found.mean(f"relative_l2 t={t}") for t in range(11, 21)]
    assert [found.mean(), *steps] == pytest.approx([error] * 11)


def test_every_module_is_on_a_page_of_the_api():
    """So that the manual does not end with a warning that only its build would show."""
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    internal = tuple(
        re.findall(r'"(pdno[\w.]*)"', re.search(r"^INTERNAL = .*", settings, re.M)[0])
    )
    modules = pkgutil.walk_packages(pdno.__path__, "pdno.")
    names = {one.name for one in modules if not one.ispkg and not one.name.startswith(internal)}
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    assert len(names) > 100 and names - set(re.findall(r"automodule:: (\S+)", pages)) == set()


NUMBERS = {"twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15}


def test_the_pages_count_lines_and_examples_as_they_are():
    scripts = [path for path in (ROOT / "examples").glob("*.py") if "def main" in path.read_text()]
    for name, pattern in (
        ("README.md", r"(\w+) short\s+examples"),
        ("docs/gallery.md", r"(\w+) scripts of at most"),
    ):
        word = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))[1]
        assert NUMBERS[word.lower()] == len(scripts), name
    (block,) = re.findall(
        r"## First example\n.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    assert len([line for line in block.splitlines() if line]) <= 15


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    words = re.sub(r"<!--.*?-->|\|", " ", text, flags=re.S).split()
    assert len(words) <= 750
