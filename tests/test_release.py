"""What a release rests on: workflows, metadata, the public API and the versions agree."""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import api  # noqa: E402
from lock import locked_versions, read_lock  # noqa: E402
from lowest import lowest_versions  # noqa: E402
from release_notes import release_notes  # noqa: E402

import pdno  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": [path for path in FORMS if path.name != "config.yml"],
    "github-issue-config": [path for path in FORMS if path.name == "config.yml"],
    "dependabot": [ROOT / ".github" / "dependabot.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()


# Workflows


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_of_the_repository_match_their_schema(schema):
    pytest.importorskip("check_jsonschema")
    assert SCHEMAS[schema]
    command = ["check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, SCHEMAS[schema])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_calls_targets_of_the_makefile(path):
    """What GitHub runs, anybody can run."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for name, job in jobs(path):
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        matrix = job.get("strategy", {}).get("matrix", {}).get("include", [])
        chosen = [entry["target"] for entry in matrix if "target" in entry]
        runs = " ".join(step.get("run", "") for step in job["steps"])
        named = re.findall(r"\bmake (?:--silent )?([a-z][a-z-]*)", runs) + chosen
        assert named and set(named) <= targets, name
        assert job["timeout-minutes"] <= 360


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_write_nothing_unless_a_job_says_so(path):
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    writing = [name for name, job in jobs(path) if "write" in str(job.get("permissions", ""))]
    assert writing == (["publish"] if path.name == "release.yml" else [])
    # what others choose, such as the title of a pull request, is never part of a script
    assert not re.findall(r"run:.*\$\{\{ *github\.(?:event|head_ref)", text)


def test_the_oldest_and_newest_python_are_those_of_the_metadata():
    tested = set()
    for path in WORKFLOWS:
        for _, job in jobs(path):
            matrix = job.get("strategy", {}).get("matrix", {})
            tested |= set(matrix.get("python", []))
    claimed = [
        text.rpartition(" ")[2]
        for text in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", text)
    ]
    assert tested == {claimed[0], claimed[-1]}
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"


# Public API

# what tests reach through another name: runs, `discover`, the distribution of Darcy flow, heads
CALLED_BY_OTHERS = {
    *("Experiment.check_samples", "Experiment.open_file", "Discovery", "TwoPhaseField"),
    *("Grid.of_samples", "Points.of_samples", "Points.embedded", "TransportHead.attach"),
    *("OneShot.normalizers", "SpaceTime.normalizers"),
}


def test_calls_of_the_public_api_stay_right():
    """Every name and parameter of the list is there; `make check-api` finds what is new."""
    before = api.LIST.read_text(encoding="utf-8").splitlines()
    assert len(before) > 50 and before == sorted(before)
    assert api.broken_calls(before, api.public_api()) == [], "see docs/stability.md; `make api`"


def test_every_public_function_and_method_is_called_by_a_test():
    paths = (path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_release.py")
    texts = (path.read_text(encoding="utf-8") for path in paths)
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    members = {name: getattr(pdno, name) for name in pdno.__all__}
    untested = {name for name in members if name not in words}
    for name, value in members.items():
        if inspect.isclass(value) and value.__module__.startswith("pdno"):
            untested |= {
                f"{name}.{member}"
                for member, part in vars(value).items()
                if callable(part) and not member.startswith("_") and member not in words
            }
    assert untested - CALLED_BY_OTHERS == set()


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("pdno.f(x, y=, *, z=)", None),
        ("pdno.f(x, y=, w=, *, z=)", None),
        ("pdno.f(x, y=, *, w=, z=)", None),
        ("pdno.f(x=, y=, *, z=)", None),
        ("pdno.g(x)", "pdno.f is gone"),
        ("pdno.f(x, *, z=)", "pdno.f: y is gone"),
        ("pdno.f(y=, x=, *, z=)", "pdno.f: x has moved"),
        ("pdno.f(x, *, y=, z=)", "pdno.f: y has moved"),
        ("pdno.f(x, y, *, z=)", "pdno.f: y is required"),
        ("pdno.f(x, y=, *, z=, w)", "pdno.f: w is required"),
    ],
)
def test_calls_that_break_are_told_from_those_that_do_not(after, problem):
    found = api.broken_calls(["pdno.f(x, y=, *, z=)"], [after])
    assert (problem in found) if problem else (found == [])


# Versions


CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2027-01-31\n\n- New.\n\n## 0.1.0\n\n- First.\n"
)


def test_release_notes_are_the_section_of_the_tag():
    assert release_notes("v0.2.0", "0.2.0", CHANGELOG) == "- New."


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v0.2.0", "0.1.0", "expected the tag v0.1.0"),
        ("v0.1.0", "0.1.0", "no date"),
        ("v0.3.0", "0.3.0", "no section"),
    ],
)
def test_a_tag_without_a_version_or_a_date_is_refused(tag, version, problem):
    with pytest.raises(ValueError, match=problem):
        release_notes(tag, version, CHANGELOG)


def test_the_lock_has_the_versions_of_the_constraints():
    versions = read_lock()
    assert {"numpy", "pytest", "ruff", "sphinx", "colorama"} <= set(versions)
    assert "torch" not in versions
    assert locked_versions().items() <= versions.items(), "make lock"


def test_the_version_is_one():
    record = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert record["version"] == citation["version"] == pdno.__version__
    assert record["title"] == citation["title"] and record["license"] == citation["license"]


def test_lowest_versions_are_below_those_that_are_pinned():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lowest = lowest_versions(PROJECT["project"])
    assert {"torch", "numpy", "onnx", "uvicorn", "finufft"} <= set(lowest)
    for name, version in lowest.items():
        pinned = re.search(rf"^{re.escape(name)}==(\S+)$", pins, re.MULTILINE | re.IGNORECASE)
        assert pinned[1] in Requirement(f"{name}>={version}").specifier, name


def test_the_dependencies_are_explained_in_the_manual():
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- ([a-z0-9, -]+):", page.split("## Dependencies")[1], re.M)
    explained = {name for names in listed for name in names.split(", ")}
    needed = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    assert {requirement.name for requirement in needed} == explained


def test_licences_of_what_is_required_allow_redistribution():
    """No requirement brings a copyleft licence that would bind programs using pdno."""
    for text in PROJECT["project"]["dependencies"]:
        record = metadata.metadata(Requirement(text).name)
        words = [record.get("License-Expression") or record.get("License") or ""]
        words += [value for value in record.get_all("Classifier") or [] if "License" in value]
        assert not re.search(r"\bA?GPL\b|Affero", " ".join(words)[:2000]), text
