"""Mistakes in lesson 7, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

SHIFT = "The shift: everything before the token"
WRONG = "What people get wrong"
BEFORE, AFTER = "[:, prompt_length - 1 : -1]", "[:, prompt_length:]"
INPUTS = "input_ids=input_ids, attention_mask=attention_mask"
POSITIONS = "position_ids=position_ids(attention_mask)"
LOGITS = "response_logits(self.policy, input_ids, attention_mask, prompt_length)"
ALL_LOGITS = f"self.policy({INPUTS}, {POSITIONS}).logits"
VALUES = "self.response_values(input_ids, attention_mask, prompt_length)"
ALL_VALUES = "self.value_model(input_ids, attention_mask)"
ALL_HIDDEN = f"self.policy.base_model({INPUTS}, {POSITIONS}).last_hidden_state"
HEAD = "self.policy.get_output_embeddings()(hidden)"
OWN_LOGITS = "output.logits"
KEPT = "logits_to_keep=torch.arange(prompt_length - 1, input_ids.shape[1] - 1, device=input_ids.device)"
KEPT_AT_THE_END = "logits_to_keep=input_ids.shape[1] - prompt_length"
HEAD_COPIED = "critic.head = copy.deepcopy(reward_model.head)"
POLICY_COPIED = "freeze(copy.deepcopy(policy))"


class Values(Wrong, of="ValueModel.forward"):
    score_of_the_last_token = edit(
        "return self.head(hidden) => "
        "last = (attention_mask * torch.arange(1, hidden.shape[1] + 1)).argmax(dim=1)\n"
        "return self.head(hidden[torch.arange(len(hidden)), last])"
    )
    """you return one number for each row, as a reward model does, but the critic reads every position, and each token
    needs a value"""
    columns_used_as_positions = edit(f"{POSITIONS}, => ")
    """without position_ids the backbone counts columns, so padding on the left moves the text"""
    positions_from_one = edit("position_ids(attention_mask) => attention_mask.long().cumsum(dim=1)")
    """the positions count from 1, but the backbone was pretrained with 0 for the first token, as you saw in lesson 1"""
    padding_read_as_text = edit("attention_mask=attention_mask, => ")
    """without attention_mask the backbone reads the padding as if it were text"""
    every_dimension_of_one_dropped = edit("squeeze(-1) => squeeze()")
    """squeeze() drops every dimension of size 1, also that of a batch with one row; squeeze(-1) drops the last one
    only"""
    only_the_head_learns = edit("self.head(hidden) => self.head(hidden.detach())")
    """no gradient reaches the backbone, but the critic's whole backbone should be trained, not only its head"""
    shifted_inside_the_critic = edit(
        "self.head(hidden).squeeze(-1) => nn.functional.pad(self.head(hidden).squeeze(-1), (1, -1))", read=SHIFT
    )
    """the values are shifted here already, but this model gives V up to and including each position, and the caller
    shifts"""
    mode_set_by_the_call = first("self.backbone.eval()")
    """eval() or train() in a forward pass outlasts it, but the caller sets the mode; evaluation_mode does that"""


