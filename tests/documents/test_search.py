"""Finding documents by words: equal to a full scan, paged in one snapshot, never apart from the content."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.db import Database
from polyloop.documents import index, store
from polyloop.documents import requests as ask
from polyloop.documents.service import serve
from polyloop.documents.words import around, phrases_of, words_of
from tests.documents.office import Office
from tests.documents.test_crash import opened, start

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
MANY = 100_000 if SOAK else 3_000
HAN = "合同金额付款时间甲乙双方签订违约责任条款补充协议附件说明审核意见"
LATIN = ["contract", "Payment", "annual", "REPORT", "naïve", "x9", "v2"]


def found(office: Office, query: str, **args: Any) -> list[str]:
    answer = office.do("search", {"query": query, **args})
    assert answer["complete"] is True
    return [item["title"] for item in answer["items"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("合同", ["合", "同"]), ("Payment due", ["payment", "due"]), ("ＡＢＣ１２", ["abc12"]), ("a_b-c.d", ["a", "b", "c", "d"]),
        ("第3条", ["第", "3", "条"]), ("かなカナ", ["か", "な", "カ", "ナ"]), ("한국", ["한", "국"]), ("々〇", ["々", "〇"]), ("Straße", ["strasse"]),
        ("，。！ \t\n", []), ("𠀀", ["𠀀"]), ("x" * 70, ["x" * 64, "x" * 6]), ("é", ["é"]), ("3.14", ["3", "14"]), ("①", ["1"]),
    ],
)  # fmt: skip
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_text_between_blanks_is_the_words_of_both(one: str, other: str) -> None:
    assert words_of(f"{one} {other}") == words_of(one) + words_of(other)
    assert all(word and " " not in word and '"' not in word for word in words_of(one))


def test_what_a_query_means(office: Office) -> None:
    office.new("合同 2024", "甲方付款。\n\n- 乙方\n\n| 金额 | 时间 |\n|---|---|\n| 100 | 三月 |\n")
    office.new("Annual report", "The payment was late.\n\n```py\nx = contract(9)\n```\n")
    office.new("空", "")
    for query, titles in (
        ("合同", ["合同 2024"]), ("同", ["合同 2024"]), ("付款", ["合同 2024"]), ("款付", []), ("金额", ["合同 2024"]), ("三", ["合同 2024"]),
        ("ANNUAL", ["Annual report"]), ("report late", ["Annual report"]), ("annual contract payment", ["Annual report"]), ("contract 甲", []),
        ('"annual report"', ["Annual report"]), ('"report annual"', []), ("pay", []), ("付款 乙方 100", ["合同 2024"]), ("空", ["空"]),
        ("payment，late", []), ('"was late"', ["Annual report"]), ("Ａnnual", ["Annual report"]), ("9", ["Annual report"]),
    ):  # fmt: skip
        assert found(office, query) == titles, query
    item = office.do("search", {"query": "付款"})["items"][0]
    assert office.text(item["nodeId"], scope="range", startBlockId=item["blockId"], endBlockId=item["blockId"]).strip() == "甲方付款。"
    assert item.keys() == {"nodeId", "resourceType", "canonicalUrl", "container", "title", "blockId", "excerpt"}
    for query in ("，", " ", '""', "a " * 9, "合" * 65, "x" * 301):
        office.refused("validation", "search", {"query": query})


def test_what_changes_is_found_as_it_is(office: Office) -> None:
    folder = office.do("create_folder", {"title": "文件夹"})["data"]["nodeId"]
    node_id = office.new("旧名", "第一段\n\n第二段\n")
    first, second = (b["blockId"] for b in office.blocks(node_id))
    office.do("rename", {"nodeId": node_id, "title": "新名"})
    assert (found(office, "旧名"), found(office, "新名")) == ([], ["新名"])
    office.do("update", {"nodeId": node_id, "command": "str_replace", "old": "第一", "new": "第三"})
    assert (found(office, "第一"), found(office, "第三")) == ([], ["新名"])
    office.do("update", {"nodeId": node_id, "command": "move", "blockId": first, "afterBlockId": second, "force": True})
    assert found(office, "第三段") == ["新名"]
    office.do("version_revert", {"nodeId": node_id, "revision": 1, "force": True})
    assert (found(office, "第一"), found(office, "第三")) == (["新名"], [])
    office.do("move", {"nodeId": node_id, "containerId": folder})
    assert (found(office, "第一", containerId=folder), found(office, "第一", containerId="root")) == (["新名"], [])
    copy = office.do("copy", {"nodeId": node_id, "title": "副本"})["data"]["nodeId"]
    assert found(office, "第二") == ["副本", "新名"], "the newest made first"
    office.do("delete", {"nodeId": node_id})
    assert found(office, "第二") == ["副本"]
    office.do("purge", {"nodeId": node_id})
    office.do("delete", {"nodeId": copy})
    office.do("restore", {"nodeId": copy})
    assert (found(office, "第二"), found(office, "新名"), found(office, "文件")) == (["副本"], [], ["文件夹"])
    assert "第" not in str(office.db.look(lambda tx: tx.rows("select words from doc_text where tenant = ? and node = ?", office.tenant, node_id)))
    assert found(Office(office.db), "第二") == [], "another tenant finds nothing"


def test_a_phrase_in_a_long_block_is_found_wherever_it_stands(office: Office) -> None:
    words = [f"w{n}" for n in range(9_000)]
    office.new("long", " ".join(words))
    odds = random.Random(3)
    for at in [0, index.PIECE - index.PHRASE, index.PIECE - 1, len(words) - 64, *(odds.randrange(len(words) - 64) for _ in range(20))]:
        phrase = " ".join(words[at : at + odds.randrange(2, 40)])
        assert found(office, f'"{phrase}"') == ["long"], at
    assert found(office, '"w2 w1"') == []


def corpus(odds: random.Random) -> list[tuple[str, list[str]]]:
    """Title and paragraphs of one document."""

    def line() -> str:
        parts = [
            "".join(odds.choices(HAN, k=odds.randrange(1, 9))) if odds.random() < 0.6 else odds.choice(LATIN) for _ in range(odds.randrange(1, 7))
        ]
        return odds.choice(["，", " ", "。", ""]).join(parts)

    return [(f"{line()} {n}", [line() for _ in range(odds.randrange(1, 5))]) for n in range(150)]


def scan(texts: list[str], query: str) -> bool:
    """Whether every term of the query stands in some text: written from the meaning, by regular expressions over the folded text."""
    between = r"[\W_]*"
    for term in query.split():
        units = re.findall(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+", term.casefold())
        edge = (r"(?<![^\W_\u3400-\u9fff])" if not re.match(r"[\u3400-\u9fff]", units[0]) else "", r"(?![^\W_\u3400-\u9fff])")
        last = edge[1] if not re.match(r"[\u3400-\u9fff]", units[-1]) else ""
        pattern = edge[0] + between.join(map(re.escape, units)) + last
        if not any(re.search(pattern, text.casefold()) for text in texts):
            return False
    return True


def test_200_random_queries_equal_a_full_scan(office: Office) -> None:
    odds = random.Random(7)
    documents = corpus(odds)
    for title, lines in documents:
        office.new(title, "\n\n".join(lines))
    hits = 0
    for n in range(200):
        terms = [
            "".join(odds.choices(HAN, k=odds.choice([1, 2, 2, 3, 4]))) if odds.random() < 0.7 else odds.choice(LATIN) for _ in range(1 + (n % 3 == 0))
        ]
        title, lines = odds.choice(documents)
        if n % 2:  # one that is there
            chosen = odds.choice(re.findall(r"[\u3400-\u9fff]{2,}", " ".join(lines) + title) or ["合"])
            at = odds.randrange(len(chosen) - 1) if len(chosen) > 1 else 0
            terms[0] = chosen[at : at + odds.choice([1, 2, 3])]
        query = " ".join(terms)
        wanted = [title for title, lines in reversed(documents) if scan([title, *lines], query)]
        assert found(office, query, limit=odds.choice([10, 50, 200])) == wanted, query
        hits += bool(wanted)
    assert hits > 100


@settings(max_examples=40 if SOAK else 10)
@given(st.lists(st.sampled_from(["create", "append", "rename", "delete", "purge", "revert"]), max_size=6), st.integers(1, 3))
def test_pages_of_one_snapshot_do_not_move(db: Database, changes: list[str], limit: int) -> None:
    office = Office(db)
    nodes = [office.new(f"目标 {n}", "一\n") for n in range(5)]
    page = office.do("search", {"query": "目标", "limit": limit, "all": False})
    seen = [i["nodeId"] for i in page["items"]]
    purged = False
    for n, change in enumerate(changes):
        node = nodes[n % 5]
        match change:
            case "create":
                office.new("目标 new")
            case "append":
                office.call("update", {"nodeId": node, "command": "append", "content": "目标"})
            case "rename":
                office.call("rename", {"nodeId": node, "title": "other"})
            case "revert":
                office.call("version_revert", {"nodeId": node, "revision": 1, "force": True}, approved_by="a")
            case _:
                office.call("delete", {"nodeId": node}, approved_by="a")
                if change == "purge":
                    purged |= office.call("purge", {"nodeId": node}, approved_by="a")[1] == 0
    while page["continuation"]:
        told, code = office.call("search", {"query": "目标", "limit": limit, "all": False, "continuation": page["continuation"]})
        if code:  # what was erased for good is nowhere, and the count says so
            assert purged
            assert told["error"]["details"]["reason"] == "count_mismatch"
            return
        page = told
        seen += [i["nodeId"] for i in page["items"]]
    assert seen == nodes[::-1] or purged


def test_edits_do_not_let_the_index_grow_for_ever(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "KEPT", 20)
    nodes = [office.new(f"目标 {n}") for n in range(3)]
    page = office.do("search", {"query": "目标", "limit": 1, "all": False})
    for n in range(60):
        office.do("update", {"nodeId": nodes[0], "command": "overwrite", "content": f"turn {n}\n", "force": True})
    [(rows,)] = office.db.look(lambda tx: tx.rows("select count(*) from doc_text where tenant = ? and node = ?", office.tenant, nodes[0]))
    assert rows <= 20 + 2
    assert found(office, '"turn 59"') == ["目标 0"]
    assert found(office, '"turn 1"') == []
    told, code = office.call("search", {"query": "目标", "continuation": page["continuation"]})
    assert (told["error"]["kind"], code, told["error"]["details"]["reason"]) == ("pagination", 3, "page_failed")
    consistent(office.db, office.tenant)


def consistent(db: Database, tenant: str) -> None:
    """What stands in the index now is what the content says now, and the store's own check finds nothing."""

    def work(tx: Any) -> None:
        said = dict[tuple[str, str], list[str]]()
        for node, block, words in tx.rows(
            "select node, block, words from doc_text where tenant = ? and until_seq = ? order by id", tenant, index.OPEN
        ):
            said[node, block] = [*said.get((node, block), []), *words.split(" ")]
        live = tx.rows("select id, title from doc_place where tenant = ? and until_seq = ? and state <> 'purged'", tenant, store.OPEN)
        wanted = {(node, ""): words_of(title) for node, title in live}
        blocks = tx.rows("select node, id, body from doc_block where tenant = ? and until_rev = ?", tenant, store.OPEN)
        wanted |= {(node, block): words_of(store.text_of(store.Row(block, "", body, ""))) for node, block, body in blocks}
        assert {key: [w.partition("x")[2] for w in words] for key, words in said.items()} == {k: w for k, w in wanted.items() if w}
        if tx.dialect == "sqlite":
            tx.run("insert into doc_fts (doc_fts, rank) values ('integrity-check', 1)")

    db.write_sync(work)


