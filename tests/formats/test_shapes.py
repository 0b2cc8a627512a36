"""The block tree itself, numerals, words."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.formats import loss
from polyloop.formats.blocks import BLOCK_TYPES, Block, Cell, Document, Run, Table, grid, nodes
from polyloop.formats.links import safe_link
from polyloop.formats.numerals import chinese, numeral, parsed_chinese
from polyloop.words import losses


def test_block_types_are_those_promised() -> None:
    assert BLOCK_TYPES == (
        "heading", "paragraph", "bulleted", "numbered", "todo", "quote", "code", "table", "divider", "image", "file", "formula", "raw",
    )  # fmt: skip


def test_depth_spells_a_tree() -> None:
    kinds = [("bulleted", 0), ("bulleted", 1), ("paragraph", 2), ("paragraph", 1), ("heading", 0), ("paragraph", 3)]
    made = nodes(tuple(Block(kind, (Run(str(at)),), depth=depth) for at, (kind, depth) in enumerate(kinds)))  # type: ignore[arg-type]  # drawn from the types

    def spelled(level: list) -> list:
        return [(node.block.text, spelled(node.children)) if node.children else node.block.text for node in level]

    assert spelled(made) == [("0", [("1", ["2"]), "3"]), "4", "5"]


def test_the_text_of_a_table_and_its_grid() -> None:
    table = Table(((Cell((Run("a"),), rowspan=9), Cell((Run("b"),), colspan=2)), (Cell((Run("c"),)),)))
    assert Block("table", table=table).text == "a\tb\nc"
    assert grid(table) == [[(0, 0), (0, 1), (0, 1)], [(0, 0), (1, 0), None]]


@pytest.mark.parametrize(
    ("text", "lang"), [("通知", "zh"), ("Notice", "en"), ("使用Python语言编写的程序", "zh"), ("The word 中文 here", "en"), ("123", "zh"), ("", "zh")]
)
def test_language(text: str, lang: str) -> None:
    assert Document((Block("paragraph", (Run(text),)),)).lang == lang


@given(st.integers(1, 9_999))
def test_chinese_numerals_go_there_and_back(number: int) -> None:
    assert parsed_chinese(chinese(number)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("十", 10),
        ("十二", 12),
        ("一百零五", 105),
        ("一百一十", 110),
        ("二〇二四", 2024),
        ("两千", 2000),
        ("零", 0),
        ("", None),
        ("一二十", None),
        ("百", None),
        ("十百", None),
        ("甲", None),
    ],
)
def test_chinese_numerals(text: str, number: int | None) -> None:
    assert parsed_chinese(text) == number


@pytest.mark.parametrize(
    ("number", "form", "text"),
    [
        (3, "decimal", "3"), (12, "chineseCountingThousand", "十二"), (28, "lowerLetter", "bb"), (4, "upperRoman", "IV"), (1994, "lowerRoman", "mcmxciv"), (7, "decimalZero", "07"),
        (3, "decimalEnclosedCircle", "③"), (12, "decimalFullWidth", "１２"), (3, "ideographTraditional", "丙"), (3, "bullet", ""), (0, "upperLetter", "0"), (99_999, "chineseCounting", "99999"),
        (0, "chineseCounting", "零"),
    ],
)  # fmt: skip
def test_numeral_forms(number: int, form: str, text: str) -> None:
    assert numeral(number, form) == text


@pytest.mark.parametrize(
    ("link", "safe"),
    [
        ("http://a", "http://a"), ("MAILTO:a@b", "MAILTO:a@b"), ("a.md#x", "a.md#x"), ("#x", "#x"), ("javascript:x", ""), (" java\nscript:x", ""), ("data:x", ""), ("//evil", ""),
        ("\\\\evil", ""), ("file:///etc", ""), ("\x01javascript:x", ""),
    ],
)  # fmt: skip
def test_links(link: str, safe: str) -> None:
    assert safe_link(link) == safe


def test_every_loss_has_its_words() -> None:
    written = {code for tests in loss._TESTS.values() for code, _ in tests}
    assert written <= set(losses.LOSS_WORDS)
    assert losses.say_loss("comments", "zh", 3) == "批注未读取（3）"
    assert losses.say_loss("encoding", "en", detail="gb18030") == "the source is not UTF-8; it is written as UTF-8: gb18030"
