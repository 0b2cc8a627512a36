"""Faults whose planting needs a document of its own."""

from __future__ import annotations

import pytest

from polyloop.audit.checks import RULES
from polyloop.formats import read

BY_NAME = {rule.name: rule for rule in RULES}

# rule, text, codes expected
CASES = [
    ("heading_numbering", "（一）甲\n\n一、乙\n\n（二）丙\n", ["level_order"]),
    ("heading_numbering", "一、甲\n\n（一）甲\n\n（二）甲\n\n二、乙\n\n（三）乙\n\n（四）乙\n\n三、丙\n\n（五）丙\n", []),
    ("heading_numbering", "一、甲\n\n（一）甲\n\n（二）甲\n\n二、乙\n\n（四）乙\n", ["numbering_gap"]),
    ("heading_numbering", "2．甲\n\n3．乙\n", ["numbering_gap"]),
    ("heading_numbering", "第一章 总则\n\n第一条 甲\n\n第二条 乙\n\n第二章 分则\n\n第三条 丙\n\n第五条 丁\n", ["numbering_gap"]),
    ("heading_numbering", "1 Scope\n\n1.1 General text\n\n1.2 More text\n\n1.2.1 Deep text\n\n1.4 Text\n", ["numbering_gap"]),
    ("heading_numbering", "1.1 One\n\n1.2 Two\n\n1.2 Two again\n\n1.3 Three\n", ["numbering_repeat"]),
    ("heading_numbering", "1.1 One\n\n1.2 Two\n\n2.1 One\n\n1.3 Three\n", ["numbering_order"]),
    ("heading_numbering", "一、甲\n\n二、乙\n\n附件1\n\n一、甲\n\n二、乙\n\n附件2\n\n一、甲\n", []),
    ("date_validity", "二〇二四年二月三十日", ["date_impossible"]),
    ("date_validity", "二〇二四年二月二十九日，1900-01-31，2024/12/31", []),
    ("date_validity", "February 30, 2024 and 31st April 2024", ["date_impossible", "date_impossible"]),
    ("date_format", "2024年1月1日。2024年2月1日。2024.3.1。2024/4/1。", ["date_format_mixed", "date_format_mixed"]),
    ("weekday", "2024年5月1日（星期三）、2024年5月2日（周四）、2024年5月3日（星期天）", ["weekday_wrong"]),
    ("weekday", "on 1 May 2024 (Wednesday), on Thursday, 2 May 2024, on Friday 4 May 2024", ["weekday_wrong"]),
    ("date_order", "开始日期：2024年5月1日\n\n结束日期：2024年4月1日\n", ["date_label_order"]),
    ("date_order", "Notice of meeting\n\nPlease submit papers by 1 May 2024.\n\n2 May 2024\n", ["deadline_before_issue"]),
    ("date_order", "between 3 May 2024 and 1 May 2024; from 3 May 2024 and 1 May 2024", ["date_range_reversed"]),
    ("amount_capitals", "|大写|小写|\n|-|-|\n|壹佰万元整|¥1,000,100.00|\n", ["amount_capitals_differ"]),
    ("amount_capitals", "壹亿零叁佰万元整（¥103,000,000.00）；人民币（大写）贰仟元整，小写：2000元；伍圆整（5元）", []),
    ("amount_consistency", "合同总价为100万元。\n\n合同总价为1,000,000元。\n\n合同总价为101万元。", ["amount_differs"]),
    ("table_sums", "|单位|男|女|合计|\n|-|-|-|-|\n|甲|3|4|7|\n|乙|5|6|11|\n|丙|2|2|5|\n", ["total_column_differs"]),
    ("table_sums", "|项目|占比|\n|-|-|\n|甲|60%|\n|乙|30%|\n|合计|100%|\n", ["total_row_differs"]),
    ("table_sums", "|项目|金额|\n|-|-|\n|甲|10|\n|乙|20|\n|合计|30|\n|丙|5|\n|丁|6|\n|合计|12|\n", ["total_row_differs"]),
    ("document_parts", "江州市数据局关于登记工作\n的通知\n\n各区：\n\n请办理。\n\n江州市数据局\n\n2025年3月5日\n", []),
    ("document_parts", "Memorandum on leave\n\nAll staff take leave in August 2024.\n", ["recipient_missing", "date_missing"]),
    ("document_parts", "# 采购合同\n\n甲方向乙方采购设备。\n", ["signature_missing", "date_missing"]),
    ("document_number", "江政发（2024）5号、江政发〔24〕5号、江政发【2024】05号", ["document_number_form"] * 3),
    ("references", "相关材料见附件，请查收。", ["reference_dangling"]),
    ("references", "材料见附件1。\n\n附件：1. 甲\n\n2. 乙\n\n3. 丙\n\n另见附件3和附件4。", ["reference_dangling"]),
    ("references", "表1 收入\n\n由表1所示，见图3。", ["reference_dangling"]),
    ("references", "第一条 甲\n\n第二条 违反《森林法》第九十条、本办法第一条和第八条的\n\n第三条 丙\n", ["reference_dangling"]),
    ("abbreviations", "《江州市公园管理办法》（以下简称《办法》）施行。违反《办法》的，依《条例》处理。", ["abbreviation_undefined"]),
    ("punctuation_width", "共计(含税)五项;详见说明", ["half_width_in_chinese"]),
    ("paired_marks", "甲（乙）丙）丁", ["mark_unpaired"]),
    ("paired_marks", "‘甲’与“乙’", ["mark_unpaired", "mark_unpaired"]),
    ("paired_marks", "It's the members' choice (see 3) and 5\" wide :)", []),
    ("organisation_names", "由江州星河科技有限公司承办，江州星和科技有限公司协办。", ["organisation_differs"]),
    ("organisation_names", "由江州星河科技股份有限公司承办，江州星河科技有限公司协办。", ["organisation_differs"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "codes"), CASES, ids=[f"{row[0]}-{at}" for at, row in enumerate(CASES)])
def test_rule(name: str, text: str, codes: list[str]) -> None:
    document = read("case.md" if "|" in text or "#" in text else "case.txt", text.encode())
    assert [each.code for each in BY_NAME[name].check(document)] == codes
