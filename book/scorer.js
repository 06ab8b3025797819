/* The order of the search's results: the text that explains a term comes before those that use it. */
"use strict";

const PLACES = [
  [/^tutorial\/lesson1[013]_/, 0],  // the hunt and the electives use every term of the other lessons
  [/^tutorial\/lesson\w+\/README$/, 9],
  [/^tutorial\/(README|glossary)$/, 7],
  [/^notebooks\//, 4],
  [/^(book\/made\/|CHANGELOG|CONTRIBUTING|testcases\/)/, -4],
];

var Scorer = {  // eslint-disable-line no-var
  score: ([docname, , , , score]) => score + (PLACES.find(([place]) => place.test(docname))?.[1] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
