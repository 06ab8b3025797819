"""A real fast tokenizer for the toy environment: one token per word."""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from .language import VOCABULARY

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"
MAX_LENGTH = 64  # the longest prompt (10) and the longest review (16 and <eos>) take 27


def build_tokenizer(pad_is_eos: bool = False) -> PreTrainedTokenizerFast:
    """Build the word-level tokenizer, ready for generation: padding goes on the left.

    It adds no special token by itself: append `tokenizer.eos_token_id` to the ids of a finished review.
    `decode` is the exact inverse of `encode` on texts of the language. Any other word becomes <unk>.

    Args:
        pad_is_eos: let the pad token be the eos token, as many models on the Hub do. Every word keeps its id
            (<pad> stays in the vocabulary, unused), so a checkpoint fits both variants.

    Returns:
        A tokenizer with len(VOCABULARY) + 3 tokens that `AutoTokenizer` loads after `save_pretrained`.
    """
    vocabulary = {word: index for index, word in enumerate((PAD, EOS, UNK, *VOCABULARY))}
    words = Tokenizer(WordLevel(vocabulary, unk_token=UNK))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=EOS if pad_is_eos else PAD,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        model_max_length=MAX_LENGTH,
        model_input_names=["input_ids", "attention_mask"],
        # True would join "good ." to "good.", and encoding that again would give <unk>.
        clean_up_tokenization_spaces=False,
    )
