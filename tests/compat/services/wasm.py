"""A plugin for Extism, assembled by hand: its one function answers with a prefix and all that it was given."""

from __future__ import annotations

from collections.abc import Iterable

I32, I64 = 0x7F, 0x7E
LOCAL_GET, LOCAL_SET, CALL = 0x20, 0x21, 0x10
I64_ADD, I64_GE_U, BRANCH, BRANCH_IF, BLOCK, LOOP, END = 0x7C, 0x5A, 0x0C, 0x0D, 0x02, 0x03, 0x0B
IMPORTS = (
    ("input_length", [], [I64]),
    ("input_load_u8", [I64], [I32]),
    ("alloc", [I64], [I64]),
    ("store_u8", [I64, I32], []),
    ("output_set", [I64, I64], []),
)
LENGTH, OUT, PLACE = range(3)
"""The function's variables: how long the input is, where the output is, and the byte that is copied."""


def assemble(export: str, prefix: str) -> bytes:
    """The module, as bytes."""
    types = [function(takes, gives) for _, takes, gives in IMPORTS] + [function([], [I32])]
    imports = [name("extism:host/env") + name(each) + bytes([0, number]) for number, (each, *_) in enumerate(IMPORTS)]
    body = vector([b"\x03" + bytes([I64])]) + bytes(code(prefix.encode()))
    sections = {
        1: vector(types),
        2: vector(imports),
        3: vector([bytes([len(IMPORTS)])]),
        7: vector([name(export) + bytes([0, len(IMPORTS)])]),
        10: vector([number(len(body)) + body]),
    }
    return b"\0asm\1\0\0\0" + b"".join(bytes([each]) + number(len(data)) + data for each, data in sections.items())


def code(prefix: bytes) -> Iterable[int]:
    calls = {each: (CALL, place) for place, (each, *_) in enumerate(IMPORTS)}
    whole = (LOCAL_GET, LENGTH, *constant(I64, len(prefix)), I64_ADD)
    yield from (*calls["input_length"], LOCAL_SET, LENGTH)
    yield from (*whole, *calls["alloc"], LOCAL_SET, OUT)
    for place, byte in enumerate(prefix):
        yield from (LOCAL_GET, OUT, *constant(I64, place), I64_ADD, *constant(I32, byte), *calls["store_u8"])
    yield from (BLOCK, 0x40, LOOP, 0x40, LOCAL_GET, PLACE, LOCAL_GET, LENGTH, I64_GE_U, BRANCH_IF, 1)
    yield from (LOCAL_GET, OUT, *constant(I64, len(prefix)), I64_ADD, LOCAL_GET, PLACE, I64_ADD)
    yield from (LOCAL_GET, PLACE, *calls["input_load_u8"], *calls["store_u8"])
    yield from (LOCAL_GET, PLACE, *constant(I64, 1), I64_ADD, LOCAL_SET, PLACE, BRANCH, 0, END, END)
    yield from (LOCAL_GET, OUT, *whole, *calls["output_set"], *constant(I32, 0), END)


def constant(kind: int, value: int) -> Iterable[int]:
    return bytes([0x41 if kind == I32 else 0x42]) + signed(value)


def function(takes: list[int], gives: list[int]) -> bytes:
    return b"\x60" + vector([bytes([each]) for each in takes]) + vector([bytes([each]) for each in gives])


def name(text: str) -> bytes:
    return number(len(text)) + text.encode()


def vector(items: list[bytes]) -> bytes:
    return number(len(items)) + b"".join(items)


def number(value: int) -> bytes:
    """LEB128."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def signed(value: int) -> bytes:
    """LEB128 of a number that is not negative, with room for the sign."""
    written = bytearray()
    while value > 0x3F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
