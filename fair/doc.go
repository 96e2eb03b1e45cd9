// Package fair decides which waiting request goes next, and which ones are turned away. Tenants get equal shares of
// service, or shares by weight, measured in what their requests cost: the virtual token counters of Sheng et al.,
// "Fairness in Serving Large Language Models" (OSDI 2024), with an estimate charged when a request goes and corrected
// when its cost is known. It knows no endpoints, no sockets and no clock: a caller says what time it is, in nanoseconds
// from any beginning.
//
// Nothing here may be called from several goroutines at once. Read Queue first.
package fair
