"""The compiled loops of this machine: shipped, kept from before, or compiled now.

A library comes from the first of these places that has one:

1. the wheel, if it was made with a compiler: `hatch_build.py` puts libraries into the folder `lib`
   with an index, best first, and the first one whose needs the processor meets is loaded;
2. the cache folder of the user, where an earlier process put it (`pdno.native.cache`);
3. the C compiler (`pdno.native.compiler`), once, while other processes wait for the result. Where
   the cache folder cannot be used, into a temporary folder for this process alone.

Otherwise there is none. Nothing of the package needs it, so that is never an error: `status` has
the reason and `warn_if_slow` says it where it costs time.

    PDNO_NATIVE=0         do without it
    PDNO_NATIVE=rebuild   compile, whatever is shipped, kept or known to fail

The name of a kept library is a digest of all that it depends on: sources, flags, compiler and its
version, machine and what its processor can do. So it is never stale, and home directories may be
shared by different machines. A compilation that failed is kept as well, as NAME.failed with the
compiler's words, so that it is not tried again until something of this changes.
"""

__all__ = [
    "NativeCodeWarning",
    "NativeStatus",
    "load_library",
    "status",
    "warn_if_slow",
]

import atexit
import ctypes
import hashlib
import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock

from pdno.native.cache import CacheFolder, cache_path
from pdno.native.compiler import (
    FLAGS,
    NATIVE,
    QUIET,
    SECONDS,
    SOURCE,
    CompilationError,
    Compiler,
    InstructionSet,
    Sources,
    compile_library,
    find_compiler,
    processor_flags,
    read_sources,
)

SHIPPED = "shipped in the wheel"
FOLDER = Path(__file__).with_name("lib")
INDEX = "index.json"
"""In FOLDER: {"sources": digest, "libraries": [{"file": name, "sha256": digest,
"instruction_set": "avx2", "needs": ["avx", ...]}, ...]}."""

LARGE = 2**24
"""Work from which on it is worth a warning that torch does it: some tenths of a second."""

LONGEST_RECORD = 20_000
"""Characters of a compiler's words that are kept."""


class NativeCodeWarning(UserWarning):
    """Large work is done by torch alone, because the compiled loops are not there."""


@dataclass(frozen=True)
class NativeStatus:
    """Whether there are compiled loops, and why.

    Arguments:
        available: Whether there are.
        reason: Where they come from, or why there are none.
        path: The library.
        compiler: Command and version of what compiled it, or "shipped in the wheel".
        instruction_set: What it was compiled for; native is all that this processor can do.
    """

    available: bool
    reason: str
    path: Path | None = None
    compiler: str | None = None
    instruction_set: InstructionSet | None = None

    def __str__(self) -> str:
        if self.available:
            return f"available: {self.instruction_set}, {self.compiler}"
        return f"not available: {self.reason}"


def load_library() -> ctypes.CDLL | None:
    """The compiled loops, or None where they cannot be had; the same for the whole process."""
    return _loaded(SOURCE)[0]


def status() -> NativeStatus:
    """Whether there are compiled loops in this process, and why; compiles them if need be."""
    return _loaded(SOURCE)[1]


def warn_if_slow(work: int) -> None:
    """Say once per process that large work is slow for want of compiled loops.

    Who switched them off knows, and is not told.
    """
    if work >= LARGE and _switch() != "0":
        _warn_once()


@lru_cache(maxsize=1)
def _warn_once() -> None:
    found = status()
    if not found.available:
        warnings.warn(
            "the operator takes longer than it could, because the compiled loops are not "
            f"available: {found.reason}. `pdno info` shows this, too; PDNO_NATIVE=0 says that it "
            "is wanted",
            NativeCodeWarning,
            stacklevel=3,
        )


class _UnavailableError(Exception):
    """There is no library, for this reason."""


Loaded = tuple[ctypes.CDLL | None, NativeStatus]
_compile_lock = Lock()


def _new_lock() -> None:
    """In a forked child nobody holds the lock: a thread that did was not forked."""
    global _compile_lock
    _compile_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _loaded(source: Path) -> Loaded:
    with _compile_lock:  # two threads must not compile the same
        return _load(source)


