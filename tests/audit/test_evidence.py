"""Evidence: quotes are verbatim for us and for readers that are not ours, and places are right."""

from __future__ import annotations

import io
import re
from pathlib import Path

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.audit.checks import MAX_FINDINGS_PER_RULE, RULES, check
from polyloop.audit.checks.finding import Finding
from polyloop.formats import read, write
from polyloop.formats.blocks import Block, Document, Run
from polyloop.words.findings import MESSAGE_WORDS, RULE_WORDS, say_finding, say_place

FIXTURES = Path(__file__).parents[1] / "formats" / "fixtures"
FOREIGN = ["pandoc-notice.docx", "libreoffice-notice.docx", "libreoffice-notice.pdf", "chromium-notice.pdf"]
SAMPLE = {
    ("heading_numbering", "numbering_gap"), ("date_order", "date_range_reversed"), ("amount_capitals", "amount_capitals_differ"),
    ("table_sums", "total_row_differs"), ("punctuation_width", "half_width_in_chinese"), ("paired_marks", "mark_unpaired"),
    ("organisation_names", "organisation_differs"), ("references", "reference_dangling"), ("repeated_words", "words_repeated"),
}  # fmt: skip


def place(finding: Finding, lang: str) -> str:
    at = finding.evidence.location
    return say_place(lang, at.unit, at.number, at.page, at.row, at.column)


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_have_the_faults_and_a_foreign_reader_finds_the_quotes(name: str) -> None:
    findings = check(read(name, (FIXTURES / name).read_bytes()))
    expected = SAMPLE - {("table_sums", "total_row_differs")} if name.endswith("pdf") else SAMPLE  # a pdf has no tables
    assert {(each.rule, each.code) for each in findings} == expected
    foreign = (FIXTURES / f"{name}.txt").read_text("utf-8")
    for each in findings:
        assert each.evidence.quote in foreign


def test_a_foreign_pdf_of_a_clean_document_has_no_finding() -> None:
    assert check(read("policy.pdf", (FIXTURES / "chromium-policy.pdf").read_bytes())) == []


def test_a_word_file_of_ours_has_the_same_findings_as_its_source() -> None:
    document = read("pandoc-notice.docx", (FIXTURES / "pandoc-notice.docx").read_bytes())
    again = read("again.docx", write(document, "docx"))
    assert [(each.code, each.evidence.quote) for each in check(again)] == [(each.code, each.evidence.quote) for each in check(document)]
    opened = docx.Document(io.BytesIO(write(document, "docx")))
    text = "\n".join([each.text for each in opened.paragraphs] + [cell.text for table in opened.tables for row in table.rows for cell in row.cells])
    assert all(each.evidence.quote in text for each in check(again))


WORDS = st.sampled_from([
    "一、", "（一）", "1. ", "（1）", "第一条", "第三条", "2024年1月1日", "2024-02-30", "2024.3.1", "5 May 2024", "“", "”", "《", "》", "（", "）",
    "(", ")",
    "。", "，", ",,", "的的", "合同总价", "100元", "1,0000元", "壹佰元整", "（以下简称“甲方”）",
    "附件2", "江州市数据局", "**粗**", "`码`", "[链](a.md)", "\\*",
    "&amp;", "<br>", "the the ", "Section 9 ", "Appendix Z ", "DPO ", "有限公司有限公司", "至", "前", "通知", "\n", "\n\n", "\n> ", "\n- ", "\n# ",
    "\n|a|b|\n|-|-|\n|合计|3|\n",
])  # fmt: skip


@given(st.lists(WORDS, max_size=40).map("".join), st.sampled_from(["a.md", "a.txt"]))
def test_whatever_the_text_quotes_are_verbatim_in_the_file(text: str, name: str) -> None:
    document = read(name, ("甲" + text).encode())  # a file without any text is refused
    for each in check(document):
        for evidence in (each.evidence, *each.related):
            assert evidence.quote in "甲" + text
            assert evidence.quote in document.text
        assert say_finding(each.code, each.params, "zh") != say_finding(each.code, each.params, "en")
        assert place(each, "en")


def test_what_markup_interrupts_is_quoted_up_to_there() -> None:
    text = "# 通告\n\n我们在**工作的**的基础上继续。\n"
    [finding] = [each for each in check(read("a.md", text.encode())) if each.rule == "repeated_words"]
    assert finding.evidence.quote in text
    assert len(finding.evidence.quote) >= 3


def test_a_fault_across_line_ends_is_found_and_quoted_as_it_stands() -> None:
    wrapped = "# 通告\n\n会议定于2024年2月\n30日召开。\n"
    [finding] = [each for each in check(read("a.md", wrapped.encode())) if each.rule == "date_validity"]
    assert (finding.evidence.quote, finding.evidence.location.number) == ("2024年2月\n30日", 3)


def test_radical_forms_and_typeset_blanks_are_read_as_what_they_show() -> None:
    runs = (Run("⼀、会议定于 2024 年 2 ⽉ 30 ⽇召开，"),)
    [finding] = RULES[4].check(Document((Block("paragraph", runs),)))
    assert (finding.code, finding.evidence.quote) == ("date_impossible", "2024 年 2 ⽉ 30 ⽇")
    assert place(finding, "zh") == "第1块"


def test_a_document_full_of_one_fault_is_told_so_once() -> None:
    text = "# 通告\n\n" + "\n\n".join(f"第{number}次会议定于2024年2月30日召开" for number in range(MAX_FINDINGS_PER_RULE + 25))
    found = [each for each in check(read("a.md", text.encode())) if each.rule == "date_validity"]
    assert len(found) == MAX_FINDINGS_PER_RULE + 1
    assert (found[-1].code, found[-1].params) == ("more_findings", {"count": "25"})


def test_places_in_tables_and_pages_are_named() -> None:
    document = read("chromium-notice.pdf", (FIXTURES / "chromium-notice.pdf").read_bytes())
    for each in check(document):
        location = each.evidence.location
        page = re.sub(
            r"\s", "", "".join(block.text for block in document.blocks if block.span and location.page in (block.span.page, block.span.end_page))
        )
        assert re.sub(r"\s", "", each.evidence.quote)[:4] in page
    table = "|项|数|\n|-|-|\n|甲|1|\n|乙|2|\n|合计|4|\n"
    [total] = [each for each in check(read("a.md", table.encode())) if each.rule == "table_sums"]
    assert place(total, "zh") == "第5行（表格第4行第2格）"
    assert place(total, "en") == "line 5 (row 4, cell 2 of the table)"


def test_every_code_and_rule_has_its_words() -> None:
    assert set(RULE_WORDS) == {rule.name for rule in RULES}
    for zh, en in MESSAGE_WORDS.values():
        assert sorted(re.findall(r"{\w+}", zh)) == sorted(re.findall(r"{\w+}", en)) or "{expected}" in en + zh
