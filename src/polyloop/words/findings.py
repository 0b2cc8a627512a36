"""What an audit says of a document: a sentence for each code of a finding, the names of rules and of places, in Chinese and English.

Parameters stand in braces; a document's own words come as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MESSAGE_WORDS: Final[dict[str, tuple[str, str]]] = {
    "numbering_gap": ("序号“{label}”不连续，此处应为第{expected}项", "number “{label}” leaves a gap; {expected} was expected"),
    "numbering_repeat": ("序号“{label}”重复", "number “{label}” is used twice"),
    "numbering_order": ("序号“{label}”与前面的“{previous}”顺序不符", "number “{label}” does not follow “{previous}”"),
    "level_order": ("层次“{label}”高于它所在的层次“{outer}”", "level “{label}” stands inside the lower level “{outer}”"),
    "level_skipped": ("标题从{previous}级直接跳到{level}级", "heading level jumps from {previous} to {level}"),
    "numbering_style": (
        "同一层次序号写法不一：此处为“{label}”（{count}处），多数为“{usual}”（{usual_count}处）",
        "one level is numbered in two styles: “{label}” here ({count}), mostly “{usual}” ({usual_count})",
    ),
    "date_impossible": ("日期“{date}”不存在", "the date “{date}” does not exist"),
    "date_format_mixed": (
        "日期格式不统一：此处为“{date}”（{count}处），多数如“{usual}”（{usual_count}处）",
        "dates are written in two ways: “{date}” here ({count}), mostly like “{usual}” ({usual_count})",
    ),
    "date_padding_mixed": (
        "月、日是否补零不统一：此处为“{date}”，多数如“{usual}”",
        "noughts in dates are not uniform: “{date}” here, mostly like “{usual}”",
    ),
    "weekday_wrong": ("“{date}”不是{said}，而是{actual}", "“{date}” is {actual}, not {said}"),
    "date_range_reversed": ("结束日期“{second}”早于开始日期“{first}”", "the end “{second}” is before the start “{first}”"),
    "date_label_order": ("时间先后矛盾：“{second}”早于“{first}”", "“{second}” comes before “{first}”, against what they stand for"),
    "deadline_before_issue": ("截止日期“{deadline}”早于成文日期“{issued}”", "the deadline “{deadline}” is before the date of issue “{issued}”"),
    "thousands_broken": ("数字“{number}”的千位分隔有误", "thousands in “{number}” are parted wrongly"),
    "number_comma_wide": ("数字“{number}”中用了全角逗号", "“{number}” holds a full-width comma"),
    "digits_wide": ("数字“{number}”用了全角字符", "“{number}” is written in full-width digits"),
    "separators_mixed": ("金额千位分隔不统一：“{number}”与“{usual}”", "thousands are parted in some amounts only: “{number}” and “{usual}”"),
    "half_width_in_chinese": ("中文语句中用了半角标点“{mark}”（本段{count}处）", "half-width “{mark}” in Chinese text ({count} in this passage)"),
    "full_width_in_english": ("英文语句中用了全角标点“{mark}”（本段{count}处）", "full-width “{mark}” in English text ({count} in this passage)"),
    "marks_doubled": ("标点“{marks}”重复", "the marks “{marks}” are doubled"),
    "mark_unpaired": ("“{mark}”没有配对", "“{mark}” has no partner"),
    "bracket_width": ("括号全角半角不一致：“{opened}”与“{closed}”", "brackets of different widths: “{opened}” and “{closed}”"),
    "words_repeated": ("文字重复：“{words}”", "words repeated: “{words}”"),
    "paragraph_repeated": ("段落与前文完全相同", "this paragraph stood before, word for word"),
    "abbreviation_redefined": ("简称“{short}”前后指代不同的全称", "the short name “{short}” is given to two different names"),
    "abbreviation_two_names": ("同一全称先后简称为“{first}”和“{short}”", "one name is shortened to “{first}” and to “{short}”"),
    "abbreviation_early": ("简称“{short}”在定义之前已使用", "the short name “{short}” is used before it is introduced"),
    "abbreviation_undefined": ("简称“{short}”没有说明全称", "the short name “{short}” is never introduced"),
    "acronym_undefined": ("缩写“{short}”没有说明全称", "the abbreviation “{short}” is never explained"),
    "organisation_differs": ("单位名称不一致：此处为“{name}”，另有“{usual}”", "the organisation is written “{name}” here and “{usual}” elsewhere"),
    "total_row_differs": (
        "“{column}”列合计为{said}，各行相加为{computed}{unit}",
        "the total of column “{column}” says {said}; the rows add up to {computed}{unit}",
    ),
    "total_column_differs": (
        "本行“{column}”为{said}，各列相加为{computed}{unit}",
        "“{column}” of this row says {said}; the columns add up to {computed}{unit}",
    ),
    "product_differs": ("“{column}”为{said}，单价乘数量为{computed}{unit}", "“{column}” says {said}; price times quantity is {computed}{unit}"),
    "title_missing": ("缺少标题", "the title is missing"),
    "recipient_missing": ("{kind}缺少主送机关", "the {kind} names no recipient"),
    "signature_missing": ("{kind}缺少落款", "the {kind} is not signed"),
    "date_missing": ("{kind}缺少成文日期", "the {kind} is not dated"),
    "document_number_form": ("发文字号“{number}”写法不规范，应为“{right}”", "the document number “{number}” should be written “{right}”"),
    "reference_dangling": ("引用的“{target}”在文中不存在", "“{target}” is referred to and does not exist"),
    "amount_capitals_differ": ("金额“{figures}”与大写“{capitals}”不一致", "the amount “{figures}” is not the one in capitals, “{capitals}”"),
    "amount_differs": ("“{name}”前后不一致：“{first}”与“{second}”", "“{name}” is “{first}” and “{second}”"),
    "more_findings": ("此类问题还有{count}处（或更多），未逐一列出", "{count} more of this kind (or beyond) are not listed"),
}

#: What each rule looks for, for lists of rules.
RULE_WORDS: Final[dict[str, tuple[str, str]]] = {
    "heading_numbering": ("标题与条款序号的连续和层次", "order and levels of heading numbers"),
    "numbering_style": ("同级序号写法", "one style of numbers per level"),
    "date_validity": ("日期是否存在", "dates that exist"),
    "date_format": ("日期格式统一", "one way of writing dates"),
    "weekday": ("日期与星期相符", "weekdays that match their dates"),
    "date_order": ("日期先后", "dates in a possible order"),
    "number_format": ("数字写法", "how numbers are written"),
    "amount_capitals": ("金额大小写一致", "amounts in figures and capitals"),
    "amount_consistency": ("同一金额前后一致", "one amount under one name"),
    "table_sums": ("表格合计", "sums in tables"),
    "punctuation_width": ("标点全角半角", "width of punctuation"),
    "punctuation_repeat": ("标点重复", "doubled punctuation"),
    "paired_marks": ("引号括号配对", "quotes and brackets that pair"),
    "repeated_words": ("文字重复", "repeated words"),
    "repeated_paragraphs": ("段落重复", "repeated paragraphs"),
    "abbreviations": ("简称的定义与使用", "short names and their introduction"),
    "organisation_names": ("单位名称一致", "organisation names spelled alike"),
    "document_parts": ("标题、主送、落款、日期", "title, recipient, signature, date"),
    "document_number": ("发文字号", "form of the document number"),
    "references": ("附件、条款、图表引用", "references to attachments, articles, tables"),
}

_PLACES: Final = {
    "line": ("第{number}行", "line {number}"),
    "paragraph": ("第{number}段", "paragraph {number}"),
    "table": ("表{number}", "table {number}"),
    "footnote": ("脚注{number}", "note {number}"),
    "block": ("第{number}块", "block {number}"),
}


def say_finding(code: str, params: Mapping[str, object], lang: str) -> str:
    """A finding's sentence, zh or en."""
    return MESSAGE_WORDS[code][0 if lang == "zh" else 1].format_map(params)


def say_rule(rule: str, lang: str) -> str:
    """What a rule looks for; a rule that is a model's own says it by its name."""
    return RULE_WORDS[rule][0 if lang == "zh" else 1] if rule in RULE_WORDS else rule


def say_place(lang: str, unit: str, number: int, page: int = 0, row: int = 0, column: int = 0) -> str:
    """A place in a document: all numbers count from 1, 0 = there is none."""
    zh = lang == "zh"
    place = _PLACES[unit][0 if zh else 1].format(number=number)
    if page:
        place = (f"第{page}页" if zh else f"page {page}, ") + place
    if row:
        place += f"（表格第{row}行第{column}格）" if zh else f" (row {row}, cell {column} of the table)"
    return place
