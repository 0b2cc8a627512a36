"""Each rule finds its planted fault in a document that has no other, and nothing else is reported."""

# ruff: noqa: E501 - a row of the table is a line
from __future__ import annotations

from pathlib import Path

import pytest

from polyloop.audit.checks import RULES, check
from polyloop.formats import read

CLEAN = Path(__file__).parent / "clean"

# file, text that stands there, the fault in its place, rule, code, what the evidence quotes
PLANTED = [
    # --- heading_numbering
    ("report.txt", "三、资金使用情况", "四、资金使用情况", "heading_numbering", "numbering_gap", "四、资金使用情况"),
    ("report.txt", "（二）水位情况", "（三）水位情况", "heading_numbering", "numbering_gap", "（三）水位情况"),
    ("report.txt", "四、存在的主要问题", "三、存在的主要问题", "heading_numbering", "numbering_repeat", "三、存在的主要问题"),
    ("report.txt", "3. 河道清淤。", "4. 河道清淤。", "heading_numbering", "numbering_gap", "4. 河道清淤"),
    ("report.txt", "五、下一步工作打算", "二、下一步工作打算", "heading_numbering", "numbering_order", "二、下一步工作打算"),
    ("contract.md", "第二十二条 因履行", "第二十一条 因履行", "heading_numbering", "numbering_repeat", "第二十一条 因履行"),
    ("contract.md", "## 第四章", "## 第五章", "heading_numbering", "numbering_gap", "第五章 双方"),
    ("notice.md", "### （一）登记主体", "#### （一）登记主体", "heading_numbering", "level_skipped", "（一）登记主体"),
    ("policy.md", "4.3 A refusal", "4.4 A refusal", "heading_numbering", "numbering_gap", "4.4 A refusal"),
    ("policy.md", "## 8. Monitoring", "## 9. Monitoring", "heading_numbering", "numbering_gap", "9. Monitoring"),
    ("policy.md", "(c) the home workplace", "(d) the home workplace", "heading_numbering", "numbering_gap", "(d) the home"),
    # --- numbering_style
    ("report.txt", "（二）推进智慧防汛", "(二)推进智慧防汛", "numbering_style", "numbering_style", "(二)推进智慧防汛"),
    ("report.txt", "四、存在的主要问题", "四．存在的主要问题", "numbering_style", "numbering_style", "四．存在的主要问题"),
    ("report.txt", "2. 泵站建设。", "2、泵站建设。", "numbering_style", "numbering_style", "2、泵站建设"),
    ("contract.md", "第十七条 乙方不得", "第17条 乙方不得", "numbering_style", "numbering_style", "第17条 乙方不得"),
    ("agreement.txt", "7. LIABILITY", "7) LIABILITY", "numbering_style", "numbering_style", "7) LIABILITY"),
    # --- date_validity
    ("report.txt", "2024年4月15日前", "2024年4月31日前", "date_validity", "date_impossible", "2024年4月31日"),
    ("report.txt", "5月22日，市防指", "13月22日，市防指", "date_validity", "date_impossible", "13月22日"),
    ("policy.md", "reviewed on or before 30 September 2026", "reviewed on or before 31 September 2026", "date_validity", "date_impossible", "31 September 2026"),
    # --- date_format
    ("contract.md", "签订日期：2025年3月18日\n\n附件1", "签订日期：2025.3.18\n\n附件1", "date_format", "date_format_mixed", "2025.3.18"),
    ("report.txt", "于2024年4月15日前", "于2024-04-15前", "date_format", "date_format_mixed", "2024-04-15"),
    ("contract.md", "2025年4月1日起", "2025年04月01日起", "date_format", "date_padding_mixed", "2025年04月01日"),
    ("policy.md", "on 1 October 2024", "on October 1, 2024", "date_format", "date_format_mixed", "October 1, 2024"),
    # --- weekday
    ("notice.md", "（星期四）", "（星期五）", "weekday", "weekday_wrong", "2025年3月20日（星期五）"),
    ("policy.md", "effect on 1 October 2024", "effect on Monday, 1 October 2024", "weekday", "weekday_wrong", "Monday, 1 October 2024"),
    # --- date_order
    ("contract.md", "至2026年3月31日止", "至2024年3月31日止", "date_order", "date_range_reversed", "2025年4月1日起至2024年3月31日"),
    ("tender.md", "2. 开标时间：2025年6月18日", "2. 开标时间：2025年6月8日", "date_order", "date_label_order", "2025年6月8日"),
    ("notice.md", "请各单位于2025年3月28日前", "请各单位于2025年2月28日前", "date_order", "deadline_before_issue", "2025年2月28日"),
    ("agreement.txt", "until 31 May 2025", "until 31 May 2023", "date_order", "date_range_reversed", "1 June 2024 and continues until 31 May 2023"),
    # --- number_format
    ("contract.md", "人民币1,146,000.00元", "人民币1,1460,00.00元", "number_format", "thousands_broken", "1,1460,00.00"),
    ("report.txt", "资金总额6,800万元", "资金总额6，800万元", "number_format", "number_comma_wide", "6，800"),
    ("report.txt", "移动泵车36台", "移动泵车３６台", "number_format", "digits_wide", "３６"),
    ("contract.md", "30%，即人民币859,500.00元；", "30%，即人民币859500.00元；", "number_format", "separators_mixed", "859500.00元"),
    ("agreement.txt", "£1,000,000", "£1,0000,00", "number_format", "thousands_broken", "1,0000,00"),
    # --- amount_capitals
    ("contract.md", "贰佰捌拾陆万伍仟元整", "贰佰捌拾陆万伍佰元整", "amount_capitals", "amount_capitals_differ", "贰佰捌拾陆万伍佰元整（¥2,865,000.00"),
    ("contract.md", "14.325万元（大写", "14.235万元（大写", "amount_capitals", "amount_capitals_differ", "14.235万元（大写：壹拾肆万叁仟贰佰伍拾元整"),
    # --- amount_consistency
    ("notice.md", "（三）压实安全责任\n", "（三）压实安全责任\n\n本项目预算金额为230万元。\n\n预算金额为320万元。\n", "amount_consistency", "amount_differs", "320万元"),
    ("agreement.txt", "8.2 Changes", "The total fee is £148,500.\n\n8.2 Changes", "amount_consistency", "amount_differs", "£148,500"),
    # --- table_sums
    ("notice.md", "| 合计 | | 169 | 3,785 | 230.00 |", "| 合计 | | 169 | 3,758 | 230.00 |", "table_sums", "total_row_differs", "3,758"),
    ("contract.md", "| 68,750.00 | 12 | 825,000.00 |", "| 67,850.00 | 12 | 825,000.00 |", "table_sums", "product_differs", "825,000.00"),
    ("policy.md", "| Total | 78 | 24,804.00 |", "| Total | 87 | 24,804.00 |", "table_sums", "total_row_differs", "87"),
    # --- punctuation_width
    ("report.txt", "水位情况\n\n江河水位总体平稳，", "水位情况\n\n江河水位总体平稳,", "punctuation_width", "half_width_in_chinese", "总体平稳,"),
    ("contract.md", "政务云平台（以下简称“平台”）", "政务云平台(以下简称“平台”)", "punctuation_width", "half_width_in_chinese", "政务云平台("),
    ("policy.md", "within two hours, and", "within two hours， and", "punctuation_width", "full_width_in_english", "two hours， and"),
    # --- punctuation_repeat
    ("report.txt", "挤占挪用问题。", "挤占挪用问题。。", "punctuation_repeat", "marks_doubled", "挪用问题。。"),
    ("policy.md", "at home.", "at home..", "punctuation_repeat", "marks_doubled", "at home.."),
    # --- paired_marks
    ("report.txt", "坚持“人民至上、生命至上”", "坚持“人民至上、生命至上", "paired_marks", "mark_unpaired", "“人民至上"),
    ("report.txt", "坚持“人民至上、生命至上”", "坚持“人民至上、生命至上“", "paired_marks", "mark_unpaired", "生命至上“"),
    ("notice.md", "《中华人民共和国个人信息保护法》", "《中华人民共和国个人信息保护法", "paired_marks", "mark_unpaired", "《中华人民共和国个人"),
    ("notice.md", "联络员名单（附件2）报送", "联络员名单（附件2)报送", "paired_marks", "bracket_width", "（附件2)"),
    ("policy.md", "restricted list (see Appendix C).", "restricted list (see Appendix C.", "paired_marks", "mark_unpaired", "(see Appendix"),
    ("policy.md", 'below "Satisfactory" in', 'below "Satisfactory in', "paired_marks", "mark_unpaired", '"Satisfactory'),
    # --- abbreviations
    ("notice.md", "（以下简称《办法》）", "", "abbreviations", "abbreviation_undefined", "《办法》"),
    ("contract.md", "考核办法见附件1。", "考核办法见附件1。江州市信用信息系统（以下简称“平台”）同步记录。", "abbreviations", "abbreviation_redefined", "（以下简称“平台”）"),
    ("notice.md", "不低于98.5%。", "不低于98.5%。《公共数据资源登记管理暂行办法》（以下简称《暂行办法》）同时适用。", "abbreviations", "abbreviation_two_names", "《暂行办法》"),
    ("report.txt", "江河水位总体平稳，", "市防指会商研判，江河水位总体平稳，", "abbreviations", "abbreviation_early", "市防指会商研判"),
    ("policy.md", "The Data Protection Officer (DPO) is", "The Data Protection Officer is", "abbreviations", "acronym_undefined", "DPO"),
    ("agreement.txt", "8.3 Notices", 'The Drainage Board (the "Client") agrees.\n\n8.3 Notices', "abbreviations", "abbreviation_redefined", 'The Drainage Board (the "Client")'),
    # --- organisation_names
    ("contract.md", "乙方（盖章）：北京星河科技有限公司", "乙方（盖章）：北京星合科技有限公司", "organisation_names", "organisation_differs", "北京星合科技有限公司"),
    ("tender.md", "江州华信招标代理有限公司\n\n2025", "江州华信代理有限公司\n\n2025", "organisation_names", "organisation_differs", "江州华信代理有限公司"),
    # --- document_parts
    ("notice.md", "# 江州市数据局关于开展2025年度公共数据资源登记工作的通知\n\n江数发〔2025〕12号\n\n", "", "document_parts", "title_missing", "各区县人民政府"),
    ("notice.md", "各区县人民政府，市级各部门，有关单位：\n\n", "", "document_parts", "recipient_missing", "为贯彻落实"),
    ("report.txt", "江州市水务局\n\n2025年1月16日", "2025年1月16日", "document_parts", "signature_missing", "联系人"),
    ("letter.md", "海川市交通运输局\n\n2026年5月20日", "2026年5月20日", "document_parts", "signature_missing", ""),
    ("report.txt", "江州市水务局\n\n2025年1月16日", "江州市水务局", "document_parts", "date_missing", "联系人"),
    ("agreement.txt", "CONSULTING SERVICES AGREEMENT\n\n", "", "document_parts", "title_missing", "This Consulting"),
    # --- document_number
    ("notice.md", "江数发〔2025〕12号", "江数发[2025]12号", "document_number", "document_number_form", "江数发[2025]12号"),
    ("notice.md", "江数发〔2025〕12号", "江数发〔2025〕第012号", "document_number", "document_number_form", "江数发〔2025〕第012号"),
    # --- references
    ("notice.md", "联络员名单（附件2）", "联络员名单（附件3）", "references", "reference_dangling", "附件3"),
    ("contract.md", "违反本合同第六条约定", "违反本合同第三十六条约定", "references", "reference_dangling", "第三十六条"),
    ("report.txt", "偏多18.3%，", "偏多18.3%（见表2），", "references", "reference_dangling", "见表2"),
    ("policy.md", "requirements of Section 5.", "requirements of Section 15.", "references", "reference_dangling", "Section 15"),
    ("policy.md", "The form is in Appendix B.", "The form is in Appendix D.", "references", "reference_dangling", "Appendix D"),
    ("agreement.txt", "set out below", "set out in Schedule 4", "references", "reference_dangling", "Schedule 4"),
    # --- repeated_words
    ("report.txt", "我局在市委、市政府的坚强领导下", "我局在市委、市政府的的坚强领导下", "repeated_words", "words_repeated", "市政府的的坚强"),
    ("report.txt", "全部资金均按规定用途使用", "全部资金资金均按规定用途使用", "repeated_words", "words_repeated", "资金资金"),
    ("policy.md", "may work away from the office", "may work away from the the office", "repeated_words", "words_repeated", "the the"),
    # --- repeated_paragraphs
    ("report.txt", "（四）完善应急预案\n", "建设城市内涝监测预警平台，布设积水监测点位300个，实现积水深度、泵站运行、视频监控“一屏统览”。\n\n（四）完善应急预案\n", "repeated_paragraphs", "paragraph_repeated", "建设城市内涝监测预警平台"),
    ("policy.md", "## 9. Review", "Paper records must not be kept at home, and data must stay on encrypted devices.\n\nPaper records must not be kept at home, and data must stay on encrypted devices.\n\n## 9. Review", "repeated_paragraphs", "paragraph_repeated", "Paper records"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "right", "wrong", "rule", "code", "quote"), PLANTED, ids=[f"{row[4]}-{at}" for at, row in enumerate(PLANTED)])
