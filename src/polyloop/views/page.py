"""A run as one self-contained page: its settings, each step with the raw reply beside what was judged, each recovery, the end.

Nothing is loaded from anywhere and nothing runs; every text of a run is data and is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from polyloop.words.catalog import Lang, say

#: Characters of a text that are shown; the log holds it whole.
SHOWN_CHARS: Final = 20_000
_NOTES: Final = frozenset({
    "resume_started", "replay", "action_deferred", "action_resolved", "cancel_requested", "resume_refused", "tail_repaired", "drift_accepted",
})  # fmt: skip
_HEAD: Final = frozenset({"seq", "kind", "at", "fence", "prev", "hash"})
_CSS: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.6 system-ui,'Noto Sans CJK SC','PingFang SC',sans-serif;max-width:68rem;"
    "margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.3rem;overflow-wrap:anywhere}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}"
    "dt{opacity:.7}dd{margin:0;overflow-wrap:anywhere}"
    "section{border:1px solid #8884;border-left:4px solid #3a7;border-radius:6px;padding:.5rem .9rem;margin:.6rem 0}"
    "section.bad{border-left-color:#c55}"
    "section.note{border-left-color:#c90}header{display:flex;gap:1rem;flex-wrap:wrap;align-items:baseline}header b{font-size:1.05rem}"
    ".two{display:grid;grid-template-columns:1fr 1fr;gap:.8rem}@media(max-width:50rem){.two{grid-template-columns:1fr}}"
    "pre{background:#8881;padding:.6rem;border-radius:4px;overflow:auto;max-height:24rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85em}"
    "small,summary{opacity:.75}code{font-size:.85em}"
)


def run_page(records: Iterable[Mapping[str, Any]], lang: Lang) -> bytes:
    """A page of HTML from a run's materialised records, UTF-8."""
    every = list(records)
    start = every[0]
    body = [f"<h1>{_e(say('page.title', lang))}</h1>{'' if start.get('erased') else _settings(start, lang)}"]
    reply: Mapping[str, Any] = {}
    results: dict[int, Mapping[str, Any]] = {}
    for record in every[1:]:
        kind = record["kind"]
        if record.get("erased"):
            body.append(
                f'<section class="note"><header><b>{_e(kind)}</b><small>#{record["seq"]}</small></header>{_e(say("page.erased", lang))}</section>'
            )
        elif kind == "model_result":
            reply, results = record, {}
        elif kind == "action_result":
            results[record["call"]] = record
        elif kind == "step":
            body.append(_step(record, reply, results.get(record["call"]), lang))
        elif kind in _NOTES:
            told = {name: value for name, value in record.items() if name not in _HEAD and value not in ("", None, [], {})}
            body.append(f'<section class="note"><header><b>{_e(kind)}</b><small>#{record["seq"]}</small></header>{_json(told)}</section>')
    body.append(_end(every[-1], lang))
    title = f"{say('page.title', lang)} · {every[-1]['hash'][:12]}"
    return (
        f'<!DOCTYPE html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{_e(title)}</title><style>{_CSS}</style></head><body>\n'
        + "\n".join(body) + "\n</body></html>\n"
    ).encode("utf-8", "replace")  # fmt: skip


def _settings(start: Mapping[str, Any], lang: Lang) -> str:
    definition, budget = start["definition"], start["budget"]
    rows = {
        say("page.agent", lang): f"{definition['id']} {definition['version']} · {definition['interpreter']}",
        say("page.budget", lang): ", ".join(f"{name} {value:g}" for name, value in budget.items() if value),
        say("page.tools", lang): ", ".join(tool["name"] for tool in start["tools"]),
        **start["assembly"], **start["binding"],
    }  # fmt: skip
    told = "".join(f"<dt>{_e(name)}</dt><dd>{_e(value)}</dd>" for name, value in rows.items())
    return f"<dl>{told}</dl>"


def _step(step: Mapping[str, Any], reply: Mapping[str, Any], result: Mapping[str, Any] | None, lang: Lang) -> str:
    good = step["rejection"] is None and step["outcome"] == "ok"
    ms, c = step["timings"]["total"], step["counters"]
    head = (
        f"<b>{_e(step['tool'] or '-')}</b><span>{_e(step['outcome'])}</span>"
        f"<small>#{step['seq']} · {_e(say('page.counts', lang, iterations=c['iterations'], valid=c['valid_steps']))}"
        f"{f' · {ms:.0f} ms' if ms is not None else ''}</small>"
    )
    parts = [f"<header>{head}</header>"]
    if step["repairs"]:
        parts.append(f"<p>{_e(say('page.repairs', lang))}: <code>{_e(', '.join(step['repairs']))}</code></p>")
    if step["rejection"]:
        parts.append(f"<p><code>{_e(step['rejection']['code'])}</code> {_e(step['rejection']['message'])}</p>")
    if step["reflection"]:
        parts.append(f"<p>{_e(_text(step['reflection']))}</p>")
    raw, judged = str(reply.get("text", "")), step["raw_output"]
    sides = [(say("page.raw", lang), raw)] + ([(say("page.judged", lang), judged)] if judged != raw else [])
    shown = "".join(f"<div><small>{_e(name)}</small>{_pre(text)}</div>" for name, text in sides)
    opened = " open" if len(sides) > 1 else ""
    parts.append(f'<details{opened}><summary>{_e(say("page.reply", lang))}</summary><div class="two">{shown}</div></details>')
    if result is not None:
        observation = "".join(str(part["text"]) for part in result["observation"])
        parts.append(f"<details><summary>{_e(say('page.observation', lang))}</summary>{_pre(observation)}</details>")
    return f"<section{'' if good else ' class=bad'}>{''.join(parts)}</section>"


def _end(last: Mapping[str, Any], lang: Lang) -> str:
    told = (
        say(f"run.{last['reason']}", lang, detail=last["detail"])
        if last["kind"] == "run_ended" and not last.get("erased")
        else say("run.interrupted", lang)
    )
    return f"<h1>{_e(told)}</h1><p><small>{_e(say('page.head', lang))}</small> <code>{_e(last['hash'])}</code></p>"


def _json(value: object) -> str:
    return _pre(json.dumps(value, ensure_ascii=False, indent=1))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pre(text: str) -> str:
    return f"<pre>{_e(text[:SHOWN_CHARS])}{' …' if len(text) > SHOWN_CHARS else ''}</pre>"


def _e(value: object) -> str:
    return escape(str(value))
