"""What is handed out: one bug in each file, from a real project. stories.toml tells which, after the repair.

`why` is what a student reads when the file still behaves as it did: it must not say where the bug is. The functions are
the invariants, of which a wrong repair without a known cause reads the first that it breaks.
"""

from typing import Any

import torch

from testcases.harness.diagnosis.parts import alike
from testcases.harness.oracle.mutations import Planted, edit

WHY = "it still behaves as it did; make the symptom small (step 1 of the method), and test one property at a time"
ROUNDING = 1e-6
IGNORED = -100


class CreditPacked(Planted, of="credit_packed"):
    credit_packed_as_handed_out = edit("step + 1 < end => step + 1 < len(critic)", why=WHY)

    def alone(given: Any, ask: Any) -> bool:
        """each response gets the credit that it gets alone, whatever stands before or after it in the stream"""
        sizes = list(given["lengths"])
        parts = zip(given["rewards"].split(sizes), given["critic"].split(sizes), sizes, strict=True)
        return alike(ask(), torch.cat([ask(rewards=a, critic=b, lengths=(size,)) for a, b, size in parts]))


class PessimisticGain(Planted, of="pessimistic_gain"):
    pessimistic_gain_as_handed_out = edit("minimum => maximum", why=WHY)

    def never_above_the_free_gain(given: Any, ask: Any) -> bool:
        """each token gains at most ratio * merit"""
        tokens = zip(given["ratios"].split(1), given["merits"].split(1), strict=True)
        return all(ask(ratios=ratio, merits=merit) <= ratio * merit + ROUNDING for ratio, merit in tokens)

    def free_inside(given: Any, ask: Any) -> bool:
        """while no ratio is out of bounds, the gain is the mean of ratio * merit"""
        inside = given["ratios"].clamp(1 - given["width"], 1 + given["width"])
        return alike(ask(ratios=inside), (inside * given["merits"]).mean())

    def nothing_for_going_on(given: Any, ask: Any) -> bool:
        """a token that is out of bounds gains no more for going on outside"""
        far = given["width"] * given["merits"].sign()
        return ask(ratios=1 + 3 * far) <= ask(ratios=1 + 2 * far) + ROUNDING


class BoundedError(Planted, of="bounded_error"):
    bounded_error_as_handed_out = edit("free_error > held_error => free_error < held_error", why=WHY)

    def never_below_the_free_error(given: Any, ask: Any) -> bool:
        """the error of an estimate is never below the free one, half the square of its distance from the target"""
        rows = zip(*(given[name].split(1) for name in ("estimates", "anchors", "targets")), strict=True)
        return all(ask(estimates=a, anchors=b, targets=c) >= (a - c) ** 2 / 2 - ROUNDING for a, b, c in rows)

    def nothing_for_going_on(given: Any, ask: Any) -> bool:
        """moving further than the room towards the target lowers the error no more"""
        anchors, room = given["anchors"], given["room"]
        near, far = (ask(estimates=anchors + many * room, targets=anchors + 9 * room) for many in (2, 3))
        return far >= near - ROUNDING


class MergeMoments(Planted, of="merge_moments"):
    merge_moments_as_handed_out = edit("scores.numel() => len(scores)", why=WHY)

    def batch_by_batch(given: Any, ask: Any) -> bool:
        """batch by batch, the moments are those of all scores at once"""
        so_far = given["seen"], given["mean"], given["variance"]
        for row in given["scores"].split(1):
            so_far = ask(**dict(zip(("seen", "mean", "variance"), so_far, strict=True)), scores=row)
        return alike(so_far, ask())

    def in_any_shape(given: Any, ask: Any) -> bool:
        """the same scores have the same moments, however many of them are responses to one prompt"""
        return alike(ask(), ask(scores=given["scores"].reshape(-1, 1)))


class SampledDrift(Planted, of="sampled_drift"):
    sampled_drift_as_handed_out = edit("(frozen_logits / heat) => frozen_logits", why=WHY)

    def ratio_of_probabilities(given: Any, ask: Any) -> bool:
        """exp(drift) times the frozen model's probability of a token is the policy's, both at the temperature"""
        both = ((given[name] / given["heat"]).softmax(dim=-1) for name in ("frozen_logits", "policy_logits"))
        frozen, policy = (one.gather(-1, given["tokens"].unsqueeze(-1)).squeeze(-1) for one in both)
        return alike(ask().exp() * frozen, policy)


class ReadPrompts(Planted, of="read_prompts"):
    read_prompts_as_handed_out = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0) => torch.arange(tokens.shape[1]).expand_as(tokens)", why=WHY
    )

    def alone(given: Any, ask: Any) -> bool:
        """a prompt gives the vector that it gives alone, whatever stands before it and beside it in the batch"""
        rows = zip(given["tokens"], given["visible"], strict=True)
        alone = [ask(tokens=row[real].unsqueeze(0), visible=real[real].unsqueeze(0)) for row, real in rows]
        return alike(ask(), torch.cat(alone))


