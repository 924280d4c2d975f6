"""Our C compiles without a warning, for every processor of a wheel, with gcc and with clang."""

import shutil

import pytest

from pdno.native.compiler import (
    NATIVE,
    SOURCE,
    Variant,
    compile_library,
    find_compiler,
    read_sources,
    wheel_variants,
)

# vectors wider than the processor's are passed between our own functions only, never by a caller
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
VARIANTS = {variant.name: variant for variant in (*wheel_variants(), Variant("native", NATIVE))}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", COMPILERS)
def test_no_warning(tmp_path, monkeypatch, name, variant):
    monkeypatch.setenv("CC", name)
    flags = (*VARIANTS[variant].flags, *WARNINGS)
    assert compile_library(find_compiler(), read_sources(SOURCE), flags, tmp_path).is_file()
