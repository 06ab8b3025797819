"""Wrong ideas about the rollout, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from types import SimpleNamespace

import torch
from torch.nn.functional import pad

from solutions.lesson01_masked_sequences import (
    gather_log_probs,
    masked_whiten,
    position_ids,
    response_mask,
    truncate_after_stop,
)
from solutions.lesson04_gae import compute_response_gae
from solutions.lesson06_kl_rewards import compute_rewards, penalize_missing_stop
from solutions.lesson07_actor_critic import evaluation_mode, reference_mode, response_logits
from solutions.lesson08_rollout import Experience, Generation, evaluate_responses, generate, sample_token
from solutions.lesson08_rollout.experience import merge_experiences
from testcases.engine import misconception

SAMPLE = "sample_token: one draw from each row"
GENERATE = "generate: the loop"
ROWS = "Experience.rows: pick rows, drop padding"
MINIBATCHES = "ExperienceBuffer.minibatches: deal every row once"
COLLECT = "collect_experience: write, then judge"
EVALUATE = "evaluate_responses: where each number comes from"
CACHE = "The cache, the mask and the positions"
WRONG = "What people get wrong"


# sample_token


def _draw(logits, generator):
    return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)


def _top_k(logits, top_k):
    if 0 < top_k < logits.shape[1]:
        logits = logits.masked_fill(logits < logits.topk(top_k, dim=1).values[:, -1:], -torch.inf)
    return logits


def _cut(logits, is_out):
    """`is_out` says, for (ordered probabilities, their sums up to and with them), which ordered tokens go."""
    ordered, order = logits.softmax(dim=1).sort(dim=1, descending=True)
    return logits.masked_fill(is_out(ordered, ordered.cumsum(dim=1)).gather(1, order.argsort(dim=1)), -torch.inf)


@misconception(
    "sample_token",
    why="the logits are multiplied by the temperature: a high one must flatten, not sharpen",
    read=SAMPLE,
)
def temperature_multiplied(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, 1 / temperature, top_k, top_p, generator)


@misconception("sample_token", why="the temperature is ignored; it divides the logits before all else", read=SAMPLE)
def temperature_ignored(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, 1.0, top_k, top_p, generator)


@misconception(
    "sample_token",
    why="top_p cuts at temperature 1, and the temperature comes after: it changes which tokens are in, so it is first",
    read="Top-k and top-p, and why PPO uses neither",
)
def temperature_after_the_cut(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = _top_k(logits, top_k)
    if top_p < 1.0:
        logits = _cut(logits, lambda ordered, sums: sums - ordered >= top_p)
    return _draw(logits / temperature, generator)


@misconception("sample_token", why="top_k is ignored: tokens beyond the k likeliest still come", read=SAMPLE)
def top_k_ignored(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, 0, top_p, generator)


@misconception("sample_token", why="top_p is ignored: the unlikely rest still comes", read=SAMPLE)
def top_p_ignored(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, top_k, 1.0, generator)


@misconception(
    "sample_token",
    why="sorted from the least likely on, the unlikely tokens fill top_p and the likeliest may go: descending=True",
    read="Top-k and top-p, and why PPO uses neither",
)
def least_likely_tokens_kept(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = _top_k(logits / temperature, top_k)
    if top_p < 1.0:
        ordered, order = logits.softmax(dim=1).sort(dim=1)
        is_out = ordered.cumsum(dim=1) - ordered >= top_p
        logits = logits.masked_fill(is_out.gather(1, order.argsort(dim=1)), -torch.inf)
    return _draw(logits, generator)


@misconception(
    "sample_token",
    why="the token that crosses top_p is dropped: what is kept has to *reach* top_p, so that one stays",
    read="Top-k and top-p, and why PPO uses neither",
)
def crossing_token_dropped(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = _top_k(logits / temperature, top_k)
    if top_p < 1.0:
        first = torch.arange(logits.shape[1]) == 0
        logits = _cut(logits, lambda ordered, sums: (sums > top_p) & ~first)
    return _draw(logits, generator)


@misconception(
    "sample_token",
    why="where the mass before a token equals top_p the goal is reached: that token is one too many (>=, not >)",
    read="Top-k and top-p, and why PPO uses neither",
)
def one_token_more_where_top_p_is_met(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = _top_k(logits / temperature, top_k)
    if top_p < 1.0:
        logits = _cut(logits, lambda ordered, sums: sums - ordered > top_p)
    return _draw(logits, generator)


@misconception(
    "sample_token",
    why="the mask was made for sorted tokens and is used on unsorted ones: gather it back to where each token was",
    read="Top-k and top-p, and why PPO uses neither",
)
def sorted_mask_on_unsorted_tokens(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = _top_k(logits / temperature, top_k)
    if top_p < 1.0:
        ordered = logits.softmax(dim=1).sort(dim=1, descending=True).values
        logits = logits.masked_fill(ordered.cumsum(dim=1) - ordered >= top_p, -torch.inf)
        logits = torch.where(logits.isinf().all(dim=1, keepdim=True), torch.zeros_like(logits), logits)
    return _draw(logits, generator)


@misconception(
    "sample_token", why="the k-th likeliest token is cut as well: < the smallest that is kept, not <=", read=SAMPLE
)
def kth_token_dropped(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, max(top_k - 1, 1) if top_k else 0, top_p, generator)


@misconception(
    "sample_token",
    why="of tokens tied at the k-th place some are cut by chance of their number: equal tokens stay together",
    read=SAMPLE,
)
def ties_cut_by_their_number(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = logits / temperature
    if 0 < top_k < logits.shape[1]:
        kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.topk(top_k, dim=1).indices, True)
        logits = logits.masked_fill(~kept, -torch.inf)
    return sample_token(logits, 1.0, 0, top_p, generator)


@misconception("sample_token", why="the likeliest token is taken, not drawn: argmax explores nothing", read=SAMPLE)
def argmax_taken(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return logits.argmax(dim=1)


@misconception(
    "sample_token",
    why="top_p is measured on all tokens, not on what top_k left: cut by top_k, take the softmax, then cut by top_p",
    read=SAMPLE,
)
def top_p_of_all_tokens(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    logits = logits / temperature
    kept = _top_k(logits, top_k)
    if top_p < 1.0:
        nucleus = _cut(logits, lambda ordered, sums: sums - ordered >= top_p)
        kept = kept.masked_fill(nucleus.isinf(), -torch.inf)
    return _draw(kept, generator)


@misconception(
    "sample_token",
    why="cut tokens get the logit 0, which is a probability like any other: they need -inf",
    read=SAMPLE,
)
def cut_tokens_at_logit_0(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    kept = _top_k(logits / temperature, top_k)
    if top_p < 1.0:
        kept = _cut(kept, lambda ordered, sums: sums - ordered >= top_p)
    return _draw(torch.where(kept.isinf() & ~logits.isinf(), torch.zeros_like(kept), kept), generator)


@misconception(
    "sample_token",
    why="the generator is not used: torch.multinomial draws from the global one unless it is given generator=",
    read=SAMPLE,
)
def global_generator_used(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, top_k, top_p)


@misconception(
    "sample_token", why="the generator is seeded anew in each call: then every call draws the same", read=SAMPLE
)
def generator_seeded_anew(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, top_k, top_p, torch.Generator().manual_seed(0))


@misconception(
    "sample_token", why="one token is drawn for the whole batch: each row has its own distribution", read=SAMPLE
)
def one_draw_for_all_rows(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits[:1], temperature, top_k, top_p, generator).expand(len(logits)).clone()


@misconception("sample_token", why="torch.multinomial gives (B, 1); one number for each row is (B,)", read=SAMPLE)
def column_returned(logits, temperature=1.0, top_k=0, top_p=1.0, generator=None):
    return sample_token(logits, temperature, top_k, top_p, generator).unsqueeze(1)


# generate


def _asked(
    policy,
    input_ids,
    attention_mask,
    max_new_tokens,
    stop_token_ids,
    pad_token_id,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    generator=None,
):
    return SimpleNamespace(**locals())


def _generate(asked, **changed):
    """As it should be, with some arguments changed."""
    return generate(**{**vars(asked), **changed})


def _positions(mask, step):
    return position_ids(mask) if step == 0 else position_ids(mask)[:, -1:]


def _log_prob(logits, tokens, temperature):
    return gather_log_probs(logits.unsqueeze(1), tokens.unsqueeze(1), temperature).squeeze(1)


def _write(
    asked,
    positions=_positions,
    visible=lambda mask: mask,
    is_over=lambda writing: not writing.any(),
    log_prob=_log_prob,
    use_cache=True,
):
    """The loop as it should be, with one part exchanged: sampled tokens and their log-probs, not yet masked."""
    stops, mask = torch.tensor(asked.stop_token_ids), asked.attention_mask.bool()
    cache, fed, everything = None, asked.input_ids, asked.input_ids
    writing, sampled, log_probs = torch.ones(len(fed), dtype=torch.bool), [], []
    for step in range(asked.max_new_tokens):
        output = asked.policy(
            input_ids=fed if use_cache else everything,
            attention_mask=visible(mask),
            position_ids=positions(mask, step if use_cache else 0),
            past_key_values=cache if use_cache else None,
            use_cache=use_cache,
        )
        logits, cache = output.logits[:, -1], output.past_key_values
        tokens = sample_token(logits, asked.temperature, asked.top_k, asked.top_p, asked.generator)
        sampled.append(tokens)
        log_probs.append(log_prob(logits, tokens, asked.temperature))
        writing = writing & ~torch.isin(tokens, stops)
        if is_over(writing):
            break
        fed, everything = tokens.unsqueeze(1), torch.cat([everything, tokens.unsqueeze(1)], dim=1)
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    return torch.stack(sampled, dim=1), torch.stack(log_probs, dim=1)


def _finish(asked, sampled, log_probs):
    mask = response_mask(sampled, asked.stop_token_ids)
    responses = truncate_after_stop(sampled, asked.stop_token_ids, asked.pad_token_id)
    return Generation(responses, log_probs.masked_fill(~mask, 0.0), mask)


@torch.no_grad()
def _sampled(asked, **parts):
    with evaluation_mode(asked.policy):
        return _write(asked, **parts)


def _with(asked, **parts):
    return _finish(asked, *_sampled(asked, **parts))


def _masked_anew(found, mask):
    return Generation(found.responses, found.log_probs.masked_fill(~mask, 0.0), mask)


@misconception(
    "generate",
    why="the stop token is masked out: the policy chose to stop, so it is an action and has to be trained",
    read=GENERATE,
)
def stop_token_masked_out(*given, **options):
    asked = _asked(*given, **options)
    found = _generate(asked)
    return _masked_anew(found, found.mask & ~torch.isin(found.responses, torch.tensor(asked.stop_token_ids)))


@misconception(
    "generate",
    why="the mask is `!= pad`: where pad is a stop token, or is sampled, real tokens are lost; go by the first stop",
    read=WRONG,
)
def mask_by_the_pad_token(*given, **options):
    asked = _asked(*given, **options)
    found = _generate(asked)
    return _masked_anew(found, found.responses != asked.pad_token_id)


@misconception(
    "generate",
    why="the mask is True everywhere: what comes after a row's stop token is padding, and no action of the policy",
    read=GENERATE,
)
def mask_of_ones(*given, **options):
    found = generate(*given, **options)
    return found._replace(mask=torch.ones_like(found.mask))


@misconception("generate", why="only the first of the stop tokens is looked for: any of them ends a row", read=WRONG)
def first_stop_token_only(*given, **options):
    asked = _asked(*given, **options)
    return _generate(asked, stop_token_ids=asked.stop_token_ids[:1])


@misconception(
    "generate",
    why="the loop runs to max_new_tokens although all rows have stopped: T is the length of the longest",
    read=GENERATE,
)
def never_ends_early(*given, **options):
    return _with(_asked(*given, **options), is_over=lambda writing: False)


@misconception(
    "generate",
    why="the loop ends when the first row has stopped: the others are cut off in mid-sentence",
    read=GENERATE,
)
def ends_with_the_first_row(*given, **options):
    return _with(_asked(*given, **options), is_over=lambda writing: not writing.all())


@misconception(
    "generate",
    why="what was sampled after a row's stop token is left standing: those places get the pad token",
    read=GENERATE,
)
def junk_after_the_stop(*given, **options):
    asked = _asked(*given, **options)
    sampled, log_probs = _sampled(asked)
    return _finish(asked, sampled, log_probs)._replace(responses=sampled)


@misconception(
    "generate", why="the padding is filled with 0; the pad token has its own number, pad_token_id", read=GENERATE
)
def padded_with_0(*given, **options):
    return _generate(_asked(*given, **options), pad_token_id=0)


@misconception("generate", why="log-probs of tokens after the stop are left in: they are 0 where masked", read=GENERATE)
def log_probs_on_the_padding(*given, **options):
    asked = _asked(*given, **options)
    sampled, log_probs = _sampled(asked)
    return _finish(asked, sampled, log_probs)._replace(log_probs=log_probs)


@misconception(
    "generate",
    why="sampled at the temperature, recorded at 1: the old log-probs are of a policy that never sampled",
    read=WRONG,
)
def log_probs_at_temperature_1(*given, **options):
    return _with(_asked(*given, **options), log_prob=lambda logits, tokens, temperature: _log_prob(logits, tokens, 1.0))


@misconception(
    "generate",
    why="log-probabilities are divided by the temperature: divide the logits, or the probabilities do not sum to 1",
    read=WRONG,
)
def log_probs_divided_by_temperature(*given, **options):
    def divided(logits, tokens, temperature):
        return _log_prob(logits, tokens, 1.0) / temperature

    return _with(_asked(*given, **options), log_prob=divided)


@misconception(
    "generate",
    why="log-probs of the distribution after top_k and top_p; training recomputes the uncut one, so store that",
    read="Top-k and top-p, and why PPO uses neither",
)
def log_probs_of_the_cut_distribution(*given, **options):
    asked = _asked(*given, **options)

    def cut(logits, tokens, temperature):
        logits = _top_k(logits / temperature, asked.top_k)
        if asked.top_p < 1.0:
            logits = _cut(logits, lambda ordered, sums: sums - ordered >= asked.top_p)
        return _log_prob(logits, tokens, 1.0)

    return _with(asked, log_prob=cut)


@misconception(
    "generate",
    why="no position_ids: the model then counts the padding, and a row's text depends on its neighbours' length",
    read=CACHE,
)
def padding_counted_in_the_positions(*given, **options):
    return _with(_asked(*given, **options), positions=lambda mask, step: None)


@misconception(
    "generate", why="the position is not moved on: each new token stands one place after the last one", read=CACHE
)
def position_stands_still(*given, **options):
    def still(mask, step):
        return position_ids(mask) if step == 0 else position_ids(mask)[:, -1:] - step

    return _with(_asked(*given, **options), positions=still)


@misconception("generate", why="no attention_mask: the prompt's padding is read as text", read=CACHE)
def padding_read_as_text(*given, **options):
    return _with(_asked(*given, **options), visible=lambda mask: None)


@misconception(
    "generate",
    why="the attention mask stays as long as the prompt: it covers cache and new token, one column more each step",
    read=CACHE,
)
def mask_not_lengthened(*given, **options):
    asked = _asked(*given, **options)
    return _with(asked, visible=lambda mask: asked.attention_mask)


@misconception(
    "generate",
    why="the whole text is read again for each token: hand past_key_values back and feed only the new token",
    read=CACHE,
)
def text_read_again_each_step(*given, **options):
    return _with(_asked(*given, **options), use_cache=False)


@misconception(
    "generate",
    why="dropout is on: the policy that samples is not the one that is trained; use evaluation_mode",
    read=WRONG,
)
def dropout_left_on(*given, **options):
    asked = _asked(*given, **options)
    with torch.no_grad():
        return _finish(asked, *_write(asked))


@misconception("generate", why="the policy is left in eval mode: evaluation_mode puts each mode back", read=GENERATE)
def mode_not_put_back(*given, **options):
    asked = _asked(*given, **options)
    asked.policy.eval()
    return _generate(asked)


@misconception(
    "generate",
    why="train() afterwards switches on what was off before: evaluation_mode puts each module's mode back",
    read=GENERATE,
)
def train_mode_afterwards(*given, **options):
    asked = _asked(*given, **options)
    found = _generate(asked)
    asked.policy.train()
    return found


@misconception(
    "generate",
    why="gradients are recorded while sampling: that keeps every step's graph in memory for nothing",
    read=GENERATE,
)
def gradients_recorded(*given, **options):
    asked = _asked(*given, **options)
    with torch.enable_grad(), evaluation_mode(asked.policy):
        return _finish(asked, *_write(asked))


@misconception(
    "generate", why="the temperature is not handed to sample_token: the log-probs are of another sampler", read=GENERATE
)
def sampled_at_temperature_1(*given, **options):
    asked = _asked(*given, **options)
    temperature, asked.temperature = asked.temperature, 1.0
    return _with(asked, log_prob=lambda logits, tokens, _: _log_prob(logits, tokens, temperature))


@misconception("generate", why="top_p is not handed to sample_token: the unlikely rest still comes", read=GENERATE)
def top_p_not_passed_on(*given, **options):
    return _generate(_asked(*given, **options), top_p=1.0)


@misconception("generate", why="top_k is not handed to sample_token: the unlikely rest still comes", read=GENERATE)
def top_k_not_passed_on(*given, **options):
    return _generate(_asked(*given, **options), top_k=0)


@misconception(
    "generate", why="the generator is not handed to sample_token: a run can then not be repeated", read=GENERATE
)
def generator_not_passed_on(*given, **options):
    return _generate(_asked(*given, **options), generator=None)


@misconception(
    "generate",
    why="without a generator every call draws the same: None stands for the global one, which torch.manual_seed seeds",
    read=GENERATE,
)
def fixed_seed_without_a_generator(*given, **options):
    asked = _asked(*given, **options)
    return _generate(asked, generator=asked.generator or torch.Generator().manual_seed(0))


@misconception(
    "generate",
    why="inference_mode gives tensors that no later gradient may touch: training reads the log-probs, so no_grad",
    read=GENERATE,
)
@torch.inference_mode()
def generated_in_inference_mode(*given, **options):
    return generate(*given, **options)


@misconception(
    "generate", why="the prompt is part of the answer: responses holds the new tokens only, (B, T)", read=GENERATE
)
def prompt_in_the_responses(*given, **options):
    asked = _asked(*given, **options)
    found = _generate(asked)
    return found._replace(responses=torch.cat([asked.input_ids, found.responses], dim=1))


@misconception("generate", why="one token too few: a response may have max_new_tokens tokens", read=GENERATE)
def one_token_short(*given, **options):
    asked = _asked(*given, **options)
    return _generate(asked, max_new_tokens=max(asked.max_new_tokens - 1, 1))


@misconception(
    "generate",
    why="the likeliest token is taken in each step, without a draw: call sample_token",
    read=GENERATE,
)
def argmax_in_the_loop(*given, **options):
    asked = _asked(*given, **options)
    return _generate(asked, top_k=1)


# Experience.rows


def _cut_rows(experience, index, first, length):
    sequence = slice(first, experience.prompt_length + length)

    def cut(name, tensor):
        if tensor.dim() == 1:
            return tensor[index]
        return tensor[index][:, sequence if name in ("input_ids", "attention_mask") else slice(length)]

    return Experience(**{field.name: cut(field.name, getattr(experience, field.name)) for field in fields(experience)})


def _first_prompt_column(experience, index):
    return int(experience.attention_mask[index, : experience.prompt_length].any(dim=0).long().argmax())


def _longest(experience, index):
    return int(experience.mask[index].any(dim=0).nonzero().max()) + 1


@misconception("Experience.rows", why="no column is dropped: rows(...) is cut to the longest of these rows", read=ROWS)
def no_column_dropped(self, index):
    return _cut_rows(self, index, 0, self.mask.shape[1])


@misconception("Experience.rows", why="the padding on the left of the prompts is kept", read=ROWS)
def prompt_padding_kept(self, index):
    return _cut_rows(self, index, 0, _longest(self, index))


@misconception("Experience.rows", why="the padding on the right of the responses is kept", read=ROWS)
def response_padding_kept(self, index):
    return _cut_rows(self, index, _first_prompt_column(self, index), self.mask.shape[1])


@misconception("Experience.rows", why="cut to the shortest response: the ends of the longer ones are lost", read=ROWS)
def cut_to_the_shortest_response(self, index):
    return _cut_rows(self, index, _first_prompt_column(self, index), int(self.mask[index].sum(dim=1).min()))


@misconception(
    "Experience.rows", why="cut to the shortest prompt: a column goes only where *all* rows have padding", read=ROWS
)
def cut_to_the_shortest_prompt(self, index):
    first = int(self.attention_mask[index, : self.prompt_length].all(dim=0).long().argmax())
    return _cut_rows(self, index, first, _longest(self, index))


@misconception(
    "Experience.rows", why="the last real column is cut off: a slice ends *before* its end, so it needs + 1", read=ROWS
)
def last_column_cut_off(self, index):
    return _cut_rows(self, index, _first_prompt_column(self, index), max(_longest(self, index) - 1, 1))


@misconception(
    "Experience.rows",
    why="padding is recognised by token number 0: it may be a real token; the masks know",
    read=ROWS,
)
def padding_by_token_number(self, index):
    prompts, responses = self.input_ids[index, : self.prompt_length], self.responses[index]
    first = int((prompts != 0).any(dim=0).long().argmax())
    used = (responses != 0).any(dim=0).nonzero()
    return _cut_rows(self, index, first, int(used.max()) + 1 if len(used) else 1)


@misconception("Experience.rows", why="the rows come back sorted: index says which rows, and in which order", read=ROWS)
def order_of_the_index_lost(self, index):
    index = index.sort().values
    return _cut_rows(self, index, _first_prompt_column(self, index), _longest(self, index))


@misconception(
    "Experience.rows",
    why="the longest response is found by counting its real tokens: with a gap in the mask the count is too small",
    read=ROWS,
)
def length_by_counting(self, index):
    length = int(self.mask[index].sum(dim=1).max())
    return _cut_rows(self, index, _first_prompt_column(self, index), length)


@misconception(
    "Experience.rows",
    why="a masked column between real tokens is dropped: tokens that were apart then stand side by side",
    read=ROWS,
)
def gaps_dropped(self, index):
    visible, real = self.attention_mask[index].any(dim=0), self.mask[index].any(dim=0)
    visible = torch.cat([visible[: self.prompt_length], real])

    def cut(name, tensor):
        if tensor.dim() == 1:
            return tensor[index]
        return tensor[index][:, visible if name in ("input_ids", "attention_mask") else real]

    return Experience(**{field.name: cut(field.name, getattr(self, field.name)) for field in fields(self)})


# ExperienceBuffer.minibatches


def _merged(buffer):
    return merge_experiences(buffer._stored)


@misconception(
    "ExperienceBuffer.minibatches",
    why="the rows come in the order in which they were stored: every epoch draws a new one",
    read=MINIBATCHES,
)
def never_shuffled(self, size, generator=None):
    whole = _merged(self)
    for index in torch.arange(len(whole)).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="the rows left over at the end are dropped: every row is dealt, the last minibatch is smaller",
    read=MINIBATCHES,
)
def rest_dropped(self, size, generator=None):
    whole = _merged(self)
    for index in torch.randperm(len(whole), generator=generator).split(size):
        if len(index) == size:
            yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="rows are drawn with replacement: some come twice, others never; a permutation deals each once",
    read=MINIBATCHES,
)
def drawn_with_replacement(self, size, generator=None):
    whole = _merged(self)
    for index in torch.randint(len(whole), (len(whole),), generator=generator).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="each appended batch is dealt for itself: a minibatch takes rows of all of them",
    read=MINIBATCHES,
)
def batches_never_mixed(self, size, generator=None):
    for stored in self._stored:
        for index in torch.randperm(len(stored), generator=generator).split(size):
            yield stored.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="a minibatch keeps the padding of the longest row of the whole buffer: take it with rows(...)",
    read=MINIBATCHES,
)
def padding_of_the_whole_buffer_kept(self, size, generator=None):
    whole = _merged(self)
    for index in torch.randperm(len(whole), generator=generator).split(size):
        yield _cut_rows(whole, index, 0, whole.mask.shape[1])


@misconception(
    "ExperienceBuffer.minibatches",
    why="neighbours stay together: only the minibatches are shuffled, not the rows",
    read=MINIBATCHES,
)
def minibatches_shuffled_not_rows(self, size, generator=None):
    whole = _merged(self)
    parts = torch.arange(len(whole)).split(size)
    for number in torch.randperm(len(parts), generator=generator):
        yield whole.rows(parts[number])


@misconception(
    "ExperienceBuffer.minibatches",
    why="rows are shuffled within their minibatch only: the same rows meet in every epoch",
    read=MINIBATCHES,
)
def rows_shuffled_within_minibatches(self, size, generator=None):
    whole = _merged(self)
    for part in torch.arange(len(whole)).split(size):
        yield whole.rows(part[torch.randperm(len(part), generator=generator)])


@misconception(
    "ExperienceBuffer.minibatches",
    why="the generator is not used: torch.randperm draws from the global one unless it is given generator=",
    read=MINIBATCHES,
)
def order_from_the_global_generator(self, size, generator=None):
    whole = _merged(self)
    for index in torch.randperm(len(whole)).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="the generator is seeded anew: every epoch then deals the rows in the same order",
    read=MINIBATCHES,
)
def same_order_in_every_epoch(self, size, generator=None):
    whole = _merged(self)
    again = torch.Generator().manual_seed(generator.initial_seed() if generator else 0)
    for index in torch.randperm(len(whole), generator=again).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="the buffer is empty after one epoch: PPO goes over the same rows several times, clear() is the caller's",
    read=MINIBATCHES,
)
def emptied_by_the_first_epoch(self, size, generator=None):
    whole = _merged(self)
    self._stored = []
    for index in torch.randperm(len(whole), generator=generator).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="only the first appended batch is dealt: all of them are stored",
    read=MINIBATCHES,
)
def first_batch_only(self, size, generator=None):
    whole = self._stored[0]
    for index in torch.randperm(len(whole), generator=generator).split(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="size is taken for the number of minibatches: it is the number of rows in one",
    read=MINIBATCHES,
)
def size_taken_for_the_number_of_minibatches(self, size, generator=None):
    whole = _merged(self)
    for index in torch.randperm(len(whole), generator=generator).chunk(size):
        yield whole.rows(index)


@misconception(
    "ExperienceBuffer.minibatches",
    why="shorter prompts are padded on the right when batches are merged: padding then stands inside the text",
    read=WRONG,
)
def prompts_merged_on_the_wrong_side(self, size, generator=None):
    prompt_length = max(stored.prompt_length for stored in self._stored)
    length = max(stored.mask.shape[1] for stored in self._stored)

    def widened(stored, name):
        tensor = getattr(stored, name)
        if tensor.dim() == 1:
            return tensor
        if name not in ("input_ids", "attention_mask"):
            return pad(tensor, (0, length - stored.mask.shape[1]))
        prompts, responses = tensor[:, : stored.prompt_length], tensor[:, stored.prompt_length :]
        left = pad(prompts, (0, prompt_length - prompts.shape[1]))
        return torch.cat([left, pad(responses, (0, length - responses.shape[1]))], dim=1)

    whole = Experience(
        **{
            field.name: torch.cat([widened(stored, field.name) for stored in self._stored])
            for field in fields(Experience)
        }
    )
    for index in torch.randperm(len(whole), generator=generator).split(size):
        yield whole.rows(index)


# evaluate_responses


def _values_right(model, sequences, visible, prompt_length):
    return model.response_values(sequences, visible, prompt_length)


def _reference_right(model, reference, sequences, visible, prompt_length):
    if reference is not None:
        return response_logits(reference, sequences, visible, prompt_length)
    with reference_mode(model.policy) as policy:
        return response_logits(policy, sequences, visible, prompt_length)


def _rewards_right(scores, generation, ref_log_probs, config, kl_coef):
    scores = penalize_missing_stop(scores, generation.responses, config.stop_token_ids, config.missing_stop_penalty)
    return _priced(scores, generation, ref_log_probs, config, kl_coef)


def _priced(scores, generation, ref_log_probs, config, kl_coef):
    return compute_rewards(
        scores,
        generation.log_probs,
        ref_log_probs,
        generation.mask,
        kl_coef,
        config.clip_score,
        config.kl_estimator,
    )


def _whitened_right(rewards, mask, config):
    return masked_whiten(rewards, mask, shift_mean=False) if config.whiten_rewards else rewards


@torch.no_grad()
def _evaluate(
    model,
    reference,
    score,
    input_ids,
    attention_mask,
    generation,
    config,
    kl_coef,
    values_of=_values_right,
    reference_of=_reference_right,
    rewards_of=_rewards_right,
    whitened=_whitened_right,
    mode=evaluation_mode,
    temperature=None,
    masked=True,
    widened=True,
):
    """The exercise as it should be, with one part exchanged."""
    prompt_length = input_ids.shape[1]
    sequences = torch.cat([input_ids, generation.responses], dim=1)
    visible = torch.cat([attention_mask.bool(), generation.mask], dim=1)
    with mode(model):
        ref_logits = reference_of(model, reference, sequences, visible, prompt_length)
        values = values_of(model, sequences, visible, prompt_length)
    ref_log_probs = gather_log_probs(ref_logits, generation.responses, temperature or config.temperature)
    values = values.to(ref_log_probs.dtype) if widened else values
    scores = score(sequences, visible, prompt_length)
    rewards = whitened(rewards_of(scores, generation, ref_log_probs, config, kl_coef), generation.mask, config)
    advantages, returns = compute_response_gae(rewards, values, generation.mask, config.gamma, config.lam)
    if masked:
        ref_log_probs = ref_log_probs.masked_fill(~generation.mask, 0.0)
        values = values.masked_fill(~generation.mask, 0.0)
    return Experience(
        sequences,
        visible,
        generation.mask,
        generation.log_probs,
        ref_log_probs,
        values,
        scores,
        rewards,
        advantages,
        returns,
    )


@misconception(
    "evaluate_responses",
    why="the policy is its own reference: the KL is then measured against nothing that stays",
    read="Four sets of numbers, and who gives them",
)
def policy_taken_for_the_reference(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return evaluate_responses(model, model.policy, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="the reference is put into eval mode and left there: its mode is its owner's, like that of the model",
    read=EVALUATE,
)
def reference_left_in_eval_mode(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    reference = reference if reference is None else reference.eval()
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="without a reference model the adapter stays on: reference_mode switches it off",
    read=EVALUATE,
)
def adapter_left_on(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return evaluate_responses(
        model, reference or model.policy, score, input_ids, attention_mask, generation, config, kl_coef
    )


@misconception(
    "evaluate_responses",
    why="the reference is read at temperature 1: both log-probs of a KL need the temperature of the sampling",
    read=WRONG,
)
def reference_at_temperature_1(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, temperature=1.0)


@misconception(
    "evaluate_responses",
    why="token t is scored by the logits that stand *at* it; those before it predicted it",
    read=EVALUATE,
)
def reference_one_token_late(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    def late(model, reference, sequences, visible, prompt_length):
        with torch.no_grad():
            if reference is not None:
                return response_logits(reference, _moved(sequences), _moved(visible), prompt_length)
            return _reference_right(model, reference, _moved(sequences), _moved(visible), prompt_length)

    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, reference_of=late)


def _moved(tensor):
    """One column to the left, the last one twice."""
    return torch.cat([tensor[:, 1:], tensor[:, -1:]], dim=1)


@misconception(
    "evaluate_responses",
    why="values[t] is read after token t: it is V of the text before, so the slice starts at P - 1",
    read=EVALUATE,
)
def values_after_the_token(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    def late(model, sequences, visible, prompt_length):
        return model.response_values(_moved(sequences), _moved(visible), prompt_length)

    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, values_of=late)


@misconception(
    "evaluate_responses",
    why="the score is stored after the penalty: `scores` is what the reward model said",
    read=EVALUATE,
)
def scores_stored_after_the_penalty(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    found = evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)
    penalty = config.missing_stop_penalty
    return replace(
        found, scores=penalize_missing_stop(found.scores, generation.responses, config.stop_token_ids, penalty)
    )


@misconception(
    "evaluate_responses",
    why="the score is stored after the clip: `scores` is what the reward model said",
    read=EVALUATE,
)
def scores_stored_after_the_clip(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    found = evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)
    return replace(found, scores=found.scores.clamp(-config.clip_score, config.clip_score))


@misconception(
    "evaluate_responses",
    why="the penalty is taken off after the clip: a high score should be able to pay it",
    read=EVALUATE,
)
def penalty_after_the_clip(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    def rewards_of(scores, generation, ref_log_probs, config, kl_coef):
        scores = scores.clamp(-config.clip_score, config.clip_score)
        penalty = config.missing_stop_penalty
        scores = penalize_missing_stop(scores, generation.responses, config.stop_token_ids, penalty)
        return _priced(scores, generation, ref_log_probs, replace(config, clip_score=1e9), kl_coef)

    return _evaluate(
        model, reference, score, input_ids, attention_mask, generation, config, kl_coef, rewards_of=rewards_of
    )


@misconception("evaluate_responses", why="a response that never stopped is not penalised", read=EVALUATE)
def missing_stop_not_penalised(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(
        model, reference, score, input_ids, attention_mask, generation, config, kl_coef, rewards_of=_priced
    )


@misconception(
    "evaluate_responses",
    why="only the first stop token counts: a response that ended with another one is penalised",
    read=WRONG,
)
def other_stop_tokens_penalised(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, stop_token_ids=config.stop_token_ids[:1])
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="a missing stop replaces the score by minus the penalty: it is subtracted, so that better stays better",
    read=WRONG,
)
def score_replaced_by_the_penalty(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    def rewards_of(scores, generation, ref_log_probs, config, kl_coef):
        stopped = torch.isin(generation.responses, torch.tensor(config.stop_token_ids)).any(dim=1)
        scores = torch.where(stopped, scores, torch.full_like(scores, -config.missing_stop_penalty))
        return _priced(scores, generation, ref_log_probs, config, kl_coef)

    return _evaluate(
        model, reference, score, input_ids, attention_mask, generation, config, kl_coef, rewards_of=rewards_of
    )


@misconception("evaluate_responses", why="whiten_rewards is accepted and never used", read=WRONG)
def whiten_rewards_ignored(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, whiten_rewards=False)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="whitened rewards lose their mean: shift_mean=False keeps it, or a good batch looks like a bad one",
    read=EVALUATE,
)
def rewards_centred(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(
        model,
        reference,
        score,
        input_ids,
        attention_mask,
        generation,
        config,
        kl_coef,
        whitened=lambda rewards, mask, config: masked_whiten(rewards, mask) if config.whiten_rewards else rewards,
    )


@misconception(
    "evaluate_responses",
    why="the rewards are whitened although whiten_rewards is off",
    read=EVALUATE,
)
def rewards_always_whitened(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, whiten_rewards=True)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="the advantages are whitened here: experience holds raw ones, the trainer whitens after the returns",
    read=EVALUATE,
)
def advantages_whitened(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    found = evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)
    return replace(found, advantages=masked_whiten(found.advantages, found.mask))


@misconception("evaluate_responses", why="kl_coef is fixed at 0.1; it is the present price of a nat", read=EVALUATE)
def kl_price_fixed(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, 0.1)


@misconception("evaluate_responses", why="kl_estimator is accepted and never used", read=WRONG)
def kl_estimator_ignored(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, kl_estimator="k1")
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception("evaluate_responses", why="clip_score is accepted and never used", read=WRONG)
def clip_score_ignored(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, clip_score=5.0)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception("evaluate_responses", why="gamma is not handed to compute_response_gae", read=EVALUATE)
def gamma_not_passed_on(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, gamma=1.0)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception("evaluate_responses", why="lam is not handed to compute_response_gae", read=EVALUATE)
def lam_not_passed_on(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    config = replace(config, lam=0.95)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="dropout is on while the critic judges: its values are noise; use evaluation_mode",
    read=WRONG,
)
def critic_with_dropout(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, mode=nullcontext)


@misconception(
    "evaluate_responses", why="the model is left in eval mode: evaluation_mode puts each mode back", read=EVALUATE
)
def model_left_in_eval_mode(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    model.eval()
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="train() afterwards switches on what was off before: evaluation_mode puts each module's mode back",
    read=EVALUATE,
)
def model_left_in_train_mode(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    found = evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)
    model.train()
    return found


@contextmanager
def _without_finally(model):
    training = {module: module.training for module in model.modules()}
    model.eval()
    yield model
    for module, was_training in training.items():
        module.training = was_training


@misconception(
    "evaluate_responses",
    why="an error of the critic leaves the model in eval mode: put the modes back in finally, or use evaluation_mode",
    read=EVALUATE,
)
def modes_not_put_back_after_an_error(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(
        model, reference, score, input_ids, attention_mask, generation, config, kl_coef, mode=_without_finally
    )


@misconception(
    "evaluate_responses",
    why="inference_mode gives tensors that no later gradient may touch: training reads them, so no_grad",
    read=EVALUATE,
)
@torch.inference_mode()
def judged_in_inference_mode(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="the values stay in the critic's 16 bits: GAE adds them up, so make them as wide as the log-probs",
    read=EVALUATE,
)
def values_left_in_16_bits(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, widened=False)


@misconception(
    "evaluate_responses",
    why="the old log-probs are computed anew: those that sampling gave are the ones, and they are free",
    read="Four sets of numbers, and who gives them",
)
def old_log_probs_computed_anew(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    with torch.no_grad(), evaluation_mode(model):
        sequences = torch.cat([input_ids, generation.responses], dim=1)
        visible = torch.cat([attention_mask.bool(), generation.mask], dim=1)
        logits = response_logits(model.policy, sequences, visible, input_ids.shape[1])
        log_probs = gather_log_probs(logits, generation.responses, config.temperature)
    generation = generation._replace(log_probs=log_probs.masked_fill(~generation.mask, 0.0))
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="old and reference log-probs are swapped: the sampler's are for the ratio, the reference's for the KL",
    read="Four sets of numbers, and who gives them",
)
def old_and_reference_swapped(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    found = evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)
    return replace(found, log_probs=found.ref_log_probs, ref_log_probs=found.log_probs)


@misconception(
    "evaluate_responses",
    why="everything is marked as text: the padding of prompts and responses is masked, for all who read it",
    read=CACHE,
)
def padding_marked_as_text(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    ones = torch.ones_like(attention_mask)
    return evaluate_responses(model, reference, score, input_ids, ones, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="real tokens are found by `!= pad`: a stop token that is also the pad, or a sampled pad, is then invisible",
    read=WRONG,
)
def visible_by_the_pad_token(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    shown = torch.cat([attention_mask.bool(), generation.responses != config.pad_token_id], dim=1)

    def of_shown(sequences, visible, prompt_length):
        return score(sequences, shown, prompt_length)

    found = _evaluate(
        model,
        reference,
        of_shown,
        input_ids,
        attention_mask,
        generation,
        config,
        kl_coef,
        values_of=lambda model, sequences, visible, length: model.response_values(sequences, shown, length),
        reference_of=lambda model, reference, sequences, visible, length: _reference_right(
            model, reference, sequences, shown, length
        ),
    )
    return replace(found, attention_mask=shown)


@misconception(
    "evaluate_responses",
    why="the reward model sees the response alone: it has to know what was asked",
    read=EVALUATE,
)
def response_scored_without_its_prompt(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    def of_response(sequences, visible, prompt_length):
        return score(sequences[:, prompt_length:], visible[:, prompt_length:], 0)

    return evaluate_responses(model, reference, of_response, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "evaluate_responses",
    why="what reference and critic say about padding is stored: every (B, T) number is 0 where masked",
    read=EVALUATE,
)
def padding_not_zeroed(model, reference, score, input_ids, attention_mask, generation, config, kl_coef):
    return _evaluate(model, reference, score, input_ids, attention_mask, generation, config, kl_coef, masked=False)


# collect_experience


def _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, **changed):
    """Generate with some arguments changed, then evaluate as it should be."""
    arguments = {
        "policy": model.policy,
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "max_new_tokens": config.max_new_tokens,
        "stop_token_ids": config.stop_token_ids,
        "pad_token_id": config.pad_token_id,
        "temperature": config.temperature,
        "generator": generator,
    }
    generation = generate(**{**arguments, **changed})
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@misconception(
    "collect_experience",
    why="the temperature is not handed to generate: policy and reference are read at two temperatures",
    read=WRONG,
)
def rollout_at_temperature_1(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, temperature=1.0)


@misconception(
    "collect_experience",
    why="the generator is not handed to generate: a run can then not be repeated",
    read=COLLECT,
)
def rollout_from_the_global_generator(
    model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None
):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, None)


@misconception(
    "collect_experience",
    why="without a generator every rollout is the same: None goes to generate as it is, for the global one",
    read=COLLECT,
)
def rollout_with_a_fixed_seed(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    generator = generator or torch.Generator().manual_seed(0)
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator)


@misconception(
    "collect_experience",
    why="inference_mode gives tensors that no later gradient may touch, and training reads them: no_grad is enough",
    read=COLLECT,
)
@torch.inference_mode()
def rollout_in_inference_mode(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator)


@misconception(
    "collect_experience",
    why="the likeliest tokens are taken: then there is no other action to compare with, and nothing to learn from",
    read="Top-k and top-p, and why PPO uses neither",
)
def rollout_without_chance(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, top_k=1)


@misconception("collect_experience", why="only the first stop token is handed to generate", read=WRONG)
def rollout_with_one_stop_token(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    stops = config.stop_token_ids[:1]
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, stop_token_ids=stops)


@misconception("collect_experience", why="max_new_tokens is not handed to generate", read=COLLECT)
def rollout_of_any_length(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, max_new_tokens=24)


@misconception("collect_experience", why="pad_token_id is not handed to generate", read=COLLECT)
def rollout_padded_with_0(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator, pad_token_id=0)


@misconception(
    "collect_experience",
    why="the reference writes the responses: the policy has to learn from what it does itself",
    read="Four sets of numbers, and who gives them",
)
def reference_writes_the_responses(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    draw = torch.Generator().manual_seed(generator.initial_seed() if generator else 0)
    return _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, draw, policy=reference)


@misconception(
    "collect_experience",
    why="the reference's log-probs are stored as the old ones: the ratio would not be 1 before the first step",
    read="Four sets of numbers, and who gives them",
)
def ratio_against_the_reference(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    found = _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator)
    return replace(found, log_probs=found.ref_log_probs)


@misconception("collect_experience", why="kl_coef is not handed on: the rewards carry another price", read=COLLECT)
def rollout_at_a_fixed_price(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    return _judge(model, reference, score, input_ids, attention_mask, config, 0.1, generator)


@misconception(
    "collect_experience",
    why="the prompts' padding is taken for text: attention_mask goes to generate and to evaluate_responses",
    read=CACHE,
)
def rollout_reads_the_padding(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    ones = torch.ones_like(attention_mask)
    return _judge(model, reference, score, input_ids, ones, config, kl_coef, generator)


@misconception(
    "collect_experience",
    why="the policy is left in train mode: evaluation_mode, inside both calls, puts every mode back by itself",
    read=COLLECT,
)
def train_mode_after_the_rollout(model, reference, score, input_ids, attention_mask, config, kl_coef, generator=None):
    found = _judge(model, reference, score, input_ids, attention_mask, config, kl_coef, generator)
    model.train()
    return found