class LogitsAndValues(Wrong, of="PolicyAndValue.forward"):
    plain_tuple_returned = edit("ResponseOutputs => ")
    """you return a plain tuple, but the trainer reads outputs.logits; wrap both in ResponseOutputs"""
    logits_after_the_token = edit(f"{LOGITS} => {ALL_LOGITS + AFTER}", read=SHIFT)
    """the logits aren't shifted, so those at a token's own position predict the token after it; its own are one
    position earlier"""
    values_after_the_token = edit(f"{VALUES} => {ALL_VALUES + AFTER}", read=SHIFT)
    """the values are taken after the token, but V(s_t) is the value before it; it stands at the position of the token's
    logits"""
    words_for_the_whole_prompt = edit(f"{LOGITS} => {ALL_LOGITS + BEFORE}")
    """you compute logits for the whole prompt and then cut them off, which costs B * L * V numbers; response_logits
    keeps only the response's"""
    policy_counts_columns = edit(f"{LOGITS} => self.policy({INPUTS}).logits{BEFORE}")
    """the policy gets no position_ids, so it counts columns, and padding on the left changes its logits"""
    policy_reads_padding = edit(f"{LOGITS} => self.policy(input_ids=input_ids, {POSITIONS}).logits{BEFORE}")
    """the policy gets no attention_mask, so it reads the padding of the prompt as text"""
    log_probs_for_logits = edit("(logits, => (logits.log_softmax(dim=-1),")
    """you return log-probabilities as logits, but the temperature has to divide the logits first"""
    critic_cut_off = edit(f"{VALUES} => {VALUES}.detach()")
    """no gradient reaches the critic, but this forward pass is the one that is trained, and the value loss needs its
    gradient"""
    policy_without_gradient = edit("logits = => with torch.no_grad():\n    logits =")
    """the policy runs without gradient, as it should in a rollout only, and training calls this forward pass too"""
    head_without_what_follows = edit(f"{LOGITS} => self.policy.get_output_embeddings()({ALL_HIDDEN}{BEFORE})")
    """the head is called by itself, but some policies (Cohere, Gemma-2) scale or cap its output; call the whole
    policy"""


class ValuesAlone(Wrong, of="PolicyAndValue.response_values"):
    value_at_the_token_itself = edit(f"{BEFORE} => {AFTER}", read=SHIFT)
    """the column of the token itself is read, where the critic has already seen it, but V(s_t) is one position
    earlier"""
    value_after_the_end_kept = edit(": -1 => :", read=SHIFT)
    """you return T + 1 values, but there is no value after the last token, since the episode is over there"""
    policy_run_for_nothing = first(LOGITS)
    """the policy is run for nothing, and this method exists so that a rollout can do without that forward pass"""
    critic_without_the_prompt = edit(
        f"(input_ids, attention_mask){BEFORE} => "
        "(input_ids[:, prompt_length - 1 :], attention_mask[:, prompt_length - 1 :])[:, :-1]"
    )
    """the critic sees only the response, but V depends on the prompt as well"""


class OneBackbone(Wrong, of="SharedPolicyAndValue.forward"):
    head_by_itself = edit(f"{OWN_LOGITS} => {HEAD}")
    """the head is called by itself, but some policies (Cohere, Gemma-2) scale or cap its output; take output.logits"""
    head_by_its_name_in_gpt2 = edit(f"{OWN_LOGITS} => self.policy.lm_head(hidden)")
    """lm_head is the head's name in GPT-2 and Llama, and other models have other names; the logits are in the policy's
    output"""
    input_embeddings_taken_for_the_head = edit(f"{OWN_LOGITS} => hidden @ self.policy.get_input_embeddings().weight.T")
    """the input embeddings are taken as the head, which is right only where the two are tied; the logits are in the
    policy's output"""
    head_without_its_bias = edit(f"{OWN_LOGITS} => hidden @ self.policy.get_output_embeddings().weight.T")
    """only the head's weight is used, and some heads have a bias; the logits are in the policy's output"""
    backbone_run_twice = edit(f"{OWN_LOGITS} => {LOGITS}")
    """the backbone is run twice, once for each head, but sharing it is meant to save that forward pass"""
    value_loss_stops_at_the_head = edit("value_head(hidden) => value_head(hidden.detach())")
    """the value head reads detached hidden states, as in some programs, but here both losses train the backbone"""
    policy_loss_stops_at_the_head = edit(f"{OWN_LOGITS} => self.policy.get_output_embeddings()(hidden.detach())")
    """the logits are computed from detached hidden states, so the policy learns in its last layer only"""
    both_after_the_token = edit(f"{KEPT} => {KEPT_AT_THE_END}", f"{BEFORE} => {AFTER}", read=SHIFT)
    """both heads read the position of the token itself, but what predicts the token is one position earlier"""
    only_logits_shifted = edit(f"{BEFORE} => {AFTER}", read=SHIFT)
    """only the logits are shifted, but the values should be shifted as well, to the position before the token"""
    only_values_shifted = edit(f"{KEPT} => {KEPT_AT_THE_END}", read=SHIFT)
    """only the values are shifted, but the logits should be shifted as well, to the position before the token"""
    shared_words_for_the_prompt = edit(f"{KEPT}, => ", f"{OWN_LOGITS} => {OWN_LOGITS + BEFORE}")
    """you compute the whole vocabulary for the prompt and throw it away; logits_to_keep says which positions you
    need"""
    shared_backbone_counts_columns = edit(f"{POSITIONS}, => ")
    """the backbone gets no position_ids, so it counts columns, and padding on the left moves the text"""


