"""The sample that ships with the audit: its planted faults, all of them and no other, with their places."""

from __future__ import annotations

from importlib.resources import files

from polyloop.audit.checks import check
from polyloop.formats import read
from polyloop.words.findings import say_finding

# rule, code, quote, line
EXPECTED = [
    ("heading_numbering", "numbering_gap", "（四）检查方式", 35),
    ("date_order", "date_range_reversed", "2025年7月1日至6月30日", 49),
    ("amount_capitals", "amount_capitals_differ", "壹佰捌拾玖万元整（¥1,980,000.00", 65),
    ("table_sums", "total_row_differs", "198.00", 25),
    ("punctuation_width", "half_width_in_chinese", "队伍、应急物资装备等情况,特别是危险化学品企业的应", 33),
    ("paired_marks", "mark_unpaired", "25日前报送工作进展情况（附件2。联系人：高翔，联", 69),
    ("organisation_names", "organisation_differs", "云川市安全科学研究院", 55),
    ("references", "reference_dangling", "案和联络员名单（附件3）报送市安委会办", 69),
    ("repeated_words", "words_repeated", "、层层抓落实的的工作格局。", 61),
]


def sample() -> bytes:
    return (files("polyloop.audit") / "sample" / "notice.md").read_bytes()


def test_the_sample_has_its_planted_faults() -> None:
    findings = check(read("notice.md", sample()))
    assert [(each.rule, each.code, each.evidence.quote, each.evidence.location.number) for each in findings] == EXPECTED


def test_each_quote_stands_in_its_line() -> None:
    lines = sample().decode().splitlines()
    for _, _, quote, line in EXPECTED:
        assert quote in lines[line - 1]


def test_the_sample_is_said_in_both_languages() -> None:
    findings = check(read("notice.md", sample()))
    assert say_finding(findings[3].code, findings[3].params, "zh") == "“检查经费（万元）”列合计为198.00，各行相加为189"
    assert say_finding(findings[3].code, findings[3].params, "en") == "the total of column “检查经费（万元）” says 198.00; the rows add up to 189"
