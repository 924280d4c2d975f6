"""Records of checksums: what they may say, and what is refused before it is hashed."""

import json
import os

import pytest

from pdno.files import run_folder
from pdno.files.run_folder import CHECKSUMS, verified_path, with_digest, write_checksums
from pdno.runs.run import verify

DIGEST = "0" * 64
ODD = [
    {},
    {"files": []},
    {"files": None},
    {"files": {"weights.safetensors": 5}},
    {"files": {"weights.safetensors": [DIGEST]}},
    {"files": {"weights.safetensors": "ABC"}},
    {"files": {"../secret": DIGEST}},
    {"files": {"..": DIGEST}},
    {"files": {"/etc/passwd": DIGEST}},
    {"files": {"folder/file": DIGEST}},
    {"files": {"C:\\secret": DIGEST}},
    {"files": {"a\x1b[31m": DIGEST}},
    {"files": {"": DIGEST}},
]


@pytest.mark.parametrize("content", ODD, ids=str)
def test_records_that_name_no_files_beside_them_are_refused(tmp_path, content):
    (tmp_path / "secret").write_text("")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "weights.safetensors").write_text("")
    (folder / CHECKSUMS).write_text(with_digest(json.dumps({"format": 1} | content, indent=1)))
    with pytest.raises(ValueError, match="checksums.json is damaged, so that no file beside it"):
        verified_path(folder / "weights.safetensors")
    text, right = verify([folder])
    assert not right and "changed  " in text and "secret" not in text.replace(str(tmp_path), "")


@pytest.mark.parametrize("body", ["[" * 100_000 + "\n}", "[1]\n}", "nonsense\n}", '"a"\n}'])
def test_records_that_are_no_json_are_refused(tmp_path, body):
    (tmp_path / CHECKSUMS).write_text(with_digest(body))
    with pytest.raises(ValueError, match="checksums.json is damaged"):
        verified_path(tmp_path / "metrics.csv")


def test_a_file_beyond_the_limit_of_memory_is_refused_before_it_is_hashed(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    path.write_text("")
    write_checksums(tmp_path, [path.name])
    assert verified_path(path) == path
    os.truncate(path, 2**40)  # which takes no place on the disk
    monkeypatch.setattr(run_folder, "sha256", lambda path: pytest.fail(f"{path} was hashed"))
    for read in (verified_path, lambda path: verify([path.parent])):
        with pytest.raises(ValueError, match="weights.safetensors needs 1,099,511,627,776 bytes"):
            read(path)
