// Package grammar says which tokens may come next, so that what a model writes is always valid: JSON by a schema, text
// by a regular expression or a grammar, or free text with constrained parts. It is pure: no files, clocks, goroutines
// or locks. It knows nothing of engines, models or requests. Read Compile, then Matcher.
//
// A grammar is a set of expressions (expr.go): regular ones, and above them sequences, choices, repetitions and rules
// that may be recursive. The automaton is never built as a whole. Its states are made when they are first reached:
//
//   - Within a regular expression a step is a Brzozowski derivative: what is left to match after one byte
//     (derive.go; Brzozowski, "Derivatives of Regular Expressions", 1964; Owens, Reppy and Turon, "Regular-expression
//     derivatives re-examined", 2009). Equal expressions are one expression, so they are a deterministic automaton.
//   - Above them a state is a set of pairs: a regular expression under way, and what follows it (state.go). What
//     follows is itself such a set, so the states are the stacks of a pushdown automaton that share their tails.
//
// A mask is found by walking the trie of the vocabulary and the automaton together (mask.go). The bulk of a vocabulary
// is plain words, so whether all of them fit is asked once for each of a few sets of words (slice.go).
package grammar
