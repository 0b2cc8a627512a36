"""Finding documents by their words: an index that changes in the transaction of the content, asked at one snapshot.

Theory of operation. A row of the index holds the words of a title, or of a piece of a block; it stands from one change of the
tenant until another, like the place of a node, so an earlier search can be gone on with. Its id is made of the node's number and a
count: the rows of a node lie side by side, nodes come newest first, and nothing is ever sorted, however common a word is. Each word
carries the number of its tenant. The store finds rows that hold a phrase; which nodes hold all phrases of a query is found by
leaping from node to node. Seed: S0.26, S0.35.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..contract.problem import FieldProblem, bad_arguments
from ..db import Tx
from ..db.tx import Value
from .words import phrases_of, words_of

#: Until when a row stands that still stands (as in `store`).
OPEN: Final = 2**53 - 1
#: Rows of one node.
_ROWS: Final = 1 << 24
_LAST: Final = 1 << 62
#: Words of a row; pieces of a longer text share so many that no phrase is cut.
PIECE: Final = 4_000
PHRASE: Final = 64
PHRASES: Final = 8
#: Changes of a tenant during which an earlier search can be gone on with.
KEPT: Final = 100_000
#: Rows read ahead, at least and at most.
FEW: Final = 4
BATCH: Final = 128

_TABLES: Final = """
create table doc_numbered (
  tenant text not null, node text not null, no bigint not null, texts bigint not null, primary key (tenant, node), unique (no));
create table doc_speaker (tenant text not null primary key, no bigint not null);
create table doc_text (
  id bigint not null primary key, tenant text not null, node text not null, block text not null, since_seq bigint not null,
  until_seq bigint not null, words text not null);
create index doc_text_block on doc_text (tenant, node, block, until_seq);
create table doc_unindexed as select tenant, id as node from doc_node;
"""
#: On SQLite FTS5 holds the words: `ascii` cuts at the blanks we set and nowhere else.
_FTS: Final = """
create virtual table doc_fts using fts5 (words, content = 'doc_text', content_rowid = 'id', columnsize = 0, tokenize = 'ascii');
create trigger doc_text_in after insert on doc_text begin
  insert into doc_fts (rowid, words) values (new.id, new.words);
end;
create trigger doc_text_out after delete on doc_text begin
  insert into doc_fts (doc_fts, rowid, words) values ('delete', old.id, old.words);
