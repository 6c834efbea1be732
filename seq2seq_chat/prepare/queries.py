"""The relational work of preparing and looking at a corpus, as Ibis expressions that any engine evaluates.

Up to ``with_split`` the tables are those of a preparation, with a conversation told by (``first``,
``second``) and the place of an utterance in it by ``turn``: ordered by these three, the utterances are
in the order of the corpus. Where ``cut``, if there is such a column, is 1, another conversation begins.
From ``tokens`` on they are the utterances of a prepared corpus as they lie in ``utterances.parquet``, see
``utterances``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ibis
import ibis.expr.types as ir

from seq2seq_chat.corpus.readers import BLOCK_UTTERANCES
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.split import SPLITS, Shares, boundaries
from seq2seq_chat.corpus.text import SPACE, Level

_MOST_FILMS_PER_MARK = 200  # a sentence in more files than a film has is a common one
_UTTERANCES_PER_FILE = 1 << 40


@ibis.udf.scalar.builtin(name="md5")
def _md5(text: str) -> str:  # type: ignore[empty-body]
    """The MD5 digest in hexadecimal, of the name that both engines have for it."""


def conversations(rows: ir.Table, files: ir.Table) -> ir.Table:
    """Utterances of readers, whose conversations are those that the readers tell.

    Args:
        rows: UTTERANCES or SPOKEN of ``shards``.
        files: For each file its name (if its conversations are known by that), the number of
            conversations in the files before it, whether it is a single conversation, and its
            split, if it is known. The utterances of a file that is not in it are left out.
    """
    joined = rows.join(files, "file")
    number = ibis.ifelse(joined.single, joined.position // BLOCK_UTTERANCES, joined.thread)
    return joined.select(
        thread=ibis.coalesce(joined.name, (joined.offset + number).cast("string")),
        known=joined.split,
        first=joined.file.cast("int64"),
        second=number.cast("int64"),
        turn=joined.position,
        text=joined.text,
        start=joined.start,
        end=joined.end,
        **({"before": joined.before} if "before" in rows.columns else {}),
    )


def cut_at_silences(utterances: ir.Table, most: float) -> ir.Table:
    """A new conversation (``cut``) wherever the clock jumps by more than ``most`` seconds within a file.

    A silence goes from the end (or else the beginning) of an utterance to the beginning of the
    next. Where one of them is not known, there is none. A clock that jumps back as far, as at the
    second disc of a film, counts as well.
    """
    silence = (utterances.start - utterances.before).abs()
    return utterances.mutate(cut=ibis.coalesce(silence > most, False).cast("int8")).drop("before")


def endless(utterances: ir.Table) -> ir.Table:
    """All utterances as one conversation, in the order of the files."""
    turn = utterances["first"] * _UTTERANCES_PER_FILE + utterances.turn
    nothing = ibis.literal(0, "int64")
    return utterances.mutate(first=nothing, second=nothing, turn=turn).drop("before")


def answers(comments: ir.Table) -> ir.Table:
    """Which comment answers which: the submission (``link``) and the two places (``first``, ``second``).

    A comment is answered by each of its children, in whatever file. Comments that answer none that
    is there, or themselves, answer nothing; of several of one name the first is taken. An answer
    must be of the same submission as what it answers, since a submission goes into one split.

    Args:
        comments: COMMENTS of ``shards``.
    """
    named = comments.select("link", "id", "parent", "place")  # texts would fill the memory
    firsts = named.group_by("id").agg(place=named.place.min())
    distinct = named.semi_join(firsts, ["id", "place"])
    asking = distinct.select("link", parent="id", first="place")
    answering = distinct.filter(distinct.id != distinct.parent).select("link", "parent", second="place")
    return asking.join(answering, ["link", "parent"]).select("link", "first", "second")


def exchanges(pairs: ir.Table, comments: ir.Table) -> ir.Table:
    """Each comment after the one that it answers, as a conversation of two.

    Args:
        pairs: ``answers`` of the comments.
        comments: COMMENTS of ``shards``.
    """
    turns = pairs.mutate(turn=ibis.array([0, 1]).unnest())
    turns = turns.mutate(place=(turns.turn == 1).ifelse(turns.second, turns["first"]))
    spoken = turns.join(comments.select("place", "text", "created"), "place")
    return spoken.select(
        thread=spoken.link,
        known=ibis.null("string"),
        first=spoken["first"],
        second=spoken.second,
        turn=spoken.turn.cast("int64"),
        text=spoken.text,
        start=spoken.created,
        end=ibis.null("float64"),
    )


def copies(marks: ir.Table, sample: int) -> ir.Table:
    """Pairs (``earlier``, ``later``) of files that are copies of one film.

    Two files are copies if all of their sentences are equal, or half of those that were sampled.

    Args:
        marks: MARKS of ``shards``.
        sample: The size of a full sample; films with fewer long sentences are copies only if equal.
    """
    left = marks.select("exact", "mark", earlier="file")
    right = marks.select("exact", "mark", later="file")
    equal = left.filter(left.exact).join(right.filter(right.exact), "mark")
    equal = equal.filter(equal.earlier < equal.later).select("earlier", "later")
    sampled = marks.filter(~marks.exact)
    sizes = sampled.group_by("file").agg(size=sampled.count())
    sampled = sampled.semi_join(sizes.filter(sizes.size == sample), "file")
    common = sampled.group_by("mark").agg(films=sampled.count())
    sampled = sampled.semi_join(common.filter(common.films.between(2, _MOST_FILMS_PER_MARK)), "mark")
    near = sampled.select("mark", earlier="file").join(sampled.select("mark", later="file"), "mark")
    near = near.filter(near.earlier < near.later)
    near = near.group_by(["earlier", "later"]).agg(shared=near.count())
    near = near.filter(near.shared * 2 >= sample).select("earlier", "later")
    return equal.union(near, distinct=True).order_by("later", "earlier")


def with_split(utterances: ir.Table, shares: Shares, seed: int, chosen: Mapping[str, str] | None = None) -> ir.Table:
    """Adds ``split``: as it is known of the file, or else by a hash of the thread and the seed.

    Args:
        chosen: Threads whose split is given.
    """
    place = _md5(ibis.literal(f"{seed} ") + utterances.thread)[0:13]
    train, validation = boundaries(shares)
    split = ibis.coalesce(
        utterances.known, ibis.cases((place < train, SPLITS[0]), (place < validation, SPLITS[1]), else_=SPLITS[2])
    )
    if chosen:
        split = ibis.cases(*((utterances.thread == thread, name) for thread, name in chosen.items()), else_=split)
    return utterances.mutate(split=split).drop("known")


def in_order(utterances: ir.Table) -> ir.Table:
    """The utterances, split after split in the order of SPLITS, in the order of the corpus."""
    number = ibis.cases(*((utterances.split == name, number) for number, name in enumerate(SPLITS)), else_=len(SPLITS))
    return utterances.order_by(number, "first", "second", "turn")


def threads_by_split(utterances: ir.Table) -> ir.Table:
    """How many threads each split has."""
    threads = utterances.select("split", "thread").distinct()
    return threads.group_by("split").agg(threads=threads.count())


def tokens(utterances: ir.Table, level: Level) -> ir.Table:
    """A row for each token (``word``) of each utterance, with the ``split``."""
    if level == "word":
        return utterances.select("split", word=utterances.text.split(" ").unnest())
    text = utterances.text
    characters = ibis.range(0, text.length()).map(lambda place: text.substr(place, 1)).unnest()
    exploded = utterances.select("split", word=characters)
    return exploded.mutate(word=(exploded.word == " ").ifelse(SPACE, exploded.word))


def word_counts(utterances: ir.Table, level: Level = "word") -> ir.Table:
    """How often (``count``) each word occurs in each split."""
    exploded = tokens(utterances, level)
    return exploded.group_by(["split", "word"]).agg(count=exploded.count())


def summed(counts: ir.Table, *keys: str) -> ir.Table:
    """Counts by ``keys`` alone."""
    return counts.group_by(list(keys)).agg(count=counts["count"].sum().cast("int64"))


def most_frequent(counts: ir.Table, number: int, key: str = "word") -> ir.Table:
    """The ``number`` most frequent, ties by code points."""
    return counts.order_by(counts["count"].desc(), counts[key]).limit(number)


def ngram_counts(utterances: ir.Table, size: int) -> ir.Table:
    """How often (``count``) each sequence of ``size`` words (``ngram``) occurs within utterances."""
    long = utterances.filter(utterances.words >= size)
    words = long.text.split(" ")
    if size == 1:
        grams = long.select(ngram=words.unnest())
    else:
        places = ibis.range(0, words.length() - size + 1)
        grams = long.select(ngram=places.map(lambda place: words[place : place + size].join(" ")).unnest())
    return grams.group_by("ngram").agg(count=grams.count())


def missing_words(utterances: ir.Table, vocabulary: ir.Table) -> ir.Table:
    """How many utterances (``utterances``) have 0, 1, 2, … words (``missing``) that are not in the vocabulary.

    Args:
        vocabulary: The known words, ``word``.
    """
    numbered = utterances.select("conversation", "position", word=utterances.text.split(" ").unnest())
    unknown = numbered.anti_join(vocabulary, "word")
    per_utterance = unknown.group_by(["conversation", "position"]).agg(missing=unknown.count())
    some = per_utterance.group_by("missing").agg(utterances=per_utterance.count())
    counted = utterances.agg(total=utterances.count())
    reached = per_utterance.agg(reached=per_utterance.count())
    none = counted.cross_join(reached)
    none = none.select(missing=ibis.literal(0, "int64"), utterances=none.total - none.reached)
    return some.union(none.filter(none.utterances > 0)).order_by("missing")


def samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The utterances that are answered, with the number of words of the answer (``answer_words``)."""
    order = ibis.window(group_by="conversation", order_by="position")
    followed = utterances.mutate(answer_words=utterances.words.lead().over(order))
    asking = followed.answer_words.notnull()
    if pairing == "alternating":
        asking = asking & (followed.position % 2 == 0)
    return followed.filter(asking)


