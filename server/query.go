package server

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/store"
)

// getQuery reads the parameters of a GET request. Those that nobody asked for are an error.
type getQuery struct {
	values map[string][]string
	wrong  error
}

func (q *getQuery) take(name string) string {
	v := q.values[name]
	delete(q.values, name)
	if len(v) > 1 {
		q.bad(name, "given %d times", len(v))
	}
	return cmp.Or(append(v, "")[0], "")
}

func (q *getQuery) bad(name, format string, args ...any) {
	if q.wrong == nil {
		q.wrong = wire.Invalid(name, wire.CodeInvalidValue, format, args...)
	}
}

func (q *getQuery) bool(name string) bool {
	v := q.take(name)
	if v != "" && v != "true" && v != "false" {
		q.bad(name, "expected true or false, found %q", wire.Clip([]byte(v)))
	}
	return v == "true"
}

func (q *getQuery) int(name string, otherwise, low, high int) int {
	v := q.take(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		q.bad(name, "expected an integer from %d to %d, found %q", low, high, wire.Clip([]byte(v)))
	}
	return n
}

// inert reads a parameter that is accepted only while it asks for nothing.
func (q *getQuery) inert(name, allowed string) {
	if v := q.take(name); v != "" && v != allowed {
		q.bad(name, "not supported, except as %s; found %q", allowed, wire.Clip([]byte(v)))
	}
}

// list drops a parameter that may be repeated, under any of its names, and asks for what answers have anyway.
func (q *getQuery) list(names ...string) {
	for _, name := range names {
		delete(q.values, name)
	}
}

// page reads the parameters of a list.
func (q *getQuery) page(limit int, order string) store.Page {
	p := store.Page{After: q.take("after"), Limit: q.int("limit", limit, 1, 10000)}
	switch o := cmp.Or(q.take("order"), order); o {
	case "asc":
	case "desc":
		p.Desc = true
	default:
		q.bad("order", "expected asc or desc, found %q", wire.Clip([]byte(o)))
	}
	return p
}

// err returns what is wrong with the parameters, once all that have a meaning are read.
func (q *getQuery) err() error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		q.bad(name, "this parameter is not supported")
	}
	return q.wrong
}
