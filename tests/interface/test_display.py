import io
import re
import sys
import types

import pytest

import pdno.interface.display
from pdno.interface.display import track


def test_lines_elsewhere_say_how_much_is_done_and_left(capsys, monkeypatch):
    now = iter([100.0, 102.0, 103.0, 104.0, 120.0, 121.0])
    monkeypatch.setattr(pdno.interface.display.time, "monotonic", lambda: next(now))
    with track("work", total=30, done=10) as advance:
        for amount in (4, 2, 2, 4, 8):
            advance(amount)
    # 4 in 2 s leave 16 at 2/s; then at most one line in ten seconds, and the last one
    assert capsys.readouterr().err.splitlines() == [
        "work: 14/30, 2.00/s, 8 s left",
        "work: 22/30, 0.60/s, 13 s left",
        "work: 30/30, 0.95/s, 0 s left",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal_ends_at_the_total(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with track("work", total=8, done=3) as advance:
        advance(5)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "work" in text and "8/8" in text and "/s" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_passes_through(monkeypatch, terminal):
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    with pytest.raises(KeyError), track("work", total=2):
        raise KeyError


def test_a_notebook_has_one_bar_that_is_updated_in_its_place(capsys, monkeypatch):
    shown = []

    def display(bundle, *, raw, display_id):
        assert raw and display_id
        shown.append([bundle])
        return types.SimpleNamespace(update=lambda bundle, raw: shown[-1].append(bundle))

    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    now = iter([100.0, *(100.0 + 0.01 * k for k in range(1, 101))])
    monkeypatch.setattr(pdno.interface.display.time, "monotonic", lambda: next(now))
    with track("a < b", total=100) as advance:
        for _ in range(100):
            advance(1, "error 0.1")
    (bar,) = shown
    # a second of work: at most four updates, and the last one
    assert 3 <= len(bar) <= 7 and bar[0]["text/plain"] == "a < b"
    assert bar[-1]["text/plain"] == "a < b: 100/100, 100.00/s, 0 s left, error 0.1"
    assert bar[-1]["text/html"].startswith('<progress value="100" max="100"></progress> a &lt; b')
    assert capsys.readouterr() == ("", "")
