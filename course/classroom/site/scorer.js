// Pages of the course come before names of functions, and notebooks before all.
var Scorer = { // a page may load it twice
  score: ([page, , , , score]) =>
    score - (page.startsWith("api/") ? 100 : 0) + (page.startsWith("notebooks/") ? 10 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
