"""The queries that prepare and analyze a corpus, as Ibis expressions that any engine can evaluate.

The tables that ``conversations`` and ``reply_conversations`` return and ``corpus_order`` takes identify a conversation
by the pair (``key_1``, ``key_2``) and order its utterances by ``turn``; sorted by these three columns, the utterances
are in the order of the corpus. If there is a column ``cut``, a new conversation begins where it is 1. The queries from
``word_counts`` on take the utterances of a prepared corpus, with the columns of ``utterances.PREPARED``.
"""

from __future__ import annotations

from collections.abc import Mapping

import ibis
import ibis.expr.types as ir

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare.readers.text import BLOCK_UTTERANCES
from seq2seq_chat.prepare.split import SPLITS, Shares, hash_thresholds
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS

_MAX_FILMS_PER_FINGERPRINT = 200  # a sentence shared by more films is too common
_MAX_UTTERANCES_PER_FILE = 1 << 40
_MAX_BLOCKS_PER_FILE = 1 << 32


@ibis.udf.scalar.builtin(name="md5")
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The hexadecimal MD5 digest, which both engines call ``md5``."""


def conversations(rows: ir.Table, files: ir.Table, block_utterances: int = BLOCK_UTTERANCES) -> ir.Table:
    """The utterances of the shards, in the conversations that the readers marked.

    Args:
        rows: UTTERANCES or SUBTITLES of ``shards``.
        files: For each file its ``name`` (if that identifies the conversation), the number of conversations in earlier
            files (``offset``), whether it is divided into blocks as a ``single`` conversation, and its ``split``, empty
            if unknown. Utterances of other files are dropped.
        block_utterances: The size of a block.
    """
    joined = rows.join(files.mutate(split=files.split.nullif("")), "file")
    block = joined.position // block_utterances
    number = ibis.ifelse(joined.single, block, joined.conversation)
    return joined.select(
        thread=ibis.coalesce(joined.name, (joined.offset + number).cast("string")),
        file_split=joined.split,
        key_1=joined.file.cast("int64"),
        key_2=ibis.ifelse(joined.single, joined.conversation * _MAX_BLOCKS_PER_FILE + block, joined.conversation),
        turn=joined.position,
        text=joined.text,
        start=joined.start,
        end=joined.end,
        **{name: joined[name] for name in ("tokens", "previous_end") if name in rows.columns},
    )


def join_blocks(utterances: ir.Table, splits: Mapping[str, str]) -> ir.Table:
    """Let a conversation go on from block to block where both are in the same split.

    Args:
        splits: Of the blocks of a small corpus, by thread.
    """
    starts: dict[str, int] = {}
    for thread in sorted(splits, key=int):
        previous = str(int(thread) - 1)
        starts[thread] = starts[previous] if splits.get(previous) == splits[thread] else int(thread)
    conversation = utterances.key_2 // _MAX_BLOCKS_PER_FILE * _MAX_BLOCKS_PER_FILE
    cases = ((utterances.thread == thread, conversation + start) for thread, start in starts.items())
    return utterances.mutate(key_2=ibis.cases(*cases, else_=utterances.key_2))


def cut_at_silences(utterances: ir.Table, max_gap: float) -> ir.Table:
    """Start a new conversation (``cut``) at each gap of more than ``max_gap`` seconds within a film.

    A silence lasts from the end (or, if unknown, the start) of an utterance to the start of the next one. If a time is
    unknown, there is no silence. A clock that jumps back, as at the second disc of a film, counts as well.
    """
    silence = (utterances.start - utterances.previous_end).abs()
    return utterances.mutate(cut=ibis.coalesce(silence > max_gap, False).cast("int8")).drop("previous_end")


def join_all(utterances: ir.Table) -> ir.Table:
    """All utterances as a single conversation, in the order of the files."""
    turn = utterances.key_1 * _MAX_UTTERANCES_PER_FILE + utterances.turn
    zero = ibis.literal(0, "int64")
    return utterances.mutate(key_1=zero, key_2=zero, turn=turn).drop("previous_end")


def reply_pairs(comments: ir.Table) -> ir.Table:
    """The pairs of a comment and a reply: their submission (``link``) and their ordinals (``key_1``, ``key_2``).

    A comment is paired with each of its replies, in any file. A comment whose parent is missing, is the comment
    itself, or belongs to another submission replies to nothing (a submission goes into one split). If an id occurs
    several times, the first comment counts.
    """
    named = comments.select("link", "id", "parent", "ordinal")  # texts would fill the memory
    first = named.group_by("id").agg(ordinal=named.ordinal.min())
    distinct = named.semi_join(first, ["id", "ordinal"])
    parents = distinct.select("link", parent="id", key_1="ordinal")
    replies = distinct.filter(distinct.id != distinct.parent).select("link", "parent", key_2="ordinal")
    return parents.join(replies, ["link", "parent"]).select("link", "key_1", "key_2")


def within_splits(pairs: ir.Table, files: ir.Table, file_size: int) -> ir.Table:
    """The ``reply_pairs`` whose comments are in files of the same split, which becomes their ``file_split``.

    Args:
        files: That of ``conversations``.
        file_size: Ordinals of a file.
    """
    numbered = pairs.mutate(**{f"file_{key}": (pairs[f"key_{key}"] // file_size).cast("int32") for key in (1, 2)})
    for key in (1, 2):
        numbered = numbered.join(files.select(**{f"file_{key}": "file", f"split_{key}": "split"}), f"file_{key}")
    same = numbered.filter(numbered.split_1 == numbered.split_2)
    return same.select("link", "key_1", "key_2", file_split=same.split_1.nullif(""))


def reply_conversations(pairs: ir.Table, comments: ir.Table) -> ir.Table:
    """A conversation of two utterances for each of the ``reply_pairs`` of the comments, or of some of them."""
    turns = pairs.mutate(turn=ibis.array([0, 1]).unnest())
    turns = turns.mutate(ordinal=(turns.turn == 1).ifelse(turns.key_2, turns.key_1))
    lines = [name for name in ("text", "tokens") if name in comments.columns]
    joined = turns.join(comments.select("ordinal", "created", *lines), "ordinal")
    return joined.select(
        thread=joined.link,
        file_split=joined.file_split if "file_split" in pairs.columns else ibis.null("string"),
        key_1=joined.key_1,
        key_2=joined.key_2,
        turn=joined.turn.cast("int64"),
        start=joined.created,
        end=ibis.null("float64"),
        **{name: joined[name] for name in lines},
    )


def find_copies(fingerprints: ir.Table, sketch_size: int) -> ir.Table:
    """Pairs (``earlier``, ``later``) of files that are copies of the same film.

    Two files are copies if all of their sentences are equal, or if their sketches of ``sketch_size`` fingerprints share
    half of them. Films with fewer long sentences are copies only if equal.
    """
    equal = _sharing(fingerprints.filter(fingerprints.exact)).select("earlier", "later")
    sketches = fingerprints.filter(~fingerprints.exact)
    sizes = sketches.group_by("file").agg(size=sketches.count())
    sketches = sketches.semi_join(sizes.filter(sizes.size == sketch_size), "file")
    films = sketches.group_by("fingerprint").agg(films=sketches.count())
    sketches = sketches.semi_join(films.filter(films.films.between(2, _MAX_FILMS_PER_FINGERPRINT)), "fingerprint")
    shared = _sharing(sketches)
    similar = shared.group_by(["earlier", "later"]).agg(shared=shared.count())
    similar = similar.filter(similar.shared * 2 >= sketch_size).select("earlier", "later")
    return equal.union(similar, distinct=True).order_by("later", "earlier")


def _sharing(fingerprints: ir.Table) -> ir.Table:
    """The pairs (``earlier``, ``later``) of files for each fingerprint that they share."""
    earlier = fingerprints.select("fingerprint", earlier="file")
    pairs = earlier.join(fingerprints.select("fingerprint", later="file"), "fingerprint")
    return pairs.filter(pairs.earlier < pairs.later)


def assign_splits(utterances: ir.Table, shares: Shares, seed: int, moved: Mapping[str, str] | None = None) -> ir.Table:
    """Add ``split``: ``file_split`` if known, otherwise by a hash of the thread and the seed, see ``split.split_of``.

    The threads in ``moved`` are assigned to the splits given there, except where their split has no share.
    """
    thread_hash = md5(ibis.literal(f"{seed} ") + utterances.thread)[0:13]
    train, validation = hash_thresholds(shares)
    split = ibis.coalesce(
        utterances.file_split,
        ibis.cases((thread_hash < train, SPLITS[0]), (thread_hash < validation, SPLITS[1]), else_=SPLITS[2]),
    )
    if moved:
        is_divided = split.isin([name for name, share in zip(SPLITS, shares, strict=True) if share])
        threads = {name: [thread for thread, other in moved.items() if other == name] for name in SPLITS}
        moves = ((is_divided & utterances.thread.isin(threads[name]), name) for name in SPLITS if threads[name])
        split = ibis.cases(*moves, else_=split)
    return utterances.mutate(split=split).drop("file_split")


def corpus_order(utterances: ir.Table) -> ir.Table:
    """The utterances sorted by split, in the order of SPLITS, and within a split in the order of the corpus."""
    number = ibis.cases(*((utterances.split == name, number) for number, name in enumerate(SPLITS)), else_=len(SPLITS))
    return utterances.order_by(number, "key_1", "key_2", "turn")


def over_time(utterances: ir.Table, first: float, last: float, parts: int) -> ir.Table:
    """The number of ``utterances`` that start in each ``part`` of equal length of the seconds from first to last."""
    part = ((utterances.start - first) * (parts / max(last - first, 1.0))).floor().cast("int64")
    known = utterances.filter(utterances.start.notnull())
    return known.group_by(part=ibis.least(part, parts - 1)).agg(utterances=known.count())


def token_column(utterances: ir.Table) -> str:
    """The column with the tokens of each utterance, separated by single spaces."""
    return "tokens" if "tokens" in utterances.columns else "text"


def token_lists(utterances: ir.Table) -> ir.ArrayValue:
    """The tokens of each utterance."""
    return utterances[token_column(utterances)].split(" ")


def word_counts(utterances: ir.Table) -> ir.Table:
    """The number of occurrences (``count``) of each word in each split."""
    tokens = utterances.select("split", word=token_lists(utterances).unnest())
    return tokens.group_by(["split", "word"]).agg(count=tokens.count())


def sum_counts(counts: ir.Table, *keys: str) -> ir.Table:
    """Counts summed by ``keys``."""
    return counts.group_by(list(keys)).agg(count=counts["count"].sum().cast("int64"))


def most_frequent(counts: ir.Table, number: int, key: str = "word") -> ir.Table:
    """The ``number`` most frequent rows; ties are sorted by code points."""
    return counts.order_by(counts["count"].desc(), counts[key]).limit(number)


def vocabulary_words(counts: ir.Table, vocabulary_size: int) -> ir.Table:
    """The most frequent words for a vocabulary of this size, which has the special words as well.

    Where a text contains special words, they are unknown words.
    """
    words = counts.filter(counts.word.notin(SPECIAL_WORDS))
    return most_frequent(words, vocabulary_size - len(SPECIAL_WORDS))


def samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The source utterances of the samples, with the number of words of their target (``target_words``)."""
    order = ibis.window(group_by="conversation", order_by="position")
    followed = utterances.mutate(target_words=utterances.words.lead().over(order))
    is_source = followed.target_words.notnull()
    if pairing == "alternating":
        is_source = is_source & (followed.position % 2 == 0)
    return followed.filter(is_source)


