"""The compiled kernels are made once, from our sources alone, and never needed."""

import ctypes
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tiny_sources import NUMBER, forget, write_sources

from pdno.native import build
from pdno.native.build import NativeCodeWarning, load_library, status, warn_if_slow
from pdno.native.compiler import Compiler, Sources, compile_library, find_compiler, read_sources

PROGRAM = (
    "import sys\n"
    "from pathlib import Path\n"
    "from pdno.native import build\n"
    "build.SOURCE = Path(sys.argv[1])\n"
    "library = build.load_library()\n"
    "print(library and library.tiny_number(), build.status().path)"
)
NETWORK = (
    "import json, pwd, sys, warnings\n"
    "def nobody(user):\n"
    "    raise KeyError(user)\n"
    "pwd.getpwuid = nobody\n"  # without HOME there is no home directory then
    "import torch\n"
    "from pdno import PDNO\n"
    "from pdno.native import build\n"
    "with warnings.catch_warnings(record=True) as told:\n"
    "    warnings.simplefilter('always')\n"
    "    out = PDNO(2, 1, 1, width=4, modes=5)(torch.randn(3, 1, 32, 32))\n"
    "    for work in (1, build.LARGE, build.LARGE, build.LARGE):\n"
    "        build.warn_if_slow(work)\n"
    "told = sum(issubclass(one.category, build.NativeCodeWarning) for one in told)\n"
    "found = build.status()\n"
    "print(json.dumps([bool(out.isfinite().all()), found.available, found.reason, told]))"
)
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


def run(program, *arguments, **more):
    """Start Python with other environment variables; None removes one."""
    environment = {key: text for key, text in {**os.environ, **more}.items() if text is not None}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def files(folder):
    return sorted(path.suffix for path in folder.iterdir() if path.name != "lock")


# Where nothing goes well


@pytest.fixture(scope="module")
def copying_compiler(tmp_path_factory):
    """A compiler that takes no time: it copies the libraries that this machine has."""
    forget()
    cases = ["*--version) echo 1;;"]
    for source in build.SOURCE.parent.glob("*.c"):
        _, found = build._loaded(source)
        if not found.available:
            pytest.skip(found.reason)
        copy = f'while [ "$1" != -o ]; do shift; done; cp {found.path} "$2"'
        cases.append(f'*" {source.name} "*) {copy};;')
    path = tmp_path_factory.mktemp("bin") / "cc"
    path.write_text(f'#!/bin/sh\ncase "$*" in {" ".join(cases)} esac\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HOME": None, "XDG_CACHE_HOME": None}, "home directory"),
        ({"HOME": os.devnull, "XDG_CACHE_HOME": None}, "Not a directory"),
        ({"XDG_CACHE_HOME": "/proc/nowhere"}, "No such file"),
    ],
)
def test_without_a_cache_folder_a_network_runs_with_loops_of_this_process(
    copying_compiler, environment, reason
):
    process = run(NETWORK, CC=copying_compiler, **environment)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    finite, available, why, warnings_given = json.loads(output)
    assert finite and available and warnings_given == 0
    assert "for this process alone" in why and reason in why


@pytest.mark.parametrize(
    ("environment", "reason", "warned"),
    [
        ({"PATH": "nowhere"}, "no C compiler", 1),
        ({"CC": "nowhere -m64"}, "CC is 'nowhere -m64'", 1),
        ({"CC": "false"}, "CC is 'false'", 1),
        ({"PDNO_NATIVE": "0"}, "PDNO_NATIVE=0", 0),
    ],
)
def test_without_loops_a_network_runs_and_the_loss_is_said_once(
    tmp_path, environment, reason, warned
):
    more = {"XDG_CACHE_HOME": str(tmp_path), "CC": None, **environment}
    process = run(NETWORK, **more)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    finite, available, why, warnings_given = json.loads(output)
    assert finite and not available and reason in why
    assert warnings_given == warned and errors == ""


