"""Print the lines that tests ran, by package, from the report of `make coverage`.

python tools/coverage.py coverage.json
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

if __name__ == "__main__":
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    covered, lines = defaultdict(int), defaultdict(int)
    for file, content in report["files"].items():
        parts = Path(file).parts
        package = parts[1] if len(parts) > 2 else Path(file).stem
        for name in (package, "all"):
            covered[name] += content["summary"]["covered_lines"]
            lines[name] += content["summary"]["num_statements"]
    print("| package | statements | run by tests |\n|---|---|---|")
    for name in sorted(lines, key=lambda name: (name == "all", name)):
        print(f"| {name} | {lines[name]:,} | {covered[name] / max(1, lines[name]):.0%} |")
