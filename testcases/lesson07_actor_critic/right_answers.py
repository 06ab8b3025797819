"""Other ways to write actor and critic. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class Values(Right, of="ValueModel.forward"):
    last_feature_picked = edit(
        ".last_hidden_state", "[0]", ".squeeze(-1)", "[:, :, 0]", why="the first part of the output, and an index of 0"
    )
    head_by_hand = edit(
        "self.head(hidden).squeeze(-1)",
        "hidden @ self.head.weight[0] + self.head.bias",
        why="the linear head as a product with a vector",
    )
    positions_by_hand = edit(
        "attention_mask=attention_mask",
        "attention_mask=attention_mask.long()",
        "position_ids=position_ids(attention_mask)",
        "position_ids=(attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)",
        why="mask and positions as numbers; what stands on padding does not matter",
    )


class LogitsAndValues(Right, of="PolicyAndValue.forward"):
    head_on_the_response = instead(
        """
        hidden = self.policy.base_model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids(attention_mask)
        ).last_hidden_state
        logits = self.policy.get_output_embeddings()(hidden[:, prompt_length - 1 : -1])
        return ResponseOutputs(logits, self.response_values(input_ids, attention_mask, prompt_length))
        """,
        why="the backbone for the whole text, the head for the T positions before the response tokens",
    )
    places_named = instead(
        """
        values = self.response_values(input_ids, attention_mask, prompt_length)
        logits = self.policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            logits_to_keep=torch.arange(prompt_length - 1, input_ids.shape[1] - 1),
        ).logits
        return ResponseOutputs(logits=logits, values=values)
        """,
        why="logits_to_keep may be a tensor of places, so that nothing is dropped afterwards",
    )
    critic_called_here = edit(
        "self.response_values(input_ids, attention_mask, prompt_length)",
        "self.value_model(input_ids, attention_mask)[:, prompt_length - 1 : input_ids.shape[1] - 1]",
        why="the slice of the critic, written once more",
    )


class ValuesAlone(Right, of="PolicyAndValue.response_values"):
    narrowed = edit(
        "[:, prompt_length - 1 : -1]",
        ".narrow(1, prompt_length - 1, input_ids.shape[1] - prompt_length)",
        why="a start and a length",
    )
    last_token_not_shown = instead(
        "return self.value_model(input_ids[:, :-1], attention_mask[:, :-1])[:, prompt_length - 1 :]",
        why="nothing is predicted from the last token, and a causal critic need not read it",
    )


class OneBody(Right, of="SharedPolicyAndValue.forward"):
    head_as_a_function = edit(
        "logits = self.policy.get_output_embeddings()(hidden)",
        "head = self.policy.get_output_embeddings()\nlogits = nn.functional.linear(hidden, head.weight, head.bias)",
        why="the head's weight and bias, where it has one",
    )
    hidden_states_of_the_policy = instead(
        """
        output = self.policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            logits_to_keep=input_ids.shape[1] - prompt_length + 1,
            output_hidden_states=True,
        )
        hidden = output.hidden_states[-1][:, prompt_length - 1 : -1]
        return ResponseOutputs(output.logits[:, :-1], self.value_head(hidden)[..., 0])
        """,
        why="one forward pass of the policy, which also returns the hidden states",
    )
    backbone_run_here = edit(
        "self._response_hidden(input_ids, attention_mask, prompt_length)",
        "self.policy.base_model(input_ids=input_ids, attention_mask=attention_mask, "
        "position_ids=position_ids(attention_mask)).last_hidden_state[:, prompt_length - 1 : -1]",
        why="what the helper does, written out",
    )


class CriticFromRewardModel(Right, of="critic_from_reward_model"):
    whole_model_copied_once = instead(
        """
        copied = copy.deepcopy(reward_model)
        critic = ValueModel(copied.backbone)
        critic.head = copied.head
        for parameter in critic.parameters():
            parameter.requires_grad = True
        return critic
        """,
        why="one deep copy, taken apart",
    )
    weights_loaded = edit(
        "critic.head = copy.deepcopy(reward_model.head)",
        "critic.head.to(reward_model.head.weight).load_state_dict(reward_model.head.state_dict())",
        why="the new head is moved to dtype and device, and takes weight and bias",
    )


class Freeze(Right, of="freeze"):
    parameter_by_parameter = instead(
        """
        for parameter in model.parameters():
            parameter.requires_grad = False
        model.train(False)
        return model
        """,
        why="a loop, and train(False)",
    )
    eval_first = instead("return model.eval().requires_grad_(False)", why="the other order")


class MakeReference(Right, of="make_reference"):
    frozen_by_hand = instead(
        """
        reference = copy.deepcopy(policy).eval()
        for parameter in reference.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None
        return reference
        """,
        why="without freeze, and without the policy's gradients",
    )
    through_memory = instead(
        """
        import io

        stream = io.BytesIO()
        torch.save(policy, stream)
        stream.seek(0)
        return freeze(torch.load(stream, weights_only=False))
        """,
        why="saved and loaded",
    )


class ReferenceMode(Right, of="reference_mode"):
    one_stack = instead(
        """
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
        """,
        why="a stack of what has to be put back, in the reverse order",
    )
    one_yield = instead(
        """
        from contextlib import nullcontext

        trained, has_reference = policy.active_adapter, "reference" in policy.peft_config
        trainable = [parameter.requires_grad for parameter in policy.parameters()]
        try:
            if has_reference:
                policy.set_adapter("reference")
            with torch.no_grad(), nullcontext() if has_reference else policy.disable_adapter():
                yield policy
        finally:
            if has_reference:
                policy.set_adapter(trained)
            for parameter, flag in zip(policy.parameters(), trainable, strict=True):
                parameter.requires_grad = flag
        """,
        why="the branch chooses the context, and there is one yield",
    )
    layers_switched = instead(
        """
        trained = policy.active_adapter
        trainable = {parameter: parameter.requires_grad for parameter in policy.parameters()}
        was_on = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            if "reference" in policy.peft_config:
                policy.set_adapter("reference")
            else:
                policy.base_model.disable_adapter_layers()
            yield policy
        finally:
            torch.set_grad_enabled(was_on)
            policy.base_model.enable_adapter_layers()
            policy.set_adapter(trained)
            for parameter, flag in trainable.items():
                parameter.requires_grad_(flag)
        """,
        why="without context managers: what was switched is switched back",
    )