@lru_cache(maxsize=4)
def _load(source: Path) -> Loaded:
    switch = _switch()
    if switch == "0":
        return None, NativeStatus(False, "switched off by PDNO_NATIVE=0")
    try:
        sources = read_sources(source)
        extra = _extra_flags()
        note = ""
        if switch != "rebuild" and not extra:
            found, note = _from_wheel(sources)
            if found is not None:
                return found
        library, found_status = _from_compiler(sources, extra, rebuild=switch == "rebuild")
    except (_UnavailableError, CompilationError) as problem:
        return None, NativeStatus(False, str(problem))
    except OSError as problem:
        return None, NativeStatus(False, f"{source.name} cannot be read or compiled: {problem}")
    return library, replace(found_status, reason=f"{note}{found_status.reason}")


def _switch() -> str:
    switch = os.environ.get("PDNO_NATIVE", "") or "1"
    if switch not in ("0", "1", "rebuild"):
        raise ValueError(
            f"PDNO_NATIVE is {switch!r}; expected 0 (do without the compiled loops), 1 or rebuild "
            "(compile them again): correct or unset it"
        )
    return switch


def _extra_flags() -> tuple[str, ...]:
    flags = os.environ.get("PDNO_NATIVE_FLAGS", "")
    try:
        return tuple(shlex.split(flags))
    except ValueError as problem:
        raise _UnavailableError(
            f"PDNO_NATIVE_FLAGS is {flags!r}, which is no list of arguments ({problem}): correct "
            "or unset it"
        ) from problem


def _print(text: str) -> None:
    print(f"pdno: {text}", file=sys.stderr, flush=True)


# The wheel


def _from_wheel(sources: Sources) -> tuple[Loaded | None, str]:
    """The best shipped library that this processor can run; and what is wrong with others."""
    note = ""
    try:
        index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a checkout has no such folder
        return None, note
    if index["sources"] != sources.digest:  # a library of others is of another version
        return None, note
    able = processor_flags()
    for entry in index["libraries"]:
        if not able.issuperset(entry["needs"]):
            continue
        path = FOLDER / entry["file"]
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            library = _open_library(descriptor, path, entry["sha256"])
        except OSError as problem:
            note = f"not the library of the wheel ({problem}), but "
            continue
        return (
            library,
            NativeStatus(True, SHIPPED, path, SHIPPED, entry["instruction_set"]),
        ), note
    return None, note


def _open_library(descriptor: int, path: Path, digest: str | None) -> ctypes.CDLL:
    """Load an open file if it is the one with this digest; OSError if not.

    The descriptor stays open with the library, for the loader knows a library by its name.
    """
    try:
        with open(descriptor, "rb", closefd=False) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise OSError(f"{path} has the digest {found[:12]}, expected {str(digest)[:12]}")
        # by the descriptor, where that works, to load the very file that was looked at
        name = f"/proc/self/fd/{descriptor}"
        return ctypes.CDLL(name if os.path.exists(name) else str(path))
    except BaseException:
        os.close(descriptor)
        raise


# The compiler


@dataclass(frozen=True)
class _Recipe:
    """All that a library depends on."""

    compiler: Compiler
    sources: Sources
    extra: tuple[str, ...]

    @cached_property
    def name(self) -> str:
        """Name of its files in the cache folder."""
        parts = {
            "sources": self.sources.digest,
            "flags": [*FLAGS, *QUIET, *NATIVE, *self.extra],
            "compiler": [*self.compiler.command, self.compiler.version],
            "machine": [platform.system(), platform.machine(), platform.processor()],
            "processor": sorted(processor_flags()),
        }
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{Path(self.sources.main).stem}-{key[:32]}"

    def compile(self, folder: Path) -> tuple[Path, InstructionSet]:
        """The library, and what for; some compilers do not know the processor they run on."""
        flags = (*QUIET, *self.extra)
        try:
            made = compile_library(self.compiler, self.sources, (*NATIVE, *flags), folder)
            return made, "native"
        except CompilationError:
            return compile_library(self.compiler, self.sources, flags, folder), "baseline"


def _from_compiler(sources: Sources, extra: tuple[str, ...], *, rebuild: bool) -> Loaded:
    if os.name != "posix":
        raise _UnavailableError("compiling at first use is for Linux and its relatives only")
    recipe = _Recipe(find_compiler(), sources, extra)
    try:
        cache = CacheFolder(cache_path())
    except (OSError, RuntimeError) as problem:  # RuntimeError: no home directory
        return _build(recipe, None, _unusable(problem))
    with cache:
        found = None if rebuild else _find_kept(cache, recipe)
        if found is not None:
            return found
        with cache.lock(2 * SECONDS):
            found = None if rebuild else _find_kept(cache, recipe)
            return found or _build(recipe, cache)


