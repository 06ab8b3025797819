"""Other right ways to write lesson 7, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead

from .mistakes import BEFORE, KEPT, KEPT_AT_THE_END, OWN_LOGITS


class RightValues(Right, of="ValueModel.forward"):
    last_feature_picked = edit(".last_hidden_state => [0]", ".squeeze(-1) => [:, :, 0]")
    """the first part of the output, and an index of 0"""
    positions_by_hand = edit(
        "attention_mask=attention_mask => attention_mask=attention_mask.long()",
        "position_ids=position_ids(attention_mask) => "
        "position_ids=(attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)",
    )
    """mask and positions as numbers; what stands on padding does not matter"""


class RightLogitsAndValues(Right, of="PolicyAndValue.forward"):
    places_named = instead("""
        values = self.response_values(input_ids, attention_mask, prompt_length)
        logits = self.policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            logits_to_keep=torch.arange(prompt_length - 1, input_ids.shape[1] - 1),
        ).logits
        return ResponseOutputs(logits=logits, values=values)
    """)
    """logits_to_keep may be a tensor of places, so that nothing is dropped afterwards"""
    critic_called_here = edit(
        "self.response_values(input_ids, attention_mask, prompt_length) => "
        "self.value_model(input_ids, attention_mask)[:, prompt_length - 1 : input_ids.shape[1] - 1]"
    )
    """the slice of the critic, written once more"""


class RightValuesAlone(Right, of="PolicyAndValue.response_values"):
    narrowed = edit("[:, prompt_length - 1 : -1] => .narrow(1, prompt_length - 1, input_ids.shape[1] - prompt_length)")
    """a start and a length"""
    last_token_not_shown = instead(
        "return self.value_model(input_ids[:, :-1], attention_mask[:, :-1])[:, prompt_length - 1 :]"
    )
    """nothing is predicted from the last token, and a causal critic need not read it"""


class RightOneBackbone(Right, of="SharedPolicyAndValue.forward"):
    last_logits_dropped = edit(f"{KEPT} => {KEPT_AT_THE_END} + 1", f"{OWN_LOGITS} => {OWN_LOGITS}[:, :-1]")
    """logits_to_keep as a number counts from the end; what would come after the response is dropped"""
    values_cut_afterwards = edit(f"{BEFORE} => ", f"(hidden).squeeze(-1) => (hidden)[..., 0]{BEFORE}")
    """the value head reads every position, and the response's values are cut out of it"""


class RightCriticFromRewardModel(Right, of="critic_from_reward_model"):
    whole_model_copied_once = instead("""
        copied = copy.deepcopy(reward_model)
        critic = ValueModel(copied.backbone)
        critic.head = copied.head
        for parameter in critic.parameters():
            parameter.requires_grad = True
        return critic
    """)
    """one deep copy, taken apart"""
    weights_loaded = edit(
        "critic.head = copy.deepcopy(reward_model.head) => "
        "critic.head.to(reward_model.head.weight).load_state_dict(reward_model.head.state_dict())"
    )
    """the new head is moved to dtype and device, and takes weight and bias"""


class RightFreeze(Right, of="freeze"):
    eval_first = instead("return model.eval().requires_grad_(False)")
    """the other order"""


class RightMakeReference(Right, of="make_reference"):
    through_memory = instead("""
        import io

        stream = io.BytesIO()
        torch.save(policy, stream)
        stream.seek(0)
        return freeze(torch.load(stream, weights_only=False))
    """)
    """saved and loaded"""
    built_from_its_config = instead("""
        with torch.random.fork_rng(devices=[]):
            twin = type(policy)(copy.deepcopy(policy.config))
        twin.to(dtype=next(policy.parameters()).dtype, device=next(policy.parameters()).device)
        twin.load_state_dict(policy.state_dict())
        return freeze(twin)
    """)
    """a new model of the same class and config, with the policy's weights loaded"""


class RightReferenceMode(Right, of="reference_mode"):
    one_stack = instead("""
        from contextlib import ExitStack

        trained = policy.active_adapter
        learning = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        with ExitStack() as stack:
            stack.callback(lambda: [parameter.requires_grad_(True) for parameter in learning])
            stack.callback(policy.requires_grad_, False)
            stack.callback(policy.set_adapter, trained)
            stack.enter_context(torch.no_grad())
            if REFERENCE in policy.peft_config:
                policy.set_adapter(REFERENCE)
            else:
                stack.enter_context(policy.disable_adapter())
            yield policy
    """)
    """a stack of what has to be put back, in the reverse order"""
    layers_switched = edit(
        "with policy.disable_adapter():\n                yield policy => "
        "policy.base_model.disable_adapter_layers()\n            yield policy",
        "finally:\n => finally:\n    policy.base_model.enable_adapter_layers()\n",
    )
    """without the context manager of peft: what was switched is switched back"""


class PublishedValues(Published, of="ValueModel.forward"):
    openrlhf = instead("""
        places = attention_mask.long().cumsum(-1) - 1
        places = places.masked_fill(attention_mask == 0, 1)
        states = self.backbone(input_ids, attention_mask=attention_mask, position_ids=places, use_cache=False)
        return self.head(states.last_hidden_state).squeeze(-1)
    """)
    """OpenRLHF, its critic: position 1 on padding, where no value means anything"""


class PublishedFreeze(Published, of="freeze"):
    trl = instead("""
        for parameter in model.parameters():
            parameter.requires_grad = False
        return model.eval()
    """)
    """TRL, create_reference_model, without its copy"""
