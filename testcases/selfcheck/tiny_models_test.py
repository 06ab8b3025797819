"""The course's own tests of the little world: what every lesson takes for granted about it."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tiny_models
from tiny_models.builders import build_causal_lm, build_gpt2, build_llama
from tiny_models.gold import GOLD_MAX, gold_score, is_well_formed
from tiny_models.language import (
    ADJECTIVES,
    INTENSIFIERS,
    NEGATIVE,
    NEUTRAL,
    NOUNS,
    POSITIVE,
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
from tiny_models.preferences import Preference, label_pair, make_preferences, preference_probability
from tiny_models.tokenizer import MAX_LENGTH, build_tokenizer

FILM = "review the film :"


class OnlyRandom(random.Random):
    """A source of chance that has random() alone, the one method Python keeps stable between versions."""

    def getrandbits(self, k: int) -> int:
        raise AssertionError("choice, sample, shuffle and randint may change with Python: use random() alone")


def sample_texts(seed: int, count: int = 300, habits: Habits | None = None) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(prompt, sample_review(prompt, rng, habits or Habits())) for prompt in sample_prompts(count, rng)]


def sample_clauses(habits: Habits, seed: int = 0, count: int = 2000) -> list[tuple[str, list[Clause]]]:
    texts = sample_texts(seed, count, habits)
    return [(topic_of(prompt), parse_review(review) or []) for prompt, review in texts]


@pytest.mark.parametrize(
    "text, clauses",
    [
        pytest.param("the film was good .", [("film", ("good",))], id="shortest"),
        pytest.param("the plot was very dull .", [("plot", ("dull",))], id="intensifier"),
        pytest.param("the room was plain and lovely .", [("room", ("plain", "lovely"))], id="and-joins-adjectives"),
        pytest.param(
            "the film was good and the plot was weak .",
            [("film", ("good",)), ("plot", ("weak",))],
            id="and-joins-clauses",
        ),
        pytest.param(
            "the song was really bad and dull but the voice was very good and superb .",
            [("song", ("bad", "dull")), ("voice", ("good", "superb"))],
            id="longest",
        ),
        pytest.param(
            "the meal was good and good and the meal was good .",
            [("meal", ("good", "good")), ("meal", ("good",))],
            id="repetition-is-grammatical",
        ),
        pytest.param("  the film  was good\n. ", [("film", ("good",))], id="spacing-does-not-matter"),
    ],
)
def test_parse_review_reads_what_is_said(text: str, clauses: list[tuple[str, tuple[str, ...]]]) -> None:
    assert parse_review(text) == [Clause(*clause) for clause in clauses]


ILL_FORMED = [
    pytest.param("", id="empty"),
    pytest.param(".", id="only-a-stop"),
    pytest.param("superb superb superb .", id="praise-without-grammar"),
    pytest.param("the film was good", id="no-stop"),
    pytest.param("the film was good . .", id="two-stops"),
    pytest.param("the film was good . the plot was good .", id="two-sentences"),
    pytest.param("the film was good !", id="dot-is-a-dot-not-any-character"),
    pytest.param("the film was good.", id="stop-glued-to-the-word"),
    pytest.param("The film was good .", id="capital"),
    pytest.param("film was good .", id="no-article"),
    pytest.param("the was good .", id="no-noun"),
    pytest.param("the review was good .", id="unknown-noun"),
    pytest.param("the film good .", id="no-verb"),
    pytest.param("the film was .", id="no-adjective"),
    pytest.param("the film was very .", id="intensifier-alone"),
    pytest.param("the film was very really good .", id="two-intensifiers"),
    pytest.param("the film was good and very bad .", id="intensifier-on-the-second-adjective"),
    pytest.param("the film was good but bad .", id="but-joins-clauses-only"),
    pytest.param("the film was good bad .", id="adjectives-not-joined"),
    pytest.param("the film was good and bad and dull .", id="three-adjectives"),
    pytest.param("the film was good and .", id="joiner-at-the-end"),
    pytest.param("the film was good and the plot .", id="second-clause-cut-off"),
    pytest.param("the film was good the plot was bad .", id="clauses-not-joined"),
    pytest.param("the film was good and but the plot was bad .", id="two-joiners"),
    pytest.param("the film was good and the plot was bad and the acting was bad .", id="three-clauses"),
    pytest.param("but the film was good .", id="joiner-at-the-start"),
    pytest.param("the film was good . <eos>", id="special-token-left-in"),
]


@pytest.mark.parametrize("text", ILL_FORMED)
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


def test_every_noun_intensifier_and_adjective_is_understood() -> None:
    for noun in NOUNS:
        for intensifier in INTENSIFIERS:
            for adjective in ADJECTIVES:
                text = f"the {noun} was {intensifier} {adjective} ."
                assert parse_review(text) == [Clause(noun, (adjective,))]


def test_the_words_of_the_world() -> None:
    assert (len(POSITIVE), len(NEGATIVE), len(NEUTRAL)) == (5, 5, 2)
    assert len(set(ADJECTIVES)) == 12
    assert len(set(NOUNS)) == len(NOUNS) == 18
    assert all(len(aspects) == 2 for aspects in TOPICS.values())


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


def test_sampled_prompts_cover_all_prompts_about_equally() -> None:
    sampled = sample_prompts(4800, random.Random(0))
    counts = [sampled.count(prompt) for prompt in all_prompts()]
    assert sum(counts) == 4800
    assert min(counts) > 60 and max(counts) < 140  # 100 +- 4 standard deviations
    assert sample_prompts(0, random.Random(0)) == []


@pytest.mark.parametrize(
    "prompt, rule",
    [
        pytest.param("review the :", "which names none", id="no-topic"),
        pytest.param("review the plot :", "which names none", id="an-aspect-is-no-topic"),
        pytest.param("review the film:", "as a word of its own", id="glued-punctuation"),
        pytest.param("compare the film and the book :", "names film and book", id="two-topics"),
    ],
)
def test_a_prompt_must_name_one_topic(prompt: str, rule: str) -> None:
    for call in (
        topic_of,
        lambda text: sample_review(text, random.Random(0)),
        lambda text: gold_score(text, ""),
    ):
        with pytest.raises(ValueError, match=rule):
            call(prompt)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        sample_prompts(-1, random.Random(0))


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


def test_a_review_never_says_one_adjective_twice_in_a_clause() -> None:
    habits = Habits(second_adjective=1.0)
    pairs = [clause.adjectives for _, clauses in sample_clauses(habits) for clause in clauses]
    assert all(len(pair) == 2 and pair[0] != pair[1] for pair in pairs)


@pytest.mark.parametrize(
    "habits, gold",
    [
        pytest.param(Habits(1, 0, 1, 0, 1, 1, 0.5, 1, 0.3), 2.0, id="all-praise-on-topic-is-the-maximum"),
        pytest.param(Habits(0, 1, 1, 0, 1, 1, 0.5, 1, 0.3), 0.0, id="all-blame-on-topic"),
        pytest.param(Habits(1, 0, 0, 0, 1, 1, 0.5, 1, 0.3), 0.0, id="praise-contradicted-is-blame"),
        pytest.param(Habits(0, 1, 0, 0, 1, 1, 0.5, 1, 0.3), 2.0, id="blame-contradicted-is-praise"),
        pytest.param(Habits(1, 0, 0, 1, 1, 1, 0.5, 1, 0.3), 1.0, id="neutral-only-counts-relevance"),
        pytest.param(Habits(0, 1, 1, 0, 0, 1, 0.5, 1, 0.3), -1.0, id="all-blame-off-topic-is-the-minimum"),
        pytest.param(Habits(1, 0, 1, 0, 1, 0, 0.5, 0, 0.3), 1.5, id="one-clause-one-adjective"),
        pytest.param(Habits(1, 0, 1, 0, 1, 1, 0.5, 0, 0.3), 2.0, id="two-clauses-one-adjective-each"),
    ],
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


@pytest.mark.parametrize(
    "positive_mood, negative_mood, praise, blame",
    [
        pytest.param(1.0, 0.0, 0.7, 0.1, id="positive"),
        pytest.param(0.0, 1.0, 0.1, 0.7, id="negative"),
        pytest.param(0.0, 0.0, 0.4, 0.4, id="mixed"),
        pytest.param(0.5, 0.2, 0.7 * 0.5 + 0.1 * 0.2 + 0.4 * 0.3, 0.1 * 0.5 + 0.7 * 0.2 + 0.4 * 0.3, id="of-each"),
    ],
)
def test_moods_decide_the_adjectives(positive_mood: float, negative_mood: float, praise: float, blame: float) -> None:
    habits = Habits(positive_mood, negative_mood, agreeing_adjective=0.7, neutral_adjective=0.2, second_adjective=0)
    words = [
        word for _, parsed in sample_clauses(habits, count=4000) for clause in parsed for word in clause.adjectives
    ]
    assert sum(word in POSITIVE for word in words) / len(words) == pytest.approx(praise, abs=0.04)
    assert sum(word in NEGATIVE for word in words) / len(words) == pytest.approx(blame, abs=0.04)


def test_one_mood_lasts_for_the_whole_review_unless_it_is_mixed() -> None:
    def agreement(habits: Habits) -> float:
        firsts = [[clause.adjectives[0] in POSITIVE for clause in parsed] for _, parsed in sample_clauses(habits)]
        return sum(one == other for one, other in firsts) / len(firsts)

    always = {"agreeing_adjective": 1.0, "neutral_adjective": 0.0, "two_clauses": 1.0}
    assert agreement(Habits(0.5, 0.5, **always)) == 1.0
    assert agreement(Habits(0.0, 0.0, **always)) == pytest.approx(0.5, abs=0.05)


def test_the_demonstrations_are_mediocre() -> None:
    scores = [gold_score(prompt, review) for prompt, review in sample_texts(0, 2000)]
    assert 0.6 < sum(scores) / len(scores) < 1.2  # room on both sides: PPO must have something to win
    assert min(scores) < 0.0 and max(scores) == GOLD_MAX


@pytest.mark.parametrize(
    "wrong, rule",
    [
        pytest.param({"on_topic": 1.5}, r"on_topic in \[0, 1\], got 1.5", id="above-one"),
        pytest.param({"intensifier": -0.1}, "intensifier", id="below-zero"),
        pytest.param({"two_clauses": math.nan}, "two_clauses", id="nan"),
        pytest.param({"positive_mood": 0.7}, r"positive_mood \+ negative_mood", id="moods-exceed-one"),
        pytest.param({"neutral_adjective": 0.3}, r"agreeing_adjective \+ neutral", id="adjectives-exceed-one"),
    ],
)
def test_habits_must_be_probabilities(wrong: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Habits(**wrong)


@pytest.mark.parametrize(
    "response, gold",
    [
        pytest.param("the film was good and lovely and the plot was superb and brilliant .", 2.0, id="more-praise"),
        pytest.param("the film was good .", 1.5, id="half-of-enough-praise"),
        pytest.param("the film was very good .", 1.5, id="an-intensifier-adds-nothing"),
        pytest.param("the acting was good and charming .", 2.0, id="an-aspect-is-relevant"),
        pytest.param("the film was good and good .", 2.0, id="a-repeated-adjective-counts-twice"),
        pytest.param("the film was plain .", 1.0, id="neutral-is-zero"),
        pytest.param("the film was good and bad .", 1.0, id="praise-and-blame-cancel"),
        pytest.param("the film was bad .", 0.5, id="blame-is-subtracted"),
        pytest.param("the film was good and the plot was dull and weak .", 1.0 + (1 - 2) / 2, id="clauses-add-up"),
        pytest.param("the book was good .", 0.5, id="another-topic-is-irrelevant"),
        pytest.param("the film was good but the sauce was good .", 0.5 + 1.0, id="half-of-the-clauses"),
        pytest.param("the sauce was good but the film was good .", 0.5 + 1.0, id="the-other-half"),
        pytest.param("the sauce was bad and dull and the room was weak and awful .", -1.0, id="more-blame-than-counts"),
    ],
)
def test_gold_by_hand(response: str, gold: float) -> None:
    assert gold_score(FILM, response) == gold


def test_gold_depends_on_the_topic_not_on_the_wording_of_the_prompt() -> None:
    response = "the melody was lovely and the film was charming ."
    for prompt in all_prompts():
        assert gold_score(prompt, response) == 1.0 + (0.5 if topic_of(prompt) in ("song", "film") else 0.0)


def test_no_text_of_the_language_scores_above_the_maximum() -> None:
    rng = random.Random(0)
    scores = [gold_score(FILM, spell(shape, rng)) for shape in SHAPES for _ in range(50)]
    assert -1.0 <= min(scores) and max(scores) <= GOLD_MAX == 2.0


GOOD, BETTER = "the film was good .", "the film was good and lovely ."  # gold 1.5 and 2
WORST = "the sauce was bad and dull and the room was weak and awful ."  # gold -1
BEST = "the film was good and lovely and the plot was superb and brilliant ."  # gold 2


@pytest.mark.parametrize(
    "first, second, temperature, flip, probability",
    [
        pytest.param(GOOD, "the plot was superb .", 0.1, 0.02, 0.5, id="equal-gold-is-a-coin"),
        pytest.param(BETTER, GOOD, 0.5 / math.log(3), 0.0, 0.75, id="sigmoid-of-log-3"),
        pytest.param(GOOD, BETTER, 0.5 / math.log(3), 0.0, 0.25, id="the-worse-first"),
        pytest.param(BETTER, GOOD, 0.5 / math.log(3), 0.1, 0.9 * 0.75 + 0.1 * 0.25, id="slips-go-both-ways"),
        pytest.param(BEST, WORST, 1e-6, 0.0, 1.0, id="a-sharp-eye-does-not-overflow"),
        pytest.param(WORST, BEST, 1e-6, 0.03, 0.03, id="no-gap-makes-slips-rarer"),
        pytest.param(BEST, WORST, 1e-6, 1.0, 0.0, id="always-the-wrong-button"),
    ],
)
def test_preference_probability_by_hand(
    first: str, second: str, temperature: float, flip: float, probability: float
) -> None:
    got = preference_probability(FILM, first, second, temperature, flip)
    assert got == pytest.approx(probability, rel=0, abs=1e-12)


def test_the_default_annotator_has_temperature_01_and_2_percent_slips() -> None:
    sharp = 1.0 / (1.0 + math.exp(-0.5 / 0.1))
    assert preference_probability(FILM, BETTER, GOOD) == pytest.approx(0.98 * sharp + 0.02 * (1.0 - sharp))


def test_a_larger_gap_is_preferred_more_often_and_as_often_as_promised() -> None:
    rng = random.Random(0)
    rates = []
    gaps = ("the film was usual .", GOOD, BETTER)  # against gold 1: gaps 0, 0.5, 1
    for better in gaps:
        other = "the acting was plain ."
        wins = sum(label_pair(FILM, better, other, rng, 0.4, 0.03).chosen == better for _ in range(2000))
        rates.append(wins / 2000)
        assert rates[-1] == pytest.approx(preference_probability(FILM, better, other, 0.4, 0.03), abs=0.04)
    assert rates == sorted(rates) and rates[0] < 0.55 and rates[-1] > 0.85


@pytest.mark.parametrize("flip, chosen", [pytest.param(0.0, BEST, id="right"), pytest.param(1.0, WORST, id="wrong")])
@pytest.mark.parametrize("first, second", [(BEST, WORST), (WORST, BEST)], ids=["best-first", "best-second"])
def test_label_pair_does_not_depend_on_the_order(first: str, second: str, flip: float, chosen: str) -> None:
    preference = label_pair(FILM, first, second, random.Random(0), temperature=1e-6, flip=flip)
    assert preference == Preference(FILM, chosen, WORST if chosen == BEST else BEST)


def test_pairs_without_a_difference_are_dropped_and_the_others_keep_their_order() -> None:
    book = "review the book :"
    pairs = [
        (FILM, GOOD, GOOD),
        (FILM, BEST, WORST),
        (FILM, GOOD, "the plot was superb ."),
        (FILM, "", ""),
        (book, WORST, BEST),
    ]
    labelled = make_preferences(pairs, random.Random(0), temperature=1e-6, flip=0.0)
    assert labelled == [Preference(FILM, BEST, WORST), Preference(book, BEST, WORST)]


def test_a_dropped_pair_does_not_change_the_judgement_of_the_next() -> None:
    pairs = [(FILM, GOOD, BETTER)] * 20
    with_equal = [pair for kept in pairs for pair in (kept, (FILM, GOOD, GOOD))]
    assert make_preferences(with_equal, random.Random(0)) == make_preferences(pairs, random.Random(0))


def test_make_preferences_passes_the_annotator_on() -> None:
    pairs = [(FILM, BEST, WORST)] * 50
    assert {label.chosen for label in make_preferences(pairs, random.Random(0), flip=1.0)} == {WORST}
    assert len({label.chosen for label in make_preferences(pairs, random.Random(0), temperature=100.0)}) == 2


def test_the_same_seed_gives_the_same_judgements_and_another_seed_others() -> None:
    pairs = [(FILM, GOOD, BETTER)] * 50
    once, again, other = (make_preferences(pairs, random.Random(seed)) for seed in (0, 0, 1))
    assert once == again != other


@pytest.mark.parametrize(
    "wrong, rule",
    [
        pytest.param({"temperature": 0.0}, "finite temperature > 0, got 0.0", id="temperature-zero"),
        pytest.param({"temperature": -1.0}, "temperature", id="temperature-negative"),
        pytest.param({"temperature": math.inf}, "temperature", id="temperature-infinite"),
        pytest.param({"temperature": math.nan}, "temperature", id="temperature-nan"),
        pytest.param({"flip": 1.01}, r"flip to be a probability in \[0, 1\], got 1.01", id="flip-above-one"),
        pytest.param({"flip": -0.01}, "flip", id="flip-negative"),
    ],
)
def test_an_impossible_annotator_is_refused(wrong: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        label_pair(FILM, GOOD, BETTER, random.Random(0), **wrong)


@pytest.fixture(scope="module", params=[False, True], ids=["pad-is-not-eos", "pad-is-eos"])
def pad_is_eos(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module", params=["built", "loaded"])
def tokenizer(pad_is_eos: bool, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    built = build_tokenizer(pad_is_eos)
    if request.param == "built":
        return built
    folder = tmp_path_factory.mktemp("tokenizer")
    built.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def test_decode_is_the_inverse_of_encode(tokenizer) -> None:
    texts = all_prompts() + [text for pair in sample_texts(seed=5) for text in (pair[1], " ".join(pair))]
    for text in texts:
        token_ids = tokenizer.encode(text)
        assert len(token_ids) == len(text.split())
        assert tokenizer.unk_token_id not in token_ids
        assert tokenizer.decode(token_ids) == text
        assert tokenizer.decode([*token_ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_special_tokens(tokenizer, pad_is_eos: bool) -> None:
    assert len(tokenizer) == len(VOCABULARY) + 3
    assert (tokenizer.pad_token_id == tokenizer.eos_token_id) == pad_is_eos
    assert tokenizer.eos_token == "<eos>"
    assert tokenizer.pad_token == ("<eos>" if pad_is_eos else "<pad>")
    assert tokenizer.encode("the film was great . <eos>").count(tokenizer.unk_token_id) == 1
    assert tokenizer.encode("good . <eos>")[-1] == tokenizer.eos_token_id
    assert tokenizer.model_max_length == MAX_LENGTH
    assert tokenizer.clean_up_tokenization_spaces is False


def test_both_variants_give_every_word_the_same_id(tokenizer) -> None:
    assert tokenizer.get_vocab() == build_tokenizer().get_vocab()


def test_prompts_are_padded_on_the_left(tokenizer) -> None:
    batch = tokenizer(["review the film :", "tell me about the film :"], padding=True, return_tensors="pt")
    pad = tokenizer.pad_token_id
    assert set(batch) == {"input_ids", "attention_mask"}  # token_type_ids would make a Llama's forward fail
    assert batch["input_ids"][0].tolist() == [pad, pad, *tokenizer.encode("review the film :")]
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]


SETTINGS = {"eos_token_id": 1, "pad_token_id": 0}


@pytest.fixture(params=["gpt2", "llama"])
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


def logits_of(model: torch.nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).logits


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == same and torch.equal(weight, twin) for (name, weight), (same, twin) in pairs)


def test_the_shape_is_the_one_asked_for(architecture: str) -> None:
    shape = {"n_layer": 3, "n_embd": 24, "n_head": 2, "n_positions": 32}
    model = build_causal_lm(architecture, 50, **shape, **SETTINGS)
    config = model.config
    got = (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.max_position_embeddings,
    )
    assert got == (3, 24, 2, 32)
    assert (config.vocab_size, config.eos_token_id, config.pad_token_id) == (50, 1, 0)
    assert config.bos_token_id is None
    assert logits_of(model, input_ids=torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 50)
    assert not model.training


def test_the_default_models_are_tiny_and_about_equal_in_size() -> None:
    gpt2, llama = build_gpt2(64, **SETTINGS), build_llama(64, **SETTINGS)
    assert (gpt2.config.model_type, llama.config.model_type) == ("gpt2", "llama")
    assert gpt2.num_parameters() == pytest.approx(llama.num_parameters(), rel=0.1)
    assert gpt2.num_parameters() < 150_000
    for model in (gpt2, llama):
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        config = model.config
        got = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads)
        assert (*got, config.max_position_embeddings) == (2, 64, 4, MAX_LENGTH)


def test_the_seed_determines_every_weight(architecture: str) -> None:
    torch.manual_seed(1)
    once = build_causal_lm(architecture, 64, seed=7, **SETTINGS)
    torch.manual_seed(2)
    assert same_weights(once, build_causal_lm(architecture, 64, seed=7, **SETTINGS))
    assert not same_weights(once, build_causal_lm(architecture, 64, seed=8, **SETTINGS))


def test_building_leaves_the_global_random_state_alone(architecture: str) -> None:
    torch.manual_seed(3)
    before, python_before = torch.get_rng_state(), random.getstate()
    build_causal_lm(architecture, 64, seed=7, **SETTINGS)
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before


def test_building_does_not_seed_the_gpus(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seed: int) -> None:
        raise AssertionError("torch.manual_seed was called: it would change the random state of every GPU")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    build_causal_lm(architecture, 64, seed=7, **SETTINGS)


def test_weights_are_real_numbers_even_where_another_device_is_the_default(architecture: str) -> None:
    with torch.device("meta"):
        model = build_causal_lm(architecture, 64, seed=7, **SETTINGS)
    assert same_weights(model, build_causal_lm(architecture, 64, seed=7, **SETTINGS))


def test_two_passes_agree_unless_dropout_is_asked_for(architecture: str) -> None:
    tokens = torch.arange(12).reshape(1, 12)
    for dropout, agree in ((0.0, True), (0.5, False)):
        model = build_causal_lm(architecture, 64, dropout=dropout, **SETTINGS)
        assert torch.equal(logits_of(model, input_ids=tokens), logits_of(model, input_ids=tokens))
        model.train()
        assert torch.equal(logits_of(model, input_ids=tokens), logits_of(model, input_ids=tokens)) == agree


def test_gpt2_has_dropout_in_all_three_places() -> None:
    config = build_gpt2(64, dropout=0.2, **SETTINGS).config
    assert (config.embd_pdrop, config.resid_pdrop, config.attn_pdrop) == (0.2, 0.2, 0.2)


def test_gpt2_has_a_table_of_positions_and_llama_has_none() -> None:
    gpt2, llama = (dict(build(64, **SETTINGS).named_parameters()) for build in (build_gpt2, build_llama))
    assert gpt2["transformer.wpe.weight"].shape == (MAX_LENGTH, 64)
    embeddings = [name for name in llama if "embed" in name or "position" in name or "wpe" in name]
    assert embeddings == ["model.embed_tokens.weight"]


def test_only_gpt2_notices_that_all_positions_moved(architecture: str) -> None:
    model = build_causal_lm(architecture, 64, **SETTINGS)
    tokens, positions = torch.arange(3, 15).reshape(1, 12), torch.arange(12).reshape(1, 12)
    here, there = (logits_of(model, input_ids=tokens, position_ids=positions + shift) for shift in (0, 9))
    assert torch.allclose(here, there, rtol=0, atol=1e-5) == (architecture == "llama")


def test_only_gpt2_suffers_from_left_padding_without_position_ids(architecture: str) -> None:
    model = build_causal_lm(architecture, 64, **SETTINGS)
    tokens = torch.arange(3, 9).reshape(1, 6)
    padded = torch.nn.functional.pad(tokens, (4, 0), value=0)
    mask = padded != 0
    alone = logits_of(model, input_ids=tokens)
    counted = (mask.long().cumsum(1) - 1).clamp(min=0)
    right = logits_of(model, input_ids=padded, attention_mask=mask.long(), position_ids=counted)[:, 4:]
    naive = logits_of(model, input_ids=padded, attention_mask=mask.long())[:, 4:]
    assert torch.allclose(alone, right, rtol=0, atol=1e-5)
    assert torch.allclose(alone, naive, rtol=0, atol=1e-5) == (architecture == "llama")


def test_a_saved_model_loads_with_the_same_weights(architecture: str, tmp_path: Path) -> None:
    model = build_causal_lm(architecture, 64, **SETTINGS)
    model.save_pretrained(tmp_path)
    assert same_weights(model, AutoModelForCausalLM.from_pretrained(tmp_path))


@pytest.mark.parametrize(
    "wrong, rule",
    [
        pytest.param({"n_embd": 66}, "n_embd=66, n_head=4", id="width-not-divisible"),
        pytest.param({"n_embd": 60}, "rotary positions turn them in pairs", id="odd-head"),
        pytest.param({"n_head": 0}, "n_head=0", id="no-heads"),
        pytest.param({"eos_token_id": 64}, r"eos_token_id in 0\.\.63, got 64", id="eos-outside"),
        pytest.param({"pad_token_id": -1}, "pad_token_id", id="pad-outside"),
    ],
)
def test_an_impossible_model_is_refused(architecture: str, wrong: dict[str, int], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        build_causal_lm(architecture, 64, **{**SETTINGS, **wrong})


def test_an_unknown_architecture_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="gpt2, llama, got 'bert'"):
        build_causal_lm("bert", 64, **SETTINGS)


@pytest.mark.parametrize(
    "modules, absent",
    [
        pytest.param("language gold preferences", "torch transformers tokenizers numpy", id="sentences-are-cheap"),
        pytest.param("tokenizer builders", "tutorial solutions testcases", id="the-world-knows-no-lesson"),
    ],
)
def test_imports_run_one_way(modules: str, absent: str) -> None:
    imports = "; ".join(f"import tiny_models.{module}" for module in modules.split())
    program = f"import sys; {imports}; print(*(set('{absent}'.split()) & set(sys.modules)))"
    root = Path(tiny_models.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
