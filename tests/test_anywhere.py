"""The tests pass in any folder, order and place: with one core, in the background, as any user.

The suite runs again in a copy of the repository. Only what is under version control is copied, or
everything but environments and caches where there is no git.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "as people clone it": "pdno",
    "space and letters": "Mes projets/opérateurs ∂ü",
    "long path": "/".join(["a-folder-with-a-long-name"] * 7) + "/pdno",
}
SELECTION = (
    "tests/test_layers.py",
    "tests/test_architecture.py",
    "tests/test_cli.py",
    "tests/data",
    "tests/faults",
    "tests/files",
    "tests/interface",
    "tests/laboratory",
    "tests/native",
    "tests/operators/test_torch_tools.py",
    "tests/operators/test_threads.py",
    "tests/runs",
    "tests/training/test_interruption.py",
    "tests/training/test_operator_folder.py",
)
# one core and no Control-C, which nohup and background jobs ignore; both are inherited
RESTRICT = """
import os, signal, sys
user, *command = sys.argv[1:]
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
signal.signal(signal.SIGINT, signal.SIG_IGN)
if int(user) != os.getuid():
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
os.execv(command[0], command)
"""
NOBODY = 65534


def copy_repository(target):
    """What git knows of, as it is in the folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        caches = shutil.ignore_patterns(".*", "__pycache__", "_build")
        shutil.copytree(ROOT, target, ignore=caches)
        return
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def run(user, home, *arguments, cwd):
    environment = {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(cwd)}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    command = [sys.executable, "-c", RESTRICT, str(user), sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def place():
    """A folder that every user may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="anywhere-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def give_to(user, folder):
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to choose one core")
@pytest.mark.parametrize(
    ("folder", "user", "seed"),
    [
        pytest.param(folder, user, seed, id=f"{name}, {user}")
        for seed, (name, folder) in enumerate(FOLDERS.items(), start=1)
        for user in ("this user", "nobody")
    ],
)
def test_the_suite_passes(place, folder, user, seed):
    number = os.getuid() if user == "this user" else NOBODY
    if number != os.getuid() and os.getuid():
        pytest.skip("only root may become another user")
    home, repository = place / "home", place / folder
    home.mkdir()
    copy_repository(repository)
    if number != os.getuid():
        give_to(number, place)
        if run(number, home, "-c", "import torch", cwd=repository).returncode:
            pytest.skip("another user cannot read this installation of torch")
    options = ("-q", "-p", "no:cacheprovider", "--shuffle", str(seed), "--timeout", "600")
    result = run(number, home, "-m", "pytest", *options, *SELECTION, cwd=repository)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    (passed,) = re.findall(r"(\d+) passed", result.stdout)
    assert int(passed) > 500