class SumInGroups(Planted, of="sum_in_groups"):
    sum_in_groups_as_handed_out = edit("[order.argsort()] => [order]", why=WHY)

    def beside_its_row(given: Any, ask: Any) -> bool:
        """rows in another order have the same sums, in that order"""
        order = torch.arange(len(given["numbers"])).roll(1)
        lengths = torch.as_tensor(given["lengths"])[order]
        return alike(ask(numbers=given["numbers"][order], lengths=lengths), ask()[order])

    def of_real_numbers(given: Any, ask: Any) -> bool:
        """what stands after a row's real numbers changes nothing"""
        lengths = torch.as_tensor(given["lengths"]).unsqueeze(1)
        behind = torch.arange(given["numbers"].shape[1]) >= lengths
        return alike(*(ask(numbers=given["numbers"].masked_fill(behind, filling)) for filling in (0.0, 7.3)))

    def for_any_budget(given: Any, ask: Any) -> bool:
        """the budget changes nothing"""
        return alike(ask(budget=1), ask(budget=1000))


class LabelReplies(Planted, of="label_replies"):
    label_replies_as_handed_out = edit(
        "return Rows(tokens, labels) => return Rows(tokens, labels.masked_fill(tokens == end, IGNORED))", why=WHY
    )

    def the_reply_and_nothing_else(given: Any, ask: Any) -> bool:
        """read in order, the labels of a row that are not IGNORED are its reply, token by token"""
        return [row[row != IGNORED].tolist() for row in ask().labels] == [list(row) for row in given["replies"]]


class TrainChain(Planted, of="train_chain"):
    train_chain_as_handed_out = edit('"target": advantage + critic => "target": batch["credit"] + critic', why=WHY)

    def step_of_the_critic(given: Any, ask: Any) -> bool:
        """with decay 1, where all actions of a place earn the same, the critic's first step is `rate` times the rewards
        from each place on
        """
        payoff = given["payoff"][:, :1].expand_as(given["payoff"])
        found = ask(noise=given["noise"][:1], payoff=payoff, decay=1.0)
        return alike(found.critic, given["rate"] * payoff[:, 0].flip(0).cumsum(dim=0).flip(0))


class TrainBandit(Planted, of="train_bandit"):
    train_bandit_as_handed_out = edit("gain + curiosity * entropy => gain - curiosity * entropy", why=WHY)

    def curiosity_alone(given: Any, ask: Any) -> bool:
        """without any payoff, a small step of a curious policy does not lower its entropy"""
        twice, nothing = torch.cat([given["noise"][:1]] * 2), torch.zeros_like(given["payoff"])
        before, after = ask(noise=twice, payoff=nothing, rate=0.01, passes=1, curiosity=1.0).entropy
        return after >= before - ROUNDING


class TrainSliced(Planted, of="train_sliced"):
    train_sliced_as_handed_out = edit("-weighted.sum() / real.sum() => -weighted.mean() / len(slices)", why=WHY)

    def for_any_slice(given: Any, ask: Any) -> bool:
        """the trained table is that of one slice with all replies, whatever `rows` is"""
        return alike(ask(rows=1), ask(rows=len(given["replies"])))


class TrainContexts(Planted, of="train_contexts"):
    train_contexts_as_handed_out = edit(
        "    chosen = chances.log()[questions, answers]\n => ",
        "        ratios = (leaf.log_softmax(dim=1)[questions, answers] - chosen).exp()\n => "
        "        log_chances = leaf.log_softmax(dim=1)[questions, answers]\n"
        "        chosen = log_chances.detach()\n"
        "        ratios = (log_chances - chosen).exp()\n",
        why=WHY,
    )

    def one_pass(given: Any, ask: Any) -> bool:
        """in the first pass of each update every ratio is 1"""
        ratio = ask(passes=1).ratio
        return alike(ratio, torch.ones_like(ratio))

    def two_passes(given: Any, ask: Any) -> bool:
        """in the second pass of an update the ratios are taken against the policy before the first"""
        noise, start = given["noise"][:1], given["start"]
        answers = (noise[0].unsqueeze(-1) > start.softmax(dim=1).cumsum(dim=1)[:, :-1]).sum(dim=-1)
        moved = ask(noise=noise, passes=1).scores.log_softmax(dim=1) - start.log_softmax(dim=1)
        largest = moved[torch.arange(len(start)), answers].exp().max()
        return alike(ask(noise=noise, passes=2).ratio[0], largest)
