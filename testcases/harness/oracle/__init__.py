"""The right answer: the reference and what it remembers, its named mutations, the stubs made from it."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .mutations import (
        Change,
        NamedChange,
        Planted,
        Published,
        PublishedAnswer,
        Right,
        RightAnswer,
        Suspect,
        Wrong,
        WrongAnswer,
        changed_source,
        edit,
        exists,
        first,
        instead,
        published_answers,
        region_text,
        right_answers,
        suspects,
        wrong_answers,
    )
    from .reference import Reference, calls_made, drawn, examples, kept, load, shared_reference, with_change
    from .stubs import all_stubs, emptied, stub, stubs_of, write_files

__getattr__ = face(__name__, __file__)
