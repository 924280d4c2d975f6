"""Ways to damage a file: a mutation is a function of the bytes and a generator, nothing else."""

import re

NUMBERS = (b"0", b"-1", b"1e400", b"NaN", b"-Infinity", b"99999999999999999999", b"0.5", b"null")
WORDS = (b'"', b"{", b"[", b"]", b",,", b"\x1b[31m", b"\n", b"\0", b"\xff\xfe", b"=1+1", b"&a *a")
INTEGERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    2**40,
    2**63,
    2**64 - 1,
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_]{3,}")
NAMES = (b"../", b"../../etc/passwd", b"/", b"..", b"\\\\", b"a/b")


def flip(data, rng):
    """One to three bits are the other way round."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(data, rng):
    """A few bytes are random."""
    start, count = rng.randrange(len(data)), rng.randint(1, 16)
    return data[:start] + rng.randbytes(count) + data[start + count :]


def integer(data, rng):
    """A length, an offset or a size is an extreme one."""
    width = rng.choice((1, 2, 4, 8))
    start, order = rng.randrange(len(data)), rng.choice(("little", "big"))
    value = rng.choice(INTEGERS) % 256**width
    return data[:start] + value.to_bytes(width, order) + data[start + width :]


def header(data, rng):
    """The same near the beginning, where formats keep what they believe."""
    part = data[: min(len(data), 512)]
    return integer(part, rng) + data[len(part) :]


def truncate(data, rng):
    """The end is missing."""
    return data[: rng.randrange(len(data))]


def extend(data, rng):
    """There is more than there should be."""
    return data + (rng.randbytes(rng.randint(1, 64)) if rng.random() < 0.5 else data)


def erase(data, rng):
    """A block is zero."""
    start, count = rng.randrange(len(data)), rng.randint(1, 512)
    return data[:start] + bytes(min(count, len(data) - start)) + data[start + count :]


def remove(data, rng):
    """A block is missing."""
    start, count = rng.randrange(len(data)), rng.randint(1, 64)
    return data[:start] + data[start + count :]


def copy(data, rng):
    """A block stands elsewhere, too."""
    start, count, to = rng.randrange(len(data)), rng.randint(1, 256), rng.randrange(len(data))
    block = data[start : start + count]
    return data[:to] + block + data[to + len(block) * (rng.random() < 0.5) :]


def number(data, rng):
    """A number in a text is another one."""
    return _replaced(NUMBER, data, rng, lambda old: rng.choice((*NUMBERS, old + b"1", b"-" + old)))


def word(data, rng):
    """A word in a text is another one of it, or has a letter more."""
    words = WORD.findall(data)
    return _replaced(WORD, data, rng, lambda old: rng.choice((rng.choice(words), old + b"x", b"")))


def name(data, rng):
    """A word becomes a way out of the folder."""
    return _replaced(WORD, data, rng, lambda old: rng.choice((*NAMES, b"../" + old)))


def odd(data, rng):
    """A number is a million, or no number."""
    return _replaced(NUMBER, data, rng, lambda old: rng.choice((b"1000000", b"[]", b"{}")))


def insert(data, rng):
    """Something that a text should not have."""
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(WORDS) + data[at:]


def nest(data, rng):
    """Brackets without end."""
    at, depth = rng.randrange(len(data)), rng.choice((100, 5000, 100_000))
    return data[:at] + rng.choice((b"[", b'{"a":', b"- ")) * depth + data[at:]


def swap_lines(data, rng):
    """Two lines have changed places, or one stands twice."""
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a] = lines[b]
    return b"\n".join(lines)


def _replaced(pattern, data, rng, make):
    places = [match.span() for match in pattern.finditer(data)]
    if not places:
        return flip(data, rng)
    start, end = rng.choice(places)
    return data[:start] + make(data[start:end]) + data[end:]


BINARY = (flip, flip, overwrite, integer, header, header, truncate, extend, erase, remove, copy)
TEXT = (number, number, word, insert, nest, swap_lines)
"""For files that people can read, in addition."""
MADE = (name, odd, odd)
"""For those whose digests anybody can make, in addition: what attacks are made of."""


def mutate(data, rng, *, text, made=False):
    """Damaged bytes that are not the same, and the names of the mutations."""
    changed, names = data, []
    for _ in range(100):
        ways = (*BINARY, *TEXT, *TEXT) if text else BINARY
        ways = (*ways, *MADE, *MADE, *MADE) if made else ways
        one = rng.choice(ways)
        changed, names = one(changed or b" ", rng), [*names, one.__name__]
        if changed != data and rng.random() < 0.75:
            break
    return changed, names