def test_nothing_to_compile_in_is_a_reason(compiler, monkeypatch):
    def refuse(**options):
        raise PermissionError("nothing here may be written")

    monkeypatch.setattr(build.tempfile, "mkdtemp", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert load_library() is None
    assert "nothing here may be written" in status().reason


def test_the_warning_is_for_large_work_and_comes_once(tiny, monkeypatch):
    monkeypatch.setenv("CC", "nowhere")
    warn_if_slow(build.LARGE - 1)
    with pytest.warns(NativeCodeWarning, match="nowhere") as told:
        for _ in range(3):
            warn_if_slow(build.LARGE)
    assert len(told) == 1


def test_who_switched_the_loops_off_or_has_them_is_not_warned(compiler, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_slow(build.LARGE)
        monkeypatch.setenv("PDNO_NATIVE", "0")
        forget()
        warn_if_slow(build.LARGE)
    assert load_library() is None


@pytest.mark.parametrize("wish", ["yes", "00"])
def test_another_wish_is_refused(tiny, monkeypatch, wish):
    monkeypatch.setenv("PDNO_NATIVE", wish)
    with pytest.raises(ValueError, match=f"PDNO_NATIVE is '{wish}'; expected 0"):
        load_library()


def test_flags_that_are_no_list_are_a_reason(tiny, monkeypatch):
    monkeypatch.setenv("PDNO_NATIVE_FLAGS", "'-O1")
    assert load_library() is None and 'PDNO_NATIVE_FLAGS is "\'-O1"' in status().reason


# The compiler


@pytest.mark.parametrize("name", COMPILERS)
def test_the_compiler_of_the_user_is_taken_with_its_arguments(tiny, monkeypatch, name):
    monkeypatch.setenv("CC", f"{name} -g0 -DUNUSED='a b'")
    assert load_library().tiny_number() == NUMBER
    found = status()
    assert found.available and found.instruction_set == "native"
    assert f"/{name} -g0 '-DUNUSED=a b': " in found.compiler
    assert find_compiler().version.splitlines()[0] in found.compiler


def test_where_the_compiler_of_the_user_fails_no_other_is_taken(compiler, capfd):
    compiler.behave("echo 'tiny.c:1: error: too small'; exit 3")
    assert load_library() is None
    reason = status().reason
    assert f"CC is '{compiler.path}'" in reason and "code 3: tiny.c:1: error: too small" in reason
    assert capfd.readouterr().err.count("too small") == 1


def test_a_compiler_that_does_not_know_its_processor_compiles_for_any(compiler):
    compiler.behave('case "$*" in *-march=native*) exit 1;; esac')
    assert load_library().tiny_number() == NUMBER
    assert status().instruction_set == "baseline" and compiler.count == 2


def test_a_compiler_that_hangs_is_given_up_once_with_what_it_started(
    compiler, monkeypatch, tmp_path
):
    compiler.behave(f"sleep 300 & echo $! > {tmp_path / 'child'}; wait")
    monkeypatch.setattr("pdno.native.compiler.SECONDS", 1)
    assert load_library() is None and "took more than" in status().reason
    assert compiler.count == 1
    stat = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_what_is_compiled_is_what_the_name_was_made_of(compiler, tiny, tmp_path):
    """Somebody edits the sources between reading and compiling them."""
    sources = read_sources(tiny)
    write_sources(tiny.parent, number=8)
    library = compile_library(find_compiler(), sources, (), tmp_path)
    assert ctypes.CDLL(str(library)).tiny_number() == NUMBER


def test_the_sources_are_all_that_is_included_and_no_more(tiny):
    (tiny.parent / "tiny.h").write_text('  #  include "inner.h"\n#include <stdio.h>\n')
    (tiny.parent / "inner.h").write_text("#define NUMBER 3L\n")
    (tiny.parent / "other.h").write_text("#error\n")
    assert set(read_sources(tiny).texts) == {"tiny.c", "tiny.h", "inner.h"}


def test_a_name_stands_for_all_that_a_library_depends_on(monkeypatch):
    def name(compiler=("cc",), version="1", text=b"", header=b"", extra=()):
        sources = Sources("a.c", {"a.c": text, "a.h": header})
        return build._Build(Compiler(compiler, version), sources, extra).name

    names = [
        name(),
        name(compiler=("cc", "-m64")),
        name(compiler=("gcc",)),
        name(version="2"),
        name(text=b"x"),
        name(header=b"x"),
        name(extra=("-g",)),
    ]
    monkeypatch.setattr(build, "processor_flags", lambda: frozenset({"avx1024"}))
    names.append(name())
    monkeypatch.setattr(build.platform, "machine", lambda: "abacus")
    names.append(name())
    assert len(set(names)) == len(names) and name() == names[-1]


# Once


def test_a_library_is_compiled_once_with_one_line(compiler, cache, capfd):
    for _ in range(3):
        forget()
        assert load_library().tiny_number() == NUMBER
    assert load_library() is load_library()
    assert compiler.count == 1 and files(cache) == [".json", ".so"]
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("pdno: compiling the fast kernels once")
    assert "kept" in status().reason and status().path.parent == cache


def test_processes_that_start_together_compile_once(compiler, tiny, cache):
    compiler.behave("sleep 1")
    processes = [run(PROGRAM, tiny) for _ in range(3)]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert {output.split()[0] for output, _ in results} == {str(NUMBER)}
    assert compiler.count == 1
    assert "".join(errors for _, errors in results).count("\n") == 1
    assert files(cache) == [".json", ".so"]


def test_without_locks_the_work_is_done_all_the_same(compiler, cache, tmp_path):
    cache.mkdir(parents=True, mode=0o700)
    (cache / "lock").symlink_to(tmp_path / "target")
    assert load_library().tiny_number() == NUMBER
    assert not (tmp_path / "target").exists()


def test_a_lock_that_is_never_given_back_is_not_waited_for_longer(tmp_path):
    with build.CacheFolder(tmp_path / "cache") as folder:
        with folder.lock(1.0), folder.lock(0.1):
            entered = True
        assert entered


def test_a_failure_is_remembered_until_it_is_asked_for(compiler, cache, monkeypatch, capfd):
    compiler.behave("echo 'error: no luck'; exit 1")
    for _ in range(3):
        forget()
        assert load_library() is None and "no luck" in status().reason
    tries = compiler.count
    assert tries == 2  # for this processor, and for any
    assert capfd.readouterr().err.count("no luck") == 1
    assert "PDNO_NATIVE=rebuild" in status().reason
    (record,) = cache.glob("*.failed")
    assert "-shared" in record.read_text() and "no luck" in record.read_text()

    monkeypatch.setenv("PDNO_NATIVE", "rebuild")
    forget()
    assert load_library() is None and compiler.count == 2 * tries
    compiler.behave("")
    forget()
    assert load_library().tiny_number() == NUMBER and not list(cache.glob("*.failed"))


@pytest.mark.parametrize(
    "trouble", ["kill -9 $$", "echo 'error: a.s: No space left on device'; exit 1"]
)
def test_a_passing_failure_is_not_remembered(compiler, cache, trouble):
    compiler.behave(trouble)
    assert load_library() is None and "that failed" not in status().reason
    assert not list(cache.glob("*.failed"))
    compiler.behave("")
    forget()
    assert load_library().tiny_number() == NUMBER


def test_an_empty_library_is_refused(compiler):
    compiler.behave(r""": > "$(echo "$*" | sed 's/.*-o \([^ ]*\).*/\1/')"; exit 0""")
    assert load_library() is None and "wrote no library" in status().reason


def test_a_busy_machine_gives_a_compiler_more_time(compiler, monkeypatch):
    monkeypatch.setattr("pdno.native.compiler.SECONDS", 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (100.0 * os.cpu_count(), 0.0, 0.0))
    compiler.behave("sleep 3")
    assert load_library().tiny_number() == NUMBER


def test_changed_sources_are_tried_again(compiler, tiny):
    (tiny.parent / "tiny.h").write_text("#error not yet\n")
    assert load_library() is None
    write_sources(tiny.parent, number=9)
    forget()
    assert load_library().tiny_number() == 9


def test_flags_of_the_user_make_another_library(compiler, cache, monkeypatch):
    load_library()
    monkeypatch.setenv("PDNO_NATIVE_FLAGS", "-UNUMBER -O0")
    forget()
    assert load_library().tiny_number() == NUMBER
    assert compiler.count == 2 and len(list(cache.glob("*.so"))) == 2


def test_a_rebuild_is_one(compiler, monkeypatch):
    load_library()
    monkeypatch.setenv("PDNO_NATIVE", "rebuild")
    forget()
    assert load_library().tiny_number() == NUMBER and compiler.count == 2


# From nobody else


def planted(compiler, folder):
    """A library that is not ours."""
    folder.mkdir()
    source = write_sources(folder, number=666)
    return compile_library(find_compiler(), read_sources(source), (), folder)


def test_a_planted_link_is_not_followed(compiler, cache, tmp_path):
    load_library()
    (library,) = cache.glob("*.so")
    library.unlink()
    foreign = planted(compiler, tmp_path / "foreign")
    library.symlink_to(foreign)
    forget()
    assert load_library().tiny_number() == NUMBER
    assert not library.is_symlink() and foreign.is_file()


def test_a_library_that_others_may_write_is_not_loaded(compiler, cache, tmp_path):
    load_library()
    (library,), (record,) = cache.glob("*.so"), cache.glob("*.json")
    foreign = planted(compiler, tmp_path / "foreign")
    digest = hashlib.sha256(foreign.read_bytes()).hexdigest()
    record.write_text(json.dumps({"sha256": digest, "instruction_set": "native"}))
    os.replace(foreign, library)
    library.chmod(0o666)
    forget()
    assert load_library().tiny_number() == NUMBER
    assert stat.S_IMODE(library.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["library", "record", "no record"])
def test_what_is_damaged_is_made_again(compiler, cache, damage):
    load_library()
    (library,), (record,) = cache.glob("*.so"), cache.glob("*.json")
    if damage == "library":
        copy = library.with_suffix(".copy")
        content = bytearray(library.read_bytes())
        content[len(content) // 2] ^= 1
        copy.write_bytes(content)
        copy.chmod(0o600)
        os.replace(copy, library)
    elif damage == "record":
        record.write_text("[]")
    else:
        record.unlink()
    forget()
    assert load_library().tiny_number() == NUMBER and compiler.count >= 2
    forget()
    count = compiler.count
    assert load_library().tiny_number() == NUMBER and compiler.count == count


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the /proc of Linux")
def test_what_is_loaded_is_what_was_checked(compiler, tiny, cache, tmp_path, monkeypatch):
    """Somebody puts another library into the place of ours right after the check."""
    run(PROGRAM, tiny).communicate()  # in another process: here the loader would know its name
    (library,) = cache.glob("*.so")
    foreign = planted(compiler, tmp_path / "foreign")
    digest = hashlib.file_digest

    def check_and_swap(file, name):
        found = digest(file, name)
        shutil.copy(foreign, library.with_suffix(".new"))
        os.replace(library.with_suffix(".new"), library)
        return found

    monkeypatch.setattr(build.hashlib, "file_digest", check_and_swap)
    forget()
    assert load_library().tiny_number() == NUMBER


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_folder_that_others_may_write_is_refused(compiler, cache, mode):
    cache.mkdir(parents=True)
    cache.chmod(mode)
    assert load_library().tiny_number() == NUMBER
    assert "chmod go-w" in status().reason and f"{cache} has mode {mode:o}" in status().reason
    assert list(cache.iterdir()) == []
    assert stat.S_IMODE(status().path.parent.stat().st_mode) == 0o700


def test_a_cache_folder_of_another_user_is_refused(compiler, cache, monkeypatch):
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert load_library().tiny_number() == NUMBER
    assert f"belongs to user {user}, not to user {user + 1}" in status().reason
    assert list(cache.iterdir()) == []


def test_a_cache_folder_that_is_full_is_done_without(compiler, cache, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build.CacheFolder, "write", full)
    assert load_library().tiny_number() == NUMBER
    assert "No space left" in status().reason and compiler.count == 1


def test_a_cache_folder_that_is_a_link_is_not_used(compiler, cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    cache.parent.mkdir()
    cache.symlink_to(elsewhere)
    assert load_library().tiny_number() == NUMBER
    assert "the cache folder cannot be used" in status().reason and not list(elsewhere.iterdir())


def test_the_folder_of_a_process_goes_with_it(compiler, tiny):
    process = run(PROGRAM, tiny, XDG_CACHE_HOME=os.devnull)
    output, errors = process.communicate()
    number, path = output.split()
    assert number == str(NUMBER), errors
    assert not Path(path).parent.exists()
    assert errors.count("\n") == 1 and "for this process alone" in errors
