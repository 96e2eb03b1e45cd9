// Package route decides which endpoint of a fleet gets a request: it filters the candidates, scores the rest and picks
// one (Fleet.Choose). Fleet is what it decides upon: the work in flight that it counts itself, what endpoints said of
// their load, which prompts went where, and how fast each one answers. It knows no sockets and no clock: a caller tells
// it what happened, and how long that took. Equal histories with equal seeds give equal decisions.
//
// Nothing here may be called from several goroutines at once. Read Fleet.Choose first.
package route
