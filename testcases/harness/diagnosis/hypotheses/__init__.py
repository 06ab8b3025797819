"""What may be wrong, tried on the reference: listed mistakes in pairs, changed arguments, changed code."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .argument_mutants import altered_questions, altered_twice
    from .code_mutants import edits_of, one_edit_variants
    from .mutation_bench import CHEAP, Bench, Hypothesis, definitions_in, distance, function_in, words_of
    from .pairs import listed_once, listed_twice
    from .repairs import OwnCode, Repair
    from .transforms import is_flags, is_float, last_true, shifted, up_to_the_last

__getattr__ = face(__name__, __file__)
