"""Write the table of docs/performance.md from a record of `pdno speed`.

    pdno speed --out bench && python tools/speed.py bench/bench.json    # keeps it, writes the page
    python tools/speed.py --check    # is the page that of the record?

The last record is results/speed.json; what it is written from stands between two marks.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from pdno.benchmark import summary

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "results" / "speed.json", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- speed: written by tools/speed.py -->\n", "<!-- end of speed -->"


def page_of(record: Path, page: str) -> str:
    """The page with the table of a record."""
    results = json.loads(record.read_text(encoding="utf-8"))
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    machine = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    return f"{before}{BEGIN}{summary(results['measured'])}\nMeasured on: {machine}.\n{END}{after}"


def main() -> None:
    """Keep the record and write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("record", type=Path, nargs="?", help="bench.json of `pdno speed`")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.record is not None:
        shutil.copyfile(arguments.record, RECORD)
    page = PAGE.read_text(encoding="utf-8")
    written = page_of(RECORD, page)
    if not arguments.check:
        PAGE.write_text(written, encoding="utf-8")
    elif written != page:
        sys.exit(f"{PAGE.name} is not that of {RECORD.name}: run python tools/speed.py")


if __name__ == "__main__":
    main()
