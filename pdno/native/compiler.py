"""The C compiler: detection, arguments, and one compilation.

    CC                  the command, with arguments if need be; else the first of cc, gcc, clang
    PDNO_NATIVE_FLAGS   more arguments for the compiler, for example -fsanitize=address

Written for gcc 12 and clang 14 and newer; others are tried. Warnings are errors in our tests only.
`hatch_build.py` uses this file without pdno and torch: it imports the standard library alone.
"""

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# the file that the library is named after; it is compiled with the C files beside it
SOURCE = Path(__file__).with_name("kernels.c")
INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([\w.-]+)"', re.MULTILINE)
CANDIDATES = ("cc", "gcc", "clang")
SECONDS = 300  # after which a compilation, which computes for a minute, is given up
# what compilers and linkers print where the machine is at fault, not the source or the command
PASSING = re.compile(
    r"No space left|quota exceeded|[Kk]illed|signal|out of memory|memory exhausted|"
    r"[Cc]annot allocate|Input/output error|temporarily unavailable|Read-only file system"
)
# sums may be reordered, but NaN and infinity keep their meaning
REORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("-O3", *REORDER, "-shared", "-fPIC")
QUIET = ("-w",)
NATIVE = ("-march=native",)

InstructionSet = Literal["avx512", "avx2", "baseline", "native"]


class CompilationError(RuntimeError):
    """No compiler, or one that fails; `passing` where the next compilation may do."""

    def __init__(self, reason: str, output: str = "", *, passing: bool = False) -> None:
        super().__init__(reason)
        self.output, self.passing = output or reason, passing


class CompilerHung(CompilationError):
    """A compiler that does not end."""


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C."""

    command: tuple[str, ...]
    version: str

    def __str__(self) -> str:
        return f"{shlex.join(self.command)}: {self.version.partition(chr(10))[0]}"


@dataclass(frozen=True)
class Sources:
    """C files and headers by name, of which copies are compiled; `main` names the library."""

    main: str
    texts: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """SHA-256 of all of them."""
        parts = [f"{name} {hashlib.sha256(text).hexdigest()}" for name, text in self.texts.items()]
        return hashlib.sha256("\n".join([self.main, *parts]).encode()).hexdigest()


@dataclass(frozen=True)
class Variant:
    """A library of a wheel; /proc/cpuinfo must name its needs for a processor to run it."""

    name: InstructionSet
    flags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


# the levels of the x86-64 psABI in the words of Linux: pni is SSE3, abm has LZCNT
LEVEL_2 = ("cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3")
LEVEL_3 = (*LEVEL_2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")
LEVEL_4 = (*LEVEL_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


def wheel_variants() -> tuple[Variant, ...]:
    """What a wheel for this kind of machine holds, best first."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return (Variant("baseline"),)
    best = Variant("avx512", ("-march=x86-64-v4",), LEVEL_4)
    good = Variant("avx2", ("-march=x86-64-v3",), LEVEL_3)
    return best, good, Variant("baseline", ("-march=x86-64",))


def find_compiler() -> Compiler:
    """The compiler to use; where CC names one, no other is tried."""
    if command := os.environ.get("CC", "").strip():
        try:
            return _compiler(shlex.split(command))
        except (CompilationError, ValueError) as problem:
            wrong = f"CC is {command!r}: {problem}"
            raise CompilationError(f"{wrong}; correct or unset it") from problem
    for name in CANDIDATES:
        with contextlib.suppress(CompilationError):
            return _compiler([name])
    none = f"there is no C compiler: none of {', '.join(CANDIDATES)} is on PATH and works"
    raise CompilationError(f"{none}; install one, or name it in CC")


def _compiler(words: list[str]) -> Compiler:
    path = shutil.which(words[0])
    if path is None:
        raise CompilationError(f"there is no command {words[0]}")
    command = (os.path.abspath(path), *words[1:])
    return Compiler(command, _run([*command, "--version"], seconds=30).strip())


def read_sources(source: Path) -> Sources:
    """The C file `source`, those beside it, and the headers there that they include."""
    texts: dict[str, bytes] = {}
    names = sorted({source.name, *(path.name for path in source.parent.glob("*.c"))})
    while names:
        name = names.pop()
        if name not in texts and (name == source.name or (source.parent / name).is_file()):
            texts[name] = (source.parent / name).read_bytes()
            names += [header.decode() for header in INCLUDED.findall(texts[name])]
    return Sources(source.name, dict(sorted(texts.items())))


def compile_library(
    compiler: Compiler, sources: Sources, flags: tuple[str, ...], folder: Path
) -> Path:
    """Compile into a library in `folder`, which gets copies of the sources, too."""
    for name, text in sources.texts.items():
        (folder / name).write_bytes(text)
    target = folder / f"{Path(sources.main).stem}.so"
    files = [name for name in sources.texts if name.endswith(".c")]
    command = [*compiler.command, *FLAGS, "-o", str(target), *files, *flags]
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)  # others may have most of the machine
    _run(command, seconds=SECONDS * max(1.0, busy), folder=folder)
    if not target.is_file() or not target.stat().st_size:
        raise CompilationError(f"{compiler.command[0]} ended well, but wrote no library")
    return target


def _run(command: list[str], *, seconds: float, folder: Path | None = None) -> str:
    """The output of a compiler; CompilationError where it fails."""
    # its output must not depend on the language, and what it leaves behind goes with the folder
    own = {"LC_ALL": "C"} if folder is None else {"LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            process_group=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **own},
        ) as process:
            try:
                content = process.communicate(timeout=seconds)[0]
            except BaseException:
                _end(process)
                raise
    except subprocess.TimeoutExpired as problem:
        raise CompilerHung(f"{command[0]} took more than {seconds:.0f} s") from problem
    except OSError as problem:
        raise CompilationError(f"{command[0]} cannot be run: {problem.strerror}") from problem
    output = str(content, "utf-8", "replace")
    if process.returncode:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        line = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        reason = f"{command[0]} failed with code {process.returncode}: {line or 'no output'}"
        passing = process.returncode < 0 or PASSING.search(output) is not None
        raise CompilationError(reason, f"{shlex.join(command)}\n{output}", passing=passing)
    return output


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a compiler and what it has started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def processor_flags() -> frozenset[str]:
    """What the processor can do, in the words of /proc/cpuinfo; empty where that is not there."""
    flags = None
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        flags = re.search(r"^(?:flags|Features).*?:(.*)", text, re.MULTILINE)
    return frozenset(flags[1].split() if flags else ())
