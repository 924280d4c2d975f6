"""The compiled kernels of this machine, from the first of these places that has them:

1. the wheel: libraries in the folder `lib` with an index, best first, by `hatch_build.py`;
2. the cache folder of the user, under a digest of all that they depend on. A compilation that
   failed is cached as NAME.failed, unless the failure may pass;
3. the C compiler, once, while other processes wait for the result. Where the cache folder cannot
   be used, into a temporary folder for this process alone.

A missing library is never an error: `status` has the reason, `warn_if_slow` reports it.
PDNO_NATIVE=0 does without it; PDNO_NATIVE=rebuild compiles, whatever is shipped or cached.
"""

import atexit
import contextlib
import ctypes
import hashlib
import json
import os
import platform
import secrets
import shlex
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock

from pdno.native import compiler as cc
from pdno.native.compiler import SOURCE, CompilationError, Sources, processor_flags, read_sources

SHIPPED = "shipped in the wheel"
FOLDER = Path(__file__).with_name("lib")
# in FOLDER: {"sources": digest, "libraries": [{"file": name, "sha256": digest,
# "instruction_set": "avx2", "needs": ["avx", ...]}, ...]}
INDEX = "index.json"
LARGE = 2**24  # work from which on a warning is worth it: torch takes some tenths of a second
PAUSE = 0.05  # seconds between two looks at the lock of the cache folder
LONGEST_RECORD = 20_000  # characters of a compiler's output that are cached


class NativeCodeWarning(UserWarning):
    """Compiled kernels are not available, so a large job runs in plain torch."""


@dataclass(frozen=True)
class NativeStatus:
    """Whether there are compiled kernels, and where they come from or why there are none."""

    available: bool
    reason: str
    path: Path | None = None
    compiler: str | None = None  # command and version, or "shipped in the wheel"
    instruction_set: cc.InstructionSet | None = None  # native: all that this processor can do

    def __str__(self) -> str:
        made = f"available: {self.instruction_set}, {self.compiler}"
        return made if self.available else f"not available: {self.reason}"


def load_library() -> ctypes.CDLL | None:
    """The compiled kernels, or None without them; the same for the whole process."""
    return _loaded(SOURCE)[0]


def status() -> NativeStatus:
    """Whether there are compiled kernels in this process, and why; compiles them if need be."""
    return _loaded(SOURCE)[1]


def warn_if_slow(work: int) -> None:
    """Warn once per process that large work lacks the kernels, unless they are switched off."""
    if work >= LARGE and _switch() != "0":
        _warn_once()


@lru_cache(maxsize=1)
def _warn_once() -> None:
    if not (now := status()).available:
        slow = f"the operator is slow, as the compiled kernels are not available: {now.reason}"
        silence = "`pdno info` shows this, too; PDNO_NATIVE=0 silences it"
        warnings.warn(f"{slow}. {silence}", NativeCodeWarning, stacklevel=3)


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
    switch, flags = _switch(), os.environ.get("PDNO_NATIVE_FLAGS", "")
    if switch == "0":
        return None, NativeStatus(False, "switched off by PDNO_NATIVE=0")
    try:
        extra = tuple(shlex.split(flags))
    except ValueError as problem:
        wrong = f"PDNO_NATIVE_FLAGS is {flags!r}, which is no list of arguments ({problem})"
        return None, NativeStatus(False, f"{wrong}: correct or unset it")
    try:
        sources, rebuild = read_sources(source), switch == "rebuild"
        shipped, note = (None, "") if rebuild or extra else _from_wheel(sources)
        library, how = shipped or _from_compiler(sources, extra, rebuild=rebuild)
    except CompilationError as problem:
        return None, NativeStatus(False, str(problem))
    except OSError as problem:
        return None, NativeStatus(False, f"{source.name} cannot be read or compiled: {problem}")
    return library, replace(how, reason=f"{note}{how.reason}")


def _switch() -> str:
    switch = os.environ.get("PDNO_NATIVE", "") or "1"
    if switch not in ("0", "1", "rebuild"):
        expected = "expected 0 (no compiled kernels), 1 or rebuild (compile them again)"
        raise ValueError(f"PDNO_NATIVE is {switch!r}; {expected}: correct or unset it")
    return switch


def _print(text: str) -> None:
    print(f"pdno: {text}", file=sys.stderr, flush=True)