end;
"""
#: A word that is removed goes from the index at once, not when parts of it are next merged; what had been removed before goes now.
SECURE: Final = {
    "sqlite": "insert into doc_fts (doc_fts, rank) values ('secure-delete', 1); insert into doc_fts (doc_fts) values ('rebuild');",
    "postgres": "",
}
#: SQLite knows a row by its integer key alone.
STEP: Final = {
    "sqlite": _TABLES.replace("id bigint not null primary key", "id integer primary key") + _FTS,
    "postgres": _TABLES + "create index doc_text_words on doc_text using gin (string_to_array(words, ' '));",
}

#: Rows that hold a phrase. Their parameters: `_phrase`.
_FOUND: Final = {
    "sqlite": "doc_fts cross join doc_text t on t.id = doc_fts.rowid cross join doc_place p on p.tenant = t.tenant and p.id = t.node"
    " where doc_fts match ? and doc_fts.rowid < ?",
    "postgres": "doc_text t join doc_place p on p.tenant = t.tenant and p.id = t.node"
    " where string_to_array(t.words, ' ') @> string_to_array(?, ' ') and strpos(' ' || t.words || ' ', ' ' || ? || ' ') > 0 and t.id < ?",
}
_ID: Final = {"sqlite": "doc_fts.rowid", "postgres": "t.id"}
_STANDS: Final = (
    " and t.tenant = ? and t.since_seq <= ? and t.until_seq > ? and p.since_seq <= ? and p.until_seq > ? and p.state = 'live'"
    " and (p.container = ? or ? = '')"
)


#: For finding what goes.
UNTIL: Final = "create index doc_text_until on doc_text (tenant, node, until_seq);"

Seen = tuple[str, str, tuple[Value, ...]]

# --- writing ---------------------------------------------------------------------------------------------------------


def put(tx: Tx, tenant: str, node: str, seq: int, texts: Iterable[tuple[str, str]]) -> None:
    """New texts of a node, as (block id, text); the title is that of no block (""). What a block said before is `end`ed first."""
    cut = [(block, piece) for block, text in texts for piece in _pieces(words_of(text))]
    if not cut:
        return
    speaker, (no, count) = _speaker(tx, tenant), _number(tx, tenant, node, len(cut))
    for at, (block, piece) in enumerate(cut, count + 1):
        tx.run(
            "insert into doc_text (id, tenant, node, block, since_seq, until_seq, words) values (?, ?, ?, ?, ?, ?, ?)",
            no * _ROWS + at, tenant, node, block, seq, OPEN, _spoken(speaker, piece),
        )  # fmt: skip


def end(tx: Tx, tenant: str, node: str, seq: int, blocks: Iterable[str]) -> None:
    """What these blocks say stands no longer; what no search can be gone on with for goes, so that edits do not let the index grow."""
    sql = "update doc_text set until_seq = ? where tenant = ? and node = ? and block = ? and until_seq = ?"
    if sum(tx.run(sql, seq, tenant, node, block, OPEN) for block in blocks):
        tx.run("delete from doc_text where tenant = ? and node = ? and until_seq <= ?", tenant, node, seq - KEPT)


def erase(tx: Tx, tenant: str, node: str) -> None:
    """Nothing of the node is found any more, at no snapshot."""
    tx.run("delete from doc_text where tenant = ? and node = ?", tenant, node)


def _pieces(words: Sequence[str]) -> list[Sequence[str]]:
    step = PIECE - PHRASE + 1
    return [words[at : at + PIECE] for at in range(0, max(len(words) - PHRASE + 1, 1), step)] if words else []


def _spoken(speaker: int, words: Iterable[str]) -> str:
    return " ".join(f"{speaker}x{word}" for word in words)


def _speaker(tx: Tx, tenant: str) -> int:
    """The number a tenant's words carry, so that its index is its own."""
    found = tx.row("select no from doc_speaker where tenant = ?", tenant)
    return (found or _given(tx, "insert into doc_speaker select ?, coalesce(max(no), 0) + 1 from doc_speaker returning no", tenant))[0]


def _number(tx: Tx, tenant: str, node: str, rows: int) -> tuple[int, int]:
    """A node's number and the last of its rows, with `rows` more taken."""
    had = tx.row("select no, texts from doc_numbered where tenant = ? and node = ?", tenant, node)
    if had is None:
        new = "insert into doc_numbered select ?, ?, coalesce((select max(no) from doc_numbered), 0) + 1, 0 returning no, texts"
        had = _given(tx, new, tenant, node)
    if had[1] + rows >= _ROWS:
        had = had[0], _closed_up(tx, tenant, node, had[0], rows)
    tx.run("update doc_numbered set texts = texts + ? where tenant = ? and node = ?", rows, tenant, node)
    return had[0], had[1]


def _closed_up(tx: Tx, tenant: str, node: str, no: int, more: int) -> int:
    """The rows of a node side by side again, where edits have used up its numbers: in the same order, so that searches go on. Raises validation."""
    rows = tx.rows("select block, since_seq, until_seq, words from doc_text where tenant = ? and node = ? order by id", tenant, node)
    if len(rows) + more >= _ROWS:
        raise bad_arguments([FieldProblem("content", "too_large", f"a document has at most {_ROWS} texts in the index")])
    tx.run("delete from doc_text where tenant = ? and node = ?", tenant, node)
    for at, (block, since, until, words) in enumerate(rows, 1):
        tx.run(
            "insert into doc_text (id, tenant, node, block, since_seq, until_seq, words) values (?, ?, ?, ?, ?, ?, ?)",
            no * _ROWS + at, tenant, node, block, since, until, words,
        )  # fmt: skip
    tx.run("update doc_numbered set texts = ? where tenant = ? and node = ?", len(rows), tenant, node)
    return len(rows)


def _given(tx: Tx, sql: str, *values: Value) -> tuple[Any, ...]:
    row = tx.row(sql, *values)
    assert row is not None
    return row


# --- asking ----------------------------------------------------------------------------------------------------------


