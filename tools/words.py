"""Words per page of README and manual, beside an earlier commit.

    python tools/words.py --base 2dac755

Everything that `wc -w` sees counts, code blocks and tables too, except what a command writes: the
API pages in docs/api, and what stands between `<!-- results: ... -->`, `<!-- packages: ... -->` (once `rooms`) or
`<!-- proofs: ... -->` and its end. Marks of numbers do not count.
"""

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"<!-- (results|packages|rooms|proofs):.*?<!-- end of \1 -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def words(text: str) -> int:
    """Words of a page without its generated parts."""
    return len(COMMENT.sub("", GENERATED.sub("", text)).split())


def pages(base: str | None = None) -> dict[str, int]:
    """Words of README and docs/*.md, in the working tree or at a commit."""
    if base is None:
        files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        return {str(p.relative_to(ROOT)): words(p.read_text(encoding="utf-8")) for p in files}
    listed = git("ls-tree", "--name-only", base, "README.md", "docs/").split()
    return {p: words(git("show", f"{base}:{p}")) for p in listed if p.endswith(".md")}


def git(*command: str) -> str:
    """The output of a git command in the repository."""
    return subprocess.run(
        ["git", *command], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="2dac755", help="commit to compare with")
    before, after = pages(parser.parse_args().base), pages()
    print(f"{'page':34}{'before':>8}{'after':>8}")
    for name in sorted(before.keys() | after.keys()):
        print(f"{name:34}{before.get(name, 0):8,}{after.get(name, 0):8,}")
    total, now = sum(before.values()), sum(after.values())
    print(f"{'total':34}{total:8,}{now:8,}   {now / total:.0%}")


if __name__ == "__main__":
    main()