class CriticFromRewardModel(Wrong, of="critic_from_reward_model"):
    bias_not_copied = edit(
        "critic.head = copy.deepcopy(reward_model.head) => "
        "critic.head = copy.deepcopy(reward_model.head)\nwith torch.no_grad():\n    critic.head.bias.zero_()"
    )
    """the head's weight is copied without its bias, so the values differ from the scores by a constant"""
    backbone_borrowed = edit("copy.deepcopy(reward_model.backbone) => reward_model.backbone")
    """the critic shares the reward model's own backbone, so training it changes the reward model too; deepcopy the
    backbone"""
    head_borrowed = edit("copy.deepcopy(reward_model.head) => reward_model.head")
    """the critic shares the reward model's own head and would train it, so deepcopy the head as well"""
    head_begins_at_random = edit(f"{HEAD_COPIED} => critic.to(reward_model.head.weight.dtype)")
    """the head starts at random, but the reward model's head contains what the model knows about scores"""
    backbone_begins_at_random = edit(
        "copy.deepcopy(reward_model.backbone) => type(reward_model.backbone)().to(reward_model.head.weight.dtype)"
    )
    """the backbone starts at random, so only the head of the reward model is used"""
    frozen_with_the_reward_model = edit(".requires_grad_(True) => ")
    """a copy of a frozen model is frozen, so this critic never learns; switch its gradients on"""
    only_the_new_head_trains = edit("return critic => critic.head", "(True) => (True)\nreturn critic")
    """the new head is trainable, but the copied backbone is as frozen as the reward model; switch the gradients of all
    of it on"""
    reward_model_thawed = first("reward_model.requires_grad_(True)")
    """the reward model itself is made trainable, but only the copy needs gradients"""
    reward_model_copied_whole = instead("return copy.deepcopy(reward_model).requires_grad_(True)")
    """a copy of the whole reward model still reads the last token only, and a critic is a ValueModel"""


class Freeze(Wrong, of="freeze"):
    dropout_left_on = edit(".eval() => ")
    """dropout is still on, because requires_grad_(False) doesn't switch it off; eval() does"""
    eval_taken_for_frozen = edit(".requires_grad_(False) => ")
    """eval() stops dropout, but not training, so the parameters still require gradients"""
    attribute_without_effect = edit("return model.requires_grad_(False) => model.requires_grad = False\nreturn model")
    """model.requires_grad = False creates an attribute that PyTorch ignores; use requires_grad_(False)"""
    nothing_returned = edit("return  => ")
    """nothing is returned, but the model itself should be"""
    eval_only_of_a_model_in_train_mode = edit(
        "return model.requires_grad_(False).eval() => "
        "if model.training:\n    model.eval()\nreturn model.requires_grad_(False)"
    )
    """eval() is skipped when the model itself is in eval mode, but a part of it can still be in train mode"""
    outermost_parameters_only = edit(
        "return model.requires_grad_(False) => "
        "for parameter in model.parameters(recurse=False):\n"
        "    parameter.requires_grad = False\n"
        "return model"
    )
    """with recurse=False only the parameters of the outermost module are frozen, and its layers are still trained"""
    only_the_outer_module_in_eval = edit("return => model.training = False\nreturn", ".eval() => ")
    """training = False sets the flag of the outermost module only, but eval() reaches every submodule"""


