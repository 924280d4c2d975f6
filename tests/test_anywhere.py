"""The tests pass in any folder, order and place: with one core, in the background, as any user.

Much of the suite runs again in a copy of the repository, in a random order. Only what is under
version control is copied, or everything but environments and caches where there is no git.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = {
    "as people clone it, a user": ("pdno", 1000),
    "space and letters, root": ("Mes projets/opérateurs ∂ü", 0),
    "long path, a user": ("/".join(["a-folder-with-a-long-name"] * 7), 1000),
}
SELECTION = (
    "tests/test_layers.py",
    "tests/test_architecture.py",
    "tests/test_cli.py",
    "tests/data",
    "tests/faults/test_kill.py",
    "tests/files",
    "tests/interface",
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
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


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
            shutil.copy(ROOT / name, target / name)


def run_as(user, *arguments, cwd):
    """Python as a user, if need be in a user namespace: without the rights of root, or with."""
    environment = os.environ | {"PYTHONPATH": str(cwd), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RESTRICT, *arguments]
    if user != os.getuid() and 0 in (user, os.getuid()):
        command = ["unshare", "--user", f"--map-user={user}", f"--map-group={user}", *command]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to choose one core")
@pytest.mark.parametrize(("folder", "user"), PLACES.values(), ids=PLACES)
def test_the_suite_passes(tmp_path, folder, user):
    repository, temporary = tmp_path / folder, tmp_path / "temporary"
    copy_repository(repository)
    temporary.mkdir()
    if (
        shutil.which("unshare") is None
        or run_as(user, "-c", "import torch", cwd=repository).returncode
    ):
        pytest.skip("there is no way to become another user here")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={temporary}",
        f"--shuffle={len(folder)}",
    ]
    result = run_as(user, "-m", "pytest", *options, *SELECTION, cwd=repository)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    (passed,) = re.findall(r"(\d+) passed", result.stdout)
    assert int(passed) > 800
