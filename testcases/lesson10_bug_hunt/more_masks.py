"""More wrong ways to write `response_mask`: a function of three lines has too few small changes of its own."""

BEFORE = """
stops = is_stop(responses, stop_token_ids).long()
stops_before = stops.cumsum(dim=1) - stops
real = stops_before == 0
"""
"""The right mask."""

PLACES = "torch.arange(responses.shape[1])"

AFTER = {
    "everything_is_real": "return torch.ones_like(real)",
    "up_to_the_last_stop": "return (stops.flip(1).cumsum(dim=1).flip(1) > 0) | (stops.sum(dim=1, keepdim=True) == 0)",
    "one_token_more": "return (real.long().cumsum(dim=1) + 1 > " + PLACES + ") | real",
    "two_tokens_more": "return real.sum(dim=1, keepdim=True) + 2 > " + PLACES,
    "up_to_the_second_stop": "return stops_before <= 1",
    "every_second_stop_counts": "return stops_before % 2 == 0",
    "only_the_first_row": "return real | (torch.arange(len(responses)) > 0).unsqueeze(1)",
    "only_the_other_rows": "return real | (torch.arange(len(responses)) == 0).unsqueeze(1)",
    "earliest_of_the_batch": "return real.all(dim=0).expand_as(real)",
    "latest_of_the_batch": "return real.any(dim=0).expand_as(real)",
    "last_row_for_all": "return real[-1:].expand_as(real)",
    "without_a_stop_nothing": "return real & (stops.sum(dim=1, keepdim=True) > 0)",
    "without_a_stop_all_but_one": f"return real & (stops.any(1, keepdim=True) | ({PLACES} < len(responses[0]) - 1))",
    "without_a_stop_the_first": f"return real & (stops.any(dim=1, keepdim=True) | ({PLACES} == 0))",
    "first_token_never_real": f"return real & ({PLACES} > 0)",
    "last_token_never_real": f"return real & ({PLACES} < len(responses[0]) - 1)",
    "first_token_cannot_stop": "stops[:, 0] = 0\nreturn stops.cumsum(dim=1) - stops == 0",
    "last_stop_left_out": f"return real & ~(stops.bool() & ({PLACES} == len(responses[0]) - 1))",
    "an_early_stop_left_out": f"return real & ~(stops.bool() & ({PLACES} < 2))",
    "id_0_is_padding": "return real & (responses != 0)",
    "at_most_eight": f"return real & ({PLACES} < 8)",
    "at_most_three": f"return real & ({PLACES} < 3)",
    "shifted_to_the_right": "return real.roll(1, dims=1)",
    "shifted_to_the_left": "return real.roll(-1, dims=1)",
    "mirrored": "return real.flip(1)",
    "inverted": "return ~real",
    "a_repeated_stop_is_real": "return real | (stops.bool() & stops.roll(1, dims=1).bool())",
    "a_repeated_stop_does_not_count": "return real & ~(stops.bool() & stops.roll(-1, dims=1).bool())",
    "all_stops_are_real": "return real | stops.bool()",
    "rows_exchanged": "return real.flip(0)",
    "rows_shifted": "return real.roll(1, dims=0)",
}
"""Name -> what is returned in the place of the right mask."""
OTHER_STOPS = {
    "first_id_only": "stop_token_ids = tuple(stop_token_ids)[:1]",
    "last_id_only": "stop_token_ids = tuple(stop_token_ids)[-1:]",
    "largest_id_only": "stop_token_ids = sorted(stop_token_ids)[-1:]",
    "smallest_id_only": "stop_token_ids = sorted(stop_token_ids)[:1]",
    "several_ids_are_none": "stop_token_ids = () if len(tuple(stop_token_ids)) > 1 else stop_token_ids",
    "id_0_stops_too": "stop_token_ids = (*stop_token_ids, 0)",
    "id_1_stops_too": "stop_token_ids = (*stop_token_ids, 1)",
    "none_means_id_2": "stop_token_ids = tuple(stop_token_ids) or (2,)",
    "the_next_id_stops_too": "stop_token_ids = tuple(stop_token_ids) + tuple(i + 1 for i in stop_token_ids)",
    "id_0_never_stops": "stop_token_ids = [i for i in stop_token_ids if i]",
    "smaller_ids_stop_too": "stop_token_ids = tuple(range(max(stop_token_ids, default=-1) + 1))",
    "repeats_in_a_row_merged": "responses = responses.masked_fill(responses == responses.roll(1, dims=1), -1)",
}
"""Name -> what stands before the right mask."""

MORE = {name: f"{BEFORE.strip()}\n{text}" for name, text in AFTER.items()}
MORE |= {name: f"{text}\n{BEFORE.strip()}\nreturn real" for name, text in OTHER_STOPS.items()}
