"""The course's own tests of the toy environment: what every lesson relies on."""

import inspect
import math
import random
import re

import pytest

from testcases.harness.suite.asserts import named
from tiny_models import verifier
from tiny_models.gold import GOLD_MAX, gold_score, is_well_formed
from tiny_models.language import (
    ADJECTIVES,
    INTENSIFIERS,
    NOUNS,
    TEMPLATES,
    TOPICS,
    VOCABULARY,
    Clause,
    Habits,
    all_prompts,
    parse_review,
    sample_prompts,
    sample_review,
    topic_nouns,
    topic_of,
)
from tiny_models.preferences import make_preferences
from tiny_models.tokenizer import MAX_LENGTH
from tiny_models.verifier import verify

FILM = "review the film :"


class OnlyRandom(random.Random):
    """A source of chance that has random() alone, the one method Python keeps stable between versions."""

    def getrandbits(self, k: int) -> int:
        raise AssertionError("choice, sample, shuffle and randint may change with Python: use random() alone")


def sample_texts(seed: int, count: int = 300, habits: Habits | None = None) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(prompt, sample_review(prompt, rng, habits or Habits())) for prompt in sample_prompts(count, rng)]


def sample_clauses(habits: Habits, count: int = 2000) -> list[tuple[str, list[Clause]]]:
    texts = sample_texts(0, count, habits)
    return [(topic_of(prompt), parse_review(review) or []) for prompt, review in texts]


@named(
    "text, clauses",
    {
        "shortest": ("the film was good .", [("film", ("good",))]),
        "intensifier": ("the plot was very dull .", [("plot", ("dull",))]),
        "and-joins-adjectives": ("the room was plain and lovely .", [("room", ("plain", "lovely"))]),
        "and-joins-clauses": ("the film was good and the plot was weak .", [("film", ("good",)), ("plot", ("weak",))]),
        "longest": (
            "the song was really bad and dull but the voice was very good and superb .",
            [("song", ("bad", "dull")), ("voice", ("good", "superb"))],
        ),
        "spacing-does-not-matter": ("  the film  was good\n. ", [("film", ("good",))]),
    },
)
def test_parse_review_reads_what_is_said(text: str, clauses: list[tuple[str, tuple[str, ...]]]) -> None:
    assert parse_review(text) == [Clause(*clause) for clause in clauses]


ILL_FORMED = {
    "empty": "",
    "praise-without-grammar": "superb superb superb .",
    "no-stop": "the film was good",
    "stop-glued-to-the-word": "the film was good.",
    "capital": "The film was good .",
    "unknown-noun": "the review was good .",
    "intensifier-on-the-second-adjective": "the film was good and very bad .",
    "three-clauses": "the film was good and the plot was bad and the acting was bad .",
    "special-token-left-in": "the film was good . <eos>",
}


@named("text", ILL_FORMED)
def test_ill_formed_is_not_parsed_and_scores_exactly_zero(text: str) -> None:
    assert parse_review(text) is None
    assert not is_well_formed(text)
    assert gold_score(FILM, text) == 0.0


# The grammar again, in another way: one letter for each class of words, and the list of all sentences.
LETTERS = {
    "T": ("the",),
    "N": NOUNS,
    "W": ("was",),
    "I": INTENSIFIERS,
    "A": ADJECTIVES,
    "&": ("and",),
    "B": ("but",),
    ".": (".",),
    "x": ("review", ":", "<eos>"),
}
CLAUSE_SHAPES = ("TNWA", "TNWIA", "TNWA&A", "TNWIA&A")
SHAPES = [f"{one}." for one in CLAUSE_SHAPES] + [
    f"{one}{joiner}{other}." for one in CLAUSE_SHAPES for joiner in "&B" for other in CLAUSE_SHAPES
]


def spell(shape: str, rng: random.Random) -> str:
    return " ".join(rng.choice(LETTERS[letter]) for letter in shape)


def test_the_parser_knows_every_sentence_shape_from_every_slip_of_one_word() -> None:
    rng = random.Random(0)
    slips = set(SHAPES)
    for shape in SHAPES:
        for place in range(len(shape) + 1):
            slips.add(shape[:place] + shape[place + 1 :])
            slips.update(shape[:place] + letter + shape[place:] for letter in LETTERS)
            slips.update(shape[:place] + letter + shape[place + 1 :] for letter in LETTERS)
    assert {shape for shape in slips if is_well_formed(spell(shape, rng))} == set(SHAPES)


def test_the_vocabulary_is_exactly_the_words_in_use() -> None:
    rng = random.Random(0)
    texts = all_prompts() + [spell(shape, rng) for shape in SHAPES for _ in range(20)]
    assert len(VOCABULARY) == len(set(VOCABULARY))
    assert set(VOCABULARY) == {word for text in texts for word in text.split()}


def test_prompts_are_distinct_of_every_length_from_4_to_10_and_know_their_topic() -> None:
    prompts = all_prompts()
    assert len(prompts) == len(set(prompts)) == len(TEMPLATES) * len(TOPICS) == 48
    assert {len(prompt.split()) for prompt in prompts} == set(range(4, 11))
    assert prompts[:2] == ["review the film :", "review the book :"]
    assert [topic_of(prompt) for prompt in prompts] == list(TOPICS) * len(TEMPLATES)