def _unusable(problem: BaseException) -> str:
    return f"the cache folder cannot be used ({problem})"


def _find_kept(cache: CacheFolder, recipe: _Recipe) -> Loaded | None:
    """The library of an earlier process, None if there is none that is whole and loads."""
    failed = cache.read(f"{recipe.name}.failed")
    if failed is not None:
        raise _UnavailableError(
            f"{failed.partition(chr(10))[0]} (kept in {cache.path / recipe.name}.failed; "
            "PDNO_NATIVE=rebuild tries again)"
        )
    descriptor = cache.open(f"{recipe.name}.so")
    if descriptor is None:
        return None
    path = cache.path / f"{recipe.name}.so"
    try:
        record = json.loads(cache.read(f"{recipe.name}.json") or "{}")
        digest, instruction_set = record["sha256"], record["instruction_set"]
    except (ValueError, LookupError, TypeError):
        digest = instruction_set = None  # of no library
    try:
        library = _open_library(descriptor, path, digest)
    except OSError:
        return None
    reason = "compiled on this machine and kept in the cache folder"
    return library, NativeStatus(True, reason, path, str(recipe.compiler), instruction_set)


def _build(recipe: _Recipe, cache: CacheFolder | None, refusal: str = "") -> Loaded:
    """Compile, and keep the library in the cache folder; where that fails, for this process."""
    how = f"for this process alone, as {refusal}" if cache is None else "once"
    _print(f"compiling the fast loops {how}; about a minute ...")
    folder = _temporary_folder(cache)
    stays = False
    try:
        made, instruction_set = recipe.compile(folder)
        content = made.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if cache is not None:
            try:
                _keep(cache, recipe, content, digest, instruction_set)
            except OSError as problem:
                refusal = _unusable(problem)
            else:
                kept = _find_kept(cache, recipe)
                if kept is not None:
                    return kept
                refusal = f"libraries in {cache.path} cannot be loaded"
        library = _load_private(made, digest)
        stays = True
        atexit.register(_remove_own, folder, os.getpid())
        reason = f"compiled for this process alone: {refusal}"
        return library, NativeStatus(True, reason, made, str(recipe.compiler), instruction_set)
    except (CompilationError, OSError) as problem:
        reason = f"{_named_by_user()}{problem}"
        _print(f"that failed, so torch does the work, more slowly: {reason}")
        # a full disk is no property of the compiler, so other errors are not remembered
        if cache is not None and isinstance(problem, CompilationError):
            _remember(cache, recipe, f"{reason}\n\n{problem.output[:LONGEST_RECORD]}\n")
        raise _UnavailableError(reason) from problem
    finally:
        if not stays:
            shutil.rmtree(folder, ignore_errors=True)


def _load_private(path: Path, digest: str) -> ctypes.CDLL:
    try:
        return _open_library(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, digest)
    except OSError as problem:
        raise CompilationError(f"what was compiled cannot be loaded: {problem}") from problem


def _named_by_user() -> str:
    wish = os.environ.get("CC", "").strip()
    return f"CC is {wish!r}: " if wish else ""


def _temporary_folder(cache: CacheFolder | None) -> Path:
    """A folder that nobody else can look into."""
    try:
        return Path(tempfile.mkdtemp(prefix="pdno-"))
    except OSError as problem:
        if cache is None:
            raise _UnavailableError(f"there is no folder to compile in: {problem}") from problem
        return Path(tempfile.mkdtemp(prefix=".pdno-", dir=cache.path))


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not at the end of a process that was forked from this one
        shutil.rmtree(folder, ignore_errors=True)


def _keep(
    cache: CacheFolder, recipe: _Recipe, content: bytes, digest: str, instruction_set: str
) -> None:
    """Put a library into the cache folder; it counts from the moment its record is there."""
    record = {"sha256": digest, "instruction_set": instruction_set}
    cache.remove(f"{recipe.name}.failed")
    cache.write(f"{recipe.name}.so", content)
    cache.write(f"{recipe.name}.json", json.dumps(record).encode())


def _remember(cache: CacheFolder, recipe: _Recipe, text: str) -> None:
    try:
        cache.write(f"{recipe.name}.failed", text.encode())
    except OSError as problem:
        _print(f"that cannot be remembered: {_unusable(problem)}")
