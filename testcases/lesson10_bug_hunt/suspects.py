"""What is handed out: one bug in each file, from a real project. stories.toml tells which, after the repair.

`why` is what a student reads when the file still behaves so: it must not say where the bug is. A class's docstring is
the invariant that a wrong repair reads where no cause of it is known.
"""

from testcases.engine.oracle import Planted, edit

WHY = "it still behaves so: make the symptom small (method, step 1), and test one property of the function at a time"


class CreditPacked(Planted, of="credit_packed"):
    """each response gets the credit that it gets alone, whatever stands before or after it in the stream"""

    credit_packed_as_handed_out = edit("step + 1 < end", "step + 1 < len(critic)", why=WHY)


class PessimisticGain(Planted, of="pessimistic_gain"):
    """each token gains at most ratio * merit, just that while nothing is out of bounds, and no more for going on
    outside
    """

    pessimistic_gain_as_handed_out = edit("minimum", "maximum", why=WHY)


class BoundedError(Planted, of="bounded_error"):
    """an error is never below the free one, and moving further than the room towards the target lowers it no more"""

    bounded_error_as_handed_out = edit("free_error > held_error", "free_error < held_error", why=WHY)


class MergeMoments(Planted, of="merge_moments"):
    """batch by batch, the moments are those of all scores at once, however many responses a prompt has"""

    merge_moments_as_handed_out = edit("scores.numel()", "len(scores)", why=WHY)


class SampledDrift(Planted, of="sampled_drift"):
    """exp(drift) times the frozen model's probability of a token is the policy's, both at the temperature"""

    sampled_drift_as_handed_out = edit("(frozen_logits / heat)", "frozen_logits", why=WHY)


class ReadPrompts(Planted, of="read_prompts"):
    """a prompt gives the vector that it gives alone, whatever stands before it and beside it in the batch"""

    read_prompts_as_handed_out = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0)", "torch.arange(tokens.shape[1]).expand_as(tokens)", why=WHY
    )


class SumInGroups(Planted, of="sum_in_groups"):
    """each row's sum stands at its row's place and holds its real numbers alone, whatever the budget and the order"""

    sum_in_groups_as_handed_out = edit("[order.argsort()]", "[order]", why=WHY)


class LabelReplies(Planted, of="label_replies"):
    """read in order, the labels of a row that are not IGNORED are its reply, token by token"""

    label_replies_as_handed_out = edit(
        "return Rows(tokens, labels)", "return Rows(tokens, labels.masked_fill(tokens == end, IGNORED))", why=WHY
    )


class TrainChain(Planted, of="train_chain"):
    """what is logged is of before the update; at rate 0 equal draws log the same value loss"""

    train_chain_as_handed_out = edit('"target": advantage + critic', '"target": batch["credit"] + critic', why=WHY)


class TrainBandit(Planted, of="train_bandit"):
    """an entropy is never negative; without any payoff, a policy without curiosity stays as it is"""

    train_bandit_as_handed_out = edit("gain + curiosity * entropy", "gain - curiosity * entropy", why=WHY)


class TrainSliced(Planted, of="train_sliced"):
    """the trained table is that of one slice with all replies, whatever `rows` is"""

    train_sliced_as_handed_out = edit("-weighted.sum() / real.sum()", "-weighted.mean() / len(slices)", why=WHY)


class TrainContexts(Planted, of="train_contexts"):
    """in the first pass of each update every ratio is 1; in later ones it is taken against that same policy"""

    train_contexts_as_handed_out = edit(
        "    chosen = chances.log()[questions, answers]\n",
        "",
        "        ratios = (leaf.log_softmax(dim=1)[questions, answers] - chosen).exp()\n",
        "        log_chances = leaf.log_softmax(dim=1)[questions, answers]\n"
        "        chosen = log_chances.detach()\n"
        "        ratios = (log_chances - chosen).exp()\n",
        why=WHY,
    )