def _from_wheel(sources: Sources) -> tuple[Loaded | None, str]:
    """The best shipped library that this processor can run; or what is wrong with it."""
    try:
        index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a checkout has no such folder
        return None, ""
    if index["sources"] != sources.digest:  # a library of others is of another version
        return None, ""
    note, able = "", processor_flags()
    for entry in index["libraries"]:
        if able.issuperset(entry["needs"]):
            path = FOLDER / entry["file"]
            try:
                library = _open_library(os.open(path, os.O_RDONLY), path, entry["sha256"])
            except OSError as problem:
                note = f"not the library of the wheel ({problem}), but "
            else:
                how = NativeStatus(True, SHIPPED, path, SHIPPED, entry["instruction_set"])
                return (library, how), ""
    return None, note


def _open_library(descriptor: int, path: Path, digest: str) -> ctypes.CDLL:
    """Load an open file if it is the one with this digest; OSError if not."""
    try:
        with open(descriptor, "rb", closefd=False) as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != digest:
            raise OSError(f"{path} has the digest {actual[:12]}, expected {digest[:12]}")
        # by the descriptor, where that works, to load the very file that was looked at; it stays
        # open with the library, for the loader knows a library by its name
        name = f"/proc/self/fd/{descriptor}"
        return ctypes.CDLL(name if os.path.exists(name) else str(path))
    except BaseException:
        os.close(descriptor)
        raise


def cache_path() -> Path:
    """Where pdno keeps what it can make again; RuntimeError without a home directory."""
    folder = os.environ.get("XDG_CACHE_HOME", "")  # by its specification ignored if relative
    return (Path(folder) if os.path.isabs(folder) else Path.home() / ".cache") / "pdno"