def split_statistics(utterances: ir.Table, pairing: Pairing, encoder_steps: int, decoder_steps: int) -> ir.Table:
    """For each split: conversations, utterances, words, samples, and samples that are too long for the steps."""
    counts = utterances.group_by("split").agg(
        conversations=utterances.conversation.nunique(),
        utterances=utterances.count(),
        words=utterances.words.sum().cast("int64"),
    )
    pairs = samples(utterances, pairing)
    too_long = (pairs.words > encoder_steps) | (pairs.target_words + 1 > decoder_steps)
    paired = pairs.group_by("split").agg(samples=pairs.count(), too_long=too_long.cast("int64").sum().cast("int64"))
    joined = counts.left_join(paired, "split")
    return joined.select(
        "split",
        "conversations",
        "utterances",
        "words",
        samples=ibis.coalesce(joined.samples, 0),
        too_long=ibis.coalesce(joined.too_long, 0),
    )


# Leakage: samples of validation and test that occur in train. Texts are compared token by token; tables of samples have
# ``split``, ``conversation``, ``position`` (of the source), ``source`` and ``target``.


def leaked_samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The samples of train that occur in validation or test."""
    held_out = utterances.filter(utterances.split != SPLITS[0])
    train = utterances.filter(utterances.split == SPLITS[0])
    # Few texts of train occur in the others: pairing only these saves most of the work.
    train = train.semi_join(held_out, token_column(utterances))
    return _samples(train, pairing).semi_join(_samples(held_out, pairing), ["source", "target"])


def drop_samples(utterances: ir.Table, samples: ir.Table, pairing: Pairing) -> ir.Table:
    """The utterances without the given samples, with the columns that ``queries.corpus_order`` takes.

    With sliding pairs the conversation is cut between source and target, so that all text is left. With alternating
    pairs both are removed, and the conversation is cut there.
    """
    step = 1 if pairing == "sliding" else 2
    if pairing == "alternating":
        removed = samples.select("conversation", pair=samples.position // 2)
        utterances = utterances.mutate(pair=utterances.position // 2)
        utterances = utterances.anti_join(removed, ["conversation", "pair"]).drop("pair")
    cuts = samples.select("conversation", position=samples.position + step, is_cut=True)
    marked = utterances.left_join(cuts, ["conversation", "position"])
    marked = marked.mutate(
        key_1=marked.conversation,
        key_2=ibis.literal(0, "int64"),
        turn=marked.position,
        cut=marked.is_cut.notnull().cast("int8"),
    )
    numbers = ("conversation", "position", "words")  # assigned when the utterances are written
    return marked.select(*(name for name in utterances.columns if name not in numbers), "key_1", "key_2", "turn", "cut")


def leakage_counts(utterances: ir.Table, leaked: ir.Table, pairing: Pairing) -> ir.Table:
    """For each split but train: samples that occur in train (``samples``), and targets that occur there as targets.

    Args:
        leaked: ``leaked_samples`` of the utterances.
    """
    held_out = _samples(utterances.filter(utterances.split != SPLITS[0]), pairing)
    train = utterances.filter(utterances.split == SPLITS[0])
    is_target = train.position > 0 if pairing == "sliding" else train.position % 2 == 1
    targets = train.filter(is_target).select(target=train[token_column(train)]).semi_join(held_out, "target").distinct()
    counted = [
        held_out.semi_join(leaked, ["source", "target"]).select("split", samples=1, targets=0),
        held_out.semi_join(targets, "target").select("split", samples=0, targets=1),
    ]
    both = counted[0].union(counted[1])
    return both.group_by("split").agg(
        samples=both.samples.sum().cast("int64"), targets=both.targets.sum().cast("int64")
    )


def _samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The samples whose source and target are both among the utterances."""
    # A join, unlike a window, need not hold a conversation in memory; without silences, a corpus is a single one.
    tokens = utterances[token_column(utterances)]
    sources = utterances.select("split", "conversation", "position", source=tokens)
    if pairing == "alternating":
        sources = sources.filter(sources.position % 2 == 0)
    targets = utterances.select("conversation", position=utterances.position - 1, target=tokens)
    return sources.join(targets, ["conversation", "position"])
