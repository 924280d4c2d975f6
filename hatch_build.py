"""Puts the compiled kernels into a wheel: one library for each instruction set, and their index.

On Linux with an x86-64 processor there are three, elsewhere one, and without a C compiler (or with
PDNO_NATIVE=0) none: then the wheel is for any machine, and the loops are compiled where they are
used. With PDNO_NATIVE=require, as for releases, a library that cannot be compiled is an error.
Editable installations compile at first use, too, because their sources change.

The tag names the machine only, `linux_x86_64`: manylinux would be a promise about C libraries that
nobody has checked here.

The README of a package has no folder beside it, so its paths are made addresses; see `for_index`.
"""

import atexit
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME = "pdno/native"
PATH = r"\]\((?!https?:|#)([^)]*)\)"  # the end of a link or picture of the repository


class NativeCodeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles before a wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the libraries to what goes into the wheel.

        Arguments:
            version: Kind of wheel, standard or editable.
            build_data: What hatchling is going to do.
        """
        if version == "editable" or os.environ.get("PDNO_NATIVE") == "0" or os.name != "posix":
            return
        compiler = load_file("pdno_native_compiler", Path(self.root, HOME, "compiler.py"))
        folder = Path(tempfile.mkdtemp(prefix="pdno-wheel-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # also if packing fails
        made = self.compile_variants(compiler, folder)
        if made:
            build_data["force_include"] |= {str(path): f"{HOME}/lib/{path.name}" for path in made}
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"

    def compile_variants(self, compiler: ModuleType, folder: Path) -> list[Path]:
        """The libraries and their index; none where nothing could be compiled.

        Arguments:
            compiler: The module `pdno.native.compiler`.
            folder: Where to put them.
        """
        required = os.environ.get("PDNO_NATIVE") == "require"
        try:
            command = compiler.find_compiler()
        except compiler.CompilationError as problem:
            if required:
                raise
            self.app.display_warning(f"a wheel without compiled kernels: {problem}")
            return []
        sources = compiler.read_sources(compiler.SOURCE)
        made, entries = [], []
        for variant in compiler.wheel_variants():
            place = folder / variant.name
            place.mkdir()
            flags = (*compiler.QUIET, *variant.flags)
            try:
                library = compiler.compile_library(command, sources, flags, place)
            except compiler.CompilationError as problem:
                if required:
                    raise
                self.app.display_warning(f"no compiled kernels for {variant.name}: {problem}")
                continue
            made.append(library.rename(folder / f"{library.stem}-{variant.name}.so"))
            entries.append(
                {
                    "file": made[-1].name,
                    "sha256": hashlib.sha256(made[-1].read_bytes()).hexdigest(),
                    "instruction_set": variant.name,
                    "needs": list(variant.needs),
                }
            )
        if not made:
            return []
        index = folder / "index.json"
        content = json.dumps({"sources": sources.digest, "libraries": entries}, indent=2)
        index.write_text(content + "\n", encoding="utf-8")
        return [*made, index]


class ReadmeHook(MetadataHookInterface):
    """The README as a package index shows it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme.

        Arguments:
            metadata: The table `project` of pyproject.toml.
        """
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = for_index(text, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def for_index(text: str, repository: str | None) -> str:
    """A README whose paths lead to the repository; without its address there are none.

    Arguments:
        text: Markdown with paths of files in links and pictures.
        repository: For example https://github.com/OWNER/NAME.
    """
    if repository is None:
        parts = [part for part in text.split("\n\n") if not re.search(r"!\[[^\]]*" + PATH, part)]
        return re.sub(r"\[([^\]]*)" + PATH, r"\1", "\n\n".join(parts))
    text = re.sub(r"(!\[[^\]]*)" + PATH, rf"\1]({repository}/raw/HEAD/\2)", text)
    return re.sub(PATH, rf"]({repository}/blob/HEAD/\1)", text)


def load_file(name: str, path: Path) -> ModuleType:
    """A module by its file, for its package is not installed."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
