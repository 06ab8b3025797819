"""Wrong ideas about actor and critic, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import torch

from solutions.lesson01_masked_sequences import position_ids
from solutions.lesson07_actor_critic import ResponseOutputs, ValueModel, disable_dropout, response_logits
from testcases.engine import misconception

VALUE = "ValueModel.forward: a value at every position"
SHIFT = "The shift: everything before the token"
BOTH = "PolicyAndValue.forward and PolicyAndValue.response_values: logits and values of the response"
SHARED = "SharedPolicyAndValue.forward: one body, two heads"
CRITIC = "critic_from_reward_model: start from the reward model"
FREEZE = "freeze: no gradients, no dropout"
REFERENCE = "make_reference: a copy that stays behind"
LORA = "reference_mode: LoRA needs no second model"
WRONG = "What people get wrong"


# ValueModel.forward


def _hidden(model, input_ids, attention_mask):
    positions = position_ids(attention_mask)
    return model.backbone(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions).last_hidden_state


@misconception(
    "ValueModel.forward",
    why="one number for each row, as a reward model gives: the critic reads every position, each token needs one",
    read=VALUE,
)
def score_of_the_last_token(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask)
    last = (attention_mask.long() * torch.arange(1, hidden.shape[1] + 1)).argmax(dim=1)
    return self.head(hidden[torch.arange(len(hidden)), last]).squeeze(-1)


@misconception(
    "ValueModel.forward",
    why="without position_ids the body counts columns, so padding on the left moves the text to other positions",
    read=VALUE,
)
def columns_taken_for_positions(self, input_ids, attention_mask):
    hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    return self.head(hidden).squeeze(-1)


@misconception(
    "ValueModel.forward",
    why="the positions count from 1: the body was pretrained with 0 for the first token (lesson 1's position_ids)",
    read=VALUE,
)
def positions_from_one(self, input_ids, attention_mask):
    positions = attention_mask.long().cumsum(dim=1)
    hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions)
    return self.head(hidden.last_hidden_state).squeeze(-1)


@misconception(
    "ValueModel.forward", why="without attention_mask the body reads the padding as if it were text", read=VALUE
)
def padding_read_as_text(self, input_ids, attention_mask):
    positions = position_ids(attention_mask)
    return self.head(self.backbone(input_ids=input_ids, position_ids=positions).last_hidden_state).squeeze(-1)


@misconception(
    "ValueModel.forward", why="the last dimension is left: (B, L, 1) has to become (B, L) with squeeze(-1)", read=VALUE
)
def last_dimension_left(self, input_ids, attention_mask):
    return self.head(_hidden(self, input_ids, attention_mask))


@misconception(
    "ValueModel.forward",
    why="squeeze() drops every dimension of size 1, also a batch of one row: squeeze(-1) drops the last only",
    read=VALUE,
)
def every_dimension_of_one_dropped(self, input_ids, attention_mask):
    return self.head(_hidden(self, input_ids, attention_mask)).squeeze()


@misconception(
    "ValueModel.forward",
    why="the body is cut off from the gradient: the critic's own body is trained, not its head alone",
    read=VALUE,
)
def only_the_head_learns(self, input_ids, attention_mask):
    return self.head(_hidden(self, input_ids, attention_mask).detach()).squeeze(-1)


@misconception(
    "ValueModel.forward",
    why="the values are computed without gradient: the rollout switches gradients off, the model itself must not",
    read=VALUE,
)
def values_without_gradient(self, input_ids, attention_mask):
    with torch.no_grad():
        return self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1)


@misconception(
    "ValueModel.forward",
    why="the values are shifted here already: this model says V up to and including each position, the caller shifts",
    read=SHIFT,
)
def shifted_inside_the_critic(self, input_ids, attention_mask):
    values = self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1)
    return torch.cat([torch.zeros_like(values[:, :1]), values[:, :-1]], dim=1)


@misconception(
    "ValueModel.forward",
    why="the values are squashed: returns have no bounds, so the head stays linear",
    read=VALUE,
)
def values_squashed(self, input_ids, attention_mask):
    return torch.tanh(self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1))


@misconception(
    "ValueModel.forward",
    why="the body is put into eval mode and stays there: dropout is the caller's, who has evaluation_mode",
    read=VALUE,
)
def body_left_in_eval_mode(self, input_ids, attention_mask):
    self.backbone.eval()
    return self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1)


# PolicyAndValue


@misconception(
    "PolicyAndValue.forward",
    why="a plain tuple is returned: the trainer asks for outputs.logits, so wrap both in ResponseOutputs",
    read=BOTH,
)
def plain_tuple_returned(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return logits, self.response_values(input_ids, attention_mask, prompt_length)


@misconception(
    "PolicyAndValue.forward",
    why="the logits are not shifted: those at a token's own place foresee the next one, its own stand one place before",
    read=SHIFT,
)
def logits_after_the_token(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
    ).logits
    values = self.response_values(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits[:, prompt_length:], values)


@misconception(
    "PolicyAndValue.forward",
    why="the values are taken after the token: V(s_t) stands before it, at the place of its logits",
    read=SHIFT,
)
def values_after_the_token(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits, self.value_model(input_ids, attention_mask)[:, prompt_length:])


@misconception(
    "PolicyAndValue.forward",
    why="one column too early: the token before the first response token, at prompt_length - 1, foresees it",
    read=SHIFT,
)
def one_column_too_early(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
    ).logits
    values = self.value_model(input_ids, attention_mask)
    logits, values = (torch.cat([tensor[:, :1], tensor], dim=1) for tensor in (logits, values))
    return ResponseOutputs(logits[:, prompt_length - 1 : -2], values[:, prompt_length - 1 : -2])


@misconception(
    "PolicyAndValue.forward",
    why="logits of the whole prompt are computed and cut off: B * L * V numbers; response_logits keeps the response's",
    read=BOTH,
)
def words_for_the_whole_prompt(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
    ).logits
    values = self.response_values(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits[:, prompt_length - 1 : -1], values)


@misconception(
    "PolicyAndValue.forward",
    why="the last position is kept: it foresees a token after the response, and T + 1 columns match no mask",
    read=SHIFT,
)
def one_column_too_many(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
    ).logits
    values = self.value_model(input_ids, attention_mask)
    return ResponseOutputs(logits[:, prompt_length - 1 :], values[:, prompt_length - 1 :])


@misconception(
    "PolicyAndValue.forward",
    why="the prompt is still in the answer: only the T response tokens are actions of the policy",
    read=BOTH,
)
def prompt_left_in(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
    ).logits
    return ResponseOutputs(logits, self.value_model(input_ids, attention_mask))


@misconception(
    "PolicyAndValue.forward",
    why="the policy gets no position_ids: it counts columns, and padding on the left changes its logits",
    read=BOTH,
)
def policy_counts_columns(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(input_ids=input_ids, attention_mask=attention_mask).logits[:, prompt_length - 1 : -1]
    return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length))


@misconception(
    "PolicyAndValue.forward", why="the policy gets no attention_mask: it reads the padding of the prompt", read=BOTH
)
def policy_reads_padding(self, input_ids, attention_mask, prompt_length):
    logits = self.policy(input_ids=input_ids, position_ids=position_ids(attention_mask)).logits
    values = self.response_values(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits[:, prompt_length - 1 : -1], values)


@misconception(
    "PolicyAndValue.forward",
    why="log-probabilities are returned as logits: the temperature has to divide the logits first",
    read=BOTH,
)
def log_probs_for_logits(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    values = self.response_values(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits.log_softmax(dim=-1), values)


@misconception("PolicyAndValue.forward", why="the two parts have changed places: logits first, then values", read=BOTH)
def values_before_logits(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(self.response_values(input_ids, attention_mask, prompt_length), logits)


@misconception(
    "PolicyAndValue.forward",
    why="the critic is cut off: this forward is the one that is trained, and the value loss needs its gradient",
    read=BOTH,
)
def critic_cut_off(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length).detach())


@misconception(
    "PolicyAndValue.forward",
    why="the policy runs without gradient: only the rollout does that, training calls this forward too",
    read=BOTH,
)
def policy_without_gradient(self, input_ids, attention_mask, prompt_length):
    with torch.no_grad():
        logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length))


@misconception(
    "PolicyAndValue.forward",
    why="the policy is run twice for the same logits: one pass of each model is all it takes",
    read=BOTH,
)
def policy_run_twice(self, input_ids, attention_mask, prompt_length):
    response_logits(self.policy, input_ids, attention_mask, prompt_length)
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length))


@misconception(
    "PolicyAndValue.response_values",
    why="the column of the token itself is read: there the critic knows the token already, V(s_t) stands one before",
    read=SHIFT,
)
def value_at_the_token_itself(self, input_ids, attention_mask, prompt_length):
    return self.value_model(input_ids, attention_mask)[:, prompt_length:]


@misconception(
    "PolicyAndValue.response_values",
    why="the critic is put into eval mode and stays there: its mode is the caller's, who has evaluation_mode",
    read=BOTH,
)
def critic_left_in_eval_mode(self, input_ids, attention_mask, prompt_length):
    return self.value_model.eval()(input_ids, attention_mask)[:, prompt_length - 1 : -1]


@misconception(
    "PolicyAndValue.response_values",
    why="shifted twice: the value before the first response token stands at prompt_length - 1, not - 2",
    read=SHIFT,
)
def value_two_tokens_before(self, input_ids, attention_mask, prompt_length):
    values = self.value_model(input_ids, attention_mask)
    values = torch.cat([values[:, :1], values], dim=1)
    return values[:, prompt_length - 1 : -2]


@misconception(
    "PolicyAndValue.response_values",
    why="T + 1 values: the one after the last token is that of nothing, since the episode is over there",
    read=SHIFT,
)
def value_after_the_end_kept(self, input_ids, attention_mask, prompt_length):
    return self.value_model(input_ids, attention_mask)[:, prompt_length - 1 :]


@misconception(
    "PolicyAndValue.response_values",
    why="the values of the prompt are returned as well: one for each of the T response tokens is wanted",
    read=BOTH,
)
def values_of_the_prompt_too(self, input_ids, attention_mask, prompt_length):
    return self.value_model(input_ids, attention_mask)


@misconception(
    "PolicyAndValue.response_values",
    why="the policy is run and thrown away: this method is there so that a rollout can do without that pass",
    read=BOTH,
)
def policy_run_for_nothing(self, input_ids, attention_mask, prompt_length):
    response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return self.value_model(input_ids, attention_mask)[:, prompt_length - 1 : -1]


@misconception(
    "PolicyAndValue.response_values",
    why="the values carry no gradient: forward uses them for training, the rollout switches gradients off itself",
    read=BOTH,
)
def values_detached(self, input_ids, attention_mask, prompt_length):
    return self.value_model(input_ids, attention_mask)[:, prompt_length - 1 : -1].detach()


@misconception(
    "PolicyAndValue.response_values",
    why="only the response is shown to the critic: V depends on the prompt as well",
    read=BOTH,
)
def critic_without_the_prompt(self, input_ids, attention_mask, prompt_length):
    last = slice(prompt_length - 1, None)
    return self.value_model(input_ids[:, last], attention_mask[:, last])[:, :-1]


# SharedPolicyAndValue.forward


def _shared_hidden(model, input_ids, attention_mask, **positions):
    return model.policy.base_model(input_ids=input_ids, attention_mask=attention_mask, **positions).last_hidden_state


@misconception(
    "SharedPolicyAndValue.forward",
    why="lm_head is a name of GPT-2 and Llama, other models have another: get_output_embeddings() is in all of them",
    read=SHARED,
)
def head_by_its_name_in_gpt2(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(self.policy.lm_head(hidden), self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="the input embeddings are the head only where the two are tied: get_output_embeddings() is always the head",
    read=SHARED,
)
def input_embeddings_taken_for_the_head(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    logits = hidden @ self.policy.get_input_embeddings().weight.T
    return ResponseOutputs(logits, self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="only the head's weight is used, and some heads have a bias: call the head, get_output_embeddings()(hidden)",
    read=SHARED,
)
def head_without_its_bias(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    logits = hidden @ self.policy.get_output_embeddings().weight.T
    return ResponseOutputs(logits, self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="a plain tuple is returned: both classes answer with ResponseOutputs, so that one can stand for the other",
    read=SHARED,
)
def shared_plain_tuple_returned(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    return self.policy.get_output_embeddings()(hidden), self.value_head(hidden).squeeze(-1)


@misconception(
    "SharedPolicyAndValue.forward",
    why="the body is run twice, once for each head: sharing it is meant to save that pass",
    read=SHARED,
)
def body_run_twice(self, input_ids, attention_mask, prompt_length):
    logits = response_logits(self.policy, input_ids, attention_mask, prompt_length)
    return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length))


@misconception(
    "SharedPolicyAndValue.forward",
    why="the value head reads a detached body: that is a choice of some, but here both losses pull on the body",
    read=SHARED,
)
def value_loss_stops_at_the_head(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    values = self.value_head(hidden.detach()).squeeze(-1)
    return ResponseOutputs(self.policy.get_output_embeddings()(hidden), values)


@misconception(
    "SharedPolicyAndValue.forward",
    why="the logits read a detached body, so the policy learns in its last layer only",
    read=SHARED,
)
def policy_loss_stops_at_the_head(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    logits = self.policy.get_output_embeddings()(hidden.detach())
    return ResponseOutputs(logits, self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="both heads read the place of the token itself: what foresees it stands one place before",
    read=SHIFT,
)
def both_after_the_token(self, input_ids, attention_mask, prompt_length):
    hidden = _shared_hidden(self, input_ids, attention_mask, position_ids=position_ids(attention_mask))
    hidden = hidden[:, prompt_length:]
    return ResponseOutputs(self.policy.get_output_embeddings()(hidden), self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="only the logits are shifted: the value of a token stands before it as well",
    read=SHIFT,
)
def only_logits_shifted(self, input_ids, attention_mask, prompt_length):
    hidden = _shared_hidden(self, input_ids, attention_mask, position_ids=position_ids(attention_mask))
    logits = self.policy.get_output_embeddings()(hidden[:, prompt_length - 1 : -1])
    return ResponseOutputs(logits, self.value_head(hidden[:, prompt_length:]).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="the whole vocabulary is computed for the prompt and thrown away: cut to the response before the head",
    read=SHARED,
)
def shared_words_for_the_prompt(self, input_ids, attention_mask, prompt_length):
    hidden = _shared_hidden(self, input_ids, attention_mask, position_ids=position_ids(attention_mask))
    before = slice(prompt_length - 1, -1)
    logits = self.policy.get_output_embeddings()(hidden)[:, before]
    return ResponseOutputs(logits, self.value_head(hidden[:, before]).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="the body gets no position_ids and counts columns: padding on the left moves the text",
    read=SHARED,
)
def shared_body_counts_columns(self, input_ids, attention_mask, prompt_length):
    hidden = _shared_hidden(self, input_ids, attention_mask)[:, prompt_length - 1 : -1]
    return ResponseOutputs(self.policy.get_output_embeddings()(hidden), self.value_head(hidden).squeeze(-1))


@misconception(
    "SharedPolicyAndValue.forward",
    why="the values keep a last dimension of 1: in a loss (B, T, 1) - (B, T) broadcasts to a wrong number",
    read=SHARED,
)
def shared_values_not_squeezed(self, input_ids, attention_mask, prompt_length):
    hidden = self._response_hidden(input_ids, attention_mask, prompt_length)
    return ResponseOutputs(self.policy.get_output_embeddings()(hidden), self.value_head(hidden))


# critic_from_reward_model


@misconception(
    "critic_from_reward_model",
    why="the critic trains the reward model's own body: deepcopy it, or the judge changes with every step",
    read=CRITIC,
)
def body_borrowed(reward_model):
    critic = ValueModel(reward_model.backbone)
    critic.head = copy.deepcopy(reward_model.head)
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="the critic trains the reward model's own head: deepcopy it too",
    read=CRITIC,
)
def head_borrowed(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    critic.head = reward_model.head
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="copy.copy shares all tensors with the original: only deepcopy makes new ones",
    read=CRITIC,
)
def shallow_copy_of_the_body(reward_model):
    critic = ValueModel(copy.copy(reward_model.backbone))
    critic.head = copy.copy(reward_model.head)
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="the head starts anew, at random: what the reward model knows about scores sits in its head as well",
    read=CRITIC,
)
def head_begins_at_random(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    return critic.to(reward_model.head.weight.dtype).requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="only the head's weight is copied: without its bias every value is off by one constant",
    read=CRITIC,
)
def bias_forgotten(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone)).to(reward_model.head.weight.dtype)
    critic.head.weight.data.copy_(reward_model.head.weight.data)
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="the body starts anew: only the head of the reward model is used",
    read=CRITIC,
)
def body_begins_anew(reward_model):
    critic = ValueModel(type(reward_model.backbone)()).to(reward_model.head.weight.dtype)
    critic.head = copy.deepcopy(reward_model.head)
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="a copy of a frozen model is frozen: the critic never learns, so switch its gradients on",
    read=CRITIC,
)
def frozen_with_the_reward_model(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    critic.head = copy.deepcopy(reward_model.head)
    return critic


@misconception(
    "critic_from_reward_model",
    why="a new head is trainable, but the copied body is as frozen as the reward model: switch it all on",
    read=CRITIC,
)
def only_the_new_head_trains(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone)).to(reward_model.head.weight.dtype)
    critic.head.load_state_dict(reward_model.head.state_dict())
    return critic


@misconception(
    "critic_from_reward_model",
    why="the reward model itself is made trainable: switch the gradients of the copy on, not those of the judge",
    read=CRITIC,
)
def reward_model_thawed(reward_model):
    reward_model.requires_grad_(True)
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    critic.head = copy.deepcopy(reward_model.head)
    return critic


@misconception(
    "critic_from_reward_model",
    why="the reward model is frozen on the way: it is to be left as it is",
    read=CRITIC,
)
def reward_model_frozen(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    critic.head = copy.deepcopy(reward_model.head)
    reward_model.requires_grad_(False).eval()
    return critic.requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="a copy of the whole reward model still reads the last token only: a critic is a ValueModel",
    read=CRITIC,
)
def reward_model_copied_whole(reward_model):
    return copy.deepcopy(reward_model).requires_grad_(True)


@misconception(
    "critic_from_reward_model",
    why="the new head is float32 on the CPU, whatever the reward model is: deepcopy the head, or move it",
    read=CRITIC,
)
def head_of_another_dtype(reward_model):
    critic = ValueModel(copy.deepcopy(reward_model.backbone))
    critic.head.load_state_dict(reward_model.head.state_dict())
    return critic.requires_grad_(True)


# freeze


@misconception("freeze", why="dropout is still on: eval() switches it off, requires_grad_(False) does not", read=FREEZE)
def dropout_left_on(model):
    return model.requires_grad_(False)


@misconception("freeze", why="eval() stops dropout, not training: the parameters still require gradients", read=FREEZE)
def eval_taken_for_frozen(model):
    return model.eval()


@misconception(
    "freeze",
    why="model.requires_grad = False sets an attribute that nobody reads: the method is requires_grad_(False)",
    read=FREEZE,
)
def attribute_nobody_reads(model):
    model.requires_grad = False
    return model.eval()


@misconception("freeze", why="a frozen copy is returned, and the model itself goes on training", read=FREEZE)
def copy_frozen_instead(model):
    return copy.deepcopy(model).requires_grad_(False).eval()


@misconception("freeze", why="nothing is returned: the model itself is to be given back", read=FREEZE)
def nothing_returned(model):
    model.requires_grad_(False).eval()


@misconception(
    "freeze",
    why="recurse=False: only the parameters of the outermost module are frozen, its layers go on training",
    read=FREEZE,
)
def outermost_parameters_only(model):
    for parameter in model.parameters(recurse=False):
        parameter.requires_grad = False
    return model.eval()


@misconception(
    "freeze",
    why="only the outermost module's flag is set: eval() reaches every submodule, training = False does not",
    read=FREEZE,
)
def only_the_outer_module_in_eval(model):
    model.requires_grad_(False)
    model.training = False
    return model


@misconception("freeze", why="train() is the opposite of eval(): it switches dropout on", read=FREEZE)
def train_for_eval(model):
    return model.requires_grad_(False).train()


# make_reference


@misconception(
    "make_reference",
    why="no copy is made: the policy freezes itself, and the KL to itself is 0 for ever",
    read=REFERENCE,
)
def policy_is_its_own_reference(policy):
    return policy.requires_grad_(False).eval()


@misconception(
    "make_reference",
    why="copy.copy shares the weights: the reference follows every step of the policy, and the KL stays 0",
    read=REFERENCE,
)
def weights_shared_with_the_policy(policy):
    return copy.copy(policy)


@misconception("make_reference", why="the copy is not frozen: it still has gradients and dropout", read=REFERENCE)
def copy_not_frozen(policy):
    return copy.deepcopy(policy)


@misconception(
    "make_reference", why="dropout of the copy is on: the KL at step 0 is noise instead of 0", read=REFERENCE
)
def reference_with_dropout(policy):
    return copy.deepcopy(policy).requires_grad_(False)


@misconception(
    "make_reference",
    why="the copy still requires gradients: it costs memory, and an optimiser may pick it up",
    read=REFERENCE,
)
def reference_still_trainable(policy):
    return copy.deepcopy(policy).eval()


@misconception(
    "make_reference",
    why="the policy is frozen before it is copied, and can no longer be trained: freeze the copy",
    read=REFERENCE,
)
def policy_frozen_as_well(policy):
    return copy.deepcopy(policy.requires_grad_(False).eval())


@misconception(
    "make_reference",
    why="the policy is put into eval mode on the way: it is to be left as it is",
    read=REFERENCE,
)
def policy_left_in_eval_mode(policy):
    return copy.deepcopy(policy.eval()).requires_grad_(False)


@misconception(
    "make_reference",
    why="a reference with weights of its own is not the model the policy started from",
    read=REFERENCE,
)
def weights_made_anew(policy):
    reference = copy.deepcopy(policy).requires_grad_(False).eval()
    for parameter in reference.parameters():
        parameter.data.zero_()
    return reference


@misconception(
    "make_reference",
    why="the policy's own dropout is set to 0 on the way: it is to be left as it is",
    read=REFERENCE,
)
def dropout_of_the_policy_removed(policy):
    disable_dropout(policy)
    return copy.deepcopy(policy).requires_grad_(False).eval()


@misconception(
    "make_reference",
    why="the policy's gradients are thrown away before the copy: it is to be left as it is",
    read=REFERENCE,
)
def gradients_of_the_policy_forgotten(policy):
    policy.zero_grad()
    return copy.deepcopy(policy).requires_grad_(False).eval()


# reference_mode


def _trained_state(policy):
    return policy.active_adapter, {name: tensor.requires_grad for name, tensor in policy.named_parameters()}


def _restore(policy, state):
    trained, trainable = state
    policy.set_adapter(trained)
    for name, tensor in policy.named_parameters():
        tensor.requires_grad_(trainable[name])


@contextmanager
def _switched(policy, reference):
    """The right switch: the reference adapter on, or all adapters off."""
    if reference in policy.peft_config:
        policy.set_adapter(reference)
        yield
    else:
        with policy.disable_adapter():
            yield


@misconception(
    "reference_mode",
    why="adapters are always off: a policy that started from an SFT adapter has that one as its reference",
    read=LORA,
)
@contextmanager
def base_model_is_always_the_reference(policy):
    state = _trained_state(policy)
    try:
        with torch.no_grad(), policy.disable_adapter():
            yield policy
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="nothing is switched: the policy is compared with itself, and the KL is 0 for ever",
    read=WRONG,
)
@contextmanager
def policy_answers_for_the_reference(policy):
    with torch.no_grad():
        yield policy


@misconception(
    "reference_mode",
    why="the base model inside still holds the adapter layers: they have to be switched off, not walked round",
    read=LORA,
)
@contextmanager
def base_model_with_its_adapters(policy):
    with torch.no_grad():
        yield policy.get_base_model()


@misconception(
    "reference_mode",
    why="gradients are on inside: the reference is data, and its graph costs memory",
    read=LORA,
)
@contextmanager
def reference_with_gradients(policy):
    state = _trained_state(policy)
    try:
        with _switched(policy, "reference"):
            yield policy
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="without try/finally an exception inside leaves the policy as the reference: training then goes on with it",
    read=LORA,
)
@contextmanager
def left_switched_by_an_exception(policy):
    state = _trained_state(policy)
    if "reference" in policy.peft_config:
        policy.set_adapter("reference")
    else:
        policy.base_model.disable_adapter_layers()
    with torch.no_grad():
        yield policy
    policy.base_model.enable_adapter_layers()
    _restore(policy, state)


@misconception(
    "reference_mode",
    why="`except Exception` misses Ctrl-C and a closed generator: what has to be restored in any case is in finally",
    read=LORA,
)
@contextmanager
def left_switched_by_the_keyboard(policy):
    state = _trained_state(policy)
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    except Exception:
        _restore(policy, state)
        raise
    _restore(policy, state)


@misconception(
    "reference_mode",
    why="set_adapter and disable_adapter decide anew what requires a gradient: note it before, restore it after",
    read=LORA,
)
@contextmanager
def requires_grad_not_restored(policy):
    trained = policy.active_adapter
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    finally:
        policy.set_adapter(trained)


@misconception(
    "reference_mode",
    why="the reference adapter stays on afterwards: the trainer then trains the reference",
    read=LORA,
)
@contextmanager
def reference_stays_on(policy):
    with torch.no_grad(), _switched(policy, "reference"):
        yield policy


@misconception(
    "reference_mode",
    why="the adapters stay off afterwards: the policy is the bare base model from here on",
    read=LORA,
)
@contextmanager
def adapters_stay_off(policy):
    state = _trained_state(policy)
    if "reference" in policy.peft_config:
        policy.set_adapter("reference")
    else:
        policy.base_model.disable_adapter_layers()
    try:
        with torch.no_grad():
            yield policy
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why='"default" is switched on afterwards, but the trained adapter may have another name: ask active_adapter',
    read=LORA,
)
@contextmanager
def default_taken_for_the_trained_one(policy):
    _, trainable = _trained_state(policy)
    name = "default" if "default" in policy.peft_config else next(iter(policy.peft_config))
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    finally:
        _restore(policy, (name, trainable))


@misconception(
    "reference_mode",
    why="gradients are switched on afterwards even where the caller had them off: no_grad() puts back what was there",
    read=LORA,
)
@contextmanager
def gradients_switched_on(policy):
    state = _trained_state(policy)
    torch.set_grad_enabled(False)
    try:
        with _switched(policy, "reference"):
            yield policy
    finally:
        torch.set_grad_enabled(True)
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="the exception is swallowed: a context that tidies up must let the error through",
    read=LORA,
)
@contextmanager
def exception_swallowed(policy):
    state = _trained_state(policy)
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    except Exception:
        pass
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="inference_mode gives tensors that no later gradient may touch: training needs the log-probs, so no_grad",
    read=LORA,
)
@contextmanager
def inference_mode_inside(policy):
    state = _trained_state(policy)
    try:
        with torch.inference_mode(), _switched(policy, "reference"):
            yield policy
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="the policy is left in eval mode: afterwards everything is as before; evaluation_mode is the caller's",
    read=LORA,
)
@contextmanager
def eval_mode_left_on(policy):
    state = _trained_state(policy)
    policy.eval()
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="train() switches on what was off before: the modes are the caller's, who has evaluation_mode",
    read=LORA,
)
@contextmanager
def train_mode_switched_on(policy):
    state = _trained_state(policy)
    policy.eval()
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    finally:
        policy.train()
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="the gradients that have been added up are thrown away: afterwards everything is as before",
    read=LORA,
)
@contextmanager
def gradients_forgotten(policy):
    state = _trained_state(policy)
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield policy
    finally:
        policy.zero_grad()
        _restore(policy, state)


@misconception("reference_mode", why="nothing is yielded: `with ... as reference` needs the policy", read=LORA)
@contextmanager
def policy_not_yielded(policy):
    state = _trained_state(policy)
    try:
        with torch.no_grad(), _switched(policy, "reference"):
            yield
    finally:
        _restore(policy, state)


@misconception(
    "reference_mode",
    why="the adapters are unloaded: their layers are gone afterwards, and the policy with them",
    read=LORA,
)
@contextmanager
def adapters_unloaded(policy):
    policy.unload()
    with torch.no_grad():
        yield policy
