"""A reward that is a program: what it says is always right, and it does not see everything."""

from __future__ import annotations

from .language import parse_review, topic_nouns, topic_of


def verify(prompt: str, response: str) -> float:
    """1.0 for one complete review that speaks of the prompt's topic alone, else 0.0.

    Whether the review praises it does not see: a verifier that checks less than people want, as every real one does.
    Training may use it; it knows nothing of `gold_score`.

    Args:
        prompt: names exactly one topic.
        response: the text alone, without prompt and special tokens.

    Raises:
        ValueError: the prompt does not name exactly one topic.
    """
    nouns = topic_nouns(topic_of(prompt))
    clauses = parse_review(response)
    return float(clauses is not None and all(clause.noun in nouns for clause in clauses))