@named(
    "prompt, rule",
    {
        "no-topic": ("review the :", "which names none"),
        "an-aspect-is-no-topic": ("review the plot :", "which names none"),
        "glued-punctuation": ("review the film:", "as a word of its own"),
        "two-topics": ("compare the film and the book :", "names film and book"),
    },
)
def test_a_prompt_must_name_one_topic(prompt: str, rule: str) -> None:
    for call in (topic_of, lambda text: sample_review(text, random.Random(0)), lambda text: gold_score(text, "")):
        with pytest.raises(ValueError, match=rule):
            call(prompt)


def test_every_sampled_review_is_well_formed_and_short_enough() -> None:
    lengths = set()
    for prompt, review in sample_texts(seed=1, count=2000):
        assert is_well_formed(review), review
        assert review == " ".join(review.split())
        assert len((prompt + " " + review).split()) + 1 <= MAX_LENGTH
        lengths.add(len(review.split()))
    assert min(lengths) == 5 and max(lengths) == 16


def test_the_same_seed_gives_the_same_texts_and_another_seed_others() -> None:
    assert sample_texts(seed=3) == sample_texts(seed=3)
    assert sample_texts(seed=3) != sample_texts(seed=4)


def test_the_writer_uses_its_own_source_of_chance_and_only_its_stable_part() -> None:
    before = random.getstate()
    rng = OnlyRandom(0)
    texts = [sample_review(prompt, rng) for prompt in sample_prompts(50, rng)]
    make_preferences([(FILM, texts[0], texts[1])], rng)
    assert random.getstate() == before


@named(
    "habits, gold",
    {
        "all-praise-on-topic-is-the-maximum": (Habits(1, 0, 1, 0, 1, 1, 0.5, 1, 0.3), 2.0),
        "praise-contradicted-is-blame": (Habits(1, 0, 0, 0, 1, 1, 0.5, 1, 0.3), 0.0),
        "neutral-only-counts-relevance": (Habits(1, 0, 0, 1, 1, 1, 0.5, 1, 0.3), 1.0),
        "all-blame-off-topic-is-the-minimum": (Habits(0, 1, 1, 0, 0, 1, 0.5, 1, 0.3), -1.0),
    },
)
def test_extreme_habits_decide_gold(habits: Habits, gold: float) -> None:
    assert {gold_score(prompt, review) for prompt, review in sample_texts(0, 100, habits)} == {gold}


def test_the_default_habits_are_kept_on_average() -> None:
    habits = Habits()
    reviews = sample_clauses(habits, count=4000)
    texts = [review.split() for _, review in sample_texts(0, 4000)]
    clauses = [(topic, clause) for topic, parsed in reviews for clause in parsed]
    two = [words for words, (_, parsed) in zip(texts, reviews, strict=True) if len(parsed) == 2]
    rates = {
        "two_clauses": len(two) / len(reviews),
        "joined_by_but": sum("but" in words for words in two) / len(two),
        "on_topic": sum(clause.noun in topic_nouns(topic) for topic, clause in clauses) / len(clauses),
        "second_adjective": sum(len(clause.adjectives) == 2 for _, clause in clauses) / len(clauses),
        "intensifier": sum(word in INTENSIFIERS for words in texts for word in words) / len(clauses),
    }
    expected = {name: getattr(habits, name) for name in rates}
    assert rates == pytest.approx(expected, abs=0.04)  # 0.5 / sqrt(2000) is 0.011


def test_the_demonstrations_are_mediocre() -> None:
    scores = [gold_score(prompt, review) for prompt, review in sample_texts(0, 2000)]
    assert 0.6 < sum(scores) / len(scores) < 1.2  # room on both sides: PPO must have something to win
    assert min(scores) < 0.0 and max(scores) == GOLD_MAX


@named(
    "wrong, rule",
    {
        "above-one": ({"on_topic": 1.5}, r"on_topic in \[0, 1\], got 1.5"),
        "nan": ({"two_clauses": math.nan}, "two_clauses"),
        "adjectives-exceed-one": ({"neutral_adjective": 0.3}, r"agreeing_adjective \+ neutral"),
    },
)
def test_habits_must_be_probabilities(wrong: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Habits(**wrong)


@named(
    "response, gold",
    {
        "an-intensifier-adds-nothing": ("the film was very good .", 1.5),
        "a-repeated-adjective-counts-twice": ("the film was good and good .", 2.0),
        "neutral-is-zero": ("the film was plain .", 1.0),
        "praise-and-blame-cancel": ("the film was good and bad .", 1.0),
        "blame-is-subtracted": ("the film was bad .", 0.5),
        "clauses-add-up": ("the film was good and the plot was dull and weak .", 1.0 + (1 - 2) / 2),
        "another-topic-is-irrelevant": ("the book was good .", 0.5),
        "half-of-the-clauses": ("the film was good but the sauce was good .", 0.5 + 1.0),
        "more-blame-than-counts": ("the sauce was bad and dull and the room was weak and awful .", -1.0),
    },
)
def test_gold_by_hand(response: str, gold: float) -> None:
    assert gold_score(FILM, response) == gold


@named(
    "response, reward",
    {
        "good": ("the film was superb .", 1.0),
        "bad-and-verified": ("the film was awful .", 1.0),
        "one-clause-off-topic": ("the film was superb but the sauce was good .", 0.0),
        "ungrammatical": ("the film was superb superb .", 0.0),
        "nothing": ("", 0.0),
    },
)
def test_the_verifier_sees_grammar_and_topic_and_no_praise(response: str, reward: float) -> None:
    assert verify(FILM, response) == reward


def test_the_verifier_cannot_know_the_truth() -> None:
    code = inspect.getsource(verifier)
    assert re.findall(r"^from (.*) import", code, re.MULTILINE) == ["__future__", ".language"] and "gold." not in code