class CacheFolder:
    """A folder whose files are loaded as code, and so must be ours; OSError where it is not.

    Files that are read belong to this user and are writable by nobody else, links are not
    followed, and what was checked is the open file, not its name. Processes on several machines
    may share it: files appear whole, and a lock lets one of them work while others wait.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if problem := _distrust(os.fstat(self._folder)):
            os.close(self._folder)
            raise PermissionError(f"{path} {problem}")

    def __enter__(self) -> "CacheFolder":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._folder)

    def open(self, name: str) -> int | None:
        """A descriptor of a file to read, or None where there is none that can be trusted."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # not blocked by a pipe of that name
        try:
            descriptor = os.open(name, flags, dir_fd=self._folder)
        except OSError:
            return None
        file = os.fstat(descriptor)
        if stat.S_ISREG(file.st_mode) and not _distrust(file):
            return descriptor
        os.close(descriptor)
        return None

    def read(self, name: str) -> str | None:
        """The text of a file, or None where there is none that can be trusted."""
        if (descriptor := self.open(name)) is None:
            return None
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file, whole or not at all."""
        host = platform.node().replace("/", "-")
        temporary = f".{name}.{host}.{os.getpid()}.{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            self.remove(temporary)
            raise
        with contextlib.suppress(OSError):  # some file systems cannot; then a crash costs the file
            os.fsync(self._folder)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    @contextlib.contextmanager
    def lock(self, seconds: float) -> Iterator[None]:
        """Keep other processes out; after `seconds`, or without locks, the work is done twice."""
        import fcntl  # not on Windows, where nothing is compiled

        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
                descriptor = os.open("lock", flags, 0o600, dir_fd=self._folder)
                stack.callback(os.close, descriptor)
                end, locked = time.monotonic() + seconds, False
                while not locked and time.monotonic() <= end:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        locked = True
                    except BlockingIOError:
                        time.sleep(PAUSE)
            yield


def _distrust(file: os.stat_result) -> str:
    """Why a file or folder may hold what others wrote; empty where it may not."""
    if file.st_uid != os.geteuid():
        return f"belongs to user {file.st_uid}, not to user {os.geteuid()}: remove it"
    if file.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(file.st_mode)
        return f"has mode {mode:o}, so others may write to it: `chmod go-w` it"
    return ""


@dataclass(frozen=True)
class _Build:
    """All that a library depends on."""

    compiler: cc.Compiler
    sources: Sources
    extra: tuple[str, ...]

    @cached_property
    def name(self) -> str:
        """Name of its files in the cache folder."""
        parts = {
            "sources": self.sources.digest,
            "flags": [*cc.FLAGS, *cc.QUIET, *cc.NATIVE, *self.extra],
            "compiler": [*self.compiler.command, self.compiler.version],
            "machine": [platform.system(), platform.machine(), platform.processor()],
            "processor": sorted(processor_flags()),
        }
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{Path(self.sources.main).stem}-{key[:32]}"

    def compile(self, folder: Path) -> tuple[Path, cc.InstructionSet]:
        """The library, and what for; some compilers do not know the processor they run on."""
        flags = (*cc.QUIET, *self.extra)
        try:
            made = cc.compile_library(self.compiler, self.sources, (*cc.NATIVE, *flags), folder)
            return made, "native"
        except cc.CompilerHung:
            raise
        except CompilationError:
            return cc.compile_library(self.compiler, self.sources, flags, folder), "baseline"


def _from_compiler(sources: Sources, extra: tuple[str, ...], *, rebuild: bool) -> Loaded:
    if os.name != "posix":
        raise CompilationError("compiling at first use is for Linux and its relatives only")
    plan = _Build(cc.find_compiler(), sources, extra)
    try:
        cache = CacheFolder(cache_path())
    except (OSError, RuntimeError) as problem:  # RuntimeError: no home directory
        return _compile(plan, None, f"the cache folder cannot be used ({problem})")
    with cache:
        if not rebuild and (cached := _find_cached(cache, plan)):
            return cached
        with cache.lock(2 * cc.SECONDS):  # another process may have made it meanwhile
            return (None if rebuild else _find_cached(cache, plan)) or _compile(plan, cache)


def _find_cached(cache: CacheFolder, plan: _Build) -> Loaded | None:
    """The library of an earlier process, None if there is none that is whole and loads."""
    if (failed := cache.read(f"{plan.name}.failed")) is not None:
        file = cache.path / f"{plan.name}.failed"
        reason = failed.partition("\n")[0]
        raise CompilationError(f"{reason} (cached in {file}; PDNO_NATIVE=rebuild tries again)")
    path = cache.path / f"{plan.name}.so"
    try:
        record = json.loads(cache.read(f"{plan.name}.json") or "{}")
        digest, instruction_set = str(record["sha256"]), record["instruction_set"]
        descriptor = cache.open(path.name)
        library = None if descriptor is None else _open_library(descriptor, path, digest)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    reason = "compiled on this machine and kept in the cache folder"
    how = NativeStatus(True, reason, path, str(plan.compiler), instruction_set)
    return None if library is None else (library, how)


def _compile(plan: _Build, cache: CacheFolder | None, refusal: str = "") -> Loaded:
    """Compile, and keep the library in the cache folder; where that fails, for this process."""
    how = f"for this process alone, as {refusal}" if cache is None else "once"
    _print(f"compiling the fast kernels {how}; about a minute ...")
    with contextlib.ExitStack() as stack:
        try:
            folder = _temporary_folder(cache)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            made, instruction_set = plan.compile(folder)
            if cache is not None:
                try:
                    return _keep(cache, plan, made, instruction_set)
                except OSError as problem:
                    refusal = f"the cache folder cannot be used ({problem})"
            try:
                library = ctypes.CDLL(str(made))
            except OSError as problem:
                raise CompilationError(f"what was compiled does not load: {problem}") from problem
        except (CompilationError, OSError) as problem:
            command = os.environ.get("CC", "").strip()
            reason = f"CC is {command!r}: {problem}" if command else str(problem)
            _print(f"that failed, so torch does the work, more slowly: {reason}")
            # a full disk or a killed compiler is no property of the compiler
            if cache and isinstance(problem, CompilationError) and not problem.passing:
                with contextlib.suppress(OSError):
                    text = f"{reason}\n\n{problem.output[:LONGEST_RECORD]}\n"
                    cache.write(f"{plan.name}.failed", text.encode())
            raise CompilationError(reason) from problem
        stack.pop_all()
    atexit.register(_remove_own, folder, os.getpid())
    reason = f"compiled for this process alone: {refusal}"
    return library, NativeStatus(True, reason, made, str(plan.compiler), instruction_set)


def _temporary_folder(cache: CacheFolder | None) -> Path:
    """A folder that nobody else can look into."""
    try:
        return Path(tempfile.mkdtemp(prefix="pdno-"))
    except OSError:
        if cache is None:
            raise
        return Path(tempfile.mkdtemp(prefix=".pdno-", dir=cache.path))


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not at the end of a process that was forked from this one
        shutil.rmtree(folder, ignore_errors=True)


def _keep(cache: CacheFolder, plan: _Build, made: Path, instruction_set: str) -> Loaded:
    """Put a library into the cache folder and load it from there; OSError where that fails."""
    content = made.read_bytes()
    record = {"sha256": hashlib.sha256(content).hexdigest(), "instruction_set": instruction_set}
    cache.remove(f"{plan.name}.failed")
    cache.write(f"{plan.name}.so", content)
    # the library counts from the moment its record is there
    cache.write(f"{plan.name}.json", json.dumps(record).encode())
    if (cached := _find_cached(cache, plan)) is None:
        raise OSError(f"libraries in {cache.path} cannot be loaded")
    return cached