def asked(query: str) -> list[list[str]]:
    """The phrases of a query. Raises validation for one that holds no word, or too many."""
    found = phrases_of(query)
    if not found:
        raise bad_arguments([FieldProblem("query", "invalid_value", "there is no word in it")])
    if len(found) > PHRASES or any(len(phrase) > PHRASE for phrase in found):
        raise bad_arguments([FieldProblem("query", "too_large", f"at most {PHRASES} terms of {PHRASE} words")])
    return found


class Found:
    """The nodes that hold all phrases of a query at a snapshot, newest first. Rows are (number, block, id, type, title, container)."""

    def __init__(self, tx: Tx, tenant: str, query: str, snapshot: int, container: str = "", seen: Seen = ("", "", ())) -> None:
        """`container` "" = anywhere; `seen` narrows it to what a user may see (`access.seen`). Raises validation."""
        speaker = tx.row("select no from doc_speaker where tenant = ?", tenant)
        phrases = asked(query)
        self._before, self._theirs, self._who = seen
        self._tx, self._stands = tx, (tenant, snapshot, snapshot, snapshot, snapshot, container, container)
        self._hits = [_Hits(self, _phrase(tx.dialect, speaker[0], words)) for words in phrases] if speaker else []

    def rows(self, phrase: tuple[str, ...], bound: int, limit: int) -> list[tuple[Any, ...]]:
        """Rows of one phrase with ids under a bound."""
        found, row_id = _FOUND[self._tx.dialect], _ID[self._tx.dialect]
        sql = f"{self._before}select {row_id}, t.block, p.id, p.type, p.title, p.container from {found}{_STANDS}{self._theirs}"  # noqa: S608  # our own words
        return self._tx.rows(f"{sql} order by {row_id} desc limit ?", *self._who, *phrase, bound, *self._stands, limit)

    def after(self, number: int, limit: int) -> list[tuple[Any, ...]]:
        """At most `limit` nodes older than the one of this number (0 = from the newest on)."""
        found: list[tuple[Any, ...]] = []
        bound = number * _ROWS if number else _LAST
        while self._hits and len(found) < limit and (row := self._common(bound)) is not None:
            found.append((row[0] // _ROWS, *row[1:]))
            bound = row[0] // _ROWS * _ROWS
        return found

    def _common(self, bound: int) -> tuple[Any, ...] | None:
        """The newest node under a bound that all phrases share, as a row of the first."""
        while True:
            rows = [hits.below(bound) for hits in self._hits]
            if None in rows:
                return None
            numbers = [row[0] // _ROWS for row in rows if row is not None]
            if len(set(numbers)) == 1:
                return next((row for row in rows if row and row[1]), rows[0])
            bound = (min(numbers) + 1) * _ROWS

    def count(self) -> int:
        """How many nodes there are, counted by the store itself."""
        if not self._hits:
            return 0
        each = f"select t.node from {_FOUND[self._tx.dialect]}{_STANDS}{self._theirs}"  # noqa: S608  # our own words
        values: list[Value] = [value for hits in self._hits for value in (*hits.phrase, _LAST, *self._stands)]
        union = " intersect ".join([each] * len(self._hits))
        sql = f"{self._before}select count(distinct node) from ({union}) found"  # noqa: S608  # our own words
        return _given(self._tx, sql, *self._who, *values)[0]


class _Hits:
    """The rows of one phrase, read ahead: more while they are used one after the other, few while they are leapt over."""

    def __init__(self, found: Found, phrase: tuple[str, ...]) -> None:
        self._found, self.phrase = found, phrase
        self._ahead: list[tuple[Any, ...]] = []
        self._size, self._used, self._whole = FEW, 0, False

    def below(self, bound: int) -> tuple[Any, ...] | None:
        """The first row with an id under a bound; bounds only ever fall."""
        ahead = self._ahead
        while ahead and ahead[-1][0] >= bound:
            ahead.pop()
        if not ahead and not self._whole:
            grows = self._used * 2 >= self._size
            self._size, self._used = min(self._size * 2, BATCH) if grows else max(self._size // 2, FEW), 0
            ahead = self._ahead = self._found.rows(self.phrase, bound, self._size)[::-1]
            self._whole = len(ahead) < self._size
        self._used += 1
        return ahead[-1] if ahead else None


def _phrase(dialect: str, speaker: int, words: Sequence[str]) -> tuple[str, ...]:
    spoken = _spoken(speaker, words)
    return (f'"{spoken}"',) if dialect == "sqlite" else (spoken, spoken)
