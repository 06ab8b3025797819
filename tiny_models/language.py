"""The language of the toy environment: prompts that ask for a review, and the grammar of reviews.

    review := clause [("and" | "but") clause] "."
    clause := "the" noun "was" [intensifier] adjective ["and" adjective]

Words and punctuation are separated by one space, so that a text is the list of its tokens.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

_Item = TypeVar("_Item")

# The topic is what a prompt asks about; a review may speak of the topic or of one of its aspects.
TOPICS: dict[str, tuple[str, ...]] = {
    "film": ("plot", "acting"),
    "book": ("story", "ending"),
    "meal": ("sauce", "dessert"),
    "phone": ("screen", "battery"),
    "hotel": ("room", "staff"),
    "song": ("melody", "voice"),
}
POSITIVE = ("good", "lovely", "superb", "charming", "brilliant")
NEGATIVE = ("bad", "dull", "awful", "boring", "weak")
NEUTRAL = ("plain", "usual")
ADJECTIVES = POSITIVE + NEGATIVE + NEUTRAL
INTENSIFIERS = ("very", "really")
NOUNS = tuple(noun for topic, aspects in TOPICS.items() for noun in (topic, *aspects))

# 4, 5, 6, 7, 8, 8, 9 and 10 words: almost every batch of prompts needs padding.
TEMPLATES = (
    "review the {topic} :",
    "please review the {topic} :",
    "tell me about the {topic} :",
    "please say something about the {topic} :",
    "write a short review of the {topic} :",
    "what do you think of the {topic} ?",
    "a friend asks : how was the {topic} ?",
    "i know nothing of the {topic} , tell me :",
)


def _vocabulary() -> tuple[str, ...]:
    prompt_words = [word for template in TEMPLATES for word in template.split() if word != "{topic}"]
    review_words = [".", "the", "was", "and", "but", *INTENSIFIERS, *ADJECTIVES, *NOUNS]
    # dict.fromkeys drops repetitions and keeps the order, which decides the token ids.
    return tuple(dict.fromkeys(review_words + prompt_words))


VOCABULARY: tuple[str, ...] = _vocabulary()

_ADJECTIVE = "|".join(ADJECTIVES)
_CLAUSE = rf"the ({'|'.join(NOUNS)}) was (?:(?:{'|'.join(INTENSIFIERS)}) )?({_ADJECTIVE})(?: and ({_ADJECTIVE}))?"
_REVIEW = re.compile(rf"{_CLAUSE}(?: (?:and|but) {_CLAUSE})? \.")


class Clause(NamedTuple):
    """What one clause says: "the film was very good and dull" is Clause("film", ("good", "dull"))."""

    noun: str
    adjectives: tuple[str, ...]


@dataclass(frozen=True)
class Habits:
    """How the writer of the demonstrations writes; every field is a probability.

    The defaults make a mediocre writer: always grammatical, usually on topic, as often negative as positive. That
    leaves PPO room to improve without having to teach grammar first.
    """

    positive_mood: float = 0.4
    negative_mood: float = 0.4  # the rest is a mixed mood: each adjective is positive or negative by chance
    agreeing_adjective: float = 0.8
    neutral_adjective: float = 0.1  # the rest contradicts the mood
    on_topic: float = 0.92  # of each clause
    two_clauses: float = 0.55
    joined_by_but: float = 0.5
    second_adjective: float = 0.4  # in each clause
    intensifier: float = 0.3  # in each clause


MEDIOCRE = Habits()


def all_prompts() -> list[str]:
    """Return every prompt once: each template with each topic, always in the same order."""
    return [template.format(topic=topic) for template in TEMPLATES for topic in TOPICS]


def sample_prompts(count: int, rng: random.Random) -> list[str]:
    """Draw `count` prompts independently and uniformly, so that some may repeat."""
    prompts = all_prompts()
    return [_pick(prompts, rng) for _ in range(count)]


def topic_of(prompt: str) -> str:
    """Return the one topic that the prompt asks about.

    Raises:
        ValueError: the prompt names no topic, or more than one.
    """
    named = [word for word in dict.fromkeys(prompt.split()) if word in TOPICS]
    if len(named) != 1:
        found = " and ".join(named) if named else "none"
        raise ValueError(
            f"expected a prompt that names one topic, got {prompt!r}, which names {found}; "
            f"use exactly one of {', '.join(TOPICS)}, as a word of its own"
        )
    return named[0]


def topic_nouns(topic: str) -> tuple[str, ...]:
    """Return the nouns that belong to a topic: the topic itself, then its aspects."""
    return (topic, *TOPICS[topic])


def sample_review(prompt: str, rng: random.Random, habits: Habits = MEDIOCRE) -> str:
    """Write one demonstration: a well-formed review of 5 to 16 words, of the quality that `habits` says.

    Args:
        prompt: names the topic; its wording does not matter.
        rng: the only source of chance; the same state gives the same review.
        habits: the writer's probabilities.

    Returns:
        The review without any special token.

    Raises:
        ValueError: the prompt does not name exactly one topic.
    """
    topic = topic_of(prompt)
    mood = _sample_mood(rng, habits)
    review = _sample_clause(topic, mood, rng, habits)
    if rng.random() < habits.two_clauses:
        joiner = "but" if rng.random() < habits.joined_by_but else "and"
        review = f"{review} {joiner} {_sample_clause(topic, mood, rng, habits)}"
    return f"{review} ."


def parse_review(text: str) -> list[Clause] | None:
    """Return the clauses of a review, or None when the text is not well-formed.

    The word after "and" decides what it joins: an adjective, or a clause that starts with "the". Spaces may
    be repeated or stand at the ends. A special token such as <eos> left in the text makes it ill-formed.
    """
    match = _REVIEW.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    first_noun, first, second, second_noun, third, fourth = match.groups()
    clauses = [(first_noun, first, second), (second_noun, third, fourth)]
    return [
        Clause(noun, tuple(adjective for adjective in adjectives if adjective)) for noun, *adjectives in clauses if noun
    ]


def _pick(items: list[_Item] | tuple[_Item, ...], rng: random.Random) -> _Item:
    # Python promises the same numbers in every version of random() only, not of choice().
    return items[int(rng.random() * len(items))]


def _sample_mood(rng: random.Random, habits: Habits) -> str:
    draw = rng.random()
    if draw < habits.positive_mood:
        return "positive"
    return "negative" if draw < habits.positive_mood + habits.negative_mood else "mixed"


def _sample_clause(topic: str, mood: str, rng: random.Random, habits: Habits) -> str:
    on_topic = topic_nouns(topic)
    if rng.random() < habits.on_topic:
        noun = _pick(on_topic, rng)
    else:
        noun = _pick([noun for noun in NOUNS if noun not in on_topic], rng)
    intensifier = f"{_pick(INTENSIFIERS, rng)} " if rng.random() < habits.intensifier else ""
    adjectives = _sample_adjective(mood, rng, habits)
    if rng.random() < habits.second_adjective:
        adjectives = f"{adjectives} and {_sample_adjective(mood, rng, habits, besides=adjectives)}"
    return f"the {noun} was {intensifier}{adjectives}"


def _sample_adjective(mood: str, rng: random.Random, habits: Habits, besides: str = "") -> str:
    if mood == "mixed":
        mood = _pick(("positive", "negative"), rng)
    agreeing, contradicting = (POSITIVE, NEGATIVE) if mood == "positive" else (NEGATIVE, POSITIVE)
    draw = rng.random()
    words: tuple[str, ...]
    if draw < habits.agreeing_adjective:
        words = agreeing
    elif draw < habits.agreeing_adjective + habits.neutral_adjective:
        words = NEUTRAL
    else:
        words = contradicting
    return _pick([word for word in words if word != besides], rng)