def test_planted_fault_is_found_and_nothing_else(file: str, right: str, wrong: str, rule: str, code: str, quote: str) -> None:
    text = (CLEAN / file).read_text("utf-8")
    assert right in text
    document = read(file, text.replace(right, wrong, 1).encode())
    findings = check(document)
    assert {(finding.rule, finding.code) for finding in findings} == {(rule, code)}
    assert quote in findings[0].evidence.quote


def test_every_rule_has_planted_faults() -> None:
    planted = {(row[3], "en" if row[0] in ("policy.md", "agreement.txt") else "zh") for row in PLANTED}
    assert planted == {(rule.name, lang) for rule in RULES for lang in rule.langs}


#: One letter with a fault of every rule: what stands there, and what is put in its place.
EVERY = [
    ("海川市公安局：\n\n", ""),
    ("海交函〔2026〕37号", "海交函[2026]37号"),
    ("（三）应急处置准备", "（四）应急处置准备"),
    ("（二）请贵局提供", "(二)请贵局提供"),
    ("2026年6月3日前反馈", "2026年6月31日前反馈"),
    ("6月8日至6月26日", "6月28日至6月26日"),
    ("共计412座", "共计４12座"),
    ("| 合计 | | | 865,000.00 |", "| 合计 | | | 856,000.00 |"),
    ("四类、五类", "四类,五类"),
    ("值班值守情况。", "值班值守情况。。"),
    ("货车“百吨王”治理", "货车“百吨王治理"),
    ("（见附件2）", "（见附件4）"),
    ("做好检查期间的", "做好检查期间的的"),
    ("专此函达", "启动会定于2026年6月5日（星期一）召开，2026-06-05发布通告。费用为人民币12,000.00元（大写：壹万叁仟元整）。\n\n专此函达"),
    ("专此函达", "预算总额为68.50万元。\n\n海川市交通科学研究院负责技术支持，海川市交通科技研究院参加，按照《办法》执行。\n\n专此函达"),
    ("专此函达", "全市普通国道、省道和县道桥梁，共计４12座，其中特大桥6座、大桥58座、中桥133座、小桥215座。\n\n专此函达"),
]  # fmt: skip


def test_faults_of_every_rule_in_one_document_are_all_found() -> None:
    text = (CLEAN / "letter.md").read_text("utf-8")
    for right, wrong in EVERY:
        assert right in text
        text = text.replace(right, wrong, 1)
    assert {finding.rule for finding in check(read("letter.md", text.encode()))} == {rule.name for rule in RULES}
