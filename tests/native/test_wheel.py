"""A wheel brings compiled kernels for the processors it may meet, or is for any machine."""

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tiny_sources import NUMBER, forget, write_sources

import pdno
from pdno.native import build
from pdno.native.build import load_library, status
from pdno.native.compiler import (
    SOURCE,
    compile_library,
    find_compiler,
    read_sources,
    wheel_variants,
)

ROOT = Path(pdno.__file__).parents[1]
LINUX = platform.system() == "Linux" and platform.machine() == "x86_64"
LOAD = (
    "import json\n"
    "from pdno.native.build import load_library, status\n"
    "library, found = load_library(), status()\n"
    "number = library and getattr(library, 'tiny_number', int)()\n"
    "print(json.dumps([found.available, found.reason, str(found.path), found.compiler,\n"
    "                  found.instruction_set, number]))"
)

pytestmark = pytest.mark.skipif(
    not (ROOT / "hatch_build.py").is_file(), reason="pdno is not installed from a checkout"
)


def call(*command, folder, **more):
    environment = {key: text for key, text in {**os.environ, **more}.items() if text is not None}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What the hook makes of a small project


@pytest.fixture
def project(tmp_path):
    """Our way of packing and loading, with a C file that compiles at once."""
    folder = tmp_path / "project"
    native = folder / "pdno" / "native"
    native.mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("__init__.py", "__init__.pyi"):
        shutil.copy(ROOT / "pdno" / name, native.parent)
    for path in (ROOT / "pdno" / "native").glob("*.py"):
        shutil.copy(path, native)
    write_sources(native).rename(native / SOURCE.name)
    return folder


def make_wheel(project, **more):
    more = {"CC": None, "PDNO_NATIVE": None, **more}
    out = project / "dist"
    shutil.rmtree(out, ignore_errors=True)
    call("-m", "hatchling", "build", "-t", "wheel", "-d", out, folder=project, **more)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.mark.usefixtures("compiler")
def test_a_wheel_holds_a_library_for_each_instruction_set(project):
    wheel = make_wheel(project)
    with zipfile.ZipFile(wheel) as archive:
        index = json.loads(archive.read("pdno/native/lib/index.json"))
        for entry in index["libraries"]:
            content = archive.read(f"pdno/native/lib/{entry['file']}")
            assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert f"pdno/native/{SOURCE.name}" in archive.namelist()
    names = [entry["instruction_set"] for entry in index["libraries"]]
    assert names == [variant.name for variant in wheel_variants()]
    assert not list(project.rglob("*.so"))
    if LINUX:
        assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
        assert names == ["avx512", "avx2", "baseline"]


def test_the_readme_of_a_package_has_no_path_of_the_repository(project):
    """A package index has no files beside it: without an address pictures are left out."""
    settings = project / "pyproject.toml"
    address, told = "https://example.org/ours", settings.read_text(encoding="utf-8")
    for urls, pictures in (("", []), (f'[project.urls]\nRepository = "{address}"\n', ["raw"])):
        settings.write_text(f"{told}\n{urls}", encoding="utf-8")
        with zipfile.ZipFile(make_wheel(project, PDNO_NATIVE="0")) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
            text = archive.read(name).decode()
        assert "Content-Type: text/markdown" in text and "## First example" in text
        targets = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", text)
        assert targets and all(target.startswith("https://") for _, target in targets)
        shown = {target.split("/")[4] for mark, target in targets if mark}
        assert sorted(shown) == pictures and (not pictures or f"{address}/blob/HEAD/docs/" in text)


@pytest.mark.usefixtures("compiler")
def test_what_is_installed_loads_without_a_compiler(project, tmp_path):
    site = tmp_path / "site"
    install(make_wheel(project), site)
    cache = tmp_path / "cache"
    found = loaded(site, cache)
    assert found[0] and found[1] == found[3] == "shipped in the wheel" and found[5] == NUMBER
    assert Path(found[2]).is_relative_to(site) and not cache.exists()


@pytest.mark.parametrize("environment", [{"CC": "nowhere"}, {"CC": "false"}, {"PDNO_NATIVE": "0"}])
def test_without_a_compiler_a_wheel_is_for_any_machine(project, environment):
    wheel = make_wheel(project, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "/lib/" in name]
        assert f"pdno/native/{SOURCE.name}" in archive.namelist()


def test_a_release_without_its_kernels_is_refused(project):
    with pytest.raises(AssertionError, match="there is no command nowhere"):
        make_wheel(project, CC="nowhere", PDNO_NATIVE="require")


@pytest.mark.usefixtures("compiler")
def test_an_old_compiler_makes_what_it_can(project, compiler):
    if not LINUX:
        pytest.skip("one variant only")
    compiler.behave('case "$*" in *x86-64-v4*) exit 1;; esac')
    with zipfile.ZipFile(make_wheel(project, CC=str(compiler.path))) as archive:
        index = json.loads(archive.read("pdno/native/lib/index.json"))
    assert [entry["instruction_set"] for entry in index["libraries"]] == ["avx2", "baseline"]


def test_an_editable_installation_compiles_nothing(monkeypatch):
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.NativeCodeHook(str(ROOT), {}, None, None, "", "wheel")

    def refuse(*arguments):
        raise AssertionError("this compiles")

    monkeypatch.setattr(hook, "compile_variants", refuse)
    monkeypatch.delenv("PDNO_NATIVE", raising=False)
    asked = {"force_include": {}, "pure_python": True}
    hook.initialize("editable", asked)
    assert asked == {"force_include": {}, "pure_python": True}
    with pytest.raises(AssertionError, match="this compiles"):
        hook.initialize("standard", asked)


