"""The truth about a review. Evaluation and the annotators look here; training never does."""

from __future__ import annotations

from .language import NEGATIVE, POSITIVE, Clause, parse_review, topic_nouns, topic_of

GOLD_MAX = 2.0
ENOUGH_PRAISE = 2  # adjectives; more of them do not make a review truer


def is_well_formed(response: str) -> bool:
    """Return whether the response is one complete review of the grammar."""
    return parse_review(response) is not None


def gold_score(prompt: str, response: str) -> float:
    """Return how good a response truly is: relevance + sentiment, or 0.0 if it is not well-formed.

    This is the truth, for evaluation only: a policy trained on it would show nothing about RLHF, where the
    reward is a model of what people said. relevance is the share of clauses whose noun belongs to the
    prompt's topic; sentiment is (positive adjectives - negative adjectives) / 2, kept in [-1, 1], so a review
    that stays on topic and praises twice without a word of blame reaches `GOLD_MAX`.

    Args:
        prompt: names exactly one topic.
        response: the text alone, without prompt and special tokens.

    Returns:
        A number in [-1, 2]. A negative review off topic is below 0, so below an ungrammatical text.

    Raises:
        ValueError: the prompt does not name exactly one topic.
    """
    topic = topic_of(prompt)
    clauses = parse_review(response)
    if clauses is None:
        return 0.0
    return _relevance(clauses, topic) + _sentiment(clauses)


def _relevance(clauses: list[Clause], topic: str) -> float:
    nouns = topic_nouns(topic)
    return sum(clause.noun in nouns for clause in clauses) / len(clauses)


def _sentiment(clauses: list[Clause]) -> float:
    adjectives = [adjective for clause in clauses for adjective in clause.adjectives]
    praise = sum(adjective in POSITIVE for adjective in adjectives)
    blame = sum(adjective in NEGATIVE for adjective in adjectives)
    return max(-1.0, min(1.0, (praise - blame) / ENOUGH_PRAISE))
