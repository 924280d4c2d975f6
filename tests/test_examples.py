"""Examples are short, and their numbers are right."""

import ast
import importlib.util
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_data_are_learned(tmp_path):
    """Ten epochs of the thirty: 0.03 to 0.06, by the initial weights; zero would give 1."""
    torch.manual_seed(0)
    assert load("own_data.py").main(tmp_path, epochs=10) < 0.1


def test_from_arrays_to_a_trained_operator_in_a_few_statements():
    tree = ast.parse((EXAMPLES / "own_data.py").read_text(encoding="utf-8"))
    (main,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    statements = [ast.unparse(node) for node in main.body[1:]]
    first = next(k for k, text in enumerate(statements) if "read_own" in text)
    assert len(statements) < 15 and len(statements) - first <= 5