def test_a_source_distribution_has_all_it_takes_to_make_a_wheel(tmp_path):
    call("-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, folder=ROOT)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {f"pdno/native/{name}" for name in read_sources(SOURCE).texts}
    assert {"hatch_build.py", "pyproject.toml", "pdno/native/compiler.py", *sources} <= names


def install(wheel, site):
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    call(*pip, "--disable-pip-version-check", "--target", site, wheel, folder=site.parent)


def loaded(site, cache):
    """What the installed package finds, where nothing can be compiled."""
    environment = {"PYTHONPATH": str(site), "PATH": "nowhere", "XDG_CACHE_HOME": str(cache)}
    wishes = dict.fromkeys(("CC", "PDNO_NATIVE", "PDNO_NATIVE_FLAGS"))
    return json.loads(call("-c", LOAD, folder=site.parent, **environment, **wishes))


# Which library is taken


@pytest.fixture
def libraries(compiler, tiny, tmp_path):
    """Three shipped libraries whose numbers are 0, 1 and 2, best first."""
    folder, entries = tmp_path / "lib", []
    folder.mkdir()
    needs = (["a", "b"], ["a"], [])
    for number, name in enumerate(("avx512", "avx2", "baseline")):
        source = write_sources(tmp_path / name, number=number)
        made = compile_library(find_compiler(), read_sources(source), (), source.parent)
        path = made.rename(folder / f"tiny-{name}.so")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(
            {"file": path.name, "sha256": digest, "instruction_set": name, "needs": needs[number]}
        )
    index = {"sources": read_sources(tiny).digest, "libraries": entries}
    (folder / build.INDEX).write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    ("flags", "number", "name"),
    [
        ({"a", "b", "c"}, 0, "avx512"),
        ({"a", "c"}, 1, "avx2"),
        ({"b"}, 2, "baseline"),
        (set(), 2, "baseline"),
    ],
)
def test_the_best_library_that_the_processor_can_run_is_taken(
    libraries, compiler, monkeypatch, flags, number, name
):
    monkeypatch.setattr(build, "processor_flags", lambda: frozenset(flags))
    before = compiler.count
    assert load_library().tiny_number() == number
    assert status().instruction_set == name and status().compiler == "shipped in the wheel"
    assert compiler.count == before


def test_a_damaged_library_is_passed_over(libraries, compiler, monkeypatch):
    monkeypatch.setattr(build, "processor_flags", lambda: frozenset("ab"))
    (libraries / "tiny-avx512.so").write_bytes(b"not a library")
    (libraries / "tiny-avx2.so").unlink()
    assert load_library().tiny_number() == 2
    (libraries / "tiny-baseline.so").write_bytes(b"")
    forget()
    assert load_library().tiny_number() == NUMBER
    assert "not the library of the wheel" in status().reason and "digest" in status().reason


@pytest.mark.parametrize("environment", [{"PDNO_NATIVE": "rebuild"}, {"PDNO_NATIVE_FLAGS": "-O1"}])
def test_who_wants_to_compile_gets_it(libraries, monkeypatch, environment):
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert load_library().tiny_number() == NUMBER


def test_libraries_of_other_sources_are_not_taken(libraries, tiny):
    write_sources(tiny.parent, number=11)
    assert load_library().tiny_number() == 11


def test_this_processor_can_run_what_it_is_given():
    """The words of /proc/cpuinfo are those of the table: the compiler says what is native."""
    compiler = shutil.which("gcc")
    if not LINUX or compiler is None:
        pytest.skip("needs gcc on Linux with an x86-64 processor")
    command = [compiler, "-march=native", "-dM", "-E", "-xc", os.devnull]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    able = build.processor_flags()
    by_name = {variant.name: able.issuperset(variant.needs) for variant in wheel_variants()}
    assert by_name["avx2"] == ("__AVX2__" in macros and "__FMA__" in macros)
    assert by_name["avx512"] == ("__AVX512VL__" in macros)
    assert by_name["baseline"]


# The real one


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_wheel_of_this_checkout_computes_without_a_compiler(tmp_path):
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler on this machine")
    more = {"CC": None, "PDNO_NATIVE": None}
    pip = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    call(*pip, "--disable-pip-version-check", "-w", tmp_path, ROOT, folder=tmp_path, **more)
    (wheel,) = tmp_path.glob("*.whl")
    install(wheel, tmp_path / "site")
    found = loaded(tmp_path / "site", tmp_path / "cache")
    assert found[0] and found[3] == "shipped in the wheel", found
    assert Path(found[2]).is_relative_to(tmp_path / "site")
    program = (
        "import torch, pdno\n"
        f"assert pdno.__file__.startswith({str(tmp_path)!r})\n"
        "network = pdno.PDNO(2, 1, 1, width=8, modes=5)\n"
        "out = network(torch.randn(8, 1, 32, 32))\n"
        "out.square().sum().backward()\n"
        "print(bool(out.isfinite().all()))"
    )
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "nowhere", "CC": None}
    assert call("-c", program, folder=tmp_path, **environment).strip() == "True"