def test_index_and_content_agree_after_kills(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    db = opened(path)
    Office(db, "t").new("D", "")
    db.close()
    odds = random.Random(5)
    for n in range(40 if SOAK else 4):
        writer = start(path, "t", n * 1000, 1000, 1)
        assert writer.stdout
        for _ in range(odds.randrange(1, 20)):
            writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        db = opened(path)
        consistent(db, "t")
        office = Office(db, "t")
        line = next(x for x in reversed(office.text(office.do("resolve", {"title": "D"})["target"]["nodeId"], format="text").splitlines()) if x)
        assert found(office, f'"{line}"') == ["D"]
        db.close()


def spread(db: Database, tenant: str, count: int, said: list[str]) -> Office:
    """Documents of two blocks each, put into the service's own tables and index as its writes would, in few commits. `said` = their texts."""
    odds = random.Random(11)
    letters = [chr(0x4E00 + n) for n in range(3_000)]
    often = list(itertools.accumulate(1 / (n + 20) for n in range(3_000)))  # as often as in real texts: few very common, most of them rare

    def work(tx: Any, first: int, last: int) -> None:
        for n in range(first, last):
            seq = store.next_seq(tx, tenant)
            text = "".join(odds.choices(letters, cum_weights=often, k=40)) + ("的" if n % 2 else "") + (f" rare{n}" if n % 1000 == 0 else "")
            said.append(text)
            rows = [store.row_of(f"b_{n}", "0000000001", '{"type":"paragraph","runs":[{"text":"' + text + '"}]}')]
            node = store.Node(
                id=f"n_{n}", type="document", revision=1, hash=store.EMPTY, blocks=1, appended=1, created=seq, title=f"文档 {n}", container="root",
                state="live",
            )  # fmt: skip
            store.add_node(tx, tenant, node, seq)
            store.add_rows(tx, tenant, node.id, rows, 1, seq)

    for first in range(0, count, 5_000):
        db.write_sync(work, first, min(first + 5_000, count))
    return Office(db, tenant)


def timed(call: Callable[[], Any]) -> float:
    begun = time.thread_time()  # what others on the machine do is none of it
    call()
    return (time.thread_time() - begun) * 1000


def test_a_query_reads_no_more_than_its_page(tmp_path: Path) -> None:
    """Guarded by counts: rows the store was asked for, whatever the number of documents. `POLYLOOP_SOAK=1 pytest -s` prints times."""
    db = opened(tmp_path / "s.db")
    said: list[str] = []
    office = spread(db, "t", MANY, said)
    odds = random.Random(2)
    snapshot = db.look(lambda tx: store.current_seq(tx, "t"))
    for query in ("的", said[0][:1], said[9][4:6], " ".join(said[5][:2]), "rare0"):
        read: list[int] = []

        def work(tx: Any, query: str = query, read: list[int] = read) -> None:
            hits = index.Found(tx, "t", query, snapshot)
            rows = hits.rows
            hits.rows = lambda *args: read.append(len(got := rows(*args))) or got  # type: ignore[method-assign]  # it counts
            assert hits.after(0, 51)

        db.look(work)
        rarest = min(sum(term.casefold() in text for text in said) for term in query.split())
        assert sum(read) <= 4 * index.BATCH + 8 * (rarest if " " in query else 0), (query, rarest, sum(read))
    for name, queries in {
        "one": [odds.choice(odds.choice(said)[:40]) for _ in range(200)],
        "two or three": [odds.choice(said)[(at := odds.randrange(37)) : at + odds.choice([2, 3])] for _ in range(200)],
    }.items():
        took = sorted(timed(lambda q=q: db.look(lambda tx: serve(tx, "t", ask.Search(query=q, limit=50)))) for q in queries)
        print(f"{MANY} documents, {name}: p50 {statistics.median(took):.2f} ms, p95 {took[190]:.2f} ms, max {took[-1]:.2f} ms")
    db.close()
    assert office.tenant == "t"


@pytest.mark.parametrize(
    ("text", "query", "excerpt"),
    [
        ("机器学习很有用", "学习", "机器学习很有用"), ("ＨＩ world", "hi", "ＨＩ world"),
        ("one\ntwo  three", '"one two"', "one two three"), ("cafe\u0301 here", "here", "cafe\u0301 here"),
        ("\ufb01ne print", "fine print", "\ufb01ne print"), ("x*y NEAR (z)", "near", "x*y NEAR (z)"),
        ("a" * 200 + " needle " + "b" * 200, "Needle", f"…{'a' * 23} needle {'b' * 69}…"),
    ],
)  # fmt: skip
def test_a_hit_shows_what_stands_around_it(office: Office, text: str, query: str, excerpt: str) -> None:
    content = [{"type": "paragraph", "runs": [{"text": text}]}]
    node = office.do("create", {"title": "T", "content": content, "format": "blocks"})["data"]["nodeId"]
    (hit,) = office.do("search", {"query": query})["items"]
    assert (hit["nodeId"], hit["excerpt"]) == (node, excerpt)


def test_an_excerpt_is_of_what_stands_there_now_and_of_a_title_there_is_none(office: Office) -> None:
    node = office.new("needle", "old words\n")
    assert "excerpt" not in office.do("search", {"query": "needle"})["items"][0]
    assert office.do("search", {"query": "old"})["items"][0]["excerpt"] == "old words"
    office.do("update", {"nodeId": node, "command": "str_replace", "old": "old", "new": "young"})
    assert office.do("search", {"query": "words"})["items"][0]["excerpt"] == "young words"


@pytest.mark.parametrize("text", ["", "机", "x" * 500])
@pytest.mark.parametrize("query", ["机", "(机", '"a.b" [c', "x\\y"])
def test_an_excerpt_is_always_of_the_text(text: str, query: str) -> None:
    assert around(text, phrases_of(query)).strip("…") in text


def test_a_document_whose_numbers_are_used_up_is_found_and_written_as_before(office: Office) -> None:
    """After 2^24 edits: its rows close up, in their places in every list and in pages that are being read."""
    nodes = [office.new(title, f"shared first {title}\n\nshared second\n") for title in ("alpha", "bravo", "delta")]
    office.db.write_sync(
        lambda tx: tx.run("update doc_numbered set texts = ? where tenant = ? and node = ?", index._ROWS - 3, office.tenant, nodes[1])
    )
    page = office.do("search", {"query": "shared", "limit": 1, "all": False})
    titles = [page["items"][0]["title"]]
    for n in range(6):
        office.do("update", {"nodeId": nodes[1], "command": "append", "content": f"zulu{n}\n"})
    assert [found(office, f"zulu{n}") for n in range(6)] == [["bravo"]] * 6
    assert found(office, "shared") == ["delta", "bravo", "alpha"]
    assert [found(office, f"shared {word}") for word in ("zulu0", "bravo", "alpha", "delta")] == [["bravo"], ["bravo"], ["alpha"], ["delta"]]
    while page["continuation"]:
        page = office.do("search", {"query": "shared", "limit": 1, "all": False, "continuation": page["continuation"]})
        titles += [item["title"] for item in page["items"]]
    assert titles == ["delta", "bravo", "alpha"]
    office.do("update", {"nodeId": nodes[2], "command": "append", "content": "later\n"})
    assert (found(office, "later"), found(office, "delta")) == (["delta"], ["delta"])
