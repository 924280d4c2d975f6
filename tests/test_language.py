"""Messages, docstrings, pages and captions use the words of the field."""

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for folder in ("pdno", "examples", "tools") for path in (ROOT / folder).rglob("*.py")
)
YAML = sorted((ROOT / "pdno" / "paper").glob("*.yaml"))
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/api/*.md", "results/README.md", "paper/*.md")
    for path in ROOT.glob(pattern)
)
WEB = sorted(
    path
    for path in (ROOT / "pdno").rglob("*")
    if path.suffix in (".html", ".js", ".jinja", ".j2") and "node_modules" not in path.parts
)

PREFERRED = {
    r"laws? of (?:the )?(?:inputs|samples|data)": "distribution",
    r"learners?": "trained operator",
    r"seal(?:s|ed)?": "checksums, verified",
    r"(?:lanes|loops) of (?:C|the kernels?)": "kernels, SIMD lanes",
    r"what pays": "ablation study",
    r"provable symbols?": "classical symbols",
    r"ways? to learn|recipes? of today": "training recipe",
    r"verdicts?|judges?|judged": "assessment",
    r"numbers of the equation": "PDE parameters",
    r"left in peace": "uninterrupted",
    r"of before|of today": "earlier, current",
    r"others' files|files of others": "third-party files",
    r"(?:it|is|was|are|were) (?:not )?told|tell apart": "reported, distinguished",
    r"(?:does|do) not stand (?:this|that)": "is not supported",
    r"(?:is|are) (?:not )?believed": "is rejected",
    r"speaks? against": "is evidence against",
    r"do(?:es)? not pay": "is negligible, is not worthwhile",
    r"what (?:they|it|he|she|we) says?": "results, meaning",
    r"smoke tests nothing": "checks that everything runs",
    r"jumps? where the torus closes|domains that do not close": "discontinuous, non-periodic",
    r"(?:learned|learns) ever better": "overfits",
    r"stems? from a run": "is measured",
    r"at their ends": "final",
    r"of the house|rooms and files": "package layout",
    r"have it compiled": "compiles",
    r"nobody (?:ever )?knows": "random",
    r"that is lent": "borrowed",
    r"watches what is done": "detects",
}
"""What not to write, as patterns of whole words, and what to write instead."""
UNCLEAR = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in PREFERRED), re.IGNORECASE)
PRINTED = {"print", "warn", "warn_once", "report", "ArgumentParser", "arg", "Field", "help"}


def strings(node):
    """The texts below a node, formatted ones with their values left out."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.lineno, part.value


def called(node):
    function = node.func
    return getattr(function, "attr", getattr(function, "id", ""))


def messages(tree):
    """Texts of errors, warnings and options, and all docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (
            isinstance(node, ast.Call)
            and (called(node) in PRINTED or called(node).endswith(("Error", "Warning")))
        ):
            yield from strings(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from strings(node.value)


def unclear(texts):
    """(line, word) of each text that has one to avoid."""
    return sorted({(line, match[0]) for line, text in texts for match in UNCLEAR.finditer(text)})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError(f'the learner of {x} is sealed')", ["learner", "sealed"]),
        ("warnings.warn('a verdict', stacklevel=2)", ["verdict"]),
        (
            "raise DataError('files of others', 'left' ' in peace')",
            ["files of others", "left in peace"],
        ),
        ("def f():\n    '''What pays.'''", ["What pays"]),
        ("learner = 'the learner'", []),
        ("raise ValueError('the trained operator')", []),
    ],
)
def test_words_to_avoid_are_noticed(source, words):
    assert [word for _, word in unclear(messages(ast.parse(source)))] == words


def test_messages_use_the_words_of_the_field():
    found = {
        path.relative_to(ROOT).as_posix(): unclear(messages(ast.parse(path.read_text("utf-8"))))
        for path in SOURCES
    }
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("path", PAGES + WEB, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_the_words_of_the_field(path):
    """With the texts of links and the captions of pictures, without code."""
    text = re.sub(
        r"^```.*?^```$|<!--.*?-->|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.M | re.S
    )
    assert unclear(enumerate(text.splitlines(), start=1)) == []


def test_captions_use_the_words_of_the_field():
    def texts(value):
        if isinstance(value, dict):
            return [text for part in value.values() for text in texts(part)]
        if isinstance(value, list):
            return [text for part in value for text in texts(part)]
        return [(0, str(value))]

    captions = [text for path in YAML for text in texts(yaml.safe_load(path.read_text("utf-8")))]
    assert len(captions) > 20 and unclear(captions) == []
