"""Words per page of README and manual, beside an earlier commit.

    python tools/words.py --base 2dac755

Everything that `wc -w` sees counts, code blocks and tables too, except what a command writes: the
API pages in docs/api, and what stands between `<!-- results: ... -->`, `<!-- packages: ... -->`
(once `rooms`) or `<!-- proofs: ... -->` and its end. Marks of numbers do not count. The last line
is the total without fenced blocks, that is of prose alone.
"""

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"<!-- (results|packages|rooms|proofs):.*?<!-- end of \1 -->", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def written(text: str) -> str:
    """A page without its generated parts."""
    return COMMENT.sub("", GENERATED.sub("", text))


def pages(base: str | None = None) -> dict[str, str]:
    """What is written by hand of README and docs/*.md, in the working tree or at a commit."""
    if base is None:
        files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        return {str(p.relative_to(ROOT)): written(p.read_text(encoding="utf-8")) for p in files}
    listed = git("ls-tree", "--name-only", base, "README.md", "docs/").split()
    return {p: written(git("show", f"{base}:{p}")) for p in listed if p.endswith(".md")}


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
        print_line(name, before.get(name, ""), after.get(name, ""))
    total = ["\n".join(texts.values()) for texts in (before, after)]
    print_line("total", *total)
    print_line("total without code", *(FENCED.sub("", text) for text in total))


def print_line(name: str, *texts: str) -> None:
    """A name, the words of two texts, and the ratio if there are some before."""
    before, after = (len(text.split()) for text in texts)
    print(f"{name:34}{before:8,}{after:8,}{f'{after / before:8.0%}' if before else ''}")


if __name__ == "__main__":
    main()