class MakeReference(Wrong, of="make_reference"):
    policy_is_its_own_reference = edit("copy.deepcopy(policy) => policy")
    """the weights aren't copied, so the policy freezes itself, and its KL to itself is always 0"""
    weights_shared_with_the_policy = edit("deepcopy => copy")
    """copy.copy shares the weights, so the reference follows every step of the policy, and the KL stays 0"""
    reference_with_dropout = edit(f"{POLICY_COPIED} => copy.deepcopy(policy).requires_grad_(False)")
    """dropout of the copy is on, so the KL at step 0 is noise instead of 0"""
    reference_still_trainable = edit(f"{POLICY_COPIED} => copy.deepcopy(policy).eval()")
    """the copy still requires gradients, so it costs memory, and an optimizer may change it"""
    policy_frozen_as_well = edit(f"{POLICY_COPIED} => copy.deepcopy(freeze(policy))")
    """the policy is frozen before it's copied, so it can no longer be trained; freeze the copy"""
    policy_left_in_eval_mode = first("policy.eval()")
    """the policy is left in eval mode, but it should be left as it was"""


class ReferenceMode(Wrong, of="reference_mode"):
    base_model_is_always_the_reference = edit("REFERENCE in policy.peft_config => False")
    """the adapters are always switched off, but a policy that started from an SFT adapter has that one as its
    reference"""
    policy_answers_for_the_reference = instead("with torch.no_grad():\n    yield policy", read=WRONG)
    """nothing is switched, so the policy is compared with itself, and the KL is always 0"""
    base_model_with_its_adapters = instead("with torch.no_grad():\n    yield policy.get_base_model()")
    """the base model inside still holds the adapter layers, and they have to be switched off"""
    reference_with_gradients = edit("with torch.no_grad(): => if True:")
    """gradients are on inside, but the reference is data, and its graph costs memory"""
    left_switched_by_an_exception = edit("try: => if True:", "finally: => if True:")
    """without try and finally an exception inside leaves the policy as the reference, and training then goes on with
    that"""
    requires_grad_not_restored = edit("parameter.requires_grad_(trainable[name]) => pass")
    """set_adapter and disable_adapter change which parameters require a gradient, and that isn't restored; store it
    before, restore it after"""
    requires_grad_restored_too_early = edit(
        "    policy.set_adapter(trained)\n => ",
        "(trainable[name]) => (trainable[name])\n    if REFERENCE in policy.peft_config:\n        "
        "policy.set_adapter(trained)",
    )
    """requires_grad is restored before set_adapter, which changes it once more; restore it last"""
    reference_stays_on = edit(
        "policy.set_adapter(trained) => pass", "parameter.requires_grad_(trainable[name]) => pass"
    )
    """the reference adapter stays on afterwards, so the trainer then trains the reference"""
    adapters_stay_off = edit("with policy.disable_adapter():\n     => policy.base_model.disable_adapter_layers()\n")
    """the adapters stay off afterwards, so the policy is then the bare base model"""
    first_other_adapter_switched_on = edit(
        "set_adapter(trained) => set_adapter(next((name for name in policy.peft_config if name != REFERENCE), trained))"
    )
    """afterwards the first adapter that isn't the reference is on, but it should be the one that was on before; ask
    active_adapter for it"""
    default_switched_on = edit('set_adapter(trained) => set_adapter("default")')
    """set_adapter("default") stands at the end, but the trained adapter may have another name; ask active_adapter for
    it"""
    exception_swallowed = edit("finally: => except Exception:\n    pass\nfinally:")
    """the exception is swallowed, but a context that restores things must let it through"""
    inference_mode_inside = edit("torch.no_grad() => torch.inference_mode()")
    """inference_mode gives tensors that no later gradient may touch, and training needs the log-probs; use no_grad"""
    eval_mode_left_on = first("policy.eval()")
    """the policy is left in eval mode, but afterwards everything should be as before"""
    train_mode_switched_on = edit("try: => policy.eval()\ntry:", "finally: => finally:\n    policy.train()")
    """train() switches on what was off before, but the caller sets the modes; evaluation_mode does that"""