def figures(utterances: ir.Table, pairing: Pairing, source_steps: int, target_steps: int) -> ir.Table:
    """By split: conversations, utterances, words, samples, and samples that are too long for the steps."""
    whole = utterances.group_by("split").agg(
        conversations=utterances.conversation.nunique(),
        utterances=utterances.count(),
        words=utterances.words.sum().cast("int64"),
    )
    pairs = samples(utterances, pairing)
    too_long = (pairs.words > source_steps) | (pairs.answer_words + 1 > target_steps)
    paired = pairs.group_by("split").agg(samples=pairs.count(), too_long=too_long.cast("int64").sum().cast("int64"))
    joined = whole.left_join(paired, "split")
    return joined.select(
        "split",
        "conversations",
        "utterances",
        "words",
        samples=ibis.coalesce(joined.samples, 0),
        too_long=ibis.coalesce(joined.too_long, 0),
    )


def in_characters(utterances: ir.Table) -> ir.Table:
    """The same with the number of characters in the place of that of words."""
    return utterances.mutate(words=utterances.text.length())


def time_lags(utterances: ir.Table, between: str) -> ir.Table:
    """How many pairs of neighbours (``pairs``) lie so many whole seconds (``seconds``) apart; null where unknown.

    Args:
        between: ``starts`` of the two, or the ``silence`` from the end of the first.
    """
    order = ibis.window(group_by="conversation", order_by="position")
    before = utterances.start if between == "starts" else utterances.end
    lagged = utterances.mutate(before=before.lag().over(order))
    later = lagged.filter(lagged.position > 0)
    later = later.mutate(seconds=(later.start - later.before).round().cast("int64"))
    return later.group_by("seconds").agg(pairs=later.count()).order_by("seconds")


def of_splits(utterances: ir.Table, splits: Sequence[str]) -> ir.Table:
    """The utterances of some splits."""
    return utterances.filter(utterances.split.isin(splits))
