"""Lesson 1 through what a caller does with the answer."""


def responses_after_the_answer_is_overwritten(lesson, responses, stop_token_ids, pad_token_id):
    """They are what they were, if the answer is a tensor of its own."""
    responses = responses.clone()
    lesson.truncate_after_stop(responses, stop_token_ids, pad_token_id).fill_(-1)
    return responses
