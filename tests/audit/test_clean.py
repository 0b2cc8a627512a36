"""Clean documents have no finding: whole ones written as offices write them, and near misses of each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyloop.audit.checks import check
from polyloop.formats import read

CLEAN = sorted((Path(__file__).parent / "clean").iterdir())
FRAME = "江州市数据局关于登记工作的通告\n\n{}\n\n江州市数据局\n\n2025年3月5日\n"

NEAR_MISSES = {
    "的 after a word that ends with it": "以营利为目的的活动不在此列。",
    "了 before a word that begins with it": "为了了解情况，我们到现场查看。",
    "each and every": "要一步一步、一个一个地落实，做到层层把关、人人有责。",
    "a compound after its own beginning": "负责管理管理人员的档案。",
    "a range of years and days": "工期为2025年12月20日至2026年1月10日。",
    "a leap day": "截至2024年2月29日，工作已全部完成。",
    "times, ratios and addresses": "比例为4:6，时间为9:30，网址为https://a.example.cn/x?y=1,2。",
    "a formula in half-width brackets": "面积（m²）按f(x)计算，依据GB/T 9704—2012执行。",
    "quotes inside quotes": "他说：“文件里写的是‘按期完成’，不是‘尽快完成’。”",
    "an ellipsis and a question with an exclamation": "怎么办？！大家都在想……",
    "a list mark with a closing bracket only": "1）先登记；2）后审核。",
    "other provinces' offices": "由江苏省财政厅、江西省财政厅、浙江省杭州市财政局和浙江省湖州市财政局会签。",
    "numbered schools": "江州市第一中学、江州市第二中学参加。江州市第一人民医院、江州市第三人民医院保障。",
    "an office and its bureau": "江州市人民政府、江州市人民政府办公室、江州市教育局、江州市体育局参加。",
    "articles of another law": "依照《中华人民共和国行政许可法》第四十二条、第四十三条的规定办理。",
    "amounts in both forms that agree": "费用为1,234.56元（大写：壹仟贰佰叁拾肆元伍角陆分）。",
    "amounts of several lots": "投标保证金：第一标段投标保证金为10万元，第二标段投标保证金为20万元。",
    "one amount in two units": "预算金额为1.5万元。经核定，预算金额为15,000元。",
    "a title in guillemets inside another": "按照《关于印发〈江州市档案管理办法〉的通知》执行。",
    "a document number in full form": "根据江政发〔2024〕5号文件和（2024）京01民初12号判决执行。",
    "short lines that recur": "单位（盖章）：\n\n经办人：\n\n单位（盖章）：\n\n经办人：",
    "long figures that are no money": "电话0571850012345，编号20250305001，人口12345678人。",
    "a weekday that is right": "会议定于2025年3月3日（周一）召开。",
}  # fmt: skip
TABLES = {
    "subtotals": "|项目|金额|\n|--|--|\n|甲一|10|\n|甲二|20|\n|甲小计|30|\n|乙一|5|\n|乙小计|5|\n|合计|35|\n",
    "of which": "|项目|金额|\n|--|--|\n|甲|10|\n|其中：一期|4|\n|乙|5|\n|合计|15|\n",
    "shares that round": "|项目|金额|占比|\n|--|--|--|\n|甲|1|33.3%|\n|乙|1|33.3%|\n|丙|1|33.3%|\n|合计|3|100%|\n",
    "rates are not added": "|项目|金额|增长率|\n|--|--|--|\n|甲|1|5%|\n|乙|1|7%|\n|合计|2|6%|\n",
    "words among the numbers": "|项目|金额|\n|--|--|\n|甲|10|\n|乙|另议|\n|合计|15|\n",
    "empty cells": "|项目|金额|数量|\n|--|--|--|\n|甲|10|-|\n|乙||3|\n|合计|10|3|\n",
    "total column": "|单位|男|女|合计|\n|--|--|--|--|\n|甲|3|4|7|\n|乙|5|6|11|\n|合计|8|10|18|\n",
    "total of a column of years": "|年度|金额|\n|--|--|\n|2023|10|\n|2024|20|\n|合计|30|\n",
    "decimals that round": "|项目|金额（万元）|\n|--|--|\n|甲|1.26|\n|乙|2.37|\n|合计|3.6|\n",
}


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_a_clean_document_has_no_finding(path: Path) -> None:
    assert check(read(path.name, path.read_bytes())) == []


def test_the_clean_documents_are_long_enough_to_tell() -> None:
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in CLEAN}
    assert sum(lines >= 60 for lines in lengths.values()) >= 8, lengths


@pytest.mark.parametrize("text", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_is_no_finding(text: str) -> None:
    assert check(read("near.txt", FRAME.format(text).encode())) == []


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_that_adds_up(table: str) -> None:
    assert check(read("table.md", FRAME.format(table).encode())) == []


def test_a_style_of_word_numbers_is_not_judged() -> None:
    """Lists that a word processor numbers cannot be out of order."""
    text = "# Notes\n\n3. c\n4. d\n\nText.\n\n1. a\n1. b\n1. c\n"
    assert check(read("notes.md", text.encode())) == []
